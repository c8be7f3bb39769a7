#!/usr/bin/env python3
"""Selects a few small calls of each operation from the files of record.py and writes them to one file.

    tests/op_db/pick.py BRASA DIRECTORY tests/op_db/few.safetensors

For each operation and dtype it selects calls that Brasa supports, of different kinds: a kind is the number of
dimensions of each tensor and the names of the keyword arguments. The smallest calls come first. It also selects
calls that must be rejected.
"""
import json
import pathlib
import subprocess
import sys
import zlib

from safetensors.torch import load_file, safe_open, save_file

LARGEST = 1500  # bytes, unless an operation has no smaller call
MOST = {"f32": 4, "f64": 5, "i64": 2, "bool": 1}  # calls of an operation
STORED = "bf16", "f16", "i32", "i8", "u8"  # one call of an operation in one of these dtypes, if it is small
LARGEST_STORED = 64  # bytes of its tensors
REJECTED = 4  # calls that must be rejected
WIDEST = 1e-3  # tolerance: a call near a pole would not reveal errors


def named(value):
    """Returns the names of the tensors in a sample."""
    if isinstance(value, list):
        return [n for v in value for n in named(v)]
    if not isinstance(value, dict):
        return []
    own = [value["tensor"]] if "tensor" in value else []
    return own + [n for k, v in value.items() if k != "tensor" for n in named(v)]


def renamed(value, names):
    if isinstance(value, list):
        return [renamed(v, names) for v in value]
    if not isinstance(value, dict):
        return value
    return {k: names[v] if k == "tensor" else renamed(v, names) for k, v in value.items()}


def tolerances(value):
    if isinstance(value, list):
        return [t for v in value for t in tolerances(v)]
    if not isinstance(value, dict):
        return []
    own = [value["rtol"], value["atol"]] if "tensor" in value and "rtol" in value else []
    return own + [t for v in value.values() for t in tolerances(v)]


def stored_choice(name, samples, report, size, empty):
    """Returns a list of the index of one small sample in a storage dtype, or no index. The name chooses the dtype."""
    for i in range(len(STORED)):
        dtype = STORED[(zlib.crc32(name.encode()) + i) % len(STORED)]
        small = [n for n in report["passed"]
                 if samples[n]["dtype"] == dtype and not empty(n) and size(n) <= LARGEST_STORED]
        if small:
            return [max(small, key=size)]
    return []


def choice(samples, report, size, kind, empty):
    """Returns the indices of the samples to keep."""
    kept, seen = [], set()

    def plain(number):
        return '"second": {' not in json.dumps(samples[number])

    def rank(number):
        large = size(number) > LARGEST
        return large, not large and plain(number), size(number)

    left = dict(MOST)
    for number in sorted(report["passed"], key=rank):
        dtype = samples[number]["dtype"]
        known = (dtype, kind(number)) in seen
        if not left.get(dtype) or known or empty(number) or (size(number) > LARGEST and kept):
            continue
        if max(tolerances(samples[number]), default=0) > WIDEST:
            continue
        seen.add((dtype, kind(number)))
        left[dtype] -= 1
        kept.append(number)
    return sorted(kept + [n for n in report["refused"] if size(n) <= LARGEST][:REJECTED])


def main():
    brasa, directory, target = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    kept, ops, metadata = {}, [], {}
    for path in sorted(directory.glob("*.safetensors")):
        tensors = load_file(path)
        with safe_open(path, "pt") as file:
            metadata = file.metadata()
        printed = subprocess.run([brasa, "check", "--json", path], stdout=subprocess.PIPE, check=True)
        report = json.loads(printed.stdout)
        op = json.loads(metadata["ops"])[0]
        samples = op["samples"]
        size = lambda n: sum(tensors[t].nbytes for t in named(samples[n]))
        empty = lambda n: any(tensors[t].numel() == 0 for t in named(samples[n]))
        kind = lambda n: (*(tensors[t].dim() for t in named(samples[n])), *sorted(samples[n]["kwargs"]))
        numbers = choice(samples, report, size, kind, empty)
        numbers = sorted(numbers + stored_choice(path.stem, samples, report, size, empty))
        names = {t: str(len(kept) + i) for i, t in enumerate(t for n in numbers for t in named(samples[n]))}
        kept |= {names[t]: tensors[t] for t in names}
        ops.append(op | {"samples": [renamed(samples[n], names) for n in numbers]})
    save_file(kept, target, metadata | {"ops": json.dumps(ops, separators=(",", ":"))})


if __name__ == "__main__":
    main()
