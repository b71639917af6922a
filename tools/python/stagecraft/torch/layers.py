"""Which modules are layers, and the graph of layers between which stages can be cut.

A layer is a module that is run as a whole, or a function between two that computes something, such as the
addition of a residual. Views, shapes and what needs no gradient go with a neighbour. Layers that cannot be
told apart from outside (one writes what another one still reads through a view, or both keep the same
running averages) are one layer: so no plan can separate them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence

import torch

from .errors import ModelError
from .recording import Node, Recording, attribute, function_name, record, short_name

CONTAINERS = (torch.nn.Sequential, torch.nn.ModuleList, torch.nn.ModuleDict)

COMPILED = (torch.jit.ScriptModule, torch._dynamo.OptimizedModule)  #: nothing to look into

KINDS = {"embedding": (torch.nn.Embedding, torch.nn.EmbeddingBag),
         "convolution": (torch.nn.modules.conv._ConvNd,),
         "dense": (torch.nn.Linear, torch.nn.Bilinear),
         "pool": (torch.nn.modules.pooling._MaxPoolNd, torch.nn.modules.pooling._AvgPoolNd,
                  torch.nn.modules.pooling._AdaptiveAvgPoolNd, torch.nn.modules.pooling._AdaptiveMaxPoolNd),
         "normalization": (torch.nn.modules.batchnorm._NormBase, torch.nn.LayerNorm, torch.nn.GroupNorm,
                           torch.nn.RMSNorm),
         "activation": (torch.nn.ReLU, torch.nn.GELU, torch.nn.SiLU, torch.nn.Tanh, torch.nn.Sigmoid,
                        torch.nn.Dropout, torch.nn.Softmax, torch.nn.LeakyReLU, torch.nn.ELU)}


def is_container(module: torch.nn.Module) -> bool:
    """One that has no code of its own."""
    return type(module) in CONTAINERS


def has_blocks(module: torch.nn.Module) -> bool:
    """Does it hold a list of blocks: two modules of one class, which have modules of their own?"""
    for child in module.modules():
        if isinstance(child, CONTAINERS):
            classes = [type(item) for item in child.children() if next(item.children(), None) is not None]
            if len(classes) != len(set(classes)):
                return True
    return False


def is_one_of_blocks(child: torch.nn.Module, parent: torch.nn.Module) -> bool:
    """One of several of its class in a list, and no list of blocks itself."""
    alike = [item for item in parent.children() if type(item) is type(child) and next(item.children(), None) is not None]
    inner = [type(item) for item in child.children() if next(item.children(), None) is not None]
    is_list = isinstance(child, CONTAINERS) and len(inner) != len(set(inner))
    return len(alike) > 1 and child in alike and not is_list


def layer_paths(model: torch.nn.Module, depth: int | str = "auto", layers: Sequence[str] = ()) -> list[str]:
    """Paths of the modules that are layers: those named, or all at a depth: as many names deep (containers such
    as Sequential are not counted), "leaf", or "auto": blocks that repeat, and what stands beside them."""
    if layers:
        known = {path for path, _ in model.named_modules()}
        for path in layers:
            if path not in known or path == "":
                raise ModelError(f'{type(model).__name__} has no module "{path}"; its first are '
                                 + ", ".join(sorted(known - {""})[:8]))
        return list(layers)
    if isinstance(depth, int) and depth < 1:
        raise ModelError(f"expected a depth of 1 or more, found {depth}")
    if isinstance(depth, str) and depth not in ("auto", "leaf"):
        raise ModelError(f'expected a depth of "auto", "leaf" or a number, found "{depth}"')
    found: list[str] = []

    def visit(path: str, module: torch.nn.Module, level: int) -> None:
        for name, child in module.named_children():
            below = f"{path}.{name}" if path else name
            is_leaf = next(child.children(), None) is None or isinstance(child, COMPILED)
            is_block = depth == "auto" and is_container(module) and is_one_of_blocks(child, module)
            if is_container(child) and not is_leaf and not is_block:
                visit(below, child, level)
            elif is_leaf or is_block or (level + 1 == depth if isinstance(depth, int) else
                             depth == "auto" and not has_blocks(child)):
                found.append(below)
            else:
                visit(below, child, level + 1)
    if next(model.children(), None) is None:
        raise ModelError(f"{type(model).__name__} has no modules inside, so there is nothing to cut")
    visit("", model, 0)
    return found


@dataclasses.dataclass
class Layer:
    name: str
    nodes: list[int]  #: of the recording, ascending
    kind: str = "opaque"
    reads: list[tuple[int, int]] = dataclasses.field(default_factory=list)  #: from other layers, or the inputs
    gives: list[tuple[int, int]] = dataclasses.field(default_factory=list)  #: what others, or the caller, read
    parameters: list[str] = dataclasses.field(default_factory=list)  #: paths, each once


@dataclasses.dataclass
class Graph:
    """Layers in the order in which they ran."""
    recording: Recording
    layers: list[Layer]
    edges: list[tuple[int, int]]
    layer_of: dict[int, int]  #: node: layer
    ties: list[tuple[int, int, list[str]]]  #: owner, user, parameters that both use
    loss: Any = None  #: a Loss, where the last layer is one: see losses.py

    @property
    def model(self) -> torch.nn.Module:
        return self.recording.model


def trace(model: torch.nn.Module, example: Any, depth: int | str = "auto", layers: Sequence[str] = (),
          split: Sequence[str] = ()) -> Graph:
    """The graph of the model's layers. With `split`, names of layers, all between two of them are one layer."""
    lazy = [path for path, tensor in model.named_parameters() if isinstance(tensor, torch.nn.UninitializedParameter)]
    if lazy:
        raise ModelError(f'{type(model).__name__} has weights whose shapes its first forward decides ("{lazy[0]}"); the '
                         "factory can run one forward, or use modules that are not lazy")
    if isinstance(model, COMPILED):
        word = "torch.jit" if isinstance(model, torch.jit.ScriptModule) else "torch.compile"
        raise ModelError(f"the model is already compiled by {word}, and its modules cannot be told apart; let the factory give the "
                         "module itself, without it")
    recording = record(model, example, layer_paths(model, depth, layers))
    return graph_of(recording, split)


def constants(recording: Recording) -> set[int]:
    """Functions of neither inputs nor weights, such as arange: each stage computes them for itself."""
    found: set[int] = set()
    for index, node in enumerate(recording.nodes):
        is_random = any(word in function_name(node.target).lower()
                        for word in ("rand", "dropout", "normal", "bernoulli", "multinomial", "uniform", "poisson")) \
            if node.kind == "function" else False
        if node.kind == "function" and not is_random and not node.in_place and not node.by_alias \
                and not node.attributes and all(writer in found for _, writer in node.reads):
            found.add(index)
    for index, node in enumerate(recording.nodes):  # what is written later is none
        if index not in found:
            for value in [*node.in_place, *node.by_alias]:
                found = {other for other in found if value not in recording.nodes[other].writes}
    for index in sorted(found):
        if not all(writer in found for _, writer in recording.nodes[index].reads):
            found.discard(index)
    return found - {writer for _, writer in recording.output_values}


def attach(recording: Recording, free: set[int]) -> list[int]:
    """The node that each one goes with: itself for one that is a layer, or the input of a model. Those that are
    free go with each that reads them."""
    users = recording.users()
    group = list(range(len(recording.nodes)))
    for index, node in enumerate(recording.nodes):
        if node.kind != "function" or index in free:
            continue
        gives = [recording.values[value] for value in node.writes]
        computes = any(value.requires_grad for value in gives) and not node.is_view
        if computes:
            continue
        before = [group[writer] for _, writer in node.reads if writer not in free]
        if before:
            group[index] = max(before)
    # What nothing comes before goes with the first that reads it.
    for index in reversed(range(len(recording.nodes))):
        node = recording.nodes[index]
        reads = [writer for _, writer in node.reads if writer not in free]
        if node.kind == "function" and index not in free and group[index] == index and not reads \
                and not any(recording.values[value].requires_grad and not node.is_view for value in node.writes
                            if not only_attributes(node)):
            after = [user for value in node.writes for user in users.get((value, index), [])]
            if after:
                group[index] = min(group[user] for user in after)
    # An input that one layer reads goes with it.
    for index in recording.inputs:
        members = [other for other in range(len(group)) if group[other] == index]
        readers = {group[user] for member in members for value in recording.nodes[member].writes
                   for user in users.get((value, member), [])} - {index}
        if len(readers) == 1:
            target = readers.pop()
            for member in members:
                group[member] = target
    # Groups of groups.
    for index in range(len(group)):
        while group[group[index]] != group[index]:
            group[index] = group[group[index]]
    return group


def only_attributes(node: Node) -> bool:
    """A view of a parameter: expand, for example."""
    return bool(node.attributes) and not node.reads


def graph_of(recording: Recording, split: Sequence[str] = ()) -> Graph:
    free = constants(recording)
    group = attach(recording, free)
    order = sorted(set(group) - free)
    order.sort(key=lambda head: max(n for n in range(len(group)) if group[n] == head and recording.nodes[n].kind
                                    == "layer") if any(group[n] == head and recording.nodes[n].kind == "layer"
                                                       for n in range(len(group))) else head)
    members = {head: [n for n in range(len(group)) if group[n] == head] for head in order}
    runs = [members[head] for head in order]
    runs = in_dependence_order(recording, runs, free)
    runs = together(recording, runs)
    names = layer_names(recording, runs)
    if split:
        runs, names = split_at(runs, names, split)
    layer_of = {node: number for number, run in enumerate(runs) for node in run}
    layers = [Layer(name, sorted({*run, *free_before(recording, run, free)})) for name, run in zip(names, runs)]
    edges = fill_reads(recording, layers, layer_of)
    ties = fill_parameters(recording, layers)
    for layer in layers:
        layer.kind = kind_of(recording, layer)
    return Graph(recording, layers, edges, layer_of, ties)


def free_before(recording: Recording, run: list[int], free: set[int]) -> set[int]:
    """The free nodes that the run needs."""
    found: set[int] = set()
    left = list(run)
    while left:
        for _, writer in recording.nodes[left.pop()].reads:
            if writer in free and writer not in found:
                found.add(writer)
                left.append(writer)
    return found


def in_dependence_order(recording: Recording, runs: list[list[int]], free: set[int]) -> list[list[int]]:
    """The runs, each after those that it reads from, otherwise as they are."""
    of = {node: number for number, run in enumerate(runs) for node in run}
    before = [{of[writer] for node in run for _, writer in recording.nodes[node].reads if writer not in free}
              - {number}
              for number, run in enumerate(runs)]
    done: list[int] = []
    left = list(range(len(runs)))
    while left:
        ready = next((number for number in left if before[number] <= set(done)), None)
        if ready is None:
            # Cannot be cut apart: one layer.
            merged = sorted(node for number in left for node in runs[number])
            return [runs[number] for number in done] + [merged]
        left.remove(ready)
        done.append(ready)
    return [runs[number] for number in done]


def together(recording: Recording, runs: list[list[int]]) -> list[list[int]]:
    """Merges runs that no cut may separate."""
    of = {node: number for number, run in enumerate(runs) for node in run}
    users = recording.users()
    spans: list[tuple[int, int]] = []
    created = {value: index for index, node in reversed(list(enumerate(recording.nodes))) for value in node.writes
               if value not in node.in_place and value not in node.by_alias}
    for index, node in enumerate(recording.nodes):
        for value in node.by_alias:
            if users.get((value, index)) or (value, index) in recording.output_values:
                places = [of[node] for node in (index, created[value]) if node in of]
                spans.append((min(places), max(places)))
    for value, writer in {read for node in recording.nodes for read in node.reads}:
        if recording.values[value].counted:  # a message has a fixed shape
            places = [of[node] for node in [writer, *users[(value, writer)]] if node in of]
            spans.append((min(places), max(places)))
    keepers: dict[str, list[int]] = {}
    for index, node in enumerate(recording.nodes):
        if node.keeps:
            keepers.setdefault(node.target, []).append(of[index])
    spans += [(min(places), max(places)) for places in keepers.values() if len(places) > 1]
    merged: list[list[int]] = []
    end = -1
    for number, run in enumerate(runs):
        if number <= end:
            merged[-1] = merged[-1] + run
        else:
            merged.append(run)
        end = max([end, *[last for first, last in spans if first <= number <= last]])
    return merged


def layer_names(recording: Recording, runs: list[list[int]]) -> list[str]:
    names: list[str] = []
    count: dict[str, int] = {}
    for run in runs:
        nodes = [recording.nodes[node] for node in run]
        layers = [node.target for node in nodes if node.kind == "layer"]
        functions = [node for node in nodes if node.kind == "function"]
        if layers:
            name = layers[0] if len(layers) == 1 else f"{layers[0]}…{layers[-1]}"
        elif functions and all(node.kind != "input" for node in nodes):
            word = short_name(functions[0].target)
            name = ".".join(part for part in (functions[0].inside, word.strip("_")) if part)
        else:
            name = recording.values[next(node for node in nodes if node.kind == "input").writes[0]].name
        count[name] = count.get(name, 0) + 1
        names.append(name if count[name] == 1 else f"{name}#{count[name]}")
    return names


def split_at(runs: list[list[int]], names: list[str], split: Sequence[str]) -> tuple[list[list[int]], list[str]]:
    """Merges all runs between two split points."""
    starts = []
    for point in split:
        place = next((number for number, name in enumerate(names)
                      if name == point or name.startswith(point + ".")), None)
        if place is None:
            raise ModelError(f'no layer is named "{point}"; layers are ' + ", ".join(names[:12])
                             + (", …" if len(names) > 12 else ""))
        starts.append(place)
    bounds = sorted({0, *starts})
    ends = bounds[1:] + [len(runs)]
    merged = [[node for run in runs[first:end] for node in run] for first, end in zip(bounds, ends)]
    return merged, [names[first] if end - first == 1 else f"{names[first]}…{names[end - 1]}"
                    for first, end in zip(bounds, ends)]


def fill_reads(recording: Recording, layers: list[Layer], layer_of: dict[int, int]) -> list[tuple[int, int]]:
    edges = set()
    outputs = set(recording.output_values)
    for number, layer in enumerate(layers):
        for node in layer.nodes:
            for read in recording.nodes[node].reads:
                writer = layer_of.get(read[1], number)
                if writer != number:
                    edges.add((writer, number))
                    if read not in layer.reads:
                        layer.reads.append(read)
                    if read not in layers[writer].gives:
                        layers[writer].gives.append(read)
    for value, writer in recording.output_values:
        layer = layers[layer_of[writer]]
        if (value, writer) not in layer.gives and (value, writer) in outputs:
            layer.gives.append((value, writer))
    # A layer that reads a value comes before the one that writes over it.
    for index, after in enumerate(recording.nodes):
        for value in after.in_place:
            for other, reader in enumerate(recording.nodes[:index]):
                if any(read[0] == value for read in reader.reads) and other in layer_of \
                        and layer_of[other] < layer_of[index]:
                    edges.add((layer_of[other], layer_of[index]))
    return sorted(edges)


def parameter_paths(recording: Recording, layer: Layer) -> list[str]:
    """Under the first name of each parameter."""
    model = recording.model
    first = {id(parameter): path for path, parameter in model.named_parameters()}
    found: list[str] = []
    for number in layer.nodes:
        node = recording.nodes[number]
        used = [id(p) for p in model.get_submodule(node.target).parameters()] if node.kind == "layer" else []
        used += [id(attribute(model, path)) for path in node.attributes]
        for key in used:
            path = first.get(key)
            if path is not None and path not in found:
                found.append(path)
    return found


def fill_parameters(recording: Recording, layers: list[Layer]) -> list[tuple[int, int, list[str]]]:
    owner: dict[str, int] = {}
    ties: dict[tuple[int, int], list[str]] = {}
    for number, layer in enumerate(layers):
        layer.parameters = parameter_paths(recording, layer)
        for path in layer.parameters:
            if path in owner:
                ties.setdefault((owner[path], number), []).append(path)
            else:
                owner[path] = number
    return [(owned, user, paths) for (owned, user), paths in sorted(ties.items())]


def kind_of(recording: Recording, layer: Layer) -> str:
    modules = [recording.model.get_submodule(recording.nodes[node].target) for node in layer.nodes
               if recording.nodes[node].kind == "layer"]
    if len(modules) == 1:
        for kind, classes in KINDS.items():
            if isinstance(modules[0], classes):
                return kind
    return "opaque"


__all__ = ["Graph", "Layer", "graph_of", "layer_paths", "trace"]
