#!/usr/bin/env python3
"""Makes the table of operations, docs/op_coverage.md, from what `brasa check --json` printed.

    tests/op_db/record.py build/brasa DIRECTORY
    build/brasa check --json DIRECTORY >REPORTS
    docs/make_op_coverage.py REPORTS            writes the page
    docs/make_op_coverage.py --check REPORTS    only says whether it is out of date, and fails if it is

Both fail if a sample is wrong or an operation has none that passes.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "brasa" / "ops.h"
PAGE = ROOT / "docs" / "op_coverage.md"

HEAD = """# Operations, by PyTorch's own samples

Made by `docs/make_op_coverage.py`. PyTorch's tests draw sample inputs of each operation from a table,
`op_db`; `tests/op_db/record.py` records them for every operation that Brasa has, with PyTorch's
results, gradients and gradients of gradients, and `brasa check` makes the same calls in Brasa: as
recorded, with inputs that lie otherwise in memory, and in place where there is such a form. What
PyTorch refuses must be refused. Tolerances are four times what rounding does to PyTorch's own results
in float32. CI records everything with two seeds; of operations with more than 200 samples in one dtype
200 are drawn.

{operations} operations, {passed} samples passed, none failed; {refused} errors refused.

| PyTorch | Brasa | samples | dtypes | gradient | second order | errors |
|---|---|--:|---|---|---|--:|
"""

LEFT_OUT = """
## What is left out

Samples that need what Brasa does not offer, by what that is, with their number. Integer samples of
operations on floating numbers are not listed: the dtypes above tell.

"""

ELSEWHERE = """
## Not reached by these samples

These functions of `ops.h` are tested with their own cases alone:

"""
DTYPE = "the dtype is not offered"


def name_of(report):
    return " ".join(filter(None, [report["op"], report["variant"]]))


def functions_in(expressions):
    return sorted({f for e in expressions for f in re.findall(r"\bbr_\w+(?=\()", e)})


def row_of(report):
    gradient = "yes" if report["gradients"] else ""
    second = "yes" if report["second"] else ""
    if gradient and any(row["first_order"] for row in report["rows"]):
        second = "no"
    ours = " ".join(f"`{f}`" for f in functions_in(report["calls"]))
    cells = [f"`{report['op']}` {report['variant'].replace('_', ' ')}".strip(), ours,
             str(len(report["passed"])), " ".join(report["dtypes"]), gradient, second,
             str(len(report["refused"]) or "")]
    return f"| {' | '.join(cells)} |\n"


def left_out(reports):
    by_reason = {}
    for report in reports:
        for reason, number in report["skipped"].items():
            if reason != DTYPE:
                by_reason.setdefault(reason, []).append(f"`{name_of(report)}` {number}")
    return "".join(f"- {reason}: {', '.join(names)}\n" for reason, names in sorted(by_reason.items()))


def elsewhere(reports):
    """Functions of ops.h that no call reached."""
    source = HEADER.read_text()
    declared = set(re.findall(r"^BR_API [\w ]+\**\b(br_\w+)\(", source, re.M))
    reached = {f for report in reports for f in functions_in(report["calls"])}
    return "".join(f"- `{f}`\n" for f in sorted(declared - reached))


def problems(reports):
    for report in reports:
        for failure in report["failures"]:
            yield f"{name_of(report)}: {failure}"
    for op in {report["op"] for report in reports}:
        if not any(report["passed"] for report in reports if report["op"] == op):
            yield f"{op}: no sample passes"


def page_of(reports):
    reports = [report for report in reports if report["passed"]]
    counts = {"operations": len({report["op"] for report in reports}),
              "passed": sum(len(report["passed"]) for report in reports),
              "refused": sum(len(report["refused"]) for report in reports)}
    return HEAD.format(**counts) + "".join(map(row_of, reports))


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    paths = [a for a in arguments if a != "--check"]
    reports = [json.loads(line) for path in paths for line in pathlib.Path(path).read_text().splitlines()]
    reports.sort(key=name_of)
    found = list(problems(reports)) if reports else ["no reports"]
    page = page_of(reports) + LEFT_OUT + left_out(reports) + ELSEWHERE + elsewhere(reports)
    if found:
        sys.exit("\n".join(found))
    if not check:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        sys.exit("docs/op_coverage.md is out of date: run docs/make_op_coverage.py")


if __name__ == "__main__":
    main()
