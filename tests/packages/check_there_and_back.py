#!/usr/bin/env python3
"""The best plan for a framework, of every model on every cluster: its export, imported again, is the
plan, and none of the usual choices that fit is faster by our own evaluator.

    tests/packages/check_there_and_back.py STAGECRAFT [all]

Without "all" a sample: each framework, model and cluster once or more. A model that a framework does
not have, or that does not fit, is refused in a sentence, which counts as an answer.
"""

import json
import os
import subprocess
import sys
import tempfile

MODELS = {  # samples per device in a step
    "llama3-8b": 8, "llama3-70b": 4, "llama3.2-1b": 16, "llama2-13b": 8, "mistral-7b": 8,
    "qwen2-7b": 8, "gpt2-1558m": 16, "gpt3-175b": 2, "nemotron4-340b": 2, "mixtral-8x7b": 4,
    "deepseek-v2-lite": 8, "deepseek-v2": 2,
}
CLUSTERS = {"8xh100": 8, "2x8xh100": 16, "4x8xa100-80gb": 32, "8x8xh200@400Gb/s": 64,
            "4x4xgb200": 16, "16x8xh100": 128}
# A framework, the importer that reads what is exported for it, and what the file does not say.
FRAMEWORKS = {"megatron": "megatron", "megatron-bridge": "megatron", "torchtitan": "torchtitan",
              "torch": "torch", "deepspeed": "deepspeed", "vllm": "vllm"}
# Of a plan what its framework does.
PARTS = ("batch", "schedule", "weights", "replicas", "optimizer", "parallelism", "stages",
         "precision")


def cases(whole):
    every = [(model, cluster, framework) for model in MODELS for cluster in CLUSTERS
             for framework in FRAMEWORKS]
    if whole:
        return every
    models, clusters, frameworks = list(MODELS), list(CLUSTERS), list(FRAMEWORKS)
    return [(models[i], clusters[i % len(clusters)], frameworks[(i + i // 6) % len(frameworks)])
            for i in range(len(models))]


class Trial:
    def __init__(self, stagecraft, folder, case):
        self.stagecraft, self.folder = os.path.abspath(stagecraft), folder
        self.model, self.cluster, self.framework = case

    def run(self, *words):
        return subprocess.run([self.stagecraft, *map(str, words)], cwd=self.folder,
                              capture_output=True, text=True)

    def must(self, *words):
        answer = self.run(*words)
        if answer.returncode != 0:
            sys.exit(f"{self.model} on {self.cluster} for {self.framework}: "
                     f"{' '.join(map(str, words))}: exit {answer.returncode}\n{answer.stderr}")
        return answer.stdout

    def read(self, name):
        with open(os.path.join(self.folder, name)) as file:
            plan = json.load(file)
        return {part: plan.get(part) for part in PARTS}

    def plan(self):
        """Whether there is one; a sentence says why not."""
        batch = MODELS[self.model] * CLUSTERS[self.cluster]
        answer = self.run("plan", self.model, self.cluster, "--batch", batch, "--for",
                          self.framework, "--json", "-o", "plan.json")
        if answer.returncode != 0:
            if answer.returncode not in (2, 3, 4) or "error" not in answer.stdout + answer.stderr:
                sys.exit(f"{self.model} on {self.cluster} for {self.framework}: exit "
                         f"{answer.returncode}\n{answer.stderr}")
            return False
        result = json.loads(answer.stdout)["result"]
        for usual in result["alternatives"]:
            if usual["fits"] and usual["as_asked"] and usual["slower_by"] < -1e-9:
                sys.exit(f"{self.model} on {self.cluster} for {self.framework}: {usual['name']} "
                         f"is faster, by {-usual['slower_by']:.3%}")
        return True

    def there_and_back(self):
        before = self.read("plan.json")
        self.must("export", self.framework, "plan.json", "-o", "exported")
        file = "exported.py" if self.framework == "torchtitan" else "exported"
        words = []
        if self.framework == "vllm":
            batch = before["batch"]
            words = ["--batch", batch["global"], "--microbatch", batch["microbatch"],
                     "--sequence", batch["sequence"]]
        self.must("import", FRAMEWORKS[self.framework], file, "--model", self.model, "--cluster",
                  self.cluster, *words, "-o", "again.json")
        after = self.read("again.json")
        differ = [part for part in PARTS if before[part] != after[part]]
        if differ:
            sys.exit(f"{self.model} on {self.cluster} for {self.framework}: "
                     f"{', '.join(differ)} came back otherwise:\n{before[differ[0]]}\n"
                     f"{after[differ[0]]}")


def main(stagecraft, whole):
    planned = refused = 0
    for case in cases(whole):
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(stagecraft, folder, case)
            if trial.plan():
                trial.there_and_back()
                planned += 1
            else:
                refused += 1
            print(".", end="", flush=True)
    print(f"\n{planned} plans went there and back, {refused} were refused in a sentence")
    if planned < refused:
        sys.exit("most were refused")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:] == ["all"])
