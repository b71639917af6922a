#!/usr/bin/env python3
"""torchtitan's configurations: names of modules and members as 0.3.0 has them, and a model that
`_split_module` cuts by our list keeps all that it has, its head too.
"""

import ast
import json
import os
import re
import sys

from common import main, module_folder, ok, require, skip

PLANS = {
    "llama": "llama3-8b 4xh100 --batch 16 --microbatch 1 --schedule 1f1b --straight --pp 4"
             " --precision bf16 --for torchtitan",
    "interleaved": "llama3-8b 4xh100 --batch 16 --microbatch 1 --schedule interleaved --straight"
                   " --pp 4 --for torchtitan",
    "zb-h1": "llama3-8b 4xh100 --batch 16 --microbatch 1 --schedule zb-h1 --straight --pp 4"
             " --sequence 4096 --recompute none",
}


def function_of(path, name):
    """A function of a module that cannot be imported without all that the package needs."""
    with open(path) as file:
        tree = ast.parse(file.read())
    found = [node for node in tree.body
             if isinstance(node, ast.FunctionDef) and node.name == name]
    require(len(found) == 1, f"{path} has no function {name}")
    return compile(ast.Module(found, []), path, "exec")


def members_of(path, name):
    with open(path) as file:
        tree = ast.parse(file.read())
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return {field.target.id for field in node.body if isinstance(field, ast.AnnAssign)}
    return set()


def parts_of(stagecraft, plan):
    """Of a plan what a framework does: its stages, in which order, of which batch."""
    with open(stagecraft.path(plan)) as file:
        whole = json.load(file)
    return [whole.get(name) for name in ("batch", "schedule", "parallelism", "stages")]


def flavors_of(folder, module):
    """What a module's `model_registry` takes, and what its config_registry has."""
    with open(os.path.join(folder, "models", module, "__init__.py")) as file:
        tree = ast.parse(file.read())
    flavors = {key.value for node in tree.body if isinstance(node, ast.Assign)
               and getattr(node.targets[0], "id", "").endswith("_configs")
               and isinstance(node.value, ast.Dict) for key in node.value.keys}
    with open(os.path.join(folder, "models", module, "config_registry.py")) as file:
        functions = {node.name for node in ast.parse(file.read()).body
                     if isinstance(node, ast.FunctionDef)}
    return flavors, functions


def check_models(stagecraft, folder):
    """The models that we plan for it are those that it has."""
    answer = stagecraft.call("plan", "mixtral-8x7b", "8xh200", "--batch", 64, "--for", "torchtitan")
    require(answer.returncode != 0, "a plan for a model that torchtitan has no configuration of")
    words = re.search(r"0\.3\.0 has (.*); plan", answer.stderr)
    require(words, f"no list of models: {answer.stderr}")
    count = 0
    for group in words[1].split(", "):
        module, *flavors = group.split()
        theirs, _ = flavors_of(folder, module)
        require(set(flavors) <= theirs, f"{module} has no {set(flavors) - theirs}")
        count += len(flavors)
    for model in "llama3.2-1b", "llama3.2-3b", "llama3-8b", "deepseek-v2-lite", "deepseek-v2":
        plan = stagecraft.plan("model.plan.json", model, "8x8xh200", "--batch", 128, "--for",
                               "torchtitan", "--mem-limit", "100%")
        stagecraft.run("export", "torchtitan", plan, "-o", "model")
        with open(stagecraft.path("model.py")) as file:
            line = next(line for line in file if line.startswith("MODULE, FLAVOR, FUNCTION"))
        module, flavor, function = ast.literal_eval(line.split(" = ")[1])
        flavors, functions = flavors_of(folder, module)
        require(flavor in flavors and function in functions,
                f"{model}: torchtitan has no {module} {flavor} {function}")
    ok(f"torchtitan has all {count} models that we plan for it")


def check(stagecraft):
    folder = os.path.join(module_folder("torchtitan==0.3.0"), "torchtitan")
    check_models(stagecraft, folder)
    try:
        import torch
        from torch import nn
    except ImportError as error:
        skip(f"{sys.executable} has no torch ({error})")
    import copy
    scope = {"copy": copy, "nn": nn, "ModuleDict": nn.ModuleDict, "ModuleList": nn.ModuleList}
    exec(function_of(os.path.join(folder, "distributed/pipeline_parallel.py"), "_split_module"),
         scope)
    configs = os.path.join(folder, "config/configs.py")
    parallelism = members_of(configs, "ParallelismConfig")
    training = members_of(configs, "TrainingConfig")

    class Llama(nn.Module):
        """With the names of torchtitan/models/common/decoder.py."""

        def __init__(self, blocks):
            super().__init__()
            self.tok_embeddings = nn.Embedding(8, 4)
            self.layers = nn.ModuleDict({str(i): nn.Linear(4, 4) for i in range(blocks)})
            self.norm = nn.LayerNorm(4)
            self.lm_head = nn.Linear(4, 8)

    with open(os.path.join(folder, "models/common/decoder.py")) as file:
        decoder = file.read()
    for name in "tok_embeddings", "layers", "norm", "lm_head":
        require(f"self.{name}" in decoder, f"torchtitan's decoder has no {name}")

    for name, question in PLANS.items():
        plan = stagecraft.plan(f"{name}.plan.json", *question.split())
        stagecraft.run("export", "torchtitan", plan, "-o", name)
        with open(stagecraft.path(f"{name}.py")) as file:
            tree = ast.parse(file.read())
        stages = next(ast.literal_eval(node.value) for node in tree.body
                      if isinstance(node, ast.Assign)
                      and getattr(node.targets[0], "id", "") == "STAGES")
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "ParallelismConfig":
                names = {keyword.arg for keyword in call.keywords}
                require(names <= parallelism, f"ParallelismConfig has no {names - parallelism}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and getattr(node.value, "attr", "") == "training":
                require(node.attr in training, f"TrainingConfig has no {node.attr}")
        model = Llama(32)
        kept = []
        for stage in stages:
            part = scope["_split_module"](model, stage)
            kept += [each for each, _ in part.named_parameters()]
        require(sorted(kept) == sorted(each for each, _ in model.named_parameters()),
                f"{name}: cut by our list the model has {len(kept)} parameters")
        last = scope["_split_module"](model, stages[-1])
        require(last.lm_head is not None, f"{name}: the last stage has no head")
        stagecraft.run("import", "torchtitan", f"{name}.py", "--model", "llama3-8b", "--cluster",
                       "4xh100", "-o", f"{name}.again.json")
        require(parts_of(stagecraft, f"{name}.again.json") == parts_of(stagecraft, plan),
                f"{name}: imported again it is another plan")
        has_order = os.path.exists(stagecraft.path(f"{name}.csv"))
        require(has_order == (name == "zb-h1"), f"{name}: order file {has_order}")
    # A list that says what the head was called before loses it without a word.
    dropped = scope["_split_module"](Llama(2), ["layers.1", "norm", "output"])
    require(dropped.lm_head is None, "torchtitan keeps a head that is called output again")
    del torch
    ok(f"torchtitan's _split_module keeps all modules of {len(PLANS)} plans")


if __name__ == "__main__":
    main(check)
