#!/usr/bin/env python3
"""A check of tools/peers that asks several packages says of each that is missing that it is skipped,
and goes on: here none is there.

    tests/packages/check_peers.py STAGECRAFT
"""

import os
import subprocess
import sys
import tempfile

CHECKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/peers")


def main(stagecraft):
    with tempfile.TemporaryDirectory() as nothing:
        for check, packages in (("check_partitions.py", ("deepspeed", "hetu-galvatron", "vllm")),
                                ("check_megatron.py", ("megatron-core", "megatron-bridge"))):
            answer = subprocess.run(
                [sys.executable, os.path.join(CHECKS, check), stagecraft], capture_output=True,
                text=True, env=dict(os.environ, STAGECRAFT_PEERS=nothing,
                                    PYTHONDONTWRITEBYTECODE="1"))
            said = [line for line in answer.stdout.splitlines() if line.startswith("skipped: ")]
            missing = [package for package in packages
                       if not any(package + "==" in line for line in said)]
            if missing or answer.returncode not in (0, 77):
                sys.exit(f"{check}: exit {answer.returncode}, nothing said of {missing}:\n"
                         f"{answer.stdout}{answer.stderr}")
    print("each package that is missing is named, and the others are asked")


if __name__ == "__main__":
    main(sys.argv[1])
