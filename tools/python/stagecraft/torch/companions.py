"""Other processes that do the same while one is measured, as those of the program will: they share caches and memory with
it. And what a message from process to process takes.

    python -m stagecraft.torch.companions sweep FILE
    python -m stagecraft.torch.companions messages FILE BYTES…

are these processes. A companion reads microbatch sizes line by line, says "ready" once it sweeps, and sweeps until the next
line or the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Iterator, Sequence

import torch

from .errors import ModelError
from .layers import trace
from .losses import Loss, with_loss
from .measuring import sweep_until
from .user_code import last_line


@dataclasses.dataclass
class Work:
    """What companions need to know."""
    model: torch.nn.Module
    examples: dict[int, Any]  #: inputs by microbatch
    choices: tuple[int | str, Sequence[str], Sequence[str]]  #: depth, layers, split points
    optimizer: str
    losses: dict[int, Loss | None]


class Companions:
    def __init__(self, processes: list[subprocess.Popen[str]], errors: list[str]):
        self.processes, self.errors = processes, errors

    def begin(self, size: int) -> None:
        """All of them work on microbatches of this size when it returns."""
        for process in self.processes:
            self.say(process, str(size))
        for process in self.processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                self.fail(process)

    def numbers(self) -> list[int]:
        """Of the processes."""
        return [process.pid for process in self.processes]

    def say(self, process: subprocess.Popen[str], line: str) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            self.fail(process)

    def require_all(self) -> None:
        """What was measured beside one that has ended says nothing."""
        for process in self.processes:
            if process.poll() is not None:
                self.fail(process)

    def fail(self, process: subprocess.Popen[str]) -> None:
        process.wait()
        with open(self.errors[self.processes.index(process)]) as file:
            lines = file.read().strip().splitlines()
        raise ModelError(f"one of the processes that work beside the measured one has ended: {lines[-1] if lines else 'killed'}")


@contextlib.contextmanager
def companions(count: int, work: Work) -> Iterator[Companions]:
    """So many, which end with the block."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "work.pt")
        if count:
            send(work, path)
        errors = [os.path.join(folder, f"errors{number}") for number in range(count)]
        processes = []
        try:
            for error in errors:
                with open(error, "w") as file:
                    processes.append(start(["sweep", path], stdin=subprocess.PIPE, stderr=file))
            yield Companions(processes, errors)
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def send(work: Work, path: str) -> None:
    kind = type(work.model)
    if kind.__module__ == "__main__":
        raise ModelError(f"{kind.__name__} stands in the program that was started, from which other processes cannot import it; "
                         "put it into a module of its own, or measure with one process")
    try:
        torch.save(work, path)
    except Exception as error:
        raise ModelError(f"{kind.__name__} cannot be given to other processes ({last_line(error)}); measure with one "
                         "process, or make it without functions inside of functions") from error


def start(words: Sequence[str], **settings: Any) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
                                "OMP_NUM_THREADS": str(torch.get_num_threads())}
    return subprocess.Popen([sys.executable, "-m", "stagecraft.torch.companions", *words], stdout=subprocess.PIPE, text=True,
                            env=environment, **settings)


# --- Messages

@dataclasses.dataclass
class HandOver:
    latency: float  #: seconds
    bandwidth: float  #: bytes per second


def measure_messages(bytes: int) -> HandOver:
    """Between two processes, with gloo: of small messages, and of those that have as many bytes."""
    small, large = 1024, max(bytes, 1 << 20)
    with tempfile.TemporaryDirectory() as folder:
        processes = [start(["messages", os.path.join(folder, "store"), str(rank), str(small), str(large)],
                           stderr=subprocess.PIPE) for rank in (0, 1)]
        answers = [process.communicate() for process in processes]
    if any(process.returncode for process in processes):
        words = next(errors for _, errors in answers if errors).strip().splitlines()[-1]
        raise ModelError(f"messages between two processes could not be measured: {words}")
    times = json.loads(answers[0][0].splitlines()[-1])
    latency = times[0]
    return HandOver(latency, (large - small) / max(times[1] - latency, 1e-9))


def exchange(store: str, rank: int, sizes: Sequence[int]) -> list[float]:
    """Seconds of a message of each size: half of there and back, the median."""
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2,
                            timeout=datetime.timedelta(seconds=60))
    found = []
    for size in sizes:
        buffer = torch.zeros(size // 4)
        times = []
        for _ in range(30):
            start_time = time.perf_counter()
            for sender in (0, 1):
                dist.send(buffer, 1 - rank) if rank == sender else dist.recv(buffer, 1 - rank)
            times.append((time.perf_counter() - start_time) / 2)
        found.append(statistics.median(times[5:]))
    dist.destroy_process_group()
    return found


# --- In the other process

def sweep(path: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the model's own code prints
    work: Work = torch.load(path, weights_only=False)
    depth, layers, split = work.choices
    for line in iter(sys.stdin.readline, ""):
        example = work.examples[int(line)]
        graph = with_loss(trace(work.model, example, depth, layers, split), work.losses[int(line)])

        def ready() -> None:
            answers.write("ready\n")
            answers.flush()
        sweep_until(graph, example, work.optimizer, ready, lambda: bool(select.select([sys.stdin], [], [], 0)[0]))


def main(argv: Sequence[str]) -> None:
    if argv[0] == "sweep":
        sweep(argv[1])
    else:
        print(json.dumps(exchange(argv[1], int(argv[2]), [int(size) for size in argv[3:]])))


if __name__ == "__main__":
    main(sys.argv[1:])


__all__ = ["Companions", "HandOver", "Work", "companions", "measure_messages"]
