# Llama 3 405B, the phase at 8K tokens: Grattafiori et al. 2024, "The Llama 3 Herd of Models"
# (arXiv 2407.21783), table 4 and section 3.3.2.
# Published: 430 TFLOP/s per GPU (MFU 43 %) on 8,192 H100, 64 replicas; 400 (41 %) on 16,384, 128.
# Its first chunk of layers is only the embedding, its last only head and loss: embedding and loss
# count as layers, and a chunk is one. It shards states and sums of gradients (FSDP, weights stay
# collected); here the optimizer's states are sharded. For its tensor parallelism it cites Korthikanti et
# al. 2022, whose peers share tokens between products. Its later phase at 128K tokens has
# 16-way context parallelism.
#
#   stagecraft import megatron llama3-405b.sh --model llama3-405b --cluster 1024xhgx-h100
torchrun --nnodes 1024 --nproc-per-node 8 pretrain_gpt.py \
  --num-layers 126 --hidden-size 16384 --ffn-hidden-size 53248 --num-attention-heads 128 \
  --group-query-attention --num-query-groups 8 --swiglu --normalization RMSNorm \
  --disable-bias-linear --untie-embeddings-and-output-weights \
  --seq-length 8192 --position-embedding-type rope \
  --tensor-model-parallel-size 8 --context-parallel-size 1 --pipeline-model-parallel-size 16 \
  --num-virtual-stages-per-pipeline-rank 8 --sequence-parallel \
  --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split \
  --micro-batch-size 1 --global-batch-size 2048 \
  --optimizer adam --use-distributed-optimizer --bf16
