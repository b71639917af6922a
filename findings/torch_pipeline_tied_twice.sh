#!/usr/bin/env bash
# A tied weight that becomes three, of which a checkpoint may keep the one that was never trained.
#
# Where a model's head is its embedding, torch.distributed.pipelining's `pipeline()` gives first and last
# stage a copy each, and it is the user's part to bring the two together. With torch 2.15.0 there is a third:
# the trace knows the tied weight by one name, the head's, and hands it to both stages under that, so the
# first stage has the embedding as `table.weight`, which it uses and trains, and again as `head.weight`,
# which nothing uses. Both are parameters of their own: the first stage holds the vocabulary twice, says
# nothing, and the idle copy never has a gradient.
#
# It does have a name in the state, the same as the trained head of the last stage. torch.distributed.
# checkpoint takes equal names for copies of one tensor and writes one. With
# `DefaultSavePlanner(dedup_save_to_lowest_rank=True)` that is the first stage's: after loading, the head
# is what initialisation made it. By default it goes by what each rank has to write so far, and here, as
# the embedding is listed before, the last rank's copy is kept.
#
# Needs python3 with venv, and the network; no GPU (torch, 5 GB, for some minutes). Ends with 1 if torch
# does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 numpy

cat > tied.py <<'CODE'
import logging
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.multiprocessing as mp
from torch.distributed.pipelining import ScheduleGPipe, SplitPoint, pipeline

VOCABULARY, WIDTH = 11, 8


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.first = torch.nn.Linear(WIDTH, WIDTH)
        self.second = torch.nn.Linear(WIDTH, WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens):
        return self.head(self.second(self.first(self.table(tokens))))


def loss(logits, target):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def train(rank, port, queue):
    logging.disable(logging.CRITICAL)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    model, tokens = Model(), torch.randint(VOCABULARY, (4, 6))
    fresh = model.head.weight.detach().clone()
    traced = pipeline(model, (tokens[:2],), split_spec={"second": SplitPoint.BEGINNING})
    stage = traced.build_stage(rank, torch.device("cpu"))
    optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.5)
    schedule = ScheduleGPipe(stage, 2, loss_fn=loss)
    schedule.step(*([tokens] if rank == 0 else []), **({"target": tokens} if rank == 1 else {}))
    for name, weight in stage.submod.named_parameters():
        queue.put((rank, name, weight.numel(), weight.grad is not None))
    optimizer.step()
    for lowest in (False, True):
        planner = checkpoint.DefaultSavePlanner(dedup_save_to_lowest_rank=lowest)
        state = stage.submod.state_dict()
        checkpoint.save(state, checkpoint_id=f"saved-{lowest}", planner=planner)
        if rank == 1:
            loaded = {name: torch.zeros_like(value) for name, value in state.items()}
            checkpoint.load(loaded, checkpoint_id=f"saved-{lowest}", no_dist=True)
            head = loaded["head.weight"]
            queue.put((rank, lowest, torch.equal(head, state["head.weight"]), torch.equal(head, fresh)))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    queue = mp.get_context("spawn").Queue()
    print("torch", torch.__version__)
    context = mp.spawn(train, (port, queue), nprocs=2, join=False)
    said = [queue.get(timeout=120) for _ in range(9)]
    context.join()
    weights = {(rank, name): (count, trained) for rank, name, count, trained in said if isinstance(name, str)}
    for (rank, name), (count, trained) in sorted(weights.items()):
        print(f"stage {rank}  {name:14} {count:3} weights, gradient: {'yes' if trained else 'none'}")
    kept = {lowest: same for _, lowest, *same in said if isinstance(lowest, bool)}
    for lowest, (trained, fresh) in kept.items():
        print(f"dedup_save_to_lowest_rank={lowest!s:5}  the head comes back as",
              "trained" if trained else "initialised" if fresh else "something else")
    whole = sum(weight.numel() for weight in Model().parameters())
    both = sum(count for count, _ in weights.values())
    print(f"the model has {whole} weights, its stages {both}: {both - whole} more,",
          f"where a copy of the table is {VOCABULARY * WIDTH}")
    as_stated = both - whole == 2 * VOCABULARY * WIDTH and kept == {False: [True, False], True: [False, True]}
    as_stated = as_stated and [key for key, (_, trained) in weights.items() if not trained] == [(0, "head.weight")]
    sys.exit(0 if as_stated else 1)
CODE
venv/bin/python -W ignore tied.py
