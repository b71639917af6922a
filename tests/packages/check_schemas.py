"""Schemas and readers agree about files: check_schemas.py PROGRAM [FOLDER…].

Every file that the program writes here, and every file of our formats in the folders, is valid by its schema. Then
files are changed at random: a required member is dropped, a value gets another type, a member is added, a number
becomes negative. The program's reader refuses such a file if and only if the schema does. Skipped (77) without
python's jsonschema."""

import copy
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):  # Debian's packages are its own's
        os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])
    print("skipped: no python module jsonschema (sudo apt-get install python3-jsonschema)")
    sys.exit(77)

program = os.path.abspath(sys.argv[1])
work = pathlib.Path(tempfile.mkdtemp(prefix="stagecraft-schemas-"))
os.chdir(work)


def run(*words):
    return subprocess.run([program, *words], capture_output=True, text=True)


def wanted(*words):
    answer = run(*words)
    assert answer.returncode == 0, f"stagecraft {' '.join(words)}: {answer.stderr}"
    return answer.stdout


schemas = {row["name"]: json.loads(wanted("schema", row["name"]))
           for row in json.loads(wanted("schema", "list", "--json"))["result"]["schemas"]}
validators = {}
for name, schema in schemas.items():
    jsonschema.Draft202012Validator.check_schema(schema)
    validators[name] = jsonschema.Draft202012Validator(schema)
wrong = 0


def complain(text):
    global wrong
    wrong += 1
    print(text)


def described(node, path):
    """Every property of a schema has a description."""
    if isinstance(node, dict):
        for key, value in node.get("properties", {}).items():
            if isinstance(value, dict) and "description" not in value and "const" not in value and "if" not in path:
                complain(f"{path}.{key} has no description")
        for key, value in node.items():
            described(value, f"{path}.{key}")
    elif isinstance(node, list):
        for each in node:
            described(each, path)


for name, schema in schemas.items():
    described(schema, name)


def kind_of(document):
    """The schema's name for a file of ours, by its format."""
    found = document.get("format") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(document.get("otherData"), dict):
        found = document["otherData"].get("format")
    match = re.fullmatch(r"stagecraft-([a-z]+)/1", found) if isinstance(found, str) else None
    return match[1] if match and match[1] in validators else None


# --- Files that the program writes ----------------------------------------------------------------

wanted("plan", "tiny-gpt", "2x2xcpu", "--batch", "16", "--schedule", "1f1b,gpipe", "-o", "p.plan.json")
wanted("plan", "gpt2-124m", "4xa100", "--batch", "16", "--recompute", "layers", "--memory", "3GiB", "--tp", "1,2",
       "--gap", "50%", "--schedule", "1f1b", "-o", "layers.plan.json")
wanted("plan", "mixtral-8x7b", "2x8xh100", "--batch", "32", "--ep", "2", "--tp", "2", "--mbs", "1", "--pp", "2",
       "--schedule", "1f1b", "--gap", "50%", "-o", "experts.plan.json")
wanted("plan", "tiny-gpt", "2xcpu", "--batch", "4", "--straight", "--schedule", "1f1b", "-o", "two.plan.json")
for model in ("tiny-gpt", "mixtral-8x7b", "deepseek-v3", "vgg-small", "vit-b16", "bert-base"):
    wanted("model", "show", model, "-o", f"{model}.model.json")
for cluster in ("2x8xh100@400Gb/s", "4xcpu", "dgx-a100", "8xgeneric"):
    wanted("cluster", "show", cluster, "-o", f"{re.sub('[^a-z0-9]', '-', cluster)}.cluster.json")
wanted("profile", "tiny-gpt", "--microbatch", "1", "--repeats", "2", "-o", "tiny.profile.json")
wanted("simulate", "two.plan.json", "--trace", "two.trace.json")
wanted("run", "two.plan.json", "--steps", "2", "--checkpoint", "checkpoints", "--trace", "run.trace.json")
rows = [{"label": f"t{t} p{p}", "model": "llama3-8b", "step": f"{2 + t / 10 + p / 5}s", "peak_memory": "61GiB",
         "blocks": 32, "sequence": 4096, "microbatches": 8, "tensor": t, "pipeline": p, "recompute": "selective",
         "precision": "bf16", "sharded_optimizer": True} for t in (1, 2, 4) for p in (2, 4)]
measured = {"format": "stagecraft-measured/1", "name": "ours", "device": "h100", "devices_per_node": 8,
            "fit": ["product_rate", "memory_rate"], "rows": rows}
pathlib.Path("ours.measured.json").write_text(json.dumps(measured))
wanted("calibrate", "ours.measured.json", "-o", "ours.constants.json")
for words in (("plan", "tiny-gpt", "2xcpu", "--batch", "8", "--schedule", "gpipe"), ("simulate", "two.plan.json"),
              ("check", "two.plan.json"), ("plan", "llama3-70b", "1xh100"), ("check", "none.json"),
              ("simulate", "--schedule", "nothing"), ("doctor",), ("schedule", "list")):
    pathlib.Path(f"{words[0]}-{len(words)}.result.json").write_text(run(*words, "--json").stdout)

folders = [work, *(pathlib.Path(folder) for folder in sys.argv[2:])]
files = {}
for folder in folders:
    for path in sorted(folder.rglob("*.json")):
        try:
            document = json.loads(path.read_text())
        except (ValueError, OSError):
            continue
        if kind_of(document):
            files[path] = document
counts = {}
for path, document in files.items():
    kind = kind_of(document)
    counts[kind] = counts.get(kind, 0) + 1
    for error in list(validators[kind].iter_errors(document))[:1]:
        complain(f"{path} is no {kind}: {error.json_path}: {error.message[:200]}")
for name in sorted(set(schemas) - set(counts)):
    complain(f"no file of schema {name} was checked")
print("valid:", ", ".join(f"{count} of {name}" for name, count in sorted(counts.items())))

# --- Files that are wrong -------------------------------------------------------------------------

#: The command that reads a file of each kind, and no more than that.
READERS = {
    "plan": lambda path: ("check", path),
    "model": lambda path: ("model", "show", path),
    "cluster": lambda path: ("cluster", "show", path),
    "profile": lambda path: ("model", "show", path),
    "constants": lambda path: ("cluster", "show", "8xh100", "--constants", path),
    "measured": lambda path: ("ledger", "--sets", path),
    "trace": lambda path: ("compare", "two.plan.json", path),
    "checkpoint": lambda path: ("run", "two.plan.json", "--steps", "3", "--resume", os.path.dirname(path)),
}
#: What readers say of files that are well formed, but make no sense: no schema can say that.
SENSE = re.compile("devices may be left out|\"devices\" is missing|layer.* overlap|not placed|placed twice|no layer|"
                   "layers of the stage|the model has|devices? .* (?:is|are) not|numbers? of devices|"
                   "has no devices|shares [0-9]+ parameters|levels multiply|steps have|is not among|the graph|no whole number|"
                   "divide the batch|values, one for each layer|as in selective|beside the other tenths|"
                   "from [0-9]+ to [0-9]+ layers|leaves its|unknown schedule|"
                   "no built-in|no model|no device kind|is no cluster|cannot be read as a cluster")


def places(value, path=()):
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value[:3]):
            yield from places(item, (*path, number))


def at(document, path):
    for key in path:
        document = document[key]
    return document


def mutation(document, draw):
    """A changed copy, and what was changed; None if there is nothing there to change so."""
    document = copy.deepcopy(document)
    found = list(places(document))
    way = draw.choice(("drop", "type", "unknown", "negative"))
    if way in ("drop", "unknown"):
        path, value = draw.choice([each for each in found if isinstance(each[1], dict) and each[1]])
        if way == "unknown":
            value["unknown_member"] = 1
            return document, f"{'.'.join(map(str, path))}: a member added"
        key = draw.choice(sorted(value))
        del value[key]
        return document, f"{'.'.join(map(str, path))}: {key} dropped"
    if way == "negative":
        numbers = [path for path, value in found if isinstance(value, (int, float)) and not isinstance(value, bool)]
        if not numbers:
            return None
        path = draw.choice(numbers)
        at(document, path[:-1])[path[-1]] = -3
        return document, f"{'.'.join(map(str, path))}: -3"
    path, value = draw.choice(found[1:])
    others = [other for other in ([], {}, True, "text", 1.5, None) if type(other) is not type(value)]
    at(document, path[:-1])[path[-1]] = other = draw.choice(others)
    return document, f"{'.'.join(map(str, path))}: {other!r}"


draw = random.Random(int(os.environ.get("STAGECRAFT_SEED", "1")))
tries = int(os.environ.get("STAGECRAFT_TRIES", "64"))
both = neither = makes_no_sense = 0
sources = {}
for path, document in files.items():
    if path.is_relative_to(work):
        sources.setdefault(kind_of(document), []).append((path, document))
for attempt in range(tries):
    kind = list(READERS)[attempt % len(READERS)]
    if kind == "trace" and attempt % 16 >= 8:
        continue  # long files, and the fewest members
    original, document = draw.choice(sources[kind])
    made = mutation(document, draw)
    if made is None:
        continue
    changed, what = made
    if kind_of(changed) != kind:
        continue  # no longer a file of ours, which readers take for another's
    name = "changed.json"
    if kind == "checkpoint":
        name = "changed/step-2/manifest.json"
        pathlib.Path("changed/step-2").mkdir(parents=True, exist_ok=True)
    pathlib.Path(name).write_text(json.dumps(changed))
    errors = [] if validators[kind].is_valid(changed) else list(validators[kind].iter_errors(changed))
    answer = run(*READERS[kind](name))
    refused = answer.returncode in (2, 3)
    if answer.returncode == 1:
        complain(f"{kind}: {what}: the program has a bug: {answer.stderr}")
    elif refused and errors:
        both += 1
    elif not refused and not errors:
        neither += 1
    elif refused and (SENSE.search(answer.stderr) or kind == "checkpoint"):
        makes_no_sense += 1
    else:
        complain(f"{original.name}: {what}: the reader {'refuses' if refused else 'takes'} it, the schema "
                 f"{'refuses' if errors else 'takes'} it\n  {answer.stderr.strip()[:300]}\n  "
                 + "; ".join(f"{error.json_path}: {error.message[:100]}" for error in errors[:2]))
print(f"changed: {both} refused by both, {neither} taken by both, {makes_no_sense} refused for what they mean")
if both < tries // 4:
    complain("too few changed files were refused for this to be a test")
subprocess.run(["rm", "-rf", str(work)])
print(f"{wrong} wrong" if wrong else "schemas and readers agree")
sys.exit(1 if wrong else 0)
