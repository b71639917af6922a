#!/usr/bin/env bash
# The pattern of sliding layers that EXAONE 4's configuration documents, and does not take.
#
# transformers 5.23.0 says of `sliding_window_pattern` that "LLLG" means the same as 4: three layers with a
# sliding window, then one without. The number is taken; the letters raise a TypeError, because they are
# divided by. EXAONE-MoE's configuration has the same words and the same arithmetic. Where a file lists
# `layer_types` besides, the pattern is not looked at, and the letters do no harm.
#
# Needs python3 with venv, and the network; no GPU. Ends with 1 if transformers does otherwise.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check transformers==5.23.0

cat > patterns.py <<'CODE'
import sys

import transformers

print("transformers", transformers.__version__)
as_stated = True
for family in ("exaone4", "exaone_moe"):
    for pattern in (4, "LLLG"):
        try:
            config = transformers.CONFIG_MAPPING[family](
                num_hidden_layers=4, sliding_window=4096, sliding_window_pattern=pattern)
            found = " ".join(name.split("_")[0] for name in config.layer_types)
        except TypeError as error:
            found = f"TypeError: {error}"
        print(f"{family:10} {pattern!r:6} {found}")
        listed = transformers.CONFIG_MAPPING[family](
            num_hidden_layers=1, sliding_window=4096, sliding_window_pattern=pattern,
            layer_types=["full_attention"])
        as_stated = as_stated and listed.layer_types == ["full_attention"]
        wanted = "sliding sliding sliding full" if pattern == 4 else "TypeError"
        as_stated = as_stated and found.startswith(wanted)
sys.exit(0 if as_stated else 1)
CODE
venv/bin/python patterns.py
