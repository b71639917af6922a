"""Plans, simulates and runs pipeline-parallel training: the program `stagecraft` as functions.

    import stagecraft
    found = stagecraft.plan("llama3-8b", "2x8xh100", batch=256)
    print(found.best.step_ns, found.best.parallelism)
    stagecraft.simulate(found, set={"link0": ["100%", "50%", "25%"]})     # what if
    stagecraft.advise(found).edits[0].flags
    found.save("plan.json")
    found                                                                 # a notebook shows its page

A function has the name of the verb, and the verb's options as keywords (`--for` is `for_`). Results are frozen
dataclasses (results.py); errors are exceptions by exit code (errors.py). `stagecraft.torch`, which needs PyTorch,
profiles a model of your own and writes a plan as a program.
"""

from . import errors, results
from .errors import (CheckError, ExecutionError, InfeasibleError, InputError, Interrupted, ProgramBug, StagecraftError,
                     StagecraftWarning, UsageError)
from .program import program
from .results import *
from .results import __all__ as _results
from .verbs import *
from .verbs import __all__ as _verbs
from .version import __version__

__all__ = ["CheckError", "ExecutionError", "InfeasibleError", "InputError", "Interrupted", "ProgramBug",
           "StagecraftError", "StagecraftWarning", "UsageError", "__version__", "errors", "program", "results",
           *_results, *_verbs]
