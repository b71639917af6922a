#!/usr/bin/env python3
"""Other packages' own ways to cut a model, by their own functions: DeepSpeed's methods, Galvatron's
even division, vLLM's indices; and what they make of our exports: DeepSpeed's configuration,
Hugging Face's device maps on models without weights.
"""

import ast
import json
import os
import random
import re
import sys

from common import each, fail, main, module_folder, ok, require, skip


def function_of(path, name, **scope):
    with open(path) as file:
        tree = ast.parse(file.read())
    found = [node for node in tree.body
             if isinstance(node, ast.FunctionDef) and node.name == name]
    require(len(found) == 1, f"{path} has no function {name}")
    found[0].decorator_list = []
    code = compile(ast.Module([*ast.parse("from __future__ import annotations").body, *found], []),
                   path, "exec")
    exec(code, scope)
    return scope[name]


def cuts_of(stagecraft, plan):
    with open(plan) as file:
        stages = json.load(file)["stages"]
    return [0] + [stage["layers"][1] for stage in stages]


def check_deepspeed(stagecraft):
    path = os.path.join(module_folder("deepspeed==0.19.8"), "deepspeed/runtime/utils.py")
    scope = {}
    uniform = function_of(path, "partition_uniform")
    balanced = function_of(path, "partition_balanced", partition_uniform=uniform, **scope)
    for model, stages in (("gpt2-124m", 4), ("gpt2-350m", 8), ("llama3-8b", 8)):
        question = [model, f"{stages}xh100", "--batch", 2 * stages, "--microbatch", 1,
                    "--schedule", "1f1b", "--straight", "--mem-limit", "100%"]
        layers = stagecraft.result("model", "show", model)["layers"]
        weights = [layer["parameters"] for layer in layers]
        tied = model.startswith("gpt2")
        if tied:  # a TiedLayerSpec is built, and counted, where it is used again
            hidden = {"gpt2-124m": 768, "gpt2-350m": 1024}[model]
            weights[-1] += 50257 * hidden
        for strategy, expected in (("deepspeed-uniform", uniform(len(layers), stages)),
                                   ("deepspeed-parameters", balanced(weights, stages))):
            plan = stagecraft.plan("deepspeed.plan.json", *question, "--strategy", strategy)
            ours = cuts_of(stagecraft, plan)
            require(ours == [int(cut) for cut in expected],
                    f"{strategy} {model}: ours is {ours}, DeepSpeed's {expected}")
    ok("DeepSpeed cuts as deepspeed-uniform and deepspeed-parameters do")
    flags = stagecraft.write("config.sh", "--pipeline-model-parallel-size 4 --micro-batch-size 1"
                             " --use-distributed-optimizer --bf16\n")
    plan = stagecraft.path("config.plan.json")
    stagecraft.run("import", "megatron", flags, "--model", "gpt2-350m", "--cluster", "8xh100",
                   "--batch", 32, "-o", plan)
    exported = json.loads(stagecraft.run("export", "deepspeed", plan))
    config = exported["ds_config"]
    replicas = exported["world_size"] // (len(exported["parts"]) - 1) // exported[
        "model_parallel_size"]
    require(config["train_batch_size"] == config["train_micro_batch_size_per_gpu"]
            * config["gradient_accumulation_steps"] * replicas, "batch sizes do not multiply up")
    sys.path.insert(0, module_folder("deepspeed==0.19.8"))
    try:
        from deepspeed.runtime.config import DeepSpeedConfig
    except ImportError as error:
        print(f"    DeepSpeedConfig cannot be imported here ({error})")
        return
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    config["train_batch_size"] //= replicas
    DeepSpeedConfig(config)
    for stage in (2, 3):  # without a pipeline
        plan = stagecraft.plan("whole.plan.json", "llama3-8b", "8xh100", "--batch", 64, "--for",
                               "deepspeed", "--sharding", f"zero{stage}", "--pp", 1)
        exported = json.loads(stagecraft.run("export", "deepspeed", plan))
        require("parts" not in exported, f"ZeRO-{stage} has parts, which PipelineModule refuses")
        config = exported["ds_config"]
        config["train_batch_size"] //= exported["world_size"] // exported["model_parallel_size"]
        read = DeepSpeedConfig(config)
        require(read.zero_config.stage == stage, f"ZeRO-{stage} became {read.zero_config.stage}")
    ok("DeepSpeedConfig takes our configurations, with ZeRO-1, 2 and 3")


def check_galvatron(stagecraft):
    folder = module_folder("hetu-galvatron==2.4.0")
    for path, _, names in os.walk(folder):
        for name in names:
            if not name.endswith(".py"):
                continue
            with open(os.path.join(path, name)) as file:
                if "def pp_division_even(" in file.read():
                    import numpy
                    even = function_of(os.path.join(path, name), "pp_division_even", np=numpy)
    for model, layers in (("llama3-8b", 32), ("gpt2-124m", 12), ("qwen2-7b", 28)):
        for stages in (2, 4, 8):
            question = [model, f"{stages}xh100", "--batch", stages, "--microbatch", 1,
                        "--schedule", "1f1b", "--straight", "--strategy", "galvatron"]
            ours = cuts_of(stagecraft, stagecraft.plan("galvatron.plan.json", *question))
            counts = [b - a for a, b in zip(ours, ours[1:])]
            counts[0] -= 1
            counts[-1] -= 1
            expected = [int(count) for count in even([layers], stages)]
            require(counts == expected, f"galvatron {model} on {stages}: ours is {counts}, "
                                        f"pp_division_even's {expected}")
    ok("Galvatron divides as the strategy galvatron does")


def check_vllm(stagecraft):
    folder = module_folder("vllm==0.33.0")

    class Environment:
        VLLM_PP_LAYER_PARTITION = None

    class Logger:
        def __getattr__(self, name):
            return lambda *words, **more: None

    indices = function_of(os.path.join(folder, "vllm/distributed/utils.py"), "get_pp_indices",
                          envs=Environment, logger=Logger())
    for model, layers, stages in (("llama3-8b", 32, 4), ("gpt2-350m", 24, 3), ("qwen2-7b", 28, 5)):
        plan = stagecraft.plan("vllm.plan.json", model, f"{stages}xh100", "--batch", 16,
                               "--microbatch", 1, "--for", "vllm", "--pp", stages, "--tp", 1)
        line = stagecraft.run("export", "vllm", plan)
        Environment.VLLM_PP_LAYER_PARTITION = re.search(r"PARTITION=([\d,]+)", line)[1]
        ours, first = [], 0
        for count in map(int, Environment.VLLM_PP_LAYER_PARTITION.split(",")):
            ours.append((first, first + count))
            first += count
        theirs = [indices(layers, rank, stages) for rank in range(stages)]
        require(theirs == ours, f"vLLM serves {theirs}, the plan has {ours}")
    ok("vLLM serves the layers that our line says")


def check_device_maps(stagecraft):
    """Of small models of all families that check_parameters.py draws."""
    try:
        import torch
        from accelerate.utils.modeling import check_device_map
        import check_parameters as drawn
    except ImportError as error:
        skip(f"device maps want transformers and accelerate ({error})")
    refused, taken = {}, []
    for family in drawn.FAMILIES:
        for number in range(2):
            draw = random.Random(f"{number} {family}")
            config = drawn.draw_config(family, draw, 2)
            model_class = drawn.usual_class(drawn.classes_of(family))
            config.architectures = [model_class.__name__]
            name = f"{family}.{number}"
            config.save_pretrained(stagecraft.path(name))
            answer = stagecraft.call("plan", f"{name}/config.json", "2xh100", "--batch", 4,
                                     "--microbatch", 1, "--schedule", "1f1b", "--straight",
                                     "--sequence", 32, "--tensor-parallel", 1, "-q", "-o", f"{name}.plan.json")
            if answer.returncode == 0:
                answer = stagecraft.call("export", "hf-device-map", f"{name}.plan.json")
            if answer.returncode != 0:
                require(answer.returncode in (2, 3, 4), f"{family}: {answer.stderr}")
                refused[family] = answer.stderr.strip()
                continue
            with torch.device("meta"):
                model = model_class(config)
            device_map = json.loads(answer.stdout)
            for module in device_map:
                try:
                    model.get_submodule(module)
                except AttributeError:
                    fail(f"{family} has no module {module}, which our device map names")
            try:
                check_device_map(model, device_map)
            except ValueError as error:
                fail(f"{family}: accelerate refuses our device map: {error}")
            if family not in taken:
                taken.append(family)
    for family, sentence in refused.items():
        print(f"    {family}: {sentence}")
    require({"gpt2", "llama"} <= set(taken), f"device maps of {taken} only")
    ok(f"accelerate takes device maps of {len(taken)} families; {len(refused)} are refused in a sentence")


def check(stagecraft):
    random.seed(1)
    each(stagecraft, check_deepspeed, check_galvatron, check_vllm, check_device_maps)


if __name__ == "__main__":
    main(check)
