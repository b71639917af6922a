#!/usr/bin/env bash
# Pipeline plans that name modules the model has not, or leave out a third of its weights.
#
# A configuration of transformers has `base_model_pp_plan`, from which a model makes `pp_plan`: the modules
# that need not be on every rank, in order, with their inputs and outputs. With transformers 5.23.0 each
# model below says `supports_pp_plan`, and nothing compares the plan with the model:
#
#   llama             the plan has all of the weights
#   hrm_text          `layers` and `norm` do not exist; its blocks are in `L_module` and `H_module`, which
#                     are used in turns, and the plan covers a third of the weights: the vocabulary's
#   gemma3n, gemma4   the embeddings per layer are missing, more than 2,000,000,000 weights each, and with
#                     what belongs to them 35 and 40 % of the model; each layer needs its share of them as
#                     an input, which the plan's ("hidden_states", "attention_mask") do not carry either
#
# Who cuts or sizes stages by the plan alone has these weights on every rank, or on none.
#
# Needs python3 with venv, and the network; no GPU (torch and what it needs, 5 GB, for some minutes). Ends
# with 1 if transformers does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 transformers==5.23.0

cat > plans.py <<'CODE'
import sys

import torch
import transformers

# Family: the plan's modules that do not exist, the largest module with weights that it leaves out, and the
# share of the weights that it has.
EXPECTED = {"llama": (set(), None, 1.0),
            "hrm_text": ({"model.layers", "model.norm"}, "L_module", 0.322),
            "gemma3n_text": (set(), "embed_tokens_per_layer", 0.650),
            "gemma4_text": (set(), "embed_tokens_per_layer", 0.600)}


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


transformers.logging.set_verbosity_error()
print("transformers", transformers.__version__)
as_stated = True
for family, (absent, left_out, share) in EXPECTED.items():
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(transformers.CONFIG_MAPPING[family]())
    plan = set(model.pp_plan)
    there = {name for name, _ in model.named_modules()}
    planned = sum(parameter.numel() for name, parameter in model.named_parameters()
                  if any(name.startswith(f"{module}.") for module in plan))
    rest = {name: size(module) for name, module in model.model.named_children()
            if f"model.{name}" not in plan and size(module) > 0}
    print(f"{family:12} says it supports a plan: {model.supports_pp_plan}; plan has {planned:,} of"
          f" {size(model):,} weights; not there: {sorted(plan - there)}; left out: {rest}")
    as_stated = as_stated and model.supports_pp_plan and plan - there == absent
    as_stated = as_stated and max(rest, key=rest.get, default=None) == left_out
    as_stated = as_stated and abs(planned / size(model) - share) < 0.001
sys.exit(0 if as_stated else 1)
CODE
venv/bin/python -W ignore plans.py
