#!/usr/bin/env bash
# A mixture of experts that asks for no shared expert, and gets the widest one.
#
# With transformers 5.23.0 HY-V3's configuration has `num_shared_experts`. Each block with experts has a
# feed-forward of so many times `moe_intermediate_size` that every token passes; with 0 it is not left out
# but is as wide as a dense block's feed-forward (`intermediate_size`), without a word. By default 0
# shared experts make the model larger than 1 does, by the difference of the two widths in each block.
# Nemotron-H does the same with its `moe_shared_expert_intermediate_size`.
#
# Needs python3 with venv, and the network; no GPU (torch and what it needs, 5 GB, for some minutes). Ends
# with 1 if transformers does otherwise.
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

transformers.logging.set_verbosity_error()
print("transformers", transformers.__version__)
as_stated = True
cases = [
    ("hy_v3", "num_shared_experts", (0, 1), {"num_hidden_layers": 3}),
    ("nemotron_h", "moe_shared_expert_intermediate_size", (0, 512), {"layers_block_type": ["mamba", "moe"]}),
]
for family, key, values, others in cases:
    counts, widths = [], []
    for value in values:
        config = transformers.CONFIG_MAPPING[family](**{key: value, **others})
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config)
        counts.append(sum(parameter.numel() for parameter in model.parameters()))
        widths.append(next(p.shape[0] for name, p in model.named_parameters() if "shared_experts.up_proj" in name))
        print(f"{family:11} {key} {value:4}: {counts[-1]:>14,} parameters, shared width {widths[-1]:,}"
              f" (dense {config.intermediate_size:,})")
    as_stated = as_stated and widths[0] == config.intermediate_size and counts[0] > counts[1]
sys.exit(0 if as_stated else 1)
CODE
venv/bin/python count.py
