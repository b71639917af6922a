#!/usr/bin/env bash
# Megatron-LM with megatron-core 0.19.2, on mock data. Here: bash FILE; under Slurm: srun --nodes 1 --ntasks 1 bash FILE
torchrun --nnodes 1 --nproc-per-node 2 pretrain_gpt.py \
  --num-layers 8 \
  --pipeline-model-parallel-size 2 \
  --tensor-model-parallel-size 1 \
  --micro-batch-size 1 \
  --global-batch-size 4 \
  --seq-length 8 \
  --optimizer adam \
  --hidden-size 64 \
  --ffn-hidden-size 256 \
  --num-attention-heads 4 \
  --max-position-embeddings 64 \
  --position-embedding-type learned_absolute \
  --normalization LayerNorm \
  --norm-epsilon 1e-05 \
  --mock-data \
  --tokenizer-type NullTokenizer \
  --vocab-size 256 \
  --lr 1e-4 \
  --train-iters 20 \
  --eval-iters 0
