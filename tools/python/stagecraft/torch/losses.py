"""The loss behind a model, as the last layer of its graph: a part of each training step like the others."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Mapping

import torch

from .errors import ModelError
from .layers import Graph, Layer
from .recording import Attr, Build, Constant, Node, Recording, Ref, Value, attribute
from .user_code import last_line


@dataclasses.dataclass
class Loss:
    function: Callable[[Any, Any], torch.Tensor]  #: of what the model returns, and the target
    target: Any  #: of one microbatch
    words: str = ""  #: package:function, where it is known by other words than its own

    @property
    def name(self) -> str:
        """As package:function."""
        kind = self.function if hasattr(self.function, "__qualname__") else type(self.function)
        return self.words or f"{kind.__module__}:{kind.__qualname__}"


PREFIX = "loss "


def loss_named(layer: str) -> str:
    """package:function of a layer that is a loss; of others nothing."""
    return layer.removeprefix(PREFIX) if layer.startswith(PREFIX) else ""


class OfOutputs:
    """The loss as a function of the tensors in what the model returns."""

    def __init__(self, loss: Loss, recording: Recording):
        self.loss, self.recording, self.is_tried = loss, recording, False

    def __call__(self, *tensors: torch.Tensor) -> torch.Tensor:
        values = {value: tensor for (value, _), tensor in zip(self.recording.output_values, tensors)}
        result = built(self.recording.output, values, self.recording.model)
        if self.is_tried:
            return self.loss.function(result, self.loss.target)
        self.is_tried = True
        return tried(self.loss.name, self.loss.function, result, self.loss.target)


def tried(name: str, function: Callable[[Any, Any], torch.Tensor], result: Any, target: Any) -> torch.Tensor:
    """Its value. Throws ModelError for one that nothing can be trained with."""
    try:
        value = function(result, target)
    except Exception as error:
        raise ModelError(f"{name} fails with what the model returns and a microbatch of the target: "
                         f"{last_line(error)}") from error
    if not isinstance(value, torch.Tensor) or value.numel() != 1 or not value.requires_grad:
        what = f"a tensor of shape {tuple(value.shape)}" + (" without gradient" if value.numel() == 1 else "") \
            if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"
        raise ModelError(f"{name} gave {what}, expected a tensor of one element with a gradient: a mean over samples")
    return value


def built(output: Any, values: Mapping[int, torch.Tensor], model: torch.nn.Module) -> Any:
    """A recorded result with these tensors in it."""
    def convert(tree: Any) -> Any:
        if isinstance(tree, Ref):
            return values[tree.value]
        if isinstance(tree, Attr):
            return attribute(model, tree.path)
        if isinstance(tree, Constant):
            return tree.tensor()
        if isinstance(tree, Build):
            return tree.type(**{name: convert(item) for name, item in tree.fields.items()})
        if isinstance(tree, dict):
            return {name: convert(item) for name, item in tree.items()}
        if isinstance(tree, (tuple, list)) and not isinstance(tree, torch.Size):
            return type(tree)(convert(item) for item in tree)
        return tree
    return convert(output)


def with_loss(graph: Graph, loss: Loss | None) -> Graph:
    """The graph with the loss behind it; as it is without one."""
    if loss is None:
        return graph
    before = graph.recording
    reads, number, value = list(before.output_values), len(graph.layers), len(before.values)
    node = Node("function", OfOutputs(loss, before), "", args=tuple(Ref(read) for read, _ in reads), reads=reads,
                outputs=[value], writes=[value])
    end = (value, len(before.nodes))
    recording = dataclasses.replace(
        before, nodes=[*before.nodes, node], output=Ref(value), output_values=[end],
        values=[*before.values, Value("loss", torch.Size([]), torch.float32, True, True)])
    edges = {(graph.layer_of[writer], number) for _, writer in reads}
    return Graph(recording, [*graph.layers, Layer(PREFIX + loss.name, [end[1]], reads=reads, gives=[end])],
                 sorted({*graph.edges, *edges}), graph.layer_of | {end[1]: number}, graph.ties, loss)


__all__ = ["Loss", "loss_named", "tried", "with_loss"]
