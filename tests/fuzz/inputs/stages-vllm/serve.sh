#!/usr/bin/env bash
export VLLM_PP_LAYER_PARTITION=4,4
vllm serve org/model \
  --pipeline-parallel-size 2 --tensor-parallel-size 1 \
  --dtype bfloat16 --max-model-len 8
