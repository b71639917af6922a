"""The models that Stagecraft trains, in PyTorch's own functions: a loss from named weights.

Weights are a dictionary with the names and shapes of Hugging Face transformers (GPT-2, Llama) and
torchvision (VGG), as in the safetensors files that `stagecraft run` reads and writes.
"""

import math

import torch
import torch.nn.functional as F


def attention(query, key, value, heads, groups):
    """Causal attention of [samples, sequence, width] tensors; `groups` key-value heads."""
    samples, sequence, width = query.shape
    split = lambda x, parts: x.view(samples, sequence, parts, -1).transpose(1, 2)
    query, key, value = split(query, heads), split(key, groups), split(value, groups)
    mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True,
                                           enable_gqa=heads != groups)
    return mixed.transpose(1, 2).reshape(samples, sequence, width)


def gpt2_loss(config, weights, tokens, targets):
    width, heads = config["n_embd"], config["n_head"]
    norm = lambda x, name: F.layer_norm(x, (width,), weights[name + ".weight"],
                                        weights[name + ".bias"], config["layer_norm_epsilon"])
    linear = lambda x, name: x @ weights[name + ".weight"] + weights[name + ".bias"]
    table = weights["transformer.wte.weight"]
    x = F.embedding(tokens, table) + weights["transformer.wpe.weight"][:tokens.shape[1]]
    for block in range(config["n_layer"]):
        name = f"transformer.h.{block}"
        query, key, value = linear(norm(x, name + ".ln_1"), name + ".attn.c_attn").chunk(3, -1)
        x = x + linear(attention(query, key, value, heads, heads), name + ".attn.c_proj")
        inner = F.gelu(linear(norm(x, name + ".ln_2"), name + ".mlp.c_fc"), approximate="tanh")
        x = x + linear(inner, name + ".mlp.c_proj")
    logits = norm(x, "transformer.ln_f") @ weights.get("lm_head.weight", table).T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def rotary_frequencies(config, head_width):
    frequencies = config["rope_theta"] ** (-torch.arange(0, head_width, 2) / head_width)
    scaling = config.get("rope_scaling")
    if scaling is None:
        return frequencies
    # As in "The Llama 3 Herd of Models", and in transformers' modeling_rope_utils.py.
    length = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    waves = 2 * math.pi / frequencies
    smooth = (length / waves - low) / (high - low)
    between = (1 - smooth) * frequencies / scaling["factor"] + smooth * frequencies
    slow = torch.where(waves > length / low, frequencies / scaling["factor"], between)
    return torch.where(waves < length / high, frequencies, slow)


def rotate(x, heads, frequencies):
    """Turns the pairs (i, i + half) of every head by position times frequency."""
    samples, sequence, width = x.shape
    angles = torch.arange(sequence)[:, None] * frequencies
    cosine, sine = angles.cos()[:, None, :], angles.sin()[:, None, :]
    first, second = x.view(samples, sequence, heads, -1).chunk(2, -1)
    turned = torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)
    return turned.view(samples, sequence, width)


def norm_heads(x, weight, epsilon):
    """As many numbers at a time as there are weights: a head's, or all."""
    return F.rms_norm(x.unflatten(-1, (-1, len(weight))), weight.shape, weight, epsilon).flatten(-2)


def llama_loss(config, weights, tokens, targets):
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    width = config["hidden_size"]
    frequencies = rotary_frequencies(config, config.get("head_dim", width // heads))
    norm = lambda x, name: F.rms_norm(x, (width,), weights[name + ".weight"],
                                      config["rms_norm_eps"])
    linear = lambda x, name: F.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))
    table = weights["model.embed_tokens.weight"]
    x = F.embedding(tokens, table)
    for block in range(config["num_hidden_layers"]):
        name = f"model.layers.{block}"
        behind = config["model_type"] == "olmo2"
        normed = x if behind else norm(x, name + ".input_layernorm")
        query, key, value = (linear(normed, f"{name}.self_attn.{part}_proj") for part in "qkv")
        if config["model_type"] in ("qwen3", "olmo2"):
            query, key = (norm_heads(x, weights[f"{name}.self_attn.{part}_norm.weight"],
                                     config["rms_norm_eps"])
                          for x, part in ((query, "q"), (key, "k")))
        query, key = rotate(query, heads, frequencies), rotate(key, groups, frequencies)
        mixed = attention(query, key, value, heads, groups)
        mixed = linear(mixed, name + ".self_attn.o_proj")
        if behind:
            mixed = norm(mixed, name + ".post_attention_layernorm")
        x = x + mixed
        normed = x if behind else norm(x, name + ".post_attention_layernorm")
        gate, up = (linear(normed, f"{name}.mlp.{part}_proj") for part in ("gate", "up"))
        fed = linear(F.silu(gate) * up, name + ".mlp.down_proj")
        x = x + (norm(fed, name + ".post_feedforward_layernorm") if behind else fed)
    logits = norm(x, "model.norm") @ weights.get("lm_head.weight", table).T
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def vgg_loss(weights, pixels, labels):
    """`pixels` from 0 to 255; a pool follows each second convolution."""
    x = pixels / 127.5 - 1
    convolutions = sorted({int(name.split(".")[1]) for name in weights if "features" in name})
    for place, number in enumerate(convolutions):
        name = f"features.{number}"
        x = F.relu(F.conv2d(x, weights[name + ".weight"], weights[name + ".bias"], padding=1))
        if place % 2 == 1:
            x = F.max_pool2d(x, 2)
    x = x.flatten(1)
    for number in (0, 3, 6):
        name = f"classifier.{number}"
        x = F.linear(x, weights[name + ".weight"], weights[name + ".bias"])
        if number != 6:
            x = F.relu(x)
    return F.cross_entropy(x, labels)
