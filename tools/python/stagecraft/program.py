"""The program `stagecraft` as a child process: where it is, its words, its answer, its errors."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from typing import IO, Any, Callable, Iterable, Iterator, Mapping, Sequence, Union

from .errors import BY_EXIT_CODE, ExecutionError, Interrupted, ProgramBug, StagecraftWarning

PathLike = Union[str, "os.PathLike[str]"]
#: True: lines of progress go to standard error. False: nowhere. A function gets each line.
Progress = Union[bool, Callable[[str], None]]


def program() -> str:
    """The path of the program: $STAGECRAFT_PROGRAM, or the one in this package, or the one on the PATH."""
    chosen = os.environ.get("STAGECRAFT_PROGRAM")
    if chosen:
        return chosen
    bundled = Path(__file__).parent / "_program" / "bin" / "stagecraft"
    if bundled.exists():
        return str(bundled)
    found = program_on_path()
    if found is None:
        raise ExecutionError("there is no program stagecraft: it is not in this package, and not on the PATH",
                             help=("pip install a wheel that tools/package made, or put build/release on the PATH",))
    return found


def program_on_path() -> str | None:
    """Not the script of this package, which pip puts there under the same name and which starts what is found here."""
    for folder in os.get_exec_path():
        found = shutil.which("stagecraft", path=folder or os.curdir)
        if found is None:
            continue
        with contextlib.suppress(OSError), open(found, "rb") as file:
            if b"stagecraft.program" not in file.read(4096):
                return found
    return None


def value_text(value: Any) -> str:
    """A value as the command line spells it: lists with commas, ranges as FIRST..LAST:STEP."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, range):
        if len(value) == 0 or value.step < 1:
            raise ValueError(f"{value}: expected an ascending range that is not empty")
        return f"{value[0]}..{value[-1]}:{value.step}"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={value_text(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(value_text(item) for item in value)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def option_words(name: str, value: Any, is_flag: bool, is_repeated: bool) -> list[str]:
    """The words that give an option of the command line this value; none for None."""
    if value is None or (is_flag and not value):
        return []
    if is_flag:
        return [name]
    if not is_repeated:
        return [f"{name}={value_text(value)}"]
    items: Iterable[Any] = [value]
    if isinstance(value, Mapping):
        items = [f"{key}={value_text(item)}" for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = value
    return [f"{name}={value_text(item)}" for item in items]


class Temporary:
    """Files for one call of the program, which go when it ends."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._folder: Path | None = None
        self._count = 0

    @property
    def folder(self) -> Path | None:
        """Where they all are; None if there are none."""
        return self._folder

    def without_folder(self, text: str) -> str:
        """A text for people, which names a temporary file by its last part alone."""
        return text if self._folder is None else re.sub(re.escape(f"{self._folder}/") + r"[0-9]+/", "", text)

    def path(self, name: str) -> Path:
        if self._folder is None:
            self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="stagecraft-")))
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return folder / name

    def file(self, name: str, text: str) -> Path:
        path = self.path(name)
        path.write_text(text, encoding="utf-8")
        return path


@contextlib.contextmanager
def temporary() -> Iterator[Temporary]:
    with contextlib.ExitStack() as stack:
        yield Temporary(stack)


class _Reader(threading.Thread):
    """Reads the child's standard error: progress is passed on, warnings are kept."""

    def __init__(self, stream: IO[str], progress: Progress) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._progress = progress
        self.warnings: list[str] = []
        self.tail: collections.deque[str] = collections.deque(maxlen=20)

    def run(self) -> None:
        with self._stream:
            for line in self._stream:
                self._take(line.rstrip("\n"))

    def _take(self, line: str) -> None:
        self.tail.append(line)
        if line.startswith("warning: "):
            self.warnings.append(line[len("warning: "):])
        elif line and not line.startswith(("error: ", "  help: ", "note: ")):
            self._pass_on(line)

    def _pass_on(self, line: str) -> None:
        if callable(self._progress):
            self._progress(line)
        elif self._progress:
            print(line, file=sys.stderr, flush=True)


def _end(child: "subprocess.Popen[str]") -> str:
    """Interrupts the program as Ctrl-C would, and waits: it ends with what it has. At a second Ctrl-C it is killed."""
    try:
        child.send_signal(signal.SIGINT)
        return child.communicate()[0] if child.stdout is None or child.stdout.closed else child.stdout.read()
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        raise
    finally:
        child.wait()


def call(words: Sequence[str], progress: Progress = True) -> dict[str, Any]:
    """Runs a verb, and returns its JSON document. Raises what errors.py has for its exit code."""
    environment = dict(os.environ)
    if progress is False:
        environment["STAGECRAFT_PROGRESS"] = "never"
    # In a session of its own: Ctrl-C reaches this process alone, which hands it on once.
    try:
        child = subprocess.Popen([program(), *words, "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, encoding="utf-8", errors="replace", env=environment,
                                 start_new_session=True)
    except OSError as error:
        raise ExecutionError(f"{program()} cannot be started: {error.strerror}") from None
    assert child.stdout is not None and child.stderr is not None
    reader = _Reader(child.stderr, progress)
    reader.start()
    try:
        text = child.stdout.read()
        child.wait()
    except KeyboardInterrupt:
        text = _end(child)
        reader.join()
        raise Interrupted(_result_in(text)) from None
    except BaseException:
        _end(child)
        raise
    finally:
        child.stdout.close()
    reader.join()
    for warning in reader.warnings:
        warnings.warn(warning, StagecraftWarning, stacklevel=4)
    return _document(words[0], child.returncode, text, reader.tail)


def _result_in(text: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] | None = json.loads(text).get("result")
        return found
    except ValueError:
        return None


def _document(verb: str, exit_code: int, text: str, tail: Iterable[str]) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(text)
    except ValueError:
        last = " ".join(tail) or f"it printed no JSON document, and ended with {exit_code}"
        raise BY_EXIT_CODE.get(exit_code, ProgramBug)(f"stagecraft {verb}: {last}", command=verb) from None
    if exit_code in (130, 143):
        raise Interrupted(document.get("result"))
    if exit_code == 0:
        return document
    error = document.get("error") or {"message": _reason(document.get("result") or {}, exit_code)}
    raise BY_EXIT_CODE.get(exit_code, ProgramBug)(
        error["message"], help=tuple(error.get("help", ())), file=error.get("file"), line=error.get("line"),
        column=error.get("column"), command=verb, result=document.get("result"))


def _reason(result: Mapping[str, Any], exit_code: int) -> str:
    """Why a check says no, where the document has findings and no error."""
    for key in ("findings", "reasons"):
        findings = result.get(key)
        if findings:
            return "; ".join(each["message"] if isinstance(each, dict) else str(each) for each in findings)
    return f"the program ended with {exit_code}"


def main() -> None:
    """The command `stagecraft`: becomes the program."""
    path = program()
    try:
        os.execv(path, ["stagecraft", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"error: {path} cannot be started: {error.strerror}; this package is for "
                 "Linux on x86-64 with a C library as new as the wheel's name says")
