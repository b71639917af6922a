"""What stagecraft.torch records of models, and what it refuses.

    python -m unittest discover -s tools/python/tests
"""

import contextlib
import importlib.util
import io
import json
import os
import re
import statistics
import sys
import tempfile
import unittest
import unittest.mock

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."),
                os.path.dirname(os.path.abspath(__file__))]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import models  # noqa: E402
from stagecraft.torch import ModelError, Names, export, profile, trace  # noqa: E402
from stagecraft.torch.__main__ import main  # noqa: E402
from stagecraft.torch.recording import function_name, identifier, run_node, tensors_in, unchanged  # noqa: E402
from stagecraft.torch.recording import named as function_named  # noqa: E402
from stagecraft.torch.trying import can_split  # noqa: E402

SHARED = os.environ.get("STAGECRAFT_SHARED")
HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None


def replay(graph, example):
    """What the model gives, layer by layer, in another order of dependences than the model's: the last first."""
    recording = graph.recording
    inputs = tensors_in(example)
    values = {recording.nodes[node].writes[0]: tensor for node, tensor in zip(recording.inputs, inputs)}
    for layer in graph.layers:
        for node in layer.nodes:
            if recording.nodes[node].kind != "input":
                run_node(recording.nodes[node], graph.model, values)
    return [values[value] for value, _ in recording.output_values]


def plan_of_lists(folder, model=None, depth="auto"):
    """A profile and a plan of two stages, in files m.json and p.json."""
    measured = profile(model or models.lists(), models.list_inputs, microbatches=[2], depth=depth, repeats=1, warmup=0)
    measured.save(os.path.join(folder, "m.json"))
    plan = {"format": "stagecraft-plan/1", "model": "m.json", "cluster": "2xcpu",
            "batch": {"global": 8, "microbatch": 2, "microbatches": 4}, "schedule": {"name": "1f1b"},
            "stages": [{"layers": [0, 1], "devices": [[0]]}, {"layers": [1, len(measured.graph.layers)], "devices": [[1]]}]}
    with open(os.path.join(folder, "p.json"), "w") as file:
        json.dump(plan, file)
    return plan


def read_layers(folder):
    with open(os.path.join(folder, "m.json")) as file:
        return json.load(file)["model"]["layers"]


def pipedream_graph(name):
    """Kinds of layers by number, without the input, and edges: views counted as what they are views of."""
    with open(os.path.join(SHARED, "data", "pipedream", name, "graph.txt")) as file:
        lines = file.read().splitlines()
    kinds, edges = {}, []
    for line in lines:
        if line.startswith("\t"):
            edges.append(tuple(int(number) for number in re.findall(r"node(\d+)", line)))
        else:
            number, words = line.split(" -- ")[:2]
            kinds[int(number[4:])] = words.split("(")[0]
    free = {"Input", "View", "Size", "Reshape"}
    for number in sorted(kinds):
        if kinds[number] in free:
            before = [a for a, b in edges if b == number and kinds[a] not in free]
            edges = [(before[0] if before else 0, b) if a == number else (a, b) for a, b in edges if b != number]
    order = {number: place for place, number in enumerate(n for n in sorted(kinds) if kinds[n] not in free)}
    return [kinds[number] for number in order], sorted({(order[a], order[b]) for a, b in edges if a in order})


def our_graph(graph):
    """The same of ours."""
    def kind(layer):
        nodes = [graph.recording.nodes[node] for node in layer.nodes]
        modules = [type(graph.model.get_submodule(node.target)).__name__ for node in nodes if node.kind == "layer"]
        return modules[0] if modules else "Add"
    return [kind(layer).replace("AdaptiveAvgPool2d", "AvgPool2d") for layer in graph.layers], graph.edges


def edges_by_export(model, example, paths):
    """Pairs of layers of which one reads the other, perhaps through functions between them: as torch.export sees it."""
    arguments = example if isinstance(example, tuple) else (example,)
    program = torch.export.export(model, arguments, strict=False)
    sources, edges = {}, set()
    for node in program.graph.nodes:
        before = set().union(*(sources[other] for other in node.all_input_nodes))
        stack = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
        layer = next((path for path in stack if path in paths), None)
        edges |= {(other, layer) for other in before if layer and other != layer}
        sources[node] = {layer} if layer else before
    return edges


def edges_between_modules(graph):
    """The same of a recording."""
    modules = [next((graph.recording.nodes[node].target for node in layer.nodes
                     if graph.recording.nodes[node].kind == "layer"), None) for layer in graph.layers]
    sources, edges = {}, set()
    for number, name in enumerate(modules):
        before = set().union(*(sources[a] for a, b in graph.edges if b == number))
        edges |= {(other, name) for other in before if name}
        sources[number] = {name} if name else before
    return edges


class Graphs(unittest.TestCase):
    def test_graphs_are_those_that_torch_export_finds(self):
        makers = {name: (getattr(models, name), getattr(models, models.MODELS[name][1]))
                  for name in ("unet", "towers", "lists", *(["resnet"] if HAS_TORCHVISION else []))}
        for name, (factory, inputs) in makers.items():
            for depth in ("auto", "leaf"):
                model = factory()
                for module in model.modules():
                    if hasattr(module, "inplace"):
                        module.inplace = False
                graph = trace(model, inputs(2), depth)
                self.assertEqual(edges_between_modules(graph),
                                 edges_by_export(model, inputs(2), graph.recording.layer_paths), (name, depth))

    def test_replayed_graphs_give_what_models_give(self):
        for name in ("unet", "towers", "shared", "lists", "dropped", "odds"):
            for depth in ("auto", "leaf", 1):
                factory, inputs, _, _ = (getattr(models, word) for word in models.MODELS[name])
                torch.manual_seed(1)
                model, example = factory(), inputs(2)
                graph = trace(model, example, depth)
                arguments = example if isinstance(example, tuple) else (example,)
                with unchanged(model):
                    torch.manual_seed(2)
                    expected = tensors_in(model(*arguments))
                with unchanged(model):
                    torch.manual_seed(2)
                    found = replay(graph, example)
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(found, expected, strict=True)), (name, depth))
                self.assertTrue(all(a < b for a, b in graph.edges), (name, depth))

    def test_long_skips_are_edges(self):
        graph = trace(models.Unet(), models.image_inputs(2))
        names = [layer.name for layer in graph.layers]
        edges = {(names[a], names[b]) for a, b in graph.edges}
        self.assertIn(("down.0", "cat#3"), edges)
        self.assertIn(("down.2", "cat"), edges)

    def test_shared_weights_are_ties(self):
        graph = trace(models.Shared(), models.token_inputs(2), "auto")
        names = [layer.name for layer in graph.layers]
        ties = [(names[owner], names[user], paths) for owner, user, paths in graph.ties]
        self.assertIn(("embedding", "head", ["embedding.weight"]), ties)

    def test_a_tensor_that_is_written_in_place_leaves_its_last_writer(self):
        graph = trace(models.Dropped(), models.vector_inputs(2), "leaf")
        self.assertEqual(graph.edges, [(i, i + 1) for i in range(len(graph.layers) - 1)])

    def test_what_a_view_writes_stays_with_what_it_is_a_view_of(self):
        class Views(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

            def forward(self, x):
                y = self.b(self.a(x))
                y.view(-1).mul_(2)
                return self.c(y)
        names = [layer.name for layer in trace(Views(), torch.randn(3, 4)).layers]
        self.assertEqual(names, ["a", "b", "c"])

    def test_a_view_that_is_read_after_both_were_written_is_recorded(self):
        class Views(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                y = self.a(x)
                kept = y.detach()
                y += 1
                return self.b(y) + kept
        model, example = Views(), torch.randn(3, 4)
        graph = trace(model, example)
        self.assertTrue(torch.equal(replay(graph, example)[0], model(example)))

    def test_calls_of_a_module_that_keeps_something_are_one_layer(self):
        class Keeps(nn.Module):
            def __init__(self, act):
                super().__init__()
                self.act = act
                self.register_buffer("mean", torch.zeros(4))

            def forward(self, x):
                self.act(self, x.detach().mean(0))
                return x - self.mean

        class Twice(nn.Module):
            def __init__(self, kept):
                super().__init__()
                self.a, self.b, self.kept = nn.Linear(4, 4), nn.Linear(4, 4), kept

            def forward(self, x):
                return self.kept(self.b(self.kept(self.a(x))))

        def replace(model, mean):
            model.mean = 0.9 * model.mean + mean
        for kept, names in ((nn.BatchNorm1d(4), ["a", "kept…kept"]), (Keeps(replace), ["a", "kept…kept"]),
                            (Keeps(lambda model, mean: model.mean.mul_(0.9).add_(mean)), ["a", "kept…kept"]),
                            (Keeps(lambda model, mean: None), ["a", "kept", "b", "kept#2"])):
            self.assertEqual([layer.name for layer in trace(Twice(kept), torch.randn(3, 4)).layers], names)

    def test_masks_of_torchs_transformers_are_not_looked_at(self):
        model, example = models.translator(), models.translator_inputs(2)
        names = [layer.name for layer in trace(model, example).layers]
        self.assertIn("encoder.layers.1", names)
        self.assertIn("decoder.layers.1", names)

    def test_functions_have_names_that_programs_can_import(self):
        for function in (torch._grouped_mm, torch.ops.aten.relu, torch.ops.aten.mul.Tensor, torch.Tensor.add, F.relu, torch._VF.dropout):
            self.assertTrue(callable(function_named(function_name(function))), function_name(function))
        self.assertEqual(function_name(torch.ops.aten.relu), "torch.ops.aten.relu")

        @torch.library.custom_op("stagecraft_tests::twice", mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return 2 * x
        twice.register_autograd(lambda context, gradient: 2 * gradient)

        class Uses(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                return self.b(torch.ops.stagecraft_tests.twice(self.a(x)))
        self.assertEqual([layer.name for layer in trace(Uses(), torch.ones(2, 4)).layers], ["a", "twice", "b"])

    def test_compiled_modules_are_layers(self):
        for change in (lambda module: torch.compile(module, backend="eager"), lambda module: torch.jit.trace(module, torch.ones(2, 4))):
            model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.ReLU())
            model[1] = change(model[1])
            self.assertEqual([layer.name for layer in trace(model, torch.ones(2, 4), "leaf").layers], ["0", "1", "2"])
            with self.assertRaises(ModelError) as caught:
                trace(change(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), torch.ones(2, 4))
            self.assertIn("let the factory give the module itself", str(caught.exception))

    def test_blocks_in_lists_of_lists_are_layers(self):
        blocks = nn.Sequential(nn.Linear(4, 4), *[nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(2)])
                                                  for _ in range(2)])
        names = [layer.name for layer in trace(blocks, torch.ones(2, 4)).layers]
        self.assertEqual(names, ["0", "1.0", "1.1", "2.0", "2.1"])

    def test_split_points_make_layers(self):
        graph = trace(models.Unet(), models.image_inputs(2), split=["middle", "up.1"])
        self.assertEqual([layer.name.split("…")[0] for layer in graph.layers], ["down.0", "middle.0", "up.1"])

    @unittest.skipUnless(SHARED and HAS_TORCHVISION, "needs torchvision, and PipeDream's profiles in STAGECRAFT_SHARED")
    def test_graphs_are_those_that_pipedream_published(self):
        import torchvision
        for name, model in (("vgg16", torchvision.models.vgg16(init_weights=False, num_classes=10)),
                            ("resnet50", torchvision.models.resnet50(num_classes=10))):
            kinds, edges = our_graph(trace(model.to("meta"), torch.randn(1, 3, 64, 64, device="meta"), "leaf"))
            published, published_edges = pipedream_graph(name)
            if name == "vgg16":  # torchvision's has had an average pool since
                place = kinds.index("AvgPool2d")
                kinds.pop(place)
                edges = sorted({(a - (a >= place), b - (b > place)) for a, b in edges if (a, b) != (place, place + 1)})
            self.assertEqual(kinds, published, name)
            self.assertEqual(edges, published_edges, name)


class Refused(unittest.TestCase):
    def refused(self, words, act):
        with self.assertRaises(ModelError) as caught:
            act()
        self.assertIn(words, str(caught.exception))

    def test_decisions_by_elements_between_layers(self):
        class Decides(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()
                self.last = nn.Linear(4, 4)

            def forward(self, x):
                return self.last(self.inner(x))

        class Inner(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                return self.a(x) if x.sum() > 0 else self.b(x)
        self.refused('module "inner" decides by the elements of a tensor', lambda: trace(Decides(), torch.ones(2, 4), "leaf"))
        self.assertEqual([layer.name for layer in trace(Decides(), torch.ones(2, 4), 1).layers], ["inner", "last"])

    def test_objects_between_layers(self):
        class Cache:
            pass

        class First(nn.Module):
            def forward(self, x, cache):
                return x

        class Holds(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), First()

            def forward(self, x):
                return self.b(self.a(x), Cache()) * 2
        self.refused('module "b" is given a Cache', lambda: trace(Holds(), torch.ones(2, 4)))

    def test_counts_that_data_decides(self):
        class Experts(nn.Module):
            def __init__(self):
                super().__init__()
                self.gate, self.experts = nn.Linear(4, 2), nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

            def forward(self, x):
                chosen, out = self.gate(x).argmax(-1), torch.zeros_like(x)
                for number, expert in enumerate(self.experts):
                    rows = (chosen == number).nonzero()[:, 0]
                    if rows.numel():
                        out = out.index_add(0, rows, expert(x[rows]))
                return out

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.experts, self.last = nn.Linear(4, 4), Experts(), nn.Linear(4, 4)

            def forward(self, x):
                return self.last(self.experts(self.first(x)))
        self.refused('module "experts" asks how many elements', lambda: trace(Model(), torch.ones(2, 4), "leaf"))
        self.assertEqual([layer.name for layer in trace(Model(), torch.ones(2, 4), 1).layers], ["first", "experts", "last"])

        class Picks(Model):
            def forward(self, x):
                x = self.first(x)
                return self.last(x[x.sum(-1) > 0] * 2)
        names = [layer.name for layer in trace(Picks(), torch.ones(2, 4), 1).layers]
        self.assertEqual([name for name in names if "getitem" in name or "mul" in name], [])  # all in one layer

    def test_buffers_between_layers(self):
        class Keeps(nn.Module):
            def __init__(self, act):
                super().__init__()
                self.a, self.b, self.act = nn.Linear(4, 4), nn.Linear(4, 4), act
                self.register_buffer("mean", torch.zeros(4))

            def forward(self, x):
                x = self.a(x)
                self.act(self, x.detach().mean(0))
                return self.b(x - self.mean)
        def replace(model, mean):
            model.mean = 0.9 * model.mean + mean
        for act, words in ((replace, "puts another tensor in place of its buffer mean"),
                           (lambda model, mean: model.mean.mul_(0.9), "writes into mean between layers")):
            model = Keeps(act)
            buffer = model.mean
            self.refused(words, lambda: trace(model, torch.ones(2, 4)))
            self.assertIs(model.mean, buffer)
            self.assertEqual(buffer.abs().sum(), 0)

    def test_checkpoints_that_hide_gradients(self):
        class Hides(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                return torch.utils.checkpoint.checkpoint(lambda y: self.b(y), self.a(x), use_reentrant=True)
        self.refused("use_reentrant=False", lambda: trace(Hides(), torch.ones(2, 4)))

    def test_tensors_from_nowhere(self):
        class Hides(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.hidden = nn.Linear(4, 4), [torch.ones(4)]

            def forward(self, x):
                return self.a(x) + self.hidden[0]
        self.refused("keep it with register_buffer", lambda: trace(Hides(), torch.ones(2, 4)))

    def test_tensors_that_a_hook_keeps(self):
        class Hides(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.seen = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 4), []
                self.a[0].register_forward_hook(lambda module, given, result: self.seen.append(result))

            def forward(self, x):
                self.seen.clear()
                return self.b(self.a(x)) + self.seen[0]
        self.refused("a hook or an attribute keeps it", lambda: trace(Hides(), torch.ones(2, 4), layers=["a", "b"]))
        self.assertEqual(len(trace(Hides(), torch.ones(2, 4), "leaf").layers), 4)

    def test_models_that_cannot_be_trained(self):
        class Spoils(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

            def forward(self, x):
                y = self.a(x)
                z = self.b(y)
                y.mul_(2)
                return z + y
        self.refused("Spoils cannot be", lambda: profile(Spoils(), torch.ones(2, 4), repeats=1, warmup=0))
        frozen = models.lists().requires_grad_(False)
        self.refused("there is nothing to train", lambda: profile(frozen, models.list_inputs, microbatches=[2], repeats=1, warmup=0))

    def test_names_and_numbers(self):
        self.refused('has no module "encoder"', lambda: trace(models.Unet(), models.image_inputs(1), layers=["encoder"]))
        self.refused('no layer is named "x"', lambda: trace(models.Unet(), models.image_inputs(1), split=["x"]))
        self.refused("expected a depth of 1", lambda: trace(models.Unet(), models.image_inputs(1), 0))
        self.refused('expected a depth of "auto"', lambda: trace(models.Unet(), models.image_inputs(1), "deep"))
        self.refused('first forward decides ("0.weight")', lambda: trace(nn.Sequential(nn.LazyLinear(4), nn.ReLU()), torch.ones(2, 4)))
        for name in ("class", "target", "losses", "return_outputs", "torch"):
            self.assertEqual(identifier(name), name + "_")
        self.refused("nothing to cut", lambda: trace(nn.Linear(2, 2), torch.ones(1, 2)))
        self.refused("different microbatches", lambda: profile(models.lists(), models.list_inputs, microbatches=[1, 1]))

    def test_data_and_losses_that_do_not_fit(self):
        with tempfile.TemporaryDirectory() as folder:
            plan_of_lists(folder)

            def exported(loss="models:class_loss", data="models:list_data", factory="models:lists"):
                return export(os.path.join(folder, "p.json"), models.lists(), models.list_inputs, os.path.join(folder, "out"),
                              Names(factory, loss, data))
            self.assertEqual(exported(), [])
            self.refused("gave x as torch.float32 of shape (8, 16), expected torch.float32 of (8, 8)",
                         lambda: exported(data="models:vector_data"))
            self.refused("models:tower_loss fails with what the model returns", lambda: exported(loss="models:tower_loss"))
            self.refused("models has no lost; it has", lambda: exported(loss="models:lost"))
            self.refused("no module_that_is_not.py here", lambda: exported(data="module_that_is_not:data"))
            self.assertIn("was not tried with its data", exported(data="models:vectors")[0])

    def test_a_profiles_loss_is_the_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            measured = profile(models.lists(), models.list_inputs, microbatches=[2], repeats=1, warmup=0, loss="models:class_loss",
                               target=lambda samples: models.list_data(0, samples)[1])
            layers = len(measured.data["model"]["layers"])
            for cut in (1, layers - 1):  # nothing but the loss is behind the second
                plan = plan_of_lists(folder)
                measured.save(os.path.join(folder, "m.json"))
                plan["stages"] = [{"layers": [0, cut], "devices": [[0]]}, {"layers": [cut, layers], "devices": [[1]]}]
                with open(os.path.join(folder, "p.json"), "w") as file:
                    json.dump(plan, file)

                def exported(loss):
                    export(os.path.join(folder, "p.json"), models.lists(), models.list_inputs, os.path.join(folder, "out"),
                           Names("models:lists", loss, "models:list_data"))
                    with open(os.path.join(folder, "out", "train.py")) as file:
                        return file.read()
                self.assertIn("\nLOSS = 'models:class_loss'", exported(""))
                self.assertIn("\nLOSS = 'models:other_loss'", exported("models:other_loss"))
                with open(os.path.join(folder, "out", "stages.py")) as file:
                    self.assertNotIn("class_loss(", file.read())
            plan_of_lists(folder)
            self.refused("its profile has no loss", lambda: exported(""))

    def test_stages_that_no_gradient_leaves_have_a_whole_backward(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = plan_of_lists(folder, depth="leaf")
            layers = plan["stages"][-1]["layers"][1]
            plan["stages"] = [{"layers": [first, end], "devices": [[device]]}
                              for device, (first, end) in enumerate([(0, 1), (1, 2), (2, layers)])]
            with open(os.path.join(folder, "p.json"), "w") as file:
                json.dump(plan, file)
            export(os.path.join(folder, "p.json"), models.lists(), models.list_inputs, os.path.join(folder, "out"),
                   Names("models:lists", "models:class_loss", "models:list_data"))
            with open(os.path.join(folder, "out", "train.py")) as file:
                self.assertIn("\nWHOLE = [False, True, ", file.read())

    def test_masks_with_as_many_rows_as_a_microbatch_has_samples(self):
        class Masked(models.Lists):
            def forward(self, x, mask):
                return super().forward(x) + (mask.sum() * 0)

        def inputs(samples):
            return {"x": models.list_inputs(samples), "mask": torch.ones(2, 2)}

        def data(step, samples):
            x, target = models.list_data(step, samples)
            return {"mask": torch.ones(2, 2), "x": x}, target
        models.masked_lists_data = data
        self.addCleanup(delattr, models, "masked_lists_data")
        with tempfile.TemporaryDirectory() as folder:
            model = Masked()
            measured = profile(model, inputs, microbatches=[2], repeats=1, warmup=0)
            measured.save(os.path.join(folder, "m.json"))
            plan = plan_of_lists(folder) | {"stages": [{"layers": [0, 1], "devices": [[0]]},
                                                       {"layers": [1, len(measured.graph.layers)], "devices": [[1]]}]}
            measured.save(os.path.join(folder, "m.json"))
            with open(os.path.join(folder, "p.json"), "w") as file:
                json.dump(plan, file)
            self.assertEqual(export(os.path.join(folder, "p.json"), model, inputs, os.path.join(folder, "out"),
                                    Names("models:lists", "models:class_loss", "models:masked_lists_data")), [])
            with open(os.path.join(folder, "out", "train.py")) as file:
                self.assertIn("= {'x': True, 'mask': False}  #", file.read())

    def test_programs_refuse_what_they_cannot_do(self):
        with tempfile.TemporaryDirectory() as folder:
            plan_of_lists(folder)
            export(os.path.join(folder, "p.json"), models.lists(), models.list_inputs, os.path.join(folder, "out"),
                   Names("models:lists", "models:class_loss", "models:list_data"))
            train = self.program(os.path.join(folder, "out"))
            for options, words in ((["--steps", "0"], "--steps: expected 1 or more, found 0"),
                                   (["--weights", "none.pt"], "there is no file none.pt"),
                                   (["--resume", "none"], "none has no checkpoint"),
                                   (["--device", "cuda"], "each of 999 processes here needs one"),
                                   (["--steps", "1", "--profile", "x"], "the first step is left out"),
                                   ([], "expected 2 processes, found 999")):
                with unittest.mock.patch.dict(os.environ, {"WORLD_SIZE": "999", "LOCAL_WORLD_SIZE": "999"}), \
                        contextlib.redirect_stderr(io.StringIO()) as errors, self.assertRaises(SystemExit) as caught:
                    train.main(options)
                self.assertIn(words, f"{errors.getvalue()} {caught.exception}")

    def program(self, folder):
        """train.py, as a module."""
        for name in ("stages", "train"):
            sys.modules.pop(name, None)
        before = sys.path.copy()
        self.addCleanup(lambda: sys.path.__setitem__(slice(None), before))
        sys.path.insert(0, folder)
        spec = importlib.util.spec_from_file_location("train", os.path.join(folder, "train.py"))
        train = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(train)
        return train

    def test_gradients_of_several_types_are_summed_each_in_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            plan_of_lists(folder)
            export(os.path.join(folder, "p.json"), models.lists(), models.list_inputs, os.path.join(folder, "out"),
                   Names("models:lists", "models:class_loss", "models:list_data"))
            train = self.program(os.path.join(folder, "out"))
            torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
            self.addCleanup(torch.distributed.destroy_process_group)
            weights = [nn.Parameter(torch.ones(3, dtype=kind)) for kind in (torch.float32, torch.bfloat16, torch.float32)]
            for number, weight in enumerate(weights):
                weight.grad = torch.full_like(weight, number)
            train.all_reduce(weights, torch.distributed.group.WORLD)
            self.assertEqual([weight.grad.sum().item() for weight in weights], [0, 3, 6])

    def test_weights_of_which_torch_makes_groups_by_chance(self):
        class Attends(nn.Module):
            def __init__(self):
                super().__init__()
                self.attention = nn.MultiheadAttention(8, 2)

            def forward(self, x, y):
                y = y.transpose(0, 1)  # not contiguous: weight and bias have different nodes
                return self.attention(x, y, y, need_weights=False)[0]
        leaves = (torch.randn(3, 2, 8, requires_grad=True), torch.randn(2, 3, 8, requires_grad=True))
        self.assertFalse(any(can_split(Attends(), leaves, {}) for _ in range(10)))
        self.assertTrue(can_split(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 4)), leaves[:1], {}))

    def test_other_ways_for_other_inputs(self):
        class Counts(models.Lists):
            calls = 0

            def forward(self, x):
                self.calls += 1
                return super().forward(x) * self.calls
        with tempfile.TemporaryDirectory() as folder:
            plan_of_lists(folder, Counts())
            self.refused("does something else for other inputs", lambda: export(
                os.path.join(folder, "p.json"), Counts(), models.list_inputs, os.path.join(folder, "out"),
                Names("models:lists", "models:class_loss", "models:list_data")))

    def test_plans_that_no_program_can_follow(self):
        with tempfile.TemporaryDirectory() as folder:
            plan = plan_of_lists(folder)

            def exported(**changes):
                path = os.path.join(folder, "p.json")
                with open(path, "w") as file:
                    json.dump(plan | changes, file)
                export(path, models.lists(), models.list_inputs, os.path.join(folder, "out"),
                       Names("models:lists", "models:class_loss", "models:list_data"))
            exported()
            with open(os.path.join(folder, "out", "stages.py")) as file:
                text = file.read()
            self.assertIn('self.first = model.get_submodule("first")', text)
            self.assertIn("first_0, first_1, first_2 = tensors(self.first([x]))"
                          if "first_2" in text else "first_0, first_1 = tensors(self.first([x]))", text)
            stages = plan["stages"]
            self.refused("tensor-parallel", lambda: exported(stages=[stages[0], stages[1] | {"devices": [[1, 2]]}]))
            self.refused("each once", lambda: exported(stages=[stages[0]]))
            self.refused("several versions of weights", lambda: exported(weights="stash"))
            twice = [stage | {"devices": [[2 * place], [2 * place + 1]]} for place, stage in enumerate(stages)]
            batch = {"global": 8, "microbatch": 4, "microbatches": 2}
            for sharding in ("zero1", "zero2", "zero3"):
                exported(optimizer={"kind": "sgd", "sharding": sharding}, stages=twice, batch=batch)
                with open(os.path.join(folder, "out", "train.py")) as file:
                    self.assertIn(f"\nSHARDING = '{sharding}'", file.read())
            self.refused("of which stages have different numbers", lambda: exported(
                optimizer={"kind": "sgd", "sharding": "zero3"}, stages=[twice[0], stages[1] | {"devices": [[2]]}], batch=batch,
                replicas="round_robin"))
            self.refused("recomputes single layers", lambda: exported(
                stages=[stages[0] | {"recompute": {"full": [[0, 1]]}}, stages[1]]))
            self.refused("is no file here", lambda: exported(model="gpt2-124m"))


    def test_weights_that_cannot_be_sharded(self):
        class Mixed(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c, self.d = nn.Linear(8, 8), nn.Linear(8, 8).bfloat16(), nn.Linear(8, 8), nn.Linear(8, 7)

            def forward(self, x):
                return self.d(self.c(self.b(self.a(x).bfloat16()).float()))

        with tempfile.TemporaryDirectory() as folder:
            plan = plan_of_lists(folder, Mixed())
            self.assertEqual(len(read_layers(folder)), 6)

            def exported(sharding, cuts, places, schedule):
                stages = [{"layers": list(layers), "devices": [[2 * place], [2 * place + 1]]}
                          for layers, place in zip(zip(cuts, cuts[1:]), places)]
                with open(os.path.join(folder, "p.json"), "w") as file:
                    json.dump(plan | {"stages": stages, "schedule": schedule, "optimizer": {"kind": "sgd", "sharding": sharding},
                                      "batch": {"global": 8, "microbatch": 2, "microbatches": 4}}, file)
                export(os.path.join(folder, "p.json"), Mixed(), models.list_inputs, os.path.join(folder, "out"),
                       Names("models:lists", "models:class_loss", "models:list_data"))
            v = {"name": "zb-v", "virtual_stages": 2}
            exported("zero1", [0, 1, 3, 5, 6], [0, 1, 1, 0], v)
            self.refused("splits backwards", lambda: exported("zero2", [0, 1, 3, 5, 6], [0, 1, 1, 0], v))
            self.refused('stage 0 trains weights of several types ("a.weight" of torch.float32, "b.weight" of torch.bfloat16)',
                         lambda: exported("zero1", [0, 3, 6], [0, 1], {"name": "1f1b"}))


class Profiles(unittest.TestCase):
    def test_a_profile_has_all_of_the_format(self):
        model = models.shared()
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        measured = profile(model, models.token_inputs, microbatches=[1, 2], repeats=2, warmup=0, optimizer="adamw")
        entries = measured.data["entries"]
        self.assertEqual([entry["microbatch"] for entry in entries], [1, 2])
        layers = measured.data["model"]["layers"]
        self.assertEqual(sum(layer["parameters"] for layer in layers), sum(p.numel() for p in model.parameters()))
        head = [layer["name"] for layer in layers].index("head")
        for entry in entries:
            self.assertEqual(entry["parameters_bytes"][head], 4 * models.WORDS * 16)
            self.assertEqual(entry["optimizer_bytes"][head], 8 * models.WORDS * 16)
            self.assertTrue(all(b >= 0 for b in entry["backward_input_ns"] + entry["backward_weight_ns"]))
        self.assertEqual([2 * b for b in entries[0]["output_bytes"]], entries[1]["output_bytes"])
        self.assertTrue(all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items()))
        self.assertTrue(all(p.grad is None for p in model.parameters()))

    def test_backward_is_measured_whole_and_in_two_parts(self):
        measured = profile(models.unet(), models.image_inputs, microbatches=[2], depth="leaf", repeats=3, warmup=1)
        entry = measured.data["entries"][0]
        for layer, times in enumerate(measured.measured[2].times):
            parts = entry["backward_input_ns"][layer] + entry["backward_weight_ns"][layer]
            if 0 in (entry["backward_input_ns"][layer], entry["backward_weight_ns"][layer]):
                self.assertEqual(entry["split_overhead_ns"][layer], 0)
                continue
            self.assertAlmostEqual(parts - entry["split_overhead_ns"][layer], 1e9 * statistics.median(times.backward), delta=3)
            self.assertGreaterEqual(parts + 3, 1e9 * (statistics.median(times.backward_input) + statistics.median(times.backward_weight)))
        for layer, weights in zip(measured.graph.layers, entry["backward_weight_ns"], strict=True):
            self.assertTrue(layer.parameters or weights == 0, layer.name)
        self.assertGreater(sum(entry["backward_input_ns"]), 0)
        self.assertGreater(sum(entry["backward_weight_ns"]), 0)

    def test_a_loss_is_the_last_layer(self):
        for name in ("towers", "odds", "shared"):  # results are a dict, a tuple and a tensor
            factory, inputs, loss, data = (getattr(models, word) for word in models.MODELS[name])
            measured = profile(factory(), inputs, microbatches=[2, 4], depth="leaf", repeats=1, warmup=0, loss=loss,
                               target=lambda samples, data=data: data(0, samples)[1])
            last = measured.data["model"]["layers"][-1]
            self.assertEqual(last["name"], f"loss models:{models.MODELS[name][2]}")
            self.assertEqual(last["parameters"], 0)
            for entry in measured.data["entries"]:
                self.assertGreater(entry["forward_ns"][-1], 0)
                self.assertGreater(entry["backward_input_ns"][-1], 0)
                self.assertEqual(entry["output_bytes"][-1], 4)
            number = len(measured.data["model"]["layers"]) - 1
            self.assertTrue(any(edge[1] == number for edge in measured.data["model"]["edges"]))
            numbers = measured.measured[4]
            ours = sum(layer.saved + layer.output - layer.output_freed for layer in numbers.bytes)
            self.assertLess(abs(ours / numbers.whole_saved - 1), 0.1, name)
            self.assertIn("of these the loss", measured.summary())

        def refused(words, **settings):
            with self.assertRaises(ModelError) as caught:
                profile(models.lists(), models.list_inputs(2), repeats=1, warmup=0, **settings)
            self.assertIn(words, str(caught.exception))
        refused("a loss is given without a target", loss=models.class_loss)
        refused("a target is given without a loss", target=torch.zeros(2))
        refused("models:word_loss fails with what the model returns", loss="models:word_loss", target=models.list_data(0, 2)[1] + 99)
        refused("expected a tensor of one element", loss=lambda output, target: output, target=torch.zeros(2))
        # A tensor as target is cut, as the example inputs are.
        cut = profile(models.lists(), models.list_inputs(4), microbatches=[2], repeats=1, warmup=0, loss=models.class_loss,
                      target=models.list_data(0, 4)[1])
        self.assertEqual(len(cut.graph.loss.target), 2)

    def test_saved_bytes_are_those_of_the_whole_model(self):
        for name in ("unet", "towers", "lists", "dropped", "shared"):
            factory, inputs, _, _ = (getattr(models, word) for word in models.MODELS[name])
            numbers = profile(factory(), inputs, microbatches=[2], depth="leaf", repeats=1, warmup=0).measured[2]
            ours = sum(layer.saved + layer.output - layer.output_freed for layer in numbers.bytes)
            self.assertLess(abs(ours / numbers.whole_saved - 1), 0.1, name)

    def test_gradients_add_up_while_layers_are_measured(self):
        class Counted(nn.Linear):
            added = 0

        model = nn.Sequential(Counted(4, 4), nn.ReLU(), Counted(4, 4))
        for module in (model[0], model[2]):
            module.weight.register_hook(lambda _, module=module: setattr(
                module, "added", module.added + (module.weight.grad is not None)))
        profile(model, torch.ones(2, 4), depth="leaf", repeats=1, warmup=1)
        self.assertGreater(model[0].added, 2)
        self.assertTrue(all(p.grad is None for p in model.parameters()))

    def test_processes_that_work_meanwhile(self):
        measured = profile(models.lists(), models.list_inputs, microbatches=[2, 1], repeats=1, warmup=0, processes=2)
        self.assertIn("of each of 2 processes", measured.data["source"])
        link = measured.data["hand_over"]
        self.assertGreater(int(link["latency"].removesuffix("ns")), 1000)
        self.assertGreater(float(link["point_to_point"].removesuffix("GB/s")), 0.001)

        class Local(nn.Sequential):
            pass

        def refused(words, model, **settings):
            with self.assertRaises(ModelError) as caught:
                profile(model, torch.ones(2, 4), processes=2, repeats=1, warmup=0, **settings)
            self.assertIn(words, str(caught.exception))
        refused("cannot be given to other processes", Local(nn.Linear(4, 4), nn.ReLU()))
        refused("in one process", nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to("meta"), device="cpu")
        Local.__module__ = "__main__"
        refused("cannot import it", Local(nn.Linear(4, 4), nn.ReLU()))

    def test_a_model_without_memory_is_measured_layer_by_layer(self):
        with torch.device("meta"):
            model = models.Unet()
        measured = profile(model, models.image_inputs, microbatches=[2], repeats=1, warmup=0, device="cpu")
        self.assertGreater(min(measured.data["entries"][0]["forward_ns"]), 0)
        self.assertTrue(all(p.is_meta for p in model.parameters()))


class Commands(unittest.TestCase):
    def test_exit_codes(self):
        self.assertEqual(main(["profile", "models", "-o", "x"]), 2)
        self.assertEqual(main(["profile", "models:lists", "-o", "x", "--microbatches", "0"]), 2)
        for options in (["--repeats", "0"], ["--threads", "0"], ["--processes", "0"], ["--layers", "first", "--depth", "1"], ["--depth", "deep"], ["--depth", "0"], ["--microbatches", "1,1"]):
            self.assertEqual(main(["profile", "models:lists", "--inputs", "models:list_inputs", "-o", "x", *options]), 2, options)
        self.assertEqual(main(["profile", "models:lists", "--inputs", "models:list_inputs", "-o", "x", "--loss", "models:class_loss"]), 3)
        self.assertEqual(main(["profile", "models:lists", "--inputs", "models:list_inputs", "-o", "x", "--loss", "models:class_loss",
                               "--data", "models:vectors"]), 3)
        for options in (["--device", "gpu"], ["--device", "cuda:99"], ["-o", "/nowhere/x"], ["--layers", "no"]):
            self.assertEqual(main(["profile", "models:lists", "--inputs", "models:list_inputs", "-o", "x", *options]), 3, options)
        self.assertEqual(main(["profile", "models:nothing", "-o", "x"]), 3)
        models.a_model = models.lists()
        self.addCleanup(delattr, models, "a_model")
        self.assertEqual(main(["profile", "models:a_model", "--inputs", "models:list_inputs", "-o", "x"]), 3)
        self.assertEqual(main(["profile", "models:lists", "-o", "x"]), 3)  # no example_inputs beside it
        self.assertEqual(main(["export", "missing.json", "models:lists", "-o", "x", "--inputs", "models:list_inputs",
                               "--loss", "models:class_loss", "--data", "models:list_data"]), 3)


if __name__ == "__main__":
    unittest.main()
