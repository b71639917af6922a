"""What goes wrong, by the program's exit code, with the program's own sentence."""

from __future__ import annotations

from typing import Any, Mapping


class StagecraftError(Exception):
    """The program ended with an error; `str()` of it is the program's sentence and its remedies."""

    exit_code = 1

    def __init__(self, message: str, *, help: tuple[str, ...] = (), file: str | None = None, line: int | None = None,
                 column: int | None = None, command: str = "", result: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, help, file, line, column, command)
        self.message = message  #: one sentence, without the place
        self.help = help  #: what to do about it
        self.file = file  #: the file that is wrong, and where in it; None if it is no file
        self.line = line
        self.column = column
        self.command = command  #: the verb
        self.result = result  #: what there is of a result nevertheless

    def __str__(self) -> str:
        place = "" if self.file is None else f"{self.file}:{self.line}:{self.column}: " if self.line else f"{self.file}: "
        return place + self.message + "".join(f"\n  help: {line}" for line in self.help)


class ProgramBug(StagecraftError):
    """A bug of Stagecraft (exit code 1), or an answer that cannot be read."""


class UsageError(StagecraftError):
    """An argument that cannot be understood, or does not apply (exit code 2)."""

    exit_code = 2


class InputError(StagecraftError):
    """A file or value that is wrong (exit code 3)."""

    exit_code = 3


class InfeasibleError(StagecraftError):
    """A good question without an answer, such as a model that fits nowhere (exit code 4)."""

    exit_code = 4


class ExecutionError(StagecraftError):
    """Something failed while a plan was running (exit code 5)."""

    exit_code = 5


class CheckError(StagecraftError):
    """A check or verification found the result wrong (exit code 6); `result` has the findings."""

    exit_code = 6


class Interrupted(KeyboardInterrupt):
    """The program was interrupted; `result` is what it had found, such as the best plan so far, or None."""

    def __init__(self, result: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.result = result


class StagecraftWarning(UserWarning):
    """A warning of the program."""


BY_EXIT_CODE: Mapping[int, type[StagecraftError]] = {
    kind.exit_code: kind for kind in (ProgramBug, UsageError, InputError, InfeasibleError, ExecutionError, CheckError)}
