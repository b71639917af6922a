# DeepSeek-V3: DeepSeek-AI 2024, technical report (arXiv 2412.19437), sections 3.2, 4.2 and table 1.
# Published: 180,000 GPU hours for 10^12 tokens, so 19.9 s for a batch of 15,360 x 4,096 tokens, on
# 2,048 H800 (NVLink halved, 200 GB/s in one direction), with 16 stages, 64-way expert parallelism
# over 8 nodes of which a token's experts are on 4 at most, ZeRO-1, no tensor parallelism, products
# in FP8, norms and latent projections recomputed, tokens sent by what is DeepEP today. It runs
# DualPipe, which is no flag of Megatron-LM: here 1F1B, four layers on each stage.
#
#   stagecraft import megatron deepseek-v3.sh --model deepseek-v3 --cluster 256x8xh100@50GB/s,200GB/s
torchrun --nnodes 256 --nproc-per-node 8 pretrain_gpt.py \
  --num-layers 61 --mtp-num-layers 1 --hidden-size 7168 --num-attention-heads 128 \
  --multi-latent-attention --num-experts 256 --moe-router-topk 8 \
  --moe-router-num-groups 8 --moe-router-group-topk 4 \
  --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend deepep \
  --seq-length 4096 --pipeline-model-parallel-size 16 --expert-model-parallel-size 64 \
  --pipeline-model-parallel-layout "Et*4|(t*4|)*14,tmL" \
  --micro-batch-size 1 --global-batch-size 15360 \
  --optimizer adam --use-distributed-optimizer --bf16 --fp8-format hybrid --fp8-recipe blockwise \
  --recompute-granularity selective --recompute-modules mla_up_proj layernorm
