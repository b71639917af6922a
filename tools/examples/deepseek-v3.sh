# DeepSeek-V3: DeepSeek-AI 2024, technical report (arXiv 2412.19437), sections 3.2 and 4.2.
# Published: 2,048 H800, 16-way pipeline (DualPipe), 64-way expert parallelism over 8 nodes, ZeRO-1,
# no tensor parallelism, batch 15,360 of 4,096 tokens.
# Plans have no expert parallelism, and the import says so.
torchrun --nnodes 256 --nproc-per-node 8 pretrain_gpt.py \
  --num-layers 61 --mtp-num-layers 1 --hidden-size 7168 --num-attention-heads 128 \
  --multi-latent-attention --num-experts 256 --moe-router-topk 8 \
  --seq-length 4096 --pipeline-model-parallel-size 16 --expert-model-parallel-size 64 \
  --micro-batch-size 1 --global-batch-size 15360 \
  --optimizer adam --use-distributed-optimizer --bf16
