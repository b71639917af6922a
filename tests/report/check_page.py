#!/usr/bin/env python3
"""The page of `stagecraft report`, opened in a headless Chromium.

    check_page.py STAGECRAFT [--positions N] [--seed S] [--pictures FOLDER]

For a plan of every schedule, the page's step has to be that of `stagecraft simulate --set …` to the
nanosecond at N random positions of its sliders (4; 200 takes minutes). The page asks for nothing
from outside, complains about nothing, paints a plan of 16 devices and 64 microbatches within a
second, prints on two sheets, and is not broken by markup in names. Ends with 0, with 1 and a
sentence at what does not hold, or with 77 and the reason where there is no Chromium.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import browser

def fail(sentence):
    print(f"FAILED: {sentence}")
    sys.exit(1)


def require(holds, sentence):
    if not holds:
        fail(sentence)


class Stagecraft:
    def __init__(self, program):
        self.program = os.path.abspath(program)
        self.folder = tempfile.mkdtemp(prefix="stagecraft-page-")

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *words):
        return subprocess.run([self.program, *map(str, words)], capture_output=True, text=True,
                              cwd=self.folder)

    def run(self, *words):
        answer = self.call(*words)
        require(answer.returncode == 0, f"stagecraft {' '.join(map(str, words))}: exit "
                f"{answer.returncode}\n{answer.stdout}{answer.stderr}")
        return answer.stdout

    def result(self, *words):
        return json.loads(self.run(*words, "--json"))["result"]


def plans_of_all_schedules(stagecraft):
    """Paths by name; the reasons why others have none."""
    plans, without = {}, {}
    for row in stagecraft.result("schedule", "list")["schedules"]:
        name = row["name"]
        path = f"{name}.plan.json"
        drains = row["synchronous"] or name == "inference"
        answer = stagecraft.call("plan", "gpt2-124m", "4xa100@100Gb/s", "--batch", 32,
                                 "--microbatch", 2, "--tensor-parallel", 1, "--straight",
                                 "--schedule", name, "--gap", "50%", "-q", "-o", path,
                                 *([] if drains else ["--objective", "throughput"]))
        if answer.returncode == 0:
            plans[name] = path
        else:
            without[name] = answer.stderr.strip().splitlines()[0]
    # Replicas and peers: the page simulates one of several alike pipelines.
    stagecraft.run("plan", "gpt2-124m", "2x4xa100@100Gb/s", "--batch", 64, "--microbatch", 8,
                   "--tensor-parallel", 2, "--max-stages", 2, "--schedule", "1f1b", "--gap", "50%",
                   "-q", "-o", "replicas.json")
    plans["1f1b with replicas"] = "replicas.json"
    for sharding in ("zero2", "zero3"):
        stagecraft.run("plan", "gpt2-350m", "2x4xa100@100Gb/s", "--batch", 64, "--pp", 1,
                       "--sharding", sharding, "--gap", "50%", "-q", "-o", f"{sharding}.json")
        plans[sharding] = f"{sharding}.json"
    return plans, without


SETTINGS = """(count, seed) => {
  let state = seed;
  const below = (n) => { state = (state * 1103515245 + 12345) % 2147483648; return Math.floor(state / 2147483648 * n); };
  const {json, rows} = stagecraft.whatIf;
  const settings = [structuredClone(stagecraft.whatIf.now)];
  while (settings.length < count) {
    const one = json.programs[below(json.programs.length)];
    settings.push({microbatches: one.microbatches, recompute: one.recompute,
                   axes: json.axes.map((axis) => below(axis.percent.length)),
                   slow: {device: below(rows.length), percent: below(3) ? 5 * below(21) : 0}});
  }
  return settings;
}"""


def check_steps(stagecraft, page, name, plan, positions, seed):
    """The page's steps at random positions are the simulator's."""
    path = stagecraft.path(plan + ".html")
    stagecraft.run("report", plan, "-q", "-o", path)
    page.open(path)
    asked = page.evaluate(f"""(async () => {{
      await stagecraft.ready;
      const answers = [];
      for (const setting of ({SETTINGS})({positions}, {seed})) {{
        answers.push([stagecraft.whatIf.changes(setting), await stagecraft.step(setting)]);
      }}
      return answers;
    }})()""")
    require(len(asked) == positions, f"{name}: the page answers {len(asked)} of {positions}")
    for changes, step in asked:
        words = [word for change in changes for word in ("--set", change)]
        expected = stagecraft.result("simulate", plan, *words)["step_ns"]
        require(step == expected, f"{name}: with {' '.join(changes) or 'no change'} the page says "
                f"{step} ns, stagecraft simulate {expected} ns")
    return len({tuple(changes) for changes, _ in asked})


def check_page(stagecraft, page, plan, *more):
    path = stagecraft.path("page.html")
    stagecraft.run("report", plan, *more, "-q", "-o", path)
    size = os.path.getsize(path)
    require(size < 2_000_000, f"the page of {plan} has {size} bytes")
    page.open(path)
    page.evaluate("stagecraft.ready")
    outside = [url for url in page.requests if not url.startswith(("file://", "data:"))]
    require(not outside, f"the page asks for {outside}")
    return size


def first_paint(page):
    return page.evaluate("""new Promise((resolve) => setTimeout(() => resolve(
        performance.getEntriesByName("first-contentful-paint").map((e) => e.startTime)[0]), 300))""")


def check_narrow(page, name):
    """On a phone no column of the advice and the inputs is behind the edge, and the text says that
    pipeline ranks and stages have numbers only where they are drawn."""
    page.resize(360, 900)
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))")
    hidden = page.evaluate("""[...document.querySelectorAll('.scroll')].filter((box) =>
        box.offsetParent && box.scrollWidth > box.clientWidth + 1 &&
        box.getAttribute('aria-label') === 'edits that shorten the step').map((box) => box.scrollWidth)""")
    require(not hidden, f"{name}: the advice is {hidden} pixels wide in a window of 360")
    page.resize(1600, 1000)
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))")
    numbers, said, stages, marked, says_all = page.evaluate("""(() => {
      const section = (name) => [...document.querySelectorAll('section')].find(
          (one) => one.querySelector('h2') && one.querySelector('h2').textContent === name);
      const cluster = section('Stages on the cluster'), strip = section('Layers and stages');
      return [cluster.querySelectorAll('svg text').length > 0,
              cluster.textContent.includes('Numbers are pipeline ranks'),
              report.plan.stages.length, strip.querySelectorAll('.muted > span').length,
              strip.textContent.includes('a line and a number for each stage')];
    })()""")
    require(numbers == said, f"{name}: numbers of ranks are {'' if numbers else 'not '}drawn, and the "
            f"text says {'that they are' if said else 'nothing of them'}")
    require((marked == stages) == says_all, f"{name}: {marked} of {stages} stages have numbers, which "
            "the text does not say so")


def take_pictures(page, folder, name):
    os.makedirs(folder, exist_ok=True)
    for width in (360, 1600):
        for is_dark in (False, True):
            page.resize(width, 900)
            page.dark(is_dark)
            page.evaluate("new Promise((resolve) => setTimeout(resolve, 300))")
            wide = page.evaluate("document.documentElement.scrollWidth")
            require(wide <= width, f"{name} is {wide} pixels wide in a window of {width}")
            page.picture(os.path.join(folder, f"{name}-{width}-{'dark' if is_dark else 'light'}.png"))
    page.dark(False)
    page.resize(1600, 1000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stagecraft")
    parser.add_argument("--positions", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pictures")
    given = parser.parse_args()
    program = browser.find()
    if program is None:
        print("skipped: there is no Chromium; apt-get install chromium")
        return 77
    stagecraft = Stagecraft(given.stagecraft)
    page = browser.Page(program)
    try:
        plans, without = plans_of_all_schedules(stagecraft)
        for name, plan in plans.items():
            different = check_steps(stagecraft, page, name, plan, given.positions, given.seed)
            print(f"ok  {name}: {given.positions} positions, {different} of them different", flush=True)
        for name, reason in without.items():
            print(f"--  {name}: no plan: {reason}")

        stagecraft.run("plan", "gpt2-774m", "16xa100@100Gb/s", "--batch", 64, "--microbatch", 1,
                       "--schedule", "1f1b", "--tensor-parallel", 1, "--straight", "--gap", "50%",
                       "-q", "-o", "wide.json")
        size = check_page(stagecraft, page, "wide.json")
        paint = first_paint(page)
        require(paint is not None and paint < 1000, f"the first paint takes {paint} ms")
        sheets = page.printed_pages()
        require(sheets == 2, f"the page is printed on {sheets} sheets")
        print(f"ok  16 devices, 64 microbatches: {size} bytes, first paint after {paint:.0f} ms, "
              f"{sheets} sheets")
        check_narrow(page, "16 devices, 64 microbatches")
        if given.pictures:
            take_pictures(page, given.pictures, "wide")
        stagecraft.run("plan", "gpt3-175b", "128x8xa100-80gb", "--batch", 1536, "--for", "megatron",
                       "--pp", 8, "--tp", 8, "--vpp", 6, "--cp", 1, "--gap", "50%", "-q", "-o",
                       "large.json")
        size = check_page(stagecraft, page, "large.json")
        sheets = page.printed_pages()
        require(sheets == 2, f"the page of 1,024 devices is printed on {sheets} sheets")
        check_narrow(page, "1,024 devices")
        if given.pictures:
            take_pictures(page, given.pictures, "large")
        print(f"ok  1,024 devices: {size} bytes, {sheets} sheets; on a phone all of its advice")

        model = "</script><img src=x onerror=alert(1)>"
        stagecraft.run("model", "show", "tiny-gpt", "-q", "-o", "m.json")
        with open(stagecraft.path("m.json")) as file:
            shown = json.load(file)
        shown["name"] = model
        with open(stagecraft.path("m <b>&.json"), "w") as file:
            json.dump(shown, file)
        stagecraft.run("plan", "m <b>&.json", "2xcpu", "--batch", 8, "--straight", "-q", "-o", "m.plan.json")
        check_page(stagecraft, page, "m.plan.json")
        images = page.evaluate("document.images.length + document.querySelectorAll('b img, h1 b').length")
        require(images == 0, "a name became markup")
        require(model in page.evaluate("document.querySelector('h1').textContent"),
                "the title does not show the model's name")
        print("ok  markup in names stays text")

        stagecraft.run("run", "m.plan.json", "--steps", 3, "--backend", "sleep", "--trace", "run.json", "-q")
        check_page(stagecraft, page, "m.plan.json", "run.json", "--against", "m.plan.json")
        headings = page.evaluate("[...document.querySelectorAll('h2')].map((h) => h.textContent)")
        for heading in ("What if", "Timeline", "Memory over time", "Predicted and measured",
                        "From ideal compute to the step", "Alternatives", "Layers and stages",
                        "Stages on the cluster", "Against the other plan", "Launch",
                        "Where this comes from"):
            require(heading in headings, f"the page has no \"{heading}\" but {headings}")
        with open(stagecraft.path("run.json")) as file:
            run = json.load(file)
        for busy, verdict in (("", "the prediction is off by"), ("load 9", "busy machine")):
            about = run["otherData"]["about"]
            about.pop("busy", None)
            if busy:
                about["busy"] = busy
            with open(stagecraft.path("told.json"), "w") as file:
                json.dump(run, file)
            check_page(stagecraft, page, "m.plan.json", "told.json")
            text = page.evaluate("document.body.textContent")
            require(verdict in text and busy in text, f"the page does not say \"{verdict}\"")
        nameless = page.evaluate("""[...document.querySelectorAll('canvas, svg, input, select, button')]
            .filter((e) => !e.getAttribute('aria-label') && !e.textContent.trim()).length""")
        require(nameless == 0, f"{nameless} drawings or controls have no name for screen readers")
        if given.pictures:
            take_pictures(page, given.pictures, "run")
        print("ok  a run and another plan beside it")

        stagecraft.run("simulate", "wide.json", "-q", "--trace", "wide.trace.json")
        for more in (["wide.trace.json"], ["wide.trace.json", "--against", "wide.json"],
                     ["--against", "replicas.json"]):
            check_page(stagecraft, page, "wide.json", *more)
            sheets = page.printed_pages()
            require(sheets == 2, f"with {' '.join(more)} the page is printed on {sheets} sheets")
            smallest = page.evaluate("""(() => {
              dispatchEvent(new Event('beforeprint'));
              const zooms = [...document.querySelectorAll('.sheet')].map((e) => Number(e.style.zoom || 1));
              dispatchEvent(new Event('afterprint'));
              return Math.min(...zooms);
            })()""")
            require(smallest > 0.7, f"with {' '.join(more)} the page is printed at {smallest:.2f} of its size")
            print(f"ok  with {' '.join(more)}: {sheets} sheets, at {smallest:.2f} of the usual size")

        check_page(stagecraft, page, plans["inference"])
        text = page.evaluate("document.body.innerText")
        for words in ("first token", "requests/s", "Requests", "Advice"):
            require(words in text, f"a page of inference does not say \"{words}\"")
        controls = page.evaluate("[...document.querySelectorAll('input, select')].map((e) => e.ariaLabel)")
        require("recompute" not in controls, "a page of inference has a control for recomputation")
        require(page.printed_pages() == 2, "a page of inference is not printed on two sheets")
        require(" 1 stages" not in " " + text and " 1 devices" not in text, "one of a thing is called many")
        hashes = page.evaluate("[...document.querySelectorAll('#foot code')].map((e) => e.textContent)")
        require(all(text.startswith("xxh3:") for text in (hashes[0], hashes[2])),
                f"inputs have the hashes {hashes}")
        print("ok  a plan for inference: its first token, its requests, no recomputation")
        require(not page.complaints, f"the browser complains: {page.complaints}")
        print("ok  no complaint of the browser, nothing asked for from outside")
    finally:
        page.close()
        shutil.rmtree(stagecraft.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
