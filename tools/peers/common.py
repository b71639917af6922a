"""What the checks of tools/peers have in common: asking Stagecraft, and where the packages are.

Each check is a script, `check_NAME.py STAGECRAFT`, that tries what Stagecraft writes on the real
package: it prints a line for each thing that holds, ends with 0, with 1 and a sentence at what does
not hold, or with 77 and the reason where the package is not there. One that asks several packages says
of each that is missing why it is skipped, and goes on with the others.
"""

import json
import os
import subprocess
import sys
import tempfile

FOLDER = os.environ.get("STAGECRAFT_PEERS") or os.path.join(
    os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "stagecraft", "peers")


class Skipped(SystemExit):
    """The package is not there; what asks it ends."""


def skip(reason):
    print(f"skipped: {reason}", flush=True)
    raise Skipped(77)


def each(stagecraft, *checks):
    """Runs all of them; skipped is what has nothing else."""
    skipped = 0
    for check in checks:
        try:
            check(stagecraft)
        except Skipped:
            skipped += 1
    if skipped == len(checks):
        raise Skipped(77)


def fail(sentence):
    print(f"FAILED: {sentence}")
    sys.exit(1)


def require(holds, sentence):
    if not holds:
        fail(sentence)


def ok(sentence):
    print(f"ok  {sentence}", flush=True)


def module_folder(requirement):
    """Of a package that is unpacked without what it depends on."""
    folder = os.path.join(FOLDER, "modules", requirement)
    if not os.path.isdir(folder):
        skip(f"{requirement} is not in {FOLDER}/modules; tools/peers/environment gets it")
    return folder


class Stagecraft:
    """The program, in a folder of its own."""

    def __init__(self, program):
        self.program = os.path.abspath(program)
        self.folder = tempfile.mkdtemp(prefix="stagecraft-peers-")

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *arguments):
        return subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True,
                              cwd=self.folder)

    def run(self, *arguments):
        """What it prints; ends the check where it refuses."""
        answer = self.call(*arguments)
        require(answer.returncode == 0,
                f"stagecraft {' '.join(map(str, arguments))}: exit {answer.returncode}\n"
                f"{answer.stdout}{answer.stderr}")
        return answer.stdout

    def result(self, *arguments):
        return json.loads(self.run(*arguments, "--json"))["result"]

    def plan(self, name, *arguments):
        """The path of the best plan for these arguments of `plan`."""
        self.run("plan", *arguments, "-q", "-o", name)
        return self.path(name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)


def main(check):
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} STAGECRAFT")
    check(Stagecraft(sys.argv[1]))
