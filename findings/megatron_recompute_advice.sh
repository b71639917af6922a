#!/usr/bin/env bash
# Megatron's warning about a deprecated flag advises a value that Megatron refuses.
#
# --moe-layer-recompute of megatron-core 0.19.2 still works, and warns: use --recompute-granularity selective
# --recompute-modules moe_layer instead. Who does so is stopped, as no module has that name:
#
#   AssertionError: Invalid choices for recompute_modules: {'moe_layer'} …
#
# The module is called "moe". With it alone, what backward does again is not what it was: the old flag adds it
# to the core attention, which the new one has to be told, too (core_attn moe).
#
# Needs python3 with venv, and the network; no GPU (torch, 5 GB, for some minutes). The package is unpacked,
# not installed, as its wheels are for Python 3.12 and later. Ends with 1 if it does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check torch==2.15.0 numpy packaging
venv/bin/pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
  --python-version 3.12 megatron-core==0.19.2
venv/bin/python -m zipfile -e megatron_core-*.whl .

cat > advice.py <<'CODE'
import re
import sys
import typing
import warnings

if not hasattr(typing, "override"):
    typing.override = lambda function: function  # Python 3.11

import megatron.core
import torch
from megatron.core.transformer.transformer_config import TransformerConfig

MIXTURE = dict(num_layers=2, hidden_size=64, num_attention_heads=4, num_moe_experts=4, moe_grouped_gemm=True,
               add_bias_linear=False, bf16=True, params_dtype=torch.bfloat16)

print("megatron-core", megatron.core.__version__)
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    old = TransformerConfig(**MIXTURE, moe_layer_recompute=True)
advice = [str(one.message) for one in heard if "moe-layer-recompute" in str(one.message)]
print("warned:", *advice)
print("the old flag:", old.recompute_granularity, old.recompute_modules)
advised = re.search(r"--recompute-modules (\w+)", advice[0]).group(1)
warnings.simplefilter("ignore")
try:
    TransformerConfig(**MIXTURE, recompute_granularity="selective", recompute_modules=[advised])
    refused = False
except AssertionError as error:
    print("AssertionError:", error)
    refused = advised in str(error)
new = TransformerConfig(**MIXTURE, recompute_granularity="selective", recompute_modules=["moe"])
print("moe alone:", new.recompute_granularity, new.recompute_modules)
sys.exit(0 if refused and old.recompute_modules == ["core_attn", "moe"] and new.recompute_modules == ["moe"]
         else 1)
CODE
venv/bin/python advice.py
