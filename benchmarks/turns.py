"""Code shared by the comparisons: processes that take turns, and the least time of a call."""
import argparse
import os
import subprocess
import sys
import time

BATCH = 2e-5  # minimum seconds between two clock readings
LEAST_CALLS = 3
# Seconds to wait before each turn if there are several threads. The threads of the previous process keep
# spinning for a while, which would take processors from the next one.
SETTLE = 0.01


def read_arguments(parser):
    """Returns the arguments. benchmarks/compare first calls a part with --check-arguments, which ends it here."""
    parser.add_argument("--check-arguments", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.check_arguments:
        sys.exit(0)
    return args


class Side:
    """A process with the given number of threads that answers each line with a line of numbers."""
    settle = SETTLE

    def __init__(self, label, command, threads, environment=()):
        count = str(threads)
        env = dict(os.environ, OMP_NUM_THREADS=count, MKL_NUM_THREADS=count,
                   OPENBLAS_NUM_THREADS=count, RAYON_NUM_THREADS=count)
        env.update(environment)
        self.label, self.threads = label, threads
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)

    def ask(self, line=""):
        if self.threads > 1:
            time.sleep(self.settle)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.label}: process ended with exit status {self.process.wait()}")
        return [float(word) for word in answer.split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def least_time(run, seconds):
    """Returns the least time of a call in seconds, over several batches that take `seconds` in total."""
    run()
    begin = time.perf_counter()
    run()
    once = time.perf_counter() - begin
    calls = int(BATCH / (once + 1e-9)) + 1 if once < BATCH else 1
    least, rounds, start = float("inf"), 0, begin
    while rounds < LEAST_CALLS or start - begin < seconds:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        least = min(least, (time.perf_counter() - start) / calls)
        rounds += 1
    return least
