"""Records a model's forward as calls of layers, and the functions that its code calls between them.

A recording is a list of nodes in the order in which they ran. Layers (modules that are chosen, see
layers.py) are run as a whole and never looked into; what the modules around them compute is recorded
function by function, below `torch.nn.functional` or as methods of tensors, as the code says it. So the
recording can be run again, cut anywhere, and be written down as code that people read.

    conv1 = self.conv1(x)                                      a layer
    add = torch.add(conv1, shortcut)                           a function between layers

Values are tensors. A tensor that is written in place stays the same value, of a later writer: what reads
it afterwards depends on the writer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import keyword
from typing import Any, Callable, Iterator, Sequence

import torch
import torch.utils._pytree as pytree
from torch.overrides import TorchFunctionMode, resolve_name

from .errors import ModelError

#: Values that code can write down.
LITERALS = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.layout,
            torch.memory_format, slice, type(Ellipsis), range, torch.Size)

#: What makes Python's control flow depend on a tensor's elements.
LOOKS_AT_ELEMENTS = {"item", "tolist", "__bool__", "__int__", "__float__", "__index__", "__len__", "numpy",
                     "is_nonzero", "equal", "allclose", "__contains__", "__complex__"}


@dataclasses.dataclass(frozen=True)
class Ref:
    """A value, as an argument."""
    value: int


@dataclasses.dataclass(frozen=True)
class Attr:
    """A parameter or buffer of the model, as an argument: `layer1.0.weight`."""
    path: str


@dataclasses.dataclass
class Value:
    name: str
    shape: torch.Size
    dtype: torch.dtype
    requires_grad: bool
    varies: bool  #: with the model's inputs
    contiguous: bool = True

    @property
    def bytes(self) -> int:
        return self.shape.numel() * self.dtype.itemsize


@dataclasses.dataclass
class Node:
    """A model's input, the call of a layer, or of a function."""
    kind: str  #: "input", "layer" or "function"
    target: Any  #: position or name of the input; path of the layer; the function
    inside: str  #: path of the module whose code it stands in
    args: tuple = ()
    kwargs: dict = dataclasses.field(default_factory=dict)
    grad: bool = True  #: whether gradients were recorded
    #: (value, node that wrote it last) for each value that it reads
    reads: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    outputs: list[int | None] = dataclasses.field(default_factory=list)  #: of each tensor it gives
    single: bool = True  #: it gives one tensor, not a tuple, list or dict
    writes: list[int] = dataclasses.field(default_factory=list)  #: new values and those written in place
    in_place: list[int] = dataclasses.field(default_factory=list)  #: of these, arguments of its own
    by_alias: list[int] = dataclasses.field(default_factory=list)  #: and others that share memory with one
    attributes: list[str] = dataclasses.field(default_factory=list)  #: parameters and buffers as arguments
    is_view: bool = False  #: all that it gives shares memory with what it reads


@dataclasses.dataclass
class Recording:
    model: torch.nn.Module
    nodes: list[Node]
    values: list[Value]
    inputs: list[int]  #: nodes
    output: Any  #: what forward returns, with a Ref for each tensor
    output_values: list[tuple[int, int]]  #: its tensors: (value, last writer)
    layer_paths: set[str]

    def users(self) -> dict[tuple[int, int], list[int]]:
        """Which nodes read each value as its writer left it."""
        users: dict[tuple[int, int], list[int]] = {}
        for index, node in enumerate(self.nodes):
            for read in node.reads:
                users.setdefault(read, []).append(index)
        return users


def tensors_in(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Inside torch.func.vmap and its like."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # an inference tensor has none
        return 0


def function_name(function: Callable) -> str:
    """As code says it: "torch.nn.functional.relu", "torch.Tensor.add"."""
    name = resolve_name(function)
    if name:
        return name
    module, qualified = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module and qualified and "<" not in qualified:
        return f"{module}.{qualified}"
    return repr(function)


class Recorder(TorchFunctionMode):
    """While it is active, a model's forward leaves nodes behind."""

    def __init__(self, model: torch.nn.Module, layer_paths: Sequence[str]):
        super().__init__()
        self.recording = Recording(model, [], [], [], None, [], set(layer_paths))
        # A module under two names is called by its first.
        self.paths = {id(module): path for path, module in reversed(list(model.named_modules()))}
        wanted = {path: model.get_submodule(path) for path in layer_paths}
        self.layers = {id(module): self.paths[id(module)] for module in wanted.values()}
        self.attributes = {id(tensor): path
                           for path, tensor in [*reversed(list(model.named_buffers(remove_duplicate=False))),
                                                *reversed(list(model.named_parameters(remove_duplicate=False)))]}
        self.known: dict[int, int] = {}  # id of a tensor: value
        self.tensors: list[torch.Tensor] = []  # of each value; kept, so that ids stay unique
        self.versions: list[int] = []
        self.writer: list[int] = []  # node that wrote the value last
        self.names: set[str] = set()
        self.stack = [""]  # paths of modules around the code that runs
        self.in_layer = 0

    # --- Values

    def new_value(self, tensor: torch.Tensor, name: str, node: int, varies: bool) -> int:
        value = len(self.tensors)
        self.known[id(tensor)] = value
        self.tensors.append(tensor)
        self.versions.append(version(tensor))
        self.writer.append(node)
        unique, count = name, 1
        while unique in self.names:
            count += 1
            unique = f"{name}_{count}"
        self.names.add(unique)
        assert unique.isidentifier(), unique
        self.recording.values.append(Value(unique, tensor.shape, tensor.dtype, tensor.requires_grad, varies,
                                           tensor.is_contiguous()))
        return value

    def argument(self, leaf: Any, node: Node) -> Any:
        if isinstance(leaf, torch.Tensor):
            value = self.known.get(id(leaf))
            if value is not None:
                read = (value, self.writer[value])
                if read not in node.reads:
                    node.reads.append(read)
                return Ref(value)
            path = self.attributes.get(id(leaf))
            if path is not None:
                if path not in node.attributes:
                    node.attributes.append(path)
                return Attr(path)
            if leaf.numel() == 1 and not leaf.requires_grad and leaf.device.type != "meta":
                # A constant that a module keeps outside of its buffers.
                return Constant(leaf.item(), leaf.dtype, tuple(leaf.shape))
            raise ModelError(f"{self.where(node)} reads a tensor of shape {tuple(leaf.shape)} that comes neither "
                             "from the model's inputs nor from its parameters and buffers; keep it with "
                             "register_buffer, or give it as an input")
        if isinstance(leaf, LITERALS):
            return leaf
        if callable(leaf) and not isinstance(leaf, torch.nn.Module) and not repr(function_name(leaf)).startswith("'<"):
            return Name(function_name(leaf))
        raise ModelError(f"{self.where(node)} is given a {type(leaf).__name__} from outside of it; between layers "
                         "only tensors, numbers, strings, and lists, tuples and dicts of them can go: pass its tensors "
                         "instead (of a cache of Hugging Face: use_cache=False), or choose a smaller depth")

    def where(self, node: Node) -> str:
        if node.kind == "layer":
            return f'module "{node.target}"'
        return f'{function_name(node.target)} in {self.inside_words(node.inside)}'

    def inside_words(self, path: str) -> str:
        return f'module "{path}"' if path else f"the forward of {type(self.recording.model).__name__}"

    def arguments(self, node: Node, args: tuple, kwargs: dict) -> None:
        def convert(tree: Any) -> Any:
            return pytree.tree_map(lambda leaf: self.argument(leaf, node), tree)
        node.args, node.kwargs = convert(args), convert(kwargs)

    # --- Nodes

    def changed(self) -> list[int]:
        """Values that were written since they were looked at last."""
        found = []
        for value, tensor in enumerate(self.tensors):
            now = version(tensor)
            if now != self.versions[value]:
                self.versions[value] = now
                found.append(value)
        return found

    def record(self, node: Node, result: Any, base: str) -> None:
        """Takes what the node gave and wrote."""
        index = len(self.recording.nodes)
        leaves = tensors_in(result)
        changed = self.changed()
        own = {read[0] for read in node.reads}
        node.in_place = [value for value in changed if value in own]
        node.by_alias = [value for value in changed if value not in own]
        node.single = isinstance(result, torch.Tensor)
        varies = any(self.recording.values[value].varies for value in own)
        fresh = 0
        storages = {self.storage(self.tensors[value]) for value in own}
        for leaf in leaves:
            if id(leaf) in self.known:
                node.outputs.append(self.known[id(leaf)])
            elif id(leaf) in self.attributes:
                node.outputs.append(None)
            else:
                fresh += 1
        if fresh == 0 and not changed:
            return  # nothing new: an identity
        node.is_view = bool(leaves) and not changed and all(self.storage(leaf) in storages for leaf in leaves)
        node.outputs = []
        many = len(leaves) > 1 or not node.single
        for position, leaf in enumerate(leaves):
            known = self.known.get(id(leaf))
            if known is None and id(leaf) not in self.attributes:
                known = self.new_value(leaf, f"{base}_{position}" if many else base, index, varies)
                node.writes.append(known)
            node.outputs.append(known)
        for value in changed:
            self.writer[value] = index
            self.recording.values[value].requires_grad |= self.tensors[value].requires_grad
            self.recording.values[value].varies |= varies
            node.writes.append(value)
        self.recording.nodes.append(node)

    @staticmethod
    def storage(tensor: torch.Tensor) -> int:
        return tensor.untyped_storage()._cdata

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.in_layer or function is torch.nn.Module.__call__:
            return function(*args, **kwargs)
        node = Node("function", function, self.stack[-1], grad=torch.is_grad_enabled())
        name = getattr(function, "__name__", "")
        tensors = tensors_in((args, kwargs))
        if any(is_wrapped(tensor) for tensor in tensors):
            return function(*args, **kwargs)
        if name in LOOKS_AT_ELEMENTS and name != "__len__":
            for tensor in tensors:
                value = self.known.get(id(tensor))
                if value is not None and self.recording.values[value].varies:
                    raise ModelError(
                        f"{self.inside_words(node.inside)} decides by the elements of a tensor ({name}) what it does "
                        "next, so its parts cannot be in different stages; choose it as one layer (--layers, or a "
                        "smaller --depth), or compute both ways and choose with torch.where")
        result = function(*args, **kwargs)
        if not tensors_in(result) and not self.wrote():
            return result  # a shape, a type, a device: the same for every microbatch
        if name == "__get__" and function_name(function).endswith((".grad.__get__", ".grad_fn.__get__")):
            return result
        if any(is_wrapped(tensor) for tensor in tensors_in(result)):
            return result
        self.arguments(node, args, kwargs)
        words = function_name(function).split(".")
        base = words[-2] if words[-1] == "__get__" else words[-1]
        self.record(node, result, identifier(base.strip("_")))
        return result

    def wrote(self) -> bool:
        return any(version(tensor) != self.versions[value] for value, tensor in enumerate(self.tensors))

    def call_layer(self, path: str, module: torch.nn.Module, forward: Callable, args: tuple, kwargs: dict) -> Any:
        node = Node("layer", path, self.stack[-1], grad=torch.is_grad_enabled())
        self.in_layer += 1
        try:
            self.arguments(node, args, kwargs)
            result = forward(module, *args, **kwargs)
            self.record(node, result, identifier(path))
        finally:
            self.in_layer -= 1
        return result

    def input(self, place: int | str, name: str, tensor: torch.Tensor) -> None:
        node = Node("input", place, "")
        index = len(self.recording.nodes)
        value = self.new_value(tensor, identifier(name), index, True)
        node.outputs = node.writes = [value]
        self.recording.nodes.append(node)
        self.recording.inputs.append(index)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Module.__call__ tells of layers, and of the modules around them."""
        original = torch.nn.Module.__call__

        def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            path = self.paths.get(id(module))
            if self.in_layer or path is None:
                return original(module, *args, **kwargs)
            if id(module) in self.layers and path != "":
                return self.call_layer(path, module, original, args, kwargs)
            self.stack.append(path)
            try:
                return original(module, *args, **kwargs)
            finally:
                self.stack.pop()

        torch.nn.Module.__call__ = call  # type: ignore[method-assign]
        try:
            with self:
                yield
        finally:
            torch.nn.Module.__call__ = original  # type: ignore[method-assign]


@dataclasses.dataclass(frozen=True)
class Constant:
    """A tensor of one element that does not change."""
    element: Any
    dtype: torch.dtype
    shape: tuple

    def tensor(self) -> torch.Tensor:
        return torch.full(self.shape, self.element, dtype=self.dtype)


@dataclasses.dataclass(frozen=True)
class Name:
    """A function as an argument."""
    name: str


def identifier(words: str) -> str:
    """A name that Python allows."""
    name = "".join(letter if letter.isalnum() else "_" for letter in words) or "value"
    if keyword.iskeyword(name) or name in ("self", "torch", "F", "tensors", "device", "math"):
        name += "_"
    return name if not name[0].isdigit() else "_" + name


@contextlib.contextmanager
def unchanged(model: torch.nn.Module) -> Iterator[None]:
    """Buffers and the state of random numbers are afterwards what they were."""
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers() if not buffer.is_meta]
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        yield
    with torch.no_grad():
        for buffer, before in buffers:
            buffer.copy_(before)


def bind(model: torch.nn.Module, example: Any) -> tuple[tuple, dict]:
    """Example inputs as arguments: a tensor, a tuple of arguments, or a dict of named ones."""
    if isinstance(example, dict):
        return (), dict(example)
    if isinstance(example, (tuple, list)):
        return tuple(example), {}
    return (example,), {}


def input_names(model: torch.nn.Module, args: tuple, kwargs: dict) -> list[tuple[int | str, str, Any]]:
    """(position or keyword, name of the parameter of forward, argument) of each."""
    try:
        parameters = [p.name for p in inspect.signature(model.forward).parameters.values()
                      if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        parameters = []
    named: list[tuple[int | str, str, Any]] = []
    for position, argument in enumerate(args):
        named.append((position, parameters[position] if position < len(parameters) else f"input_{position}",
                      argument))
    return named + [(name, name, argument) for name, argument in kwargs.items()]


@contextlib.contextmanager
def told_to_compile(recorder: Recorder, told: bool) -> Iterator[None]:
    """Code between layers that asks torch.compiler whether it is compiled is told so, and then does not look at
    elements (transformers looks whether a mask has any effect)."""
    original = torch.compiler.is_compiling
    if told:
        torch.compiler.is_compiling = lambda: recorder.in_layer == 0  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.compiler.is_compiling = original  # type: ignore[assignment]


def record(model: torch.nn.Module, example: Any, layer_paths: Sequence[str]) -> Recording:
    """Runs the model's forward once, in the mode (train or eval) that it is in. Throws ModelError for what
    cannot be cut into stages."""
    try:
        return record_once(model, example, layer_paths, False)
    except ModelError as error:
        try:
            return record_once(model, example, layer_paths, True)
        except Exception:
            raise error from None


def record_once(model: torch.nn.Module, example: Any, layer_paths: Sequence[str], compiling: bool) -> Recording:
    args, kwargs = bind(model, example)
    recorder = Recorder(model, layer_paths)
    for place, name, argument in input_names(model, args, kwargs):
        leaves = tensors_in(argument)
        for position, tensor in enumerate(leaves):
            single = isinstance(argument, torch.Tensor)
            recorder.input(place, name if single else f"{name}_{position}", tensor)
    with unchanged(model), torch.enable_grad(), recorder.watching(), told_to_compile(recorder, compiling):
        try:
            result = model(*args, **kwargs)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"the forward of {type(model).__name__} fails with the example inputs: "
                             f"{type(error).__name__}: {error}") from error
    recording = recorder.recording
    end = Node("function", "output", "")
    recording.output = output_template(recorder, end, result)
    recording.output_values = end.reads
    if not recording.output_values:
        raise ModelError(f"{type(model).__name__} returns no tensor that depends on its layers: "
                         f"found {type(result).__name__}")
    drop_unused(recording)
    return recording


def output_template(recorder: Recorder, node: Node, result: Any) -> Any:
    """Containers stay, also dataclasses and named tuples; what is neither tensor nor literal is left out."""
    def convert(tree: Any) -> Any:
        if isinstance(tree, torch.Tensor):
            return recorder.argument(tree, node)
        if isinstance(tree, tuple) and hasattr(tree, "_fields"):
            return Build(type(tree), {name: convert(getattr(tree, name)) for name in tree._fields})
        if isinstance(tree, (tuple, list)):
            return type(tree)(convert(item) for item in tree)
        if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
            fields = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
            return Build(type(tree), {name: convert(item) for name, item in fields.items() if item is not None})
        if isinstance(tree, dict):
            return {name: convert(item) for name, item in tree.items()}
        if isinstance(tree, LITERALS):
            return tree
        raise ModelError(f"{type(recorder.recording.model).__name__} returns a {type(tree).__name__}, which a last "
                         "stage cannot give to a loss: return tensors (of Hugging Face: use_cache=False)")
    return convert(result)


@dataclasses.dataclass(frozen=True)
class Build:
    """A named tuple or dataclass in what a model returns."""
    type: type
    fields: dict


def drop_unused(recording: Recording) -> None:
    """Leaves out functions whose results nothing uses, and numbers the nodes anew."""
    needed: set[int] = {writer for _, writer in recording.output_values} | set(recording.inputs)
    for index in reversed(range(len(recording.nodes))):
        node = recording.nodes[index]
        if node.kind == "layer" and index not in needed and has_state(recording.model, node.target):
            needed.add(index)
        if index in needed:
            needed.update(writer for _, writer in node.reads)
    number = {old: new for new, old in enumerate(sorted(needed))}
    recording.nodes = [recording.nodes[old] for old in sorted(needed)]
    for node in recording.nodes:
        node.reads = [(value, number[writer]) for value, writer in node.reads]
    recording.inputs = [number[index] for index in recording.inputs]
    recording.output_values = [(value, number[writer]) for value, writer in recording.output_values]


def has_state(model: torch.nn.Module, path: str) -> bool:
    module = model.get_submodule(path)
    return next(module.buffers(), None) is not None


# --- Running a recording

def run_node(node: Node, model: torch.nn.Module, values: dict[int, torch.Tensor]) -> None:
    """Reads and writes `values`."""
    def argument(leaf: Any) -> Any:
        if isinstance(leaf, Ref):
            return values[leaf.value]
        if isinstance(leaf, Attr):
            return attribute(model, leaf.path)
        if isinstance(leaf, Constant):
            return leaf.tensor()
        if isinstance(leaf, Name):
            return named(leaf.name)
        return leaf

    def convert(tree: Any) -> Any:
        return pytree.tree_map(argument, tree, is_leaf=lambda leaf: isinstance(leaf, (Ref, Attr, Constant, Name)))
    args, kwargs = convert(node.args), convert(node.kwargs)
    function = model.get_submodule(node.target) if node.kind == "layer" else node.target
    with contextlib.nullcontext() if node.grad else torch.no_grad():
        result = function(*args, **kwargs)
    for value, leaf in zip(node.outputs, tensors_in(result), strict=True):
        if value is not None:
            values[value] = leaf


def attribute(model: torch.nn.Module, path: str) -> torch.Tensor:
    parent, _, name = path.rpartition(".")
    return getattr(model.get_submodule(parent), name)


def named(name: str) -> Callable:
    """The function of that name."""
    import importlib
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModelError(f"there is no function {name}")
