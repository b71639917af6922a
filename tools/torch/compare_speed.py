#!/usr/bin/env python3
"""Tokens per second of one stage on one CPU thread, beside PyTorch's, for the same model and microbatch.

    tools/torch/compare_speed.py STAGECRAFT [ROUNDS]

Both train from scratch on the same sizes with AdamW. Steps are timed in turn and in seconds of the
processor, which other programs' share of it does not change much; of each, the best round counts.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import torch

import models

SEQUENCE, SAMPLES, STEPS = 256, 4, 4
GPT2 = {"model_type": "gpt2", "n_embd": 512, "n_layer": 4, "n_head": 8, "n_positions": SEQUENCE,
        "vocab_size": 8192, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
LLAMA = {"model_type": "llama", "hidden_size": 512, "num_hidden_layers": 4,
         "num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": 1376,
         "vocab_size": 8192, "max_position_embeddings": SEQUENCE, "rms_norm_eps": 1e-5,
         "rope_theta": 10000.0, "tie_word_embeddings": False}


def gpt2_shapes(config):
    width, inner = config["n_embd"], 4 * config["n_embd"]
    shapes = {"transformer.wte.weight": (config["vocab_size"], width),
              "transformer.wpe.weight": (config["n_positions"], width)}
    for block in range(config["n_layer"]):
        for name, shape in {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width),
                            "mlp.c_fc": (width, inner), "mlp.c_proj": (inner, width)}.items():
            shapes[f"transformer.h.{block}.{name}.weight"] = shape
            shapes[f"transformer.h.{block}.{name}.bias"] = shape[1:]
    norms = [f"transformer.h.{block}.ln_{i}" for block in range(config["n_layer"]) for i in (1, 2)]
    for name in norms + ["transformer.ln_f"]:
        shapes[name + ".weight"] = shapes[name + ".bias"] = (width,)
    return shapes


def llama_shapes(config):
    width, inner = config["hidden_size"], config["intermediate_size"]
    narrow = width * config["num_key_value_heads"] // config["num_attention_heads"]
    shapes = {"model.embed_tokens.weight": (config["vocab_size"], width),
              "lm_head.weight": (config["vocab_size"], width), "model.norm.weight": (width,)}
    for block in range(config["num_hidden_layers"]):
        for name, shape in {"self_attn.q_proj": (width, width), "self_attn.k_proj": (narrow, width),
                            "self_attn.v_proj": (narrow, width), "self_attn.o_proj": (width, width),
                            "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width),
                            "mlp.down_proj": (width, inner), "input_layernorm": (width,),
                            "post_attention_layernorm": (width,)}.items():
            shapes[f"model.layers.{block}.{name}.weight"] = shape
    return shapes


class Torch:
    """Seconds of one step; the faster of AdamW's forms on a CPU."""

    def __init__(self, config, shapes, loss):
        self.config, self.loss = config, loss
        self.weights = {name: (0.02 * torch.randn(shape)).requires_grad_()
                        for name, shape in shapes(config).items()}
        self.tokens = torch.randint(config["vocab_size"], (SAMPLES, SEQUENCE + 1))
        self.optimizer = torch.optim.AdamW(self.weights.values(), lr=1e-3, fused=True)

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(self.config, self.weights, self.tokens[:, :-1], self.tokens[:, 1:]).backward()
        self.optimizer.step()

    def seconds(self):
        self.step()
        start = time.process_time()
        for _ in range(STEPS):
            self.step()
        return (time.process_time() - start) / STEPS


def stagecraft_seconds(program, plan):
    """Of one step: a long run less a short one."""
    def whole(steps):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([program, "run", plan, "--steps", str(steps), "-q"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (whole(STEPS + 1) - whole(1)) / STEPS


def compare(name, program, config, shapes, loss, rounds):
    ours, theirs = [], []
    with tempfile.TemporaryDirectory() as folder:
        model, plan = os.path.join(folder, f"{name}.json"), os.path.join(folder, "plan.json")
        with open(model, "w") as file:
            json.dump(config, file)
        subprocess.run([program, "plan", model, "1xcpu", "--batch", str(SAMPLES), "--microbatch",
                        str(SAMPLES), "--sequence", str(SEQUENCE), "--recompute", "none", "-q", "-o",
                        plan], check=True)
        torch_model = Torch(config, shapes, loss)
        for _ in range(rounds):
            ours.append(stagecraft_seconds(program, plan))
            theirs.append(torch_model.seconds())
    tokens = SAMPLES * SEQUENCE
    print(f"{name}: {tokens / min(ours):.0f} tokens/s, PyTorch {torch.__version__}"
          f" {tokens / min(theirs):.0f}: ratio {min(theirs) / min(ours):.2f}"
          f" (of single rounds {' '.join(f'{b / a:.2f}' for a, b in zip(ours, theirs))})")


def main(program, rounds="3"):
    torch.set_num_threads(1)
    compare("gpt2", program, GPT2, gpt2_shapes, models.gpt2_loss, int(rounds))
    compare("llama", program, LLAMA, llama_shapes, models.llama_loss, int(rounds))


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
