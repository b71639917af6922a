#!/usr/bin/env bash
# Stages of a pipeline that start from the same weights, and a remedy that the default does not take.
#
# A `LayerSpec` of DeepSpeed is a layer yet to be built, and a `PipelineModule` of them builds on each rank
# only the layers of its stage. With DeepSpeed 0.19.8 each rank draws these from its random generator as
# it stands. Where every rank has set the same seed, which is the custom and keeps data-parallel copies
# alike, the first layer of each stage is drawn from the same numbers, and so are the second ones: a model
# of four equal layers on two stages starts as two copies of two layers, without a word. On one stage the
# four differ. They also depend on the partition method, as "parameters", the default, first builds every
# layer to count it, and throws it away.
#
# `seed_layers=True` is there to give each layer a seed by its index. With partition_method="uniform" it
# does, and the weights no longer depend on the number of stages. By default it raises a TypeError: that
# partition yields numpy's integers, a layer's index becomes one, and Python's `random.seed`, since Python
# 3.11, takes none.
#
# Needs python3 from 3.11 on with venv, g++ and the network; no GPU (torch, 5 GB, for some minutes). Ends with 1 if
# DeepSpeed does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 numpy setuptools wheel
DS_BUILD_OPS=0 venv/bin/pip install --quiet --disable-pip-version-check --no-build-isolation deepspeed==0.19.8

cat > twins.py <<'CODE'
import os
import socket
import sys

import torch
import torch.multiprocessing as mp

LAYERS = 4


def build(rank, stages, port, seed_layers, method, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      LOCAL_RANK=str(rank), WORLD_SIZE=str(stages))
    import deepspeed
    from deepspeed.pipe import LayerSpec, PipelineModule
    deepspeed.init_distributed("gloo", verbose=False)
    torch.manual_seed(1)
    try:
        net = PipelineModule([LayerSpec(torch.nn.Linear, 8, 8) for _ in range(LAYERS)], num_stages=stages,
                             loss_fn=torch.nn.functional.mse_loss, seed_layers=seed_layers,
                             partition_method=method)
        drawn = {int(name.split(".")[0]): weight.tolist() for name, weight in net.named_parameters()
                 if name.endswith("weight")}
    except TypeError as error:
        drawn = str(error).replace("\n", " ")
    queue.put(drawn)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def weights(stages, seed_layers, method):
    """Of each layer, in order; where building them failed, what was said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queue = mp.get_context("spawn").Queue()
    context = mp.spawn(build, (stages, port, seed_layers, method, queue), nprocs=stages, join=False)
    parts = [queue.get(timeout=300) for _ in range(stages)]
    context.join()
    failures = [part for part in parts if isinstance(part, str)]
    if failures:
        return f"TypeError: {failures[0]}"
    found = {layer: weight for part in parts for layer, weight in part.items()}
    return [found[layer] for layer in range(LAYERS)]


if __name__ == "__main__":
    found = {}
    for seed_layers, method in [(False, "parameters"), (False, "uniform"), (True, "uniform"), (True, "parameters")]:
        for stages in (1, 2):
            drawn = weights(stages, seed_layers, method)
            found[stages, seed_layers, method] = drawn
            names = [drawn] if isinstance(drawn, str) else [f"w{drawn.index(weight)}" for weight in drawn]
            # The same name: the same weights.
            print(f"RESULT {stages} stages, seed_layers={seed_layers!s:5}, {method:10}:", *names, flush=True)
    refused = {key for key, drawn in found.items() if isinstance(drawn, str)}
    as_stated = refused == {(1, True, "parameters"), (2, True, "parameters")}
    for (stages, seed_layers, method), drawn in found.items():
        if not isinstance(drawn, str):
            twins = stages == 2 and not seed_layers
            as_stated = as_stated and len({str(weight) for weight in drawn}) == (2 if twins else LAYERS)
            as_stated = as_stated and (drawn[:2] == drawn[2:]) == twins
    as_stated = as_stated and found[1, True, "uniform"] == found[2, True, "uniform"]
    as_stated = as_stated and found[1, False, "parameters"] != found[1, False, "uniform"]
    sys.exit(0 if as_stated else 1)
CODE
if DS_ACCELERATOR=cpu PATH="$folder/venv/bin:$PATH" venv/bin/python -W ignore twins.py > said 2>&1; then
  grep '^RESULT' said
else
  cat said
  exit 1
fi
