"""Measures a graph of layers: times and memory of each, for microbatches of one size.

A sweep runs every layer forward in order and then backward in reverse, as a training step does, so that
caches and the allocator are in the state in which training finds them; each layer's autograd graph is its
own, with leaves as inputs. Weights' gradients add up, as those of a step's microbatches do. Sweeps take turns: one has a
backward in one piece, the next one the backward that torch.distributed.pipelining splits (stage_backward_input, stage_backward_weight).
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import time
from typing import Any, Callable, Iterator, Sequence

import torch
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

from .errors import ModelError
from .layers import Graph, Layer
from .recording import Call, Node, attribute, bind, input_names, run_node, tensors_in, unchanged
from .user_code import last_line

Read = tuple[int, int]


@dataclasses.dataclass
class LayerTimes:
    """Seconds, one of each sweep."""
    forward: list[float] = dataclasses.field(default_factory=list)
    backward: list[float] = dataclasses.field(default_factory=list)  #: fused
    backward_input: list[float] = dataclasses.field(default_factory=list)
    backward_weight: list[float] = dataclasses.field(default_factory=list)
    update: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class LayerBytes:
    saved: int = 0
    saved_for_weight: int = 0
    output: int = 0
    output_freed: int = 0
    parameters: int = 0
    gradients: int = 0
    optimizer: int = 0
    workspace: int = 0


@dataclasses.dataclass
class Measured:
    times: list[LayerTimes]
    bytes: list[LayerBytes]
    whole_forward: list[float]  #: of the model as it is, to be held against the sum of the layers
    whole_backward: list[float]
    whole_saved: int
    load: float = 0.0  #: processors of this machine that other work kept busy meanwhile
    is_busy: bool = False  #: whether that was work on processors that were wanted here, so that times are too long


class Clock:
    """Seconds of a device's work."""

    def __init__(self, device: torch.device):
        self.device = device

    def now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.perf_counter()


def parameter_tensors(graph: Graph, layer: Layer) -> list[torch.nn.Parameter]:
    return [attribute(graph.model, path) for path in layer.parameters]  # type: ignore[misc]


class Sweeper:
    """Values of the whole graph, and what belongs to each layer."""

    def __init__(self, graph: Graph, inputs: list[torch.Tensor], device: torch.device):
        self.graph, self.device = graph, device
        self.recording = graph.recording
        self.inputs = inputs
        self.clock = Clock(device)
        self.outputs = set(self.recording.output_values)
        self.calls: dict[int, Call] = {}  #: by node
        self.idle = idle_backward(device)
        self.unsplit: set[str] = set()  #: layers whose backward torch cannot split: they use a weight twice
        self.at = ""  #: the layer that runs, or nothing: the whole model

    def nodes(self, layer: Layer) -> list[Node]:
        return [self.recording.nodes[node] for node in layer.nodes]

    def input_values(self, layer: Layer) -> dict[int, torch.Tensor]:
        return {self.recording.nodes[index].writes[0]: tensor
                for index, tensor in zip(self.recording.inputs, self.inputs) if index in layer.nodes}

    def call(self, node: int) -> Call:
        if node not in self.calls:
            self.calls[node] = Call(self.recording.nodes[node], self.graph.model)
        return self.calls[node]

    def leaf(self, read: Read, given: torch.Tensor) -> torch.Tensor:
        leaf = given.detach()
        if given.requires_grad:
            leaf.requires_grad_()
        return leaf

    def forward(self, layer: Layer, given: dict[Read, torch.Tensor]) -> tuple[dict[Read, torch.Tensor],
                                                                              dict[Read, torch.Tensor], float]:
        """What the layer reads, as leaves; what it gives; and seconds."""
        self.at = layer.name
        leaves = {read: self.leaf(read, given[read]) for read in layer.reads}
        written = {value for node in self.nodes(layer) for value in [*node.in_place, *node.by_alias]}
        values = {read[0]: leaf.clone() if read[0] in written else leaf for read, leaf in leaves.items()}
        values.update(self.input_values(layer))
        calls = [self.call(node) for node in layer.nodes if self.recording.nodes[node].kind != "input"]
        start = self.clock.now()
        for call in calls:
            call(values)
        seconds = self.clock.now() - start
        return leaves, {give: values[give[0]] for give in layer.gives}, seconds


def idle_backward(device: torch.device) -> float:
    """Seconds that a backward takes of which nothing is to compute. A stage has one call of it, and its layers are
    measured with one each."""
    clock, times = Clock(device), []
    leaf, gradient = torch.ones(1, device=device, requires_grad=True), torch.ones(1, device=device)
    for _ in range(20):
        root = leaf.view_as(leaf)
        start = clock.now()
        torch.autograd.backward([root], [gradient])
        times.append(clock.now() - start)
    return statistics.median(times)


def add_gradients(gradients: dict[Read, torch.Tensor], leaves: dict[Read, torch.Tensor]) -> None:
    for read, leaf in leaves.items():
        if leaf.grad is not None:
            gradients[read] = gradients[read] + leaf.grad if read in gradients else leaf.grad
            leaf.grad = None


def backward(sweeper: Sweeper, layer: Layer, leaves: dict[Read, torch.Tensor], gives: dict[Read, torch.Tensor],
             gradients: dict[Read, torch.Tensor], is_split: bool) -> tuple[float, float, int]:
    """Seconds of both parts, and bytes of the gradients that the second one waits with. The fused one is a single
    part, the first."""
    sweeper.at = layer.name
    roots, root_gradients = [], []
    for give, tensor in gives.items():
        if give in sweeper.outputs and give not in gradients and tensor.requires_grad:
            gradients[give] = torch.ones_like(tensor)
        if tensor.requires_grad and give in gradients:
            roots.append(tensor)
            root_gradients.append(gradients.pop(give))
    if not roots:
        return 0.0, 0.0, 0
    inputs = [leaf for leaf in leaves.values() if leaf.requires_grad]
    weights = [p for p in parameter_tensors(sweeper.graph, layer) if p.requires_grad]
    clock = sweeper.clock
    start = clock.now()
    if is_split and inputs and weights and layer.name not in sweeper.unsplit:
        # torch detaches the outputs in place, which a view does not allow.
        edges = [torch.autograd.graph.get_gradient_edge(root) for root in roots]
        try:
            return split_backward(sweeper, edges, root_gradients, inputs, weights, gradients, leaves)
        except RuntimeError:
            sweeper.unsplit.add(layer.name)
        for tensor in [*inputs, *weights]:
            tensor.grad = None
        leaves, gives, _ = sweeper.forward(layer, leaves)
        gradients.update({give: gradient for give, gradient in
                          zip([give for give, tensor in gives.items() if tensor.requires_grad], root_gradients)})
        return backward(sweeper, layer, leaves, gives, gradients, False)
    torch.autograd.backward(roots, root_gradients)
    seconds = max(clock.now() - start - sweeper.idle, 0.0)
    add_gradients(gradients, leaves)
    return (0.0, seconds, 0) if weights and not inputs else (seconds, 0.0, 0)


def split_backward(sweeper: Sweeper, edges: list[Any], root_gradients: list[torch.Tensor], inputs: list[torch.Tensor],
                   weights: list[torch.nn.Parameter], gradients: dict[Read, torch.Tensor],
                   leaves: dict[Read, torch.Tensor]) -> tuple[float, float, int]:
    """As torch.distributed.pipelining does it."""
    clock = sweeper.clock
    start = clock.now()
    _, groups = stage_backward_input(edges, root_gradients, inputs, iter(weights))
    middle = clock.now()
    waiting = sum({tensor.untyped_storage()._cdata: tensor.nbytes for group in groups
                   for grads in group.get("grads") or [] if grads is not None
                   for tensor in grads if tensor is not None}.values())
    again = clock.now()
    stage_backward_weight(iter(weights), [group for group in groups if group.get("grads")])
    end = clock.now()
    add_gradients(gradients, leaves)
    # Backwards of weights are one for each group of them, in a stage as here.
    return max(middle - start - sweeper.idle, 0.0), end - again, waiting


def optimizer_of(graph: Graph, layer: Layer, kind: str) -> torch.optim.Optimizer | None:
    trained = [p for p in parameter_tensors(graph, layer) if p.requires_grad]
    return OPTIMIZERS[kind](trained) if trained else None


def sweep(sweeper: Sweeper, times: list[LayerTimes], waiting: list[int], is_split: bool,
          optimizers: list[torch.optim.Optimizer | None]) -> None:
    layers = sweeper.graph.layers
    given: dict[Read, torch.Tensor] = {}
    passes = []
    for number, layer in enumerate(layers):
        leaves, gives, seconds = sweeper.forward(layer, given)
        times[number].forward.append(seconds)
        given.update(gives)
        passes.append((leaves, gives))
    given.clear()
    gradients: dict[Read, torch.Tensor] = {}
    for number in reversed(range(len(layers))):
        leaves, gives = passes.pop()
        first, second, bytes_waiting = backward(sweeper, layers[number], leaves, gives, gradients, is_split)
        if is_split:
            times[number].backward_input.append(first)
            times[number].backward_weight.append(second)
            waiting[number] = bytes_waiting
        else:
            times[number].backward.append(first + second)
    for number, optimizer in enumerate(optimizers):
        times[number].update.append(update(sweeper, optimizer))


def update(sweeper: Sweeper, optimizer: torch.optim.Optimizer | None) -> float:
    """Seconds of an optimizer's step, with a rate of zero."""
    if optimizer is None:
        return 0.0
    start = sweeper.clock.now()
    optimizer.step()
    return sweeper.clock.now() - start


def storage_key(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage._cdata if storage.data_ptr() == 0 else storage.data_ptr(), storage.nbytes()


@contextlib.contextmanager
def saving(kept: dict[int, int], alive: list[torch.Tensor], own: set[int]) -> Iterator[None]:
    """Storages (address: bytes) that are saved for backward, without the `own` ones of weights."""
    def pack(tensor: torch.Tensor) -> torch.Tensor:
        address, size = storage_key(tensor)
        if address not in own:
            kept[address] = size
            alive.append(tensor.detach())  # so that no other one takes its address
        return tensor
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        yield


def weights_of(model: torch.nn.Module) -> set[int]:
    return {storage_key(tensor)[0] for tensor in [*model.parameters(), *model.buffers()]}


def memory(sweeper: Sweeper, bytes_of: list[LayerBytes]) -> None:
    """One linked forward of all layers: which storages each one saves, and who else has them."""
    graph, recording = sweeper.graph, sweeper.recording
    own = weights_of(graph.model)
    alive: list[torch.Tensor] = []
    values: dict[int, torch.Tensor] = {}
    saved: list[dict[int, int]] = []
    holder: dict[int, int] = {}  # storage: the last layer that gives it to others
    given: list[dict[int, int]] = []
    for number, layer in enumerate(graph.layers):
        values.update(sweeper.input_values(layer))
        kept: dict[int, int] = {}
        sweeper.at = layer.name
        with saving(kept, alive, own):
            for node in sweeper.nodes(layer):
                if node.kind != "input":
                    run_node(node, graph.model, values)
        saved.append(kept)
        given.append({})
        for value, _ in layer.gives:
            address, size = storage_key(values[value])
            alive.append(values[value].detach())
            if address not in own:
                holder[address] = number
                given[number][address] = size
            bytes_of[number].output += recording.values[value].bytes
    needed = {address: size for kept in saved for address, size in kept.items()}
    counted: set[int] = set()
    for number, layer in enumerate(graph.layers):
        mine = 0
        for address, size in saved[number].items():
            if address not in holder and address not in counted:
                counted.add(address)
                mine += size
        held = sum(size for address, size in given[number].items()
                   if holder[address] == number and address in needed)
        output = bytes_of[number].output
        bytes_of[number].saved = mine + max(held - output, 0)
        bytes_of[number].output_freed = output - min(held, output)


def whole(sweeper: Sweeper, example: Any, measured: Measured) -> None:
    """The model as it is, and its loss: a forward and a backward in one piece."""
    model, clock = sweeper.graph.model, sweeper.clock
    sweeper.at = ""
    args, kwargs = bind(model, example)
    args = tuple(to(argument, sweeper.device) for argument in args)
    kwargs = {name: to(argument, sweeper.device) for name, argument in kwargs.items()}
    kept: dict[int, int] = {}
    counting = saving(kept, [], weights_of(model)) if not measured.whole_saved else contextlib.nullcontext()
    start = clock.now()
    with counting:
        result = model(*args, **kwargs)
        if sweeper.graph.loss:
            result = sweeper.graph.loss.function(result, sweeper.graph.loss.target)
    middle = clock.now()
    outputs = [tensor for tensor in tensors_in(result) if tensor.requires_grad]
    if not outputs:
        raise ModelError(f"nothing of what {type(model).__name__} returns has a gradient, so there is nothing to train: let weights "
                         "require one, and call it without torch.no_grad")
    torch.autograd.backward(outputs, [torch.ones_like(tensor) for tensor in outputs])
    end = clock.now()
    if kept:
        measured.whole_saved = sum(kept.values())
        return
    measured.whole_forward.append(middle - start)
    measured.whole_backward.append(end - middle)


def to(argument: Any, device: torch.device) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), argument)


def workspace(sweeper: Sweeper, bytes_of: list[LayerBytes]) -> None:
    """What a layer needs beside what it keeps, while it runs; the CPU's allocator does not tell."""
    if sweeper.device.type != "cuda":
        return
    given: dict[Read, torch.Tensor] = {}
    for number, layer in enumerate(sweeper.graph.layers):
        torch.cuda.reset_peak_memory_stats(sweeper.device)
        leaves, gives, _ = sweeper.forward(layer, given)
        after = torch.cuda.memory_allocated(sweeper.device)
        peak = torch.cuda.max_memory_allocated(sweeper.device) - after
        given.update({give: tensor.detach().requires_grad_(tensor.requires_grad) for give, tensor in gives.items()})
        gradients = {give: torch.ones_like(tensor) for give, tensor in gives.items()}
        torch.cuda.reset_peak_memory_stats(sweeper.device)
        before = torch.cuda.memory_allocated(sweeper.device)
        backward(sweeper, layer, leaves, gives, gradients, False)
        kept = sum(p.nbytes for p in parameter_tensors(sweeper.graph, layer) if p.grad is not None) \
            + sum(leaf.nbytes for leaf in leaves.values() if leaf.requires_grad)
        peak = max(peak, torch.cuda.max_memory_allocated(sweeper.device) - before - kept)
        bytes_of[number].workspace = max(peak, 0)
    sweeper.graph.model.zero_grad(set_to_none=True)


class Watch:
    """What other work the machine does from now on."""

    def __init__(self, beside: Sequence[int]):
        self.beside = beside
        self.start, self.machine, self.own = time.monotonic(), self.machine_seconds(), self.own_seconds()

    @staticmethod
    def machine_seconds() -> float:
        """Of all processors, in which they worked, or others had them (of a virtual machine)."""
        with contextlib.suppress(OSError, ValueError), open("/proc/stat") as file:
            user, nice, system, _, _, interrupt, soft, stolen = (int(word) for word in file.readline().split()[1:9])
            return (user + nice + system + interrupt + soft + stolen) / os.sysconf("SC_CLK_TCK")
        return time.process_time()

    def own_seconds(self) -> float:
        seconds = time.process_time()
        for process in self.beside:
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{process}/stat") as file:
                user, system = file.read().rpartition(")")[2].split()[11:13]
                seconds += (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        return seconds

    def tell(self, measured: Measured) -> None:
        """What it was until now."""
        others = (self.machine_seconds() - self.machine) - (self.own_seconds() - self.own)
        measured.load = max(others, 0.0) / max(time.monotonic() - self.start, 0.01)
        wanted = torch.get_num_threads() * (1 + len(self.beside))
        measured.is_busy = measured.load > 0.1 * wanted and measured.load + wanted > (os.cpu_count() or 1)


@contextlib.contextmanager
def failures_named(sweeper: Sweeper) -> Iterator[None]:
    """What goes wrong in a model's own code, in a sentence."""
    try:
        yield
    except (ModelError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        name = type(sweeper.graph.model).__name__
        if not sweeper.at:
            raise ModelError(f"{name} cannot be trained as it is, without any cut: {last_line(error)}") from error
        raise ModelError(f'layer "{sweeper.at}" of {name} cannot be run by itself: {last_line(error)}; choose the module around '
                         "it as one layer (--layers, or a smaller --depth)") from error


def state_bytes(optimizer: torch.optim.Optimizer | None) -> int:
    if optimizer is None:
        return 0
    return sum(tensor.nbytes for state in optimizer.state.values() for tensor in state.values()
               if isinstance(tensor, torch.Tensor) and tensor.numel() > 1)


OPTIMIZERS: dict[str, Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer]] = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.0, weight_decay=0.0),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.0),
}


def measure(graph: Graph, example: Any, device: torch.device, repeats: int, warmup: int, optimizer: str,
            progress: Callable[[], None], beside: Sequence[int] = ()) -> Measured:
    """Times and memory of the graph's layers. The model and the example's tensors are on the device; processes of these
    numbers do the same meanwhile."""
    sweeper = Sweeper(graph, input_tensors(graph, example, device), device)
    measured = nothing_measured(graph)
    waiting = [0] * len(graph.layers)
    optimizers = [optimizer_of(graph, layer, optimizer) for layer in graph.layers]
    watch = Watch(beside)
    with unchanged(graph.model), torch.enable_grad(), failures_named(sweeper):
        graph.model.zero_grad(set_to_none=True)
        memory(sweeper, measured.bytes)
        whole(sweeper, example, measured)
        workspace(sweeper, measured.bytes)
        for _ in range(warmup):
            for is_split in (False, True):
                sweep(sweeper, nothing_measured(graph).times, waiting, is_split, optimizers)
                progress()
        for _ in range(repeats):
            for is_split in (False, True):
                sweep(sweeper, measured.times, waiting, is_split, optimizers)
                progress()
            whole(sweeper, example, measured)
        graph.model.zero_grad(set_to_none=True)
    watch.tell(measured)
    for number, layer in enumerate(graph.layers):
        finish(sweeper, layer, measured.times[number], measured.bytes[number], waiting[number], optimizers[number])
    return measured


def input_tensors(graph: Graph, example: Any, device: torch.device) -> list[torch.Tensor]:
    args, kwargs = bind(graph.model, example)
    return [tensor.to(device) for _, _, argument in input_names(graph.model, args, kwargs)
            for tensor in tensors_in(argument)]


def sweep_until(graph: Graph, example: Any, optimizer: str, ready: Callable[[], None], ends: Callable[[], bool]) -> None:
    """The same sweeps on the CPU, beside a process that is measured. Calls `ready` after the first two."""
    cpu = torch.device("cpu")
    sweeper = Sweeper(graph, input_tensors(graph, example, cpu), cpu)
    optimizers = [optimizer_of(graph, layer, optimizer) for layer in graph.layers]
    graph.model.zero_grad(set_to_none=True)
    is_first = True
    with unchanged(graph.model), torch.enable_grad():
        while is_first or not ends():
            for is_split in (False, True):
                sweep(sweeper, nothing_measured(graph).times, [0] * len(graph.layers), is_split, optimizers)
            if is_first:
                ready()
            is_first = False


def nothing_measured(graph: Graph) -> Measured:
    count = len(graph.layers)
    return Measured([LayerTimes() for _ in range(count)], [LayerBytes() for _ in range(count)], [], [], 0)


def finish(sweeper: Sweeper, layer: Layer, times: LayerTimes, numbers: LayerBytes, waiting: int,
           optimizer: torch.optim.Optimizer | None) -> None:
    weights = parameter_tensors(sweeper.graph, layer)
    numbers.parameters = sum(p.nbytes for p in weights)
    numbers.gradients = sum(p.nbytes for p in weights if p.requires_grad)
    numbers.optimizer = state_bytes(optimizer)
    # The split backward keeps the whole graph until the second part.
    has_second = statistics.median(times.backward_weight or [0.0]) > 0
    numbers.saved_for_weight = numbers.saved + waiting if has_second else 0


# --- Layer by layer

def measure_apart(graph: Graph, device: torch.device, repeats: int, warmup: int, optimizer: str,
                  progress: Callable[[], None]) -> Measured:
    """The same, with the weights of one layer on the device at a time, and inputs made up: for a model that does not
    fit there, or has no memory (device "meta")."""
    measured = nothing_measured(graph)
    watch = Watch([])
    needed: set[Read] = set()
    for number, layer in enumerate(graph.layers):
        inputs = [made_up(graph, (graph.recording.nodes[index].writes[0], index), device)
                  for index in graph.recording.inputs]
        sweeper = Sweeper(graph, inputs, device)
        with placed(graph, layer, device), torch.random.fork_rng(), torch.enable_grad():
            measure_layer(sweeper, number, measured, needed, repeats, warmup, optimizer)
    for number, layer in enumerate(graph.layers):
        sizes = {give: graph.recording.values[give[0]].bytes for give in layer.gives}
        measured.bytes[number].output = sum(sizes.values())
        measured.bytes[number].output_freed = sum(size for give, size in sizes.items() if give not in needed)
    for _ in range(2 * (warmup + repeats)):
        progress()
    watch.tell(measured)
    return measured


def measure_layer(sweeper: Sweeper, number: int, measured: Measured, needed: set[Read], repeats: int, warmup: int,
                  optimizer: str) -> None:
    graph, layer = sweeper.graph, sweeper.graph.layers[number]
    times, numbers = measured.times[number], measured.bytes[number]
    given = {read: made_up(graph, read, sweeper.device) for read in layer.reads}
    kept: dict[int, int] = {}
    alive: list[torch.Tensor] = []
    own = {storage_key(tensor)[0] for tensor in parameter_tensors(graph, layer)}
    with saving(kept, alive, own):
        leaves, gives, _ = sweeper.forward(layer, given)
    for read, tensor in [*leaves.items(), *gives.items()]:
        if kept.pop(storage_key(tensor)[0], None) is not None:
            needed.add(read)
    numbers.saved = sum(kept.values())
    made = optimizer_of(graph, layer, optimizer)
    waiting = 0
    for repeat in range(warmup + repeats):
        counts = repeat >= warmup
        for is_split in (False, True):
            leaves, gives, seconds = sweeper.forward(layer, given)
            gradients = {give: torch.ones_like(tensor) for give, tensor in gives.items() if tensor.requires_grad}
            first, second, bytes_waiting = backward(sweeper, layer, leaves, gives, gradients, is_split)
            step = update(sweeper, made)
            waiting = max(waiting, bytes_waiting)
            if counts:
                times.forward.append(seconds)
                times.update.append(step)
                (times.backward_input if is_split else times.backward).append(first if is_split else first + second)
                if is_split:
                    times.backward_weight.append(second)
    finish(sweeper, layer, times, numbers, waiting, made)


def made_up(graph: Graph, read: Read, device: torch.device) -> torch.Tensor:
    value = graph.recording.values[read[0]]
    if value.dtype.is_floating_point:
        return torch.randn(value.shape, dtype=value.dtype, device=device).requires_grad_(value.requires_grad)
    return torch.zeros(value.shape, dtype=value.dtype, device=device)


@contextlib.contextmanager
def placed(graph: Graph, layer: Layer, device: torch.device) -> Iterator[None]:
    """The layer's weights and buffers are on the device: copies, or made up where there are none."""
    modules = [graph.model.get_submodule(node.target) for node in (graph.recording.nodes[n] for n in layer.nodes)
               if node.kind == "layer"]
    tensors = [tensor for module in modules for tensor in [*module.parameters(), *module.buffers()]]
    tensors += [attribute(graph.model, path) for n in layer.nodes for path in graph.recording.nodes[n].attributes]
    copies = {id(tensor): copy_of(tensor, device) for tensor in tensors}
    moved = []
    for module in graph.model.modules():
        for table in (module._parameters, module._buffers):
            for name, tensor in list(table.items()):
                if tensor is not None and id(tensor) in copies:
                    moved.append((table, name, tensor))
                    table[name] = copies[id(tensor)]  # type: ignore[assignment]
    try:
        yield
    finally:
        for table, name, tensor in moved:
            table[name] = tensor  # type: ignore[assignment]


def copy_of(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    if tensor.is_meta:
        made = torch.ones(tensor.shape, dtype=tensor.dtype, device=device)
        if tensor.dtype.is_floating_point and isinstance(tensor, torch.nn.Parameter):
            made = made.normal_(0, 0.02)
    else:
        made = tensor.detach().to(device, copy=True)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made
