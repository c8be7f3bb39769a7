#!/usr/bin/env python3
"""Makes the table of operations, docs/op_coverage.md, from what `brasa check --json` printed.

    tests/op_db/record.py build/brasa DIRECTORY
    build/brasa check --json DIRECTORY >REPORTS
    docs/make_op_coverage.py REPORTS            writes the page
    docs/make_op_coverage.py --check REPORTS    only says whether it is out of date, and fails if it is

Both fail if a sample is wrong, if less than 95 % of an operation's samples pass and it does not stand
among the EXCEPTIONS, or if it stands there for nothing, and if one of the WANTED is not in the table.
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "brasa" / "ops.h"
PAGE = ROOT / "docs" / "op_coverage.md"

CHANNELS_LAST = "a sample asks for channels_last in memory; Brasa's copies are contiguous"
BOOLS = "a number for bools is 0 or 1; samples have others"
DRAWN = "what dropout lets fall is drawn in another way"
LEAST = 0.95

HEAD = """# Operations, by PyTorch's own samples

Made by `docs/make_op_coverage.py`. PyTorch's tests draw sample inputs of each operation from a table,
`op_db`; `tests/op_db/record.py` records them for every operation that Brasa has, with PyTorch's
results, gradients and gradients of gradients, and `brasa check` makes the same calls in Brasa: as
recorded, with inputs that lie otherwise in memory, and in place where there is such a form. What
PyTorch refuses must be refused. Tolerances are eight times what rounding does to PyTorch's own results
in float32. CI records everything with two seeds; of operations with more than 200 samples in one dtype
200 are drawn. "Left out" are samples in one of the operation's dtypes that need what Brasa does not
offer; where they are more than 5 %, the reason stands under [Exceptions](#exceptions), and CI fails if
it does not. Where PyTorch has no gradient, or none of the second order, there is none to compare.

{operations} operations, {passed} samples passed, none failed; {left_out} left out; {refused} errors
refused.

| PyTorch | Brasa | passed | left out | dtypes | gradient | second order | errors |
|---|---|--:|--:|---|---|---|--:|
"""

EXCEPTIONS_HEAD = """
## Exceptions

Less than 95 % of the samples pass of these, and no more can:

| PyTorch | share | why |
|---|--:|---|
"""

# Less than 95 % of these pass, by name and variant.
EXCEPTIONS = {
    "bool": CHANNELS_LAST,
    "double": CHANNELS_LAST,
    "float": CHANNELS_LAST,
    "long": CHANNELS_LAST,
    "masked_fill": BOOLS,
    "nn.functional.batch_norm": "a sample has no batch and no channels, one dimension of size 0",
    "nn.functional.dropout": DRAWN,
    "nn.functional.pad constant": BOOLS,
    "nn.functional.rms_norm": "a sample's eps is below 0, which stands for the default",
    "nn.functional.scaled_dot_product_attention": DRAWN,
    "norm nuc": "singular values are not offered",
}

# What the set of operations must have at least.
WANTED = """
    pow rsqrt abs sign floor ceil round sin cos erf clamp maximum minimum lerp
    nn.functional.leaky_relu nn.functional.elu nn.functional.silu nn.functional.softplus
    nn.functional.gelu
    logical_and logical_or logical_xor logical_not eq ne lt le gt ge where
    var std min max prod all any cumsum cumprod logsumexp norm topk sort argsort median unique
    flip roll repeat repeat_interleave split chunk unbind narrow slice scatter scatter_add index_add
    index_put masked_select take_along_dim nn.functional.one_hot tril_indices nn.functional.pad
    diagonal unfold
    addmm addbmm outer einsum matmul
    nn.functional.rms_norm nn.functional.batch_norm nn.functional.group_norm nn.functional.conv1d
    nn.functional.conv2d nn.functional.max_pool2d nn.functional.avg_pool2d
    nn.functional.scaled_dot_product_attention
    nn.functional.cross_entropy nn.functional.nll_loss nn.functional.mse_loss nn.functional.l1_loss
    nn.functional.smooth_l1_loss nn.functional.binary_cross_entropy_with_logits
    nn.functional.kl_div nn.functional.cosine_similarity nn.functional.triplet_margin_loss
""".split()

LEFT_OUT = """
## What is left out

Samples that need what Brasa does not offer, by what that is, with their number. Samples of a dtype
that Brasa has, but not for the operation, are not listed: the dtypes above tell.

"""

ELSEWHERE = """
## Not reached by these samples

These functions of `ops.h` are tested with their own cases alone:

"""
DTYPE = "the dtype is not offered"
# Of dtypes that Brasa does not have.
OTHER_DTYPES = {"int32 tensors", "uint8 tensors"}


def name_of(report):
    return " ".join(filter(None, [report["op"], report["variant"]]))


def functions_in(expressions):
    return sorted({f for e in expressions for f in re.findall(r"\bbr_\w+(?=\()", e)})


def row_of(report):
    gradient = "yes" if report["gradients"] else ""
    second = "yes" if report["second"] else ""
    ours = " ".join(f"`{f}`" for f in functions_in(report["calls"]))
    cells = [f"`{report['op']}` {report['variant'].replace('_', ' ')}".strip(), ours,
             str(len(report["passed"])), str(number_left_out(report) or ""), " ".join(report["dtypes"]), gradient, second,
             str(len(report["refused"]) or "")]
    return f"| {' | '.join(cells)} |\n"


def number_left_out(report):
    """Samples in dtypes of which others pass."""
    return sum(number for reason, numbers in report["skipped"].items() if reason not in OTHER_DTYPES
               for dtype, number in numbers.items() if dtype in report["dtypes"] or not report["passed"])


def share_of(report):
    passed = len(report["passed"])
    return passed / (passed + number_left_out(report)) if passed + number_left_out(report) else 1


def exceptions(reports):
    few = [report for report in reports if share_of(report) < LEAST]
    return "".join(f"| `{name_of(report)}` | {share_of(report):.0%} | {EXCEPTIONS[name_of(report)]} |\n"
                   for report in few)


def left_out(reports):
    by_reason = {}
    for report in reports:
        for reason, numbers in report["skipped"].items():
            number = sum(n for dtype, n in numbers.items()
                         if reason != DTYPE or dtype in report["dtypes"])
            if number:
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
        few = share_of(report) < LEAST
        if few and name_of(report) not in EXCEPTIONS:
            yield f"{name_of(report)}: {share_of(report):.1%} of the samples pass, and no reason is given"
        if not few and name_of(report) in EXCEPTIONS:
            yield f"{name_of(report)}: passes, and is among the exceptions"
    passing = {report["op"] for report in reports if report["passed"]}
    yield from (f"{op}: no sample passes" for op in {report["op"] for report in reports} - passing)
    yield from (f"{op} is wanted" for op in WANTED if op not in passing)


def page_of(reports):
    counts = {"operations": len({report["op"] for report in reports}),
              "passed": sum(len(report["passed"]) for report in reports),
              "left_out": sum(map(number_left_out, reports)),
              "refused": sum(len(report["refused"]) for report in reports)}
    return HEAD.format(**counts) + "".join(map(row_of, reports))


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    paths = [a for a in arguments if a != "--check"]
    reports = [json.loads(line) for path in paths for line in pathlib.Path(path).read_text().splitlines()]
    reports.sort(key=name_of)
    found = list(problems(reports)) if reports else ["no reports"]
    if found:
        sys.exit("\n".join(found))
    page = page_of(reports) + EXCEPTIONS_HEAD + exceptions(reports)
    page += LEFT_OUT + left_out(reports) + ELSEWHERE + elsewhere(reports)
    if not check:
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        sys.exit("docs/op_coverage.md is out of date: run docs/make_op_coverage.py")


if __name__ == "__main__":
    main()
