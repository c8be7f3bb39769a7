#!/usr/bin/env python3
"""Compares operations of Brasa and PyTorch on 1 to 10^7 elements.

Two processes take turns, one entry of one size each. The least times of several rounds are compared,
since other load on the machine can only add to them. Both generate the same inputs from the same seed,
and their results must agree. The output is the speedup of Brasa over PyTorch.
"""
import argparse
import fnmatch
import json
import os
import pathlib
import re
import sys

from turns import Side, least_time, read_arguments

SIZES = [10 ** i for i in range(8)]
RANDOM = ["dropout_fast"]  # drops different elements than PyTorch
ENTRY = re.compile(r'ENTRY\((\w+), "(\w+)", .*, "(.*)"\)$')


def read_entries():
    """Returns the inputs and PyTorch's expression of each entry of sweep_entries.def, and of Adam, which has none."""
    rows = (pathlib.Path(__file__).parent / "sweep_entries.def").read_text().splitlines()
    found = [ENTRY.match(row) for row in rows if row.startswith("ENTRY(")]
    return {m[1]: (m[2], m[3]) for m in found} | {"adam": ("m", None)}


# ---- PyTorch, in its own process ---------------------------------------------------------------

def positive_definite(n):
    import torch

    k = 1 if n < 100 else 10
    x = torch.randn(n // (k * k), k, k)
    return (x + x.transpose(1, 2)) * 0.5 + torch.eye(k) * 10


def of_images(kind, n):
    import torch

    w = min(n, 100)
    h = min(n // w, 100)
    c = min(n // w // h, 10)
    batch = n // w // h // c
    return {
        "h": lambda: torch.randn(c),
        "w": lambda: torch.randn(c, c, 3, 3),
        "y": lambda: torch.rand(batch, h, w, 2) * 2 - 1,
        "e": lambda: torch.randn(batch, c, h, w),
    }[kind]()


def make_input(kind, n):
    import torch

    c = 1
    while c < 1000 and c * c < n:
        c *= 10
    r = n // c
    few, ten = min(r, 10), min(n, 10)
    kinds = {
        "p": lambda: torch.rand(r, c) + 0.5,
        "u": lambda: torch.rand(r, c),
        "b": lambda: torch.randn(r, c) > 0,
        "z": lambda: torch.randint(0, 1000, (r, c)),
        "j": lambda: torch.randint(0, c, (r, c)),
        "c": lambda: torch.randn(r, c, 2),
        "s": lambda: torch.randn(n // ten, ten),
        "d": lambda: torch.randn(r // few, few, c),
        "v": lambda: torch.rand(n) + 0.5,
        "r": lambda: torch.randn(c),
        "o": lambda: torch.randn(c).sort()[0],
        "k": lambda: torch.randn(r, 1),
        "t": lambda: torch.randint(0, c, (r,)),
        "i": lambda: torch.randint(0, r, (r,)),
        "a": lambda: positive_definite(n),
        "m": lambda: torch.randn(r, c),
    }
    return kinds[kind]() if kind in kinds else of_images(kind, n)


def squares(t):
    import torch
    return t.to(torch.float32).square().sum(dtype=torch.float64).item()


def measure(entry, phase, n, seconds):
    """Returns the least time and the sum of squares of the results; a time of 0 if there is no gradient."""
    import torch

    kinds, expression = entry
    call = expression and eval(f"lambda *x: {expression}", {"torch": torch, "F": torch.nn.functional})
    torch.manual_seed(0)
    x = [make_input(kind, n) for kind in kinds]
    if not call:
        if phase == "backward":
            return 0, 0
        x[0].requires_grad_()
        x[0].grad = torch.ones_like(x[0])
        return least_time(torch.optim.Adam(x).step, seconds), 0
    if phase == "forward":
        with torch.no_grad():
            least = least_time(lambda: call(*x), seconds)
            torch.manual_seed(1)
            return least, squares(call(*x))
    wanted = [t.requires_grad_() for t in x if t.is_floating_point()]
    y = call(*x)
    if not y.requires_grad:
        return 0, 0
    dy = torch.randn(y.shape, dtype=y.dtype)
    grad = torch.autograd.grad

    def run():
        return grad(y, wanted, dy, retain_graph=True, allow_unused=True)
    try:
        return least_time(run, seconds), sum(squares(g) for g in run() if g is not None)
    except RuntimeError:  # PyTorch has no derivative
        return 0, 0


def serve_torch(threads, seconds):
    import torch

    torch.set_num_threads(threads)
    table = read_entries()
    for line in sys.stdin:
        name, phase, n = line.split()
        least, checksum = measure(table[name], phase, int(n), seconds)
        print(f"{1e9 * least:.9g} {checksum:.9g}", flush=True)


# ---- The comparison ----------------------------------------------------------------------------

def check(name, phase, n, ours, theirs, tolerance):
    if name not in RANDOM and not abs(ours - theirs) <= tolerance * (1 + abs(theirs)):
        sys.exit(f"{name}/{phase} of {n}: sums of squares differ: brasa {ours}, torch {theirs}")


def compare(ours, theirs, name, phase, n, args):
    """Returns the least times of several rounds in ns, or None if PyTorch has no gradient. While Brasa seems slower,
    adds rounds, in case a measurement was disturbed, up to three times as many in total."""
    mine, his, turns = float("inf"), float("inf"), 0
    while turns < args.rounds or (turns < 3 * args.rounds and mine > his):
        a, b = ours.ask(f"{name} {phase} {n}"), theirs.ask(f"{name} {phase} {n}")
        if b[0] == 0:
            return None
        if a[0] == 0:
            sys.exit(f"{name}: only PyTorch has a gradient")
        check(name, phase, n, a[1], b[1], args.tolerance)
        mine, his, turns = min(mine, a[0]), min(his, b[0]), turns + 1
    return {"name": name, "phase": phase, "n": n, "threads": args.threads, "brasa_ns": mine,
            "torch_ns": his, "speedup": his / mine, "brasa_gbps": a[2] / mine}


def chosen(args):
    for name in read_entries():
        for phase in ["forward", "backward"]:
            label = name if phase == "forward" else f"{name}.backward"
            if fnmatch.fnmatch(label, args.filter):
                yield label, name, phase


def row_of(label, row, markdown):
    cells = [f"{r['speedup']:.2f}" if r["speedup"] < 9.95 else f"{r['speedup']:.0f}" for r in row]
    if markdown:
        return f"| {label} | " + " | ".join(cells) + " |"
    return f"{label:<26}" + "".join(f"{cell:>9}" for cell in cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--filter", default="*", help="glob of the names of entries to compare")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each entry (3)")
    parser.add_argument("--seconds", type=float, default=0.003,
                        help="minimum time to measure an entry for in each round (0.003)")
    parser.add_argument("--smallest", type=int, default=1, help="smallest size (1)")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="largest size (10^7)")
    parser.add_argument("--brasa", default="build/brasa", help="path of the command (build/brasa)")
    parser.add_argument("--tolerance", type=float, default=1e-4,
                        help="maximum relative difference of the results (1e-4)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--times", action="store_true", help="print both times, too")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = read_arguments(parser)
    if args.serve:
        serve_torch(args.threads, args.seconds)
        return
    options = ["--serve", "--threads", str(args.threads), "--seconds", str(args.seconds)]
    ours = Side("brasa", [args.brasa, "bench", "sweep", *options], args.threads)
    theirs = Side("torch", [sys.executable, __file__, *options], args.threads)
    sizes = [n for n in SIZES if args.smallest <= n <= args.largest]
    if not args.json:
        heads = [f"10^{len(str(n)) - 1}" if n > 1 else "1" for n in sizes]
        print("| elements | " + " | ".join(heads) + " |\n|" + "---|" * (1 + len(heads))
              if args.markdown else " " * 26 + "".join(f"{head:>9}" for head in heads))
    for label, name, phase in chosen(args):
        row = [compare(ours, theirs, name, phase, n, args) for n in sizes]
        if None in row:
            continue
        if args.json:
            for r in row:
                print(json.dumps(r), flush=True)
            continue
        print(row_of(label, row, args.markdown), flush=True)
        if args.times:
            for side in ["brasa", "torch"]:
                print(f"{'':4}{side + ', us':<22}" +
                      "".join(f"{r[side + '_ns'] / 1e3:>9.4g}" for r in row), flush=True)
    ours.close()
    theirs.close()


if __name__ == "__main__":
    main()
