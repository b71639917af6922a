"""Writes a plan as a program: stages.py, with a module per stage, and train.py, which torchrun starts.

The program needs PyTorch and the user's own modules, nothing of Stagecraft. See train_template.py.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import shutil
import subprocess
import sys
from typing import Any, Sequence

import torch

from .errors import ModelError
from .layers import Graph, trace
from .losses import loss_named
from .profiling import inputs_of
from .trying import data_like, input_names_of, inputs_of_model, like, refuse_other_ways, try_stages
from .recording import (Attr, Build, Constant, Name, Node, Recording, Ref, attribute, function_name, identifier)

Read = tuple[int, int]


# --- The plan

@dataclasses.dataclass
class Plan:
    path: str
    data: dict[str, Any]
    layers: list[str]  #: names, of the profile
    layers_of_stage: list[list[int]]  #: numbers of layers in the profile
    ranks: list[list[int]]  #: of each stage, that of each replica
    microbatch: int
    microbatches: int  #: of one pipeline
    schedule: str
    virtual: int
    is_uniform: bool  #: whole pipelines side by side; otherwise stages differ in replicas, which take turns
    is_split: bool  #: a replica has its part of each microbatch; otherwise whole ones, in turn
    loss: str = ""  #: package:function of the profile's last layer, where that is one
    sharding: str = "none"  #: over replicas

    @property
    def stages(self) -> int:
        return len(self.layers_of_stage)

    @property
    def replicas(self) -> int:
        return len(self.ranks[0]) if self.is_uniform else 1


def read_plan(path: str) -> Plan:
    data = read_json(path)
    if data.get("format") != "stagecraft-plan/1":
        raise ModelError(f'{path}: expected "format": "stagecraft-plan/1", found {data.get("format")!r}')
    layers = read_layer_names(path, data["model"])
    order = data.get("order") or list(range(len(layers)))
    stages = data["stages"]
    covered = [layer for stage in stages for layer in range(*stage["layers"])]
    if covered != list(range(len(layers))):
        raise ModelError(f"{path}: its stages do not hold the {len(layers)} layers of {data['model']}, each once")
    for number, stage in enumerate(stages):
        if stage.get("recompute", "none") not in ("none", "full"):
            raise ModelError(f"{path}: stage {number} recomputes single layers; a program recomputes whole stages or "
                             "nothing: plan with --recompute none or full")
        if any(len(peers) != 1 for peers in stage["devices"]):
            raise ModelError(f"{path}: stage {number} has tensor-parallel peers, and a module of PyTorch is not split "
                             "by itself: plan with --tensor-parallel 1")
        if stage["layers"][0] == stage["layers"][1]:
            raise ModelError(f"{path}: stage {number} is empty; plan with --min-layers-per-stage 1")
    if data.get("weights", "flush") != "flush":
        raise ModelError(f'{path}: the schedule keeps several versions of weights ("weights": "{data["weights"]}"), '
                         "which torch.distributed.pipelining does not; plan with a synchronous schedule such as 1f1b")
    plan = with_ranks(path, data, layers, [[order[layer] for layer in range(*stage["layers"])] for stage in stages])
    refuse_shards(plan)
    return without_loss(plan)


def without_loss(plan: Plan) -> Plan:
    """A profile's loss is no part of the model: the last stage's process has it."""
    loss = loss_named(plan.layers[-1])
    if not loss:
        return plan
    last = len(plan.layers) - 1
    stages = [[layer for layer in layers if layer != last] for layers in plan.layers_of_stage]
    return dataclasses.replace(plan, layers=plan.layers[:-1], layers_of_stage=stages, loss=loss)


def refuse_shards(plan: Plan) -> None:
    """Of an optimizer that is sharded over replicas, what FullyShardedDataParallel cannot do."""
    if plan.sharding == "none":
        return
    if not plan.is_uniform:
        raise ModelError(f"{plan.path}: weights are sharded over replicas, of which stages have different numbers, or not all "
                         "the same number of microbatches; each shard needs all replicas at once: plan with --dp N, or "
                         "--sharding none")


def with_ranks(path: str, data: dict[str, Any], layers: list[str], stages: list[list[int]]) -> Plan:
    devices = [[peers[0] for peers in stage["devices"]] for stage in data["stages"]]
    number = {device: rank for rank, device in enumerate(sorted({device for stage in devices for device in stage}))}
    ranks = [[number[device] for device in stage] for stage in devices]
    batch = data["batch"]
    replicas = len(ranks[0])
    is_split = data.get("replicas", "split") == "split" and any(len(stage) > 1 for stage in ranks)
    are_pipelines = all(len(stage) == replicas for stage in ranks) and \
        all(stage.index(rank) == replica for replica in range(replicas) for rank in {s[replica] for s in ranks}
            for stage in ranks if rank in stage)
    if is_split and not are_pipelines:
        raise ModelError(f"{path}: stages have {', '.join(str(len(stage)) for stage in ranks)} replicas, which split "
                         'each microbatch and would exchange slices of it; let them take turns ("replicas": '
                         '"round_robin"), or plan with --straight')
    if is_split and batch["microbatch"] % replicas:
        raise ModelError(f"{path}: a microbatch of {batch['microbatch']} samples does not divide among {replicas} "
                         f"replicas; plan with --microbatch {replicas * -(-batch['microbatch'] // replicas)}")
    is_uniform = are_pipelines and (is_split or batch["microbatches"] % replicas == 0)
    schedule = data.get("schedule", {"name": "1f1b"})
    sharding = data.get("optimizer", {}).get("sharding", "none")
    share = replicas if is_split else 1
    turns = replicas if is_uniform and not is_split else 1
    return Plan(path, data, layers, stages, ranks, batch["microbatch"] // share, batch["microbatches"] // turns,
                schedule["name"], schedule.get("virtual_stages", 1), is_uniform, is_split,
                sharding=sharding if any(len(stage) > 1 for stage in ranks) else "none")


def read_json(path: str) -> Any:
    try:
        with open(path) as file:
            return json.load(file)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ModelError(f"{path}: expected JSON: {error}") from None


def read_layer_names(plan: str, model: str) -> list[str]:
    path = model if os.path.exists(model) else os.path.join(os.path.dirname(plan), model)
    if not os.path.exists(path):
        raise ModelError(f'{plan}: its model "{model}" is no file here; export a plan of a profile that '
                         "python -m stagecraft.torch profile wrote")
    data = read_json(path)
    layers = data.get("model", data).get("layers") if isinstance(data, dict) else None
    if not layers:
        raise ModelError(f"{path}: expected a profile with a list of layers")
    return [layer["name"] for layer in layers]


# --- Which values cross cuts

@dataclasses.dataclass
class StageCode:
    nodes: list[int]
    takes: list[Read]
    gives: list[Read]
    inputs: list[int]  #: nodes of the model's inputs
    parameters: list[str]


def stages_of(plan: Plan, graph: Graph) -> list[StageCode]:
    recording = graph.recording
    stage_of = {}
    for stage, layers in enumerate(plan.layers_of_stage):
        for layer in layers:
            for node in graph.layers[layer].nodes:
                if graph.layer_of.get(node) == layer:
                    stage_of[node] = stage
    refuse_broken_order(plan, graph, stage_of)
    last_use: dict[Read, int] = {}
    for stage, layers in enumerate(plan.layers_of_stage):
        for read in (read for layer in layers for read in graph.layers[layer].reads):
            last_use[read] = max(last_use.get(read, 0), stage)
    for read in recording.output_values:
        last_use[read] = plan.stages - 1
    crossing = [[read for read in sorted(last_use, key=lambda read: (read[1], read[0]))
                 if stage_of[read[1]] <= cut < last_use[read]] for cut in range(plan.stages)]
    codes = []
    for stage, layers in enumerate(plan.layers_of_stage):
        nodes = sorted({node for layer in layers for node in graph.layers[layer].nodes})
        takes = crossing[stage - 1] if stage else []
        gives = crossing[stage] if stage + 1 < plan.stages else list(recording.output_values)
        if stage + 1 < plan.stages and not gives:
            raise ModelError(f"nothing crosses the cut behind stage {stage}, {graph.layers[layers[-1]].name}")
        codes.append(StageCode(nodes, takes, gives, [node for node in nodes if recording.nodes[node].kind == "input"],
                               list(dict.fromkeys(path for layer in layers for path in graph.layers[layer].parameters))))
    return codes


def refuse_broken_order(plan: Plan, graph: Graph, stage_of: dict[int, int]) -> None:
    """What reads a value before it is written over must not be in a later stage than what does so."""
    recording = graph.recording
    writers: dict[int, list[int]] = {}
    for index, node in enumerate(recording.nodes):
        for value in node.writes:
            writers.setdefault(value, []).append(index)
    for index, node in enumerate(recording.nodes):
        for value, writer in node.reads:
            if index not in stage_of or writer not in stage_of:
                continue
            if stage_of[writer] > stage_of[index]:
                raise ModelError(f"{plan.path}: stage {stage_of[index]} reads {recording.values[value].name} of stage "
                                 f"{stage_of[writer]}, a later one: the plan is of another model")
            for later in writers[value]:
                if later > writer and later != index and stage_of.get(later, 0) < stage_of[index]:
                    raise ModelError(f'{where(recording.nodes[later])} writes over {recording.values[value].name} in '
                                     f"place, which stage {stage_of[index]} still reads as it was; make it a copy "
                                     "(inplace=False, or x = x + y for x += y), and profile again")


def where(node: Node) -> str:
    return f'module "{node.target}"' if node.kind == "layer" else f"{function_name(node.target)} in {node.inside!r}"


# --- Code

BINARY = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "div": "/", "matmul": "@", "pow": "**", "floordiv": "//",
          "mod": "%", "and": "&", "or": "|", "xor": "^", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
          "ne": "!=", "lshift": "<<", "rshift": ">>"}
UNARY = {"neg": "-", "invert": "~", "pos": "+"}


class Writer:
    """Lines of one stage's forward."""

    def __init__(self, graph: Graph):
        self.graph, self.recording = graph, graph.recording
        self.imports: set[str] = set()
        self.uses_tensors = False

    def value(self, value: int) -> str:
        return self.recording.values[value].name

    def literal(self, leaf: Any) -> str:
        if isinstance(leaf, Ref):
            return self.value(leaf.value)
        if isinstance(leaf, Attr):
            return "self." + identifier(leaf.path)
        if isinstance(leaf, Constant):
            return f"torch.full({leaf.shape}, {self.literal(leaf.element)}, dtype={leaf.dtype})"
        if isinstance(leaf, Name):
            return self.function(leaf.name)
        if isinstance(leaf, float) and not math.isfinite(leaf):
            return f'float("{leaf}")'
        if isinstance(leaf, torch.Size):
            return repr(tuple(leaf))
        if isinstance(leaf, torch.device):
            return "self.device"
        if isinstance(leaf, slice):
            return f"slice({self.tree(leaf.start)}, {self.tree(leaf.stop)}, {self.tree(leaf.step)})"
        return repr(leaf)

    def tree(self, tree: Any) -> str:
        if isinstance(tree, Build):
            return self.build(tree.type, tree.fields)
        if dataclasses.is_dataclass(tree) and not isinstance(tree, (Ref, Attr, Constant, Name)):
            fields = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
            return self.build(type(tree), {name: item for name, item in fields.items() if item is not None})
        if isinstance(tree, tuple) and hasattr(tree, "_fields"):
            return self.build(type(tree), {name: getattr(tree, name) for name in tree._fields})
        if isinstance(tree, tuple) and not isinstance(tree, torch.Size):
            return "(" + ", ".join(self.tree(item) for item in tree) + ("," if len(tree) == 1 else "") + ")"
        if isinstance(tree, list):
            return "[" + ", ".join(self.tree(item) for item in tree) + "]"
        if isinstance(tree, dict):
            return "{" + ", ".join(f"{name!r}: {self.tree(item)}" for name, item in tree.items()) + "}"
        return self.literal(tree)

    def build(self, kind: type, fields: dict[str, Any]) -> str:
        """A named tuple or dataclass, made of its fields."""
        if "<locals>" in kind.__qualname__:
            raise ModelError(f"{kind.__name__} goes between layers, and stands inside of a function; a program cannot "
                             "import it: put it at the top of its file")
        outer = kind.__qualname__.partition(".")[0]
        self.imports.add(f"from {kind.__module__} import {outer}")
        return f"{kind.__qualname__}(" + ", ".join(f"{name}={self.tree(item)}" for name, item in fields.items()) + ")"

    def index(self, tree: Any) -> str:
        """Inside of brackets."""
        def part(item: Any) -> str:
            if isinstance(item, slice):
                ends = ["" if end is None else self.tree(end) for end in (item.start, item.stop)]
                return ":".join(ends + ([self.tree(item.step)] if item.step is not None else []))
            return "..." if item is Ellipsis else self.tree(item)
        if isinstance(tree, tuple) and tree and not isinstance(tree, torch.Size):
            return ", ".join(part(item) for item in tree)
        return part(tree)

    def function(self, name: str) -> str:
        if name.startswith("torch.nn.functional."):
            return "F." + name.split(".")[-1]
        if name.startswith("_VariableFunctions"):
            name = "torch." + name.split(".", 1)[1]
        words = name.split(".")
        module = next((".".join(words[:count]) for count in range(len(words) - 1, 0, -1)
                       if ".".join(words[:count]) in sys.modules), words[0])
        if not module.startswith("torch.") and module != "torch":
            self.imports.add(f"import {module}")
        return name

    def call(self, node: Node) -> str:
        if node.kind == "layer":
            return f"self.{identifier(node.target)}({self.arguments(node.args, node.kwargs)})"
        name = function_name(node.target)
        if name.startswith("torch.Tensor."):
            return self.method(name.removeprefix("torch.Tensor."), node)
        return f"{self.function(name)}({self.arguments(node.args, node.kwargs)})"

    def method(self, name: str, node: Node) -> str:
        args = node.args
        plain = name.strip("_")
        if name.endswith(".__get__"):
            return f"{self.tree(args[0])}.{name.removesuffix('.__get__')}"
        if name == "__getitem__":
            return f"{self.tree(args[0])}[{self.index(args[1])}]"
        if name == "__setitem__":
            return f"{self.tree(args[0])}[{self.index(args[1])}] = {self.tree(args[2])}"
        if name.startswith("__") and len(args) == 2:
            if plain in BINARY:
                return f"{self.tree(args[0])} {BINARY[plain]} {self.tree(args[1])}"
            if plain[0] == "r" and plain[1:] in BINARY:
                return f"{self.tree(args[1])} {BINARY[plain[1:]]} {self.tree(args[0])}"
            if plain[0] == "i" and plain[1:] in BINARY:
                return f"{self.tree(args[0])} {BINARY[plain[1:]]}= {self.tree(args[1])}"
        if name.startswith("__") and len(args) == 1 and plain in UNARY:
            return f"{UNARY[plain]}{self.tree(args[0])}"
        if isinstance(args[0] if args else None, (Ref, Attr)):
            return f"{self.tree(args[0])}.{name}({self.arguments(args[1:], node.kwargs)})"
        return f"torch.Tensor.{name}({self.arguments(args, node.kwargs)})"

    def arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        return ", ".join([self.tree(item) for item in args] + [f"{name}={self.tree(item)}"
                                                               for name, item in kwargs.items()])

    def statement(self, node: Node) -> list[str]:
        call = self.call(node)
        is_statement = re.match(r"^\w+(\[.*\])? \S*=", call) is not None and "==" not in call.split(" ")[1]
        fresh = [value for value in node.outputs if value is not None and value not in node.in_place]
        if is_statement or not fresh:
            lines = [call]
        elif node.single:
            lines = [f"{self.value(fresh[0])} = {call}"]
        else:
            self.uses_tensors = True
            names = [self.value(value) if value is not None and value in node.writes else "_"
                     for value in node.outputs]
            lines = [f"{', '.join(names)}{',' if len(names) == 1 else ''} = tensors({call})"]
        return lines

    def statements(self, nodes: Sequence[Node]) -> list[str]:
        """Those of several nodes; under torch.no_grad and torch.autocast, where the model's are."""
        lines: list[str] = []
        around = ""
        for node in nodes:
            contexts = ([] if node.grad else ["torch.no_grad()"]) \
                + ([f'torch.autocast("{node.autocast[0]}", {node.autocast[1]})'] if node.autocast else [])
            if ", ".join(contexts) != around:
                around = ", ".join(contexts)
                lines += [f"with {around}:"] if around else []
            lines += ["    " * bool(around) + line for line in self.statement(node)]
        return lines


def stage_class(plan: Plan, graph: Graph, number: int, code: StageCode, writer: Writer) -> list[str]:
    recording = graph.recording
    nodes = [recording.nodes[node] for node in code.nodes]
    layers = plan.layers_of_stage[number]
    names = [graph.layers[layer].name for layer in layers] or [f"nothing before {plan.loss}"]
    modules = list(dict.fromkeys(node.target for node in nodes if node.kind == "layer"))
    attributes = list(dict.fromkeys(path for node in nodes for path in node.attributes))
    lines = [f"class Stage{number}(nn.Module):",
             f'    """{names[0]}' + (f" … {names[-1]}: {len(names)} layers" if len(names) > 1 else "") + '"""', ""]
    lines += signature_lines("takes", recording, code.takes)
    lines += signature_lines("gives", recording, code.gives)
    inputs = [recording.nodes[node].writes[0] for node in code.inputs]
    lines += [f"    inputs = {tuple(recording.values[value].name for value in inputs)!r}  # of the model, that it reads",
              ""]
    lines += ["    def __init__(self, model):", "        super().__init__()"]
    for path in modules:
        lines.append(f'        self.{identifier(path)} = model.get_submodule("{path}")')
    for path in attributes:
        is_parameter = isinstance(attribute(graph.model, path), torch.nn.Parameter)
        source = f'model.get_{"parameter" if is_parameter else "buffer"}("{path}")'
        if is_parameter:
            lines.append(f"        self.{identifier(path)} = {source}")
        else:
            lines.append(f'        self.register_buffer("{identifier(path)}", {source})')
    if not modules and not attributes:
        lines.append("        # It has no weights.")
    lines += ["", forward_line(recording, code, inputs)]
    body = stage_body(recording, code, nodes, writer)
    if any("self.device" in line for line in body):
        body.insert(0, f"self.device = {first_tensor(recording, code, inputs)}.device")
    lines += ["        " + line for line in body]
    return lines


def first_tensor(recording: Recording, code: StageCode, inputs: Sequence[int]) -> str:
    value = code.takes[0][0] if code.takes else inputs[0] if inputs else None
    return recording.values[value].name if value is not None else "next(self.parameters())"


def forward_line(recording: Recording, code: StageCode, inputs: Sequence[int]) -> str:
    taken = [recording.values[value].name for value, _ in code.takes]
    named = [recording.values[value].name for value in inputs]
    return f"    def forward({', '.join(['self', *taken, *(['*', *named] if named else [])])}):"


def signature_lines(name: str, recording: Recording, reads: Sequence[Read]) -> list[str]:
    """Name, shape, type and whether a gradient comes back."""
    lines = [f"    {name} = ("]
    for value, _ in reads:
        it = recording.values[value]
        lines.append(f'        ("{it.name}", {tuple(it.shape)}, {it.dtype}, {it.requires_grad}),')
    return [f"    {name} = ()"] if len(lines) == 1 else [*lines, "    )"]


def stage_body(recording: Recording, code: StageCode, nodes: list[Node], writer: Writer) -> list[str]:
    body = []
    written = {value for node in nodes for value in [*node.in_place, *node.by_alias]}
    for value, _ in code.takes:
        if value in written:
            name = recording.values[value].name
            body.append(f"{name} = {name}.clone()  # a layer writes it in place")
    body += writer.statements([node for node in nodes if node.kind != "input"])
    computed = {value for node in nodes for value in node.writes}
    results = []
    for value, _ in code.gives:
        it = recording.values[value]
        passes_by = value not in computed
        results.append(it.name + (".view_as(" + it.name + ")" if passes_by and it.requires_grad else ""))
    body.append("return " + (results[0] if len(results) == 1 else "(" + ", ".join(results) + ")"))
    return body


def result_lines(graph: Graph, writer: Writer) -> list[str]:
    """What the model returns, of the last stage's tensors."""
    recording = graph.recording
    names = [recording.values[value].name for value, _ in recording.output_values]
    return ["def result(" + ", ".join(names) + "):", '    """What the whole model returns, of the last stage\'s tensors."""',
            f"    return {writer.tree(recording.output)}"]


def stages_file(plan: Plan, graph: Graph, codes: list[StageCode]) -> str:
    writer = Writer(graph)
    classes = [stage_class(plan, graph, number, code, writer) for number, code in enumerate(codes)]
    result = result_lines(graph, writer)
    name = type(graph.model).__name__
    head = [f'"""{name} in {plan.stages} stages, as {os.path.basename(plan.path)} cuts it.', "",
            "Each stage is a module that takes what crosses the cut before it, and gives what crosses the cut behind it",
            f"(name, shape, type, gradient), for microbatches of {plan.microbatch}. It is made of modules of the whole model.",
            '"""', ""]
    body = "\n\n\n".join("\n".join(lines) for lines in [*classes, result])
    helper = ["", "", "def tensors(tree):", '    """Those in a tuple, list, dict or dataclass, in order."""',
              "    found = []", "    for leaf in tree_leaves(tree):", "        if dataclasses.is_dataclass(leaf):",
              "            found += tensors([getattr(leaf, field.name) for field in dataclasses.fields(leaf)])",
              "        elif isinstance(leaf, torch.Tensor):", "            found.append(leaf)", "    return found"] \
        if writer.uses_tensors else []
    imports = (["import dataclasses"] if writer.uses_tensors else []) + sorted(writer.imports) + ["import torch"]
    if re.search(r"\bF\.", body):
        imports.append("import torch.nn.functional as F")
    imports.append("from torch import nn")
    if writer.uses_tensors:
        imports.append("from torch.utils._pytree import tree_leaves")
    stages = "STAGES = [" + ", ".join(f"Stage{number}" for number in range(plan.stages)) + "]"
    return "\n".join([*head, *imports, *helper, "", "", body, "", "", stages, ""])


# --- The schedule

CLASSES = {"gpipe": "GPipe", "1f1b": "1F1B"}
CLASSES_BY_ORDER = {"interleaved": "Interleaved1F1B", "looped-bfs": "LoopedBFS", "zb-v": "ZBVZeroBubble",
                    "interleaved-zb": "InterleavedZeroBubble", "dualpipev": "DualPipeV"}


def schedule_of(plan: Plan, folder: str, program: str | None) -> str:
    """The name of a class of torch.distributed.pipelining, or of the file with the plan's own order."""
    if not plan.is_uniform:
        return order_of_turns(plan, folder, program)
    ranks = pipeline_ranks(plan)
    settings = plan.data.get("schedule", {})
    warm_up = settings.get("warm_up") or []
    devices = len(ranks)
    usual = [min(devices - place, plan.microbatches) for place in range(devices)]
    in_turn = 1 if plan.is_split else plan.replicas
    of_replica = [max(1, round(ahead / in_turn)) for ahead in warm_up]
    if plan.schedule in CLASSES and (not warm_up or of_replica == usual) and \
            [stage[0] for stage in plan.ranks] == ranks and (plan.schedule != "1f1b" or plan.microbatches >= devices):
        return CLASSES[plan.schedule]
    program = program or shutil.which("stagecraft")
    if program is None:
        if os.path.exists(os.path.join(folder, "schedule.csv")):
            os.remove(os.path.join(folder, "schedule.csv"))
        if plan.schedule in CLASSES_BY_ORDER and not settings.get("group"):
            return CLASSES_BY_ORDER[plan.schedule]
        raise ModelError(f"the order of {plan.schedule} comes from the program stagecraft, which is not on the path; "
                         "say where it is with --stagecraft PROGRAM")
    command = [program, "schedule", "show", plan.schedule, "--stages", str(devices), "--microbatches",
               str(plan.microbatches), "--format", "torch", "-o", os.path.join(folder, "schedule.csv")]
    if plan.stages > devices:
        command += ["--virtual", str(plan.stages // devices)]
    if settings.get("group"):
        command += ["--group", str(settings["group"])]
    if warm_up and of_replica != usual:
        command += ["--warmup", ",".join(str(ahead) for ahead in of_replica)]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        raise ModelError(f"the order of {plan.schedule}: {' '.join(answer.stderr.split())}")
    refuse_other_places(plan, ranks, os.path.join(folder, "schedule.csv"))
    return "schedule.csv"


def order_of_turns(plan: Plan, folder: str, program: str | None) -> str:
    """Passes of each process in the order that the plan's prediction has."""
    program = program or shutil.which("stagecraft")
    if program is None:
        raise ModelError(f"{plan.path}: its stages have {', '.join(str(len(stage)) for stage in plan.ranks)} replicas, "
                         "whose order comes from the program stagecraft, which is not on the path; say where it is "
                         "with --stagecraft PROGRAM, or plan with --straight")
    path = os.path.join(folder, "predicted.json")
    answer = subprocess.run([program, "simulate", plan.path, "--trace", path, "-q"], capture_output=True, text=True)
    if answer.returncode:
        raise ModelError(f"{plan.path}: {' '.join(answer.stderr.split())}")
    letters = {"forward": "F", "backward": "B", "backward_input": "I", "backward_weight": "W"}
    rows: dict[int, list[tuple[int, str]]] = {}
    for event in read_json(path)["traceEvents"]:
        if event["ph"] == "X" and event["args"]["op"] in letters:
            it = event["args"]
            rows.setdefault(event["pid"], []).append(
                (it["start_ns"], f"{it['stage']}{letters[it['op']]}{it['microbatch']}"))
    os.remove(path)
    write(os.path.join(folder, "schedule.csv"),
          "".join(",".join(word for _, word in sorted(rows[rank], key=lambda row: row[0])) + "\n" for rank in sorted(rows)))
    return "schedule.csv"


def refuse_other_places(plan: Plan, ranks: list[int], path: str) -> None:
    """Each row must have the plan's stages."""
    with open(path) as file:
        rows = [{int(word) for word in re.findall(r"(\d+)[FBIW]\d", row)} for row in file]
    for row, rank in zip(rows, ranks):
        mine = {stage for stage, places in enumerate(plan.ranks) if places[0] == rank}
        if row != mine:
            raise ModelError(f"{plan.path}: device {rank} holds stages {sorted(mine)}, and the order of "
                             f"{plan.schedule} gives it {sorted(row)}; plan without --fix")


def pipeline_ranks(plan: Plan) -> list[int]:
    """Those of the first replica, in the order of their first stage."""
    return list(dict.fromkeys(stage[0] for stage in plan.ranks))


# --- All together

def find_graph(plan: Plan, model: torch.nn.Module, example: Any, depth: int | str | None, layers: Sequence[str],
               split: Sequence[str]) -> Graph:
    """The graph that the plan's profile has: with the layers chosen as then."""
    split = split or [name.split("…")[0] for name in plan.layers if "…" in name or len(plan.layers) == 1]
    choices: list[tuple[int | str, Sequence[str]]] = [(depth, split)] if depth is not None else \
        [(choice, points) for choice in ("auto", "leaf", 1, 2, 3, 4, 5) for points in ((), split)]
    if layers:
        choices = [("auto", points) for points in ((), split)]
    found: Graph | None = None
    for choice, points in choices:
        try:
            graph = trace(model, example, choice, layers, points)
        except ModelError:
            if len(choices) == 1:
                raise
            continue
        if [layer.name for layer in graph.layers] == plan.layers:
            return graph
        found = found or graph
    if found is None:
        return trace(model, example, "auto", layers, split)  # says what is wrong
    raise ModelError(f"{plan.path}: its model has {len(plan.layers)} layers ({', '.join(plan.layers[:3])}, …), "
                     f"{type(model).__name__} has {len(found.layers)} ({', '.join(x.name for x in found.layers[:3])}, …); "
                     "say --depth, --layers and --split as for the profile")


def shared_weights(plan: Plan, graph: Graph) -> list[tuple[list[str], list[int]]]:
    """Weights of several stages, those of the same layers together; and the stages: of the layer that owns them, as the profile
    has it, and of each other one that is not in the owner's."""
    stage_of = {layer: stage for stage, layers in enumerate(plan.layers_of_stage) for layer in layers}
    users: dict[str, list[int]] = {}
    for number, layer in enumerate(graph.layers):
        for path in layer.parameters:
            users.setdefault(path, []).append(number)
    together: dict[tuple[int, ...], list[str]] = {}
    for path, layers in users.items():
        together.setdefault(tuple(layers), []).append(path)
    found = []
    for (owner, *others), paths in together.items():
        stages = [stage_of[layer] for layer in others if stage_of[layer] != stage_of[owner]]
        if stages:
            found.append((paths, [stage_of[owner], *stages]))
    return found


@dataclasses.dataclass
class Names:
    """The user's own functions, as package:function. Without a loss it is the one that the profile has."""
    factory: str
    loss: str
    data: str
    optimizer: str = ""


def export(plan_path: str, model: torch.nn.Module, example_inputs: Any, folder: str, names: Names, *,
           depth: int | str | None = None, layers: Sequence[str] = (), split: Sequence[str] = (), seed: int = 1,
           rate: float = 1e-3, stagecraft: str | None = None) -> list[str]:
    """Writes the plan as a program into the folder, and tries its stages: with the example, and with a microbatch of
    the first step's data. Gives notes on what could not be tried. Throws ModelError for what cannot be a program."""
    plan = read_plan(plan_path)
    names = with_plans_loss(names, plan)
    model = model.to("cpu")
    example = inputs_of(example_inputs, plan.microbatch)
    graph = find_graph(plan, model, example, depth, layers, split)
    codes = stages_of(plan, graph)
    refuse_mixed_shards(plan, graph, codes)
    os.makedirs(folder, exist_ok=True)
    schedule = schedule_of(plan, folder, stagecraft)
    refuse_split_shards(plan, folder, schedule)
    write(os.path.join(folder, "stages.py"), stages_file(plan, graph, codes))
    counts_samples = batched(graph.recording, example_inputs, example, plan.microbatch)
    others, notes = data_like(names.data, plan.data["batch"]["global"], plan.microbatch, graph.recording, example, counts_samples)
    if others:
        refuse_other_ways(graph, others.inputs)
    whole = try_stages(folder, graph, example, others, names.loss)
    settings = settings_of(plan, graph, codes, names, schedule, seed, rate, whole, example, counts_samples)
    with open(os.path.join(os.path.dirname(__file__), "train_template.py")) as file:
        template = file.read()
    start, end = "# <settings>\n", "# </settings>\n"
    head, tail = template[:template.index(start)], template[template.index(end) + len(end):]
    write(os.path.join(folder, "train.py"), head + settings + tail)
    return notes


def with_plans_loss(names: Names, plan: Plan) -> Names:
    if not names.loss and not plan.loss:
        raise ModelError(f"{plan.path}: its profile has no loss; name the one to train with")
    return dataclasses.replace(names, loss=names.loss or plan.loss)


def refuse_split_shards(plan: Plan, folder: str, schedule: str) -> None:
    """fully_shard sums gradients by hooks of a whole backward."""
    if plan.sharding in ("none", "zero1"):
        return
    splits = schedule in ("ZBVZeroBubble", "InterleavedZeroBubble", "DualPipeV")
    if schedule.endswith(".csv"):
        with open(os.path.join(folder, schedule)) as file:
            splits = re.search(r"\d[IW]\d", file.read()) is not None
    if splits:
        raise ModelError(f"{plan.path}: {plan.schedule} splits backwards, and torch computes weight gradients by themselves past "
                         f"the hooks by which fully_shard sums those of each microbatch, as {plan.sharding} does; plan with "
                         "--sharding zero1, or with a schedule such as 1f1b or interleaved")


def refuse_mixed_shards(plan: Plan, graph: Graph, codes: list[StageCode]) -> None:
    """fully_shard gathers weights as elements of one type."""
    for number, code in enumerate(codes if plan.sharding != "none" else []):
        types: dict[torch.dtype, str] = {}
        for path in code.parameters:
            weight = attribute(graph.model, path)
            if weight.requires_grad:
                types.setdefault(weight.dtype, path)
        if len(types) > 1:
            (one, first), (other, second) = list(types.items())[:2]
            raise ModelError(f'stage {number} trains weights of several types ("{first}" of {one}, "{second}" of {other}), and '
                             "fully_shard wants one; plan with --sharding none")


def settings_of(plan: Plan, graph: Graph, codes: list[StageCode], names: Names, schedule: str, seed: int, rate: float,
                whole: list[bool], example: Any, counts_samples: dict[str, bool]) -> str:
    recompute = [stage.get("recompute", "none") == "full" for stage in plan.data["stages"]]
    rows = {"FACTORY": (names.factory, "makes the whole model"),
            "LOSS": (names.loss, "loss(what the model returns, target), a mean over samples"),
            "DATA": (names.data, "data(step, samples): the model's inputs, and the target"),
            "OPTIMIZER": (names.optimizer or plan.data.get("optimizer", {}).get("kind", "adamw"),
                          "adamw, sgd, or package:function of parameters"),
            "RATE": (rate, "learning rate of adamw and sgd"),
            "SEED": (seed, "of weights, and of dropout in each pass"),
            "BATCH": (plan.data["batch"]["global"], "samples of a step"),
            "MICROBATCH": (plan.microbatch, "samples of a pass"),
            "MICROBATCHES": (plan.microbatches, "of each pipeline in a step"),
            "SPLIT": (plan.is_split, "whether each replica has its part of each of the plan's microbatches"),
            "TURNS": (not plan.is_uniform, "whether replicas of each stage take turns, instead of whole pipelines"),
            "SCHEDULE": (schedule, "class of torch.distributed.pipelining, or a file with an order"),
            "RANKS": (plan.ranks, "of each stage, the process of each replica"),
            "RECOMPUTE": (recompute, "whether a stage's forward runs again before its backward"),
            "SHARDING": (plan.sharding, "of weights over replicas: none; zero1, of optimizer states; zero2, of gradients, too; "
                         "zero3, of weights, too"),
            "SHARED": (shared_weights(plan, graph), "weights of several stages, the owner's first: their gradients are summed"),
            "WHOLE": (whole, "whether a stage's backward is not split, since torch cannot: a weight is used twice "
                      "there, or no gradient leaves it"),
            "KEYWORDS": (list(example) if isinstance(example, dict) else None, "of the model's inputs, where they have any"),
            "BATCHED": (counts_samples, "whether an input's first dimension counts samples"),
            "PREDICTED": (plan.data.get("predicted", {}).get("step", ""), "of a step")}
    types = {"SHARED": "list[tuple[list[str], list[int]]]", "KEYWORDS": "list[str] | None", "BATCHED": "dict[str, bool]"}
    return "".join(f"{name}{': ' + types[name] if name in types else ''} = {value!r}  # {words}\n"
                   for name, (value, words) in rows.items())


def batched(recording: Recording, example_inputs: Any, example: Any, size: int) -> dict[str, bool]:
    """Of each input whether its first dimension counts samples. A mask may have as many rows as a microbatch has samples: where
    a function gives examples, those of twice as many tell."""
    tensors = inputs_of_model(recording.model, example)
    twice = tensors
    if callable(example_inputs) and not isinstance(example_inputs, torch.Tensor):
        with contextlib.suppress(ModelError):  # it may know one size only
            twice = inputs_of_model(recording.model, like(example, inputs_of(example_inputs, 2 * size)))
    is_told = len(twice) == len(tensors) and any(one.shape != other.shape for one, other in zip(tensors, twice))
    return {name: tensor.dim() > 0 and tensor.shape[0] == size and (not is_told or other.shape[:1] == (2 * size,))
            for name, tensor, other in zip(input_names_of(recording), tensors, twice if is_told else tensors)}


def write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


__all__ = ["Names", "export", "read_plan"]
