"""`profile`: a model's layers, what they cost, and how they hang together, as a stagecraft-profile/1."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import statistics
import sys
from typing import Any, Callable, Mapping, Sequence

import torch

from .companions import HandOver, Work, companions, measure_messages
from .errors import ModelError
from .layers import Graph, trace
from .losses import Loss, with_loss
from .measuring import LayerTimes, Measured, measure, measure_apart
from .recording import attribute, tensors_in
from .user_code import last_line, named

PRECISIONS = {torch.float64: "fp64", torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


@dataclasses.dataclass
class Profile:
    """A profile, as the file has it; and the graph it is of."""
    data: dict[str, Any]
    graph: Graph
    measured: dict[int, Measured]  #: by microbatch

    def save(self, path: str) -> None:
        with open(path, "w") as file:
            json.dump(self.data, file, indent=1)
            file.write("\n")

    def summary(self) -> str:
        model = self.data["model"]
        lines = [f"{model['name']}: {len(model['layers'])} layers, {len(model['edges'])} edges, "
                 f"{sum(layer['parameters'] for layer in model['layers']):,} parameters"]
        idle = unused_parameters(self.graph)
        if idle:
            lines.append(f"  not counted: {sum(p.numel() for p in idle.values()):,} parameters that the forward does not use "
                         f"({', '.join(list(idle)[:4])}{', …' if len(idle) > 4 else ''})")
        for microbatch, measured in sorted(self.measured.items()):
            sums = sum_of_layers(measured)
            lines.append(f"microbatch {microbatch}: forward {sums[0] * 1e3:.2f} ms, backward {sums[1] * 1e3:.2f} ms, "
                         f"saved {saved_sum(measured) / 2**20:.1f} MiB" + compared(measured))
            longer = split_sum(measured) / sums[1] - 1 if sums[1] > 0 else 0.0
            if longer > 0.05:
                lines.append(f"  in two parts, as zero-bubble schedules have it, backward takes {longer:.0%} longer")
            if self.graph.loss:
                last = measured.times[-1]
                lines.append(f"  of these the loss: forward {median(last.forward) * 1e3:.2f} ms, backward {median(last.backward) * 1e3:.2f} ms")
            if measured.is_busy:
                lines.append(f"  this machine was busy: other work had {measured.load:.1f} of its {os.cpu_count()} processors, so "
                             "times are too long and spread")
        return "\n".join(lines)


def unused_parameters(graph: Graph) -> dict[str, torch.nn.Parameter]:
    """Weights that are trained, of no layer."""
    used = {path for layer in graph.layers for path in layer.parameters}
    return {path: parameter for path, parameter in graph.model.named_parameters()
            if path not in used and parameter.requires_grad}


def median(times: Sequence[float]) -> float:
    return statistics.median(times) if times else 0.0


def sum_of_layers(measured: Measured) -> tuple[float, float]:
    """Seconds of all layers' forward and fused backward."""
    return (sum(median(times.forward) for times in measured.times),
            sum(median(times.backward) for times in measured.times))


def split_sum(measured: Measured) -> float:
    """Seconds of all layers' backward in two parts."""
    return sum(median(times.backward_input) + median(times.backward_weight) for times in measured.times)


def saved_sum(measured: Measured) -> int:
    return sum(numbers.saved + numbers.output - numbers.output_freed for numbers in measured.bytes)


def compared(measured: Measured) -> str:
    if not measured.whole_forward:
        return " (layer by layer)"
    forward, backward = sum_of_layers(measured)
    return (f"; the whole model: forward {median(measured.whole_forward) * 1e3:.2f} ms, backward "
            f"{median(measured.whole_backward) * 1e3:.2f} ms, saved {measured.whole_saved / 2**20:.1f} MiB")


def profile(model: torch.nn.Module, example_inputs: Any | Callable[[int], Any], *,
            microbatches: Sequence[int] = (), depth: int | str = "auto", layers: Sequence[str] = (),
            split: Sequence[str] = (), device: str | torch.device | None = None, repeats: int = 5, warmup: int = 2,
            optimizer: str = "adamw", loss: Callable[[Any, Any], torch.Tensor] | str | None = None, target: Any = None,
            name: str = "", sequence: int = 0, processes: int = 1, progress: bool | None = None) -> Profile:
    """Measures the model's layers.

    `example_inputs` are the arguments of one forward: a tensor, a tuple, or a dict of named ones; or a function
    that gives those of as many samples. Tensors are cut, or repeated, to each of the `microbatches` along their
    first dimension (default: the size that the example has). `depth`, `layers` and `split` choose layers: see
    stagecraft.torch.layers. The model is measured in the mode (train, eval) and with the weights it has; both are
    afterwards what they were. A model on the "meta" device is measured layer by layer, with weights made up: so is
    one that does not fit on a GPU. Of several `processes` of one machine's CPU the others do the same meanwhile, as
    they will when they train; and a message from one to the other is measured, too.

    A `loss` of what the model returns and a `target` is the last layer; it may be named as package:function. The
    target is given as the example inputs are.

    Backward is measured in one piece and in two parts, as zero-bubble schedules have it. These take longer: what both
    need is computed twice. The profile has the two parts, and what they take longer.

    Throws ModelError for a model that cannot be cut.
    """
    if optimizer not in ("adamw", "sgd"):
        raise ModelError(f'expected an optimizer of adamw or sgd, found "{optimizer}"')
    if repeats < 1 or warmup < 0:
        raise ModelError(f"expected repeats of 1 or more and a warm-up of 0 or more, found {repeats} and {warmup}")
    place = place_of(model, device)
    sizes = list(microbatches) or [batch_of(inputs_of(example_inputs, 1) if callable(example_inputs)
                                            else example_inputs)]
    if any(size < 1 for size in sizes) or len(set(sizes)) != len(sizes):
        raise ModelError(f"expected different microbatches of 1 sample or more, found {sizes}")
    refuse_processes(processes, model, place)
    bar = Bar(len(sizes) * (warmup + repeats) * 2, sys.stderr.isatty() if progress is None else progress)
    home = device_of(model)
    is_apart = home.type == "meta" or not fits(model, place)
    first: Graph | None = None
    measured: dict[int, Measured] = {}
    examples = {size: inputs_of(example_inputs, size) for size in sizes}
    losses = {size: loss_of(loss, target, size) for size in sizes}
    with contextlib.ExitStack() as stack:
        others = stack.enter_context(companions(processes - 1, Work(model, examples, (depth, layers, split), optimizer, losses)))
        if home.type != "meta":
            stack.callback(model.to, home)
        for size in sizes:
            if not is_apart:
                model.to(place)
            example = torch.utils._pytree.tree_map_only(
                torch.Tensor, lambda tensor: tensor.to(home if is_apart else place), examples[size])
            graph = with_loss(trace(model, example, depth, layers, split), on(place, losses[size]))
            if first is not None and [layer.name for layer in graph.layers] != [layer.name for layer in first.layers]:
                raise ModelError(f"{type(model).__name__} has other layers with {size} samples than with {sizes[0]}; "
                                 "its forward must do the same for each microbatch")
            first = first or graph
            bar.say(f"microbatch {size}")
            others.begin(size)
            try:
                measured[size] = measure_apart(graph, place, repeats, warmup, optimizer, bar.step) if is_apart else \
                    measure(graph, example, place, repeats, warmup, optimizer, bar.step, others.numbers())
            except torch.OutOfMemoryError:
                if is_apart:
                    raise ModelError(f"a layer of {type(model).__name__} does not fit on {place} with {size} samples; "
                                     "choose smaller microbatches, or a greater depth") from None
                is_apart = True
                model.to(home).zero_grad(set_to_none=True)
                torch.cuda.empty_cache()
                measured[size] = measure_apart(graph, place, repeats, warmup, optimizer, bar.step)
            others.require_all()
    bar.end()
    assert first is not None
    data: dict[str, Any] = {"format": "stagecraft-profile/1", "source": source_words(place, measured, repeats, warmup, processes)}
    if processes > 1:
        outputs = [layer.output for numbers in measured.values() for layer in numbers.bytes]
        data["hand_over"] = hand_over_data(measure_messages(round(statistics.median(outputs))))
    data |= {"model": model_data(first, name or type(model).__name__, sizes[0], sequence),
             "entries": [entry_data(first, measured[size], size, place, sequence) for size in sizes]}
    return Profile(data, first, measured)


def loss_of(loss: Callable[[Any, Any], torch.Tensor] | str | None, target: Any, size: int) -> Loss | None:
    """With the target of so many samples."""
    if loss is None:
        if target is not None:
            raise ModelError("a target is given without a loss that compares it with what the model returns")
        return None
    if target is None:
        raise ModelError("a loss is given without a target; expected one for so many samples as the example inputs have, or a "
                         "function that gives those of as many as it is asked for")
    function = named(loss)[1] if isinstance(loss, str) else loss
    return Loss(function, target_of(target, size), loss if isinstance(loss, str) else "")


def target_of(target: Any, size: int) -> Any:
    """That of so many samples; one that a function gives need not have tensors."""
    if not callable(target) or isinstance(target, torch.Tensor):
        return inputs_of(target, size, "a target")
    try:
        return target(size)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"the function of targets fails for {size} samples: {last_line(error)}") from error


def on(place: torch.device, loss: Loss | None) -> Loss | None:
    return loss and dataclasses.replace(loss, target=torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor.to(place), loss.target))


def refuse_processes(processes: int, model: torch.nn.Module, place: torch.device) -> None:
    if processes < 1:
        raise ModelError(f"expected 1 process or more, found {processes}")
    if processes == 1:
        return
    if place.type != "cpu":
        raise ModelError(f"{processes} processes at once are for the CPU, which they share; each GPU has one to itself")
    if device_of(model).type == "meta":
        raise ModelError('a model on the device "meta" is measured layer by layer, in one process')


def hand_over_data(found: HandOver) -> dict[str, Any]:
    """As a profile's link is written."""
    return {"latency": f"{found.latency * 1e9:.0f}ns", "point_to_point": f"{found.bandwidth / 1e9:.3f}GB/s"}


def place_of(model: torch.nn.Module, device: str | torch.device | None) -> torch.device:
    """Where the model is measured."""
    try:
        place = torch.device(device) if device is not None else device_of(model)
    except RuntimeError:
        raise ModelError(f'expected a device of cpu or cuda:N, found "{device}"') from None
    if place.type == "cuda" and (place.index or 0) >= torch.cuda.device_count():
        raise ModelError(f"PyTorch {torch.__version__} sees {torch.cuda.device_count()} GPUs here, and none is {place}; "
                         "measure on the CPU (cpu), or install PyTorch for CUDA")
    return torch.device("cpu") if place.type == "meta" else place


def fits(model: torch.nn.Module, device: torch.device) -> bool:
    """Weights, gradients and an optimizer's two moments, on a GPU."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return 4 * sum(p.nbytes for p in model.parameters()) < free


def device_of(model: torch.nn.Module) -> torch.device:
    tensor = next(model.parameters(), next(model.buffers(), None))
    return tensor.device if tensor is not None else torch.device("cpu")


def batch_of(example: Any, what: str = "example inputs") -> int:
    tensors = tensors_in(example)
    if not tensors or tensors[0].dim() == 0:
        raise ModelError(f"expected {what} with a tensor whose first dimension counts samples")
    return tensors[0].shape[0]


def inputs_of(example: Any, size: int, what: str = "example inputs") -> Any:
    """The example with that many samples."""
    if callable(example) and not isinstance(example, torch.Tensor):
        try:
            made = example(size)
        except Exception as error:
            raise ModelError(f"the function of example inputs fails for {size} samples: {last_line(error)}") from error
        found = batch_of(made)
        if found != size:
            raise ModelError(f"the function of example inputs gave {found} samples, asked for {size}")
        return made
    batch = batch_of(example, what)

    def sized(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 or tensor.shape[0] != batch:
            return tensor  # no samples in it
        copies = -(-size // batch)
        return tensor.repeat(copies, *[1] * (tensor.dim() - 1))[:size].contiguous() if size != batch else tensor
    return torch.utils._pytree.tree_map_only(torch.Tensor, sized, example)


def source_words(device: torch.device, measured: Mapping[int, Measured], repeats: int, warmup: int, processes: int) -> str:
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else \
        f"{platform.machine()} CPU, {torch.get_num_threads()} threads" + (f" of each of {processes} processes" if processes > 1
                                                                          else "")
    words = [f"measured with PyTorch {torch.__version__} on {where}: medians of {repeats} after {warmup}"]
    for size, numbers in measured.items():
        if numbers.whole_forward:
            forward, backward = sum_of_layers(numbers)
            whole_time = median(numbers.whole_forward) + median(numbers.whole_backward)
            words.append(f"microbatch {size}: the layers' sum is {(forward + backward) / whole_time:.2f} of the whole "
                         f"model's time, {saved_sum(numbers) / max(numbers.whole_saved, 1):.2f} of what it saves; other work had "
                         f"{numbers.load:.1f} of {os.cpu_count()} processors")
    return "; ".join(words)


def model_data(graph: Graph, name: str, size: int, sequence: int) -> dict[str, Any]:
    owned: set[str] = set()
    layers = []
    for layer in graph.layers:
        trained = [path for path in layer.parameters
                   if path not in owned and attribute(graph.model, path).requires_grad]
        owned.update(layer.parameters)
        elements = sum(graph.recording.values[value].shape.numel() for value, _ in layer.gives)
        layers.append({"name": layer.name, "kind": layer.kind,
                       "parameters": sum(attribute(graph.model, path).numel() for path in trained),
                       "output_elements": elements // size})
    data: dict[str, Any] = {"format": "stagecraft-model/1", "name": name}
    if sequence:
        data["sequence"] = sequence
    data |= {"layers": layers, "edges": [list(edge) for edge in graph.edges]}
    ties = [{"owner": owner, "user": user,
             "parameters": sum(attribute(graph.model, path).numel() for path in paths
                               if attribute(graph.model, path).requires_grad)}
            for owner, user, paths in graph.ties]
    ties = [tie for tie in ties if tie["parameters"]]
    if ties:
        data["ties"] = ties
    return data


def nanoseconds(times: Sequence[float]) -> int:
    return round(median(times) * 1e9)


def entry_data(graph: Graph, measured: Measured, size: int, device: torch.device, sequence: int) -> dict[str, Any]:
    entry: dict[str, Any] = {"device": "cpu" if device.type == "cpu" else device_kind(device), "microbatch": size}
    if sequence:
        entry["sequence"] = sequence
    entry |= {"tensor_parallel": 1, "precision": precision_of(graph), "provenance": "measured"}
    columns: dict[str, list[Any]] = {}

    def add(column: str, number: Any) -> None:
        columns.setdefault(column, []).append(number)
    for times, numbers in zip(measured.times, measured.bytes):
        inputs, weights = parts_of_backward(times)
        passes = {"forward": times.forward, "backward_input": inputs, "backward_weight": weights,
                  "update": times.update}
        for column, seconds in passes.items():
            add(f"{column}_ns", nanoseconds(seconds))
        whole = nanoseconds(times.backward) if is_split(times) else nanoseconds(inputs) + nanoseconds(weights)
        add("split_overhead_ns", max(nanoseconds(inputs) + nanoseconds(weights) - whole, 0))
        for field in dataclasses.fields(numbers):
            add(f"{field.name}_bytes", getattr(numbers, field.name))
        both = [forward + back for forward, back in zip(times.forward, times.backward)]
        add("spread", round((tenth(both, 0.9) - tenth(both, 0.1)) / median(both), 4) if median(both) > 0 else 0)
        for column, seconds in passes.items():
            middle = nanoseconds(seconds)
            add(f"{column}_p10_ns", min(round(tenth(seconds, 0.1) * 1e9), middle))
            add(f"{column}_p90_ns", max(round(tenth(seconds, 0.9) * 1e9), middle))
    return entry | columns


def is_split(times: LayerTimes) -> bool:
    return median(times.backward_input) > 0 and median(times.backward_weight) > 0


def parts_of_backward(times: LayerTimes) -> tuple[list[float], list[float]]:
    """Times of the two parts, which do not take less than the whole: where chance has it so, they are that much longer. Of a
    layer with one part only, both kinds of sweep have measured the same."""
    if not is_split(times):
        inputs, weights = times.backward_input, times.backward_weight
        return (inputs, weights + times.backward) if median(weights) > 0 else (inputs + times.backward, weights)
    longer = max(median(times.backward) / (median(times.backward_input) + median(times.backward_weight)), 1.0)
    return [seconds * longer for seconds in times.backward_input], [seconds * longer for seconds in times.backward_weight]


def tenth(times: Sequence[float], share: float) -> float:
    ordered = sorted(times)
    return ordered[min(round(share * (len(ordered) - 1)), len(ordered) - 1)] if ordered else 0.0


def precision_of(graph: Graph) -> str:
    kinds = [p.dtype for p in graph.model.parameters()] or [torch.float32]
    most = max(set(kinds), key=kinds.count)
    if most not in PRECISIONS:
        raise ModelError(f"{type(graph.model).__name__} has weights of {most}; profiles know "
                         + ", ".join(PRECISIONS.values()))
    return PRECISIONS[most]


def device_kind(device: torch.device) -> str:
    """As Stagecraft names it."""
    name = torch.cuda.get_device_name(device).lower()
    for kind in ("h200", "h100", "b200", "gb200", "a100", "v100", "p100", "l40s", "l4", "t4", "a10"):
        if kind in name:
            return f"{kind}-80gb" if kind == "a100" and "80gb" in name else kind
    return "generic"


class Bar:
    """Progress on a terminal."""

    def __init__(self, steps: int, shown: bool):
        self.steps, self.done, self.shown, self.words = steps, 0, shown, ""

    def say(self, words: str) -> None:
        self.words = words

    def step(self) -> None:
        self.done += 1
        if self.shown:
            filled = 30 * self.done // self.steps
            sys.stderr.write(f"\r[{'=' * filled}{' ' * (30 - filled)}] {self.words}\x1b[K")
            sys.stderr.flush()

    def end(self) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")


__all__ = ["Profile", "profile"]
