#!/usr/bin/env python3
"""Schedules, judged by torch.distributed.pipelining.

Every schedule that torch's files can express is run by as many processes as it has ranks (gloo), in
both forms: losses and weights have to be those of training without a pipeline (tools/torch/train.py).
The orders of those that torch has a class for are compared with what that class computes. A file
without the words for waiting has to be refused, so that we hear when torch changes them again.
"""

import os
import sys

from common import fail, main, ok, require, skip

TORCH_TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "torch")
VERSION = "2.15"

# Of the schedules that torch has a class for: shapes of ranks, stages a rank, microbatches.
CLASSES = {
    "interleaved": ("Interleaved1F1B", [(2, 2, 4), (4, 2, 8), (4, 3, 10), (2, 3, 5), (4, 2, 15)]),
    "looped-bfs": ("LoopedBFS", [(2, 2, 4), (4, 2, 6)]),
    "interleaved-zb": ("InterleavedZeroBubble", [(2, 2, 4), (4, 2, 8), (4, 2, 10)]),
    "zb-v": ("ZBVZeroBubble", [(2, 2, 4), (4, 2, 8), (4, 2, 3)]),
    "dualpipev": ("DualPipeV", [(2, 2, 4), (4, 2, 8), (4, 2, 11)]),
}


def shape_words(ranks, per_rank, microbatches):
    return ["--stages", ranks, "--virtual", per_rank, "--microbatches", microbatches]


def files_to_run(stagecraft, ranks, microbatches):
    """Both forms of every schedule that has this shape; names of those that have not."""
    paths, without = [], []
    for row in stagecraft.result("schedule", "list")["schedules"]:
        name = row["name"]
        shape = shape_words(ranks, 1 if row["placement"] == "linear" else 2, microbatches)
        answer = stagecraft.call("schedule", "show", name, *shape, "--format", "torch")
        if answer.returncode != 0 or answer.stderr:
            require(answer.returncode in (0, 2), answer.stderr)
            without.append(name)
            continue
        for form in "torch", "torch-full":
            path = stagecraft.path(f"{name}-{ranks}.{form}.csv")
            stagecraft.run("schedule", "show", name, *shape, "--format", form, "-o", path)
            paths.append(path)
    return paths, without


def check_runs(stagecraft, train):
    for ranks, microbatches in ((2, 6), (4, 8)):
        paths, without = files_to_run(stagecraft, ranks, microbatches)
        sys.stdout.flush()
        require(train.run(paths), f"torch does not train on {ranks} ranks with our schedules")
        ok(f"torch trains on {ranks} ranks with {len(paths) // 2} schedules in both forms; it has no "
           f"words for {', '.join(without)}")


def order_of(class_name, ranks, per_rank, microbatches):
    """What torch's class computes on each rank: words such as 0F3."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import get_schedule_class
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    try:
        folds = class_name in ("ZBVZeroBubble", "DualPipeV")
        indices = [0, 2 * ranks - 1] if folds else [ranks * chunk for chunk in range(per_rank)]
        example = torch.empty(1, 1, device="meta")
        stages = [PipelineStage(torch.nn.Identity(), index, ranks * per_rank, torch.device("cpu"),
                                input_args=example, output_args=example) for index in indices]
        schedule = get_schedule_class(class_name)(stages, microbatches,
                                                  loss_fn=torch.nn.functional.mse_loss)
        return [[str(action) for action in schedule.pipeline_order[rank] if action is not None]
                for rank in range(ranks)]
    finally:
        dist.destroy_process_group()


def check_orders(stagecraft):
    for name, (class_name, shapes) in CLASSES.items():
        for shape in shapes:
            ranks, _, microbatches = shape
            rounds = max(1, microbatches // ranks)
            group = microbatches // rounds
            words = shape_words(*shape)
            if name.startswith("interleaved") and group != ranks:
                words += ["--group", group]
            try:
                theirs = order_of(class_name, *shape)
            except ValueError as error:
                answer = stagecraft.call("schedule", "show", name, *words, "--format", "torch")
                print(f"    {class_name} refuses {shape}: {error}; stagecraft ends with "
                      f"{answer.returncode}")
                continue
            ours = [line.split(",") for line in stagecraft.run(
                "schedule", "show", name, *words, "--format", "torch").splitlines()]
            if name == "looped-bfs":  # which goes back from the last microbatch, as export says
                theirs = [[word.replace(f"B{word.split('B')[1]}",
                                        f"B{microbatches - 1 - int(word.split('B')[1])}")
                           if "B" in word else word for word in row] for row in theirs]
            for rank, (mine, other) in enumerate(zip(ours, theirs)):
                require(mine == other, f"{name} {shape}, rank {rank}: ours is\n{mine}\n"
                                       f"{class_name} has\n{other}")
        ok(f"{class_name} computes in the order of {name}")


def check_refusals(stagecraft):
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import (_PipelineScheduleRuntime,
                                                        get_schedule_class)
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    example = torch.empty(1, 1, device="meta")

    def load(version):
        path = stagecraft.path("words.csv")
        stagecraft.run("schedule", "show", "1f1b", *shape_words(2, 1, 4), "--format",
                       f"torch-full{version}", "-o", path)
        stage = PipelineStage(torch.nn.Identity(), 0, 2, torch.device("cpu"),
                              input_args=example, output_args=example)
        schedule = _PipelineScheduleRuntime([stage], 4, loss_fn=torch.nn.functional.mse_loss)
        schedule._load_csv(path, format="compute_comms")

    load("")
    try:
        load("@2.11")
        fail(f"torch {torch.__version__} takes files without waits again")
    except ValueError as error:
        ok(f"torch {torch.__version__} wants the words for waiting ({error})")
    for row in ("1F1B", "GPipe", *(name for name, _ in CLASSES.values())):
        get_schedule_class(row)
    dist.destroy_process_group()


def check(stagecraft):
    sys.path.insert(0, TORCH_TOOLS)
    try:
        import train
    except ImportError as error:
        skip(f"{sys.executable} has no torch with pipelining ({error})")
    import torch
    if not torch.__version__.startswith(VERSION):
        skip(f"torch is {torch.__version__}, not {VERSION}")
    check_orders(stagecraft)
    check_refusals(stagecraft)
    check_runs(stagecraft, train)


if __name__ == "__main__":
    main(check)
