#!/usr/bin/env bash
# V-shaped schedules that train a pipeline and cannot evaluate it.
#
# Every schedule of torch.distributed.pipelining has `eval`, the forward of a batch alone. With torch 2.15.0
# it follows the schedule's whole list of actions and lets the backward ones do nothing, but for one:
# where a rank holds two neighbouring stages, the gradient between them is handed over in place, and that
# hand-over insists on a backward ("can't steal_bwd_input if this stage doesn't have backward"). In a
# V-shaped schedule the last rank always holds two neighbours, so ZBVZeroBubble and DualPipeV never
# evaluate, whatever the number of ranks, before training or after; interleaved and looped ones do, from two
# ranks on, and fail on one. A training loop finds out at its first validation.
#
# Below, one rank holds both stages of a two-stage model. GPipe, with the two as one stage, evaluates.
#
# Needs python3 with venv, and the network; no GPU (torch, 5 GB, for some minutes). Ends with 1 if torch
# does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 numpy

cat > evaluate.py <<'CODE'
import logging
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules

NAMES = ["ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleZBVZeroBubble", "ScheduleDualPipeV"]


def outcome(run):
    try:
        run()
    except AssertionError as error:
        return f"AssertionError: {error}"
    return "fine"


logging.disable(logging.CRITICAL)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
dist.init_process_group("gloo", rank=0, world_size=1)
inputs, target = torch.randn(8, 4), torch.zeros(8, 4)
print("torch", torch.__version__)
as_stated = True
for name in NAMES:
    layers = [torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)]
    if name == "ScheduleGPipe":
        stages = PipelineStage(torch.nn.Sequential(*layers), 0, 1, torch.device("cpu"))
    else:
        stages = [PipelineStage(layer, s, 2, torch.device("cpu")) for s, layer in enumerate(layers)]
    schedule = getattr(schedules, name)(stages, 4, loss_fn=torch.nn.functional.mse_loss)
    trains = outcome(lambda: schedule.step(inputs, target=target))
    evaluates = outcome(lambda: schedule.eval(inputs, target=target))
    print(f"{name:23} step: {trains}; eval: {evaluates}")
    wanted = "fine" if name == "ScheduleGPipe" else "AssertionError: can't steal_bwd_input"
    as_stated = as_stated and trains == "fine" and evaluates.startswith(wanted)
dist.destroy_process_group()
sys.exit(0 if as_stated else 1)
CODE
venv/bin/python -W ignore evaluate.py
