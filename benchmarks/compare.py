#!/usr/bin/env python3
"""Compares training steps of Brasa, PyTorch and JAX in one interleaved run.

Each library runs in its own process, with the same model, sizes, seed, batch and threads. The
processes take turns, one step each. Their first losses must agree before any figure is printed. The
output is the median and least time of a step, the median of the ratios of neighbouring steps, and the
peak memory; for Brasa also the minimum memory that a step must hold: parameters, gradients, optimizer state and
what backward needs.

Rivals:
  torch      PyTorch as installed, eager, with the default Adam, or AdamW for gpt2 and smollm
  tuned      PyTorch with expert settings: glibc keeps freed memory and uses huge pages, Adam is fused,
             and on AMD processors MKL is made to use its AVX-512 kernels
  compiled   tuned, under torch.compile
  torch-amp          tuned, with the forward pass under autocast to bf16
  torch-amp-compile  the same under torch.compile
  jax        JAX with the whole step under jit, for the models in benchmarks/jax_models.py
  jax-tuned  jax with the memory settings of tuned
With --matmul-precision, Brasa rounds the operands of products to bf16, as autocast does.
JAX has no option for the number of threads, so its process is restricted to that many processors.
"""
import argparse
import importlib.metadata
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from turns import Side, read_arguments

MODELS = ["bert-scratch", "encoder-decoder", "classifier-5", "classifier-128", "transformer",
          "gpt2", "smollm", "smollm-lora", "attention-2048", "attention-2048-causal", "attention-8192"]
DROPOUT = ["encoder-decoder", "classifier-5", "classifier-128"]
PHASES = ["train", "train-dropout", "forward"]
RIVALS = ["torch", "tuned", "compiled", "torch-amp", "torch-amp-compile", "jax", "jax-tuned"]
BF16_TOLERANCE = 0.05  # of the first losses, if one of the libraries rounds to bf16
IN_JAX = ["bert-scratch", "encoder-decoder", "gpt2"]

KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(4 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(8 << 30),
    "MALLOC_TOP_PAD_": str(256 << 20),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
FAST_MKL = "int mkl_serv_intel_cpu_true(void) { return 1; }\n" \
           "int mkl_serv_intel_cpu(void) { return 1; }\n"


# ---- PyTorch, in its own process ---------------------------------------------------------------

def under_autocast(loss_of):
    import torch

    def loss(model):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss_of(model)
    return loss


def serve_torch(name, phase, rival, threads):
    import resource
    import time
    import torch
    import torch_models

    torch.set_num_threads(threads)
    make, loss_of = torch_models.make(name)
    torch.manual_seed(0)
    model = make()
    model.train(phase == "train-dropout")
    optimizer = None
    if phase != "forward" and not name.startswith("attention"):
        kind = torch.optim.AdamW if name in ("gpt2", "smollm", "smollm-lora") else torch.optim.Adam
        optimizer = kind([p for p in model.parameters() if p.requires_grad], fused=True if rival != "torch" else None)
    if rival.startswith("torch-amp"):
        loss_of = under_autocast(loss_of)
    if rival in ("compiled", "torch-amp-compile"):
        loss_of = torch.compile(loss_of)

    def train():
        model.zero_grad()
        loss = loss_of(model)
        loss.backward()
        if optimizer:
            optimizer.step()
        return loss.item()

    def forward():
        with torch.no_grad():
            return loss_of(model).item()

    step = forward if phase == "forward" else train
    for _ in sys.stdin:
        start = time.perf_counter()
        loss = step()
        ms = (time.perf_counter() - start) * 1e3
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{loss:.9g} {ms:.6f} {peak:.1f} 0", flush=True)


# ---- JAX, in its own process -------------------------------------------------------------------

def serve_jax(name, phase, threads):
    import resource
    import time
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:threads]))
    import jax
    import jax.numpy as jnp
    import jax_models

    weights, loss_of = jax_models.make(name)
    first, second = (jax.tree.map(jnp.zeros_like, weights) for _ in range(2))
    train, forward = jax_models.train_step(name, loss_of), jax.jit(loss_of)
    for t, _ in enumerate(sys.stdin, 1):
        start = time.perf_counter()
        if phase == "forward":
            loss = float(forward(weights))
        else:
            loss, weights, first, second = train(weights, first, second, float(t))
            jax.block_until_ready(weights)
            loss = float(loss)
        ms = (time.perf_counter() - start) * 1e3
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{loss:.9g} {ms:.6f} {peak:.1f} 0", flush=True)


# ---- The comparison ----------------------------------------------------------------------------

def environment(rival):
    env = {}
    if rival not in ("torch", "jax"):
        env.update(KEEP_MEMORY)
        if rival != "jax-tuned" and "AuthenticAMD" in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii"):
            env["LD_PRELOAD"] = fast_mkl()
    return env


def fast_mkl():
    """Builds a library that makes MKL treat the processor as an Intel processor. Returns its path."""
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "mkl.c").write_text(FAST_MKL, encoding="ascii")
    subprocess.run(["cc", "-shared", "-fPIC", "mkl.c", "-o", "mkl.so"], cwd=folder, check=True)
    return str(folder / "mkl.so")


class Runner(Side):
    """A process that runs one step per line of input."""

    def __init__(self, *args):
        super().__init__(*args)
        self.ms, self.losses, self.peak, self.held = [], [], 0.0, 0.0

    def step(self):
        loss, ms, self.peak, self.held = self.ask()
        self.losses.append(loss)
        self.ms.append(ms)


def start(name, phase, rival, args):
    if rival == "brasa":
        command = [args.brasa, "bench", "models", "--serve", "--filter", f"{name}/{phase}",
                   "--threads", str(args.threads), "--matmul-precision", args.matmul_precision]
    else:
        command = [sys.executable, __file__, "--serve", name, phase, rival, "--threads",
                   str(args.threads)]
    return Runner(rival, command, args.threads, environment(rival))


def compare(name, phase, args):
    ours = start(name, phase, "brasa", args)
    rivals = [start(name, phase, rival, args) for rival in args.rival or RIVALS[:1]
              if not rival.startswith("jax") or (name in IN_JAX and phase != "train-dropout")]
    # The libraries drop different elements, so with dropout the losses agree only roughly.
    tolerance = 2 if phase == "train-dropout" else args.tolerance
    for i in range(args.warmup + args.steps):
        ours.step()
        for rival in rivals:
            rival.step()
            a, b = ours.losses[i], rival.losses[i]
            # The first losses must agree. Later ones may diverge because of rounding.
            rounded = args.matmul_precision == "medium" or rival.label.startswith("torch-amp")
            allowed = max(tolerance, BF16_TOLERANCE if rounded else 0)
            if i == 0 and not abs(a - b) <= allowed * abs(b):
                sys.exit(f"{name}/{phase}: first losses differ: brasa {a}, {rival.label} {b}")
    for runner in [ours, *rivals]:
        runner.close()
    mine = ours.ms[args.warmup:]
    row = {"name": name, "phase": phase, "threads": args.threads,
           "matmul_precision": args.matmul_precision, "loss": ours.losses[0],
           "steps": args.steps, "load": os.getloadavg()[0],
           "torch_version": importlib.metadata.version("torch"),
           "brasa": {"ms": statistics.median(mine), "min_ms": min(mine), "mib": ours.peak,
                     "held_mib": ours.held}}
    for rival in rivals:
        his = rival.ms[args.warmup:]
        row[rival.label] = {"ms": statistics.median(his), "min_ms": min(his), "mib": rival.peak,
                            "ratio": statistics.median(t / m for m, t in zip(mine, his))}
    return row


def print_row(row):
    ours = row["brasa"]
    print(f"{row['name']}, {row['phase']}, {row['threads']} threads, first loss {row['loss']:.6f}: "
          f"Brasa {ours['ms']:.1f} ms (least {ours['min_ms']:.1f}), {ours['mib']:.0f} MiB of which "
          f"{ours['held_mib']:.0f} must be held", flush=True)
    for label in RIVALS:
        if label in row:
            r = row[label]
            print(f"  {label} {r['ms']:.1f} ms (least {r['min_ms']:.1f}), {r['mib']:.0f} MiB: Brasa "
                  f"is {r['ratio']:.2f} times as fast with {ours['mib'] / r['mib']:.2f} of the "
                  f"memory", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=15, help="measured steps of each (15)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the measured ones (3)")
    parser.add_argument("--model", choices=MODELS, action="append", help="repeat for more (all)")
    parser.add_argument("--phase", choices=PHASES, action="append", help="repeat for more (all)")
    parser.add_argument("--rival", choices=RIVALS, action="append", help="repeat for more (torch)")
    parser.add_argument("--matmul-precision", choices=["highest", "high", "medium"], default="highest",
                        help="precision of Brasa's products (highest)")
    parser.add_argument("--brasa", default="build/brasa", help="path of the command (build/brasa)")
    parser.add_argument("--tolerance", type=float, default=1e-5,
                        help="maximum relative difference of the first losses (1e-5)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--serve", nargs=3, metavar=("MODEL", "PHASE", "RIVAL"),
                        help=argparse.SUPPRESS)
    args = read_arguments(parser)
    if args.serve:
        name, phase, rival = args.serve
        if rival.startswith("jax"):
            serve_jax(name, phase, args.threads)
        else:
            serve_torch(name, phase, rival, args.threads)
        return
    for name in args.model or MODELS:
        for phase in args.phase or PHASES:
            if phase == "train-dropout" and name not in DROPOUT:
                continue
            row = compare(name, phase, args)
            if args.json:
                print(json.dumps(row), flush=True)
            else:
                print_row(row)


if __name__ == "__main__":
    main()
