#!/usr/bin/env bash
# A tied weight that DeepSpeed's pipeline leaves out of its checkpoint, or reads back and overwrites.
#
# A `TiedLayerSpec` may say how its module is used, by `forward_fn`, since an embedding that is tied to the
# head is used in two ways. DeepSpeed 0.19.8 wraps such a use in a function, and writes a file only for
# layers that have a state of their own, so the weight goes into the checkpoint through a use without
# `forward_fn` alone. Where the first use has none, all is well; that is how the common examples do it.
# Otherwise the checkpoint is written and loaded without a word:
#
#   both uses have one       no file holds the weight: after loading it is what initialisation made it
#   only the first has one   the last stage writes the weight and reads it back; then the first stage,
#                            which read nothing, sends out its fresh copy, and both stages train on that
#                            (with one stage there is nobody to send, and it comes back)
#
# Here each engine is saved and another, of another seed, loads it: all other layers come back.
#
# Needs python3 with venv, g++ and the network; no GPU (torch, 5 GB, for some minutes). Ends with 1 if
# DeepSpeed does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 numpy setuptools wheel
DS_BUILD_OPS=0 venv/bin/pip install --quiet --disable-pip-version-check --no-build-isolation deepspeed==0.19.8

cat > tied.py <<'CODE'
import os
import socket
import sys

import torch
import torch.multiprocessing as mp
from torch.nn import functional

VOCABULARY, WIDTH = 11, 8


def as_table(module, tokens):
    return functional.embedding(tokens, module.weight)


def as_head(module, hidden):
    return functional.linear(hidden, module.weight)


# How the tied module is used first and last; None: by its own forward().
USES = {"last only": (torch.nn.Embedding, (VOCABULARY, WIDTH), None, as_head),
        "first only": (torch.nn.Linear, (WIDTH, VOCABULARY, False), as_table, None),
        "both": (torch.nn.Embedding, (VOCABULARY, WIDTH), as_table, as_head)}


def engine_of(seed, use, stages):
    import deepspeed
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
    kind, sizes, first, last = USES[use]
    torch.manual_seed(seed)
    net = PipelineModule(
        [TiedLayerSpec("table", kind, *sizes, forward_fn=first),
         LayerSpec(torch.nn.Linear, WIDTH, WIDTH),
         LayerSpec(torch.nn.Linear, WIDTH, WIDTH),
         TiedLayerSpec("table", kind, *sizes, forward_fn=last)],
        num_stages=stages, loss_fn=functional.cross_entropy, partition_method="uniform")
    config = {"train_batch_size": 2, "train_micro_batch_size_per_gpu": 2,
              "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
    return deepspeed.initialize(model=net, model_parameters=list(net.parameters()), config=config)[0]


def save_and_load(rank, stages, port, use, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank),
                      LOCAL_RANK=str(rank), WORLD_SIZE=str(stages))
    import deepspeed
    deepspeed.init_distributed("gloo", verbose=False)
    checkpoint = f"{stages}-{use}"
    saved = engine_of(1, use, stages)
    saved.save_checkpoint(checkpoint, tag="here")
    loaded = engine_of(2, use, stages)
    loaded.load_checkpoint(checkpoint, tag="here")
    for (name, before), (_, after) in zip(saved.module.named_parameters(), loaded.module.named_parameters()):
        queue.put((name, torch.equal(before, after)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    as_stated = True
    for stages in (1, 2):
        for use in USES:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            queue = mp.get_context("spawn").Queue()
            context = mp.spawn(save_and_load, (stages, port, use, queue), nprocs=stages, join=False)
            came_back = [queue.get(timeout=300) for _ in range(4 + stages)]
            context.join()
            tied = {same for name, same in came_back if name.startswith("tied")}
            others = {same for name, same in came_back if not name.startswith("tied")}
            files = len([name for name in os.listdir(f"{stages}-{use}/here") if name.startswith("layer_")])
            print(f"RESULT {stages} stages, forward_fn {use:10}: {files} layers written; tied weight",
                  "came back" if tied == {True} else "lost" if tied == {False} else "differs",
                  "and the others", "came back" if others == {True} else "did not", flush=True)
            kept = use == "last only" or (use == "first only" and stages == 1)
            as_stated = as_stated and tied == {kept} and others == {True}
    sys.exit(0 if as_stated else 1)
CODE
if DS_ACCELERATOR=cpu PATH="$folder/venv/bin:$PATH" venv/bin/python -W ignore tied.py > said 2>&1; then
  venv/bin/pip show deepspeed 2> said.pip | sed -n '1,2p'
  grep '^RESULT' said
else
  cat said
  exit 1
fi
