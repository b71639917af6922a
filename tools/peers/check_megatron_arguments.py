#!/usr/bin/env python3
"""Random launch lines of Megatron-LM, judged by megatron-core: what its parser, `validate_args` and
configuration refuse, `stagecraft import megatron` refuses, too; and of what both take, each stage
has the transformer layers that megatron-core builds there.

    tools/peers/check_megatron_arguments.py STAGECRAFT [LINES [SEED]]

Runs in any environment that has torch, with megatron-core unpacked in $STAGECRAFT_PEERS/modules.
Ends with 0, with 1 and the lines that differ, or with 77 and the reason where a package is missing.
"""

import contextlib
import io
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
import types
import typing
import warnings

CORE = "megatron-core==0.19.2"
FOLDER = os.environ.get("STAGECRAFT_PEERS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "stagecraft", "peers")

# What the parser wants beside the flags that plans are about.
COMMON = ("--hidden-size 64 --num-attention-heads 8 --max-position-embeddings 64 --seq-length 64 "
          "--train-iters 10 --lr 1e-4 --mock-data --tokenizer-type NullTokenizer --vocab-size 255 "
          "--no-gradient-accumulation-fusion --no-persist-layer-norm "
          "--distributed-timeout-minutes 1").split()


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def megatron():
    """Its module of arguments, importable without a GPU, as if there were one of capability 9."""
    folder = os.path.join(FOLDER, "modules", CORE)
    if not os.path.isdir(folder):
        skip(f"{CORE} is not in {FOLDER}/modules")
    if not hasattr(typing, "override"):
        typing.override = lambda function: function  # Python 3.11
    sys.path.insert(0, folder)
    warnings.simplefilter("ignore")
    try:
        import torch
    except ImportError as error:
        skip(f"{sys.executable} has no torch ({error})")
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(major=9, minor=0)
    import megatron.training.arguments as arguments
    return arguments


def layout_of(rng, layers, stages):
    cuts = sorted(rng.randint(0, layers) for _ in range(stages - 1))
    counts = [b - a for a, b in zip([0] + cuts, cuts + [layers])]
    rows = ["t" * count for count in counts]
    if rng.random() < 0.1:
        rows[rng.randrange(stages)] += "t"  # one too many
    return "|".join(["E" + rows[0], *rows[1:-1], rows[-1] + "L"] if stages > 1
                    else ["E" + rows[0] + "L"])


def random_line(rng):
    """Layers, ranks and flags."""
    pipeline = rng.choice((1, 2, 2, 4, 4, 8))
    tensor = rng.choice((1, 1, 1, 2, 4))
    context = rng.choice((1, 1, 1, 2))
    layers = rng.choice((*[pipeline * rng.randint(1, 6)] * 3, rng.randint(1, 24)))
    flags = ["--num-layers", layers, "--pipeline-model-parallel-size", pipeline]
    if tensor > 1:
        flags += ["--tensor-model-parallel-size", tensor]
    if context > 1:
        flags += ["--context-parallel-size", context]
    kind = rng.choice(("even", "even", "virtual", "chunks", "ends", "ends", "counted", "layout"))
    if kind in ("virtual", "ends", "counted") and rng.random() < (0.3 if kind != "virtual" else 1):
        flags += ["--num-virtual-stages-per-pipeline-rank", rng.choice((2, 2, 3))]
    if kind == "chunks":
        flags += ["--num-layers-per-virtual-pipeline-stage", rng.choice((1, 1, 2, 3))]
    if kind == "ends":
        if rng.random() < 0.7:
            flags += ["--decoder-first-pipeline-num-layers", rng.randint(1, 6)]
        if rng.random() < 0.7:
            flags += ["--decoder-last-pipeline-num-layers", rng.randint(1, 6)]
    if kind == "counted" or rng.random() < 0.05:
        if rng.random() < 0.7:
            flags += ["--account-for-embedding-in-pipeline-split"]
        if rng.random() < 0.7:
            flags += ["--account-for-loss-in-pipeline-split"]
    if kind == "layout":
        flags += ["--pipeline-model-parallel-layout",
                  layout_of(rng, layers, pipeline * rng.choice((1, 1, 2)) + (rng.random() < 0.1))]
    replicas = rng.choice((1, 1, 2))
    ranks = pipeline * tensor * context * replicas + (rng.random() < 0.05)
    microbatch = rng.choice((1, 2))
    flags += ["--micro-batch-size", microbatch]
    batch = microbatch * replicas * pipeline * rng.randint(1, 4) + (rng.random() < 0.1)
    flags += ["--global-batch-size", batch]
    precision = rng.choice(((), *[("--bf16",)] * 8, *[("--fp16",)] * 4, ("--fp16", "--bf16")))
    flags += list(precision)
    if rng.random() < 0.3:
        flags += ["--use-distributed-optimizer"]
    if tensor > 1 and rng.random() < 0.5:
        flags += ["--sequence-parallel"]
    recompute = rng.choice(((), (), (), ("selective",), ("selective",), ("full", "uniform"),
                            ("full", "uniform"), ("full", "block"), ("full", "block"), ("full",),
                            ("selective", "block")))
    if recompute:
        flags += ["--recompute-granularity", recompute[0]]
    if len(recompute) == 2:
        flags += ["--recompute-method", recompute[1], "--recompute-num-layers", rng.randint(1, 2)]
    return layers, ranks, [str(flag) for flag in flags]


def judged(arguments, ranks, flags):
    """Transformer layers of each stage, or the reason why there are none."""
    os.environ.update(RANK="0", WORLD_SIZE=str(ranks), LOCAL_RANK="0",
                      CUDA_DEVICE_MAX_CONNECTIONS="1")
    sys.argv = ["pretrain_gpt.py", *COMMON, *flags]
    noise = io.StringIO()
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(noise), contextlib.redirect_stderr(noise):
            args = arguments.parse_args()
            arguments.validate_args(args)
            config = arguments.core_transformer_config_from_args(args)
            # What the first step would find.
            size = args.micro_batch_size * args.data_parallel_size
            assert args.global_batch_size % size == 0, "global batch size is not divisible"
            chunks = config.virtual_pipeline_model_parallel_size or 1
            group = config.microbatch_group_size_per_vp_stage or args.pipeline_model_parallel_size
            left = args.global_batch_size // size % group
            assert chunks == 1 or left == 0 or left >= args.pipeline_model_parallel_size, \
                "the last group of microbatches is shorter than the pipeline"
            counts = stages_of(config, args)
            # It does not look: some of these train fewer layers than the model has.
            assert min(counts) >= 0 and sum(counts) == args.num_layers, f"layers {counts}"
            return counts
    except (Exception, SystemExit) as error:  # whatever it refuses with
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def stages_of(config, args):
    from megatron.core import parallel_state
    from megatron.core.transformer.transformer_block import get_num_layers_to_build
    chunks = config.virtual_pipeline_model_parallel_size or 1
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


def imported(program, folder, layers, ranks, flags):
    model = os.path.join(folder, "config.json")
    with open(model, "w") as file:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
                   "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": layers,
                   "intermediate_size": 128, "vocab_size": 256, "max_position_embeddings": 64}, file)
    script = os.path.join(folder, "run.sh")
    with open(script, "w") as file:
        file.write("pretrain_gpt.py " + " ".join(f"'{flag}'" for flag in flags) + "\n")
    answer = subprocess.run([program, "import", "megatron", script, "--model", model, "--cluster",
                             f"{ranks}xh100", "--sequence", "64", "--json"], capture_output=True,
                            text=True)
    try:
        document = json.loads(answer.stdout)
    except json.JSONDecodeError:
        return f"exit {answer.returncode}: {answer.stderr.strip()}"
    if answer.returncode != 0:
        return document["error"]["message"]
    counts = []
    for stage in document["result"]["plan"]["stages"]:
        first, last = stage["layers"][0], stage["layers"][1]
        counts.append(max(min(last, layers + 1) - max(first, 1), 0))
    return counts


def main():
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} STAGECRAFT [LINES [SEED]]")
    program = os.path.abspath(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    arguments = megatron()
    taken = refused = 0
    different = []
    with tempfile.TemporaryDirectory(prefix="stagecraft-peers-") as folder:
        for _ in range(count):
            layers, ranks, flags = random_line(rng)
            theirs = judged(arguments, ranks, flags)
            ours = imported(program, folder, layers, ranks, flags)
            if isinstance(theirs, list):
                taken += 1
            else:
                refused += 1
            both_refuse = isinstance(theirs, str) and isinstance(ours, str)
            if theirs != ours and not both_refuse:
                different.append(f"{' '.join(flags)} on {ranks}:\n  megatron-core {theirs}\n"
                                 f"  stagecraft {ours}")
    if different:
        print(f"FAILED: {len(different)} of {count} lines differ:", *different, sep="\n")
        sys.exit(1)
    print(f"ok  {count} launch lines: {taken} with megatron-core's layers on each stage, "
          f"{refused} refused by both")


if __name__ == "__main__":
    main()
