#!/usr/bin/env python3
"""Profiles small PyTorch models, plans them, writes the plans as programs and trains: are losses and weights those of
the model that is not cut?

    tools/peers/check_torch_programs.py STAGECRAFT [NAME…]

Models of torchvision and transformers are left out where these are not installed, and named. Ends with 77 ("skipped")
where there is no torch.
"""

import ast
import copy
import functools
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.join(HERE, "..", "python")
PATHS = [PYTHON, os.path.join(PYTHON, "tests")]
sys.path[:0] = PATHS
try:
    import torch
    import torch.distributed.pipelining  # noqa: F401
except ImportError as error:
    print(f"skipped: {sys.executable} has no torch with pipelining ({error})")
    sys.exit(77)

import models  # noqa: E402
from stagecraft.torch import Names, export, profile  # noqa: E402
from stagecraft.torch.recording import know  # noqa: E402

STEPS, TOLERANCE, INFEASIBLE = 10, 1e-6, 4
ROWS = {}  #: of each model and case, what its profile, losses and weights are against the model's
SGD = {"vgg": 0.05}

#: Each of these by each schedule, on 2 and 4 processes: model, depth
FAMILIES = [("unet", "leaf"), ("towers", "leaf"), ("shared", "leaf"), ("lists", "leaf"), ("undropped", "leaf"), ("odds", "leaf"),
            ("translator", "leaf"), ("pairs", "leaf"), ("vgg", "leaf"), ("resnet", "leaf"), ("inception", "auto"), ("vit", "leaf"), ("gpt2", "leaf"), ("qwen3", "leaf")]
SCHEDULES = ("1f1b", "gpipe", "interleaved", "zb-v")

#: And these: model, processes, depth, what plan is asked for beside batch and microbatch
CASES = [
    *[(name, processes, depth, ["--schedule", schedule, "--straight"])
      for name, depth in FAMILIES for schedule in SCHEDULES for processes in (2, 4)],
    ("unet", 2, "auto", ["--schedule", "interleaved-zb", "--straight"]),
    ("undropped", 4, "auto", ["--schedule", "1f1b", "--max-stages", "2"]),
    ("shared", 4, "auto", ["--schedule", "1f1b", "--max-stages", "2", "--fix", "stage0.layers=0..2"]),
    ("undropped", 4, "auto", ["--schedule", "1f1b", "--straight", "--split"]),
    *[(name, 4, depth, ["--schedule", schedule, "--pp", "2", "--dp", "2", "--sharding", sharding])
      for name, depth in (("undropped", "leaf"), ("shared", "leaf"), ("lists", "leaf"), ("unet", "leaf"), ("gpt2", "auto"))
      for sharding, schedules in (("zero1", ("1f1b", "gpipe", "interleaved", "zb-v")), ("zero2", ("1f1b", "interleaved")),
                                  ("zero3", ("1f1b", "interleaved"))) for schedule in schedules],
    ("shared", 4, "leaf", ["--schedule", "1f1b", "--pp", "2", "--dp", "2", "--sharding", "zero3", "--recompute", "full"]),
    ("unet", 2, "leaf", ["--schedule", "zb-h1", "--straight", "--recompute", "full"]),
    ("dropped", 2, "auto", ["--schedule", "1f1b", "--straight"]),
    ("vit", 4, "auto", ["--schedule", "1f1b", "--straight"]),
    ("convnext", 4, "leaf", ["--schedule", "zb-v", "--straight"]),
    ("t5", 4, "leaf", ["--schedule", "zb-v", "--straight"]),
    ("t5", 2, "auto", ["--schedule", "interleaved", "--straight"]),
    ("olmoe", 2, "leaf", ["--schedule", "1f1b", "--straight"]),
    ("pairs", 4, "auto", ["--schedule", "1f1b", "--max-stages", "2"]),
    ("gpt2-masked", 2, "auto", ["--schedule", "interleaved", "--straight"]),
    ("qwen3", 4, "auto", ["--schedule", "gpipe", "--straight"]),
]
BATCH, MICROBATCH = 16, 2


def needs(name):
    package = {"vgg": "torchvision", "resnet": "torchvision", "inception": "torchvision", "vit": "torchvision",
               "convnext": "torchvision", "t5": "transformers", "olmoe": "transformers", "gpt2": "transformers", "gpt2-masked": "transformers", "qwen3": "transformers"}.get(name)
    return package if package and importlib.util.find_spec(package) is None else None


def made(name):
    torch.manual_seed(1)
    return getattr(models, models.MODELS[name][0])()


def prepare(program, folder, number, case):
    """The case's program, or none where the model has too few layers for such a plan."""
    name, processes, depth, asked = case
    factory, inputs, loss, data = models.MODELS[name]
    profile_path, plan_path = (os.path.join(folder, f"{number}.{kind}.json") for kind in ("profile", "plan"))
    # What no option of plan asks for: both stages on two devices, which share each microbatch.
    is_split = "--split" in asked
    asked = [word for word in asked if word != "--split"]
    model, example = made(name), getattr(models, inputs)
    before = copy.deepcopy(model.state_dict())
    measured = profile(model, example, microbatches=[MICROBATCH, *([MICROBATCH // 2] if is_split else [])], depth=depth,
                       repeats=1, warmup=1, optimizer="sgd", loss=f"models:{loss}",
                       target=lambda samples: getattr(models, data)(0, samples)[1])
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items()), "the model changed"
    counted = sum(layer["parameters"] for layer in measured.data["model"]["layers"])
    assert counted == sum(p.numel() for p in model.parameters() if p.requires_grad), f"{name}: {counted} parameters"
    numbers = measured.measured[MICROBATCH]
    ours = sum(bytes.saved + bytes.output - bytes.output_freed for bytes in numbers.bytes)
    assert abs(ours / numbers.whole_saved - 1) < 0.1, f"{name}: saves {ours} of {numbers.whole_saved} bytes"
    measured.save(profile_path)
    answer = subprocess.run([program, "plan", profile_path, f"{2 if is_split else processes}xgeneric@1GB/s", "--batch", str(BATCH),
                             "--microbatch", str(MICROBATCH), "--optimizer", "sgd", *asked, "-o", plan_path],
                            capture_output=True, text=True)
    if answer.returncode == INFEASIBLE:
        print(f"--  {name}, {processes} processes, {depth}, {' '.join(asked[1:])}: {answer.stderr.splitlines()[-1]}", flush=True)
        return None
    if answer.returncode:
        sys.exit(f"{name}: stagecraft plan\n{answer.stdout}{answer.stderr}")
    path = os.path.join(folder, f"{number}")
    if is_split:
        replicate(plan_path)
    export(plan_path, made(name), example, path, Names(f"models:{factory}", "", f"models:{data}"),
           rate=SGD.get(name, 0.01), stagecraft=program)
    ROWS[name, number] = {"parameters": counted, "saved": ours / numbers.whole_saved,
                          "forward": sum_of(numbers, "forward"), "backward": sum_of(numbers, "backward")}
    return path


def sum_of(numbers, name):
    """Of the layers' times, against the whole model's."""
    whole = statistics.median(getattr(numbers, f"whole_{name}"))
    return sum(statistics.median(getattr(times, name)) for times in numbers.times) / whole


def processes_of(path):
    """Those that the program wants; a plan may do with fewer than there are."""
    with open(os.path.join(path, "train.py")) as file:
        line = next(line for line in file if line.startswith("RANKS = "))
    return 1 + max(rank for ranks in ast.literal_eval(line.split("=", 1)[1].split("#")[0].strip()) for rank in ranks)


def replicate(path):
    """Makes of a plan for two devices one for four, whose replicas split each microbatch."""
    with open(path) as file:
        plan = json.load(file)
    for stage in plan["stages"]:
        stage["devices"] = [[2 * stage["devices"][0][0]], [2 * stage["devices"][0][0] + 1]]
    plan["cluster"], plan["replicas"] = "4xgeneric@1GB/s", "split"
    for name in ("predicted", "search"):
        plan.pop(name)
    with open(path, "w") as file:
        json.dump(plan, file)


def part_of(tree, first):
    """A microbatch, of tensors that count samples."""
    know(tree)
    return torch.utils._pytree.tree_map_only(
        torch.Tensor, lambda tensor: tensor[first:first + MICROBATCH] if tensor.shape[:1] == (BATCH,) else tensor, tree)


@functools.cache
def train_whole(name):
    """Losses and weights of the model in one piece, with the same microbatches."""
    _, _, loss, data = (getattr(models, word) for word in models.MODELS[name])
    model = made(name)
    optimizer = torch.optim.SGD(model.parameters(), lr=SGD.get(name, 0.01))
    losses = []
    for step in range(STEPS):
        inputs, target = data(step, BATCH)
        total = 0.0
        for first in range(0, BATCH, MICROBATCH):
            part, wanted = (part_of(tree, first) for tree in (inputs, target))
            arguments = part if isinstance(part, tuple) else (part,)
            output = model(**part) if isinstance(part, dict) else model(*arguments)
            value = loss(output, wanted) / (BATCH // MICROBATCH)
            value.backward()
            total += value.item()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total)
    return losses, model.state_dict()


def run_all(folder, programs, processes):
    """All programs of as many processes, one after the other in the same ones."""
    script = os.path.join(folder, "run_all.py")
    with open(script, "w") as file:
        file.write(DRIVER)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(PATHS)}
    answer = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                             str(processes), script, *programs], capture_output=True, text=True, env=environment,
                            timeout=3000)
    if answer.returncode:
        sys.exit(f"torchrun:\n{answer.stdout[-2000:]}{answer.stderr[-20000:]}")


DRIVER = f'''
import importlib.util, sys
import torch.distributed as dist
dist.init_process_group("gloo")
for path in sys.argv[1:]:
    for name in ("stages", "train"):
        sys.modules.pop(name, None)
    sys.path.insert(0, path)
    spec = importlib.util.spec_from_file_location("train", path + "/train.py")
    train = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(train)
    print(path, flush=True)
    # PyTorch's own profiler records the first one.
    recorded = ["--kineto", path + "/kineto"] if path == sys.argv[1] else []
    train.main(["--steps", "{STEPS}", "--losses", path + "/losses.json", "--save-weights", path + "/weights.pt",
                "--profile", path + "/trace.json", *recorded])
    sys.path.remove(path)
dist.destroy_process_group()
'''


def killed_rank_ends_the_run(path):
    """A process that dies must not leave the others waiting."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(PATHS)}
    run = subprocess.Popen([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                            os.path.join(path, "train.py"), "--steps", "1000000"], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True, env=environment)
    for line in run.stdout:
        if line.startswith("step 1:"):
            break
    with open(f"/proc/{run.pid}/task/{run.pid}/children") as file:
        workers = [int(pid) for pid in file.read().split()]
    os.kill(workers[-1], signal.SIGKILL)
    try:
        run.communicate(timeout=300)
    except subprocess.TimeoutExpired:
        run.kill()
        return "a killed rank leaves the others waiting"
    print(f"{'ok' if run.returncode else 'NO'}  a killed rank ends the run", flush=True)
    return None if run.returncode else "a killed rank ends the run as if nothing had happened"


def passes_of(path):
    """Start and length of each pass, in ns from the first one's start."""
    with open(path) as file:
        events = [event["args"] | {"rank": event["pid"]} for event in json.load(file)["traceEvents"]
                  if event.get("cat") in ("compute", "collective")]
    zero = min(event["start_ns"] for event in events)
    return {tuple(event[word] for word in ("rank", "op", "stage", "microbatch", "iteration")):
            (event["start_ns"] - zero, event["duration_ns"]) for event in events}


def recorded_by_torch(program, plan, path):
    """Of a program that PyTorch's profiler recorded, too: its timeline must be the one that the program wrote itself, and
    calibrate must come closer to it."""
    folder, imported, answers = os.path.join(path, "kineto"), os.path.join(path, "imported.json"), []
    for words in (["import", "kineto", folder, "-o", imported], ["compare", plan, folder],
                  ["calibrate", plan, folder, "-o", os.path.join(path, "fitted.json"), "--plan",
                   os.path.join(path, "fitted.plan.json")]):
        answer = subprocess.run([program, *words, "--json"], capture_output=True, text=True)
        if answer.returncode:
            return f"stagecraft {' '.join(words)}: {answer.stdout}{answer.stderr}"
        answers.append(json.loads(answer.stdout)["result"])
    ours, theirs = passes_of(os.path.join(path, "trace.json")), passes_of(imported)
    if set(ours) != set(theirs):
        return f"{folder} has other passes than the program's own trace: {sorted(set(ours) ^ set(theirs))[:4]}"
    far = [statistics.median(abs(ours[key][place] - theirs[key][place]) for key in ours) for place in (0, 1)]
    fitted = answers[2]
    good = max(far) < 2e6 and abs(fitted["second"]["error"]) < max(0.2, abs(fitted["first"]["error"]))
    words = (f"recorded by torch's profiler: {answers[0]['steps']} steps, starts and lengths of passes {far[0] / 1e6:.2f} and "
             f"{far[1] / 1e6:.2f} ms apart; step {fitted['measured_ns'] / 1e6:.1f} ms, predicted {fitted['first']['error']:+.0%}, "
             f"after calibrate {fitted['second']['error']:+.0%}")
    print(f"{'ok' if good else 'NO'}  {words}", flush=True)
    return None if good else words


def judge(program, folder, number, case):
    name, processes, depth, asked = case
    path = os.path.join(folder, f"{number}")
    with open(os.path.join(path, "losses.json")) as file:
        losses = json.load(file)
    words = f"{name}, {processes} processes, {depth}, {' '.join(asked[1:])}"
    answer = subprocess.run([program, "compare", os.path.join(folder, f"{number}.plan.json"),
                             os.path.join(path, "trace.json"), "--json"], capture_output=True, text=True)
    if answer.returncode:
        return f"{words}: stagecraft compare: {answer.stdout}{answer.stderr}"
    result = json.loads(answer.stdout)["result"]
    if name == "dropped":
        good = len(losses) == STEPS and all(loss == loss for loss in losses)
        print(f"{'ok' if good else 'NO'}  {words}: trains")
        return None if good else f"{words}: losses {losses}"
    expected, weights = train_whole(name)
    worst = max(abs(a - b) for a, b in zip(losses, expected, strict=True))
    trained = torch.load(os.path.join(path, "weights.pt"), weights_only=True)
    far = max((trained[key] - tensor).abs().max().item() for key, tensor in weights.items()
              if tensor.is_floating_point())
    keys = set(trained) == set(weights)
    ROWS[name, number] |= {"losses": worst, "weights": far}
    good = worst <= TOLERANCE and far <= TOLERANCE * 10 and keys
    print(f"{'ok' if good else 'NO'}  {words}: losses differ by {worst:.1e}, weights by {far:.1e}; step predicted "
          f"{result['predicted_ns'] / 1e6:.1f} ms, measured {result['measured_ns'] / 1e6:.1f} ms", flush=True)
    return None if good else f"{words}: losses {losses}, expected {expected}"


def print_table():
    """A line for each model: its profile against the whole model (the layers' times are those of a busy machine and a single
    sweep here), and all of its programs."""
    print(f"\n{'model':12} {'parameters':>11} {'saved':>6} {'forward':>8} {'backward':>9} {'programs':>9} {'losses':>8} {'weights':>8}")
    for name in dict.fromkeys(name for name, _ in ROWS):
        rows = [row for (other, _), row in ROWS.items() if other == name]
        trained = [row for row in rows if "losses" in row]
        worst = [f"{max((row[what] for row in trained), default=float('nan')):8.1e}" for what in ("losses", "weights")]
        middle = {what: statistics.median(row[what] for row in rows) for what in ("saved", "forward", "backward")}
        print(f"{name:12} {rows[0]['parameters']:11,} {middle['saved']:6.3f} {middle['forward']:8.2f} {middle['backward']:9.2f} "
              f"{len(rows):9} {' '.join(worst)}")
    print("", flush=True)


def package_tests():
    answer = subprocess.run([sys.executable, "-m", "unittest", "discover", "-s", os.path.join(PYTHON, "tests")],
                            capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    print(f"{'NO' if answer.returncode else 'ok'}  tests of the package: {answer.stderr.split(chr(10))[-4]}", flush=True)
    return answer.stderr if answer.returncode else None


def main(program, *names):
    torch.set_num_threads(1)
    cases = [case for case in CASES if not names or case[0] in names]
    left_out = {case[0]: needs(case[0]) for case in cases if needs(case[0])}
    for name, package in left_out.items():
        print(f"--  {name}: {package} is not installed")
    cases = [case for case in cases if case[0] not in left_out]
    faults = [] if names else [package_tests()]
    with tempfile.TemporaryDirectory() as folder:
        programs, written = {}, []
        for number, case in enumerate(cases):
            path = prepare(program, folder, number, case)
            if path:
                programs.setdefault(processes_of(path), []).append(path)
                written.append((number, case))
        for processes, paths in programs.items():
            run_all(folder, paths, processes)
        two = next((paths[0] for processes, paths in programs.items() if processes == 2), None)
        if two:
            faults.append(killed_rank_ends_the_run(two))
        for paths in programs.values():
            faults.append(recorded_by_torch(program, f"{paths[0]}.plan.json", paths[0]))
        for number, case in written:
            faults.append(judge(program, folder, number, case))
    faults = [fault for fault in faults if fault]
    print_table()
    print("\n".join(faults) or f"{len(written)} programs train as their models do")
    return 1 if faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
