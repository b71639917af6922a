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
import importlib
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
                     "is_nonzero", "equal", "allclose", "__contains__", "__complex__", "__array__"}

#: Functions whose result has as many elements as the data says.
COUNTS_ELEMENTS = {"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive", "bincount", "_unique2"}

#: What asks for a tensor's shape.
ASKS_FOR_SHAPE = {"size", "numel", "nelement", "__len__", "shape.__get__"}

#: Functions that write into their first argument's shape, whatever the others' is.
KEEPS_SHAPE = {"index_put", "index_add", "index_copy", "index_fill", "scatter", "scatter_add", "scatter_reduce",
               "masked_scatter", "masked_fill", "index_reduce", "slice_scatter", "select_scatter"}


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
    counted: str = ""  #: by which function, where the data says how many elements it has

    @property
    def bytes(self) -> int:
        return self.shape.numel() * self.dtype.itemsize


@dataclasses.dataclass
class Node:
    """A model's input, the call of a layer, or of a function."""
    kind: str  #: "input", "layer" or "function"
    target: Any  #: position or name of the input; path of the layer; the function
    inside: str  #: path of the module whose code it stands in
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    grad: bool = True  #: whether gradients were recorded
    autocast: tuple[str, torch.dtype] | None = None  #: device and type of torch.autocast around it
    #: (value, node that wrote it last) for each value that it reads
    reads: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    outputs: list[int | None] = dataclasses.field(default_factory=list)  #: of each tensor it gives
    single: bool = True  #: it gives one tensor, not a tuple, list or dict
    writes: list[int] = dataclasses.field(default_factory=list)  #: new values and those written in place
    in_place: list[int] = dataclasses.field(default_factory=list)  #: of these, arguments of its own
    by_alias: list[int] = dataclasses.field(default_factory=list)  #: and others that share memory with one
    attributes: list[str] = dataclasses.field(default_factory=list)  #: parameters and buffers as arguments
    is_view: bool = False  #: all that it gives shares memory with what it reads
    keeps: bool = False  #: the layer writes into its own buffers, such as running averages


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


def know(tree: Any) -> None:
    """Makes the dataclasses in a tree containers for torch, as tuples and dicts are. (Those of transformers are.)"""
    for leaf in pytree.tree_leaves(tree):
        if dataclasses.is_dataclass(leaf) and not isinstance(leaf, type):
            pytree.register_dataclass(type(leaf))
            know(leaf)


def tensors_in(tree: Any) -> list[torch.Tensor]:
    know(tree)
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Inside torch.func.vmap and its like."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def version(tensor: torch.Tensor) -> int:
    try:
        return tensor._version
    except RuntimeError:  # an inference tensor has none
        return 0


def function_name(function: Callable[..., Any]) -> str:
    """As code says it: "torch.nn.functional.relu", "torch.Tensor.add"."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, torch.autograd.Function):
        return f"{owner.__module__}.{owner.__qualname__}.apply"
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return f"torch.ops.{function}"
    name = resolve_name(function)
    if name:
        return str(name)
    module, qualified = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if module and qualified and "<" not in qualified:
        # Some of torch's own say a class that nothing holds: torch._VariableFunctionsClass._grouped_mm.
        places = (f"{module}.{qualified}", f"{module}.{qualified.rpartition('.')[2]}")
        return next((place for place in places if is_there(place)), repr(function))
    return repr(function)


def is_there(name: str) -> bool:
    try:
        return callable(named(name))
    except (ModelError, AttributeError):
        return False


def autocast_now() -> tuple[str, torch.dtype] | None:
    """Device and type of the torch.autocast that is active."""
    return next(((device, torch.get_autocast_dtype(device)) for device in ("cpu", "cuda")
                 if torch.is_autocast_enabled(device)), None)


def short_name(function: Callable[..., Any]) -> str:
    """Its last word, or of a torch.autograd.Function its class."""
    words = function_name(function).split(".")
    return words[-2] if words[-1] in ("__get__", "apply") and len(words) > 1 else words[-1]


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
        self.buffers = {(path, name): buffer for path, module in model.named_modules()
                        for name, buffer in module._buffers.items()}
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
        self.recording.values.append(Value(unique, tensor.shape, tensor.dtype, tensor.requires_grad, varies))
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
            if leaf.grad_fn is not None:
                raise ModelError(f"{self.where(node)} reads a tensor of shape {tuple(leaf.shape)} that was computed out of sight: "
                                 "a hook or an attribute keeps it of a layer that does not return it, or torch.jit or torch.func "
                                 "computed it between layers; let a module of its own return it, choose smaller layers (--depth "
                                 "leaf), or the module around both as one layer (--layers)")
            raise ModelError(f"{self.where(node)} reads a tensor of shape {tuple(leaf.shape)} that comes neither "
                             "from the model's inputs nor from its parameters and buffers; keep it with "
                             "register_buffer, or give it as an input")
        if isinstance(leaf, LITERALS):
            return leaf
        if callable(leaf) and not isinstance(leaf, torch.nn.Module) and is_importable(function_name(leaf)):
            return Name(function_name(leaf))
        if node.kind == "function" and function_name(node.target) == CHECKPOINT:
            raise ModelError(f"{self.inside_words(node.inside)} calls torch.utils.checkpoint with use_reentrant=True, "
                             "which hides gradients between layers; call it with use_reentrant=False, or leave it out "
                             "and plan with --recompute")
        raise ModelError(f"{self.where(node)} is given a {type(leaf).__name__} from outside of it; between layers "
                         "only tensors, numbers, strings, and lists, tuples, dicts and dataclasses of them can go: "
                         + ("the factory can set model.config.use_cache = False" if "Cache" in type(leaf).__name__ else
                            "pass its tensors instead, or choose the module around both as one layer (--layers)"))

    def where(self, node: Node) -> str:
        if node.kind == "layer":
            return f'module "{node.target}"'
        return f'{function_name(node.target)} in {self.inside_words(node.inside)}'

    def inside_words(self, path: str) -> str:
        return f'module "{path}"' if path else f"the forward of {type(self.recording.model).__name__}"

    def arguments(self, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        def convert(tree: Any) -> Any:
            return pytree.tree_map(lambda leaf: self.argument(leaf, node), tree,
                                   is_leaf=lambda leaf: isinstance(leaf, torch.nn.utils.rnn.PackedSequence))
        know((args, kwargs))
        node.args, node.kwargs = convert(args), convert(kwargs)

    # --- Nodes

    def node(self, kind: str, target: Any) -> Node:
        return Node(kind, target, self.stack[-1], grad=torch.is_grad_enabled(), autocast=autocast_now())

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
        counted = self.counts(node)
        for position, leaf in enumerate(leaves):
            known = self.known.get(id(leaf))
            if known is None and id(leaf) not in self.attributes:
                known = self.new_value(leaf, f"{base}_{position}" if many else base, index, varies)
                node.writes.append(known)
                if leaf.dim():
                    self.recording.values[known].counted = counted
            node.outputs.append(known)
        for value in changed:
            self.writer[value] = index
            self.recording.values[value].requires_grad |= self.tensors[value].requires_grad
            self.recording.values[value].varies |= varies
            node.writes.append(value)
        self.recording.nodes.append(node)

    def counts(self, node: Node) -> str:
        """The function that lets data say how many elements the node's results have, or nothing."""
        values = [self.recording.values[value] for value, _ in node.reads]
        name = function_name(node.target).split(".")[-1] if node.kind == "function" else ""
        first = node.args[0] if node.args else None
        if name in KEEPS_SHAPE and isinstance(first, Ref):
            return self.recording.values[first.value].counted
        if any(value.varies for value in values):
            index = node.args[1] if name == "__getitem__" else None
            masks = [self.recording.values[leaf.value].dtype for leaf in pytree.tree_leaves(index) if isinstance(leaf, Ref)]
            if name in COUNTS_ELEMENTS or name == "where" and len(node.args) == 1 and not node.kwargs:
                return name
            if name == "repeat_interleave" and len(values) > 1 and not node.kwargs.get("output_size"):
                return name
            if torch.bool in masks:
                return "a mask as index"
        return next((value.counted for value in values if value.counted), "")

    @staticmethod
    def storage(tensor: torch.Tensor) -> int:
        return int(tensor.untyped_storage()._cdata)

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if self.in_layer or function is torch.nn.Module.__call__:
            return function(*args, **kwargs)
        node = self.node("function", function)
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
        if any(function_name(function).endswith("." + word) for word in ASKS_FOR_SHAPE):
            self.refuse_counted(node, tensors)
        owned = [(tensor, version(tensor)) for tensor in tensors if id(tensor) in self.attributes]
        self.in_layer += 1  # what it calls in turn is its own
        try:
            result = function(*args, **kwargs)
        finally:
            self.in_layer -= 1
        for tensor, before in owned:
            if version(tensor) != before:
                raise ModelError(f"{self.inside_words(node.inside)} writes into {self.attributes[id(tensor)]} between layers, "
                                 "and only the stage that does so would see it; put what writes and reads it into a "
                                 "module of its own, or choose the module around it as one layer (--layers)")
        if not tensors_in(result) and not self.wrote():
            return result  # a shape, a type, a device: the same for every microbatch
        if name == "__get__" and function_name(function).endswith((".grad.__get__", ".grad_fn.__get__")):
            return result
        if any(is_wrapped(tensor) for tensor in tensors_in(result)):
            return result
        if not is_importable(function_name(function)):
            raise ModelError(f"{self.inside_words(node.inside)} calls {function_name(function)} between layers, which a program "
                             "cannot import; put the call into a module of its own, or choose the module around it as one layer "
                             "(--layers)")
        self.arguments(node, args, kwargs)
        self.record(node, result, identifier(short_name(function).strip("_")))
        return result

    def refuse_counted(self, node: Node, tensors: list[torch.Tensor]) -> None:
        """Python must not take from data what every microbatch would then have."""
        for tensor in tensors:
            value = self.known.get(id(tensor))
            counted = self.recording.values[value].counted if value is not None else ""
            if counted:
                raise ModelError(
                    f"{self.inside_words(node.inside)} asks how many elements a tensor has of which the data says how "
                    f"many ({counted}), so its parts cannot be in different stages; choose it as one layer (--layers, "
                    "or a smaller --depth)")

    def call_function(self, kind: type[torch.autograd.Function], original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A torch.autograd.Function between layers: its code is not looked into."""
        node = self.node("function", kind.apply)
        if "<locals>" in kind.__qualname__:
            raise ModelError(f"{self.inside_words(node.inside)} uses the function {kind.__name__}, which stands inside "
                             "of another function; a program cannot import it: put it at the top of its file")
        self.in_layer += 1
        try:
            self.arguments(node, args, kwargs)
            result = original(*args, **kwargs)
            self.record(node, result, identifier(kind.__name__.lower()))
        finally:
            self.in_layer -= 1
        return result

    def wrote(self) -> bool:
        return any(version(tensor) != self.versions[value] for value, tensor in enumerate(self.tensors))

    def call_layer(self, path: str, module: torch.nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        node = self.node("layer", path)
        self.in_layer += 1
        try:
            self.arguments(node, args, kwargs)
            before = [(buffer, version(buffer)) for buffer in module.buffers()]
            with self.out_of_the_way():
                result = forward(module, *args, **kwargs)
            node.keeps = any(after is not buffer or version(buffer) != was
                             for after, (buffer, was) in zip(module.buffers(), before))
            self.record(node, result, identifier(path))
        finally:
            self.in_layer -= 1
        return result

    def out_of_the_way(self) -> contextlib.AbstractContextManager[Any]:
        """Nothing to record: torch.compile would look into what records."""
        if torch.overrides._get_current_function_mode() is self:
            return torch.overrides._pop_mode_temporarily()
        return contextlib.nullcontext()

    def input(self, place: int | str, name: str, tensor: torch.Tensor) -> None:
        node = Node("input", place, "")
        index = len(self.recording.nodes)
        value = self.new_value(tensor, identifier(name), index, True)
        node.outputs, node.writes = [value], [value]
        self.recording.nodes.append(node)
        self.recording.inputs.append(index)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Module.__call__ tells of layers, and of the modules around them; Function.apply of functions with a
        backward of their own."""
        original = torch.nn.Module.__call__
        original_apply = torch.autograd.Function.__dict__["apply"]

        def apply(kind: type[torch.autograd.Function], *args: Any, **kwargs: Any) -> Any:
            if self.in_layer or not any(id(tensor) in self.known for tensor in tensors_in((args, kwargs))):
                return original_apply.__get__(None, kind)(*args, **kwargs)
            return self.call_function(kind, original_apply.__get__(None, kind), args, kwargs)

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
        torch.autograd.Function.apply = classmethod(apply)
        try:
            with self:
                yield
        finally:
            torch.nn.Module.__call__ = original  # type: ignore[method-assign]
            torch.autograd.Function.apply = original_apply


@dataclasses.dataclass(frozen=True)
class Constant:
    """A tensor of one element that does not change."""
    element: Any
    dtype: torch.dtype
    shape: tuple[int, ...]

    def tensor(self) -> torch.Tensor:
        return torch.full(self.shape, self.element, dtype=self.dtype)


@dataclasses.dataclass(frozen=True)
class Name:
    """A function as an argument."""
    name: str


MARKS = (Ref, Attr, Constant, Name)  #: what stands for something else in a node's arguments


#: Names with a meaning of their own in a program: of its code, and of what torch's schedules take beside a model's inputs.
TAKEN = {"self", "torch", "F", "nn", "tensors", "device", "math", "dataclasses", "tree_leaves", "target", "losses", "return_outputs"}


def identifier(words: str) -> str:
    """A name that Python allows."""
    name = "".join(letter if letter.isalnum() else "_" for letter in words) or "value"
    if keyword.iskeyword(name) or name in TAKEN:
        name += "_"
    return name if not name[0].isdigit() else "_" + name


def is_importable(name: str) -> bool:
    """Whether code elsewhere can get a function by this name."""
    return "<" not in name


CHECKPOINT = "torch.utils.checkpoint.CheckpointFunction.apply"


@contextlib.contextmanager
def unchanged(model: torch.nn.Module) -> Iterator[None]:
    """Buffers and the state of random numbers are afterwards what they were."""
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers() if not buffer.is_meta]
    tables = [(module._buffers, dict(module._buffers)) for module in model.modules()
              if not isinstance(module, torch.jit.ScriptModule)]
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        for table, before in tables:
            table.update(before)
        with torch.no_grad():
            for buffer, numbers in buffers:
                buffer.copy_(numbers)


def refuse_replaced_buffers(recorder: Recorder) -> None:
    """A stage would go on with the old one."""
    model = recorder.recording.model
    for path, module in model.named_modules():
        inside = any(path == layer or path.startswith(layer + ".") for layer in recorder.recording.layer_paths)
        for name, buffer in module._buffers.items():
            before = recorder.buffers.get((path, name))
            if not inside and before is not None and buffer is not before:
                raise ModelError(f"{recorder.inside_words(path)} puts another tensor in place of its buffer {name}, "
                                 f"and a stage would not see it; write into it: self.{name}.copy_(…)")


def bind(model: torch.nn.Module, example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as arguments: a tensor, a tuple of arguments, or a dict of named ones."""
    if isinstance(example, dict):
        return (), dict(example)
    if isinstance(example, (tuple, list)):
        return tuple(example), {}
    return (example,), {}


def input_names(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[int | str, str, Any]]:
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
def masks_not_looked_at() -> Iterator[None]:
    """torch.nn's transformers look through a mask that comes without `is_causal`, for a faster way to the same result. What
    is recorded takes the way that is right for every mask."""
    original = torch.nn.modules.transformer._detect_is_causal_mask
    torch.nn.modules.transformer._detect_is_causal_mask = lambda mask, is_causal=None, size=None: is_causal is True
    try:
        yield
    finally:
        torch.nn.modules.transformer._detect_is_causal_mask = original


@contextlib.contextmanager
def told_to_compile(recorder: Recorder, told: bool) -> Iterator[None]:
    """Code between layers that asks torch.compiler whether it is compiled is told so, and then does not look at
    elements (transformers looks whether a mask has any effect)."""
    original = torch.compiler.is_compiling
    if told:
        torch.compiler.is_compiling = lambda: recorder.in_layer == 0
    try:
        yield
    finally:
        torch.compiler.is_compiling = original


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
    with unchanged(model), torch.enable_grad(), recorder.watching(), masks_not_looked_at(), told_to_compile(recorder, compiling):
        try:
            result = model(*args, **kwargs)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(failure(model, recorder, error)) from error
        refuse_replaced_buffers(recorder)
    recording = recorder.recording
    end = Node("function", "output", "")
    recording.output = output_template(recorder, end, result)
    recording.output_values = end.reads
    if not recording.output_values:
        raise ModelError(f"{type(model).__name__} returns no tensor that depends on its layers: "
                         f"found {type(result).__name__}")
    drop_unused(recording)
    return recording


def failure(model: torch.nn.Module, recorder: Recorder, error: Exception) -> str:
    """What to say of a forward that does not go through."""
    given = ", ".join(f"{value.name} {tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
                      for value in recorder.recording.values[:len(recorder.recording.inputs)])
    place = recorder.stack[-1]
    return (f"the forward of {type(model).__name__} fails" + (f' in module "{place}"' if place else "")
            + f" with the example inputs {given}: {type(error).__name__}: {' '.join(str(error).split())}")


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
                         "stage cannot give to a loss; return tensors"
                         + (": the factory can set model.config.use_cache = False"
                            if "Cache" in type(tree).__name__ else ""))
    return convert(result)


@dataclasses.dataclass(frozen=True)
class Build:
    """A named tuple or dataclass in what a model returns."""
    type: type
    fields: dict[str, Any]


def drop_unused(recording: Recording) -> None:
    """Leaves out functions whose results nothing uses, and numbers the nodes anew."""
    wanted = set(recording.output_values)  # values, as these nodes leave them
    needed: set[int] = {writer for _, writer in wanted} | set(recording.inputs)
    writers: dict[int, list[int]] = {}
    for index, node in enumerate(recording.nodes):
        for value in node.writes:
            writers.setdefault(value, []).append(index)
    for index in reversed(range(len(recording.nodes))):
        node = recording.nodes[index]
        if node.kind == "layer" and index not in needed and has_state(recording.model, node.target):
            needed.add(index)
        if index in needed:
            # A view that is written with what it is a view of is no argument, and has to be there.
            before = [(value, max(other for other in writers[value] if other < index)) for value in node.by_alias
                      if (value, index) in wanted]
            wanted.update([*node.reads, *before])
            needed.update(writer for _, writer in [*node.reads, *before])
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

def autocast(kind: tuple[str, torch.dtype] | None) -> contextlib.AbstractContextManager[None]:
    return torch.autocast(*kind) if kind is not None else contextlib.nullcontext()


class Call:
    """A node, ready to run: little is left to do but what the model does itself, for the sake of times."""

    def __init__(self, node: Node, model: torch.nn.Module):
        self.node = node
        self.function: Callable[..., Any] = model.get_submodule(node.target) if node.kind == "layer" else node.target
        self.leaves, self.tree = pytree.tree_flatten((node.args, node.kwargs),
                                                     is_leaf=lambda leaf: isinstance(leaf, MARKS))
        self.is_plain = not node.kwargs and len(self.leaves) == len(node.args) and \
            all(leaf is argument for leaf, argument in zip(self.leaves, node.args))
        self.values = [(place, leaf.value) for place, leaf in enumerate(self.leaves) if isinstance(leaf, Ref)]
        self.owned: list[tuple[int, torch.nn.Module, str]] = []
        for place, leaf in enumerate(self.leaves):
            if isinstance(leaf, Attr):
                parent, _, name = leaf.path.rpartition(".")
                self.owned.append((place, model.get_submodule(parent), name))
            elif isinstance(leaf, Constant):
                self.leaves[place] = leaf.tensor()
            elif isinstance(leaf, Name):
                self.leaves[place] = named(leaf.name)

    def __call__(self, values: dict[int, torch.Tensor]) -> None:
        """Reads and writes `values`."""
        leaves = self.leaves.copy()
        for place, value in self.values:
            leaves[place] = values[value]
        for place, module, name in self.owned:
            leaves[place] = getattr(module, name)
        args, kwargs = (leaves, {}) if self.is_plain else pytree.tree_unflatten(leaves, self.tree)
        if self.node.grad and self.node.autocast is None:
            result = self.function(*args, **kwargs)
        else:
            with torch.set_grad_enabled(self.node.grad), autocast(self.node.autocast):
                result = self.function(*args, **kwargs)
        outputs = self.node.outputs
        if self.node.single and len(outputs) == 1:
            if outputs[0] is not None:
                values[outputs[0]] = result
            return
        for output, leaf in zip(outputs, tensors_in(result), strict=True):
            if output is not None:
                values[output] = leaf


def run_node(node: Node, model: torch.nn.Module, values: dict[int, torch.Tensor]) -> None:
    """Reads and writes `values`."""
    Call(node, model)(values)


def attribute(model: torch.nn.Module, path: str) -> torch.Tensor:
    parent, _, name = path.rpartition(".")
    tensor: torch.Tensor = getattr(model.get_submodule(parent), name)
    return tensor


def named(name: str) -> Callable[..., Any]:
    """The function of that name."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        function: Callable[..., Any] = found
        return function
    raise ModelError(f"there is no function {name}")
