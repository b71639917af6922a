#!/usr/bin/env python3
"""Trains a small model with torch.distributed.pipelining in the order of schedule files.

    tools/torch/train.py FILE.csv...

Each file is run by as many processes (CPU, gloo) as it has rows, in the form it is in: compute
only, or with communication. Losses of every step, and all weights at the end, must be those of the
same model trained without a pipeline.
"""

import multiprocessing
import os
import re
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH, SAMPLES_PER_MICROBATCH, STEPS, RATE = 8, 2, 3, 0.5


class File:
    """What has to be known of a file before torch reads it."""

    def __init__(self, path):
        self.path = path
        with open(path) as file:
            self.rows = file.read().splitlines()
        compute = [re.findall(r"(\d+)F(\d+)", row.replace("SEND_F", "").replace("RECV_F", ""))
                   for row in self.rows]
        self.stages_of_rank = [sorted({int(stage) for stage, _ in row}) for row in compute]
        self.stages = sum(len(stages) for stages in self.stages_of_rank)
        self.microbatches = 1 + max(int(microbatch) for row in compute for _, microbatch in row)
        self.form = "compute_comms" if "SEND_" in "".join(self.rows) else "compute_only"


def stage_of_model(index):
    torch.manual_seed(index)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())


def batch(step, file):
    torch.manual_seed(1000 + step)
    size = (file.microbatches * SAMPLES_PER_MICROBATCH, WIDTH)
    return torch.randn(size), torch.randn(size)


def optimizer_of(modules):
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=RATE)


def train_alone(file):
    """Losses and stages of the same training in one process."""
    stages = [stage_of_model(index) for index in range(file.stages)]
    optimizer = optimizer_of(stages)
    losses = []
    for step in range(STEPS):
        inputs, targets = batch(step, file)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(torch.nn.Sequential(*stages)(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, stages


def train_in_pipeline(file, rank):
    """Losses (of the rank that has the last stage) and the rank's own stages."""
    modules = [stage_of_model(index) for index in file.stages_of_rank[rank]]
    # torch 2.15 sends a gradient back for what requires one, and goes by these shapes.
    batch_shape = (SAMPLES_PER_MICROBATCH, WIDTH)
    stages = [PipelineStage(module, index, file.stages, torch.device("cpu"),
                            input_args=torch.empty(batch_shape, device="meta",
                                                   requires_grad=index > 0),
                            output_args=torch.empty(batch_shape, device="meta",
                                                    requires_grad=True))
              for module, index in zip(modules, file.stages_of_rank[rank])]
    for stage in stages:
        # It opens NCCL's connections; gloo needs none, and could not send from a rank to itself.
        stage._get_init_p2p_neighbors_ops = list
    schedule = _PipelineScheduleRuntime(stages, file.microbatches,
                                        loss_fn=torch.nn.functional.mse_loss)
    schedule._load_csv(file.path, format=file.form)
    optimizer = optimizer_of(modules)
    first, last = (any(stage.is_first for stage in stages), any(stage.is_last for stage in stages))
    losses = []
    for step in range(STEPS):
        inputs, targets = batch(step, file)
        optimizer.zero_grad()
        of_microbatches = []
        schedule.step(*([inputs] if first else []), target=targets if last else None,
                      losses=of_microbatches if last else None)
        optimizer.step()
        if last:
            losses.append(torch.stack(of_microbatches).mean().item())
    return losses, modules


def compare(file, rank):
    losses, modules = train_in_pipeline(file, rank)
    expected_losses, expected_stages = train_alone(file)
    if losses:
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected_losses))
    for module, index in zip(modules, file.stages_of_rank[rank]):
        for ours, theirs in zip(module.parameters(), expected_stages[index].parameters()):
            torch.testing.assert_close(ours, theirs)
    return losses


def work(files, rank, ranks, meeting_point):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank,
                            world_size=ranks)
    for file in files:
        losses = compare(file, rank)
        dist.barrier()
        if losses:
            print(f"ok  {os.path.basename(file.path)} ({file.form}): losses",
                  " ".join(f"{loss:.6f}" for loss in losses), flush=True)
    dist.destroy_process_group()


def run(paths):
    """True if all went well."""
    files = [File(path) for path in paths]
    for ranks in sorted({len(file.rows) for file in files}):
        group = [file for file in files if len(file.rows) == ranks]
        with tempfile.TemporaryDirectory() as folder:
            context = multiprocessing.get_context("fork")
            workers = [context.Process(target=work, args=(group, rank, ranks, f"{folder}/meet"))
                       for rank in range(ranks)]
            for worker in workers:
                worker.start()
            while any(worker.is_alive() for worker in workers):
                for worker in workers:
                    worker.join(timeout=0.2)
                if any(worker.exitcode for worker in workers):
                    for worker in workers:
                        worker.kill()
            if any(worker.exitcode != 0 for worker in workers):
                return False
    return True


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(0 if run(sys.argv[1:]) else 1)
