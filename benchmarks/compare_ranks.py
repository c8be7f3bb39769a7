#!/usr/bin/env python3
"""Compares training steps on two ranks with one thread each with a step in one process that has two
threads and accumulates both batches, and with PyTorch's DistributedDataParallel over gloo.

The sides take turns, one step each, and their first losses must agree. The output is the median of the steps and
of the ratios to the neighbouring step of the one process, both with quartiles; also for the processor time of all
processes, which other work on the machine changes less.

Sides:
  one        Brasa, one process
  openmpi    Brasa, ranks under Open MPI
  mpich      Brasa, ranks under MPICH
  torch      PyTorch as installed, ranks with DistributedDataParallel over gloo
  tuned      the same with the settings of `tuned` in compare.py, and gradients as views of buckets
"""
import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from compare import environment
from turns import read_arguments

SIDES = ["one", "openmpi", "mpich", "torch", "tuned"]
MODELS = ["bert-scratch"]
SETTLE = 0.05  # seconds before each step, in which idle threads of the previous side go to sleep
PORTS = {"torch": 29511, "tuned": 29512}
OPENMPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1"}


# ---- PyTorch, in processes of its own ----------------------------------------------------------

def serve_torch(name, rival, rank, ranks):
    import torch
    import torch_models
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{PORTS[rival]}", rank=rank,
                                         world_size=ranks)
    make, loss_of = torch_models.make(name)
    torch.manual_seed(0)
    model = DistributedDataParallel(make().eval(), gradient_as_bucket_view=rival == "tuned")
    optimizer = torch.optim.Adam(model.parameters(), fused=True if rival == "tuned" else None)
    for _ in sys.stdin:
        torch.distributed.barrier()
        start, before = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        value = loss.item()
        ms = (time.perf_counter() - start) * 1e3
        work = torch.tensor(time.process_time() - before, dtype=torch.float64)
        torch.distributed.all_reduce(work)
        if rank == 0:
            print(f"{value:.9g} {ms:.6f} {work.item() * 1e3:.6f}", flush=True)


# ---- The comparison ----------------------------------------------------------------------------

class Side:
    """Processes that run a step when each of them has read a line, and of which the first answers."""

    def __init__(self, label, args):
        self.label, self.ms, self.work, self.losses, self.processes, self.inputs = label, [], [], [], [], []
        brasa = [args.brasa, "bench", "ranks", "--serve", "--filter", args.model, "--accumulate",
                 str(args.ranks), "--threads"]
        if label == "one":
            self.start(brasa + [str(args.ranks)], {})
        elif label in ("openmpi", "mpich"):
            self.start_ranks(f"mpirun.{label}", brasa + ["1"], args.ranks)
        else:
            env = dict(environment(label), OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
            for rank in range(args.ranks):
                self.start([sys.executable, __file__, "--serve", label, str(rank), "--model", args.model,
                            "--ranks", str(args.ranks)], env)

    def start(self, command, env, standard_input=subprocess.PIPE):
        process = subprocess.Popen(command, stdin=standard_input, stdout=subprocess.PIPE, text=True,
                                   env=dict(os.environ, **env))
        self.processes.append(process)
        if process.stdin:
            self.inputs.append(process.stdin)

    def start_ranks(self, launcher, command, ranks):
        """Starts ranks that read from pipes of their own, because a launcher gives its input to rank 0 only."""
        folder = tempfile.mkdtemp()
        for rank in range(ranks):
            os.mkfifo(f"{folder}/{rank}")
        script = f'exec {shlex.join(command)} <{folder}/"${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}"'
        self.start([launcher, "-n", str(ranks), "sh", "-c", script], OPENMPI, subprocess.DEVNULL)
        # Opened for reading, too: otherwise this would wait for ever for a rank that does not start.
        self.inputs = [os.fdopen(os.open(f"{folder}/{rank}", os.O_RDWR), "w", buffering=1)
                       for rank in range(ranks)]

    def step(self):
        time.sleep(SETTLE)
        for pipe in self.inputs:
            pipe.write("\n")
            pipe.flush()
        answer = self.processes[0].stdout.readline()
        if not answer:
            sys.exit(f"{self.label}: the process ended with exit status {self.processes[0].wait()}")
        loss, ms, work = (float(word) for word in answer.split())
        self.losses.append(loss)
        self.ms.append(ms)
        self.work.append(work)

    def close(self):
        for pipe in self.inputs:
            pipe.close()
        for process in self.processes:
            process.wait()


def spread(values):
    """Returns the lower quartile, the median and the upper quartile."""
    return statistics.quantiles(values, n=4, method="inclusive")


def compare(args):
    sides = [Side(label, args) for label in args.side or SIDES]
    first = sides[0]
    load = os.getloadavg()[0]
    for i in range(args.warmup + args.steps):
        for side in sides:
            side.step()
            a, b = first.losses[i], side.losses[i]
            if i == 0 and not abs(a - b) <= 1e-5 * abs(a):
                sys.exit(f"{args.model}: first losses differ: {first.label} {a}, {side.label} {b}")
    for side in sides:
        side.close()
    for side in sides:
        ms, base = side.ms[args.warmup:], first.ms[args.warmup:]
        work, base_work = side.work[args.warmup:], first.work[args.warmup:]
        yield {"side": side.label, "model": args.model, "ranks": args.ranks, "steps": args.steps,
               "loss": side.losses[0], "ms": spread(ms), "load": load,
               "ratio": spread([m / b for m, b in zip(ms, base)]), "work_ms": spread(work),
               "work_ratio": spread([w / b for w, b in zip(work, base_work)])}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="ranks, and threads of the one process (2)")
    parser.add_argument("--steps", type=int, default=15, help="measured steps of each (15)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the measured ones (3)")
    parser.add_argument("--model", choices=MODELS, default=MODELS[0])
    parser.add_argument("--side", choices=SIDES, action="append",
                        help="repeat for more (all); ratios are to the first")
    parser.add_argument("--brasa", default=str(pathlib.Path("build/brasa").resolve()),
                        help="path of the command (build/brasa)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--serve", nargs=2, metavar=("RIVAL", "RANK"), help=argparse.SUPPRESS)
    args = read_arguments(parser)
    if args.serve:
        serve_torch(args.model, args.serve[0], int(args.serve[1]), args.ranks)
        return
    for row in compare(args):
        if args.json:
            print(json.dumps(row))
        else:
            base = (args.side or SIDES)[0]
            for what, ms, ratio in (("step", "ms", "ratio"), ("processors", "work_ms", "work_ratio")):
                print("{:8} {:10} {:8.1f} ms ({:.1f} .. {:.1f})   {:.3f} of {} ({:.3f} .. {:.3f})".format(
                    row["side"], what, row[ms][1], row[ms][0], row[ms][2], row[ratio][1], base,
                    row[ratio][0], row[ratio][2]))


if __name__ == "__main__":
    main()
