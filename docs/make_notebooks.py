#!/usr/bin/env python3
"""Makes the list of the notebooks' cells, docs/notebooks.md, from tests/notebooks/.

    docs/make_notebooks.py            writes the page
    docs/make_notebooks.py --check    only says whether it is out of date, and fails if it is

tests/notebooks/cells.h says what a test file looks like. Cells must be there from the first to the
last, in the notebook's order.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "notebooks"
PAGE = ROOT / "docs" / "notebooks.md"

HEAD = """# The notebooks, cell by cell

Made from `tests/notebooks/` by `docs/make_notebooks.py`. Cells are numbered in the notebook's order;
`In` is the notebook's own label. Each test asserts what its cell prints. Where that depends on unseeded
random weights, it asserts what is true of all of them: shapes, sums, masks. [quirks.md](quirks.md) tells
what the notebooks' code does that one may not expect.
"""

NOTEBOOK = re.compile(r'^NOTEBOOK\("([^"]+)", "([^"]+)", (\d+)\);', re.M)
REASON = re.compile(r'^#define (CELL_\w+) +"([^"]+)"', re.M)
START = r'(?:Test\(\w+, (cell_(\d+)_\w+)|CELL_WITHOUT_TEST\((\d+), (\w+)\))'
CELL = re.compile(r'^/\* In \[(.*?)\]: ((?:(?!\*/)[\s\S])*?) \*/\n' + START, re.M)


class Bad(Exception):
    """A test file that does not look as cells.h says."""


def cells_of(path, source, reasons):
    """(number, label, what it shows, test or reason) of each cell."""
    found = []
    for label, shows, test, number, without, reason in CELL.findall(source):
        if reason and reason not in reasons:
            raise Bad(f"{path.name}: {reason} is no reason of cells.h")
        shows = " ".join(re.sub(r'\n \*', '\n', shows).split())
        last = f"[`{test}`](../tests/notebooks/{path.name})" if test else reasons[reason]
        found.append((int(number or without), label, shows, last))
    if len(found) != len(re.findall("^" + START, source, re.M)):
        raise Bad(f"{path.name}: a cell has no comment that begins with its label, In []")
    return found


def section_of(path, reasons):
    """The file's part of the page, with the notebook's file name to sort by."""
    source = path.read_text()
    declared = NOTEBOOK.search(source)
    if not declared:
        raise Bad(f"{path.name}: NOTEBOOK() is missing")
    file, title, count = declared[1], declared[2], int(declared[3])
    cells = cells_of(path, source, reasons)
    if [cell[0] for cell in cells] != list(range(1, count + 1)):
        raise Bad(f"{path.name}: cells must be 1 .. {count} in order, are {[c[0] for c in cells]}")
    tested = sum("](" in cell[3] for cell in cells)
    lines = [f"## {title}", "", f"`{file}`: {count} cells, {tested} with a test.", "",
             "| cell | In | shows | test |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(str(part).replace("|", "\\|") for part in cell) + " |"
              for cell in cells]
    return file, "\n".join(lines) + "\n"


def page():
    """The whole page."""
    reasons = dict(REASON.findall((TESTS / "cells.h").read_text()))
    sections = sorted(section_of(path, reasons) for path in TESTS.glob("test_*.c"))
    return "\n".join([HEAD] + [text for _, text in sections])


def main():
    try:
        text = page()
    except Bad as error:
        print(error)
        return 1
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print("docs/notebooks.md is out of date: run docs/make_notebooks.py")
        return 1
    return 0


sys.exit(main())
