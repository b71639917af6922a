STAGES=${STAGES:-2}
docker run --gpus all -e VLLM_PP_LAYER_PARTITION="4,4" vllm/vllm-openai:v0.33.0 --model org/model --pipeline-parallel-size $STAGES
