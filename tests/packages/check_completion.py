"""Completes command lines in the shells themselves: check_completion.py PROGRAM.

What is offered is compared with what the program's own lists say. A shell that is not installed is left out; with none
at all the test is skipped (77)."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

program = os.path.abspath(sys.argv[1])
folder = tempfile.mkdtemp(prefix="stagecraft-completion-")
os.symlink(program, os.path.join(folder, "stagecraft"))
environment = {**os.environ, "PATH": folder + ":" + os.environ["PATH"], "HOME": folder, "TERM": "xterm"}
for name in ("plan.json", "my plan.json"):
    open(os.path.join(folder, name), "w").close()
os.mkdir(os.path.join(folder, "plans"))


def answer(*words):
    run = subprocess.run([program, *words, "--json"], capture_output=True, text=True)
    return json.loads(run.stdout)["result"]


verbs = [row["name"] for row in answer("completion", "bash")["verbs"]]
schedules = [row["name"] for row in answer("schedule", "list")["schedules"]]
models = [row["name"] for row in answer("model", "list")["models"]]
clusters = answer("cluster", "list")
devices = [row["name"] for row in clusters["devices"]] + clusters["clusters"]
schemas = [row["name"] for row in answer("schema", "list")["schemas"]]
flags = {row["name"]: [name for option in row["options"] for name in option["names"] if name.startswith("--")]
         for row in answer("completion", "bash")["verbs"]}
files = ["plan.json", "my plan.json", "plans"]

#: A command line, and what must be offered for its last word; with True, nothing else is.
CASES = [
    ("", verbs, True),
    ("sche", ["schedule", "schema"], True),
    ("plan --sche", ["--schedule"], True),
    ("plan --", flags["plan"], True),
    ("simulate --re", [flag for flag in flags["simulate"] if flag.startswith("--re")], True),
    ("plan --recompute ", ["auto", "none", "selective", "full", "layers"], True),
    ("plan --sharding zero", ["zero1", "zero2", "zero3"], True),
    ("plan --for ", ["megatron", "torchtitan", "torch", "deepspeed", "vllm", "stagecraft"], False),
    ("plan --strategy ex", ["exact"], True),
    ("plan --schedule ", [*schedules, "auto"], False),
    ("plan --schedule 1f1b,zb-h", ["1f1b,zb-h1", "1f1b,zb-h2"], True),
    ("plan gpt2-", [name for name in models if name.startswith("gpt2-")], True),
    ("plan gpt2-124m h", [name for name in devices if name.startswith("h")], True),
    ("plan gpt2-124m 4x8xh10", ["4x8xh100", "4x8xh100-96gb", "4x8xh100-pcie", "4x8xh100-nvl"], True),
    ("plan --batch 8 gpt2-124m dgx", [name for name in devices if name.startswith("dgx")], True),
    ("plan --batch ", [], True),
    ("schedule ", ["list", "show", "check"], True),
    ("schedule show zb-", [name for name in schedules if name.startswith("zb-")], True),
    ("schedule show 1f1b --format to", ["torch", "torch-full"], True),
    ("model show bert", [name for name in models if name.startswith("bert")], True),
    ("cluster show --constants pl", ["plan.json", "plans"], True),
    ("schema ", schemas, True),
    ("run pl", ["plan.json", "plans"], True),
    ("run plan.json --transport ", ["threads", "mpi", "tcp", "nccl"], True),
    ("run plan.json --checkpoint pl", ["plans"], True),
    ("export meg", ["megatron", "megatron-bridge"], True),
    ("export megatron my", ["my plan.json"], True),
    ("import hug", ["huggingface"], True),
    ("compare plan.json my", ["my plan.json"], True),
    ("simulate plan.json --set mb", ["mbs="], True),
    ("advise plan.json --keep tp,p", ["tp,pp", "tp,precision", "tp,prompt-tokens"], True),
    ("profile tiny-gpt --precision fp", ["fp32", "fp64"], True),
    ("completion ", ["bash", "zsh", "fish"], True),
]


def bash(line):
    """What the function of `complete -F` puts into COMPREPLY."""
    script = f"""source <(stagecraft completion bash)
complete -p stagecraft >/dev/null || exit 1
compopt() {{ :; }}
IFS=$'\\n' read -r -d '' -a COMP_WORDS < <(printf '%s\\n' {line_words(line)}; printf '\\0')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
[[ ${{COMP_WORDS[COMP_CWORD]}} == '<empty>' ]] && COMP_WORDS[COMP_CWORD]=
_stagecraft stagecraft
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    run = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, cwd=folder, env=environment)
    assert run.returncode == 0 and not run.stderr, run.stderr
    return [each for each in run.stdout.split("\n") if each]


def line_words(line):
    words = ["stagecraft", *line.split(" ")]
    return " ".join("'<empty>'" if word == "" else f"'{word}'" for word in words)


def fish(line):
    script = f"stagecraft completion fish | source; complete -C 'stagecraft {line}'"
    run = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, cwd=folder,
                         env=environment)
    assert run.returncode == 0 and not run.stderr, run.stderr
    return [each.split("\t")[0].replace("\\ ", " ").rstrip("/") for each in run.stdout.split("\n") if each]


class Zsh:
    """Zsh in a terminal, whose compadd writes down what it is given."""

    def __init__(self):
        self.child, self.terminal = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], environment)
        self.tell("PS1='ready> '; unsetopt beep; autoload -Uz compinit; compinit -u -D; zstyle ':completion:*' "
                  "list-grouped false; LISTMAX=0")
        self.tell("source <(stagecraft completion zsh)")
        self.tell("compadd() { local -a given; builtin compadd -O given \"$@\"; "
                  "print -rl -- \"$IPREFIX\"${^given} >> offered; builtin compadd \"$@\" }")
        os.write(self.terminal, b"bindkey '^I' complete-word; print 're''ady now'\n")
        end, text = time.monotonic() + 60, ""
        while "ready now" not in text and time.monotonic() < end:
            text += self.read(1.0)

    def tell(self, line):
        os.write(self.terminal, (line + "\n").encode())
        self.read()

    def read(self, most=5.0, idle=0.25):
        """Until nothing has come for a while."""
        end = time.monotonic() + most
        text = ""
        while time.monotonic() < end and select.select([self.terminal], [], [], idle)[0]:
            try:
                text += os.read(self.terminal, 65536).decode(errors="replace")
            except OSError:
                break
        return text

    def __call__(self, line):
        offered = os.path.join(folder, "offered")
        if os.path.exists(offered):
            os.remove(offered)
        os.write(self.terminal, b"\x15stagecraft " + line.encode() + b"\t")
        # Where something is to be offered, a busy machine has time to do so.
        end = time.monotonic() + (1 if line in ("plan --batch ",) else 30)
        while not os.path.exists(offered) and time.monotonic() < end:
            self.read(0.5)
        self.read()
        os.write(self.terminal, b"\x03")
        self.read(idle=0.05)
        if not os.path.exists(offered):
            return []
        with open(offered) as file:
            return [re.sub(r"\\(.)", r"\1", each).rstrip("/") for each in file.read().split("\n") if each]


def check(shell, complete, cases=CASES):
    wrong = 0
    for line, expected, is_all in cases:
        offered = [word for word in complete(line) if word != "offered"]
        if shell == "zsh":  # it keeps what is typed apart
            before = re.match(r".*(,|\d+x)", line.split(" ")[-1])
            head = before.group(0) if before else ""
            offered = [word if word.startswith(head) else head + word for word in offered]
        if shell == "fish" and line == "":
            offered = [word for word in offered if word in verbs]
        missing = sorted(set(expected) - set(offered))
        # Beside words and files, a shell may offer options, and the files of its own functions.
        more = sorted(set(offered) - set(expected)) if is_all else []
        if shell != "bash":
            more = [word for word in more if not word.startswith("-")]
        if missing or more:
            wrong += 1
            print(f"{shell}: stagecraft {line}<TAB>: missing {missing}, not expected {more}")
    print(f"{shell}: {len(cases) - wrong} of {len(cases)} command lines completed as expected")
    return wrong


# Options with short names, and values behind "=" as bash parts them.
PARTED = [("plan --batch = 8 gpt2-124m dgx", [name for name in devices if name.startswith("dgx")], True),
          ("plan --sharding = zero1", ["zero1"], True), ("plan --sharding =", [], False)]

wrong, tried = 0, 0
if shutil.which("bash"):
    wrong += check("bash", bash, CASES + PARTED)
    tried += 1
if shutil.which("fish"):
    # Fish completes "a b" from "a\ b", and lists only from its own token.
    wrong += check("fish", fish)
    tried += 1
else:
    print("fish: left out, not installed")
if shutil.which("zsh"):
    wrong += check("zsh", Zsh(), [case for case in CASES if case[0] != "plan --"])
    tried += 1
else:
    print("zsh: left out, not installed")
shutil.rmtree(folder)
sys.exit(1 if wrong else 0 if tried else 77)
