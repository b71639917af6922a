#!/usr/bin/env python3
"""Launch scripts for Megatron-LM, judged by megatron-core's own parser, `validate_args` and
configuration; which layers each stage builds, and the order of the interleaved schedule, by the
functions that its training calls. Overrides for Megatron-Bridge, by the members of its classes.
"""

import ast
import csv
import io
import json
import os
import shlex
import sys
import types
import typing

from common import each, fail, main, module_folder, ok, require, skip

CORE, BRIDGE = "megatron-core==0.19.2", "megatron-bridge==0.6.2"

# Plans that flags describe: a model, a cluster, flags.
PLANS = {
    "even": ("gpt2-350m", "4xh100", "--pipeline-model-parallel-size 4"),
    "tensor": ("gpt2-350m", "8xh100", "--pipeline-model-parallel-size 2"
               " --tensor-model-parallel-size 2 --sequence-parallel --bf16"),
    "first and last": ("gpt2-350m", "4xh100", "--pipeline-model-parallel-size 4"
                       " --decoder-first-pipeline-num-layers 5"
                       " --decoder-last-pipeline-num-layers 7"),
    "interleaved": ("gpt2-350m", "4xh100", "--pipeline-model-parallel-size 4"
                    " --num-virtual-stages-per-pipeline-rank 3"),
    "layout": ("gpt2-350m", "4xh100", "--pipeline-model-parallel-size 2"
               " --pipeline-model-parallel-layout Et*7|t*5|t*6|t*6L"),
    "accounted": ("gpt2-124m", "2xh100", "--pipeline-model-parallel-size 2"
                  " --account-for-embedding-in-pipeline-split"
                  " --account-for-loss-in-pipeline-split"),
    "zero1": ("gpt2-350m", "8xh100", "--pipeline-model-parallel-size 4"
              " --use-distributed-optimizer --fp16"),
    "zero2": ("llama3-8b", "8xh100", "--pipeline-model-parallel-size 2 --use-megatron-fsdp"
              " --data-parallel-sharding-strategy optim_grads --use-distributed-optimizer --bf16"),
    "zero3": ("llama3-8b", "16xh100", "--pipeline-model-parallel-size 2"
              " --tensor-model-parallel-size 2 --use-megatron-fsdp --use-distributed-optimizer"
              " --data-parallel-sharding-strategy optim_grads_params --bf16"),
    "buckets": ("gpt2-350m", "8xh100", "--pipeline-model-parallel-size 4 --overlap-grad-reduce"
                " --ddp-bucket-size 10000000"),
    "nodes": ("llama3-70b", "4x8xh100", "--pipeline-model-parallel-size 4"
              " --tensor-model-parallel-size 8 --sequence-parallel --bf16"
              " --recompute-granularity full --recompute-method uniform --recompute-num-layers 20"),
    "context": ("llama3-8b", "8xh100", "--pipeline-model-parallel-size 2"
                " --context-parallel-size 4 --bf16"),
    "selective": ("llama3-8b", "4xh100", "--pipeline-model-parallel-size 4 --bf16"
                  " --recompute-granularity selective"),
    "modules": ("deepseek-v2-lite", "8xh100", "--pipeline-model-parallel-size 1 --bf16"
                " --expert-model-parallel-size 8 --recompute-granularity selective"
                " --recompute-modules mla_up_proj layernorm moe_act"),
    "modules of dense layers": ("llama3-8b", "2xh100", "--pipeline-model-parallel-size 2 --bf16"
                                " --recompute-granularity selective --recompute-modules mlp"),
    "groups of experts": ("deepseek-v2", "16xh100", "--pipeline-model-parallel-size 4 --bf16"
                          " --expert-model-parallel-size 4"),
    "messages beside products": ("llama3-8b", "8xh100", "--pipeline-model-parallel-size 2 --bf16"
                                 " --tensor-model-parallel-size 4 --sequence-parallel"
                                 " --tp-comm-overlap"),
    "experts beside another": ("mixtral-8x7b", "16xh100", "--pipeline-model-parallel-size 2"
                               " --num-virtual-stages-per-pipeline-rank 2 --bf16"
                               " --expert-model-parallel-size 8"
                               " --overlap-moe-expert-parallel-comm"),
    "block": ("qwen2-7b", "4xh100", "--pipeline-model-parallel-size 4 --bf16"
              " --recompute-granularity full --recompute-method block --recompute-num-layers 2"),
    "experts": ("mixtral-8x7b", "16xh100", "--pipeline-model-parallel-size 2"
                " --expert-model-parallel-size 8 --bf16"),
    "experts in parts": ("mixtral-8x7b", "16xh100", "--pipeline-model-parallel-size 2"
                         " --tensor-model-parallel-size 2 --sequence-parallel --bf16"
                         " --expert-model-parallel-size 4 --expert-tensor-parallel-size 1"),
    "latent": ("deepseek-v2-lite", "8xh100", "--pipeline-model-parallel-size 1"
               " --expert-model-parallel-size 8 --bf16"),
    "prediction": ("deepseek-v3", "128xh100", "--pipeline-model-parallel-size 16"
                   " --decoder-last-pipeline-num-layers 1 --mtp-num-layers 1"
                   " --expert-model-parallel-size 8 --bf16 --use-distributed-optimizer"),
    "sent once": ("mixtral-8x7b", "16xh100", "--pipeline-model-parallel-size 2"
                  " --expert-model-parallel-size 8 --bf16 --moe-token-dispatcher-type flex"
                  " --cuda-graph-impl transformer_engine"),
    "sent once in racks": ("deepseek-v3", "128xgb200", "--pipeline-model-parallel-size 16"
                           " --decoder-last-pipeline-num-layers 1 --mtp-num-layers 1"
                           " --expert-model-parallel-size 8 --bf16 --use-distributed-optimizer"
                           " --moe-token-dispatcher-type flex"
                           " --moe-flex-dispatcher-backend hybridep --external-cuda-graph"),
    "graph of a step": ("llama3-8b", "2xh100", "--pipeline-model-parallel-size 2 --bf16"
                        " --cuda-graph-impl full_iteration"),
    "fp8": ("llama3-8b", "2xh100", "--pipeline-model-parallel-size 2 --bf16 --fp8-format hybrid"),
    "compiled loss": ("llama3-8b", "2xh100", "--pipeline-model-parallel-size 2 --bf16"
                      " --cross-entropy-loss-fusion"),
    # Of mixtures megatron-core asks for Transformer Engine first.
    "fp8 scaled now": ("llama3-8b", "2xh100", "--pipeline-model-parallel-size 2 --bf16"
                       " --fp8-format hybrid --fp8-recipe tensorwise"),
    "fp8 in blocks": ("llama3-8b", "2xh100", "--pipeline-model-parallel-size 2 --bf16"
                      " --fp8-format hybrid --fp8-recipe blockwise"),
    "mxfp8": ("llama3-8b", "2xgb200", "--pipeline-model-parallel-size 2 --bf16"
              " --fp8-format e4m3 --fp8-recipe mxfp8"),
}


# Questions whose answers for Megatron-LM are launched: a model, a cluster, a batch, other flags.
QUESTIONS = (
    ("llama3-70b", "8x8xh100", 256, ()),
    ("llama3-70b", "8x8xh100", 256, ("--sharding", "zero1")),
    ("llama3-8b", "8xh100", 64, ()),
    ("mixtral-8x7b", "4x8xh100", 128, ("--sharding", "zero3", "--pp", 1)),
    ("gpt2-1558m", "8xa100", 64, ("--sharding", "zero2", "--pp", 1)),
    ("qwen2-7b", "8xh100", 64, ("--sharding", "zero1", "--pp", 4)),
    ("nemotron4-340b", "16x8xh200", 128, ("--sharding", "zero1",)),
    ("gpt3-175b", "8x8xh100", 64, ("--sharding", "zero1",)),
    ("deepseek-v2-lite", "2x8xh100", 64, ("--sharding", "zero1",)),
)

# Models of transformers whose blocks differ in something that there are arguments for: members of
# their config.json, and members of megatron-core's configuration.
DIFFERENT = {
    "qwen3": ({"head_dim": 128}, {"qk_layernorm": True}),
    "mistral": ({"sliding_window": 1024}, {"window_size": (1023, 0)}),
    "gpt_oss": ({"head_dim": 64, "num_local_experts": 8, "num_experts_per_tok": 2},
                {"softmax_type": "learnable"}),
}


def plan_of(stagecraft, name):
    """The path of its plan."""
    model, cluster, flags = PLANS[name]
    stem = name.replace(" ", "-")
    line = stagecraft.write(f"{stem}.sh", f"pretrain_gpt.py {flags} --micro-batch-size 1\n")
    stagecraft.run("import", "megatron", line, "--model", model, "--cluster", cluster,
                   "--batch", 1920, "-o", f"{stem}.plan.json")
    return stagecraft.path(f"{stem}.plan.json")


def prepare(folder):
    """Makes megatron's modules importable without a GPU, as if it were one of compute capability 9."""
    if not hasattr(typing, "override"):
        typing.override = lambda function: function  # Python 3.11
    sys.path.insert(0, folder)
    try:
        import torch
    except ImportError as error:
        skip(f"{sys.executable} has no torch ({error})")
    import warnings
    warnings.simplefilter("ignore")
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0)
    import logging
    logging.disable(logging.INFO)
    import megatron.core.models.common.embeddings.rope_utils as rope
    import megatron.training.arguments as arguments
    # As where Transformer Engine is installed, without which rotary positions are not fused.
    for name in ("fused_apply_rotary_pos_emb", "fused_apply_rotary_pos_emb_thd"):
        if getattr(rope, name, None) is None:
            setattr(rope, name, object())
    return arguments


class Launch:
    """What the shell would do with a script: its environment, and the words behind the program."""

    def __init__(self, script):
        self.environment = dict(os.environ)
        self.environment.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
        lines = script.replace("\\\n", " ").splitlines()
        words = []
        for line in lines:
            found = shlex.split(line, comments=True)
            if found[:1] == ["export"]:
                name, value = found[1].split("=", 1)
                self.environment[name] = value
            elif found[:1] == ["unset"]:
                self.environment.pop(found[1], None)
            elif found:
                words = found
        require(words[:1] == ["torchrun"], f"the script runs {words[:1]}")
        program = words.index("pretrain_gpt.py")
        torchrun = dict(zip(words[1:program:2], words[2:program:2]))
        self.processes = int(torchrun["--nnodes"]) * int(torchrun["--nproc-per-node"])
        self.arguments = words[program + 1:]


def accepted(arguments, launch):
    """The arguments after validation, and the configuration made of them."""
    os.environ.clear()
    os.environ.update(launch.environment)
    os.environ.update(RANK="0", WORLD_SIZE=str(launch.processes), LOCAL_RANK="0")
    sys.argv = ["pretrain_gpt.py", *launch.arguments]
    output, sys.stdout = sys.stdout, io.StringIO()
    try:
        args = arguments.parse_args()
        arguments.validate_args(args)
        config = arguments.core_transformer_config_from_args(args)
    except (AssertionError, ValueError, RuntimeError, SystemExit) as error:
        sys.stdout = output
        fail(f"megatron-core refuses {' '.join(launch.arguments)}:\n{error!r}")
    finally:
        sys.stdout = output
    return args, config


def layers_of_stages(config, args):
    """Transformer layers of each stage, as each rank builds them."""
    from megatron.core import parallel_state
    from megatron.core.transformer.transformer_block import get_num_layers_to_build
    chunks = args.virtual_pipeline_model_parallel_size or 1
    ranks = args.pipeline_model_parallel_size
    parallel_state.set_pipeline_model_parallel_world_size(ranks)
    parallel_state.set_virtual_pipeline_model_parallel_world_size(chunks if chunks > 1 else None)
    counts = []
    for chunk in range(chunks):
        for rank in range(ranks):
            parallel_state.set_pipeline_model_parallel_rank(rank)
            counts.append(get_num_layers_to_build(
                config, vp_stage=chunk if chunks > 1 else None, pp_rank=rank))
    return counts


def expected_layers(stagecraft, plan, prediction):
    rows = csv.DictReader(io.StringIO(stagecraft.run("export", "csv", plan)))
    counts, layers = [], 0
    rows = list(rows)
    last = int(rows[-1]["end_layer"])
    for row in rows:
        first, end = int(row["first_layer"]), int(row["end_layer"])
        counts.append(max(min(end, last - 1 - prediction) - max(first, 1), 0))
    return counts


def check_facts(name, plan, config):
    """What layers are in the configuration is what the plan says of them."""
    with open(plan) as file:
        modules = json.load(file).get("recompute_modules")
    if modules:
        found = config.recompute_modules
        require(sorted(found) == sorted(modules.split("+")), f"{name}: {found} are done again")
    groups = {"deepseek-v2": (8, 3), "deepseek-v3": (8, 4)}.get(PLANS[name][0])
    found = config.moe_router_num_groups, config.moe_router_group_topk
    require(groups is None or found == groups, f"{name}: groups of experts are {found}")


def check_exports(stagecraft, arguments):
    for name in PLANS:
        plan = plan_of(stagecraft, name)
        script = stagecraft.run("export", "megatron", plan)
        launch = Launch(script)
        args, config = accepted(arguments, launch)
        layers = layers_of_stages(config, args)
        require(layers == expected_layers(stagecraft, plan, args.mtp_num_layers or 0),
                f"{name}: megatron-core builds {layers}, "
                f"the plan has {expected_layers(stagecraft, plan, args.mtp_num_layers or 0)}")
        check_facts(name, plan, config)
        ok(f"megatron-core accepts the plan {name} on {launch.processes} ranks, layers {layers}")


def check_answers(stagecraft, arguments):
    """What `plan --for megatron` finds is accepted with the plan's degrees and way to shard."""
    strategies = {"zero2": "optim_grads", "zero3": "optim_grads_params"}
    for model, cluster, batch, flags in QUESTIONS:
        path = stagecraft.plan("answer.json", model, cluster, "--batch", batch, "--for", "megatron",
                               *flags)
        with open(path) as file:
            plan = json.load(file)
        launch = Launch(stagecraft.run("export", "megatron", path))
        args, _ = accepted(arguments, launch)
        sharding = plan["optimizer"]["sharding"]
        require(args.use_megatron_fsdp == (sharding in strategies),
                f"{model}: {sharding}, but --use-megatron-fsdp is {args.use_megatron_fsdp}")
        if sharding in strategies:
            require(args.data_parallel_sharding_strategy == strategies[sharding],
                    f"{model}: {sharding} became {args.data_parallel_sharding_strategy}")
        replicas = len(plan["stages"][0]["devices"])
        require(args.data_parallel_size == replicas,
                f"{model}: {replicas} replicas became {args.data_parallel_size}")
        ok(f"megatron-core accepts the answer for {model} on {cluster}: {sharding}, "
           f"{replicas} replicas")


def check_models(stagecraft, arguments):
    """What of a model there are arguments for is in the configuration; what not is refused."""
    numbers = {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16,
               "num_key_value_heads": 8, "intermediate_size": 2816, "vocab_size": 32000,
               "max_position_embeddings": 4096, "rope_theta": 10000}
    for family, (members, expected) in DIFFERENT.items():
        stagecraft.write("config.json", json.dumps({"model_type": family, **numbers, **members}))
        path = stagecraft.plan("different.json", "config.json", "4xh100", "--batch", 32, "--for",
                               "megatron", "--pp", 2, "--sharding", "zero1")
        _, config = accepted(arguments, Launch(stagecraft.run("export", "megatron", path)))
        for member, value in expected.items():
            found = getattr(config, member)
            require(found == value, f"{family}: {member} is {found}, not {value}")
    for model in "bloom-176b",:
        answer = stagecraft.call("plan", model, "48x8xa100-80gb", "--batch", 2048, "--for",
                                 "megatron")
        require(answer.returncode == 2 and "ALiBi" in answer.stderr, f"{model} is not refused")
    ok(f"megatron-core configures {', '.join(DIFFERENT)} as they are")


def check_orders(stagecraft):
    """Microbatches and chunks of the interleaved schedule, rank by rank."""
    from megatron.core.pipeline_parallel.schedules import (get_pp_rank_microbatches,
                                                           get_schedule_table)
    for ranks, chunks, microbatches, group in ((4, 2, 8, 4), (4, 2, 10, 5), (2, 3, 6, 3),
                                               (4, 4, 16, 8)):
        shape = ["--stages", ranks, "--virtual", chunks, "--microbatches", microbatches,
                 "--group", group]
        rows = stagecraft.result("schedule", "show", "interleaved", *shape)["devices"]
        table = get_schedule_table(microbatches, chunks, group)
        for rank, row in enumerate(rows):
            forwards = [tuple(map(int, word[1:].split("."))) for word in row if word[0] == "F"]
            theirs = [(chunk * ranks + rank, microbatch) for microbatch, chunk in table]
            require(forwards == theirs, f"interleaved {shape}: rank {rank} goes forward by "
                                        f"{forwards}, megatron-core by {theirs}")
    ok("orders of the interleaved schedule are megatron-core's")


def class_members(folder):
    """Members of each configuration class of Megatron-Bridge and megatron-core, by class."""
    members, bases = {}, {}
    for root in (folder, module_folder(CORE)):
        for path, _, names in os.walk(root):
            for name in names:
                if not name.endswith(".py"):
                    continue
                with open(os.path.join(path, name)) as file:
                    tree = ast.parse(file.read())
                aliases = {alias.asname: alias.name for node in ast.walk(tree)
                           if isinstance(node, ast.ImportFrom)
                           for alias in node.names if alias.asname}
                for node in tree.body:
                    if not isinstance(node, ast.ClassDef):
                        continue
                    known = {field.target.id for field in node.body
                             if isinstance(field, ast.AnnAssign)
                             and isinstance(field.target, ast.Name)}
                    members.setdefault(node.name, set()).update(known)
                    bases.setdefault(node.name, set()).update(
                        aliases.get(base.id, base.id) for base in node.bases
                        if isinstance(base, ast.Name))

    def all_of(name, seen=()):
        result = set(members.get(name, ()))
        for base in bases.get(name, ()):
            if base != name and base not in seen:
                result |= all_of(base, (*seen, name))
        return result
    return all_of


def functions_in(folder):
    names = set()
    for path, _, files in os.walk(folder):
        for file in files:
            if file.endswith(".py"):
                with open(os.path.join(path, file)) as source:
                    names |= {node.name for node in ast.parse(source.read()).body
                              if isinstance(node, ast.FunctionDef)}
    return names


def check_bridge(stagecraft):
    bridge = module_folder(BRIDGE)
    all_of = class_members(bridge)
    classes = {"model": "GPTModelProvider", "train": "TrainingConfig",
               "optimizer": "OptimizerConfig", "ddp": "DistributedDataParallelConfig",
               "checkpoint": "CheckpointConfig", "dist": "DistributedInitConfig",
               "dataset": "GPTDatasetConfig"}
    container = all_of("ConfigContainer")
    recipes = functions_in(os.path.join(bridge, "megatron/bridge/recipes"))
    seen = set()
    for name in PLANS:
        text = stagecraft.run("export", "megatron-bridge", plan_of(stagecraft, name))
        words = shlex.split(text.replace("\\\n", " "), comments=True)
        runner = words.index("scripts/training/run_recipe.py")
        require(words[runner + 1] == "--recipe", f"{name}: {words[runner + 1]} follows the runner")
        recipe = words[runner + 2]
        require(recipe == "$RECIPE" or recipe in recipes, f"Megatron-Bridge has no {recipe}")
        require(words[runner + 3:runner + 7] == ["--mode", "pretrain", "--dataset", "mock"],
                f"{name}: the runner is not told what to do")
        for word in words[runner + 7:]:
            path, _ = word.split("=", 1)
            first, _, member = path.partition(".")
            require(first in container, f"Megatron-Bridge's configuration has no {first}")
            if member:
                require(member in all_of(classes[first]), f"{classes[first]} has no {member}")
            seen.add(path)
    ok(f"Megatron-Bridge knows all {len(seen)} members of overrides, and the recipes they follow")


def check_core(stagecraft):
    arguments = prepare(module_folder(CORE))
    check_exports(stagecraft, arguments)
    check_answers(stagecraft, arguments)
    check_models(stagecraft, arguments)
    check_orders(stagecraft)


def check(stagecraft):
    each(stagecraft, check_core, check_bridge)


if __name__ == "__main__":
    main(check)
