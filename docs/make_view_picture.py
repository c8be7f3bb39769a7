#!/usr/bin/env python3
"""Draws one head of a page written by `brasa attention`, like its head view, as a small SVG for the docs.

    brasa attention --model DIR "time flies like an arrow" "fruit flies like a banana" -o view.html
    docs/make_view_picture.py view.html LAYER HEAD >docs/attention_head.svg

The weights in the page must be stored as f32, which is the case for short texts.
"""
import base64
import html
import json
import re
import struct
import sys

ROW, BETWEEN, MARGIN, BASELINE = 22, 150, 110, 15


def read(path, layer, head):
    """Returns the tokens and the rows of the head's attention weights."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    page = json.loads(re.search(r'id="page">(.*?)</script>', text, re.S)[1])
    data = page["data"][0]
    of_layer = next(m for m in data["maps"] if m["layer"] == layer)
    if of_layer["weights"]["type"] != "f32":
        sys.exit(f"{path}: values must be f32, got {of_layer['weights']['type']}")
    values = base64.b64decode(re.search(rf'id="{of_layer["weights"]["id"]}">([^<]*)<', text)[1])
    n = len(data["tokens"])
    weights = struct.unpack_from(f"<{n * n}f", values, 4 * n * n * head)
    return data["tokens"], [weights[i * n:(i + 1) * n] for i in range(n)]


def draw(tokens, rows, chosen):
    """Yields the lines of an SVG. The opacity of a line is its weight. Lines of the chosen token are red."""
    height, right = ROW * len(tokens), MARGIN + BETWEEN
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right + MARGIN} {height}" '
           f'width="{right + MARGIN}" height="{height}" font-family="sans-serif" font-size="14" fill="#222">')
    yield '<rect width="100%" height="100%" fill="#fff"/>'
    yield '<g stroke-width="2">'
    for i, row in enumerate(rows):
        for j, weight in enumerate(row):
            if weight >= 0.02:
                colour = "#d01c1c" if i == chosen else "#a3a122"
                yield (f'<path d="M{MARGIN} {i * ROW + ROW // 2}L{right} {j * ROW + ROW // 2}" '
                       f'stroke="{colour}" opacity="{weight:.2f}"/>')
    yield "</g>"
    for i, token in enumerate(tokens):
        y, text = i * ROW + BASELINE, html.escape(token)
        weight = ' font-weight="bold"' if i == chosen else ""
        yield f'<text x="{MARGIN - 7}" y="{y}" text-anchor="end"{weight}>{text}</text>'
        yield f'<text x="{right + 7}" y="{y}">{text}</text>'
    yield "</svg>"


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    tokens_, rows_ = read(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    print("\n".join(draw(tokens_, rows_, chosen=tokens_.index("flies") if "flies" in tokens_ else -1)))
