#!/usr/bin/env bash
# Mixtures of experts in double precision, which transformers computes only if told how.
#
# transformers 5.23.0 computes experts by `grouped_mm` unless `experts_implementation` says otherwise, and
# torch 2.15.0 has that product in single and in 16-bit precision. So a Mixtral or Qwen3-MoE model that is
# made `double()` builds, and its first forward raises a RuntimeError about matrices; a dense Qwen3 of the
# same numbers runs. With `experts_implementation="eager"` or "batched_mm" the mixtures run too, and give
# the same loss. In single precision all three agree. Who checks a program of their own against the
# library in double precision, where rounding cannot hide a mistake, has to know the word.
#
# Needs python3 with venv, and the network (torch is large); no GPU. Ends with 1 if the packages do
# otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 transformers==5.23.0

cat > double.py <<'CODE'
import sys

import torch
import transformers

SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=8, intermediate_size=48, vocab_size=61, max_position_embeddings=32)
MIXTURE = dict(num_experts_per_tok=2, num_local_experts=4)
FAMILIES = {"qwen3": SMALL, "mixtral": SMALL | MIXTURE,
            "qwen3_moe": SMALL | MIXTURE | dict(moe_intermediate_size=16)}


def loss(family, precision, implementation):
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **FAMILIES[family])
    words = {} if implementation is None else {"experts_implementation": implementation}
    model = transformers.AutoModelForCausalLM.from_config(config, **words).to(precision)
    tokens = torch.arange(24).reshape(2, 12)
    try:
        return f"{model(input_ids=tokens, labels=tokens).loss.item():.5f}"
    except RuntimeError as error:
        return f"RuntimeError: {error}"


print("torch", torch.__version__, "transformers", transformers.__version__)
as_stated = True
for family in FAMILIES:
    for precision in (torch.float32, torch.float64):
        found = {name: loss(family, precision, name)
                 for name in ((None,) if family == "qwen3" else (None, "eager", "batched_mm"))}
        print(family, precision, found)
        fails = family != "qwen3" and precision == torch.float64
        as_stated = as_stated and found[None].startswith("RuntimeError") == fails
        told = {value for name, value in found.items() if name is not None}
        as_stated = as_stated and len(told) <= 1 and not any("Error" in value for value in told)
sys.exit(0 if as_stated else 1)
CODE
venv/bin/python double.py
