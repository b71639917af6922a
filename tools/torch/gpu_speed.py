#!/usr/bin/env python3
"""Tokens per second of one stage on one GPU, beside PyTorch's, for the same model and microbatch.

    tools/torch/gpu_speed.py STAGECRAFT 124m|350m|1300m [--rehearse] [--seconds N] [--least RATIO]
                             [--device h100] [--keep FOLDER] [--peek]

Both train GPT-2 of that size in bf16 from scratch, one microbatch per step, with AdamW and gradients
clipped to a norm of 1. Ours is measured with sums in one order (deterministic) and in any, as PyTorch
takes them: that one is compared. PyTorch is compiled, with cuDNN for attention; where that fails or
takes too long, as it is (--peek: at once). FlashAttention follows if time is left,
and the better one counts. Each of PyTorch's models is a process of its own, one at a time. Rounds go in
turn, ours and theirs, as long as another one fits into N seconds (450); medians count, and the ratio
of single rounds is told. Without PyTorch, ours is told alone.

Lines are WHAT, ASKED, GOT and what is to be done with it, separated by tabs: a condition on x, the
first number of GOT, is judged by tools/gpu-suite, `without` means that there was nothing to compare
with. --rehearse takes the CPU, fp32 and a tiny model. --keep: where the plan and what programs said go.

Model FLOPs per token are 6 for each weight in a product, and 6 L d T for causal attention; their share
of 989 TFLOP/s is MFU. (nanoGPT counts attention twice.)
"""

import argparse
import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
import time

# Layers, width, heads, tokens of a sample, samples.
SIZES = {"124m": (12, 768, 12, 1024, 8), "350m": (24, 1024, 16, 1024, 8),
         "1300m": (24, 2048, 16, 2048, 4)}
TINY = (2, 64, 4, 64, 2)
# A multiple of 64, for both: products with 50257 columns are slow on any library.
VOCABULARY = 50304
PEAK = 989e12
RATE, BETAS, EPSILON, CLIP = 1e-4, (0.9, 0.95), 1e-8, 1.0


def config_of(size, vocabulary):
    layers, width, heads, sequence, _ = size
    return {"model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": heads,
            "n_positions": sequence, "vocab_size": vocabulary, "layer_norm_epsilon": 1e-5,
            "tie_word_embeddings": True}


def flops_per_token(size, vocabulary):
    layers, width, _, sequence, _ = size
    return 6 * (12 * layers * width * width + vocabulary * width) + 6 * layers * width * sequence


class Model:
    """PyTorch's, with these kernels for attention; in a process that imports it."""

    def __init__(self, size, config, device, kernels, compiled):
        global torch
        import torch

        import models
        self.config, self.device = config, device
        self.kernels = getattr(torch.nn.attention.SDPBackend, kernels)
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
        _, _, _, sequence, samples = size
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


def serve(size, config, device, kernels, compiled):
    """Says that the model is there; then, for each number of steps that it reads, the seconds of one."""
    import torch.nn.attention
    if device == "cuda" and not torch.cuda.is_available():
        raise RuntimeError("PyTorch finds no GPU")
    model = Model(size, config, device, kernels, compiled)
    model.seconds(3)
    print("ready", torch.__version__, flush=True)
    for line in sys.stdin:
        seconds = model.seconds(int(line))
        if device == "cuda":
            torch.cuda.empty_cache()
        print("seconds", seconds, flush=True)


class Torch:
    """A process that serves one model; it can be too late, and then it is ended."""

    def __init__(self, arguments, kernels, compiled, limit):
        words = [sys.executable, os.path.abspath(__file__), "-", arguments.model, "--serve", kernels]
        words += ["--compiled"] if compiled else []
        words += ["--rehearse"] if arguments.rehearse else []
        path = os.path.join(arguments.keep, f"torch-{kernels.lower()}{'-compiled' if compiled else ''}.log")
        with open(path, "w") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            stderr=log, text=True, start_new_session=True)
        self.log = path
        try:
            self.version = self.answer("ready", limit)
        except BaseException:
            self.end()
            raise

    def answer(self, kind, limit):
        """The word behind this one."""
        until = time.monotonic() + limit
        selector = selectors.DefaultSelector()
        selector.register(self.process.stdout, selectors.EVENT_READ)
        while True:
            if not selector.select(max(until - time.monotonic(), 0)):
                raise RuntimeError(f"not there after {limit:.0f} s")
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(last_line(self.log))
            if line.startswith(kind + " "):
                return line.split()[1]

    def seconds(self, steps, limit):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.answer("seconds", limit))

    def end(self):
        """Compilers have processes of their own: all of the session goes."""
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()


class Stagecraft:
    """Our program; its libraries are nobody else's."""

    def __init__(self, arguments, size, config):
        self.program, self.on_gpu, self.keep = arguments.program, not arguments.rehearse, arguments.keep
        self.plan = os.path.join(arguments.keep, "plan.json")
        model = os.path.join(arguments.keep, "gpt2.json")
        with open(model, "w") as file:
            json.dump(config, file)
        _, _, _, sequence, samples = size
        self.run(["plan", model, f"1x{arguments.device}", "--batch", str(samples),
                  "--microbatch", str(samples), "--sequence", str(sequence), "--recompute", "none",
                  "--precision", "bf16" if self.on_gpu else "fp32", "-q", "-o", self.plan], 60)
        usage = self.run(["run", "--help"], 60)
        self.options = [option for option in ["--no-weights"] if option in usage]
        self.has_modes = self.on_gpu and "--deterministic" in usage

    def run(self, words, limit):
        environment = dict(os.environ)
        if environment.get("STAGECRAFT_LIBRARIES"):
            environment["LD_LIBRARY_PATH"] = environment["STAGECRAFT_LIBRARIES"]
        try:
            ended = subprocess.run([self.program] + words, capture_output=True, text=True,
                                   stdin=subprocess.DEVNULL, env=environment, timeout=limit)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"stagecraft {words[0]}: not done after {limit:.0f} s") from None
        if ended.returncode != 0:
            lines = (ended.stderr or ended.stdout).strip().splitlines()
            raise RuntimeError(lines[-1] if lines else f"exit code {ended.returncode}")
        if ended.stderr.strip():
            with open(os.path.join(self.keep, "stagecraft.remarks"), "a") as file:
                file.write(ended.stderr)
        return ended.stdout

    def seconds(self, steps, limit, deterministic):
        """The median of so many steps, as the program tells it."""
        mode = ["--deterministic", "on" if deterministic else "off"] if self.has_modes else []
        result = self.run(["run", self.plan, "--steps", str(steps), "--clip", str(CLIP),
                           "--learning-rate", str(RATE), "--backend",
                           "cuda" if self.on_gpu else "cpu", "--json"] + mode + self.options, limit)
        return json.loads(result)["result"]["step_ns"] * 1e-9


def tell(what, asked, got, verdict="told"):
    print(what, asked, got, verdict, sep="\t", flush=True)


def first_line(error):
    return next(iter(str(error).splitlines()), type(error).__name__)


def last_line(path):
    with open(path, errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1] if lines else "it ended without a word"


class Comparison:
    """Rounds of ours and theirs in turn, and what came out of them."""

    def __init__(self, arguments):
        self.arguments, self.rehearse = arguments, arguments.rehearse
        self.size = TINY if self.rehearse else SIZES[arguments.model]
        self.vocabulary = 256 if self.rehearse else VOCABULARY
        self.steps = 3 if self.rehearse else 20
        self.until = time.monotonic() + arguments.seconds
        self.ours = Stagecraft(arguments, self.size, config_of(self.size, self.vocabulary))
        self.loose, self.ordered, self.theirs, self.works = [], [], {}, True

    def left(self):
        return max(self.until - time.monotonic(), 1)

    def measure_ours(self, deterministic=None):
        """Both modes, or one; not again what has failed."""
        if not self.works:
            return
        try:
            self.measure_modes(deterministic)
        except RuntimeError as error:
            self.works = False
            tell("stagecraft", "it runs", first_line(error), "FAILED")

    def measure_modes(self, deterministic):
        for mode, times in [(False, self.loose), (True, self.ordered)]:
            if deterministic in (None, mode) and (self.ours.has_modes or not mode):
                times.append(self.ours.seconds(self.steps, self.left(), mode))

    def measure_theirs(self, kernels, words, compiled, limit, most):
        """False if there is no such model here."""
        name = words + (", compiled" if compiled else "")
        started = time.monotonic()
        try:
            model = Torch(self.arguments, kernels, compiled, limit)
        except RuntimeError as error:
            tell(f"PyTorch with {name}", "", f"cannot: {first_line(error)}")
            return False
        tell(f"PyTorch with {name}", "", f"is there after {time.monotonic() - started:.0f} s")
        pairs = self.theirs[f"PyTorch {model.version} with {name}"] = []
        try:
            for _ in range(most):
                began = time.monotonic()
                theirs = model.seconds(self.steps, self.left())
                self.measure_ours(False)
                pairs.append((theirs, self.loose[-1] if self.loose else None))
                # The next one takes as long.
                if 2 * time.monotonic() - began > self.until:
                    break
        except RuntimeError as error:
            tell(f"PyTorch with {name}", "", f"stopped: {first_line(error)}")
        finally:
            model.end()
        if not pairs:
            del self.theirs[f"PyTorch {model.version} with {name}"]
        return bool(pairs)

    def all_of_theirs(self):
        most = 2 if self.rehearse else 3
        if self.rehearse:
            self.measure_theirs("MATH", "plain products", False, self.left(), most)
            return
        if self.arguments.peek or not self.measure_theirs("CUDNN_ATTENTION", "cuDNN", True,
                                                          max(self.left() - 45, 10), most):
            self.measure_theirs("CUDNN_ATTENTION", "cuDNN", False, self.left(), most)
        if self.left() > 120 and not self.arguments.peek:
            self.measure_theirs("FLASH_ATTENTION", "FlashAttention", True, self.left() - 30, most)

    def tell_speed(self, words, times):
        seconds = statistics.median(times)
        tokens = self.size[3] * self.size[4]
        flops = flops_per_token(self.size, self.vocabulary)
        tell(words, "", f"{tokens / seconds:.0f} tokens/s, {1e3 * seconds:.2f} ms a step, MFU "
             f"{100 * flops * tokens / seconds / PEAK:.1f} % of {PEAK / 1e12:.0f} TFLOP/s at "
             f"{flops / 1e9:.3f} GFLOP per token")

    def run(self):
        self.measure_ours()
        self.tell_ours(", first round")
        self.all_of_theirs()
        if self.ordered and self.left() > 30:
            self.measure_ours(True)
        self.tell_ours()
        for name, pairs in self.theirs.items():
            self.tell_speed(name, [theirs for theirs, _ in pairs])
        self.judge()

    def tell_ours(self, words=""):
        if self.loose:
            self.tell_speed("stagecraft" + words, self.loose)
        if self.ordered:
            self.tell_speed("stagecraft, sums in one order" + words, self.ordered)

    def judge(self):
        if self.ordered and self.loose:
            price = statistics.median(self.ordered) / statistics.median(self.loose) - 1
            tell("cost of one order of sums", "at most 8 % of a step", f"{100 * price:.2f} %", "x <= 8")
        if not self.theirs:
            tell("PyTorch beside it", "a python3 with torch that runs the model",
                 f"{sys.executable} runs none; set PYTHON", "without")
            return
        if not self.loose:
            return
        medians = {name: statistics.median(theirs for theirs, _ in pairs)
                   for name, pairs in self.theirs.items()}
        best = min(medians, key=medians.get)
        ratio = medians[best] / statistics.median(self.loose)
        single = " ".join(f"{theirs / ours:.3f}" for theirs, ours in self.theirs[best] if ours)
        tell(f"GPT-2 {self.arguments.model}, tokens per second beside PyTorch's",
             f"at least {self.arguments.least:.2f} times as many",
             f"{ratio:.3f} (of single rounds {single}; {best})", f"x >= {self.arguments.least}")


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("--rehearse", action="store_true")
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--least", type=float, default=1.0)
    parser.add_argument("--device", default="h100")
    parser.add_argument("--keep")
    parser.add_argument("--peek", action="store_true", default=bool(os.environ.get("STAGECRAFT_PEEK")))
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rehearse:
        arguments.device = "cpu"
    return arguments


def main():
    arguments = read_arguments()
    if arguments.serve:
        size = TINY if arguments.rehearse else SIZES[arguments.model]
        device, vocabulary = ("cpu", 256) if arguments.rehearse else ("cuda", VOCABULARY)
        serve(size, config_of(size, vocabulary), device, arguments.serve, arguments.compiled)
        return
    # So that the process of PyTorch is ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder:
        arguments.keep = arguments.keep or folder
        Comparison(arguments).run()


if __name__ == "__main__":
    main()
