#!/usr/bin/env bash
# Families of which transformers ties no embeddings, whatever their configuration says.
#
# With `tie_word_embeddings: true` the language-model head of a Llama, Qwen3 or Gemma 2 is the embedding's
# matrix, and the model has vocabulary x hidden parameters less. With transformers 5.23.0 Nemotron-H and
# Kimi-Linear keep two matrices: the flag stays true in the configuration, nothing is said, and both
# values give the same number of parameters. Who counts parameters, or plans memory, from config.json
# alone is off by vocabulary x hidden.
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
expected = {"llama": True, "qwen3": True, "gemma2": True, "nemotron_h": False, "kimi_linear": False}
as_stated = True
print("transformers", transformers.__version__)
for family, ties in expected.items():
    counts = {}
    for tie in (False, True):
        config = transformers.CONFIG_MAPPING[family](hidden_size=64, tie_word_embeddings=tie)
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config)
        counts[tie] = sum(parameter.numel() for parameter in model.parameters())
    saved = counts[False] - counts[True]
    wanted = config.vocab_size * config.hidden_size if ties else 0
    print(f"{family:12} untied {counts[False]:>14,}  tied {counts[True]:>14,}  less by {saved:>12,}"
          f"  (vocabulary x hidden is {config.vocab_size * config.hidden_size:,})")
    as_stated = as_stated and saved == wanted
sys.exit(0 if as_stated else 1)
CODE
venv/bin/python count.py
