#!/usr/bin/env bash
# A FLOP counter that does not see the experts of a mixture.
#
# torch.utils.flop_counter.FlopCounterMode adds up a formula for each product of matrices, and an operation
# without a formula counts as nothing, without a word. With torch 2.15.0 `grouped_mm` has none, forward or
# backward, and transformers 5.23.0 computes experts by `grouped_mm` unless told otherwise. So the same
# Mixtral, of the same weights and tokens, costs about three times less by default than with
# `experts_implementation="eager"`: what is missing is every product of its experts, to the last
# operation. "batched_mm" is counted as "eager" is, and a dense Llama does not care. Who derives a
# utilisation, or the weights for a partition into stages, from these counts takes the largest part of a
# mixture for free.
#
# Needs python3 with venv, and the network (torch is large); no GPU. Ends with 1 if the packages do
# otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 transformers==5.23.0

cat > count.py <<'CODE'
import sys

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

HIDDEN, INNER, LAYERS, CHOSEN, TOKENS = 64, 128, 2, 2, 64
SMALL = dict(hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=4, num_key_value_heads=2,
             head_dim=16, intermediate_size=INNER, moe_intermediate_size=INNER, vocab_size=128)
MIXTURE = dict(num_local_experts=8, num_experts_per_tok=CHOSEN)


def operations(family, implementation):
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, **SMALL, **(MIXTURE if family != "llama" else {}))
    words = {} if implementation is None else {"experts_implementation": implementation}
    model = transformers.AutoModelForCausalLM.from_config(config, **words)
    tokens = torch.arange(TOKENS).reshape(2, -1)
    with FlopCounterMode(display=False) as counter:
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
    return counter.get_total_flops(), loss.item()


transformers.logging.set_verbosity_error()
print("torch", torch.__version__, "transformers", transformers.__version__)
# Three matrices an expert, each multiplied once forward and twice backward.
of_experts = LAYERS * TOKENS * CHOSEN * 3 * 3 * 2 * HIDDEN * INNER
as_stated = True
for family in ("llama", "mixtral", "qwen3_moe"):
    found = {name: operations(family, name)
             for name in ((None,) if family == "llama" else (None, "eager", "batched_mm"))}
    for name, (count, loss) in found.items():
        print(f"{family:9} {name or 'by default':10} {count:>12,} operations, loss {loss:.5f}")
    if family != "llama":
        missing = found["eager"][0] - found[None][0]
        print(f"{'':9} missing    {missing:>12,}, and the experts' products are {of_experts:,}")
        as_stated = as_stated and missing == of_experts and found["eager"][0] == found["batched_mm"][0]
        as_stated = as_stated and abs(found["eager"][1] - found[None][1]) < 1e-4
sys.exit(0 if as_stated else 1)
CODE
venv/bin/python -W ignore count.py
