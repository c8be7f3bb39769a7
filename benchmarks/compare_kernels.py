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
import sys

from turns import Side, least_time, read_arguments

SIZES = [10 ** i for i in range(8)]
RANDOM = ["dropout_fast"]  # drops different elements than PyTorch


# ---- PyTorch, in its own process: the entries of bench_sweep.c ---------------------------------

def entries():
    import torch
    from torch.nn import functional as F

    return {
        "add": ("mm", lambda a, b: a + b),
        "add_row": ("mr", lambda a, b: a + b),
        "add_column": ("mk", lambda a, b: a + b),
        "mul_scalar": ("m", lambda x: x * 3),
        "div": ("mp", lambda a, b: a / b),
        "pow": ("pm", lambda a, b: a ** b),
        "less": ("mm", lambda a, b: a < b),
        "where": ("bmm", torch.where),
        "masked_fill": ("mb", lambda x, mask: x.masked_fill(mask, -1e9)),
        "exp": ("m", torch.exp),
        "log": ("p", torch.log),
        "sqrt": ("p", torch.sqrt),
        "erf": ("m", torch.erf),
        "tanh": ("m", torch.tanh),
        "sigmoid": ("m", torch.sigmoid),
        "relu": ("m", torch.relu),
        "gelu": ("m", F.gelu),
        "gelu_tanh": ("m", lambda x: F.gelu(x, approximate="tanh")),
        "dropout": ("m", lambda x: F.dropout(x, 0.1, True)),
        "dropout_fast": ("m", lambda x: F.dropout(x, 0.1, True)),
        "softmax": ("m", lambda x: torch.softmax(x, -1)),
        "softmax_first": ("m", lambda x: torch.softmax(x, 0)),
        "softmax_short": ("s", lambda x: torch.softmax(x, -1)),
        "log_softmax": ("m", lambda x: torch.log_softmax(x, -1)),
        "layer_norm": ("mrr", lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5)),
        "cross_entropy": ("mt", F.cross_entropy),
        "embedding": ("mi", lambda weight, index: F.embedding(index, weight)),
        "transpose": ("m", lambda x: x.t().contiguous()),
        "transpose_outer": ("d", lambda x: x.transpose(0, 1).contiguous()),
        "cat": ("mm", lambda a, b: torch.cat((a, b), -1)),
        "clone": ("m", torch.clone),
        "to_f64": ("m", lambda x: x.to(torch.float64)),
        "sum": ("m", torch.sum),
        "sum_last": ("m", lambda x: x.sum(-1)),
        "sum_first": ("m", lambda x: x.sum(0)),
        "sum_middle": ("d", lambda x: x.sum(1)),
        "sum_short": ("s", lambda x: x.sum(-1)),
        "mean_last": ("m", lambda x: x.mean(-1)),
        "max": ("m", torch.max),
        "max_last": ("m", lambda x: x.max(-1)[0]),
        "argmax_last": ("m", lambda x: x.argmax(-1)),
        "dot": ("vv", torch.matmul),
        "matvec": ("mr", torch.matmul),
        "adam": ("m", None),
    }


NAMES = """add add_row add_column mul_scalar div pow less where masked_fill exp log sqrt erf tanh
sigmoid relu gelu gelu_tanh dropout dropout_fast softmax softmax_first softmax_short log_softmax layer_norm
cross_entropy embedding transpose transpose_outer cat clone to_f64 sum sum_last sum_first sum_middle
sum_short mean_last max max_last argmax_last dot matvec adam""".split()
NO_BACKWARD = ["less", "argmax_last", "adam"]


def make_input(kind, n):
    import torch

    c = 1
    while c < 1000 and c * c < n:
        c *= 10
    r = n // c
    few, ten = min(r, 10), min(n, 10)
    if kind == "p":
        return torch.rand(r, c) + 0.5
    if kind == "b":
        return torch.randn(r, c) > 0
    if kind == "v":
        return torch.rand(n) + 0.5
    if kind in "ti":
        return torch.randint(0, c if kind == "t" else r, (r,))
    shapes = {"s": (n // ten, ten), "d": (r // few, few, c), "r": (c,), "k": (r, 1)}
    return torch.randn(shapes.get(kind, (r, c)))


def squares(t):
    import torch
    return t.to(torch.float32).square().sum(dtype=torch.float64).item()


def measure(entry, phase, n, seconds):
    import torch

    kinds, call = entry
    torch.manual_seed(0)
    x = [make_input(kind, n) for kind in kinds]
    if not call:
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
    dy = torch.randn(y.shape, dtype=y.dtype)
    grad = torch.autograd.grad

    def run():
        return grad(y, wanted, dy, retain_graph=True)
    return least_time(run, seconds), sum(squares(g) for g in run())


def serve_torch(threads, seconds):
    import torch

    torch.set_num_threads(threads)
    table = entries()
    for line in sys.stdin:
        name, phase, n = line.split()
        least, checksum = measure(table[name], phase, int(n), seconds)
        print(f"{1e9 * least:.9g} {checksum:.9g}", flush=True)


# ---- The comparison ----------------------------------------------------------------------------

def check(name, phase, n, ours, theirs, tolerance):
    if name not in RANDOM and not abs(ours - theirs) <= tolerance * (1 + abs(theirs)):
        sys.exit(f"{name}/{phase} of {n}: sums of squares differ: brasa {ours}, torch {theirs}")


def compare(ours, theirs, name, phase, n, args):
    """Returns the least times of several rounds in ns. While Brasa seems slower, adds rounds, in case a
    measurement was disturbed, up to three times as many in total."""
    mine, his, turns = float("inf"), float("inf"), 0
    while turns < args.rounds or (turns < 3 * args.rounds and mine > his):
        a, b = ours.ask(f"{name} {phase} {n}"), theirs.ask(f"{name} {phase} {n}")
        check(name, phase, n, a[1], b[1], args.tolerance)
        mine, his, turns = min(mine, a[0]), min(his, b[0]), turns + 1
    return {"name": name, "phase": phase, "n": n, "threads": args.threads, "brasa_ns": mine,
            "torch_ns": his, "speedup": his / mine, "brasa_gbps": a[2] / mine}


def chosen(args):
    for name in NAMES:
        for phase in ["forward", "backward"]:
            label = name if phase == "forward" else f"{name}.backward"
            if phase == "backward" and name in NO_BACKWARD:
                continue
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
    sizes = [n for n in SIZES if n <= args.largest]
    if not args.json:
        heads = [f"10^{len(str(n)) - 1}" if n > 1 else "1" for n in sizes]
        print("| elements | " + " | ".join(heads) + " |\n|" + "---|" * (1 + len(heads))
              if args.markdown else " " * 26 + "".join(f"{head:>9}" for head in heads))
    for label, name, phase in chosen(args):
        row = [compare(ours, theirs, name, phase, n, args) for n in sizes]
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
