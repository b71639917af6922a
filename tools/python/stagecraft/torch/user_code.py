"""Functions of users' own modules, named as package:function."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from types import ModuleType
from typing import Any, Callable

from .errors import ModelError, UsageError


def module_of(package: str) -> ModuleType:
    """Imports it, from the working directory or the path."""
    sys.path[:0] = [] if os.getcwd() in sys.path else [os.getcwd()]
    try:
        return importlib.import_module(package)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == package.partition(".")[0]
        raise ModelError(f"cannot import {package}: " + (f"no {package}.py here ({os.getcwd()}), nor a package of that "
                                                         "name that is installed" if missing else str(error))) from None
    except Exception as error:
        raise ModelError(f"cannot import {package}: {last_line(error)}") from error


def named(words: str) -> tuple[ModuleType, Callable[..., Any]]:
    """The module and the function that package:function names."""
    package, colon, name = words.partition(":")
    if not colon or not package or not name or "/" in package or package.endswith(".py"):
        hint = f"; perhaps {os.path.basename(package).removesuffix('.py')}:{name or 'factory'}" \
            if "/" in package or package.endswith(".py") else ""
        raise UsageError(f'expected package:function, found "{words}"{hint}')
    module = module_of(package)
    if not hasattr(module, name):
        raise ModelError(f"{package} has no {name}; {functions_of(module, name)}")
    found = getattr(module, name)
    if not callable(found):
        raise ModelError(f"{words} is a {type(found).__name__}, expected a function")
    return module, found


def functions_of(module: ModuleType, name: str) -> str:
    """What there is instead: those most like the name, or the first."""
    own = [key for key, it in vars(module).items() if callable(it) and getattr(it, "__module__", None) == module.__name__]
    if not own:
        return "it has no functions"
    near = difflib.get_close_matches(name, own, 3) or own[:8]
    return f"it has {', '.join(near)}" + (", …" if len(near) < len(own) else "")


def last_line(error: BaseException) -> str:
    """An exception in one line, with the place in the user's code where it came from."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})" if trace is not None else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"


__all__ = ["last_line", "module_of", "named"]
