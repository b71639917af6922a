"""python -m stagecraft.torch profile|export: see --help."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Callable, Sequence

import torch

from .errors import ModelError, UsageError
from .profiling import profile
from .program import Names, export, read_plan
from .user_code import last_line, named


def companion(factory: str, asked: str | None, usual: str, what: str) -> str:
    """package:function of what goes with a factory: as asked, or under its usual name in the factory's module."""
    if asked:
        named(asked)
        return asked
    package = factory.partition(":")[0]
    module, _ = named(factory)
    if not hasattr(module, usual):
        raise ModelError(f"{package} has no {usual}, {what}; write one, or name yours with "
                         f"--{'inputs' if usual == 'example_inputs' else usual} package:function")
    return f"{package}:{usual}"


def depth_of(words: str) -> int | str:
    if words in ("auto", "leaf"):
        return words
    if not words.isdigit() or int(words) < 1:
        raise UsageError(f'--depth: expected auto, leaf, or a number of 1 or more, found "{words}"')
    return int(words)


def names_of(words: str | None) -> list[str]:
    return [name for name in (words or "").split(",") if name]


def make_model(words: str) -> torch.nn.Module:
    _, factory = named(words)
    if isinstance(factory, torch.nn.Module):
        raise ModelError(f"{words} is a {type(factory).__name__}, expected a function that makes one: each process makes its own")
    try:
        model = factory()
    except Exception as error:
        raise ModelError(f"{words}() fails: {last_line(error)}") from error
    if not isinstance(model, torch.nn.Module):
        raise ModelError(f"{words} gave a {type(model).__name__}, expected a torch.nn.Module")
    return model


def add_layer_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("factory", metavar="PACKAGE:FUNCTION", help="makes the model; imported from here or the path")
    parser.add_argument("--inputs", metavar="PACKAGE:FUNCTION",
                        help="gives the model's inputs for so many samples (example_inputs beside the factory)")
    parser.add_argument("--layers", metavar="A,B,…", help="modules that are layers")
    parser.add_argument("--split", metavar="A,B,…", help="layers that stages may begin with; no other cut is possible")
    parser.add_argument("--seed", type=int, default=1, help="of the model's weights (1)")


def parser_of() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stagecraft.torch", description="Profiles PyTorch models, and "
                                     "writes plans for them as programs that train.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("profile", help="measure a model's layers", description="Measures a model's layers, and "
                           "writes them with the graph between them as a profile that stagecraft plan reads.")
    add_layer_options(one)
    one.add_argument("-o", "--output", metavar="FILE", required=True, help="the profile")
    one.add_argument("--microbatches", metavar="N,N,…", default="1", help="samples to measure with (1)")
    one.add_argument("--depth", help="auto, leaf, or how many names deep layers are (auto)")
    one.add_argument("--device", default="cpu", help="cpu, or cuda:N (cpu)")
    one.add_argument("--repeats", type=int, default=5, help="sweeps whose medians count (5)")
    one.add_argument("--warmup", type=int, default=2, help="sweeps before (2)")
    one.add_argument("--optimizer", choices=("adamw", "sgd"), default="adamw", help="whose update is measured (adamw)")
    one.add_argument("--loss", metavar="PACKAGE:FUNCTION", help="of the model's result and a target, which is measured as the last "
                     "layer; none: is not (loss beside the factory, where there is data, too)")
    one.add_argument("--data", metavar="PACKAGE:FUNCTION", help="gives inputs and target, of which the loss has the target (data "
                     "beside the factory)")
    one.add_argument("--threads", type=int, help="CPU threads of an operation (PyTorch's default; with several "
                     "processes 1, as torchrun has it)")
    one.add_argument("--processes", type=int, default=1, help="that work at once, as when they train: on the CPU, whose "
                     "memory they share (1)")
    one.add_argument("--name", default="", help="of the model (its class)")
    one.add_argument("--sequence", type=int, default=0, help="tokens of a sample, where samples are sequences")
    two = verbs.add_parser("export", help="write a plan as a program", description="Writes a plan as a program: "
                           "stages.py, and train.py for torchrun.")
    two.add_argument("plan", metavar="PLAN", help="of stagecraft plan, for a profile of the model")
    add_layer_options(two)
    two.add_argument("-o", "--output", metavar="DIR", required=True, help="folder of the program")
    two.add_argument("--loss", metavar="PACKAGE:FUNCTION", help="of the model's result and a target (the profile's, or loss beside the factory)")
    two.add_argument("--data", metavar="PACKAGE:FUNCTION", help="gives a step's inputs and target (data beside the factory)")
    two.add_argument("--optimizer", default="", metavar="PACKAGE:FUNCTION", help="makes one of parameters (the plan's kind)")
    two.add_argument("--rate", type=float, help="learning rate of the plan's kind (0.001)")
    two.add_argument("--depth", help="as for the profile (what gives its layers)")
    two.add_argument("--stagecraft", metavar="PROGRAM", help="that writes the schedule's order (the one on the path)")
    return parser


def positive(words: str) -> list[int]:
    numbers = [int(word) for word in words.split(",") if word.isdigit()]
    if len(numbers) != len(words.split(",")) or min(numbers) < 1 or len(set(numbers)) < len(numbers):
        raise UsageError(f'--microbatches: expected different numbers of samples such as 1,2, found "{words}"')
    return numbers


def refuse_options(arguments: argparse.Namespace) -> None:
    """Numbers that are none, and options of which one would be ignored."""
    for option, least in (("repeats", 1), ("warmup", 0), ("threads", 1), ("sequence", 0), ("processes", 1)):
        number = getattr(arguments, option, None)
        if number is not None and number < least:
            raise UsageError(f"--{option}: expected {least} or more, found {number}")
    if arguments.layers and arguments.depth:
        raise UsageError("--layers names the layers and --depth looks for them: give one of both")
    if getattr(arguments, "rate", None) is not None and arguments.optimizer:
        raise UsageError(f"--rate is for the plan's optimizer, and {arguments.optimizer} makes its own: leave it out")


def refuse_unwritable(path: str) -> None:
    """Before what takes long."""
    try:
        with open(path, "a"):
            pass
        if os.path.getsize(path) == 0:
            os.remove(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror}") from None


def loss_and_target(arguments: argparse.Namespace, sizes: Sequence[int]) -> tuple[str | None, Callable[[int], Any] | None]:
    """Those asked for, or beside the factory; of the latter, nothing where data cannot be had here."""
    beside, _ = named(arguments.factory)
    if arguments.loss == "none" or not arguments.loss and not (hasattr(beside, "loss") and (arguments.data or hasattr(beside, "data"))):
        return None, None
    loss = companion(arguments.factory, arguments.loss, "loss", "which compares a result with a target")
    data = companion(arguments.factory, arguments.data, "data", "which gives inputs and the target of a loss")

    def target(samples: int) -> Any:
        made = named(data)[1](0, samples)
        if not isinstance(made, tuple) or len(made) != 2:
            raise ModelError(f"{data} gave a {type(made).__name__}, expected a pair: the model's inputs and the target")
        return made[1]
    try:
        target(sizes[0])
    except Exception as error:
        if isinstance(error, ModelError):
            raise
        if arguments.loss:
            raise ModelError(f"{data}(0, {sizes[0]}) fails, which gives the loss its target: {last_line(error)}") from error
        print(f"note: {data}(0, {sizes[0]}) fails here, so the loss is not measured: {last_line(error)}", file=sys.stderr)
        return None, None
    return loss, target


def run_profile(arguments: argparse.Namespace) -> None:
    sizes = positive(arguments.microbatches)
    refuse_unwritable(arguments.output)
    inputs = companion(arguments.factory, arguments.inputs, "example_inputs", "which gives inputs for so many samples")
    if arguments.threads or arguments.processes > 1:
        torch.set_num_threads(arguments.threads or 1)
    loss, target = loss_and_target(arguments, sizes)
    torch.manual_seed(arguments.seed)
    made = profile(make_model(arguments.factory), named(inputs)[1], microbatches=sizes,
                   depth=depth_of(arguments.depth or "auto"), layers=names_of(arguments.layers), split=names_of(arguments.split),
                   device=arguments.device, repeats=arguments.repeats, warmup=arguments.warmup,
                   optimizer=arguments.optimizer, name=arguments.name, sequence=arguments.sequence,
                   processes=arguments.processes, loss=loss, target=target)
    made.save(arguments.output)
    print(made.summary())


def run_export(arguments: argparse.Namespace) -> None:
    inputs = companion(arguments.factory, arguments.inputs, "example_inputs", "which gives inputs for so many samples")
    loss = arguments.loss or read_plan(arguments.plan).loss
    names = Names(arguments.factory, companion(arguments.factory, loss, "loss", "which compares a result with a target"),
                  companion(arguments.factory, arguments.data, "data", "which gives a step's inputs and target"),
                  arguments.optimizer)
    if arguments.optimizer:
        named(arguments.optimizer)
    torch.manual_seed(arguments.seed)
    notes = export(arguments.plan, make_model(arguments.factory), named(inputs)[1], arguments.output, names,
                   depth=depth_of(arguments.depth) if arguments.depth else None, layers=names_of(arguments.layers),
                   split=names_of(arguments.split), seed=arguments.seed, rate=1e-3 if arguments.rate is None else arguments.rate,
                   stagecraft=arguments.stagecraft)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    print(f"{arguments.output}/train.py, {arguments.output}/stages.py")


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser_of().parse_args(argv)
    verbs: dict[str, Callable[[argparse.Namespace], None]] = {"profile": run_profile, "export": run_export}
    try:
        refuse_options(arguments)
        verbs[arguments.verb](arguments)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"error: {error.filename or arguments.output}: {error.strerror}", file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
