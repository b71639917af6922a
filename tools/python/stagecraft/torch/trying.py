"""Tries the stages of a program before anybody trains with them: do they give what the model gives, and its gradients;
does the model's forward do the same for other inputs; do data and loss fit."""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
import os
from typing import Any, Sequence

import torch
import torch.utils._pytree as pytree
from torch.distributed.pipelining._backward import (_get_grad_fn_or_grad_acc, construct_reverse_graph, reverse_closure,
                                                    stage_backward_input, stage_backward_weight)

from .errors import ModelError
from .layers import Graph
from .losses import tried
from .recording import (Node, Recording, bind, function_name, input_names, record, tensors_in, unchanged)
from .user_code import last_line, named


@dataclasses.dataclass
class Example:
    """Arguments of one forward, for one microbatch, and what the loss compares its result with."""
    inputs: Any
    target: Any = None


def inputs_of_model(model: torch.nn.Module, example: Any) -> list[torch.Tensor]:
    """Its tensors, in the order of the model's arguments."""
    args, kwargs = bind(model, example)
    return [tensor for _, _, argument in input_names(model, args, kwargs) for tensor in tensors_in(argument)]


def input_names_of(recording: Recording) -> list[str]:
    return [recording.values[recording.nodes[index].writes[0]].name for index in recording.inputs]


def like(example: Any, inputs: Any) -> Any:
    """Inputs by name in the example's order, which is that of the model's inputs."""
    if isinstance(example, dict) and isinstance(inputs, dict) and set(inputs) == set(example):
        return {name: inputs[name] for name in example}
    return inputs


# --- Data

def data_like(words: str, batch: int, microbatch: int, recording: Recording, example: Any,
              batched: dict[str, bool]) -> tuple[Example | None, list[str]]:
    """The first microbatch of the first step; notes if the data cannot be had here. Throws ModelError for data that the
    program would refuse. `batched` says which inputs count samples."""
    _, function = named(words)
    try:
        made = function(0, batch)
    except Exception as error:
        return None, [f"{words}(0, {batch}) fails here, so the program was not tried with its data: {last_line(error)}"]
    if not isinstance(made, tuple) or len(made) != 2:
        raise ModelError(f"{words} gave a {type(made).__name__}, expected a pair: the model's inputs and the target")
    inputs, target = like(example, made[0]), made[1]
    refuse_other_inputs(words, inputs, batch, recording, example, batched)
    for tensor in tensors_in(target):
        if tensor.dim() and tensor.shape[0] != batch:
            raise ModelError(f"{words} gave a target of shape {tuple(tensor.shape)}, expected a first dimension of {batch}, "
                             "the plan's batch")
    cut = {id(tensor) for tensor, name in zip(inputs_of_model(recording.model, inputs), batched) if batched[name]} \
        | {id(tensor) for tensor in tensors_in(target) if tensor.dim()}
    return Example(*(pytree.tree_map_only(torch.Tensor, lambda tensor: tensor[:microbatch] if id(tensor) in cut else tensor, tree)
                     for tree in (inputs, target))), []


def refuse_other_inputs(words: str, inputs: Any, batch: int, recording: Recording, example: Any, batched: dict[str, bool]) -> None:
    """Stages are made for the example's names, types and shapes."""
    if isinstance(example, dict) and (not isinstance(inputs, dict) or set(inputs) != set(example)):
        found = ", ".join(sorted(inputs)) if isinstance(inputs, dict) else f"a {type(inputs).__name__}"
        raise ModelError(f"{words} gave inputs {found}, and the example inputs are {', '.join(example)}: give the same")
    tensors = inputs_of_model(recording.model, inputs)
    names = input_names_of(recording)
    if len(tensors) != len(names):
        raise ModelError(f"{words} gave {len(tensors)} tensors as inputs, and the example has {len(names)}: {', '.join(names)}")
    for tensor, name, node in zip(tensors, names, recording.inputs):
        value = recording.values[recording.nodes[node].writes[0]]
        shape = (batch, *value.shape[1:]) if batched[name] else tuple(value.shape)
        if tuple(tensor.shape) != shape or tensor.dtype != value.dtype:
            raise ModelError(f"{words} gave {name} as {tensor.dtype} of shape {tuple(tensor.shape)}, expected {value.dtype} "
                             f"of {shape}: {batch} samples of what the example inputs are")


# --- The same forward for other inputs

def refuse_other_ways(graph: Graph, example: Any) -> None:
    """Records the forward again with other inputs, and finds where it does something else."""
    first = graph.recording
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch.initial_seed() + 1)
        second = record(graph.model, example, sorted(first.layer_paths))
    for before, after in zip(first.nodes, second.nodes):
        if step_of(before) != step_of(after):
            raise ModelError(
                f"{place_of(before)} does something else for other inputs ({words_of(before)} with the example inputs, "
                f"{words_of(after)} with those of data), so its parts cannot be in different stages; choose it as one "
                "layer (--layers, or a smaller --depth), or compute both ways and choose with torch.where")
    if len(first.nodes) != len(second.nodes):
        raise ModelError(f"the forward of {type(graph.model).__name__} has {len(first.nodes)} steps with the example inputs and "
                         f"{len(second.nodes)} with those of data; it must do the same for each microbatch")


def step_of(node: Node) -> tuple[Any, ...]:
    target = node.target if node.kind != "function" else function_name(node.target)
    return node.kind, target, node.inside, repr((node.args, node.kwargs)), node.grad, node.autocast, node.outputs


def place_of(node: Node) -> str:
    return f'module "{node.inside}"' if node.inside else "the model's forward"


def words_of(node: Node) -> str:
    words = node.target if node.kind != "function" else function_name(node.target)
    literals = [repr(leaf) for leaf in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(leaf, (bool, int, float))]
    return f"{words}" + (f" with {', '.join(literals)}" if literals else "")


# --- Stages

def try_stages(folder: str, graph: Graph, example: Any, others: Example | None, loss: str) -> list[bool]:
    """Runs the stages that were written; of those whose backward torch cannot split, true. Throws ModelError if they do
    not give what the model gives."""
    spec = importlib.util.spec_from_file_location("stagecraft_written_stages", os.path.join(folder, "stages.py"))
    assert spec is not None and spec.loader is not None
    written = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(written)
    model = graph.model
    if any(parameter.is_meta for parameter in model.parameters()):
        return [False] * len(written.STAGES)
    stages = [stage(model) for stage in written.STAGES]
    try:
        for inputs in [example] + ([others.inputs] if others else []):
            refuse_other_results(graph, stages, inputs)
        if others:
            refuse_loss(written, stages, graph, others, loss)
        return whole_backwards(graph, stages, example)
    finally:
        model.zero_grad(set_to_none=True)


def run_stages(stages: Sequence[torch.nn.Module], graph: Graph, example: Any) -> tuple[torch.Tensor, ...]:
    """One after the other, gradients and all."""
    inputs = dict(zip(input_names_of(graph.recording), inputs_of_model(graph.model, example), strict=True))
    taken: tuple[torch.Tensor, ...] = ()
    for stage in stages:
        taken = run_stage(stage, taken, {name: inputs[name] for name in stage.inputs})  # type: ignore[union-attr]
    return taken


def refuse_other_results(graph: Graph, stages: Sequence[torch.nn.Module], example: Any) -> None:
    model = graph.model
    args, kwargs = bind(model, example)
    with unchanged(model):
        before = torch.get_rng_state()
        expected = tensors_in(model(*args, **kwargs))
        is_random = not torch.equal(before, torch.get_rng_state())
        expected_gradients = gradients_of(model, expected)
    with unchanged(model):
        found = run_stages(stages, graph, example)
        gradients = gradients_of(model, found)
    for one, other in zip(found, expected, strict=True):
        if one.shape != other.shape or not is_random and not near(one.detach(), other.detach()):
            raise ModelError(f"the stages of {type(model).__name__} do not give what it gives; does its forward keep "
                             "something from call to call? Choose the module that does as one layer (--layers)")
    for name, expected_gradient in expected_gradients.items():
        gradient = gradients[name]
        same = gradient is expected_gradient is None or \
            gradient is not None and expected_gradient is not None and near(gradient, expected_gradient)
        if not same and not is_random:
            raise ModelError(f'the stages of {type(model).__name__} give "{name}" another gradient than it has; choose '
                             f'module "{name.rpartition(".")[0]}", or the one around it, as one layer (--layers)')


def gradients_of(model: torch.nn.Module, outputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor | None]:
    """Of all weights, after a backward from all outputs."""
    model.zero_grad(set_to_none=True)
    roots = [tensor for tensor in outputs if tensor.requires_grad]
    # Not the same for each element: a sum of normalized ones has none.
    torch.autograd.backward(roots, [torch.cos(torch.arange(root.numel(), dtype=torch.float32)).reshape(root.shape).to(root.dtype)
                                    for root in roots])
    found = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    return found


def near(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Apart from rounding."""
    if not one.is_floating_point():
        return torch.equal(one, other)
    most = other.abs().max().item() if other.numel() else 0.0
    return torch.allclose(one, other, rtol=1e-3, atol=1e-3 * most + 1e-6, equal_nan=True)


def refuse_loss(written: Any, stages: Sequence[torch.nn.Module], graph: Graph, example: Example, words: str) -> None:
    """It must take what the last stage gives."""
    _, function = named(words)
    with unchanged(graph.model):
        tried(words, function, written.result(*run_stages(stages, graph, example.inputs)), example.target)


def whole_backwards(graph: Graph, stages: Sequence[torch.nn.Module], example: Any) -> list[bool]:
    """Of each stage, whether torch cannot split its backward."""
    inputs = dict(zip(input_names_of(graph.recording), inputs_of_model(graph.model, example), strict=True))
    whole = []
    taken: tuple[torch.Tensor, ...] = ()
    with unchanged(graph.model):
        for stage in stages:
            mine = {name: inputs[name] for name in stage.inputs}  # type: ignore[union-attr]
            leaves = tuple(tensor.detach().requires_grad_(gradient) for tensor, (_, _, _, gradient)
                           in zip(taken, stage.takes))  # type: ignore[arg-type]
            given = run_stage(stage, leaves, mine)
            # Of a later stage that takes nothing with a gradient, torch's split backward leaves the weights out.
            has_gradients = any(leaf.requires_grad for leaf in leaves)
            whole.append(not can_split(stage, leaves, mine) if has_gradients else bool(stage.takes))
            taken = tuple(tensor.detach().contiguous() for tensor in given)  # as a message is
    return whole


def run_stage(stage: torch.nn.Module, leaves: tuple[torch.Tensor, ...],
              inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
    try:
        output = stage(*leaves, **inputs)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{type(stage).__name__} of the program fails where the model does not: {last_line(error)}; choose the "
                         "module whose code that is as one layer (--layers)") from error
    return output if isinstance(output, tuple) else (output,)


def groups_are_apart(stage: torch.nn.Module, leaves: tuple[torch.Tensor, ...], inputs: dict[str, torch.Tensor]) -> bool:
    """Torch makes groups of weights whose gradients begin at the same nodes of the graph. Of two that share some of these nodes,
    but not all, it makes two groups or one as the order of a set has it, by chance, and two would count a gradient twice: weight
    and bias of a linear layer of which cross attention uses parts."""
    def node(tensor: torch.Tensor) -> Any:
        return _get_grad_fn_or_grad_acc(tensor)
    graph = construct_reverse_graph([node(tensor) for tensor in run_stage(stage, leaves, inputs) if tensor.requires_grad])
    behind, _ = reverse_closure([node(leaf) for leaf in leaves if leaf.requires_grad], set(), graph)
    begins = [reverse_closure([node(weight)], behind, graph)[1] for weight in stage.parameters() if weight.requires_grad]
    return all(one == other or not one & other for one, other in itertools.combinations(begins, 2))


def can_split(stage: torch.nn.Module, leaves: tuple[torch.Tensor, ...], inputs: dict[str, torch.Tensor]) -> bool:
    """Whether torch's split backward gives the gradients of the fused one."""
    if not groups_are_apart(stage, leaves, inputs):
        return False
    found = []
    for is_split in (False, True):
        stage.zero_grad(set_to_none=True)
        for leaf in leaves:
            leaf.grad = None
        torch.manual_seed(0)
        given = [tensor for tensor in run_stage(stage, leaves, inputs) if tensor.requires_grad]
        gradients = [torch.ones_like(tensor) for tensor in given]
        try:
            if not is_split:
                torch.autograd.backward(given, gradients)
            else:
                edges = [torch.autograd.graph.get_gradient_edge(tensor) for tensor in given]
                _, groups = stage_backward_input(edges, gradients, list(leaves), stage.parameters())
                stage_backward_weight(stage.parameters(), groups)
        except (RuntimeError, KeyError):
            return False
        found.append([tensor.grad for tensor in [*leaves, *stage.parameters()]])
    return all((a is None) == (b is None) and (a is None or torch.allclose(a, b, rtol=1e-3, atol=1e-5))
               for a, b in zip(*found))


__all__ = ["Example", "data_like", "refuse_other_ways", "try_stages"]
