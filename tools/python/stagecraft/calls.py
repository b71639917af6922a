"""Between the functions of verbs.py and the program: arguments to words, the JSON document to a result."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Mapping, Sequence, TypeVar, Union

from .errors import StagecraftError
from .program import PathLike, Progress, Temporary, call, option_words, temporary, value_text
from .results import ImportResult, Plan, PlanResult, ProfileResult, RankedPlan, ReportResult, Result, TextResult, result_of

#: A file, a name or an expression as on the command line, or an object that a function returned.
Input = Union[str, "os.PathLike[str]", Plan, RankedPlan, PlanResult, ProfileResult, TextResult]
Scalar = Union[str, int, float]
#: One value, or several: lists and ranges sweep where the option does.
Value = Union[str, int, float, "os.PathLike[str]", Sequence[Scalar], range, Mapping[str, Scalar]]
#: Of an option that may be given several times: {"tp": 2, "link0": "50%"}.
Values = Union[str, Sequence[str], Mapping[str, Union[Scalar, Sequence[Scalar], range]]]

#: Name, value, whether it is a flag, whether it may be given several times.
Option = tuple[str, Any, bool, bool]

AnyResult = TypeVar("AnyResult", bound=Result)


def input_word(given: Any, files: Temporary, memory: dict[str, str]) -> str:
    """An input as a word of the command line. What is in memory goes to a temporary file, and into `memory`."""
    if isinstance(given, ImportResult) and given.plan is not None:
        given = given.plan
    if isinstance(given, PlanResult):
        given = given.plan
    if isinstance(given, RankedPlan):
        given = given.plan
    if isinstance(given, Plan):
        return os.fspath(given.stored(files))
    if isinstance(given, (ProfileResult, TextResult)):
        path = os.fspath(files.file("input.json", given.text))
        memory[path] = given.text
        return path
    return value_text(given)


def without_folder(document: dict[str, Any], files: Temporary, memory: dict[str, str]) -> dict[str, Any]:
    """The document without names of temporary files: a plan names what must stand beside it."""
    if files.folder is None:
        return document
    text = json.dumps(document)
    for path, content in memory.items():
        text = text.replace(path, name_beside(content))
    shown: dict[str, Any] = json.loads(text.replace(f"{files.folder}/", ""))
    return shown


def name_beside(content: str) -> str:
    return f"stagecraft-{hashlib.sha256(content.encode()).hexdigest()[:12]}.json"


def run_verb(cls: type[AnyResult], verb: Sequence[str], inputs: Sequence[Any], options: Sequence[Option],
             progress: Progress, output: PathLike | None = None, writes: str = "") -> AnyResult:
    """Calls a verb. `writes` is the name of the file that -o takes, if the result is to hold what it writes."""
    memory: dict[str, str] = {}
    with temporary() as files:
        words = [*verb, *(input_word(each, files, memory) for each in inputs if each is not None)]
        for name, value, is_flag, is_repeated in options:
            if isinstance(value, (Plan, RankedPlan, PlanResult, ProfileResult, TextResult)):
                value = input_word(value, files, memory)
            words += option_words(name, value, is_flag, is_repeated)
        path = None if not writes else files.path(writes) if output is None else Path(output)
        if path is not None:
            words += ["-o", os.fspath(path)]
        try:
            document = call(words, progress)
        except StagecraftError as error:
            error.message = error.message.replace(f"{files.folder}/", "")
            if error.file is not None:
                error.file = error.file.replace(f"{files.folder}/", "")
            if error.result is not None:
                error.result = result_of(cls, {"command": verb[0], "result": error.result})  # type: ignore[assignment]
            raise
        result = result_of(cls, without_folder(document, files, memory))
        if isinstance(result, PlanResult):
            beside = {name_beside(content): content for content in memory.values()}
            for each in result.plans:
                object.__setattr__(each.plan, "beside", beside)
        return result if path is None or not path.is_file() else _with_file(result, path, files)


def _with_file(result: AnyResult, path: Path, files: Temporary) -> AnyResult:
    """The result with what the verb wrote."""
    text = files.without_folder(path.read_text(encoding="utf-8", errors="replace"))
    if isinstance(result, ReportResult):
        object.__setattr__(result, "html", text)
    elif isinstance(result, (ProfileResult, TextResult)):
        object.__setattr__(result, "text", text)
    return result
