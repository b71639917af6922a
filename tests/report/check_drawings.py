#!/usr/bin/env python3
"""The drawings that stagecraft writes (SVG), opened in a headless Chromium.

    check_drawings.py STAGECRAFT [--pictures FOLDER]

No text lies over another or is cut off: in timelines of few devices and of 1,024, in schedules, and
in a plot of measured runs over several decades, some of them far off at nearly the same place. Ends
with 0, with 1 and a sentence at what does not hold, or with 77 and the reason where there is no
Chromium.
"""

import argparse
import json
import os
import shutil
import sys

import browser
from check_page import Stagecraft, require

TEXTS = """(() => {
  const room = document.documentElement.getBoundingClientRect();
  const texts = [...document.querySelectorAll('text')].map((text) => {
    const {left, right, top, bottom} = text.getBoundingClientRect();
    return {words: text.textContent, left, right, top, bottom};
  });
  return {width: room.width, height: room.height, texts};
})()"""


def overlap(a, b):
    """By more than a pixel: boxes of text have room around their letters."""
    return (a["left"] + 1 < b["right"] and b["left"] + 1 < a["right"] and
            a["top"] + 3 < b["bottom"] and b["top"] + 3 < a["bottom"])


def check_texts(page, name, path, pictures):
    page.open(path)
    drawn = page.evaluate(TEXTS)
    if pictures:
        os.makedirs(pictures, exist_ok=True)
        page.resize(int(drawn["width"]), max(int(drawn["height"]), 100))
        page.picture(os.path.join(pictures, f"{name}.png"))
    texts = drawn["texts"]
    require(texts, f"{name} has no text")
    for text in texts:
        inside = (text["left"] >= 0 and text["top"] >= 0 and text["right"] <= drawn["width"] and
                  text["bottom"] <= drawn["height"])
        require(inside, f"{name}: \"{text['words']}\" is cut off")
    texts.sort(key=lambda text: text["top"])
    for i, text in enumerate(texts):
        for other in texts[i + 1:]:
            if other["top"] >= text["bottom"]:
                break
            require(not overlap(text, other),
                    f"{name}: \"{other['words']}\" lies over \"{text['words']}\"")
    print(f"ok  {name}: {len(texts)} texts", flush=True)


def measured_set():
    """Steps of 4 ms to 400 s; of some models a step is ten times as long as it can be."""
    rows = []
    for blocks in (1, 2, 8, 32):
        for microbatches in (1, 16, 256, 2048):
            time = 0.12 * blocks * microbatches / 8
            for factor in (0.9, 1.0, 1.1) + ((10, 10.2, 10.4) if blocks == 8 else ()):
                rows.append({
                    "label": f"{blocks} blocks and {microbatches} microbatches of Llama 2 7B on one "
                             f"A100 of 80 GB, as somebody measured it {factor} times as long",
                    "model": "llama2-7b", "blocks": blocks, "sequence": 2048,
                    "microbatches": microbatches, "step": f"{1000 * time * factor:.3f}ms"})
    return {"format": "stagecraft-measured/1", "name": "a set with quite a long name of its own",
            "device": "a100-80gb", "rows": rows}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stagecraft")
    parser.add_argument("--pictures")
    given = parser.parse_args()
    program = browser.find()
    if program is None:
        print("skipped: there is no Chromium; apt-get install chromium")
        return 77
    stagecraft = Stagecraft(given.stagecraft)
    page = browser.Page(program)
    try:
        schedule = ["--stages", 4, "--microbatches", 8, "--backward", "20ms", "--forward", "10ms"]
        for name, words in (
                ("1f1b", ["simulate", "--schedule", "1f1b", *schedule, "--svg", "1f1b.svg"]),
                ("interleaved", ["simulate", "--schedule", "interleaved", "--virtual", 2, *schedule,
                                 "--svg", "interleaved.svg"]),
                ("zb-h1", ["schedule", "show", "zb-h1", "--stages", 8, "--microbatches", 16,
                           "--format", "svg", "-o", "zb-h1.svg"])):
            stagecraft.run(*words, "-q")
            check_texts(page, name, stagecraft.path(f"{name}.svg"), given.pictures)

        stagecraft.run("plan", "gpt3-175b", "128x8xh100", "--batch", 1024, "--tp", 4, "--pp", 8,
                       "--vpp", 1, "--cp", 1, "--mbs", 1, "--schedule", "1f1b", "--gap", "50%", "-q",
                       "-o", "large.json")
        stagecraft.run("simulate", "large.json", "--svg", "large.svg", "-q")
        stagecraft.run("export", "svg", "large.json", "-q", "-o", "exported.svg")
        stagecraft.run("simulate", "--schedule", "gpipe", "--stages", 300, "--microbatches", 8,
                       "--forward", "10ms", "--backward", "20ms", "--svg", "deep.svg", "-q")
        for name in ("large", "exported", "deep"):
            check_texts(page, name, stagecraft.path(f"{name}.svg"), given.pictures)
        rows = [line for line in stagecraft.run("simulate", "large.json").splitlines()
                if line.startswith(" d")]
        require(len(rows) <= 32, f"1,024 devices take {len(rows)} rows of text")

        with open(stagecraft.path("set.json"), "w") as file:
            json.dump(measured_set(), file)
        stagecraft.run("ledger", "--sets", "set.json", "--shipped", "--plot", "ledger.svg", "-q",
                       "-o", "ledger.md")
        check_texts(page, "ledger", stagecraft.path("ledger.svg"), given.pictures)
        require(not page.complaints, f"the browser complains: {page.complaints}")
    finally:
        page.close()
        shutil.rmtree(stagecraft.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
