"""Profiles PyTorch models, and writes plans for them as programs that train.

    profile = stagecraft.torch.profile(model, example_inputs, microbatches=[1, 2])
    profile.save("model.json")                      # stagecraft plan model.json 2xcpu --batch 8 -o plan.json
    stagecraft.torch.export("plan.json", model, example_inputs, "program", Names("my:factory", "my:loss", "my:data"))

As commands: python -m stagecraft.torch profile, python -m stagecraft.torch export.
"""

import sys

try:
    import torch.distributed.pipelining as _  # noqa: F401
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "torch":
        raise
    words = f"stagecraft.torch needs PyTorch 2.12 or later with torch.distributed.pipelining ({error}): pip install torch"
    if sys.argv[:1] == ["-m"]:
        print(f"error: {words}", file=sys.stderr)
        sys.exit(3)
    raise ModuleNotFoundError(words, name=error.name) from None

from .errors import ModelError
from .layers import Graph, Layer, trace
from .profiling import Profile, profile
from .program import Names, export

__all__ = ["Graph", "Layer", "ModelError", "Names", "Profile", "export", "profile", "trace"]
