# Nemotron-4 340B: NVIDIA 2024, technical report (arXiv 2406.11704), section 2.3 and table 2.
# Published: 8.0 s a step, model FLOPs utilisation 41.0 %, on 768 DGX H100 with 64 replicas.
# The report names no microbatch and no virtual stages: 1 and 8 are NVIDIA NeMo's recipe for it
# (nemo/collections/llm/recipes/nemotron4_340b.py).
#
#   stagecraft import megatron nemotron4-340b.sh --model nemotron4-340b --cluster 768xhgx-h100
torchrun --nnodes 768 --nproc-per-node 8 pretrain_gpt.py \
  --num-layers 96 --hidden-size 18432 --ffn-hidden-size 73728 --num-attention-heads 96 \
  --group-query-attention --num-query-groups 8 --squared-relu --disable-bias-linear \
  --seq-length 4096 --position-embedding-type rope --untie-embeddings-and-output-weights \
  --tensor-model-parallel-size 8 --pipeline-model-parallel-size 12 \
  --num-virtual-stages-per-pipeline-rank 8 --sequence-parallel \
  --micro-batch-size 1 --global-batch-size 2304 \
  --optimizer adam --use-distributed-optimizer --bf16
