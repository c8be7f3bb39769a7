#!/usr/bin/env python3
"""Compares training with products in f32 and with products in bf16, for docs/performance.md.

    docs/make_precision_plot.py --measure build/brasa >docs/precision.json   trains 30 models, for 25 minutes or more
    docs/make_precision_plot.py docs/precision.json >docs/precision.svg      draws the losses
    docs/make_precision_plot.py --table docs/precision.json                  prints the table of the page

Each recipe is trained for 200 steps with five seeds and otherwise its default settings: with f32 products, with bf16
products, and, as a control, with the f32 products of AVX2, which differ from those of AVX-512 by the order of their
sums only.
"""
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

# Recipe: name, key of the loss that is compared at the end, interval of the steps that are drawn.
RECIPES = {"bert-scratch": ("003", "loss", 4), "copy-task": ("copy task", "new_loss", 10)}
SEEDS = range(1, 6)
STEPS = 200
# Mode: precision, instruction set if it is limited, name, colour.
MODES = {"f32": ("highest", None, "f32", "#0072b2"), "bf16": ("medium", None, "bf16", "#d55e00"),
         "control": ("highest", "avx2", "f32 of AVX2", "#009e73")}


# ---- Training ----------------------------------------------------------------------------------

def curve_of(log, recipe):
    """Returns the steps and losses that are drawn, and the loss at the end."""
    _, key, interval = RECIPES[recipe]
    with open(log, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    rows = [row for row in rows if "loss" in row]
    drawn = [row for row in rows if row["step"] == 1 or row["step"] % interval == 0]
    return {"curve": [[row["step"], float(f"{row['loss']:.4g}")] for row in drawn], "end": rows[-1][key]}


def train(brasa, recipe, mode, seed):
    precision, capability, _, _ = MODES[mode]
    env = dict(os.environ, **({"BRASA_CPU_CAPABILITY": capability} if capability else {}))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([brasa, "train", recipe, "--seed", str(seed), "--steps", str(STEPS), "--matmul-precision",
                        precision, "--out", folder, "--overwrite"], env=env, check=True, stdout=subprocess.DEVNULL)
        return curve_of(f"{folder}/log.jsonl", recipe)


def write(run_of):
    """Prints the runs; run_of(recipe, mode, seed) makes one."""
    rows = [f'["{recipe}", "{mode}", {seed}, {json.dumps(run_of(recipe, mode, seed))}]'
            for recipe in RECIPES for seed in SEEDS for mode in MODES]
    print("[" + ",\n ".join(rows) + "]")


# ---- The table ---------------------------------------------------------------------------------

def print_table(runs):
    print("| | seed | first loss | f32 at the end | bf16 | difference | f32 of AVX2 | difference |")
    print("|---" * 8 + "|")
    for recipe, (name, _, _) in RECIPES.items():
        rows = {seed: [runs[recipe, "f32", seed]["curve"][0][1], *(runs[recipe, mode, seed]["end"] for mode in MODES)]
                for seed in SEEDS}
        rows["mean"] = [statistics.mean(losses) for losses in zip(*rows.values())]
        for seed, (first, f32, bf16, control) in rows.items():
            print(f"| {name} | {seed} | {first:.4g} | {f32:.4g} | {bf16:.4g} | {bf16 / f32 - 1:+.2%} | {control:.4g} | "
                  f"{control / f32 - 1:+.2%} |")


# ---- The picture -------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, PANEL_WIDTH, GAP, TOP, PANEL = 800, 380, 60, 320, 70, 80, 250


def draw_panel(runs, recipe, left):
    right, bottom = left + PANEL_WIDTH, TOP + PANEL
    curves = {(mode, seed): runs[recipe, mode, seed]["curve"] for mode in MODES for seed in SEEDS}
    last = max(step for curve in curves.values() for step, _ in curve)
    losses = [loss for curve in curves.values() for _, loss in curve]
    low, high = math.floor(math.log10(min(losses))), math.ceil(math.log10(max(losses)))

    def point(step, loss):
        y = bottom - PANEL * (math.log10(loss) - low) / (high - low)
        return f"{left + PANEL_WIDTH * step / last:.1f},{y:.1f}"

    yield f'<text x="{(left + right) / 2}" y="{TOP - 12}" text-anchor="middle">{RECIPES[recipe][0]}: loss by step</text>'
    yield '<g stroke="#ddd">'
    for k in range(low, high + 1):
        y = bottom - PANEL * (k - low) / (high - low)
        yield (f'<path d="M{left} {y:.1f}H{right}"/><text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end" '
               f'stroke="none">{10.0 ** k:g}</text>')
    for fourth in range(5):
        x = left + PANEL_WIDTH * fourth / 4
        yield (f'<path d="M{x:.1f} {TOP}V{bottom}"/><text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" '
               f'stroke="none">{last * fourth // 4}</text>')
    yield "</g>"
    for mode, (_, _, _, colour) in MODES.items():
        for seed in SEEDS:
            points = " ".join(point(step, loss) for step, loss in curves[mode, seed])
            yield f'<polyline stroke="{colour}" fill="none" stroke-width="1.2" opacity="0.7" points="{points}"/>'


def draw(runs):
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13" fill="#333">')
    yield '<rect width="100%" height="100%" fill="#fff"/>'
    yield (f'<text x="{WIDTH / 2}" y="28" text-anchor="middle" font-size="17" fill="#111">'
           'Training with products in f32 and in bf16, five seeds each</text>')
    for i, recipe in enumerate(RECIPES):
        yield from draw_panel(runs, recipe, LEFT + i * (PANEL_WIDTH + GAP))
    for i, (_, _, name, colour) in enumerate(MODES.values()):
        x = LEFT + 130 * i
        yield (f'<path d="M{x} {HEIGHT - 14}h30" stroke="{colour}" stroke-width="2"/>'
               f'<text x="{x + 38}" y="{HEIGHT - 10}">{name}</text>')
    yield "</svg>"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--measure":
        write(lambda recipe, mode, seed: train(sys.argv[2], recipe, mode, seed))
        return
    if len(sys.argv) not in (2, 3) or (len(sys.argv) == 3 and sys.argv[1] != "--table"):
        sys.exit(__doc__)
    with open(sys.argv[-1], encoding="ascii") as file:
        runs = {(recipe, mode, seed): run for recipe, mode, seed, run in json.load(file)}
    if len(sys.argv) == 3:
        print_table(runs)
    else:
        print("\n".join(draw(runs)))


if __name__ == "__main__":
    main()
