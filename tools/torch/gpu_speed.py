#!/usr/bin/env python3
"""Tokens per second of one stage on one GPU, beside PyTorch's, for the same model and microbatch.

    tools/torch/gpu_speed.py STAGECRAFT 124m|350m|1300m [--rehearse] [--seconds N] [LEAST]

Both train GPT-2 of that size in bf16 from scratch, one microbatch per step, with AdamW and gradients
clipped to a norm of 1. PyTorch is compiled, and takes the better of FlashAttention and cuDNN for
attention; where it cannot be compiled here, as it is. Rounds go in turn, ours and theirs, as long as
another one fits into N seconds (450); medians count, and the ratio of single rounds is told. Without
PyTorch, ours is told alone.

Lines are WHAT, ASKED, GOT and what is to be done with it, separated by tabs: `ratio` is judged by
tools/gpu-suite, `without` means that there was nothing to compare with. --rehearse takes the CPU, fp32 and a tiny model.

Model FLOPs per token are 6 for each weight in a product, and 6 L d T for causal attention; their share
of 989 TFLOP/s is MFU. (nanoGPT counts attention twice.)
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch

    import models
except ImportError:
    torch = None

# Layers, width, heads, tokens of a sample, samples; what the kernels' floors allow, in tokens/s.
SIZES = {"124m": (12, 768, 12, 1024, 8, 830e3), "350m": (24, 1024, 16, 1024, 8, 301e3),
         "1300m": (24, 2048, 16, 2048, 4, 85e3)}
TINY = (2, 64, 4, 64, 2, 0)
# A multiple of 64, for both: products with 50257 columns are slow on any library.
VOCABULARY = 50304
PEAK = 989e12
RATE, BETAS, EPSILON, CLIP = 1e-4, (0.9, 0.95), 1e-8, 1.0


def config_of(size, vocabulary):
    layers, width, heads, sequence, _, _ = size
    return {"model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": heads,
            "n_positions": sequence, "vocab_size": vocabulary, "layer_norm_epsilon": 1e-5,
            "tie_word_embeddings": True}


def flops_per_token(size, vocabulary):
    layers, width, _, sequence, _, _ = size
    return 6 * (12 * layers * width * width + vocabulary * width) + 6 * layers * width * sequence


class Torch:
    """Seconds of a step, of a model compiled with these kernels for attention."""

    def __init__(self, size, config, device, kernels, compiled):
        self.config, self.device, self.kernels = config, device, kernels
        torch.manual_seed(0)
        width, inner = config["n_embd"], 4 * config["n_embd"]
        draw = lambda *shape: torch.nn.Parameter(0.02 * torch.randn(*shape, device=device))
        weights = {"transformer.wte.weight": draw(config["vocab_size"], width),
                   "transformer.wpe.weight": draw(config["n_positions"], width)}
        for block in range(config["n_layer"]):
            for name, shape in {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width),
                                "mlp.c_fc": (width, inner), "mlp.c_proj": (inner, width)}.items():
                weights[f"transformer.h.{block}.{name}.weight"] = draw(*shape)
                weights[f"transformer.h.{block}.{name}.bias"] = draw(shape[1])
        norms = [f"transformer.h.{b}.ln_{i}" for b in range(config["n_layer"]) for i in (1, 2)]
        for name in norms + ["transformer.ln_f"]:
            weights[name + ".weight"] = torch.nn.Parameter(torch.ones(width, device=device))
            weights[name + ".bias"] = torch.nn.Parameter(torch.zeros(width, device=device))
        self.weights = weights
        _, _, _, sequence, samples, _ = size
        self.tokens = torch.randint(config["vocab_size"], (samples, sequence + 1), device=device)
        self.optimizer = torch.optim.AdamW(weights.values(), lr=RATE, betas=BETAS, eps=EPSILON,
                                           weight_decay=0.0, fused=True)
        loss = lambda weights, tokens, targets: models.gpt2_loss(config, weights, tokens, targets)
        self.loss = torch.compile(loss) if compiled else loss

    def step(self):
        with torch.nn.attention.sdpa_kernel(self.kernels):
            with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
                loss = self.loss(self.weights, self.tokens[:, :-1], self.tokens[:, 1:])
            loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def seconds(self, steps):
        """The median of so many steps."""
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            self.step()
            if self.device == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return statistics.median(times)


class Stagecraft:
    def __init__(self, program, size, config, folder, on_gpu):
        self.program, self.on_gpu = program, on_gpu
        self.plan = os.path.join(folder, "plan.json")
        model = os.path.join(folder, "gpt2.json")
        with open(model, "w") as file:
            json.dump(config, file)
        _, _, _, sequence, samples, _ = size
        self.run(["plan", model, "1xh200" if on_gpu else "1xcpu", "--batch", str(samples),
                  "--microbatch", str(samples), "--sequence", str(sequence), "--recompute", "none",
                  "--precision", "bf16" if on_gpu else "fp32", "-q", "-o", self.plan])

    def run(self, words):
        ended = subprocess.run([self.program] + words, capture_output=True, text=True)
        if ended.returncode != 0:
            raise RuntimeError((ended.stderr or ended.stdout).strip().splitlines()[-1])
        return ended.stdout

    def seconds(self, steps):
        """The median of so many steps, as the program tells it."""
        result = self.run(["run", self.plan, "--steps", str(steps), "--clip", str(CLIP),
                           "--learning-rate", str(RATE), "--backend",
                           "cuda" if self.on_gpu else "cpu", "--json"])
        return json.loads(result)["result"]["step_ns"] * 1e-9


def tell(what, asked, got, verdict="told"):
    print(what, asked, got, verdict, sep="\t", flush=True)


def first_line(error):
    return next(iter(str(error).splitlines()), type(error).__name__)


def theirs_by_kernel(size, config, device):
    """The model for each of the kernels for attention that this PyTorch has."""
    if torch is None:
        return {}
    from torch.nn.attention import SDPBackend
    candidates = {"FlashAttention": SDPBackend.FLASH_ATTENTION,
                  "cuDNN": SDPBackend.CUDNN_ATTENTION} if device == "cuda" else {
                      "plain products": SDPBackend.MATH}
    found = {}
    for name, kernels in candidates.items():
        for compiled in [True, False] if device == "cuda" else [False]:
            words = name + (", compiled" if compiled else "")
            try:
                trial = Torch(size, config, device, kernels, compiled)
                trial.seconds(3)
                found[words] = trial
                break
            except Exception as error:  # compilers have many of their own
                tell(f"PyTorch with {words}", "", f"cannot: {first_line(error)}")
    return found


class Rounds:
    """So many, but none that would end after the limit if it takes as long as the one before."""

    def __init__(self, most, limit):
        self.most, self.limit, self.done = most, limit, 0
        self.start = self.last = time.monotonic()

    def another(self):
        now = time.monotonic()
        took, self.last = now - self.last, now
        if self.done == self.most or (self.done > 0 and now + took > self.start + self.limit):
            return False
        self.done += 1
        return True


def compare(program, name, rehearse, limit):
    """The words for the ratio; none without anything to compare with."""
    size = TINY if rehearse else SIZES[name]
    device, vocabulary = ("cpu", 256) if rehearse else ("cuda", VOCABULARY)
    started = time.monotonic()
    most, steps = (2, 3) if rehearse else (5, 20)
    config = config_of(size, vocabulary)
    tokens, flops = size[3] * size[4], flops_per_token(size, vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        ours = Stagecraft(program, size, config, folder, not rehearse)
        theirs = theirs_by_kernel(size, config, device)
        times = {name: [] for name in ["ours", *theirs]}
        rounds = Rounds(most, limit - (time.monotonic() - started))
        while rounds.another():
            times["ours"].append(ours.seconds(steps))
            for kernels, model in theirs.items():
                times[kernels].append(model.seconds(steps))
    medians = {name: statistics.median(of_rounds) for name, of_rounds in times.items()}
    floor = "" if rehearse else f"; kernels' floor {size[5]:.0f}"
    for name, seconds in medians.items():
        words = "stagecraft" if name == "ours" else f"PyTorch {torch.__version__} with {name}"
        tell(words, "", f"{tokens / seconds:.0f} tokens/s, MFU {100 * flops * tokens / seconds / PEAK:.1f} %"
             f" of {PEAK / 1e12:.0f} TFLOP/s at {flops / 1e9:.3f} GFLOP per token{floor}")
    if not theirs:
        return None
    best = min((name for name in medians if name != "ours"), key=medians.get)
    ratios = " ".join(f"{b / a:.3f}" for a, b in zip(times["ours"], times[best]))
    return f"{medians[best] / medians['ours']:.3f} (of single rounds {ratios}; PyTorch with {best})"


def main(program, name, *rest):
    rest = list(rest)
    rehearse = "--rehearse" in rest
    if rehearse:
        rest.remove("--rehearse")
    limit = 450.0
    if "--seconds" in rest:
        at = rest.index("--seconds")
        limit = float(rest[at + 1])
        del rest[at:at + 2]
    if torch is not None and not rehearse and not torch.cuda.is_available():
        tell("PyTorch beside it", "a GPU", "it finds none", "FAILED")
        return
    ratio = compare(program, name, rehearse, limit)
    if ratio is None:
        tell("PyTorch beside it", "a python3 with torch that runs the model",
             f"{sys.executable} has none; set PYTHON" if torch is None else "it runs none",
             "without")
        return
    tell(f"GPT-2 {name}, tokens per second beside PyTorch's",
         f"at least {rest[0] if rest else '1.00'} times as many", ratio, "ratio")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[2] not in SIZES:
        sys.exit(__doc__)
    main(*sys.argv[1:])
