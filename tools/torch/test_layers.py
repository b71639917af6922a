#!/usr/bin/env python3
"""Trains small models with Stagecraft and with PyTorch from the same weights, and compares.

    tools/torch/test_layers.py STAGECRAFT

Three steps of AdamW in double precision, as a pipeline of two stages: losses and all final weights
must agree to rounding, so every gradient does. Weights go from one to the other as safetensors files;
where Python's package of that name is installed, it must write the same bytes as Stagecraft does.
Ends with 77 ("skipped") where there is no torch.
"""

import json
import os
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError as error:
    print(f"skipped: {sys.executable} has no torch ({error})")
    sys.exit(77)

import models
import safetensors_file

SEQUENCE, STEPS, SAMPLES = 12, 3, 4

GPT2 = {"model_type": "gpt2", "n_embd": 24, "n_layer": 3, "n_head": 3, "n_positions": 16,
        "vocab_size": 37, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
LLAMA = {"model_type": "llama", "hidden_size": 24, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "intermediate_size": 40, "vocab_size": 37, "max_position_embeddings": 16,
         "rms_norm_eps": 1e-5, "rope_theta": 100.0, "tie_word_embeddings": False}
# Chosen so that of four pairs one is as before, one is slower and two are between.
SCALING = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 8.0,
           "original_max_position_embeddings": 64}
CONFIGS = {
    "gpt2": GPT2,
    "gpt2-untied": GPT2 | {"tie_word_embeddings": False, "n_inner": 30},
    "llama": LLAMA,
    "llama-tied": LLAMA | {"tie_word_embeddings": True, "num_key_value_heads": 1},
    "llama-biases": LLAMA | {"attention_bias": True, "mlp_bias": True},
    "llama-3.1": LLAMA | {"rope_scaling": SCALING},
    "qwen3": LLAMA | {"model_type": "qwen3", "head_dim": 10, "attention_bias": False},
    "olmo2": LLAMA | {"model_type": "olmo2"},
    "qwen2": LLAMA | {"model_type": "qwen2", "num_key_value_heads": 4},
}


def call(program, *arguments):
    answer = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True)
    if answer.returncode != 0:
        sys.exit(f"stagecraft {' '.join(arguments)}\n{answer.stdout}{answer.stderr}")
    return json.loads(answer.stdout)["result"]


def noise_like(tensors):
    """Values of a size that lets every weight matter; the same ones in every run."""
    torch.manual_seed(1)
    noise = {}
    for name, tensor in sorted(tensors.items()):
        scale = 0.3
        if "features" in name or "classifier" in name:
            scale = (2 / tensor[0].numel()) ** 0.5 if tensor.dim() > 1 else 0.1
        norm = "norm" in name or "ln_" in name
        noise[name] = scale * torch.randn(tensor.shape) + (1 if norm else 0)
    return noise


def train(weights, loss_of):
    """Losses of the steps and the final weights, by PyTorch."""
    weights = {name: tensor.clone().requires_grad_() for name, tensor in weights.items()}
    optimizer = torch.optim.AdamW(weights.values(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(weights)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, weights


def compare_bytes(path):
    """Stagecraft's file is the one that the package would have written."""
    try:
        from safetensors.torch import load_file, save_file
    except ImportError:
        print("--  no package safetensors: its bytes are not compared")
        return
    again = path + ".again"
    save_file(load_file(path), again, metadata={"format": "pt"})
    with open(path, "rb") as ours, open(again, "rb") as theirs:
        assert ours.read() == theirs.read(), "the package safetensors writes other bytes"


def compare(name, program, folder, model, data, loss_of):
    """Trains `model` on the only sample of the file `data`, both ways."""
    plan, start, end = (os.path.join(folder, f"{name}.{part}")
                        for part in ("plan.json", "start.safetensors", "end.safetensors"))
    sequence = [] if name == "vgg" else ["--sequence", str(SEQUENCE)]
    call(program, "plan", model, "2xcpu", "--batch", str(SAMPLES), "--microbatch", "2", *sequence,
         "--precision", "fp64", "--schedule", "1f1b", "--straight", "-o", plan)
    run = ["run", plan, "--data", data]
    call(program, *run, "--steps", "1", "--save-weights", start)
    safetensors_file.write(start, noise_like(safetensors_file.read(start)))
    losses = call(program, *run, "--steps", str(STEPS), "--weights", start, "--save-weights",
                  end)["losses"]
    expected_losses, expected = train(safetensors_file.read(start), loss_of)
    found = safetensors_file.read(end)
    assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected_losses), rtol=1e-11,
                               atol=0)
    # The first steps of AdamW are about sign(gradient): a wrong one moves a weight by 1e-3.
    worst = max((found[weight] - expected[weight]).abs().max().item() for weight in found)
    assert worst < 1e-9, f"{name}: a weight differs by {worst}"
    compare_bytes(end)
    print(f"ok  {name}: losses", " ".join(f"{loss:.9f}" for loss in losses),
          f"; weights differ by at most {worst:.1e}")


def main(program):
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    with tempfile.TemporaryDirectory() as folder:
        tokens = [(7 * i * i + 3) % 37 for i in range(SEQUENCE + 1)]
        text = os.path.join(folder, "text.txt")
        with open(text, "wb") as file:
            file.write(bytes(tokens))
        inputs, targets = torch.tensor([tokens[:-1]]), torch.tensor([tokens[1:]])
        for name, config in CONFIGS.items():
            path = os.path.join(folder, f"{name}.json")
            with open(path, "w") as file:
                json.dump(config, file)
            loss = models.gpt2_loss if config["model_type"] == "gpt2" else models.llama_loss
            compare(name, program, folder, path, text,
                    lambda weights: loss(config, weights, inputs, targets))
        pixels = [(11 * i * i + 5) % 256 for i in range(3 * 32 * 32)]
        image = os.path.join(folder, "image.bin")
        with open(image, "wb") as file:
            file.write(bytes([7] + pixels))
        picture = torch.tensor(pixels, dtype=torch.float64).view(1, 3, 32, 32)
        compare("vgg", program, folder, "vgg-small", image,
                lambda weights: models.vgg_loss(weights, picture, torch.tensor([7])))
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
