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
    """The result of a verb, or None where it refuses."""
    answer = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True)
    if answer.returncode == 1:
        sys.exit(answer.stdout + answer.stderr)
    return json.loads(answer.stdout).get("result") if answer.returncode == 0 else None


def main(program, ranks="2", microbatches="6"):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for row in ask(program, "schedule", "list")["schedules"]:
            name = row["name"]
            per_rank = "1" if row["placement"] == "linear" else "2"
            shape = ["--stages", ranks, "--microbatches", microbatches, "--virtual", per_rank]
            for form in "torch", "torch-full":
                path = os.path.join(folder, f"{name}.{form}.csv")
                schedule = ask(program, "schedule", "show", name, *shape, "--format", form, "-o", path)
                if schedule is None:
                    print(f"--  {name}: torch's files cannot express it in this shape")
                    break
                if schedule["pipes"] > 1 or schedule["sequence_chunks"] > 1:
                    print(f"--  {name}: torch cannot run it")
                    break
                paths.append(path)
        sys.stdout.flush()
        return 0 if train.run(paths) else 1


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
