# Megatron-Turing NLG 530B: Smith et al. 2022, "Using DeepSpeed and Megatron to Train
# Megatron-Turing NLG 530B" (arXiv 2201.11990), sections 2.3 and 2.4.
# Published: 60.1 s, 50.2 s and 44.4 s a step on 280, 350 and 420 DGX A100 (80 GB, HDR InfiniBand),
# 126, 121 and 113 TFLOP/s per GPU.
#
#   stagecraft import megatron mt-nlg-530b.sh --model mt-nlg-530b --cluster 280xdgx-a100
torchrun --nnodes 280 --nproc-per-node 8 pretrain_gpt.py \
  --num-layers 105 --hidden-size 20480 --num-attention-heads 128 \
  --seq-length 2048 --max-position-embeddings 2048 \
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 35 \
  --micro-batch-size 1 --global-batch-size 1920 \
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
  --optimizer adam --bf16
