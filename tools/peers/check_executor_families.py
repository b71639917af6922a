#!/usr/bin/env python3
"""Families that Stagecraft trains, against the classes of Hugging Face transformers.

    python tools/peers/check_executor_families.py STAGECRAFT

For each family small models with the keys that change its computation: transformers makes the model and
its weights, and writes config.json and safetensors. Both train three steps of AdamW in double precision
on the same tokens: losses and final weights must agree within 1e-9, and Stagecraft's file must have the
class's names. Plans of one stage, of two and with recomputation must give the same bits.

The classes compute norms, softmax and rotations in single precision whatever the model's. The first steps
of AdamW, which are about the sign of a gradient, make 1e-5 of that where a gradient is tiny: here these
are in double precision, too.
"""

import sys

import common

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as error:
    common.skip(f"no transformers with torch and safetensors ({error})")

SEQUENCE, STEPS, SAMPLES, VOCABULARY = 12, 3, 4, 61
TOLERANCE = 1e-9

SMALL = dict(hidden_size=24, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=40, vocab_size=VOCABULARY, max_position_embeddings=16,
             rope_theta=100.0, eos_token_id=0, tie_word_embeddings=False)
OPT = dict(hidden_size=24, num_hidden_layers=3, num_attention_heads=4, ffn_dim=40,
           word_embed_proj_dim=24, vocab_size=VOCABULARY, max_position_embeddings=16,
           pad_token_id=None, bos_token_id=0, eos_token_id=0)
CONFIGS = {
    "llama": ("llama", dict(SMALL, head_dim=8)),
    "qwen3": ("qwen3", dict(SMALL, head_dim=8)),
    "qwen3-tied": ("qwen3", dict(SMALL, head_dim=6, tie_word_embeddings=True)),
    "qwen3-biases": ("qwen3", dict(SMALL, head_dim=8, num_key_value_heads=1,
                                   attention_bias=True)),
    "qwen3-window-unused": ("qwen3", dict(SMALL, head_dim=8, num_key_value_heads=4,
                                          sliding_window=4, use_sliding_window=False)),
    "olmo2": ("olmo2", dict(SMALL)),
    "olmo2-tied": ("olmo2", dict(SMALL, num_key_value_heads=4, tie_word_embeddings=True,
                                 rms_norm_eps=1e-6)),
    "olmo2-biases": ("olmo2", dict(SMALL, attention_bias=True)),
    "opt": ("opt", OPT),
    "opt-no-biases": ("opt", OPT | dict(enable_bias=False, tie_word_embeddings=False)),
}
NEOX = dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=40,
            vocab_size=VOCABULARY, max_position_embeddings=16, rotary_emb_base=100.0, rotary_pct=0.5,
            bos_token_id=0, eos_token_id=0, tie_word_embeddings=False)
MIXTURE = dict(SMALL, head_dim=8)
GEMMA = dict(SMALL, head_dim=8, pad_token_id=None, rope_local_base_freq=10.0, query_pre_attn_scalar=6,
             sliding_window=5, layer_types=["sliding_attention", "full_attention",
                                            "sliding_attention"])
CONFIGS |= {
    "neox": ("gpt_neox", NEOX),
    "neox-sequential": ("gpt_neox", NEOX | dict(use_parallel_residual=False, rotary_pct=1.0)),
    "neox-no-biases": ("gpt_neox", NEOX | dict(attention_bias=False, hidden_act="gelu_new",
                                               rotary_pct=0.25)),
    "mistral-window": ("mistral", dict(SMALL, head_dim=8, sliding_window=5)),
    "mixtral": ("mixtral", dict(MIXTURE, num_local_experts=5, num_experts_per_tok=2,
                                sliding_window=None)),
    "mixtral-window": ("mixtral", dict(MIXTURE, num_local_experts=4, num_experts_per_tok=3,
                                       sliding_window=6)),
    "qwen3-moe": ("qwen3_moe", dict(MIXTURE, num_experts=6, num_experts_per_tok=3,
                                    moe_intermediate_size=16)),
    "qwen3-moe-shares": ("qwen3_moe", dict(MIXTURE, num_experts=4, num_experts_per_tok=2,
                                           moe_intermediate_size=16, norm_topk_prob=True,
                                           mlp_only_layers=[0], tie_word_embeddings=True)),
    "gemma3": ("gemma3_text", GEMMA),
    "gemma3-linear": ("gemma3_text", GEMMA | dict(
        rope_parameters={"full_attention": {"rope_type": "linear", "factor": 4.0,
                                            "rope_theta": 100.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 10.0}})),
    "gemma3-tied": ("gemma3_text", GEMMA | dict(tie_word_embeddings=True, num_key_value_heads=1)),
}
PLANS = {
    "one stage": ["1xcpu"],
    "two stages": ["2xcpu", "--schedule", "1f1b", "--straight"],
    "recomputed": ["2xcpu", "--schedule", "1f1b", "--straight", "--recompute", "full"],
}


def tokens():
    return [(7 * i * i + 3) % VOCABULARY for i in range(SEQUENCE + 1)]


def make_model(family, keys):
    """With weights of a size that lets each matter."""
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(family, **keys)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager",
                                                          experts_implementation="eager")
    model = model.double().eval()  # without dropout
    sys.modules[type(model).__module__].torch = Doubles()
    torch.Tensor.float = torch.Tensor.double
    inner = model.base_model
    if hasattr(inner, "rotary_emb"):
        rotate_in_double(inner.rotary_emb, config)
    if hasattr(inner, "embed_tokens") and hasattr(inner.embed_tokens, "embed_scale"):
        inner.embed_tokens.embed_scale = torch.tensor(config.hidden_size**0.5, dtype=torch.float64)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(0.3 * torch.randn(weight.shape) + (1 if "norm" in name else 0))
    return config, model


class Doubles:
    """The module torch, where single precision is double."""

    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def rotate_in_double(rotary, config):
    """Cosines and sines of all positions; the classes' own are of single precision."""
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads

    def frequencies(layer_type):
        said = config.rope_parameters[layer_type] if layer_type else config.rope_parameters
        turned = int(width * said.get("partial_rotary_factor", 1))
        pairs = torch.arange(0, turned, 2, dtype=torch.float64)
        found = said["rope_theta"] ** (-pairs / turned) / said.get("factor", 1)
        # As the class computes it, but for rounding.
        name = f"{layer_type}_inv_freq" if layer_type else "inv_freq"
        torch.testing.assert_close(getattr(rotary, name).double(), found, rtol=1e-6, atol=0)
        return found

    def forward(x, position_ids, layer_type=None):
        angles = position_ids[..., None].double() * frequencies(layer_type)
        angles = torch.cat([angles, angles], -1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    rotary.forward = forward


def stored(model, folder):
    """The file that the library writes, whose names and shapes may be others than the modules'."""
    model.save_pretrained(folder)
    return f"{folder}/model.safetensors"


def train(model):
    """Losses of the steps; weights stay in the model."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0)
    data = torch.tensor([tokens()])
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(input_ids=data[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), data[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def ours(stagecraft, name, config, start, data):
    """Losses and the file of the final weights, the same for every plan."""
    first = None
    for label, words in PLANS.items():
        plan = stagecraft.plan(f"{name}-{label.replace(' ', '-')}.json", config, *words, "--batch",
                               SAMPLES, "--microbatch", 2, "--sequence", SEQUENCE, "--precision",
                               "fp64")
        end = stagecraft.path(f"{name}.{label.replace(' ', '-')}.safetensors")
        losses = stagecraft.result("run", plan, "--data", data, "--steps", STEPS, "--weights", start,
                                   "--save-weights", end)["losses"]
        with open(end, "rb") as file:
            found = losses, file.read()
        common.require(first in (None, found), f"{name}: {label} gives other bits than one stage")
        first = found
    return losses, end


def check_family(stagecraft, name, family, keys, data):
    config, model = make_model(family, keys)
    folder = stagecraft.path(name)
    start = stored(model, folder)
    weights = load_file(start)
    losses, end = ours(stagecraft, name, f"{folder}/config.json", start, data)
    expected = train(model)
    worst_loss = max(abs(a - b) for a, b in zip(losses, expected, strict=True))
    common.require(worst_loss < TOLERANCE, f"{name}: losses {losses}, transformers has {expected}")
    found = load_file(end)
    final = load_file(stored(model, stagecraft.path(f"{name}-end")))
    common.require(found.keys() == final.keys(),
                   f"{name}: other names: {sorted(found.keys() ^ final.keys())}")
    worst, place = max(((found[key] - final[key]).abs().max().item(), key) for key in found)
    common.require(worst < TOLERANCE, f"{name}: {place} differs by {worst}")
    # A bias of all keys of a head alike changes no softmax, unless positions turn keys.
    moved = {key: (found[key] - weights[key]).abs().max().item() for key in found
             if not key.endswith("k_proj.bias")}
    # An expert may be nobody's choice; not all of them.
    still = [key for key, size in moved.items() if size <= 1e-4 and ".experts." not in key]
    experts = [size for key, size in moved.items() if ".experts." in key]
    common.require(sum(size > 1e-4 for size in experts) >= len(experts) / 2,
                   f"{name}: most experts were not trained")
    common.require(not still, f"{name}: not trained: {still}")
    common.ok(f"{name}: losses {' '.join(f'{loss:.6f}' for loss in losses)}, at most "
              f"{worst_loss:.0e} from transformers'; weights at most {worst:.0e}")


def check(stagecraft):
    torch.set_num_threads(1)
    data = stagecraft.path("text.txt")
    with open(data, "wb") as file:
        file.write(bytes(tokens()))
    for name, (family, keys) in CONFIGS.items():
        check_family(stagecraft, name, family, keys, data)


if __name__ == "__main__":
    common.main(check)
