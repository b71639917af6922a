"""What the functions return: the JSON results of the program as frozen dataclasses.

Field names end in their unit: _ns are nanoseconds, _bytes bytes. A bubble is 1 - mean busy time / step. Lists "per
device" are in the order of devices. Members that a newer program adds are kept in `extra`; `raw` is the whole result.
"""

from __future__ import annotations

import dataclasses
import html
import json
import os
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, TypeVar

from .program import PathLike, Temporary, call, temporary

Made = TypeVar("Made")


# --- From JSON

_known_hints: dict[type, dict[str, Any]] = {}


def _hints(cls: type) -> dict[str, Any]:
    if cls not in _known_hints:
        _known_hints[cls] = typing.get_type_hints(cls)
    return _known_hints[cls]


def _value(hint: Any, value: Any) -> Any:
    """A JSON value as the field's type; what does not fit stays as it is."""
    if value is None:
        return None
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in typing.get_args(hint) if option is not type(None)]
        return _value(options[0], value) if len(options) == 1 else value
    if origin is tuple and isinstance(value, list):
        inner = typing.get_args(hint)[0]
        return tuple(_value(inner, item) for item in value)
    if hint is Plan and isinstance(value, dict):
        return Plan(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        return made(hint, value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def made(cls: type[Made], data: Mapping[str, Any], **more: Any) -> Made:
    """A dataclass out of a JSON object: members without a field of their own are in `extra`."""
    hints = _hints(cls)
    known = {each.name for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values = {name: _value(hints[name], value) for name, value in data.items() if name in known - {"extra"}}
    if "extra" in known:
        more["extra"] = types.MappingProxyType({name: value for name, value in data.items() if name not in known})
    return cls(**values, **more)


# --- As tables

def quantity(name: str, value: Any) -> str:
    """A figure as people read it, by the unit that its name ends in."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)) and name.endswith("_ns"):
        for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
            if abs(value) >= size:
                return f"{value / size:.4g} {unit}"
        return f"{value} ns"
    if isinstance(value, (int, float)) and name.endswith("_bytes"):
        for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
            if abs(value) >= size:
                return f"{value / size:.4g} {unit}"
        return f"{value} B"
    if isinstance(value, (list, tuple)):
        numbers = [item for item in value if isinstance(item, (int, float)) and not isinstance(item, bool)]
        if numbers and len(numbers) == len(value) and (len(numbers) > 4 or name.endswith(("_ns", "_bytes"))):
            least, most = quantity(name, min(numbers)), quantity(name, max(numbers))
            return least if least == most else f"{least} … {most}"
        return ", ".join(quantity(name, item) for item in value)
    if isinstance(value, float):
        if name in ("bubble", "span_bubble", "gap", "mfu", "hfu", "error", "faster_by", "slower_by"):
            return f"{100 * value:.1f} %"
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items())
    return str(value)


def heading(name: str) -> str:
    for end in ("_ns", "_bytes"):
        name = name.removesuffix(end)
    return name.replace("_", " ").strip()


def table(rows: typing.Sequence[Mapping[str, Any]], most: int = 60) -> str:
    """Rows as an HTML table: a column for each name."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(heading(name))}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(quantity(name, row.get(name)))}</td>" for name in names) + "</tr>"
                   for row in rows[:most])
    rest = f"<p>… and {len(rows) - most} more</p>" if len(rows) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _facts(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that fit into a cell."""
    facts = {}
    for each in dataclasses.fields(value):
        found = getattr(value, each.name)
        is_simple = isinstance(found, (int, float, str)) or (
            isinstance(found, tuple) and found and all(isinstance(item, (int, float, str)) for item in found))
        if is_simple and found != "":
            facts[each.name] = found
    return facts


class Shown:
    """A dataclass that notebooks show as a small table."""

    def _repr_html_(self) -> str:
        facts = _facts(self)
        rows = "".join(f"<tr><th>{html.escape(heading(name))}</th><td>{html.escape(quantity(name, value))}</td></tr>"
                       for name, value in facts.items() if name not in ("version", "command", "notes"))
        return f"<table>{rows}</table>"


def page_frame(page: str, height: int = 900) -> str:
    """A page of `stagecraft report` for a cell of a notebook."""
    return (f'<iframe srcdoc="{html.escape(page, quote=True)}" title="Stagecraft report" width="100%" '
            f'height="{height}" style="border:0" sandbox="allow-scripts"></iframe>')


@dataclass(frozen=True)
class InputFile:
    """A file or name that the program read, and the hash of its contents."""
    path: str
    xxh3: str
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class Result(Shown):
    """What every result has. `result["name"]` is a member of the JSON result, with or without a field here."""
    version: str = ""  #: of the program
    command: str = ""  #: the verb
    inputs: tuple[InputFile, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()  #: remarks for people
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __getitem__(self, name: str) -> Any:
        return self.raw[name]

    def __contains__(self, name: str) -> bool:
        return name in self.raw


AnyResult = TypeVar("AnyResult", bound=Result)


def result_of(cls: type[AnyResult], document: Mapping[str, Any]) -> AnyResult:
    data = document.get("result") or {}
    inputs = tuple(made(InputFile, each) for each in document.get("inputs", ()))
    return made(cls, data, version=document.get("version", ""), command=document.get("command", ""), inputs=inputs,
                notes=tuple(document.get("notes", ())), raw=types.MappingProxyType(data))


# --- Plans

@dataclass(frozen=True, eq=False)
class Plan:
    """A plan, to be passed to other functions, saved, or shown: in a notebook as its page.

    `data` is the file's JSON (`stagecraft schema plan` describes it). `path` is where it is stored, if it is. `beside`
    are files that must stand beside it, by name: the profile that it was made from, if that is in memory."""
    data: Mapping[str, Any]
    path: Path | None = None
    beside: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, path: PathLike) -> Plan:
        """Reads a plan file."""
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file), Path(path))

    def save(self, path: PathLike) -> Plan:
        """Writes it, with what must stand beside it, and returns the plan that is stored there."""
        Path(path).write_text(self.text(), encoding="utf-8")
        for name, text in self.beside.items():
            Path(path).with_name(name).write_text(text, encoding="utf-8")
        return Plan(self.data, Path(path))

    def stored(self, files: Temporary) -> Path:
        """Where it is stored, if it still is; else a temporary file."""
        if self.path is not None and self.path.exists():
            return self.path
        path = files.path("plan.json")
        self.save(path)
        return path

    def text(self) -> str:
        return json.dumps(self.data, indent=2, ensure_ascii=False) + "\n"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.text())

    @property
    def model(self) -> str:
        return str(self.data["model"])

    @property
    def cluster(self) -> str:
        return str(self.data["cluster"])

    @property
    def schedule(self) -> str:
        return str(self.data.get("schedule", {}).get("name", "1f1b"))

    @property
    def microbatches(self) -> int:
        return int(self.data["batch"]["microbatches"])

    @property
    def stages(self) -> tuple[Mapping[str, Any], ...]:
        """Each with "layers" [first, end), "devices" (a list for each replica) and "recompute"."""
        return tuple(self.data["stages"])

    def page(self) -> str:
        """The page of `stagecraft report` as HTML text."""
        with temporary() as files:
            page = files.path("page.html")
            call(["report", os.fspath(self.stored(files)), "-o", os.fspath(page)], False)
            return files.without_folder(page.read_text(encoding="utf-8"))

    def __repr__(self) -> str:
        return (f"Plan({self.model} on {self.cluster}: {len(self.stages)} stages, {self.schedule}, "
                f"{self.microbatches} microbatches)")

    def _repr_html_(self) -> str:
        return page_frame(self.page())


@dataclass(frozen=True)
class Parallelism:
    """Degrees: tensor, pipeline, virtual stages per device, replicas, context, expert."""
    tp: int = 1
    pp: int = 1
    vpp: int = 1
    dp: int = 1
    cp: int = 1
    ep: int = 1
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Objective:
    name: str
    value: float
    unit: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Risk:
    """Percentiles of the step under usual deviations of costs."""
    level: str = ""
    step_p10_ns: int | None = None
    step_p50_ns: int | None = None
    step_p90_ns: int | None = None
    step_at_level_ns: int | None = None
    samples_per_second_p10: float | None = None
    samples_per_second_p90: float | None = None
    peak_memory_bytes: tuple[int, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class RankedPlan(Shown):
    """A plan with its prediction."""
    plan: Plan
    step_ns: int = 0
    samples_per_second: float = 0.0
    tokens_per_second: float | None = None
    tokens_per_second_per_device: float | None = None
    tflops_per_second_per_device: float | None = None
    mfu: float | None = None  #: model FLOP/s over the devices' peak
    hfu: float | None = None  #: the same with what is computed again
    bubble: float = 0.0
    parallelism: Parallelism | None = None
    peak_memory_bytes: tuple[int, ...] = ()  #: per device
    memory_limit_bytes: tuple[int | None, ...] = ()  #: usable, per device; None: unlimited
    fits: bool = False
    uses_devices: int = 0
    objective: Objective | None = None
    lower_bound: float | None = None  #: in the objective's unit
    gap: float | None = None
    proved_optimal: bool | None = None
    runs_in: tuple[str, ...] = ()  #: frameworks that can carry it out
    risk: Risk | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def _repr_html_(self) -> str:
        return self.plan._repr_html_()


@dataclass(frozen=True)
class Alternative:
    """A usual choice, scored by the same evaluator."""
    name: str
    step_ns: int | None = None
    fits: bool | None = None
    slower_by: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Limit:
    """What limits a plan, and what more of it would bring."""
    what: str
    where: str = ""
    shadow_price: str = ""
    saved_ns: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Search:
    strategy: str = ""
    candidates: int = 0
    pruned: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class PlansOfFramework:
    """The best plan that a framework runs."""
    name: str
    version: str = ""
    step_ns: int | None = None
    slower_by: float | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class PlanResult(Result):
    """Plans, best first; a notebook shows the page of the best."""
    plans: tuple[RankedPlan, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    binding: tuple[Limit, ...] = ()
    targets: tuple[PlansOfFramework, ...] = ()
    search: Search | None = None

    @property
    def best(self) -> RankedPlan:
        return self.plans[0]

    @property
    def plan(self) -> Plan:
        """The best plan."""
        return self.best.plan

    def save(self, path: PathLike) -> Plan:
        """Writes the best plan."""
        return self.plan.save(path)

    def _repr_html_(self) -> str:
        return self.plan._repr_html_()


# --- Timelines

@dataclass(frozen=True)
class Memory:
    """Memory in use at a device's peak, by kind."""
    time_ns: int = 0
    parameters_bytes: int = 0
    gradients_bytes: int = 0
    optimizer_bytes: int = 0
    weight_versions_bytes: int = 0
    activations_bytes: int = 0
    transfer_bytes: int = 0
    workspace_bytes: int = 0
    reserve_bytes: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class CriticalRun:
    """Consecutive instructions of one kind on the critical path."""
    device: int = 0
    op: str = ""
    stage: int = 0
    count: int = 0
    time_ns: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Point(Shown):
    """One row of a sweep."""
    step_ns: int = 0
    samples_per_second: float | None = None
    bubble: float | None = None
    fits: bool | None = None
    changes: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class SimulateResult(Result):
    """A predicted timeline, or with a list or a range a sweep of them in `points`."""
    step_ns: int = 0  #: first start to last end on any device; 0 for a sweep
    span_ns: tuple[int, ...] = ()  #: per device
    busy_ns: tuple[int, ...] = ()  #: per device
    bubble: float = 0.0
    span_bubble: float = 0.0  #: 1 - busy / span of the device with the longest span
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    peak_in_flight: tuple[int, ...] = ()  #: stage activations held, per device
    peak_memory_bytes: tuple[int, ...] = ()  #: per device
    memory: tuple[Memory, ...] = ()  #: per device, at its peak
    fits: bool | None = None
    steady_step_ns: float | None = None  #: with several iterations, of each further one
    critical_path: tuple[CriticalRun, ...] = field(default=(), repr=False)
    attribution: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)  #: per device; sums to the step
    risk: Risk | None = None
    points: tuple[Point, ...] = ()

    def _repr_html_(self) -> str:
        if not self.points:
            return super()._repr_html_()
        return table([{**point.changes, **{name: value for name, value in point.extra.items()
                                           if isinstance(value, (int, float, str))},
                       "step_ns": point.step_ns, "bubble": point.bubble, "fits": point.fits} for point in self.points])


@dataclass(frozen=True, kw_only=True)
class ExplainResult(SimulateResult):
    """What limits the step: the critical path, the time of each device, and the effect of each cost.

    More members are in `extra`, as `stagecraft explain --json` prints them."""


@dataclass(frozen=True)
class Finding:
    rule: str = ""
    message: str = ""
    device: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class CheckResult(Result):
    """What was proved. A plan or schedule that is not safe raises CheckError."""
    safe: bool | None = None
    proved: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    certificate: Mapping[str, Any] | None = None
    runs: bool | None = None  #: with for_: whether the framework runs it
    reasons: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return table([{"proved": line} for line in self.proved]) + super()._repr_html_()


@dataclass(frozen=True)
class ComparedRow:
    """A plan, or a schedule, beside others."""
    plan: str = ""
    microbatches: int | None = None
    step_ns: int = 0
    samples_per_second: float | None = None
    bubble: float | None = None
    peak_memory_bytes: tuple[int, ...] = ()
    fits: bool | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class ComparedTimes:
    """What was predicted for a stage, a kind of instruction or a link, and what was measured."""
    predicted_ns: int = 0
    measured_ns: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class CompareResult(Result):
    """Predicted against measured, or with plans or schedules a row for each."""
    predicted_ns: int | None = None
    measured_ns: int | None = None
    error: float | None = None  #: predicted over measured, less 1
    stages: tuple[ComparedTimes, ...] = field(default=(), repr=False)
    kinds: tuple[ComparedTimes, ...] = field(default=(), repr=False)
    links: tuple[ComparedTimes, ...] = field(default=(), repr=False)
    first_departure: Mapping[str, Any] | None = None
    busy: Any = None  #: what of the machine spoiled the measurement
    rows: tuple[ComparedRow, ...] = ()

    def _repr_html_(self) -> str:
        return table([_facts(row) for row in self.rows]) if self.rows else super()._repr_html_()


@dataclass(frozen=True)
class Edit:
    """A change of a plan, in the words of its framework."""
    changes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    step_ns: int | None = None
    faster_by: float | None = None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    peak_memory_bytes: tuple[int, ...] = ()
    memory_limit_bytes: tuple[int | None, ...] = ()
    fits: bool | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class AdviseResult(Result):
    """Edits and pairs of edits that help, best first."""
    target: str | None = None
    now: Edit | None = None
    edits: tuple[Edit, ...] = ()
    tried: int = 0

    def _repr_html_(self) -> str:
        return table([{"change": ", ".join(edit.flags), "step_ns": edit.step_ns, "faster_by": edit.faster_by,
                       "peak_memory_bytes": edit.peak_memory_bytes, "fits": edit.fits} for edit in self.edits])


@dataclass(frozen=True, kw_only=True)
class ReportResult(Result):
    """A page that opens offline and simulates in the browser; a notebook shows it."""
    step_ns: int = 0
    page_bytes: int = 0
    programs: int = 0  #: schedules that the page can simulate
    alternatives: int = 0
    html: str = field(default="", repr=False)

    def save(self, path: PathLike) -> None:
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return page_frame(self.html)


@dataclass(frozen=True, kw_only=True)
class RunResult(Result):
    """A training run."""
    losses: tuple[float, ...] = ()
    step_ns: int = 0  #: median
    steps_ns: tuple[int, ...] = field(default=(), repr=False)
    predicted_ns: int | None = None
    verified: str | None = None  #: "bitwise" or "tolerance"
    peak_memory_bytes: tuple[int, ...] = ()
    simulated_peak_memory_bytes: tuple[int, ...] = ()
    restarts: int = 0
    parameters_xxh3: str | None = None
    machine: Mapping[str, Any] | None = None  #: load, and how often ranks were descheduled


# --- Models, clusters, schedules, profiles

@dataclass(frozen=True)
class LayerFacts:
    name: str
    kind: str = ""
    parameters: int = 0
    flops_forward: float = 0.0  #: of one sample; a multiply-add is two
    output_bytes: int = 0  #: of one sample
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class ModelResult(Result):
    name: str = ""
    parameters: int = 0
    sequence: int | None = None  #: tokens per sample
    layers: tuple[LayerFacts, ...] = field(default=(), repr=False)

    def _repr_html_(self) -> str:
        return table([_facts(layer) for layer in self.layers])


@dataclass(frozen=True)
class NamedModel:
    name: str
    layers: int = 0
    parameters: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class ModelsResult(Result):
    models: tuple[NamedModel, ...] = ()

    def _repr_html_(self) -> str:
        return table([_facts(each) for each in self.models])


@dataclass(frozen=True)
class ScheduleKind:
    name: str
    aliases: tuple[str, ...] = ()
    constraints: str = ""
    splits_backward: bool = False
    placement: str = ""
    synchronous: bool = True
    weight_versions: Any = 1
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class SchedulesResult(Result):
    schedules: tuple[ScheduleKind, ...] = ()

    def _repr_html_(self) -> str:
        return table([_facts(each) for each in self.schedules])


@dataclass(frozen=True)
class DeviceKind:
    name: str
    memory_bytes: int | None = None
    usable_memory_bytes: int | None = None
    flops_fp32: float = 0.0
    flops_bf16: float = 0.0
    memory_bandwidth_bytes_per_second: int | None = None
    source: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, kw_only=True)
class ClustersResult(Result):
    devices: tuple[DeviceKind, ...] = ()
    clusters: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        return table([_facts(each) for each in self.devices])


@dataclass(frozen=True, kw_only=True)
class ProfileResult(Result):
    """A measured profile, to be passed to plan() as a model: `text` is its file."""
    text: str = field(default="", repr=False)

    @property
    def data(self) -> Mapping[str, Any]:
        """The file's JSON (`stagecraft schema profile` describes it)."""
        return _object(self.text)

    def save(self, path: PathLike) -> Path:
        Path(path).write_text(self.text, encoding="utf-8")
        return Path(path)


@dataclass(frozen=True, kw_only=True)
class TextResult(Result):
    """What a verb writes to a file: `text` is its content."""
    text: str = field(default="", repr=False)

    def save(self, path: PathLike) -> Path:
        Path(path).write_text(self.text, encoding="utf-8")
        return Path(path)


@dataclass(frozen=True, kw_only=True)
class ImportResult(TextResult):
    """What another system's file became: `text` is its file, `data` its JSON, `plan` the plan if it is one."""

    @property
    def data(self) -> Mapping[str, Any]:
        return _object(self.text)

    @property
    def plan(self) -> Plan | None:
        data = self.data
        return Plan(data) if data.get("format") == "stagecraft-plan/1" else None


def _object(text: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


__all__ = [name for name, value in list(globals().items())
           if isinstance(value, type) and value.__module__ == __name__ and not name.startswith("_")]
