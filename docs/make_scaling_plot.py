#!/usr/bin/env python3
"""Fits the cost model of docs/distributed.md to measured times of all-reduce, and extrapolates training steps.

    docs/make_scaling_plot.py --measure build/brasa >docs/scaling-ranks.json    measures on this machine
    docs/make_scaling_plot.py docs/scaling-ranks.json >docs/scaling-ranks.svg   draws the picture
    docs/make_scaling_plot.py --tables docs/scaling-ranks.json                  prints the tables of the page

The model of an all-reduce of S bytes by N ranks is

    T = 3 (L + c (N - 1) o) + c (2 (N - 1) / N S + (N - 1) W) / B + c (2 (N - 1) / N S) / M

with three rounds of messages (notes, parts, results), the latency L of a round, the processor time o of a message,
the bandwidth B and the size W of a note. The term with M counts if the data of all ranks are larger than the last-level
cache. Ranks that share cores take turns: c = max(1, N / cores); on a cluster c = 1.
"""
import json
import math
import os
import subprocess
import sys
import tempfile

CORES = 2
NOTE = 800       # W: bytes of the note that begins each collective
ROUNDS = 3
MIB = 1 << 20
CACHE = 32 * MIB
LARGEST = 1024   # ranks
SLEEP = 1e-4     # mean time from the arrival of a message until the progress thread looks again
LIBRARIES = {"openmpi": "Open MPI", "mpich": "MPICH"}

# Assumptions: name, latency of a round in seconds, bytes per second in each direction, colour.
NETWORKS = [("Ethernet, 10 Gb/s", 50e-6, 0.94 * 10e9 / 8, "#d55e00"),
            ("Ethernet, 100 Gb/s", 20e-6, 0.94 * 100e9 / 8, "#0072b2"),
            ("InfiniBand, 200 Gb/s", 3e-6, 0.97 * 200e9 / 8, "#009e73")]

MODELS = {"bert-scratch": "003", "gpt2-16": "GPT-2"}
SPEEDS = (1, 10)  # of a rank, relative to the machine that was measured


# ---- Measuring ---------------------------------------------------------------------------------

def run(command):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none")
    return subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure_all_reduce(brasa):
    for library in LIBRARIES:
        for ranks in (2, 3, 4):
            output = run([f"mpirun.{library}", "-n", str(ranks), brasa, "bench", "ranks", "--filter", "all_reduce",
                          "--threads", "1", "--seconds", "2", "--json"])
            for row in map(json.loads, output.splitlines()):
                yield [library, ranks, row["bytes"], row["least_us"], row["low_us"], row["median_us"], row["high_us"]]


def trace_of(command, model, threads, steps):
    """Profiles steps and returns the events of the trace."""
    with tempfile.TemporaryDirectory() as folder:
        run(command + ["bench", "ranks", "--filter", model, "--threads", str(threads), f"--profile={steps}",
                       "--plot", folder])
        with open(f"{folder}/trace.json", encoding="utf-8") as file:
            return [e for e in json.load(file)["traceEvents"] if e["ph"] == "X"]


def measure_step(brasa, model, steps=5):
    """Returns the times of a step of one rank that has all cores, and its buckets: the part of backward after which
    each of them is complete, and its size."""
    alone = trace_of([brasa], model, CORES, steps)
    events = trace_of(["mpirun.openmpi", "-n", "2", brasa], model, 1, 1)
    begin = next(e["ts"] for e in events if e["name"] == "backward")
    end = next(e["ts"] for e in events if e["name"] == "data_parallel: wait for buckets")
    return {"step_ms": alone[0]["dur"] / steps / 1e3,
            "backward_ms": sum(e["dur"] for e in alone if e["name"] == "backward") / steps / 1e3,
            "buckets": [[round(min(1, (e["ts"] - begin) / (end - begin)), 3), float(e["name"].split()[2])]
                        for e in events if e["tid"] != events[0]["tid"]]}


def measure(brasa):
    rows = ",\n  ".join(map(json.dumps, measure_all_reduce(brasa)))
    steps = ",\n  ".join(f"{json.dumps(model)}: {json.dumps(measure_step(brasa, model))}" for model in MODELS)
    print(f'{{"all_reduce": [\n  {rows}],\n "steps": {{\n  {steps}}}}}')


# ---- The model ---------------------------------------------------------------------------------

def terms(ranks, size, cores=CORES):
    """Returns the factors of L, o, 1/B and 1/M."""
    share = max(1, ranks / cores)
    data = share * 2 * (ranks - 1) / ranks * size
    return (ROUNDS, ROUNDS * share * (ranks - 1), data + share * (ranks - 1) * NOTE,
            data if 2 * ranks * size > CACHE else 0)


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
    """Returns (L, o, 1/B, 1/M) with the least sum of squares of relative errors, none of them negative."""
    used = [0, 1, 2, 3]
    while True:
        scaled = [[terms(n, s)[i] / t for i in used] for n, s, t in points]
        matrix = [[sum(row[i] * row[j] for row in scaled) for j in range(len(used))]
                  for i in range(len(used))]
        values = solve(matrix, [sum(row[i] for row in scaled) for i in range(len(used))])
        if min(values) >= 0:
            break
        del used[values.index(min(values))]
    result = [0.0] * 4
    for i, value in zip(used, values):
        result[i] = value
    return tuple(result)


def predict(parameters, ranks, size, cores=CORES):
    return sum(p * term for p, term in zip(parameters, terms(ranks, size, cores)))


# ---- A training step ---------------------------------------------------------------------------

def communication(step, speed, network, here, ranks):
    """Returns the seconds of all communication of a step, and those after the end of backward."""
    _, latency, bandwidth, _ = network
    # Copies and sums take as long as they do here.
    parameters = (latency + SLEEP, here[1], 1 / bandwidth + here[2], here[3])
    backward = step["backward_ms"] * 1e-3 / speed
    free, whole = 0.0, 0.0
    for ready, size in step["buckets"]:
        time = predict(parameters, ranks, size * MIB, math.inf)
        free = max(free, ready * backward) + time
        whole += time
    return whole, max(0.0, free - backward)


def efficiency(step, speed, network, here, ranks):
    alone = step["step_ms"] * 1e-3 / speed
    return alone / (alone + communication(step, speed, network, here, ranks)[1])


def last_that_hides(step, speed, network, here):
    """Returns the largest number of ranks that communication delays by at most a twentieth."""
    good = [n for n in range(1, LARGEST + 1) if efficiency(step, speed, network, here, n) >= 0.95]
    return f"{max(good)} or more" if max(good) == LARGEST else str(max(good))


# ---- Tables ------------------------------------------------------------------------------------

def size_text(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB"


def time_text(seconds):
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def print_tables(rows, steps, fits):
    print("| | L, us | o, us | B, GB/s | M, GB/s | median error | largest error |\n|---|---|---|---|---|---|---|")
    for library, (latency, message, inverse, beyond) in fits.items():
        errors = sorted(abs(predict(fits[library], n, s) / t - 1) for lib, n, s, t in rows if lib == library)
        print(f"| {LIBRARIES[library]} | {latency * 1e6:.1f} | {message * 1e6:.1f} | {1e-9 / inverse:.1f} | {1e-9 / beyond:.1f} | "
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
    columns = (2, 16, 128, LARGEST)
    print("\n| | speed | network | " + " | ".join(f"N = {n}" for n in columns) + " | 0.95 up to N = |")
    print("|---" * (len(columns) + 4) + "|")
    for model, step in steps.items():
        for speed in SPEEDS:
            for network in NETWORKS:
                cells = " | ".join(f"{efficiency(step, speed, network, here, n):.2f}" for n in columns)
                print(f"| {MODELS[model]} | {speed} | {network[0]} | {cells} | "
                      f"{last_that_hides(step, speed, network, here)} |")
    print("\n| network | messages take a tenth of the time of a bucket of 25 MiB | half of it |\n|---|---|---|")
    for network in NETWORKS:
        print(f"| {network[0]} | {turning_point(network, here, 0.1)} | {turning_point(network, here, 0.5)} |")


def turning_point(network, here, share):
    """Returns the number of ranks from which on the messages take this share of the time of 25 MiB."""
    parameters = (network[1] + SLEEP, here[1], 1 / network[2] + here[2], here[3])
    ranks = 2
    while ROUNDS * (ranks - 1) * here[1] < share * predict(parameters, ranks, 25 * MIB, math.inf):
        ranks += 1
    return ranks


# ---- The picture -------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT, PANEL = 640, 620, 60, 620, 200
TOPS = (75, 360)  # of the panels, one for each speed
DASHES = ("", ' stroke-dasharray="6 4"')  # of the models
TITLES = ("one rank is as fast as the machine that was measured", "one rank is ten times as fast")


def x_of(ranks):
    return LEFT + (RIGHT - LEFT) * math.log2(ranks) / math.log2(LARGEST)


def draw_panel(steps, here, top, title, speed):
    bottom = top + PANEL
    yield f'<text x="{(LEFT + RIGHT) / 2}" y="{top - 10}" text-anchor="middle">{title}</text>'
    yield '<g stroke="#ddd">'
    for k in range(11):
        x = x_of(2 ** k)
        yield (f'<path d="M{x:.1f} {top}V{bottom}"/><text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" '
               f'stroke="none">{2 ** k}</text>')
    for fifth in range(6):
        y = bottom - PANEL * fifth / 5
        yield (f'<path d="M{LEFT} {y:.1f}H{RIGHT}"/><text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" '
               f'stroke="none">{fifth / 5:.1f}</text>')
    yield "</g>"
    for step, dash in zip(steps.values(), DASHES):
        for network in NETWORKS:
            points = " ".join(f"{x_of(n):.1f},{bottom - PANEL * efficiency(step, speed, network, here, n):.1f}"
                              for n in (1, *(2 ** (k / 4) for k in range(4, 41))))
            yield f'<polyline stroke="{network[3]}" fill="none" stroke-width="2"{dash} points="{points}"/>'


def draw(steps, here):
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13" fill="#333">')
    yield '<rect width="100%" height="100%" fill="#fff"/>'
    yield (f'<text x="{(LEFT + RIGHT) / 2}" y="28" text-anchor="middle" font-size="17" fill="#111">'
           'Efficiency against the number of ranks, extrapolated</text>')
    for top, title, speed in zip(TOPS, TITLES, SPEEDS):
        yield from draw_panel(steps, here, top, title, speed)
    y = TOPS[0] + PANEL - 15 - 18 * (len(MODELS) * len(NETWORKS) - 1)
    for model, dash in zip(steps, DASHES):
        for network in NETWORKS:
            yield (f'<path d="M{LEFT + 10} {y}h30" stroke="{network[3]}" stroke-width="2"{dash}/>'
                   f'<text x="{LEFT + 48}" y="{y + 5}">{MODELS[model]}: {network[0]}</text>')
            y += 18
    yield "</svg>"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--measure":
        measure(sys.argv[2])
        return
    if len(sys.argv) not in (2, 3) or (len(sys.argv) == 3 and sys.argv[1] != "--tables"):
        sys.exit(__doc__)
    with open(sys.argv[-1], encoding="ascii") as file:
        measured = json.load(file)
    rows = [(library, ranks, size, us * 1e-6) for library, ranks, size, us, *_ in measured["all_reduce"]]
    fits = {library: fit([row[1:] for row in rows if row[0] == library]) for library in LIBRARIES}
    if len(sys.argv) == 3:
        print_tables(rows, measured["steps"], fits)
    else:
        print("\n".join(draw(measured["steps"], fits["openmpi"])))


if __name__ == "__main__":
    main()
