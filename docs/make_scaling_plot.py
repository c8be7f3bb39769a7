#!/usr/bin/env python3
"""Fits the cost model of docs/distributed.md to measured times of all-reduce, and extrapolates it.

    docs/make_scaling_plot.py --measure BRASA >docs/scaling-ranks.csv      measures 2, 3 and 4 ranks here
    docs/make_scaling_plot.py docs/scaling-ranks.csv >docs/scaling-ranks.svg
    docs/make_scaling_plot.py --tables docs/scaling-ranks.csv              prints the tables of the page

The model of an all-reduce of S bytes by N ranks is

    T = 3 (L + c (N-1) o) + c (2 (N-1)/N S + (N-1) W) / B

with three rounds of messages (notes, parts, results), latency L of a round, processor time o of a message,
bandwidth B, notes of W bytes, and c = max(1, N / cores), because ranks without a core of their own take turns.
"""
import csv
import json
import math
import os
import subprocess
import sys

CORES = 2
NOTE = 800       # W: bytes of the note that begins each collective
ROUNDS = 3
MIB = 1 << 20
LARGEST = 1024   # ranks
SLEEP = 1e-4     # mean time from the arrival of a message until the progress thread looks again
LIBRARIES = {"openmpi": "Open MPI", "mpich": "MPICH"}

# Assumptions: name, latency of a round in seconds, bytes per second in each direction, colour.
NETWORKS = [("Ethernet, 10 Gb/s", 50e-6, 0.94 * 10e9 / 8, "#d55e00"),
            ("Ethernet, 100 Gb/s", 20e-6, 0.94 * 100e9 / 8, "#0072b2"),
            ("InfiniBand, 200 Gb/s", 3e-6, 0.97 * 200e9 / 8, "#009e73")]

# Steps of one rank with a batch of its own, as measured on the machine of the table: seconds of the step, seconds of
# backward, bytes of the gradients, and of those of them that are complete only when backward ends.
MODELS = [("003", STEP_003, BACKWARD_003, BYTES_003, LAST_003),
          ("GPT-2, 4 x 64", STEP_GPT2, BACKWARD_GPT2, BYTES_GPT2, LAST_GPT2)]


# ---- Measuring ---------------------------------------------------------------------------------

def measure(brasa):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none")
    print("library,ranks,bytes,low_us,median_us,high_us")
    for library in LIBRARIES:
        for ranks in (2, 3, 4):
            command = [f"mpirun.{library}", "-n", str(ranks), brasa, "bench", "ranks", "--filter", "all_reduce",
                       "--threads", "1", "--json"]
            output = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
            for line in output.splitlines():
                row = json.loads(line)
                print(library, ranks, row["bytes"], row["low_us"], row["median_us"], row["high_us"], sep=",",
                      flush=True)


# ---- The model ---------------------------------------------------------------------------------

def terms(ranks, size, cores=CORES):
    """Returns the factors of L, o and 1/B."""
    share = max(1, ranks / cores)
    return (ROUNDS, ROUNDS * share * (ranks - 1),
            share * (2 * (ranks - 1) / ranks * size + (ranks - 1) * NOTE))


def solve(matrix, right):
    """Solves a system of linear equations by elimination with pivots."""
    n = len(right)
    rows = [list(row) + [value] for row, value in zip(matrix, right)]
    for k in range(n):
        pivot = max(range(k, n), key=lambda i, k=k: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(n):
            if i != k:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [x - factor * y for x, y in zip(rows[i], rows[k])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


def fit(points):
    """Returns (L, o, 1/B) with the least sum of squares of relative errors, none of them negative."""
    used = [0, 1, 2]
    while True:
        scaled = [[terms(n, s)[i] / t for i in used] for n, s, t in points]
        matrix = [[sum(row[i] * row[j] for row in scaled) for j in range(len(used))]
                  for i in range(len(used))]
        values = solve(matrix, [sum(row[i] for row in scaled) for i in range(len(used))])
        if min(values) >= 0:
            break
        del used[values.index(min(values))]
    result = [0.0, 0.0, 0.0]
    for i, value in zip(used, values):
        result[i] = value
    return tuple(result)


def predict(parameters, ranks, size, cores=CORES):
    return sum(p * term for p, term in zip(parameters, terms(ranks, size, cores)))


def read(path):
    with open(path, encoding="ascii") as file:
        return [(row["library"], int(row["ranks"]), int(row["bytes"]), float(row["median_us"]) * 1e-6)
                for row in csv.DictReader(file)]


# ---- A training step ---------------------------------------------------------------------------

def buckets(total, last):
    """Returns the sizes of the buckets: 1 MiB, then 25 MiB each, then the last gradients."""
    sizes, left = [], total - last
    while left > 0:
        sizes.append(min(left, 25 * MIB if sizes else MIB))
        left -= sizes[-1]
    return sizes + [last]


def communication(model, network, here, ranks):
    """Returns the seconds of all communication of a step, those after the end of backward, and whether
    the last bucket had to wait for earlier ones."""
    _, _, backward, total, last = model
    _, latency, bandwidth, _ = network
    # Each rank has a processor for its messages. Copies and sums take as long as they do here.
    parameters = (latency + SLEEP, here[1], 1 / bandwidth + here[2])
    sizes = buckets(total, last)
    free, begun, whole, sent, late = 0.0, 0.0, 0.0, 0, False
    for i, size in enumerate(sizes):
        sent += size
        ready = backward if i == len(sizes) - 1 else backward * sent / (total - last)
        late = i == len(sizes) - 1 and free > ready
        begun = max(ready, free)
        time = predict(parameters, ranks, size, math.inf)
        free, whole = begun + time, whole + time
    return whole, max(0.0, free - backward), late


def efficiency(model, network, here, ranks):
    step = model[1]
    return step / (step + communication(model, network, here, ranks)[1])


# ---- Tables ------------------------------------------------------------------------------------

def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB"


def time_text(seconds):
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def print_tables(rows, fits):
    print("| | L, us | o, us | B, GB/s | median error | largest error |\n|---|---|---|---|---|---|")
    for library, (latency, message, inverse) in fits.items():
        errors = sorted(abs(predict(fits[library], n, s) / t - 1) for lib, n, s, t in rows if lib == library)
        print(f"| {LIBRARIES[library]} | {latency * 1e6:.1f} | {message * 1e6:.1f} | {1e-9 / inverse:.1f} | "
              f"{errors[len(errors) // 2]:.0%} | {errors[-1]:.0%} |")
    columns = [(library, n) for library in fits for n in (2, 3, 4)]
    print("\n| bytes | " + " | ".join(f"{LIBRARIES[library]}, N = {n}" for library, n in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for size in sorted({s for _, _, s, _ in rows}):
        cells = []
        for library, n in columns:
            time = next(t for lib, ranks, s, t in rows if (lib, ranks, s) == (library, n, size))
            cells.append(f"{time_text(time)} ({predict(fits[library], n, size) / time - 1:+.0%})")
        print(f"| {size_text(size)} | " + " | ".join(cells) + " |")
    here = fits["openmpi"]
    print("\n| | ranks | communication, ms | not hidden, ms | efficiency |\n|---|---|---|---|---|")
    for model in MODELS:
        for network in NETWORKS:
            for ranks in (2, 16, 128, LARGEST):
                whole, exposed, _ = communication(model, network, here, ranks)
                print(f"| {model[0]}, {network[0]} | {ranks} | {whole * 1e3:.0f} | {exposed * 1e3:.0f} | "
                      f"{efficiency(model, network, here, ranks):.2f} |")
    print("\n| | stops hiding at | messages cost as much as bytes at |\n|---|---|---|")
    for model in MODELS:
        for network in NETWORKS:
            late = [n for n in range(2, LARGEST + 1) if communication(model, network, here, n)[2]]
            print(f"| {model[0]}, {network[0]} | {late[0] if late else f'more than {LARGEST}'} | "
                  f"{turning_point(network, here)} |")


def turning_point(network, here):
    """Returns the number of ranks at which the messages of a bucket of 25 MiB take as long as its bytes."""
    ranks = 2
    while ROUNDS * (ranks - 1) * here[1] < 2 * (ranks - 1) / ranks * 25 * MIB * (1 / network[2] + here[2]):
        ranks += 1
    return ranks


# ---- The picture -------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 400, 60, 50, 620, 345


def draw(here):
    def x_of(ranks):
        return LEFT + (RIGHT - LEFT) * math.log2(ranks) / math.log2(LARGEST)

    def y_of(share):
        return BOTTOM - (BOTTOM - TOP) * share

    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13" fill="#333">')
    yield '<rect width="100%" height="100%" fill="#fff"/>'
    yield (f'<text x="{(LEFT + RIGHT) / 2}" y="25" text-anchor="middle" font-size="17" fill="#111">'
           'Weak scaling, extrapolated: step alone / step with communication</text>')
    yield f'<text x="{(LEFT + RIGHT) / 2}" y="384" text-anchor="middle">ranks</text>'
    yield '<g stroke="#ddd">'
    for k in range(11):
        yield (f'<path d="M{x_of(2 ** k):.1f} {TOP}V{BOTTOM}"/><text x="{x_of(2 ** k):.1f}" y="{BOTTOM + 18}" '
               f'text-anchor="middle" stroke="none">{2 ** k}</text>')
    for tenth in range(0, 11, 2):
        yield (f'<path d="M{LEFT} {y_of(tenth / 10):.1f}H{RIGHT}"/><text x="{LEFT - 8}" '
               f'y="{y_of(tenth / 10) + 4:.1f}" text-anchor="end" stroke="none">{tenth / 10:.1f}</text>')
    yield "</g>"
    y = BOTTOM - 18 * len(MODELS) * len(NETWORKS)
    for model, dash in zip(MODELS, ("", ' stroke-dasharray="6 4"')):
        for network in NETWORKS:
            points = " ".join(f"{x_of(2 ** (k / 4)):.1f},{y_of(efficiency(model, network, here, 2 ** (k / 4))):.1f}"
                              for k in range(4, 41))
            yield (f'<g stroke="{network[3]}" fill="none" stroke-width="2"{dash}>'
                   f'<polyline points="{x_of(1):.1f},{y_of(1):.1f} {points}"/><path d="M{LEFT + 10} {y}h30"/></g>')
            yield f'<text x="{LEFT + 48}" y="{y + 5}">{model[0]}: {network[0]}</text>'
            y += 18
    yield "</svg>"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--measure":
        measure(sys.argv[2])
        return
    if len(sys.argv) not in (2, 3) or (len(sys.argv) == 3 and sys.argv[1] != "--tables"):
        sys.exit(__doc__)
    rows = read(sys.argv[-1])
    fits = {library: fit([row[1:] for row in rows if row[0] == library]) for library in LIBRARIES}
    if len(sys.argv) == 3:
        print_tables(rows, fits)
    else:
        print("\n".join(draw(fits["openmpi"])))


if __name__ == "__main__":
    main()
