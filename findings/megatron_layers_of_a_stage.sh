#!/usr/bin/env bash
# Megatron's answer to which layers a stage holds, which with a layout is always about the caller's own.
#
# `get_num_layers_to_build` and `get_transformer_layer_offset` take the stage they are asked about, as
# `pp_rank` and `vp_stage`. With megatron-core 0.19.2 (and 0.16.1) that holds for layers spread evenly, for
# a first or last stage of its own size, and where embedding and loss count as layers. With a
# `pipeline_model_parallel_layout`:
#
#   pp_rank    is not handed on: each process answers with its own rank's share, whatever it is asked, so
#              one that lists all stages repeats one of them and, here, has 8 of 12 layers
#   vp_stage   counts only where the process has set up virtual stages of its own; otherwise it is 0
#
# The layout's own methods, told `pp_rank`, answer right. And one arrangement that validation lets pass has
# no answer: two ranks with virtual stages, both sizes given, so that no stage is left between first and
# last. How many layers each builds is known, where they begin is a division by zero.
#
# Needs python3 with venv, and the network; no GPU (torch, 5 GB, for some minutes). The package is unpacked,
# not installed, as its wheels are for Python 3.12 and later. Ends with 1 if it does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 numpy packaging
venv/bin/pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --python-version 3.12 megatron-core==0.19.2
venv/bin/python -m zipfile -e megatron_core-*.whl .

cat > stages.py <<'CODE'
import sys

import megatron.core
import torch
from megatron.core import parallel_state
from megatron.core.transformer.transformer_block import get_num_layers_to_build
from megatron.core.transformer.transformer_config import TransformerConfig
from megatron.core.transformer.transformer_layer import get_transformer_layer_offset


def config_of(ranks, **how):
    return TransformerConfig(hidden_size=64, num_attention_heads=4, pipeline_dtype=torch.bfloat16,
                             pipeline_model_parallel_size=ranks, **how)


def layers(config, rank, chunk=None):
    begin = get_transformer_layer_offset(config, vp_stage=chunk, pp_rank=rank)
    return list(range(begin, begin + get_num_layers_to_build(config, vp_stage=chunk, pp_rank=rank)))


def listed(name, stages, wanted):
    print(f"{name:28}", *stages)
    return stages == wanted


print("megatron-core", megatron.core.__version__)
parallel_state.set_pipeline_model_parallel_world_size(4)
parallel_state.set_pipeline_model_parallel_rank(0)
right = [[0, 1], [2, 3, 4, 5], [6, 7, 8, 9], [10, 11]]
sizes = config_of(4, num_layers=12, num_layers_in_first_pipeline_stage=2, num_layers_in_last_pipeline_stage=2)
as_stated = listed("first and last stage of 2", [layers(sizes, rank) for rank in range(4)], right)

layout = config_of(4, num_layers=12, pipeline_model_parallel_layout="Ett|tttt|tttt|ttL")
own = layout.pipeline_model_parallel_layout
as_stated &= listed("the layout's own methods", [own.get_layer_id_list(pp_rank=rank) for rank in range(4)], right)
for caller in (0, 1):
    parallel_state.set_pipeline_model_parallel_rank(caller)
    stages = [layers(layout, rank) for rank in range(4)]
    as_stated &= listed(f"a layout, asked by rank {caller}", stages, [right[caller]] * 4)

parallel_state.set_pipeline_model_parallel_world_size(2)
parallel_state.set_pipeline_model_parallel_rank(0)
evenly = config_of(2, num_layers=12, virtual_pipeline_model_parallel_size=2)
as_stated &= listed("rank 0 of 2, two chunks each", [layers(evenly, 0, chunk) for chunk in (0, 1)],
                    [[0, 1, 2], [6, 7, 8]])
chunks = config_of(2, num_layers=12, pipeline_model_parallel_layout="Ett|tttt|tttt|ttL")
as_stated &= listed("the same, by a layout", [layers(chunks, 0, chunk) for chunk in (0, 1)], [[0, 1], [0, 1]])

both = config_of(2, num_layers=12, virtual_pipeline_model_parallel_size=2,
                 num_layers_in_first_pipeline_stage=4, num_layers_in_last_pipeline_stage=8)
counts = [get_num_layers_to_build(both, vp_stage=chunk, pp_rank=rank) for chunk in (0, 1) for rank in (0, 1)]
print("two ranks of 4 and 8 layers, two chunks each: layers to build", counts, end="; ")
try:
    print("begin at", get_transformer_layer_offset(both, vp_stage=0, pp_rank=1))
    as_stated = False
except ZeroDivisionError as error:
    print("where they begin: ZeroDivisionError:", error)
sys.exit(0 if as_stated and counts == [2, 4, 2, 4] else 1)
CODE
if PYTHONPATH=. venv/bin/python -W ignore stages.py > said 2> complaints; then
  cat said
else
  cat said complaints
  exit 1
fi
