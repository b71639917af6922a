#!/usr/bin/env python3
"""Messages on shared links, by SimGrid (Debian's python3-simgrid): the same schedules on hosts whose
links are shared max-min fairly have to take the same step as ours with --sharing fair.

SimGrid keeps time in floating point and ends what is nearly done; we keep whole nanoseconds, and
give nobody what a division leaves over. Each message may so be off by a few nanoseconds.
"""

import json
import multiprocessing
import os
import subprocess
import sys

from common import main, ok, require, skip

# Its package is for this one, whatever runs the check.
DEBIAN = "/usr/bin/python3"

# Nanoseconds for each message of a step, if they all were on one chain.
TOLERANCE = 1

FORWARD, BACKWARD = 1_000_000, 2_000_000
SHAPES = (  # a schedule, its devices, chunks of each, microbatches
    ("gpipe", 4, 1, 6), ("1f1b", 4, 1, 8), ("1f1b", 8, 1, 16), ("interleaved", 4, 2, 8),
)
NETWORKS = (  # devices of a node, bytes of a message, GB/s between nodes and inside
    (1, 4_000_000, 2, 2), (2, 4_000_000, 1, 8), (2, 16_000_000, 8, 8), (4, 3_000_001, 1, 3),
    (2, 7_654_321, 5, 2), (1, 12_000_000, 3, 3), (4, 2_500_000, 1, 16), (2, 900_000, 1, 1),
)


def needs(op, stage, last):
    """Which channel brings what a forward or backward of the stage reads."""
    if op == "F":
        return (stage - 1, stage) if stage > 0 else None
    return (stage + 1, stage) if stage < last else None


def gives(op, stage, last):
    if op == "F":
        return (stage, stage + 1) if stage < last else None
    return (stage, stage - 1) if stage > 0 else None


def replay(simgrid, orders, network, chunks, answer):
    """The step in nanoseconds; in a process of its own, since an engine cannot be made twice."""
    per_node, size, between, inside = network
    devices = len(orders)
    last = devices * chunks - 1
    engine = simgrid.Engine(["check", "--log=root.threshold:critical", "--cfg=network/model:CM02",
                             "--cfg=network/bandwidth-factor:1", "--cfg=network/latency-factor:1",
                             "--cfg=network/weight-S:0", "--cfg=network/crosstraffic:0"])
    zone = simgrid.NetZone.create_full_zone("world")
    hosts = [zone.create_host(f"host{i}", 1e9) for i in range(devices)]

    def pair(name, gigabytes):
        return [zone.create_link(f"{name}.{way}", gigabytes * 1e9).set_latency(0).seal()
                for way in ("out", "in")]
    of_device = [pair(f"device{i}", inside) for i in range(devices)]
    of_node = [pair(f"node{i}", between) for i in range(devices)]
    for a in range(devices):
        for b in range(devices):
            if a == b:
                continue
            same = a // per_node == b // per_node
            ends = (of_device[a][0], of_device[b][1]) if same else (
                of_node[a // per_node][0], of_node[b // per_node][1])
            zone.add_route(hosts[a].netpoint, hosts[b].netpoint, None, None,
                           [simgrid.LinkInRoute(link) for link in ends], False)
    zone.seal()

    ready, waiting = {}, {}

    def send(channel, count):
        """Messages of a channel go one after the other."""
        box = simgrid.Mailbox.by_name(str(channel))
        for _ in range(count):
            waiting[channel].acquire()
            box.put(ready[channel].pop(0), size)

    ends = []

    def work(order):
        arrived = {}
        for word in order:
            op, (stage, microbatch) = word[0], map(int, word[1:].split("."))
            source = needs(op, stage, last)
            while source and microbatch not in arrived.get(source, ()):
                got = simgrid.Mailbox.by_name(str(source)).get()
                arrived.setdefault(source, set()).add(got)
            simgrid.this_actor.sleep_for((FORWARD if op == "F" else BACKWARD) / chunks * 1e-9)
            target = gives(op, stage, last)
            if target:
                ready[target].append(microbatch)
                waiting[target].release()
        ends.append(simgrid.Engine.clock)

    counts = {}
    for order in orders:
        for word in order:
            target = gives(word[0], int(word[1:].split(".")[0]), last)
            if target:
                counts[target] = counts.get(target, 0) + 1
    actors = [simgrid.Actor.create(f"device{i}", hosts[i], work, order)
              for i, order in enumerate(orders)]
    for channel, count in counts.items():
        ready[channel], waiting[channel] = [], simgrid.Semaphore(0)
        # What is sent is on its way before it is asked for.
        simgrid.Mailbox.by_name(str(channel)).set_receiver(actors[channel[1] % devices])
        simgrid.Actor.create(f"channel{channel}", hosts[channel[0] % devices], send, channel, count)
    engine.run()
    answer.put((round(max(ends) * 1e9), sum(counts.values())))


def check(stagecraft):
    try:
        import simgrid
    except ImportError as error:
        has = [DEBIAN, "-c", "import simgrid"]
        if os.path.exists(DEBIAN) and subprocess.run(has, capture_output=True).returncode == 0:
            os.execv(DEBIAN, [DEBIAN, *sys.argv])
        skip(f"{sys.executable} has no simgrid ({error}), nor has {DEBIAN}: the package is "
             "python3-simgrid")
    worst = cases = 0
    for name, devices, chunks, microbatches in SHAPES:
        shape = ["--stages", devices, "--microbatches", microbatches]
        if chunks > 1:
            shape += ["--virtual", chunks]
        rows = json.loads(stagecraft.run("schedule", "show", name, *shape, "--format", "json"))
        for network in NETWORKS:
            per_node, size, between, inside = network
            result = stagecraft.result(
                "simulate", "--schedule", name, *shape, "--forward", f"{FORWARD}ns", "--backward",
                f"{BACKWARD}ns", "--message", f"{size}B", "--sharing", "fair", "--bandwidth",
                f"{between}GB/s,{inside}GB/s", "--devices-per-node", per_node)
            answer = multiprocessing.Queue()
            process = multiprocessing.Process(
                target=replay, args=(simgrid, rows["devices"], network, chunks, answer))
            process.start()
            step, messages = answer.get(timeout=120)
            process.join()
            off = abs(step - result["step_ns"])
            require(off <= TOLERANCE * messages,
                    f"{name} on {devices} devices, {chunks} chunks, {microbatches} microbatches, "
                    f"network {network}: ours takes {result['step_ns']} ns, SimGrid's {step}")
            cases += 1
            worst = max(worst, off)
    ok(f"SimGrid's steps on shared links are ours in {cases} cases, within {worst} ns")


if __name__ == "__main__":
    main(check)
