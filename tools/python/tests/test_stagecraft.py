"""The module stagecraft on the program: python3 -m unittest test_stagecraft, with the program on the PATH.

$STAGECRAFT_PROGRAM names another. What a test says of plans holds for every release: no figure is from this machine."""

import dataclasses
import inspect
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from html.parser import HTMLParser

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import stagecraft
from stagecraft.program import call, option_words, program, value_text
from stagecraft.results import quantity

PIPELINE = {"schedule": "1f1b", "stages": 4, "microbatches": 8, "forward": "10ms", "backward": "20ms"}


class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = stagecraft.plan("tiny-gpt", "2xcpu", batch=8, microbatch=1, schedule="1f1b", straight=True)

    def test_a_plan_goes_from_function_to_function(self):
        found = self.found
        self.assertEqual(found.best.parallelism, stagecraft.Parallelism(pp=2))
        self.assertEqual(found.plan.microbatches, 8)
        simulated = stagecraft.simulate(found)
        self.assertEqual(simulated.step_ns, found.best.step_ns)
        self.assertEqual(simulated.peak_memory_bytes, found.best.peak_memory_bytes)
        self.assertTrue(stagecraft.check(found.plan).safe)
        self.assertEqual([row.step_ns for row in stagecraft.compare(found, found.best).rows], 2 * [found.best.step_ns])
        self.assertEqual(stagecraft.explain(found).step_ns, found.best.step_ns)
        edits = stagecraft.advise(found, top=2, depth=2).edits
        self.assertTrue(all(edit.flags and edit.step_ns < found.best.step_ns for edit in edits))
        self.assertIn("layers.0", stagecraft.export("torch", found).text)

    def test_the_script_that_pip_installs_starts_the_program_behind_it(self):
        real = program()
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "stagecraft")
            script.write_text(f"#!{sys.executable}\nimport sys\nfrom stagecraft.program import main\nsys.exit(main())\n")
            script.chmod(0o755)
            settings = {key: value for key, value in os.environ.items() if key != "STAGECRAFT_PROGRAM"}
            settings["PYTHONPATH"] = str(pathlib.Path(stagecraft.__file__).parents[1])
            for paths, code in (([folder, str(pathlib.Path(real).parent)], 0), ([folder], 1)):
                answer = subprocess.run([script, "--version"], env=settings | {"PATH": os.pathsep.join(paths)},
                                        capture_output=True, text=True, timeout=60)
                self.assertEqual(answer.returncode, code, answer.stderr)
                self.assertIn("stagecraft 0" if code == 0 else "there is no program stagecraft", answer.stdout + answer.stderr)

    def test_a_plan_that_was_changed_is_another(self):
        shorter = stagecraft.Plan({**self.found.plan.data, "batch": {**self.found.plan.data["batch"],
                                                                     "global": 4, "microbatches": 4}})
        self.assertLess(stagecraft.simulate(shorter).step_ns, self.found.best.step_ns)
        self.assertNotEqual(shorter, self.found.plan)

    def test_saved_and_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            self.assertEqual(self.found.save(path).path, pathlib.Path(path))
            self.assertEqual(stagecraft.Plan.load(path), self.found.plan)
            self.assertEqual(stagecraft.simulate(stagecraft.Plan.load(path)).step_ns, self.found.best.step_ns)
            self.assertEqual(stagecraft.simulate(pathlib.Path(path)).step_ns, self.found.best.step_ns)

    def test_a_profile_in_memory_stays_with_its_plans(self):
        measured = stagecraft.profile("tiny-gpt", repeats=1)
        self.assertEqual(measured.data["format"], "stagecraft-profile/1")
        found = stagecraft.plan(measured, "2xcpu", batch=4, straight=True, schedule="1f1b")
        self.assertFalse(found.plan.model.startswith("/"))
        self.assertEqual(stagecraft.simulate(found).step_ns, found.best.step_ns)
        with tempfile.TemporaryDirectory() as folder:
            found.save(os.path.join(folder, "p.json"))
            self.assertEqual(stagecraft.simulate(os.path.join(folder, "p.json")).step_ns, found.best.step_ns)

    def test_what_if(self):
        points = stagecraft.simulate(self.found, set={"link0": ["100%", "50%"], "device1.slow": "20%"}).points
        self.assertEqual(len(points), 3)  # as it is, and both
        self.assertEqual(points[2].changes, {"link0": "50%", "device1.slow": "20%"})
        self.assertGreater(points[2].step_ns, points[0].step_ns)

    def test_schedules_and_sweeps(self):
        # (p - 1) (F + B) of (m + p - 1) (F + B).
        result = stagecraft.simulate(**PIPELINE)
        self.assertEqual((result.step_ns, round(result.bubble, 6)), (330_000_000, round(3 / 11, 6)))
        sweep = stagecraft.simulate(**{**PIPELINE, "microbatches": range(4, 13, 4)})
        self.assertEqual([point.step_ns for point in sweep.points], [210_000_000, 330_000_000, 450_000_000])

    def test_training(self):
        result = stagecraft.run(self.found, steps=2, verify=True)
        self.assertEqual((len(result.losses), result.verified), (2, "bitwise"))
        for measured, simulated in zip(result.peak_memory_bytes, result.simulated_peak_memory_bytes, strict=True):
            self.assertTrue(0 < measured <= simulated)

    def test_lists(self):
        self.assertIn("llama3-8b", [each.name for each in stagecraft.models().models])
        self.assertIn("zb-v", [each.name for each in stagecraft.schedules().schedules])
        self.assertIn("h100", [each.name for each in stagecraft.clusters().devices])
        model = stagecraft.model("gpt2-124m")
        self.assertEqual(sum(layer.parameters for layer in model.layers), model.parameters)
        self.assertIn("stagecraft-cluster/1", stagecraft.cluster("2x4xa100").text)

    def test_every_option_of_a_verb_is_a_keyword(self):
        verbs = {row["name"]: row for row in call(["completion", "bash"], False)["result"]["verbs"]}
        left_out = {"help", "output", "json", "quiet", "verbose", "color", "ascii"}
        for verb in ("plan", "check", "simulate", "explain", "advise", "compare", "report", "run", "profile"):
            options = {name[2:].replace("-", "_") for option in verbs[verb]["options"] for name in option["names"]
                       if name.startswith("--")} - left_out
            keywords = {name.rstrip("_") for name in inspect.signature(getattr(stagecraft, verb)).parameters}
            self.assertLessEqual(options, keywords | {name + "_option" for name in keywords}, verb)

    def test_the_functions_are_those_of_this_program(self):
        folder = pathlib.Path(__file__).resolve().parents[1]
        answer = subprocess.run([sys.executable, folder / "generate_verbs", stagecraft.program(), "--check"],
                                capture_output=True, text=True)
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))


class Errors(unittest.TestCase):
    def fails(self, kind, pattern, function):
        with self.assertRaisesRegex(kind, pattern) as caught:
            function()
        self.assertEqual(caught.exception.exit_code, kind.exit_code)
        self.assertNotIn("/tmp/", caught.exception.message)
        return caught.exception

    def test_by_exit_code(self):
        self.fails(stagecraft.UsageError, "did you mean \"tiny-gpt\"", lambda: stagecraft.plan("tiny-gbt", "2xcpu"))
        self.fails(stagecraft.InputError, "none.json: cannot read", lambda: stagecraft.check("none.json"))
        found = self.fails(stagecraft.InfeasibleError, "nothing fits", lambda: stagecraft.plan("llama3-70b", "1xh100"))
        self.assertGreater(found.result["infeasible"]["short_by_bytes"], 0)
        self.assertTrue(found.help)

    def test_places_in_files(self):
        plan = stagecraft.plan("tiny-gpt", "2xcpu", batch=4, schedule="1f1b").plan
        bad = stagecraft.Plan({**plan.data, "stagse": 1})
        error = self.fails(stagecraft.InputError, "stagse", lambda: stagecraft.simulate(bad))
        self.assertTrue(error.line and error.column)

    def test_unsafe(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.csv")
            # Each row is fine by itself; together the ranks wait for each other.
            pathlib.Path(path).write_text(
                "0F0,0SEND_F0,0F1,0RECV_B0,0SEND_F1,0B0,0RECV_B1,0B1\n"
                "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n")
            error = self.fails(stagecraft.CheckError, ".", lambda: stagecraft.check(path))
            self.assertIs(error.result.safe, False)
            self.assertTrue(error.result.findings)

    def test_a_flag_that_does_not_apply(self):
        plan = stagecraft.plan("tiny-gpt", "2xcpu", batch=4, schedule="1f1b")
        self.fails(stagecraft.UsageError, "--transfer", lambda: stagecraft.simulate(plan, transfer="10s"))


class Children(unittest.TestCase):
    """With a stand-in for the program."""

    def stand_in(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "stagecraft")
        with open(path, "w") as file:
            file.write(f"#!{sys.executable}\n{script}")
        os.chmod(path, 0o755)
        before = os.environ.get("STAGECRAFT_PROGRAM")
        os.environ["STAGECRAFT_PROGRAM"] = path
        self.addCleanup(lambda: os.environ.pop("STAGECRAFT_PROGRAM") if before is None
                        else os.environ.__setitem__("STAGECRAFT_PROGRAM", before))
        return folder.name

    def test_unknown_members_are_kept(self):
        self.stand_in('print(\'{"version": "9", "command": "simulate", "result": {"step_ns": 5, "new": [1], '
                      '"memory": [{"time_ns": 1, "other": 2}]}}\')')
        result = stagecraft.simulate("p.json")
        self.assertEqual((result.step_ns, result.extra["new"], result["new"]), (5, [1], [1]))
        self.assertEqual(result.memory[0].extra["other"], 2)
        with self.assertRaises(dataclasses.FrozenInstanceError):
            result.step_ns = 6

    def test_progress_is_passed_through(self):
        self.stand_in("import sys\nsys.stderr.write('searching 3 s\\nwarning: careful\\nerror: no\\n')\n"
                      "print('{\"result\": {}}')")
        lines = []
        with self.assertWarnsRegex(stagecraft.StagecraftWarning, "careful"):
            stagecraft.simulate("p.json", progress=lines.append)
        self.assertEqual(lines, ["searching 3 s"])

    def test_an_interrupt_ends_the_child_and_keeps_what_it_has(self):
        folder = self.stand_in("""import json, os, signal, sys, time
def end(*_):
    print(json.dumps({"result": {"best": 1}, "error": {"message": "interrupted"}}))
    sys.exit(130)
signal.signal(signal.SIGINT, end)
open(os.path.join(os.path.dirname(__file__), "started"), "w").write(str(os.getpid()))
time.sleep(60)
""")
        script = f"""import sys, stagecraft
try:
    stagecraft.plan("m", "c")
except KeyboardInterrupt as interrupt:
    print(interrupt.result)
"""
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={
            **os.environ, "PYTHONPATH": str(pathlib.Path(stagecraft.__file__).parents[1])})
        started = pathlib.Path(folder, "started")
        while not (started.exists() and started.read_text()):
            time.sleep(0.02)
        child.send_signal(2)
        self.assertEqual(child.communicate(timeout=20)[0].strip(), "{'best': 1}")
        with self.assertRaises(ProcessLookupError):
            os.kill(int(started.read_text()), 0)

    def test_answers_that_cannot_be_read(self):
        self.stand_in("import sys\nsys.stderr.write('Segmentation fault')\nsys.exit(139)")
        with self.assertRaisesRegex(stagecraft.ProgramBug, "Segmentation fault"):
            stagecraft.simulate("p.json")
        os.environ["STAGECRAFT_PROGRAM"] = "/nowhere/stagecraft"
        with self.assertRaisesRegex(stagecraft.ExecutionError, "cannot be started"):
            stagecraft.models()


class Words(unittest.TestCase):
    def test_values(self):
        self.assertEqual(value_text([1, 2, "auto"]), "1,2,auto")
        self.assertEqual(value_text(range(4, 17, 4)), "4..16:4")
        self.assertEqual(value_text({"compute": "5%"}), "compute=5%")
        self.assertEqual(option_words("--set", {"tp": [1, 2], "pp": 4}, False, True), ["--set=tp=1,2", "--set=pp=4"])
        self.assertEqual(option_words("--verify", True, True, False), ["--verify"])
        self.assertEqual(option_words("--verify", False, True, False), [])
        self.assertEqual(option_words("--batch", None, False, False), [])
        self.assertEqual(option_words("--batch", 8, False, False), ["--batch=8"])

    def test_quantities(self):
        self.assertEqual(quantity("step_ns", 26_332_694), "26.33 ms")
        self.assertEqual(quantity("peak_memory_bytes", (1 << 30, 3 << 30)), "1 GiB … 3 GiB")
        self.assertEqual(quantity("bubble", 0.1234), "12.3 %")
        self.assertEqual(quantity("tokens_per_second", 78380.4), "78,380")


class Notebooks(unittest.TestCase):
    class Tags(HTMLParser):
        def __init__(self, text):
            super().__init__()
            self.tags = []
            self.feed(text)

        def handle_starttag(self, tag, attributes):
            self.tags.append((tag, dict(attributes)))

    def test_a_plan_is_its_page(self):
        found = stagecraft.plan("tiny-gpt", "2xcpu", batch=8, microbatch=1, schedule="1f1b", straight=True)
        for shown in (found, found.best, found.plan, stagecraft.report(found)):
            (tag, attributes), = self.Tags(shown._repr_html_()).tags
            self.assertEqual(tag, "iframe")
            self.assertTrue(attributes["srcdoc"].startswith("<!doctype html>"))
            self.assertTrue(attributes["srcdoc"].rstrip().endswith("</html>"))
            self.assertIn("tiny-gpt", attributes["srcdoc"])
            self.assertNotIn(tempfile.gettempdir(), attributes["srcdoc"])  # its commands can be copied
        self.assertIn("</html>", stagecraft.report(found).html)

    def test_others_are_small_tables(self):
        for shown in (stagecraft.simulate(**PIPELINE), stagecraft.models(), stagecraft.schedules(),
                      stagecraft.simulate(**{**PIPELINE, "microbatches": [4, 8]}), stagecraft.model("tiny-gpt")):
            text = shown._repr_html_()
            self.assertEqual(self.Tags(text).tags[0][0], "table")
            self.assertLess(len(text), 50_000)
        self.assertIn("330 ms", stagecraft.simulate(**PIPELINE)._repr_html_())
        self.assertIn("&lt;b&gt;", stagecraft.results.table([{"name": "<b>"}]))


if __name__ == "__main__":
    unittest.main()
