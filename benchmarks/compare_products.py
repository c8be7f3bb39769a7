#!/usr/bin/env python3
"""Compares matrix products of Brasa, PyTorch (MKL), oneDNN and NumPy (OpenBLAS).

Processes take turns, one product each. The least times of several rounds are compared, since other
load on the machine can only add to them. All multiply the same numbers, small integers whose sums are
exact, in bf16, too, and the sums of squares of their results must be equal. A product is written as in
bench_products.c: 512x10x64x10:nt is a batch of 512 products of [10, 64] by the transpose of [10, 64].
The fraction of peak is Brasa's. The peak is the rate of multiply-adds on registers only, measured with
the same number of threads at the start of the run.

Rivals:
  torch       PyTorch's matmul
  torch-bf16  PyTorch's matmul of tensors in bf16, whose results are rounded to bf16
  onednn      PyTorch's linear layer in oneDNN, which has no batches
  numpy       NumPy's OpenBLAS, which selects kernels for the processor; OPENBLAS_CORETYPE overrides this
"""
import argparse
import fnmatch
import json
import os
import re
import sys

from turns import Side, least_time, read_arguments

PRODUCTS = """512x10x64x10:nt 512x10x10x64 72x100x64x100:nt 72x100x100x64 1x32x32x32 1x64x64x64
1x128x128x128 1x256x256x256 1x512x512x512 1x1024x1024x1024 1x600x768x768:nt 1x600x768x3072:nt
1x600x3072x768:nt 1x600x768x3072 1x768x600x3072:tn 1x1x768x768:nt 1x1x768x3072:nt 1x1x768x50257:nt
1x1x768x768 1x5x768x768:nt 1x5x768x3072:nt""".split()
RIVALS = ["torch", "torch-bf16", "onednn", "numpy"]


def parse(spec):
    batch, m, k, n, _, layout = re.fullmatch(
        r"(\d+)x(\d+)x(\d+)x(\d+)(:([nt]{2}))?", spec).groups()
    return int(batch), int(m), int(k), int(n), layout or "nn"


# ---- The rivals, each in its own process --------------------------------------------------------

def operand(batch, rows, columns, layout, seed):
    import numpy

    if layout == "t":
        return operand(batch, columns, rows, "n", seed).swapaxes(-1, -2)
    i = numpy.arange(batch * rows * columns, dtype=numpy.int64)
    shape = (batch, rows, columns) if batch > 1 else (rows, columns)
    return ((7 * i + seed) % 13 - 6).astype(numpy.float32).reshape(shape)


def by_onednn(a, b):
    import torch

    return torch.ops.mkldnn._linear_pointwise(a, b.transpose(0, 1), None, "none", [], "")


def serve(rival, threads, seconds):
    import numpy

    if rival != "numpy":
        import torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
    for line in sys.stdin:
        batch, m, k, n, layout = parse(line.strip())
        if rival == "onednn" and batch > 1:
            print("inf nan", flush=True)
            continue
        a, b = operand(batch, m, k, layout[0], 1), operand(batch, k, n, layout[1], 2)
        if rival != "numpy":
            a, b = (torch.from_numpy(x.swapaxes(-1, -2)).transpose(-1, -2) if side == "t"
                    else torch.from_numpy(x) for x, side in ((a, layout[0]), (b, layout[1])))
            if rival == "torch-bf16":
                a, b = a.bfloat16(), b.bfloat16()
            product = by_onednn if rival == "onednn" else torch.matmul
            as_array = lambda c: c.float().numpy()
        else:
            product, as_array = numpy.matmul, numpy.asarray
        least = least_time(lambda: product(a, b), seconds)
        c = as_array(product(a, b)).astype(numpy.float64)
        print(f"{least:.9g} {float((c * c).sum()):.17g}", flush=True)


# ---- The comparison ----------------------------------------------------------------------------

def compare(sides, spec, rounds):
    """Returns the least time of each side in seconds."""
    least, expected = [float("inf")] * len(sides), None
    for _ in range(rounds):
        for i, side in enumerate(sides):
            seconds, squares = side.ask(spec)
            if seconds == float("inf"):
                continue
            expected = squares if expected is None else expected
            tolerance = 1e-2 if side.label == "torch-bf16" else 1e-12
            if not abs(squares - expected) <= tolerance * expected:
                sys.exit(f"{spec}: sums of squares differ: {expected}, {side.label} {squares}")
            least[i] = min(least[i], seconds)
    return least


def print_row(sides, spec, least, peak, args):
    batch, m, k, n, _ = parse(spec)
    gflops = [2e-9 * batch * m * k * n / seconds for seconds in least]
    if args.json:
        print(json.dumps({"name": spec, "threads": args.threads, "load": os.getloadavg()[0],
                          "of_peak": 1e9 * gflops[0] / peak,
                          **{side.label: g for side, g in zip(sides, gflops)}}), flush=True)
        return
    cells = [spec, f"{gflops[0]:.1f}", f"{1e9 * gflops[0] / peak:.2f}"]
    for g in gflops[1:]:
        cells += [f"{g:.1f}", f"{gflops[0] / g:.2f}"] if g else ["", ""]
    print("| " + " | ".join(cells) + " |" if args.markdown else
          f"{cells[0]:<20}" + "".join(f"{cell:>14}" for cell in cells[1:]), flush=True)


class Multiplier(Side):
    """A process that computes one product per line of input."""
    settle = 0.1  # threads of OpenBLAS keep spinning for 2^26 ticks of the processor's clock


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--filter", default="*", help="glob of the products to compare")
    parser.add_argument("--rival", action="append", choices=RIVALS, help="repeat for more (all)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each product (5)")
    parser.add_argument("--seconds", type=float, default=0.01,
                        help="minimum time to measure a product for in each round (0.01)")
    parser.add_argument("--matmul-precision", choices=["highest", "high", "medium"], default="highest",
                        help="precision of Brasa's products (highest)")
    parser.add_argument("--brasa", default="build/brasa", help="path of the command (build/brasa)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    parser.add_argument("--serve", choices=RIVALS, help=argparse.SUPPRESS)
    args = read_arguments(parser)
    if args.serve:
        serve(args.serve, args.threads, args.seconds)
        return
    options = ["--threads", str(args.threads), "--seconds", str(args.seconds)]
    sides = [Multiplier("brasa", [args.brasa, "bench", "products", "--serve", *options,
                                  "--matmul-precision", args.matmul_precision], args.threads)]
    for rival in args.rival or RIVALS:
        sides.append(Multiplier(rival, [sys.executable, __file__, "--serve", rival, *options],
                                args.threads))
    peak, = sides[0].ask("peak")
    heads = ["product", "Brasa, GFLOP/s", "of peak"]
    for side in sides[1:]:
        heads += [side.label, "times as fast"]
    if args.markdown:
        print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    elif not args.json:
        print(f"{heads[0]:<20}" + "".join(f"{head:>14}" for head in heads[1:]))
    for spec in PRODUCTS:
        if fnmatch.fnmatch(spec, args.filter):
            print_row(sides, spec, compare(sides, spec, args.rounds), peak, args)
    for side in sides:
        side.close()


if __name__ == "__main__":
    main()
