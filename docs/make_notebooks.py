#!/usr/bin/env python3
"""Generates the list of the notebooks' cells, docs/notebooks.md, from tests/notebooks/.

    docs/make_notebooks.py            writes the page
    docs/make_notebooks.py --check    fails with a message if the page is out of date

tests/notebooks/cells.h describes the format of a test file. All cells must be present, in the order of
the notebook.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests" / "notebooks"
PAGE = ROOT / "docs" / "notebooks.md"

HEAD = """# The notebooks, cell by cell

For each code cell of the five notebooks, these tables say what the cell defines or shows and which test
checks it. A test asserts what its cell prints. If that depends on random weights without a seed, the
test asserts what holds for all weights: shapes, sums, masks. [quirks.md](quirks.md) describes the cells
whose code does something unexpected.

The notebooks are not in this repository: they belong to their authors. Their sources are
[03_transformer-anatomy.ipynb]({book}) of the book *Natural Language Processing with Transformers* for "Transformer
Anatomy", [vanilla-transformer]({vanilla}) for "Vanilla Transformer", and
[transformer_architecture.ipynb]({architecture}) for "Transformers Architecture". No public address of the
other two is known. The comment above each test says what its cell does.

To run the test of one cell, build the tests once, and name the suite, which stands above each table,
and the test:

```sh
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DBRASA_TESTS=ON && cmake --build build -j
build/brasa_tests --filter='notebook_anatomy/cell_9_scores' --verbose
build/brasa_tests --filter='notebook_*/*'    # the tests of all cells
```

Cells are numbered in the order of the notebook; `In` is the label that the notebook shows. The page is
generated from `tests/notebooks/` by `docs/make_notebooks.py`.
""".format(
    book="https://github.com/nlp-with-transformers/notebooks/blob/main/03_transformer-anatomy.ipynb",
    vanilla="https://github.com/arxyzan/vanilla-transformer",
    architecture="https://github.com/paulaceccon/deep-learning-studies/blob/main/notebooks/generative_models/"
                 "transformers/transformer_architecture.ipynb")

NOTEBOOK = re.compile(r'^NOTEBOOK\("([^"]+)", "([^"]+)", (\d+)\);', re.M)
SUITE = re.compile(r'^TestSuite\((\w+)', re.M)
REASON = re.compile(r'^#define (CELL_\w+) +"([^"]+)"', re.M)
START = r'(?:Test\(\w+, (cell_(\d+)_\w+)|CELL_WITHOUT_TEST\((\d+), (\w+)\))'
CELL = re.compile(r'^/\* In \[(.*?)\]: ((?:(?!\*/)[\s\S])*?) \*/\n' + START, re.M)


class Bad(Exception):
    """Raised if a test file does not have the format that cells.h describes."""


def cells_of(path, source, reasons):
    """Returns (number, label, what it shows, test or reason) for each cell."""
    found = []
    for label, shows, test, number, without, reason in CELL.findall(source):
        if reason and reason not in reasons:
            raise Bad(f"{path.name}: cells.h does not define the reason {reason}")
        shows = " ".join(re.sub(r'\n \*', '\n', shows).split())
        last = f"[`{test}`](../tests/notebooks/{path.name})" if test else reasons[reason]
        found.append((int(number or without), label, shows, last))
    if len(found) != len(re.findall("^" + START, source, re.M)):
        raise Bad(f"{path.name}: a cell has no comment that begins with its label, as in 'In [3]:'")
    return found


def section_of(path, reasons):
    """Returns the sort key of a test file, which is the file name of its notebook, and its section."""
    source = path.read_text()
    declared, suite = NOTEBOOK.search(source), SUITE.search(source)
    if not declared or not suite:
        raise Bad(f"{path.name}: NOTEBOOK() or TestSuite() is missing")
    file, title, count = declared[1], declared[2], int(declared[3])
    cells = cells_of(path, source, reasons)
    if [cell[0] for cell in cells] != list(range(1, count + 1)):
        raise Bad(f"{path.name}: cells must be 1 .. {count} in order, got {[c[0] for c in cells]}")
    tested = sum("](" in cell[3] for cell in cells)
    lines = [f"## {title}", "", f"`{file}`: {count} cells, {tested} with a test in the suite `{suite[1]}`.", "",
             "| cell | In | shows | test |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(str(part).replace("|", "\\|") for part in cell) + " |"
              for cell in cells]
    return file, "\n".join(lines) + "\n"


def page():
    """Returns the whole page."""
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
