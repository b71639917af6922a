#!/usr/bin/env python3
"""Writes every schedule torch can run, in both forms, and trains with each: see train.py.

    tools/torch/test_schedules.py STAGECRAFT [RANKS [MICROBATCHES]]

Ends with 77 ("skipped") where there is no torch.
"""

import json
import os
import subprocess
import sys
import tempfile

try:
    import train
except ImportError as error:
    print(f"skipped: {sys.executable} has no torch with pipelining ({error})")
    sys.exit(77)


def ask(program, *arguments):
    """What a verb answers, or None where it refuses."""
    answer = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True)
    if answer.returncode not in (0, 2):
        sys.exit(answer.stdout + answer.stderr)
    return json.loads(answer.stdout) if answer.returncode == 0 else None


def main(program, ranks="2", microbatches="6"):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for row in ask(program, "schedule", "list")["result"]["schedules"]:
            name = row["name"]
            per_rank = "1" if row["placement"] == "linear" else "2"
            shape = ["--stages", ranks, "--microbatches", microbatches, "--virtual", per_rank]
            for form in "torch", "torch-full":
                path = os.path.join(folder, f"{name}.{form}.csv")
                answer = ask(program, "schedule", "show", name, *shape, "--format", form, "-o", path)
                if answer is None or answer["notes"]:
                    reason = answer["notes"][0] if answer else "not in this shape, or not at all"
                    print(f"--  {name}: {reason}")
                    break
                paths.append(path)
        sys.stdout.flush()
        return 0 if train.run(paths) else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
