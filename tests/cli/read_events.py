#!/usr/bin/env python3
"""Whether TensorBoard reads from a run's event files what its log has.

    read_events.py FOLDER

Wants PyPI's tensorboard. Exit status 0: all values of log.jsonl are there, and no others."""
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
        # Events hold f32.
        value = struct.unpack("f", struct.pack("f", row[tag]))[0]
        expected.setdefault(tag, []).append((row["step"], value))
events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
events.Reload()
for tag, rows in expected.items():
    found = [(e.step, e.value) for e in events.Scalars(tag)]
    # The log has 9 digits, which tell an f32 but not the double that it was made of.
    if [s for s, _ in found] != [s for s, _ in rows] or any(
            abs(a - b) > 2e-7 * abs(b) for (_, a), (_, b) in zip(found, rows)):
        sys.exit(f"{tag}: {found} is not {rows}")
if set(events.Tags()["scalars"]) != {*expected, "lr"}:
    sys.exit(f"tags are {events.Tags()['scalars']}")
print(f"{len(expected)} tags of {len(expected['loss'])} steps")
