#!/usr/bin/env python3
"""Checks that TensorBoard reads the values of a run's log from its event files.

    read_events.py FOLDER

Requires tensorboard from PyPI. The exit status is 0 if the event files have exactly the values of log.jsonl,
and every second step has histograms."""
import json
import pathlib
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder = pathlib.Path(sys.argv[1])
expected = {}
for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines():
    row = json.loads(line)
    for tag in row.keys() - {"step"}:
        # Events store f32.
        value = struct.unpack("f", struct.pack("f", row[tag]))[0]
        expected.setdefault(tag, []).append((row["step"], value))
events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
events.Reload()
for tag, rows in expected.items():
    found = [(e.step, e.value) for e in events.Scalars(tag)]
    # The log has 9 digits. They determine an f32, but not the double that was logged.
    if [s for s, _ in found] != [s for s, _ in rows] or any(
            abs(a - b) > 2e-7 * abs(b) for (_, a), (_, b) in zip(found, rows)):
        sys.exit(f"{tag}: {found} is not {rows}")
if set(events.Tags()["scalars"]) != {*expected, "lr"}:
    sys.exit(f"tags are {events.Tags()['scalars']}")
histograms = events.Tags()["histograms"]
for tag in histograms:
    steps = [e.step for e in events.Histograms(tag)]
    if not steps or any(step % 2 for step in steps):
        sys.exit(f"{tag}: histograms of steps {steps}, not of every second one")
if not any(tag.startswith("gradients/") for tag in histograms):
    sys.exit(f"no histograms of gradients: {histograms}")
print(f"{len(histograms)} histograms, {len(expected)} tags of {len(expected['loss'])} steps")
