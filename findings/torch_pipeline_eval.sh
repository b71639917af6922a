#!/usr/bin/env bash
# Stages that say they are in evaluation mode, and drop out and learn statistics all the same.
#
# torch.distributed.pipelining's `pipeline()` cuts a model that torch.export has traced, and a trace holds
# the mode of that moment as a constant. An exported program refuses `eval()` and `train()` for this reason;
# a stage cut from one, with torch 2.15.0, takes both, sets `training`, and computes as before:
#
#   traced in training mode, then eval()     dropout still drops, batch normalisation takes the batch's
#                                            own statistics and goes on moving the running ones, so
#                                            validation changes the model
#   traced in evaluation mode, then train()  no dropout, and the running statistics stand still
#
# The model that was traced does as it is told, before and after. So a loop that trains, and validates
# under eval(), is right for stages built by hand, and wrong for the same model through `pipeline()`.
#
# Needs python3 with venv, and the network; no GPU (torch, 5 GB, for some minutes). Ends with 1 if torch
# does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 numpy

cat > modes.py <<'CODE'
import logging
import os
import socket
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, SplitPoint, pipeline

CPU = torch.device("cpu")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.normal = torch.nn.BatchNorm1d(8)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.normal(x))


def by_hand(model):
    return [PipelineStage(part, s, 2, CPU) for s, part in enumerate(model.children())]


def by_tracing(model):
    traced = pipeline(model, (inputs,), split_spec={"drop": SplitPoint.BEGINNING})
    return [traced.build_stage(s, CPU) for s in range(2)]


def forward(stages):
    """What a schedule's forward of one microbatch does, one stage after the other."""
    value = inputs
    for stage in stages:
        value = stage.submod(value)
        value = value[0] if isinstance(value, tuple) else value
    return value


def behaviour(stages):
    """Whether two runs of the forward drop different values, and whether they move the running mean."""
    mean = next(buffer for name, buffer in stages[0].submod.named_buffers() if "running_mean" in name)
    before = mean.clone()
    with torch.no_grad():
        first, second = forward(stages), forward(stages)
    return not torch.equal(first, second), not torch.equal(before, mean)


logging.disable(logging.CRITICAL)
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free.getsockname()[1]))
dist.init_process_group("gloo", rank=0, world_size=1)
torch.manual_seed(0)
inputs = torch.randn(4, 8)
print("torch", torch.__version__)
as_stated = True
for built_in in (True, False):
    for told in (True, False):
        for build in (by_hand, by_tracing):
            stages = build(Model().train(built_in))
            for stage in stages:
                stage.submod.train(told)
            drops, moves = behaviour(stages)
            says = {stage.submod.training for stage in stages}
            print(f"built in training={built_in!s:5}, told training={told!s:5}, {build.__name__:10}:",
                  f"says {says}, drops={drops!s:5} moves statistics={moves}")
            wanted = told if build is by_hand else built_in
            as_stated = as_stated and says == {told} and drops == moves == wanted
try:
    torch.export.export(Model(), (inputs,)).module().eval()
    as_stated = False
except NotImplementedError as error:
    print("an exported program, told eval():", error)
dist.destroy_process_group()
sys.exit(0 if as_stated else 1)
CODE
venv/bin/python -W ignore modes.py
