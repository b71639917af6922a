#!/usr/bin/env bash
# Zero-bubble schedules that never train the stage behind a frozen one.
#
# torch.distributed.pipelining splits a backward into one for inputs and one for weights where a
# schedule asks for it. With torch 2.15.0 a stage whose inputs need no gradient (the stage before it is
# frozen, as embeddings are in fine-tuning) gets no gradient of its weights from the two halves, and
# nothing is said: the optimizer skips `grad is None`. Four linear layers on two ranks, the first frozen:
# under Interleaved1F1B, which does not split, stage 1 has a gradient; under ZBVZeroBubble it has none.
#
# Needs python3 with venv, and the network; no GPU (torch, 5 GB, for some minutes). Ends with 1 if torch
# does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 numpy

cat > train.py <<'CODE'
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import ScheduleInterleaved1F1B, ScheduleZBVZeroBubble


def layers():
    torch.manual_seed(0)
    model = [torch.nn.Linear(4, 4) for _ in range(4)]
    model[0].requires_grad_(False)  # as an embedding that is not trained
    return model


def train(rank, port, queue, name):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    kind, own = {"Interleaved1F1B": (ScheduleInterleaved1F1B, [rank, rank + 2]),
                 "ZBVZeroBubble": (ScheduleZBVZeroBubble, [rank, 3 - rank])}[name]
    model = layers()
    stages = [PipelineStage(model[s], s, 4, torch.device("cpu")) for s in own]
    schedule = kind(stages, 2, loss_fn=torch.nn.functional.mse_loss)
    generator = torch.Generator().manual_seed(1)
    inputs, target = torch.randn(4, 4, generator=generator), torch.zeros(4, 4)
    schedule.step(*([inputs] if rank == 0 else []), **({"target": target} if 3 in own else {}))
    for s in own:
        gradient = model[s].weight.grad
        queue.put((name, s, None if gradient is None else float(gradient.norm())))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    queue = mp.get_context("spawn").Queue()
    norms = {}
    print("torch", torch.__version__)
    for name in ("Interleaved1F1B", "ZBVZeroBubble"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = mp.spawn(train, (port, queue, name), nprocs=2, join=False)
        for _ in range(4):
            schedule, stage, norm = queue.get(timeout=120)
            norms[schedule, stage] = norm
        context.join()
        for stage in range(4):
            norm = norms[name, stage]
            print(f"{name:15}  stage {stage}  gradient of its weight:",
                  "none" if norm is None else f"norm {norm:.6f}")
    same = all(norms["Interleaved1F1B", s] == norms["ZBVZeroBubble", s] for s in (2, 3))
    lost = norms["Interleaved1F1B", 1] is not None and norms["ZBVZeroBubble", 1] is None
    sys.exit(0 if same and lost else 1)
CODE
venv/bin/python -W ignore train.py
