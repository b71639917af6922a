#!/usr/bin/env python3
"""Chakra traces, read by code that protoc makes from the schema, and replayed.

The replay issues nodes as ASTRA-sim's feeder does: it knows `data_deps` only, takes what is ready
by ascending id, computes one thing at a time, and has one send or collective under way at a time;
a collective waits for all members. What messages take is the predicted timeline's, so that the
replayed step has to be the predicted one where messages of a device do not queue.
"""

import collections
import glob
import heapq
import importlib
import json
import os
import sys

from common import FOLDER, fail, main, ok, require, skip


def schema(folder):
    """The Python module that protoc makes of et_def.proto."""
    source = os.path.join(FOLDER, "et_def.proto")
    if not os.path.isfile(source):
        skip(f"there is no {source}; tools/peers/environment gets it")
    try:
        from grpc_tools import protoc
    except ImportError as error:
        skip(f"{sys.executable} has no grpc_tools ({error})")
    if protoc.main(["protoc", f"-I{FOLDER}", f"--python_out={folder}", source]) != 0:
        fail("protoc refuses et_def.proto")
    sys.path.insert(0, folder)
    return importlib.import_module("et_def_pb2")


def messages(data):
    """Each behind its length, a varint."""
    place = 0
    while place < len(data):
        size = shift = 0
        while True:
            byte = data[place]
            place += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        yield data[place:place + size]
        place += size


def value(attribute):
    return getattr(attribute, attribute.WhichOneof("value"))


def read_trace(et, path):
    """Nodes by id, each with its attributes by name."""
    with open(path, "rb") as file:
        parts = messages(file.read())
        metadata = et.GlobalMetadata()
        metadata.ParseFromString(next(parts))
        require(metadata.version, f"{path} has no version")
        nodes = {}
        for part in parts:
            node = et.Node()
            node.ParseFromString(part)
            require(node.id not in nodes, f"{path} has two nodes {node.id}")
            nodes[node.id] = (node, {each.name: value(each) for each in node.attr})
    for node, attributes in nodes.values():
        require(all(other in nodes for other in node.data_deps), f"{node.name} needs no known node")
        for each in node.attr:
            expected = {"is_cpu_op": "bool_val", "pg_name": "string_val", "comm_src": "int32_val",
                        "comm_dst": "int32_val", "comm_tag": "int32_val", "comm_type": "int64_val",
                        "comm_size": "int64_val"}
            require(each.WhichOneof("value") == expected.get(each.name),
                    f"{each.name} is a {each.WhichOneof('value')}")
    return nodes


class Replay:
    """All devices' traces on one clock, in nanoseconds."""

    def __init__(self, et, traces, groups, seconds_of):
        self.et, self.traces, self.groups = et, traces, groups
        self.seconds_of = seconds_of  # (device, name) -> nanoseconds of a message or collective
        self.waiting = [{i: set(node.data_deps) for i, (node, _) in trace.items()}
                        for trace in traces]
        self.after = [collections.defaultdict(list) for _ in traces]
        for device, trace in enumerate(traces):
            for i, (node, _) in trace.items():
                for other in node.data_deps:
                    self.after[device][other].append(i)
        self.ready = [{i for i, needs in waiting.items() if not needs} for waiting in self.waiting]
        self.computing = [False] * len(traces)
        self.talking = [False] * len(traces)
        self.arrived, self.posted = {}, {}  # messages by (source, destination, tag)
        self.joined = collections.defaultdict(dict)  # (group, which) -> device: node
        self.count = collections.Counter()  # collectives of (device, group)
        self.events, self.now, self.done = [], 0, 0

    def at(self, time, action, *arguments):
        heapq.heappush(self.events, (time, len(self.events) + self.done * 1000000, action, arguments))

    def issue(self, device):
        """What is ready by ascending id, as far as there is room."""
        et = self.et
        for i in sorted(self.ready[device]):
            node, attributes = self.traces[device][i]
            if node.type == et.COMP_NODE:
                if self.computing[device]:
                    continue
                self.computing[device] = True
                self.at(self.now + node.duration_micros * 1000, self.end, device, i)
            elif node.type == et.COMM_RECV_NODE:
                key = (attributes["comm_src"], device, attributes["comm_tag"])
                if key in self.arrived:
                    self.at(self.now, self.end, device, i)
                else:
                    self.posted[key] = (device, i)
            else:
                if self.talking[device]:
                    continue
                self.talking[device] = True
                if node.type == et.COMM_SEND_NODE:
                    key = (device, attributes["comm_dst"], attributes["comm_tag"])
                    require(attributes["comm_src"] == device, f"{node.name} sends for another")
                    self.at(self.now + self.seconds_of(device, node.name), self.arrive, key, i)
                else:
                    self.join(device, i, attributes["pg_name"])
            self.ready[device].discard(i)

    def join(self, device, i, group):
        require(int(group) > 0 and device in self.groups[group],
                f"device {device} is not in group {group}")
        which = (group, self.count[device, group])
        self.count[device, group] += 1
        self.joined[which][device] = i
        if set(self.joined[which]) != set(self.groups[group]):
            return
        sizes = {(self.traces[d][n][1]["comm_size"], self.traces[d][n][1]["comm_type"])
                 for d, n in self.joined[which].items()}
        require(len(sizes) == 1, f"members of group {group} mean different collectives: {sizes}")
        for d, n in self.joined[which].items():
            self.at(self.now + self.seconds_of(d, self.traces[d][n][0].name), self.end, d, n)

    def arrive(self, key, i):
        self.arrived[key] = self.now
        if key in self.posted:
            self.end(*self.posted.pop(key))
        self.end(key[0], i)

    def end(self, device, i):
        node, _ = self.traces[device][i]
        self.done += 1
        if node.type == self.et.COMP_NODE:
            self.computing[device] = False
        elif node.type != self.et.COMM_RECV_NODE:
            self.talking[device] = False
        for other in self.after[device][i]:
            self.waiting[device][other].discard(i)
            if not self.waiting[device][other]:
                self.ready[device].add(other)
        self.issue(device)

    def run(self):
        for device in range(len(self.traces)):
            self.issue(device)
        while self.events:
            self.now, _, action, arguments = heapq.heappop(self.events)
            action(*arguments)
        return self.now, sum(map(len, self.traces)) - self.done


QUESTIONS = {
    "1f1b, tied head": "gpt2-124m 4xh100 --batch 16 --microbatch 2 --schedule 1f1b --straight",
    "replicas": "gpt2-124m 4xh100 --batch 16 --microbatch 2 --schedule 1f1b --max-stages 2"
                " --min-layers-per-stage 4",
    "zero1": "gpt2-350m 8xh100 --batch 32 --microbatch 2 --schedule 1f1b --sharding zero1",
    "buckets": "gpt2-350m 8xh100 --batch 32 --microbatch 4 --schedule 1f1b --gradient-bucket 20MiB",
    "zero3": "gpt2-350m 8xh100 --batch 32 --microbatch 4 --schedule 1f1b --sharding zero3",
    "interleaved, tied head": "gpt2-124m 4xh100 --batch 16 --microbatch 2 --schedule interleaved"
                              " --straight",
    "dualpipev, fused pairs": "gpt2-124m 4xh100 --batch 16 --microbatch 1 --schedule dualpipev"
                              " --straight",
    "chimera, copies": "gpt2-124m 4xh100 --batch 16 --microbatch 2 --schedule chimera --straight",
    "chimera-buckets, copies": "gpt2-124m 4xh100 --batch 16 --microbatch 2 --schedule chimera"
                               " --straight --gradient-bucket 10MiB",
    "zb-h1": "gpt2-124m 4xh100 --batch 16 --microbatch 2 --schedule zb-h1 --straight",
}


def durations_of(trace_file):
    """(device, name) -> nanoseconds, of the predicted timeline."""
    with open(trace_file) as file:
        content = json.load(file)
    events = content["traceEvents"] if isinstance(content, dict) else content
    return {(event["pid"], event["name"]): round(event["dur"] * 1000)
            for event in events if event.get("ph") == "X"}


def without_buckets(stagecraft, plan, stem):
    """What whole sums take, of which the timeline of a plan with buckets shows what is not hidden."""
    with open(plan) as file:
        content = json.load(file)
    if content["optimizer"].pop("gradient_bucket", None) is None:
        return {}
    path = stagecraft.write(f"{stem}.apart.json", json.dumps(content))
    stagecraft.run("export", "perfetto", path, "-o", f"{stem}.apart.trace.json")
    return durations_of(stagecraft.path(f"{stem}.apart.trace.json"))


def check(stagecraft):
    et = schema(stagecraft.folder)
    for name, question in QUESTIONS.items():
        stem = name.split(",")[0].replace(" ", "-")
        plan = stagecraft.plan(f"{stem}.plan.json", *question.split())
        stagecraft.run("export", "chakra", plan, "-o", stem)
        stagecraft.run("export", "perfetto", plan, "-o", f"{stem}.trace.json")
        step = stagecraft.result("simulate", plan)["step_ns"]
        count = len(glob.glob(stagecraft.path(f"{stem}.*.et")))
        traces = [read_trace(et, stagecraft.path(f"{stem}.{device}.et")) for device in range(count)]
        with open(stagecraft.path(f"{stem}.json")) as file:
            groups = json.load(file)
        times = durations_of(stagecraft.path(f"{stem}.trace.json"))
        apart = without_buckets(stagecraft, plan, stem)

        def nanoseconds(device, node):
            name, _, bucket = node.partition(".bucket")
            if not bucket:
                return times.get((device, name), 0)
            sizes = {other.name: attributes["comm_size"]
                     for other, attributes in traces[device].values()
                     if other.name.startswith(f"{name}.bucket")}
            return round(apart[device, name] * sizes[node] / sum(sizes.values()))

        replayed, left = Replay(et, traces, groups, nanoseconds).run()
        require(left == 0, f"{name}: {left} nodes wait for ever")
        off = replayed / step - 1
        print(f"    {name}: {sum(map(len, traces))} nodes, {count} devices, step {step} ns, "
              f"replayed {replayed} ns ({off:+.2%})")
        require(abs(off) < 0.03, f"{name}: the replayed step is {off:+.2%} of the predicted one")
    ok(f"Chakra: {len(QUESTIONS)} plans read by the schema and replayed")


if __name__ == "__main__":
    main(check)
