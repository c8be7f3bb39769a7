#!/usr/bin/env python3
"""Writes the tables of docs/benchmarks_appendix.md from the output of `benchmarks/compare --json`.

    benchmarks/compare --rival torch --rival tuned --json >>build/compare.jsonl
    benchmarks/report.py build/compare.jsonl

If there are several rows for a model, phase and number of threads, the last one is used. Each table is
written between two comments of the page, which are kept.
"""
import json
import pathlib
import platform
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "benchmarks_appendix.md"
PARTS = {"models": lambda name: not name.startswith("attention"),
         "attention": lambda name: name.startswith("attention")}
RIVALS = ["torch", "tuned", "compiled", "jax", "jax-tuned"]


def processor():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", text, re.M))
    return (f"{text.count('processor')} cores of {fields['model name']} (family "
            f"{fields['cpu family']}, model {fields['model']}"
            f"{', AVX-512' if 'avx512f' in fields['flags'] else ''})")


def versions(rows):
    gcc = subprocess.run(["cc", "-dumpfullversion"], capture_output=True, text=True, check=True)
    torch = ", ".join(sorted({row["torch_version"] for row in rows}))
    return f"gcc {gcc.stdout.strip()}, glibc {platform.libc_ver()[1]}, PyTorch {torch}"


def table(rows):
    used = [r for r in RIVALS if any(r in row for row in rows)]
    head = ["model", "phase", "threads", "Brasa, ms"]
    head += [part for r in used for part in (f"{r}, ms", "times as fast")]
    head += ["Brasa, MiB", "must be held", *(f"{r}, MiB" for r in used), "load"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        ours = row["brasa"]
        cells = [row["name"], row["phase"], str(row["threads"]), f"{ours['ms']:.1f}"]
        for r in used:
            cells += [f"{row[r]['ms']:.1f}", f"{row[r]['ratio']:.2f}"] if r in row else ["", ""]
        cells += [f"{ours['mib']:.0f}", f"{ours['held_mib']:.0f}"]
        cells += [f"{row[r]['mib']:.0f}" if r in row else "" for r in used]
        lines.append("| " + " | ".join([*cells, f"{row['load']:.1f}"]) + " |")
    return "\n".join(lines)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    rows = {}
    for path in sys.argv[1:]:
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            rows[row["name"], row["phase"], row["threads"]] = row
    page = PAGE.read_text(encoding="utf-8")
    for part, belongs in PARTS.items():
        chosen = [row for row in rows.values() if belongs(row["name"])]
        if not chosen:
            continue
        text = f"{processor()}; {versions(chosen)}.\n\n{table(chosen)}"
        page, n = re.subn(f"(<!-- {part} -->\n).*?(\n<!-- end of {part} -->)",
                          lambda m, text=text: m[1] + text + m[2], page, flags=re.S)
        if n != 1:
            sys.exit(f"{PAGE}: missing comments <!-- {part} --> and <!-- end of {part} -->")
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
