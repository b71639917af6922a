"""Profiles PyTorch models, and writes plans for them as programs that train.

    profile = stagecraft.torch.profile(model, example_inputs, microbatches=[1, 2])
    profile.save("model.json")                      # stagecraft plan model.json 2xcpu --batch 8 -o plan.json
    stagecraft.torch.export("plan.json", model, example_inputs, "program", Names("my:factory", "my:loss", "my:data"))

As commands: python -m stagecraft.torch profile, python -m stagecraft.torch export.
"""

from .errors import ModelError
from .layers import Graph, Layer, trace
from .profiling import Profile, profile
from .program import Names, export

__all__ = ["Graph", "Layer", "ModelError", "Names", "Profile", "export", "profile", "trace"]
