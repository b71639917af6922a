# BLOOM 176B: BigScience Workshop 2022 (arXiv 2211.05100), section 3.4; the flags are those of
# bigscience-workshop/bigscience, train/tr11-176B-ml, in today's spelling: embedding and head count
# as layers, so that 72 stand on 12 stages; the bf16 optimizer shards its states over replicas.
# Published: about 150 TFLOP/s per GPU (model card; 156 at best), recomputation counted, on 48 nodes
# of 8 A100 (80 GB) with four links of 100 Gb/s each.
#
#   stagecraft import megatron bloom-176b.sh --model bloom-176b --cluster 48x8xa100-80gb@50Gb/s
torchrun --nnodes 48 --nproc-per-node 8 pretrain_gpt.py \
  --num-layers 70 --hidden-size 14336 --num-attention-heads 112 \
  --seq-length 2048 --max-position-embeddings 2048 --position-embedding-type alibi \
  --tensor-model-parallel-size 4 --pipeline-model-parallel-size 12 \
  --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split \
  --micro-batch-size 2 --global-batch-size 2048 \
  --recompute-granularity full --recompute-method uniform --recompute-num-layers 1 \
  --optimizer adam --use-distributed-optimizer --bf16
