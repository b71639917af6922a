A=2
for x in 1 2; do ARGS+=" --num-layers 8"; done
torchrun --nproc-per-node ${N:-2} pretrain_gpt.py $ARGS --pipeline-model-parallel-size $((A*1)) --micro-batch-size 1 --global-batch-size 4 --seq-length 8 --hidden-size 64 --num-attention-heads 4
