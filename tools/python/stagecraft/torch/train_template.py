#!/usr/bin/env python3
"""Trains the model in stages, as the plan says, with torch.distributed.pipelining.

    torchrun --nproc-per-node WORLD train.py --steps 10

WORLD is the number of processes in RANKS below; on several machines torchrun's --nnodes and --rdzv-endpoint.
Processes use CPUs and gloo, or with --device cuda a GPU each and NCCL. Each makes the whole model from the
same seed and keeps its stages. A step's samples are cut into parts of MICROBATCH; replica r of a stage, or
of the whole pipeline, has the parts r, r + replicas, … Losses are the means over all samples.
"""

import argparse
import contextlib
import importlib
import json
import os
import re
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining._backward import stage_backward, stage_backward_input, stage_backward_weight
from torch.distributed.pipelining.microbatch import TensorChunkSpec, _Replicate
from torch.distributed.pipelining.schedules import (PipelineScheduleSingle, _PipelineScheduleRuntime,
                                                    get_schedule_class)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.getcwd(), HERE]
import stages as stage_modules  # noqa: E402

# <settings>
FACTORY = LOSS = DATA = OPTIMIZER = SCHEDULE = PREDICTED = ""
RATE, SEED, BATCH, MICROBATCH, MICROBATCHES, TURNS, SPLIT = 0.0, 1, 1, 1, 1, False, False
RANKS, RECOMPUTE, SHARED, BATCHED, WHOLE, KEYWORDS = [[0]], [False], [], {}, [False], None
# </settings>

REPLICAS = 1 if TURNS else len(RANKS[0])  # whole pipelines
ALL_MICROBATCHES = MICROBATCHES * REPLICAS
WORLD = 1 + max(rank for ranks in RANKS for rank in ranks)


def named(words):
    """What package:name stands for."""
    package, _, name = words.partition(":")
    return getattr(importlib.import_module(package), name)


def plain(tensor):
    """As a message is in memory."""
    return tensor.resolve_conj().resolve_neg().contiguous()


class Module(nn.Module):
    """A stage's module: takes its own of the model's inputs, and runs its forward again where the plan says so."""

    def __init__(self, number, stage):
        super().__init__()
        self.stage, self.recomputes = stage, RECOMPUTE[number]

    def forward(self, *taken, **inputs):
        mine = {name: inputs[name] for name in self.stage.inputs}
        if self.recomputes:
            return torch.utils.checkpoint.checkpoint(self.stage, *taken, use_reentrant=False, **mine)
        return self.stage(*taken, **mine)


class Stage(PipelineStage):
    """A stage whose passes have random numbers of their own, and may be recorded."""

    def __init__(self, number, module, device, group):
        takes, gives = ([torch.empty(shape, dtype=dtype, device="meta", requires_grad=gradient)
                         for _, shape, dtype, gradient in tensors]
                        for tensors in (module.stage.takes, module.stage.gives))
        super().__init__(module, number, len(RANKS), device, input_args=tuple(takes), output_args=tuple(gives),
                         group=group, dw_builder=(lambda: lambda: None) if WHOLE[number] else None)
        self.recorder = None
        self.step = 0

    def forward_one_chunk(self, microbatch, *args, **kwargs):
        torch.manual_seed(hash((SEED, self.step, self.stage_index, microbatch, self.replica)) % 2**63)
        with self.recording("forward", microbatch):
            return super().forward_one_chunk(microbatch, *args, **kwargs)

    def backward_one_chunk(self, microbatch, loss=None, full_backward=True, last_backward=False):
        # Backward begins at the outputs' edges, also where torch still holds them for a send: their detach_() would
        # fail for one that is a view. All sends are under way.
        state = self._forward_chunk_states[microbatch]
        if not self.is_last:
            state.live_outputs = [None if edge is not None else live
                                  for live, edge in zip(state.live_outputs, state.output_grad_edges)]
        with self.recording("backward" if full_backward else "backward_input", microbatch):
            super().backward_one_chunk(microbatch, loss=loss, full_backward=full_backward,
                                       last_backward=last_backward)
        if microbatch in self.bwd_cache:  # messages are contiguous
            self.bwd_cache[microbatch] = tuple(gradient if gradient is None else plain(gradient)
                                               for gradient in self.bwd_cache[microbatch])

    def backward_weight_one_chunk(self, microbatch, last_backward=False):
        with self.recording("backward_weight", microbatch):
            super().backward_weight_one_chunk(microbatch, last_backward=last_backward)

    def get_fwd_send_ops(self, microbatch):
        operations = super().get_fwd_send_ops(microbatch)
        if self.recorder and operations:
            self.recorder.posts("send_activation", self.stage_index, microbatch)
        return operations

    def get_bwd_send_ops(self, microbatch):
        operations = super().get_bwd_send_ops(microbatch)
        is_message = not self.is_first and RANKS[self.stage_index - 1][self.replica] != dist.get_rank()
        if self.recorder and is_message:  # plans have one also where no weight before the cut is trained
            self.recorder.posts("send_gradient", self.stage_index, microbatch)
        return operations

    def recording(self, op, microbatch):
        return self.recorder.span(op, self.stage_index, microbatch) if self.recorder else contextlib.nullcontext()


class Turns:
    """Carries out an order of passes in which each stage's replicas take turns with microbatches. The schedules of
    torch.distributed.pipelining know one process for each stage; passes are torch's here, too."""

    def __init__(self, trainer):
        with open(os.path.join(HERE, SCHEDULE)) as file:
            row = file.read().splitlines()[trainer.rank]
        self.passes = [(int(stage), letter, int(microbatch))
                       for stage, letter, microbatch in re.findall(r"(\d+)([FBIW])(\d+)", row)]
        self.trainer, self.recorder, self.seed = trainer, None, 0
        self.modules = {number: Module(number, module) for number, module in zip(trainer.numbers, trainer.modules)}

    def place(self, stage, microbatch):
        """The process that works for the stage."""
        return RANKS[stage][microbatch % len(RANKS[stage])]

    def step(self, inputs, losses):
        self.inputs, self.losses = inputs, losses
        self.kept, self.waiting, self.here, self.posted, self.sent = {}, {}, {}, {}, []
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

    def message(self, stage, letter, microbatch):
        """Whether the pass needs one: from which stage, and shapes and types."""
        stage_module = self.modules[stage].stage
        if letter == "F" and stage > 0:
            return stage - 1, stage_module.takes
        if letter in "BI" and stage + 1 < len(RANKS):
            return stage + 1, [it for it in stage_module.gives if it[3]]
        return None

    def tag(self, stage, is_forward, microbatch, number):
        return ((stage * 2 + is_forward) * ALL_MICROBATCHES + microbatch) * 1000 + number

    def post(self, stage, letter, microbatch):
        found = self.message(stage, letter, microbatch)
        key = (stage, letter == "F", microbatch)
        if not found or key in self.posted or self.place(found[0], microbatch) == self.trainer.rank:
            return
        buffers = [torch.empty(shape, dtype=dtype) for _, shape, dtype, _ in found[1]]
        self.posted[key] = [(buffer, dist.irecv(buffer, self.place(found[0], microbatch),
                                                tag=self.tag(stage, letter == "F", microbatch, number)))
                            for number, buffer in enumerate(buffers)]

    def arrived(self, stage, letter, microbatch):
        found = self.message(stage, letter, microbatch)
        if not found:
            return []
        key = (stage, letter == "F", microbatch)
        if key in self.here:
            return self.here.pop(key)
        for _, work in self.posted[key]:
            work.wait()
        return [buffer for buffer, _ in self.posted.pop(key)]

    def send(self, stage, letter, microbatch, tensors):
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

    def forward(self, stage, microbatch, taken):
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
            self.losses.append(outputs[0].detach())
        self.kept[stage, microbatch] = taken, outputs
        return [tensor.detach() for tensor in outputs]

    def roots(self, stage, microbatch, gradients):
        """What backward begins with, as torch's functions want it."""
        taken, outputs = self.kept.pop((stage, microbatch))
        gradients = iter(gradients)
        roots = [tensor for tensor in outputs if tensor.requires_grad]
        return taken, roots, None if stage + 1 == len(RANKS) else [next(gradients) for _ in roots]

    def backward(self, stage, microbatch, gradients):
        taken, roots, gradients = self.roots(stage, microbatch, gradients)
        return self.handed_back(stage, taken, stage_backward(roots, gradients or [None] * len(roots), taken))

    def backward_input(self, stage, microbatch, gradients):
        taken, roots, gradients = self.roots(stage, microbatch, gradients)
        if stage == 0:
            self.waiting[stage, microbatch] = roots, gradients
            return []
        if WHOLE[stage]:
            return self.handed_back(stage, taken, stage_backward(roots, gradients or [None] * len(roots), taken))
        edges = [torch.autograd.graph.get_gradient_edge(root) for root in roots]
        gradients = gradients or [torch.ones_like(root) for root in roots]
        found, groups = stage_backward_input(edges, gradients, taken, self.modules[stage].parameters())
        self.waiting[stage, microbatch] = groups
        return self.handed_back(stage, taken, found)

    def backward_weight(self, stage, microbatch, _):
        waiting = self.waiting.pop((stage, microbatch), None)
        if waiting is None:  # the whole backward is done
            return []
        if stage == 0:
            torch.autograd.backward(waiting[0], waiting[1])
        else:
            stage_backward_weight(self.modules[stage].parameters(), waiting)
        return []

    def handed_back(self, stage, taken, gradients):
        """A message for each tensor with a gradient; one without influence has zeros."""
        return [torch.zeros_like(tensor) if gradient is None else gradient
                for tensor, gradient, (_, _, _, has) in zip(taken, gradients, self.modules[stage].stage.takes) if has]


class Recorder:
    """When each pass of this process began and ended: --profile."""

    def __init__(self, device):
        self.device, self.spans, self.posted, self.iteration, self.base = device, [], [], 0, 0

    def now(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.monotonic_ns() - self.base

    def begin(self, iteration):
        """All processes come here together; their clocks start anew."""
        self.iteration = iteration
        dist.barrier()
        if iteration == 0:
            self.base = time.monotonic_ns()

    @contextlib.contextmanager
    def span(self, op, stage, microbatch):
        start = self.now()
        # The name is what `stagecraft import kineto` and people find in a trace of torch's own profiler.
        with torch.profiler.record_function(f"{op} stage {stage} microbatch {microbatch}"):
            yield
        self.spans.append((self.iteration, op, stage, microbatch, start, self.now()))

    def posts(self, op, stage, microbatch):
        self.posted.append((self.iteration, op, stage, microbatch, self.now()))


class Trainer:
    """This process's stages, and all that a step needs."""

    def __init__(self, arguments):
        self.rank, self.device = dist.get_rank(), device_of(arguments)
        self.replica = replica_of(self.rank)
        self.replica_groups = {tuple(ranks): dist.new_group(ranks) for ranks in sorted({tuple(r) for r in RANKS})}
        self.shared_groups = {path: dist.new_group(sorted({rank for stage in holders for rank in RANKS[stage]}))
                              for path, holders in SHARED}
        self.numbers = [number for number, ranks in enumerate(RANKS) if self.rank in ranks]
        self.has_last = len(RANKS) - 1 in self.numbers
        torch.manual_seed(SEED)
        self.keep(named(FACTORY)(), arguments.weights)
        self.stages, self.turns, self.recorder = [], None, None
        if TURNS:
            self.turns = Turns(self)
        else:
            self.make_stages()

    def keep(self, model, weights):
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
        seen, self.optimizers = set(), []
        for module, paths in zip(self.modules, self.paths):
            module.to(self.device)
            weights = [(paths[name], tensor) for name, tensor in module.named_parameters()
                       if tensor.requires_grad and id(tensor) not in seen]
            seen.update(id(tensor) for _, tensor in weights)
            self.optimizers.append(make_optimizer([tensor for _, tensor in weights]) if weights else None)
        self.weights = {paths[name]: tensor for module, paths in zip(self.modules, self.paths)
                        for name, tensor in module.named_parameters() if tensor.requires_grad}

    def make_stages(self):
        pipelines = [list(dict.fromkeys(ranks[r] for ranks in RANKS)) for r in range(REPLICAS)]
        groups = [dist.new_group(pipeline) for pipeline in pipelines]
        self.stages = [Stage(number, Module(number, module), self.device, groups[self.replica])
                       for number, module in zip(self.numbers, self.modules)]
        for stage in self.stages:
            stage.replica = self.replica
        self.schedule = self.make_schedule()

    def make_schedule(self):
        settings = {"n_microbatches": MICROBATCHES, "loss_fn": self.loss, "scale_grads": False,
                    "kwargs_chunk_spec": {name: TensorChunkSpec(0) if BATCHED[name] else _Replicate
                                          for name in self.inputs()}}
        if SCHEDULE.endswith(".csv"):
            schedule = _PipelineScheduleRuntime(self.stages, **settings)
            schedule._load_csv(os.path.join(HERE, SCHEDULE))
            return schedule
        kind = get_schedule_class(SCHEDULE)
        return kind(self.stages[0] if issubclass(kind, PipelineScheduleSingle) else self.stages, **settings)

    def loss(self, output, microbatch):
        """Of a microbatch by its number: torch would split targets that are tensors, and nothing else."""
        tensors = output if isinstance(output, tuple) else (output,)
        return named(LOSS)(stage_modules.result(*tensors), self.targets[int(microbatch)])

    def inputs(self):
        """Names of the model's inputs that this process's stages read."""
        return [name for name in BATCHED if any(name in module.inputs for module in self.modules)]

    def mine(self, tensor, what, is_batched=True):
        """Of a step's samples, those of this replica's microbatches."""
        if not is_batched:
            return tensor.to(self.device)
        if tensor.shape[0] != BATCH:
            raise SystemExit(f"data gave {what} of {tensor.shape[0]} samples, expected {BATCH}: the plan's batch is "
                             f"{ALL_MICROBATCHES} microbatches of {MICROBATCH}")
        parts = tensor.split(MICROBATCH)[self.replica::REPLICAS]
        return torch.cat(parts).to(self.device)

    def targets_of(self, target):
        """Of each of this replica's microbatches: a tensor, or a tuple, list or dict of them."""
        leaves, tree = torch.utils._pytree.tree_flatten(target)
        parts = [self.mine(leaf, "a target").split(MICROBATCH) if isinstance(leaf, torch.Tensor) and leaf.dim()
                 else [leaf] * MICROBATCHES for leaf in leaves]
        return [torch.utils._pytree.tree_unflatten([part[microbatch] for part in parts], tree)
                for microbatch in range(MICROBATCHES)]

    def train(self, step):
        """One step; the mean loss on the last stage's processes, else None."""
        inputs, target = named(DATA)(step, BATCH)
        inputs = dict(zip(BATCHED, tensors_of(inputs), strict=True))
        inputs = {name: self.mine(inputs[name], name, BATCHED[name]) for name in self.inputs()}
        self.targets = self.targets_of(target) if self.has_last else None
        losses = [] if self.has_last else None
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
        return torch.stack(losses).double().sum().item() / ALL_MICROBATCHES if losses else None

    def reduce_gradients(self):
        """Means over microbatches and replicas, sums over the stages that share a weight."""
        shared = {path for path, _ in SHARED}
        for tensor in self.weights.values():
            if tensor.grad is not None:
                tensor.grad.div_(ALL_MICROBATCHES)
        for number, paths in zip(self.numbers, self.paths):
            if len(RANKS[number]) > 1:
                with self.recording("reduce_gradient", number):
                    mine = [path for path in dict.fromkeys(paths.values()) if path in self.weights and path not in shared]
                    all_reduce([self.weights[path] for path in mine], self.replica_groups[tuple(RANKS[number])])
        holders = sorted({stage for _, (owner, *users) in SHARED for user in users if RANKS[user] != RANKS[owner]
                          for stage in (owner, user)} & set(self.numbers))
        with contextlib.ExitStack() as stack:
            for number in holders:
                stack.enter_context(self.recording("reduce_tied", number))
            for path, _ in SHARED:
                if path in self.weights:
                    all_reduce([self.weights[path]], self.shared_groups[path])

    def update(self):
        for number, optimizer in zip(self.numbers, self.optimizers):
            with self.recording("update", number):
                if optimizer is not None:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)

    def recording(self, op, number):
        return self.recorder.span(op, number, MICROBATCHES - 1) if self.recorder else contextlib.nullcontext()

    def record(self, recorder):
        self.recorder = recorder
        for stage in [*self.stages, *([self.turns] if self.turns else [])]:
            stage.recorder = recorder

    # --- Files

    def state(self, number):
        module, paths = self.modules[number], self.paths[number]
        return {paths[name]: tensor for name, tensor in module.state_dict().items() if name in paths}

    def save(self, folder, step):
        """A file per stage, of the first replica; complete when the file `step` names it."""
        os.makedirs(folder, exist_ok=True)
        for place, number in enumerate(self.numbers):
            if RANKS[number][0] == self.rank:
                optimizer = self.optimizers[place]
                torch.save({"weights": self.state(place), "optimizer": optimizer and optimizer.state_dict()},
                           os.path.join(folder, f"step{step}-stage{number}.pt"))
        dist.barrier()
        if self.rank == 0:
            write_whole(os.path.join(folder, "step"), f"{step}\n")

    def resume(self, folder):
        """The step after the latest that is complete."""
        with open(os.path.join(folder, "step")) as file:
            step = int(file.read())
        for place, number in enumerate(self.numbers):
            found = torch.load(os.path.join(folder, f"step{step}-stage{number}.pt"), map_location=self.device,
                               weights_only=True)
            own = self.state(place)
            with torch.no_grad():
                for path, tensor in found["weights"].items():
                    own[path].copy_(tensor)
            if self.optimizers[place] is not None:
                self.optimizers[place].load_state_dict(found["optimizer"])
        return step + 1

    def save_weights(self, path):
        """All of the model, with its own names, for load_state_dict."""
        mine = {}
        for place, number in enumerate(self.numbers):
            if RANKS[number][0] == self.rank:
                mine.update({name: tensor.cpu() for name, tensor in self.state(place).items()})
        parts = [None] * WORLD
        dist.all_gather_object(parts, mine)
        if self.rank == 0:
            torch.manual_seed(SEED)
            whole = named(FACTORY)().state_dict()
            known = {name: tensor for part in parts for name, tensor in part.items()}
            first = {}
            for name, tensor in whole.items():  # a shared weight has several names
                first.setdefault((tensor.data_ptr(), tensor.shape), []).append(name)
            for names in first.values():
                value = next((known[name] for name in names if name in known), None)
                if value is not None:
                    known.update(dict.fromkeys(names, value))
            torch.save({name: known.get(name, tensor) for name, tensor in whole.items()}, path)


def make_optimizer(weights):
    if OPTIMIZER == "adamw":
        return torch.optim.AdamW(weights, lr=RATE)
    if OPTIMIZER == "sgd":
        return torch.optim.SGD(weights, lr=RATE)
    return named(OPTIMIZER)(weights)


def tensors_of(inputs):
    """Of the model's arguments, in order."""
    if KEYWORDS is not None:
        if not isinstance(inputs, dict) or set(inputs) != set(KEYWORDS):
            raise SystemExit(f"{DATA} gave inputs {sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__}, "
                             f"expected a dict of {KEYWORDS}")
        inputs = [inputs[name] for name in KEYWORDS]
    tensors = [leaf for leaf in torch.utils._pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    if len(tensors) != len(BATCHED):
        raise SystemExit(f"{DATA} gave {len(tensors)} tensors as inputs, expected {len(BATCHED)}: {', '.join(BATCHED)}")
    return tensors


def all_reduce(weights, group):
    """Sums gradients over processes, in one message; one that is missing counts as zero."""
    if not weights:
        return
    gradients = [torch.zeros_like(w) if w.grad is None else w.grad for w in weights]
    flat = torch._utils._flatten_dense_tensors(gradients)
    dist.all_reduce(flat, group=group)
    for weight, gradient in zip(weights, torch._utils._unflatten_dense_tensors(flat, gradients)):
        weight.grad = gradient.view_as(weight)


def device_of(arguments):
    if arguments.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device(arguments.device)


def write_whole(path, text):
    with open(path + ".part", "w") as file:
        file.write(text)
    os.replace(path + ".part", path)


# --- What happened, as stagecraft compare reads it

def trace_of(records):
    """A stagecraft-trace/1 of all processes' records (spans, posts). A message lasts from its send until the pass that
    needs it can begin, where the receiver waited for it; otherwise as long as others between the same stages, and at
    most until that pass."""
    begins = {(iteration, op, stage, microbatch, rank): start for rank, (spans, _) in enumerate(records)
              for iteration, op, stage, microbatch, start, _ in spans}
    events, messages = [], []
    for rank, (spans, posts) in enumerate(records):
        for iteration, op, stage, microbatch, start, end in spans:
            lane = 3 if op.startswith("reduce") else 0
            events.append(event(rank, lane, op, stage, index(rank, microbatch, op), iteration, start, end))
        for iteration, op, stage, microbatch, posted in posts:
            other = stage + 1 if op == "send_activation" else stage - 1
            peer = RANKS[other][replica_of(rank) if not TURNS else microbatch % len(RANKS[other])]
            needed = next(begins[key] for key in
                          [(iteration, name, other, microbatch, peer) for name in
                           (("forward",) if op == "send_activation" else ("backward", "backward_input", "backward_weight"))]
                          if key in begins)
            free = max([end for _, _, _, _, _, end in records[peer][0] if end <= needed], default=0)
            messages.append((iteration, op, stage, other, microbatch, rank, peer, posted, needed, free <= posted))
    usual = {}
    for _, op, stage, _, _, _, _, posted, needed, waited in messages:
        if waited:
            usual.setdefault((op, stage), []).append(needed - posted)
    for iteration, op, stage, other, microbatch, rank, peer, posted, needed, waited in messages:
        known = sorted(usual.get((op, stage), [0]))
        end = needed if waited else min(needed, posted + known[len(known) // 2])
        is_empty = op == "send_gradient" and not any(it[3] for it in stage_modules.STAGES[stage].takes)
        end = posted if is_empty else max(end, posted)
        number = index(rank, microbatch, op)
        events.append(event(rank, 1, op, stage, number, iteration, posted, end, peer))
        events.append(event(peer, 2, op.replace("send", "receive"), other, number, iteration, posted, end, rank))
    events.sort(key=lambda e: (e["pid"], e["args"]["start_ns"], e["tid"]))
    return {"displayTimeUnit": "ms",
            "otherData": {"format": "stagecraft-trace/1", "devices": WORLD, "stages": len(RANKS),
                          "microbatches": MICROBATCHES if SPLIT else ALL_MICROBATCHES, "memory": 0, "about": {"kind": "measured"}},
            "traceEvents": events}


def replica_of(rank):
    """The pipeline that a process belongs to."""
    return 0 if TURNS else next(r for r in range(REPLICAS) for ranks in RANKS if ranks[r] == rank)


def index(rank, microbatch, op):
    """A replica's microbatch, counted over all of the step; of what a step does once, the last."""
    if SPLIT:
        return microbatch
    if op in ("update", "reduce_tied", "reduce_gradient"):
        return ALL_MICROBATCHES - 1
    return microbatch * REPLICAS + replica_of(rank)


LETTERS = {"forward": "F", "backward": "B", "backward_input": "I", "backward_weight": "W", "update": "U",
           "reduce_gradient": "G", "reduce_tied": "T", "send_activation": "SF", "receive_activation": "RF",
           "send_gradient": "SB", "receive_gradient": "RB"}


def event(rank, lane, op, stage, microbatch, iteration, start, end, peer=None):
    what = {"op": op, "stage": stage, "microbatch": microbatch, "iteration": iteration}
    if peer is not None:
        what["peer"] = peer
    return {"ph": "X", "pid": rank, "tid": lane, "ts": start / 1000, "dur": (end - start) / 1000,
            "name": f"{LETTERS[op]}{stage}.{microbatch}", "cat": ("compute", "send", "receive", "collective")[lane],
            "args": what | {"start_ns": start, "duration_ns": end - start}}


def arguments_of(argv):
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
    if arguments.every < 1:
        parser.error(f"--every: expected 1 or more, found {arguments.every}")
    return arguments


def main(argv=None):
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


def run(trainer, arguments):
    first = trainer.resume(arguments.resume) if arguments.resume else 0
    recorder = Recorder(trainer.device)
    profiler = torch.profiler.profile() if arguments.kineto else None
    losses, times = [], []
    with contextlib.ExitStack() as stack:
        for step in range(first, first + arguments.steps):
            if (arguments.profile or profiler) and step > first:
                trainer.record(recorder)  # of which the profiler has its ranges' names
                recorder.begin(step - first - 1)
            if profiler and step == first + 1:
                stack.enter_context(profiler)
            start = time.perf_counter()
            loss = mean_of_replicas(trainer.train(step), trainer)
            times.append(time.perf_counter() - start)
            losses.append(loss)
            if trainer.rank == 0:
                print(f"step {step}: loss {loss:.6f}, {times[-1] * 1e3:.1f} ms", flush=True)
            if arguments.checkpoint and ((step + 1) % arguments.every == 0 or step + 1 == first + arguments.steps):
                trainer.save(arguments.checkpoint, step)
    if profiler:
        os.makedirs(arguments.kineto, exist_ok=True)
        profiler.export_chrome_trace(os.path.join(arguments.kineto, f"rank{trainer.rank}.json"))
    if arguments.save_weights:
        trainer.save_weights(arguments.save_weights)
    if arguments.profile:
        records = [None] * WORLD
        dist.all_gather_object(records, (recorder.spans, recorder.posted))
        if trainer.rank == 0:
            write_whole(arguments.profile, json.dumps(trace_of(records)))
    if trainer.rank == 0:
        if arguments.losses:
            write_whole(arguments.losses, json.dumps(losses))
        middle = sorted(times[1:] or times)[len(times[1:] or times) // 2]
        print(f"median step {middle * 1e3:.1f} ms" + (f", predicted {PREDICTED}" if PREDICTED else ""))


def mean_of_replicas(loss, trainer):
    """The same on all processes."""
    total = torch.tensor([0.0 if loss is None else loss], dtype=torch.float64, device=trainer.device)
    dist.all_reduce(total)
    return total.item()


if __name__ == "__main__":
    main()
