#!/usr/bin/env python3
"""Traces in Perfetto's own format, read by the classes that its package brings, and, where it can be
had, asked by its trace processor.

The native trace and the JSON one of the same plan have to hold the same instructions at the same
nanoseconds, and the native one takes at most an eighth of the bytes.
"""

import json
import os
import zlib

from common import main, ok, require, skip


def slices_of_native(path):
    """(process, name, start, duration) of every slice, by the rules of track events."""
    try:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
    except ImportError:
        skip("the package perfetto is not here; tools/peers/environment gets it")
    bundles, trace = Trace(), Trace()
    with open(path, "rb") as file:
        bundles.ParseFromString(file.read())
    for packet in bundles.packet:
        trace.MergeFromString(zlib.decompress(packet.compressed_packets))
    processes, parents, names, open_slices, slices = {}, {}, {}, {}, []
    flows, ends = set(), set()
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            parents[track.uuid] = track.parent_uuid
            if track.HasField("process"):
                processes[track.uuid] = track.process.process_name
        for name in packet.interned_data.event_names:
            names[name.iid] = name.name
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        flows.update(event.flow_ids)
        ends.update(event.terminating_flow_ids)
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            open_slices.setdefault(event.track_uuid, []).append((names[event.name_iid], packet.timestamp))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            name, start = open_slices[event.track_uuid].pop()
            slices.append((processes[parents[event.track_uuid]], name, start, packet.timestamp - start))
    require(not any(open_slices.values()), "slices begin and do not end")
    require(flows == ends and flows, "flows begin that do not end")
    return sorted(slices)


def slices_of_json(path):
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}
    return sorted((names[e["pid"]], e["name"], e["args"]["start_ns"], e["args"]["duration_ns"])
                  for e in events if e["ph"] == "X")


def ask_processor(path, expected):
    try:
        from perfetto.trace_processor import TraceProcessor
        processor = TraceProcessor(trace=path)
    except Exception as error:  # its binary is downloaded
        print(f"--  the trace processor cannot be had: {type(error).__name__}: {error}")
        return
    count = next(iter(processor.query("select count(*) as n from slice"))).n
    require(count == expected, f"the trace processor sees {count} slices, not {expected}")
    late = next(iter(processor.query("select count(*) as n from stats where severity='error' and value>0"))).n
    require(late == 0, "the trace processor counts errors")
    ok(f"the trace processor sees {count} slices and no error")


def check(stagecraft):
    plan = stagecraft.plan("plan.json", "llama3-70b", "8x8xh100", "--batch", 256, "--straight",
                           "--gap", "50%")
    stagecraft.run("export", "perfetto", plan, "-o", "trace.json")
    stagecraft.run("export", "perfetto", plan, "-o", "trace.pftrace")
    plain, native = map(stagecraft.path, ("trace.json", "trace.pftrace"))
    slices = slices_of_native(native)
    require(slices == slices_of_json(plain), "the two traces differ")
    small, large = os.path.getsize(native), os.path.getsize(plain)
    require(8 * small <= large, f"the native trace has {small} bytes, the JSON one {large}")
    ok(f"{len(slices)} slices at the same nanoseconds in {small} bytes, of {large} as JSON")
    ask_processor(native, len(slices))


if __name__ == "__main__":
    main(check)
