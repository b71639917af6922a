#!/usr/bin/env python3
"""Trains the model in stages, as the plan says, with torch.distributed.pipelining.

    torchrun --nproc-per-node WORLD train.py --steps 10

WORLD is the number of processes in RANKS below; on several machines torchrun's --nnodes and --rdzv-endpoint.
Processes use CPUs and gloo, or with --device cuda a GPU each and NCCL. Each makes the whole model from the
same seed and keeps its stages. A step's samples are cut into parts of MICROBATCH; replica r of a stage, or
of the whole pipeline, has the parts r, r + replicas, … Losses are the means over all samples.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import json
import os
import re
import resource
import sys
import time
from typing import Any, ContextManager, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining._backward import stage_backward, stage_backward_input, stage_backward_weight
from torch.distributed.pipelining.microbatch import TensorChunkSpec, _Replicate
from torch.distributed.pipelining.schedules import (PipelineScheduleSingle, _PipelineScheduleRuntime,
                                                    get_schedule_class)
from torch.distributed.tensor import DTensor, distribute_tensor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.getcwd(), HERE]
stage_modules = importlib.import_module("stages")

# <settings>
FACTORY = LOSS = DATA = OPTIMIZER = SCHEDULE = PREDICTED = ""
SHARDING = "none"
RATE, SEED, BATCH, MICROBATCH, MICROBATCHES, TURNS, SPLIT = 0.0, 1, 1, 1, 1, False, False
RANKS: list[list[int]] = [[0]]
RECOMPUTE, WHOLE = [False], [False]
SHARED: list[tuple[list[str], list[int]]] = []
BATCHED: dict[str, bool] = {}
KEYWORDS: list[str] | None = None
# </settings>

REPLICAS = 1 if TURNS else len(RANKS[0])  # whole pipelines
ALL_MICROBATCHES = MICROBATCHES * REPLICAS
WORLD = 1 + max(rank for ranks in RANKS for rank in ranks)
Context = ContextManager[None]
Group = Any  # of processes, of torch.distributed


def named(words: str) -> Any:
    """What package:name stands for."""
    package, _, name = words.partition(":")
    return getattr(importlib.import_module(package), name)


def know(tree: Any) -> None:
    """Makes the dataclasses in a tree containers for torch, as tuples and dicts are."""
    for leaf in torch.utils._pytree.tree_leaves(tree):
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            torch.utils._pytree.register_dataclass(type(leaf))
            know(leaf)


def plain(tensor: Tensor) -> Tensor:
    """As a message is in memory."""
    return tensor.resolve_conj().resolve_neg().contiguous()


class Again(nn.Module):
    """Runs a stage's forward again before its backward, where the plan says so."""

    def __init__(self, number: int, stage: Any) -> None:
        super().__init__()
        self.stage, self.recomputes = stage, RECOMPUTE[number]
        self.recorder: Recorder | None = None

    def forward(self, *taken: Tensor, **inputs: Tensor) -> Any:
        if self.recomputes:
            return torch.utils.checkpoint.checkpoint(lambda *tensors: self.run(*tensors, **inputs), *taken, use_reentrant=False)
        return self.stage(*taken, **inputs)

    def run(self, *taken: Tensor, **inputs: Tensor) -> Any:
        with self.recorder.again() if self.recorder else contextlib.nullcontext():
            return self.stage(*taken, **inputs)


class Module(nn.Module):
    """A stage's module: takes its own of the model's inputs, and gives tensors that are ready to be messages."""

    def __init__(self, number: int, stage: Any) -> None:
        super().__init__()
        self.again, self.is_last = Again(number, stage), number + 1 == len(RANKS)

    @property
    def stage(self) -> Any:
        return self.again.stage

    def forward(self, *taken: Tensor, **inputs: Tensor) -> Any:
        given = self.again(*taken, **{name: inputs[name] for name in self.stage.inputs})
        if self.is_last:
            return given
        return tuple(plain(tensor) for tensor in given) if isinstance(given, tuple) else plain(given)

    def shard(self, group: Group, device: torch.device, shared: set[nn.Parameter]) -> None:
        """Each replica holds a part of each weight, but of those that other stages share, and gathers the others' for its
        passes: a layer at a time, so that `zero3` has no more of them at once. With `zero1` gradients are torch's pipeline's
        to sum, after the last backward; otherwise each backward does."""
        mesh = DeviceMesh.from_group(group, device.type)
        settings: dict[str, Any] = {"mesh": mesh, "reshard_after_forward": SHARDING == "zero3", "ignored_params": shared}
        holders: dict[nn.Parameter, int] = {}
        for _, weight in self.stage.named_parameters(remove_duplicate=False):
            holders[weight] = holders.get(weight, 0) + 1
        for layer in self.stage.children():
            weights = [weight for weight in layer.parameters() if weight not in shared]
            if weights and all(holders[weight] == 1 for weight in weights):
                fully_shard(layer, **settings)
        root = fully_shard(self if SHARDING == "zero1" else self.again, **settings)
        if SHARDING != "zero3":
            root.set_reshard_after_backward(False)
        for module in self.shards():  # losses are means over replicas already
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)

    def shards(self) -> list[FSDPModule]:
        return [module for module in self.modules() if isinstance(module, FSDPModule)]

    def gather(self) -> None:
        for module in self.shards():
            module.unshard()

    def scatter(self) -> None:
        for module in self.shards():
            module.reshard()


class Stage(PipelineStage):
    """A stage whose passes have random numbers of their own, and may be recorded."""

    def __init__(self, number: int, module: Module, device: torch.device, group: Group, replica: int) -> None:
        takes, gives = ([torch.empty(shape, dtype=dtype, device="meta", requires_grad=gradient)
                         for _, shape, dtype, gradient in tensors]
                        for tensors in (module.stage.takes, module.stage.gives))
        super().__init__(module, number, len(RANKS), device, input_args=tuple(takes), output_args=tuple(gives),
                         group=group, dw_builder=(lambda: lambda: None) if WHOLE[number] else None)
        self.recorder: Recorder | None = None
        self.step, self.replica = 0, replica

    def forward_one_chunk(self, microbatch: int, args: Any, kwargs: Any = None, save_forward_output: bool = True) -> Any:
        torch.manual_seed(hash((SEED, self.step, self.stage_index, microbatch, self.replica)) % 2**63)
        with self.recording("forward", microbatch):
            return super().forward_one_chunk(microbatch, args, kwargs, save_forward_output)

    def backward_one_chunk(self, microbatch: int, loss: Any = None, full_backward: bool = True,
                           last_backward: bool = False) -> None:
        # Backward begins at the outputs' edges, also where torch still holds them for a send: their detach_() would
        # fail for one that is a view, with a gradient or without. All sends are under way.
        state = self._forward_chunk_states[microbatch]
        if not self.is_last:
            state.live_outputs = [edge or (get_gradient_edge(live) if live is not None and live.requires_grad else None)
                                  for live, edge in zip(state.live_outputs, state.output_grad_edges)]
        with self.recording("backward" if full_backward else "backward_input", microbatch):
            super().backward_one_chunk(microbatch, loss=loss, full_backward=full_backward,
                                       last_backward=last_backward)
        if microbatch in self.bwd_cache:  # messages are contiguous
            self.bwd_cache[microbatch] = tuple(gradient if gradient is None else plain(gradient)
                                               for gradient in self.bwd_cache[microbatch])

    def backward_weight_one_chunk(self, microbatch: int, last_backward: bool = False) -> None:
        with self.recording("backward_weight", microbatch):
            super().backward_weight_one_chunk(microbatch, last_backward=last_backward)

    # Sums over replicas of a sharded stage's gradients, as torch's schedules call for them.

    def start_gradient_reduction(self) -> None:
        with self.recording("reduce_scatter", MICROBATCHES - 1):
            super().start_gradient_reduction()
            super().wait_for_gradient_reduction(1)

    def wait_for_gradient_reduction(self, grad_scale_factor: int) -> None:
        pass

    def get_fwd_send_ops(self, microbatch: int) -> list[dist.P2POp]:
        operations = super().get_fwd_send_ops(microbatch)
        if self.recorder and operations:
            self.recorder.posts("send_activation", self.stage_index, microbatch)
        return operations

    def get_bwd_send_ops(self, microbatch: int) -> list[dist.P2POp]:
        operations = super().get_bwd_send_ops(microbatch)
        is_message = not self.is_first and RANKS[self.stage_index - 1][self.replica] != dist.get_rank()
        if self.recorder and is_message:  # plans have one also where no weight before the cut is trained
            self.recorder.posts("send_gradient", self.stage_index, microbatch)
        return operations

    def recording(self, op: str, microbatch: int) -> Context:
        return self.recorder.span(op, self.stage_index, microbatch) if self.recorder else contextlib.nullcontext()


class Turns:
    """Carries out an order of passes in which each stage's replicas take turns with microbatches. The schedules of
    torch.distributed.pipelining know one process for each stage; passes are torch's here, too."""

    def __init__(self, trainer: Trainer) -> None:
        with open(os.path.join(HERE, SCHEDULE)) as file:
            row = file.read().splitlines()[trainer.rank]
        self.passes = [(int(stage), letter, int(microbatch))
                       for stage, letter, microbatch in re.findall(r"(\d+)([FBIW])(\d+)", row)]
        self.trainer, self.seed = trainer, 0
        self.recorder: Recorder | None = None
        self.modules = dict(zip(trainer.numbers, trainer.bodies))

    def place(self, stage: int, microbatch: int) -> int:
        """The process that works for the stage."""
        return RANKS[stage][microbatch % len(RANKS[stage])]

    def step(self, inputs: dict[str, Tensor], losses: list[Tensor] | None) -> None:
        self.inputs, self.losses = inputs, losses
        self.kept: dict[tuple[int, int], Any] = {}  # of stage and microbatch: what its backward begins with
        self.waiting: dict[tuple[int, int], Any] = {}  # what its backward of weights needs
        self.here: dict[tuple[int, bool, int], Sequence[Tensor]] = {}  # from a stage of this process
        self.posted: dict[tuple[int, bool, int], list[tuple[Tensor, Any]]] = {}  # on their way
        self.sent: list[Any] = []
        work = {"F": self.forward, "B": self.backward, "I": self.backward_input, "W": self.backward_weight}
        for number, (stage, letter, microbatch) in enumerate(self.passes):
            for after in self.passes[number:number + 2]:  # the next pass's messages may come during this one
                self.post(*after)
            taken = self.arrived(stage, letter, microbatch)
            op = {"F": "forward", "B": "backward", "I": "backward_input", "W": "backward_weight"}[letter]
            with self.recorder.span(op, stage, microbatch) if self.recorder else contextlib.nullcontext():
                given = work[letter](stage, microbatch, taken)
            self.send(stage, letter, microbatch, given)
        for message in self.sent:
            message.wait()

    def message(self, stage: int, letter: str, microbatch: int) -> tuple[int, list[Any]] | None:
        """Whether the pass needs one: from which stage, and shapes and types."""
        stage_module = self.modules[stage].stage
        if letter == "F" and stage > 0:
            return stage - 1, stage_module.takes
        if letter in "BI" and stage + 1 < len(RANKS):
            return stage + 1, [it for it in stage_module.gives if it[3]]
        return None

    def tag(self, stage: int, is_forward: bool, microbatch: int, number: int) -> int:
        return ((stage * 2 + is_forward) * ALL_MICROBATCHES + microbatch) * 1000 + number

    def post(self, stage: int, letter: str, microbatch: int) -> None:
        found = self.message(stage, letter, microbatch)
        key = (stage, letter == "F", microbatch)
        if not found or key in self.posted or self.place(found[0], microbatch) == self.trainer.rank:
            return
        buffers = [torch.empty(shape, dtype=dtype) for _, shape, dtype, _ in found[1]]
        self.posted[key] = [(buffer, dist.irecv(buffer, self.place(found[0], microbatch),
                                                tag=self.tag(stage, letter == "F", microbatch, number)))
                            for number, buffer in enumerate(buffers)]

    def arrived(self, stage: int, letter: str, microbatch: int) -> list[Tensor]:
        found = self.message(stage, letter, microbatch)
        if not found:
            return []
        key = (stage, letter == "F", microbatch)
        if key in self.here:
            return list(self.here.pop(key))
        for _, work in self.posted[key]:
            work.wait()
        return [buffer for buffer, _ in self.posted.pop(key)]

    def send(self, stage: int, letter: str, microbatch: int, tensors: Sequence[Tensor]) -> None:
        other = stage + 1 if letter == "F" else stage - 1
        if letter == "W" or not 0 <= other < len(RANKS):
            return
        peer = self.place(other, microbatch)
        if peer == self.trainer.rank:
            self.here[(other, letter == "F", microbatch)] = tensors
            return
        if self.recorder:
            self.recorder.posts("send_activation" if letter == "F" else "send_gradient", stage, microbatch)
        self.sent += [dist.isend(plain(tensor), peer, tag=self.tag(other, letter == "F", microbatch, number))
                      for number, tensor in enumerate(tensors)]

    def forward(self, stage: int, microbatch: int, taken: list[Tensor]) -> list[Tensor]:
        torch.manual_seed(hash((SEED, self.seed, stage, microbatch, 0)) % 2**63)
        taken = [tensor.requires_grad_(gradient)
                 for tensor, (_, _, _, gradient) in zip(taken, self.modules[stage].stage.takes)]
        first = microbatch * MICROBATCH
        inputs = {name: tensor[first:first + MICROBATCH] if BATCHED[name] else tensor
                  for name, tensor in self.inputs.items()}
        output = self.modules[stage](*taken, **inputs)
        outputs = output if isinstance(output, tuple) else (output,)
        if stage + 1 == len(RANKS):
            outputs = (self.trainer.loss(output, microbatch),)
            if self.losses is not None:
                self.losses.append(outputs[0].detach())
        self.kept[stage, microbatch] = taken, outputs
        return [tensor.detach() for tensor in outputs]

    def roots(self, stage: int, microbatch: int, gradients: Sequence[Tensor]) -> tuple[Any, list[Tensor], Any]:
        """What backward begins with, as torch's functions want it."""
        taken, outputs = self.kept.pop((stage, microbatch))
        roots = [tensor for tensor in outputs if tensor.requires_grad]
        return taken, roots, None if stage + 1 == len(RANKS) else list(gradients[:len(roots)])

    def backward(self, stage: int, microbatch: int, gradients: list[Tensor]) -> list[Tensor]:
        taken, roots, given = self.roots(stage, microbatch, gradients)
        return self.handed_back(stage, taken, stage_backward(roots, given or [None] * len(roots), taken))

    def backward_input(self, stage: int, microbatch: int, gradients: list[Tensor]) -> list[Tensor]:
        taken, roots, given = self.roots(stage, microbatch, gradients)
        if stage == 0:
            self.waiting[stage, microbatch] = roots, given
            return []
        if WHOLE[stage]:
            return self.handed_back(stage, taken, stage_backward(roots, given or [None] * len(roots), taken))
        edges = [get_gradient_edge(root) for root in roots]
        given = given or [torch.ones_like(root) for root in roots]
        found, groups = stage_backward_input(edges, given, taken, self.modules[stage].parameters())
        self.waiting[stage, microbatch] = groups
        return self.handed_back(stage, taken, found)

    def backward_weight(self, stage: int, microbatch: int, _: list[Tensor]) -> list[Tensor]:
        waiting = self.waiting.pop((stage, microbatch), None)
        if waiting is None:  # the whole backward is done
            return []
        if stage == 0:
            torch.autograd.backward(waiting[0], waiting[1])
        else:
            stage_backward_weight(self.modules[stage].parameters(), waiting)
        return []

    def handed_back(self, stage: int, taken: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> list[Tensor]:
        """A message for each tensor with a gradient; one without influence has zeros."""
        return [torch.zeros_like(tensor) if gradient is None else gradient
                for tensor, gradient, (_, _, _, has) in zip(taken, gradients, self.modules[stage].stage.takes) if has]


class Recorder:
    """When each pass of this process began and ended, and each message left: --profile and --kineto. Times are
    nanoseconds of rank 0's wall clock."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.rank = device, dist.get_rank()
        self.iteration = 0
        self.spans: list[tuple[int, str, int, int, int, int]] = []  # iteration, pass, stage, microbatch, start, end
        self.posted: list[tuple[int, str, int, int, int]] = []
        self.backward: tuple[int, int] | None = None  # stage and microbatch, while one is computed
        self.offset = clock_offset()
        self.began, self.worked = time.monotonic(), (machine_seconds(), own_seconds())

    def now(self) -> int:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.time_ns() - self.offset

    @contextlib.contextmanager
    def step(self, step: int, iteration: int) -> Iterator[None]:
        """All processes come here together."""
        self.iteration = iteration
        dist.barrier()
        with torch.profiler.record_function(f"step {step}"):
            yield

    # Names of ranges are what `stagecraft import kineto` finds in a trace of torch's own profiler.

    @contextlib.contextmanager
    def span(self, op: str, stage: int, microbatch: int) -> Iterator[None]:
        number = index(self.rank, microbatch, op)
        start = self.now()
        if op.startswith("backward"):
            self.backward = (stage, microbatch)
        try:
            with torch.profiler.record_function(f"{op} stage {stage} microbatch {number}"):
                yield
        finally:  # torch leaves a forward that runs again as soon as it has what it needs, by an exception
            end = self.now()
            if op.startswith("backward"):
                self.backward = None
                start = max([start, *[after for _, within, _, _, begin, after in self.spans[-1:]
                                      if within == "recompute" and begin >= start]])
            self.spans.append((self.iteration, op, stage, microbatch, start, end))

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """A stage's forward: within its backward, the one that comes before it."""
        with self.span("recompute", *self.backward) if self.backward else contextlib.nullcontext():
            yield

    def posts(self, op: str, stage: int, microbatch: int) -> None:
        self.posted.append((self.iteration, op, stage, microbatch, self.now()))
        empty = ", empty" if is_empty(op, stage) else ""
        with torch.profiler.record_function(f"{op} stage {stage} microbatch {index(self.rank, microbatch, op)} to rank "
                                            f"{peer_of(self.rank, op, stage, microbatch)}{empty}"):
            pass

    def busy(self) -> str:
        """What says that processes shared their cores with others, so that times tell more of the machine than of the
        work; empty: nothing does. All processes call this together."""
        machine, own = machine_seconds() - self.worked[0], own_seconds() - self.worked[1]
        here = sum(seconds for name, seconds in gathered((machine_name(), own)) if name == machine_name())
        others = (machine - here) / max(time.monotonic() - self.began, 0.01)
        cores = os.cpu_count() or 1
        threads = int(os.environ.get("LOCAL_WORLD_SIZE", 1)) * (torch.get_num_threads() if self.device.type == "cpu" else 1)
        if threads > cores:
            return f"{threads} threads on {cores} cores"
        if others > 0.1 * threads and others + threads > cores:
            return f"other work kept {others:.1f} of {cores} cores busy, beside {threads} threads"
        return ""


def gathered(part: Any) -> list[Any]:
    """Those of all processes."""
    parts: list[Any] = [None] * WORLD
    dist.all_gather_object(parts, part)
    return parts


def machine_name() -> str:
    """The same for all processes of a machine."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read()
    return os.uname().nodename


def machine_seconds() -> float:
    """Of all processors since the machine's start, in which they worked, or others had them (of a virtual machine); this
    process's own where there is no /proc."""
    with contextlib.suppress(OSError, ValueError), open("/proc/stat") as file:
        user, nice, system, _, _, interrupt, soft, stolen = (int(word) for word in file.readline().split()[1:9])
        return (user + nice + system + interrupt + soft + stolen) / os.sysconf("SC_CLK_TCK")
    return own_seconds()


def own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def clock_offset() -> int:
    """Nanoseconds that this process's clock is ahead of rank 0's: none on the same machine, otherwise as a message there
    and back tells, of several the fastest (Cristian 1989)."""
    if len(set(gathered(machine_name()))) == 1:
        return 0
    group: Group = dist.new_group(backend="gloo")
    rank, offset, found = dist.get_rank(), 0, 0
    for other in range(1, WORLD):
        theirs, best = torch.zeros(1, dtype=torch.int64), 2**62
        for _ in range(16):
            if rank == 0:
                sent = time.time_ns()
                dist.send(theirs, other, group=group)
                dist.recv(theirs, other, group=group)
                back = time.time_ns()
                if back - sent < best:
                    best, found = back - sent, int(theirs.item()) - (sent + back) // 2
            elif rank == other:
                dist.recv(theirs, 0, group=group)
                dist.send(torch.tensor([time.time_ns()]), 0, group=group)
        if rank == 0:
            dist.send(torch.tensor([found]), other, group=group)
        elif rank == other:
            dist.recv(theirs, 0, group=group)
            offset = int(theirs.item())
    return offset


class Trainer:
    """This process's stages, and all that a step needs."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.rank, self.device = dist.get_rank(), device_of(arguments)
        self.replica = replica_of(self.rank)
        self.replica_groups = {tuple(ranks): dist.new_group(ranks) for ranks in sorted({tuple(r) for r in RANKS})}
        self.shared_groups = [dist.new_group(sorted({rank for stage in holders for rank in RANKS[stage]}))
                              for _, holders in SHARED]
        self.numbers = [number for number, ranks in enumerate(RANKS) if self.rank in ranks]
        self.has_last = len(RANKS) - 1 in self.numbers
        torch.manual_seed(SEED)
        self.keep(named(FACTORY)(), arguments.weights)
        self.stages: list[Stage] = []
        self.turns: Turns | None = None
        self.recorder: Recorder | None = None
        self.targets: list[Any] = []
        if TURNS:
            self.turns = Turns(self)
        else:
            self.make_stages()

    def keep(self, model: nn.Module, weights: str | None) -> None:
        """The stages' parts of the model, with the model's names for them."""
        if weights:
            model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        # By its first name, where a weight has several.
        path_of = {id(tensor): path for path, tensor in reversed([*model.named_parameters(remove_duplicate=False),
                                                                  *model.named_buffers(remove_duplicate=False)])}
        self.modules = [stage_modules.STAGES[number](model) for number in self.numbers]
        self.paths = [{name: path_of[id(tensor)] for name, tensor in
                       [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]}
                      for module in self.modules]
        del model
        seen: set[int] = set()
        self.optimizers: list[torch.optim.Optimizer | None] = []
        shared = {path for paths, _ in SHARED for path in paths}
        self.bodies = [Module(number, module.to(self.device)) for number, module in zip(self.numbers, self.modules)]
        for number, body, paths in zip(self.numbers, self.bodies, self.paths):
            if SHARDING != "none":
                body.shard(self.replica_groups[tuple(RANKS[number])], self.device,
                           {weight for name, weight in body.stage.named_parameters() if paths[name] in shared})
        for module in self.modules:
            trained = [tensor for tensor in module.parameters() if tensor.requires_grad and id(tensor) not in seen]
            seen.update(id(tensor) for tensor in trained)
            self.optimizers.append(make_optimizer(trained) if trained else None)
        self.weights = {paths[name]: tensor for module, paths in zip(self.modules, self.paths)
                        for name, tensor in module.named_parameters() if tensor.requires_grad}

    def make_stages(self) -> None:
        pipelines = [list(dict.fromkeys(ranks[r] for ranks in RANKS)) for r in range(REPLICAS)]
        groups = [dist.new_group(pipeline) for pipeline in pipelines]
        self.stages = [Stage(number, body, self.device, groups[self.replica], self.replica)
                       for number, body in zip(self.numbers, self.bodies)]
        self.schedule = self.make_schedule()

    def make_schedule(self) -> Any:
        along_samples: Any = TensorChunkSpec(0)  # type: ignore[no-untyped-call]
        settings: dict[str, Any] = {
            "n_microbatches": MICROBATCHES, "loss_fn": self.loss, "scale_grads": False,
            "kwargs_chunk_spec": {name: along_samples if BATCHED[name] else _Replicate for name in self.inputs()}}
        if SCHEDULE.endswith(".csv"):
            if SHARDING == "zero1":
                settings["max_active_stages"] = len(self.stages)  # whose weights are whole
            schedule = _PipelineScheduleRuntime(self.stages, **settings)  # type: ignore[no-untyped-call]
            schedule._load_csv(os.path.join(HERE, SCHEDULE))
            return schedule
        kind = get_schedule_class(SCHEDULE)
        return kind(self.stages[0] if issubclass(kind, PipelineScheduleSingle) else self.stages, **settings)

    def loss(self, output: Any, microbatch: int | Tensor) -> Tensor:
        """Of a microbatch by its number (torch would split targets that are tensors, and nothing else): its part of the
        mean over all, so that gradients are."""
        tensors = output if isinstance(output, tuple) else (output,)
        value: Tensor = named(LOSS)(stage_modules.result(*tensors), self.targets[int(microbatch)])
        return value / ALL_MICROBATCHES

    def inputs(self) -> list[str]:
        """Names of the model's inputs that this process's stages read."""
        return [name for name in BATCHED if any(name in module.inputs for module in self.modules)]

    def mine(self, tensor: Tensor, what: str, is_batched: bool = True) -> Tensor:
        """Of a step's samples, those of this replica's microbatches."""
        if not is_batched:
            return tensor.to(self.device)
        if tensor.shape[0] != BATCH:
            raise SystemExit(f"data gave {what} of {tensor.shape[0]} samples, expected {BATCH}: the plan's batch is "
                             f"{ALL_MICROBATCHES} microbatches of {MICROBATCH}")
        parts = torch.split(tensor, MICROBATCH)[self.replica::REPLICAS]
        return torch.cat(parts).to(self.device)

    def targets_of(self, target: Any) -> list[Any]:
        """Of each of this replica's microbatches: a tensor, or a tuple, list or dict of them."""
        know(target)
        leaves, tree = torch.utils._pytree.tree_flatten(target)
        parts = [torch.split(self.mine(leaf, "a target"), MICROBATCH) if isinstance(leaf, torch.Tensor) and leaf.dim()
                 else [leaf] * MICROBATCHES for leaf in leaves]
        return [torch.utils._pytree.tree_unflatten([part[microbatch] for part in parts], tree)
                for microbatch in range(MICROBATCHES)]

    def train(self, step: int) -> float | None:
        """One step; on the last stage's processes their part of the mean loss, else None."""
        inputs, target = named(DATA)(step, BATCH)
        inputs = dict(zip(BATCHED, tensors_of(inputs), strict=True))
        inputs = {name: self.mine(inputs[name], name, BATCHED[name]) for name in self.inputs()}
        self.targets = self.targets_of(target) if self.has_last else []
        losses: list[Tensor] | None = [] if self.has_last else None
        if self.turns:
            self.turns.seed = step
            self.turns.step(inputs, losses)
        else:
            for stage in self.stages:
                stage.step = step
            numbers = torch.arange(MICROBATCHES) if self.has_last else None  # for loss
            self.schedule.step(**inputs, target=numbers, losses=losses, return_outputs=False)
        self.reduce_gradients()
        self.update()
        return torch.stack(losses).double().sum().item() if losses else None

    def reduce_gradients(self) -> None:
        """Sums over replicas, and over the stages that share a weight; `loss` makes them means over microbatches."""
        shared = {path for paths, _ in SHARED for path in paths}
        for number, paths in zip(self.numbers, self.paths):
            if len(RANKS[number]) > 1 and SHARDING == "none":
                with self.recording("reduce_gradient", number):
                    mine = [path for path in dict.fromkeys(paths.values()) if path in self.weights and path not in shared]
                    all_reduce([self.weights[path] for path in mine], self.replica_groups[tuple(RANKS[number])])
        for number, body in zip(self.numbers, self.bodies if SHARDING in ("zero2", "zero3") else []):
            with self.recording("reduce_scatter", number):
                body.scatter()  # each backward has summed its gradients
        for (tied, (owner, *users)), group in zip(SHARED, self.shared_groups):
            mine = [self.weights[path] for path in tied if path in self.weights]
            with contextlib.ExitStack() as stack:  # plans have a sum for each user of the weights, and here is one for all
                for stage in [stage for user in users if RANKS[user] != RANKS[owner] for stage in (owner, user)]:
                    if stage in self.numbers and mine:
                        stack.enter_context(self.recording("reduce_tied", stage))
                all_reduce(mine, group)

    def update(self) -> None:
        for number, optimizer in zip(self.numbers, self.optimizers):
            with self.recording("update", number):
                if optimizer is not None:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
        for number, body in zip(self.numbers, self.bodies if SHARDING != "none" else []):
            with self.recording("gather_parameters", number):
                if SHARDING != "zero3":  # whose passes do it
                    body.gather()

    def recording(self, op: str, number: int) -> Context:
        return self.recorder.span(op, number, MICROBATCHES - 1) if self.recorder else contextlib.nullcontext()

    def record(self, recorder: Recorder) -> None:
        self.recorder = recorder
        for body in self.bodies:
            body.again.recorder = recorder
        if self.turns:
            self.turns.recorder = recorder
        for stage in self.stages:
            stage.recorder = recorder

    # --- Files

    def state(self, place: int) -> dict[str, Tensor]:
        module, paths = self.modules[place], self.paths[place]
        self.bodies[place].scatter()
        return {paths[name]: tensor for name, tensor in module.state_dict().items() if name in paths}

    def save(self, folder: str, step: int) -> None:
        """A file per stage, of the first replica; complete when the file `step` names it."""
        os.makedirs(folder, exist_ok=True)
        for place, number in enumerate(self.numbers):
            optimizer = self.optimizers[place]
            state = complete({"weights": self.state(place), "optimizer": optimizer and optimizer.state_dict()})
            if RANKS[number][0] == self.rank:
                torch.save(state, os.path.join(folder, f"step{step}-stage{number}.pt"))
        dist.barrier()
        if self.rank == 0:
            write_whole(os.path.join(folder, "step"), f"{step}\n")

    def resume(self, folder: str) -> int:
        """The step after the latest that is complete."""
        with open(os.path.join(folder, "step")) as file:
            step = int(file.read())
        for place, number in enumerate(self.numbers):
            found = torch.load(os.path.join(folder, f"step{step}-stage{number}.pt"), map_location=self.device,
                               weights_only=True)
            own = self.state(place)
            with torch.no_grad():
                for path, tensor in found["weights"].items():
                    own[path].copy_(part_of(tensor, own[path]))
            optimizer = self.optimizers[place]
            if optimizer is not None:
                weights = [weight for group in optimizer.param_groups for weight in group["params"]]
                found["optimizer"]["state"] = {
                    which: {name: part_of(tensor, weights[which]) for name, tensor in state.items()}
                    for which, state in found["optimizer"]["state"].items()}
                optimizer.load_state_dict(found["optimizer"])
        return step + 1

    def save_weights(self, path: str) -> None:
        """All of the model, with its own names, for load_state_dict."""
        mine = {}
        for place, number in enumerate(self.numbers):
            state = complete(self.state(place))
            if RANKS[number][0] == self.rank:
                mine.update({name: tensor.cpu() for name, tensor in state.items()})
        parts = gathered(mine)
        if self.rank == 0:
            torch.manual_seed(SEED)
            whole = named(FACTORY)().state_dict()
            known = {name: tensor for part in parts for name, tensor in part.items()}
            first: dict[Any, list[str]] = {}
            for name, tensor in whole.items():  # a shared weight has several names
                first.setdefault((tensor.data_ptr(), tensor.shape), []).append(name)
            for names in first.values():
                value = next((known[name] for name in names if name in known), None)
                if value is not None:
                    known.update(dict.fromkeys(names, value))
            torch.save({name: known.get(name, tensor) for name, tensor in whole.items()}, path)


def complete(tree: Any) -> Any:
    """With all of tensors that are sharded; all replicas call this together."""
    return torch.utils._pytree.tree_map_only(DTensor, lambda tensor: tensor.full_tensor(), tree)


def part_of(tensor: Any, like: Tensor) -> Any:
    """Of a whole tensor, what this process has of one that is sharded."""
    if not isinstance(like, DTensor) or not isinstance(tensor, Tensor) or tensor.shape != like.shape:
        return tensor
    return distribute_tensor(tensor, like.device_mesh, like.placements)


def make_optimizer(weights: list[Tensor]) -> torch.optim.Optimizer:
    if OPTIMIZER == "adamw":
        return torch.optim.AdamW(weights, lr=RATE)
    if OPTIMIZER == "sgd":
        return torch.optim.SGD(weights, lr=RATE)
    made: torch.optim.Optimizer = named(OPTIMIZER)(weights)
    return made


def tensors_of(inputs: Any) -> list[Tensor]:
    """Of the model's arguments, in order."""
    if KEYWORDS is not None:
        if not isinstance(inputs, dict) or set(inputs) != set(KEYWORDS):
            raise SystemExit(f"{DATA} gave inputs {sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__}, "
                             f"expected a dict of {KEYWORDS}")
        inputs = [inputs[name] for name in KEYWORDS]
    know(inputs)
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    if len(tensors) != len(BATCHED):
        raise SystemExit(f"{DATA} gave {len(tensors)} tensors as inputs, expected {len(BATCHED)}: {', '.join(BATCHED)}")
    return tensors


def all_reduce(weights: list[Tensor], group: Group) -> None:
    """Sums gradients over processes, in one message for each type; one that is missing counts as zero."""
    kinds = list(dict.fromkeys(weight.dtype for weight in weights))
    if len(kinds) > 1:
        for kind in kinds:
            all_reduce([weight for weight in weights if weight.dtype == kind], group)
        return
    if not weights:
        return
    gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(flat, group=group)
    for weight, gradient in zip(weights, torch.split(flat, [weight.numel() for weight in weights])):
        weight.grad = gradient.view_as(weight)


def device_of(arguments: argparse.Namespace) -> torch.device:
    if arguments.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device(arguments.device)


def write_whole(path: str, text: str) -> None:
    with open(path + ".part", "w") as file:
        file.write(text)
    os.replace(path + ".part", path)


# --- What happened, as stagecraft compare reads it

def trace_of(records: list[Any], busy: str) -> dict[str, Any]:
    """A stagecraft-trace/1 of all processes' records (spans, posts), from the first one's start. A message lasts from its
    send until the pass that needs it can begin, where the receiver waited for it; otherwise as long as others between the
    same stages, and at most until that pass."""
    zero = min(start for spans, _ in records for _, _, _, _, start, _ in spans)
    records = [([(*words, start - zero, end - zero) for *words, start, end in spans],
                [(*words, moment - zero) for *words, moment in posts]) for spans, posts in records]
    begins = {(iteration, op, stage, microbatch, rank): start for rank, (spans, _) in enumerate(records)
              for iteration, op, stage, microbatch, start, _ in spans}
    events, messages = [], []
    for rank, (spans, posts) in enumerate(records):
        for iteration, op, stage, microbatch, start, end in spans:
            lane = 3 if op.startswith(("reduce", "gather")) else 0
            events.append(event(rank, lane, op, stage, index(rank, microbatch, op), iteration, start, end))
        for iteration, op, stage, microbatch, posted in posts:
            other = stage + 1 if op == "send_activation" else stage - 1
            peer = peer_of(rank, op, stage, microbatch)
            needed = next(begins[key] for key in
                          [(iteration, name, other, microbatch, peer) for name in (("forward",) if op == "send_activation" else
                           ("recompute", "backward", "backward_input", "backward_weight"))]
                          if key in begins)
            free = max([end for _, _, _, _, _, end in records[peer][0] if end <= needed], default=0)
            messages.append((iteration, op, stage, other, microbatch, rank, peer, posted, needed, free <= posted))
    usual: dict[tuple[str, int], list[int]] = {}
    for _, op, stage, _, _, _, _, posted, needed, waited in messages:
        if waited:
            usual.setdefault((op, stage), []).append(needed - posted)
    for iteration, op, stage, other, microbatch, rank, peer, posted, needed, waited in messages:
        known = sorted(usual.get((op, stage), [0]))
        end = needed if waited else min(needed, posted + known[len(known) // 2])
        end = posted if is_empty(op, stage) else max(end, posted)
        number = index(rank, microbatch, op)
        events.append(event(rank, 1, op, stage, number, iteration, posted, end, peer))
        events.append(event(peer, 2, op.replace("send", "receive"), other, number, iteration, posted, end, rank))
    events.sort(key=lambda e: (e["pid"], e["args"]["start_ns"], e["tid"]))
    about = {"kind": "measured"} | ({"busy": busy} if busy else {})
    return {"displayTimeUnit": "ms",
            "otherData": {"format": "stagecraft-trace/1", "devices": WORLD, "stages": len(RANKS),
                          "microbatches": MICROBATCHES if SPLIT else ALL_MICROBATCHES, "memory": 0, "about": about},
            "traceEvents": events}


def peer_of(rank: int, op: str, stage: int, microbatch: int) -> int:
    """The process that a message goes to."""
    other = RANKS[stage + 1 if op == "send_activation" else stage - 1]
    return other[microbatch % len(other) if TURNS else replica_of(rank)]


def is_empty(op: str, stage: int) -> bool:
    """Plans have a message also where no weight before the cut is trained."""
    return op == "send_gradient" and not any(it[3] for it in stage_modules.STAGES[stage].takes)


def replica_of(rank: int) -> int:
    """The pipeline that a process belongs to."""
    return 0 if TURNS else next(r for r in range(REPLICAS) for ranks in RANKS if ranks[r] == rank)


def index(rank: int, microbatch: int, op: str) -> int:
    """A replica's microbatch, counted over all of the step; of what a step does once, the last."""
    if SPLIT:
        return microbatch
    if op in ("update", "reduce_tied", "reduce_gradient", "reduce_scatter", "gather_parameters"):
        return ALL_MICROBATCHES - 1
    return microbatch * REPLICAS + replica_of(rank)


LETTERS = {"forward": "F", "recompute": "R", "backward": "B", "backward_input": "I", "backward_weight": "W", "update": "U",
           "reduce_gradient": "G", "reduce_scatter": "GS", "reduce_tied": "T", "gather_parameters": "P", "send_activation": "SF",
           "receive_activation": "RF", "send_gradient": "SB", "receive_gradient": "RB"}


def event(rank: int, lane: int, op: str, stage: int, microbatch: int, iteration: int, start: int, end: int,
          peer: int | None = None) -> dict[str, Any]:
    what = {"op": op, "stage": stage, "microbatch": microbatch, "iteration": iteration}
    if peer is not None:
        what["peer"] = peer
    return {"ph": "X", "pid": rank, "tid": lane, "ts": start / 1000, "dur": (end - start) / 1000,
            "name": f"{LETTERS[op]}{stage}.{microbatch}", "cat": ("compute", "send", "receive", "collective")[lane],
            "args": what | {"start_ns": start, "duration_ns": end - start}}


def arguments_of(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10, help="how many (10)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (cpu)")
    parser.add_argument("--weights", metavar="FILE", help="a state_dict to start from")
    parser.add_argument("--save-weights", metavar="FILE", help="the whole model's state_dict afterwards")
    parser.add_argument("--losses", metavar="FILE", help="losses of all steps, as JSON")
    parser.add_argument("--checkpoint", metavar="DIR", help="where checkpoints go")
    parser.add_argument("--every", type=int, default=100, help="steps between two checkpoints (100)")
    parser.add_argument("--resume", metavar="DIR", help="go on from a checkpoint")
    parser.add_argument("--profile", metavar="FILE", help="a trace of all steps but the first, for stagecraft compare")
    parser.add_argument("--kineto", metavar="DIR", help="a trace of torch's own profiler for each process, of the same steps")
    arguments = parser.parse_args(argv)
    for option in ("profile", "kineto"):
        if getattr(arguments, option) and arguments.steps < 2:
            parser.error(f"--{option} needs --steps 2 or more: the first step is left out")
    for option in ("steps", "every"):
        if getattr(arguments, option) < 1:
            parser.error(f"--{option}: expected 1 or more, found {getattr(arguments, option)}")
    if arguments.weights and not os.path.isfile(arguments.weights):
        parser.error(f"--weights: there is no file {arguments.weights}")
    if arguments.resume and not os.path.isfile(os.path.join(arguments.resume, "step")):
        parser.error(f"--resume: {arguments.resume} has no checkpoint; --checkpoint {arguments.resume} makes one")
    if arguments.device == "cuda" and torch.cuda.device_count() < int(os.environ.get("LOCAL_WORLD_SIZE", 1)):
        parser.error(f"--device cuda: PyTorch {torch.__version__} sees {torch.cuda.device_count()} GPUs, and each of "
                     f"{os.environ.get('LOCAL_WORLD_SIZE', 1)} processes here needs one")
    return arguments


def main(argv: Sequence[str] | None = None) -> None:
    arguments = arguments_of(argv)
    if int(os.environ.get("WORLD_SIZE", 0)) != WORLD:
        raise SystemExit(f"expected {WORLD} processes, found {os.environ.get('WORLD_SIZE', 'none')}: "
                         f"torchrun --nproc-per-node {WORLD} {sys.argv[0]}")
    if TURNS and arguments.device == "cuda":
        raise SystemExit("stages with different numbers of replicas run on CPUs: messages of NCCL have no tags; "
                         "plan with --straight for GPUs")
    is_mine = not dist.is_initialized()
    if is_mine:
        dist.init_process_group("nccl" if arguments.device == "cuda" else "gloo")
    run(Trainer(arguments), arguments)
    if is_mine:
        dist.destroy_process_group()


def run(trainer: Trainer, arguments: argparse.Namespace) -> None:
    first = trainer.resume(arguments.resume) if arguments.resume else 0
    recorder = None
    profiler = torch.profiler.profile() if arguments.kineto else None
    losses, times = [], []
    with contextlib.ExitStack() as stack:
        for step in range(first, first + arguments.steps):
            if (arguments.profile or profiler) and step == first + 1:
                recorder = Recorder(trainer.device)
                trainer.record(recorder)
                if profiler:
                    stack.enter_context(profiler)
            with recorder.step(step, step - first - 1) if recorder else contextlib.nullcontext():
                start = time.perf_counter()
                loss = mean_of_replicas(trainer.train(step), trainer)
            times.append(time.perf_counter() - start)
            losses.append(loss)
            if trainer.rank == 0:
                print(f"step {step}: loss {loss:.6f}, {times[-1] * 1e3:.1f} ms", flush=True)
            if arguments.checkpoint and ((step + 1) % arguments.every == 0 or step + 1 == first + arguments.steps):
                trainer.save(arguments.checkpoint, step)
        if profiler and recorder:
            profiler.add_metadata_json("stagecraft", json.dumps(
                {"clock_offset_ns": recorder.offset, "busy": recorder.busy()}))
    if profiler:
        os.makedirs(arguments.kineto, exist_ok=True)
        profiler.export_chrome_trace(os.path.join(arguments.kineto, f"rank{trainer.rank}.json"))
    if arguments.save_weights:
        trainer.save_weights(arguments.save_weights)
    if arguments.profile and recorder:
        parts = gathered((recorder.spans, recorder.posted, recorder.busy()))
        if trainer.rank == 0:
            busy = next((words for _, _, words in parts if words), "")
            write_whole(arguments.profile, json.dumps(trace_of([(spans, posts) for spans, posts, _ in parts], busy)))
    if trainer.rank == 0:
        if arguments.losses:
            write_whole(arguments.losses, json.dumps(losses))
        middle = sorted(times[1:] or times)[len(times[1:] or times) // 2]
        print(f"median step {middle * 1e3:.1f} ms" + (f", predicted {PREDICTED}" if PREDICTED else ""))


def mean_of_replicas(loss: float | None, trainer: Trainer) -> float:
    """The same on all processes."""
    total = torch.tensor([0.0 if loss is None else loss], dtype=torch.float64, device=trainer.device)
    dist.all_reduce(total)
    return total.item()


if __name__ == "__main__":
    main()
