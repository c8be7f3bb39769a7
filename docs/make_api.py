#!/usr/bin/env python3
"""Generates the API reference, docs/api/, from the public headers.

    docs/make_api.py            writes the pages
    docs/make_api.py --check    lists the pages that are out of date, and fails if there are any

A header begins with a comment that describes the file. "/* ---- Title ---- */" begins a section. An
entry is an unindented comment and the declarations up to the next comment or empty line. Lines of a
comment that are indented by four more spaces are code.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include" / "brasa"
PAGES = ROOT / "docs" / "api"
# The layers from the lowest to the highest, which is the order of the index.
ORDER = ["tensor", "autograd", "ops", "nn", "optim", "io", "profile", "data", "tokenizers", "chat", "metrics", "pretrained", "models", "viz", "check", "distributed"]

# The frame of a header: guards, includes, extern "C", and the definitions of BR_API and BR_PRINTF.
FRAME = re.compile(
    r'^#if.*?\n(?:# .*\n|#else\n)+#endif\n'
    r'|^#ifdef __cplusplus\n(?:extern "C" \{|\})\n#endif\n'
    r'|^#(?:ifndef|include|define BRASA_|endif).*\n', re.M)
# An unindented comment, or declarations, which may contain empty lines within braces.
PIECE = re.compile(r'(?P<comment>^/\*(?:(?!\*/)[\s\S])*\*/\n)'
                   r'|(?P<code>(?:^(?!/\*|\n).*\n(?:^[ }].*\n|^\n(?=    ))*)+)', re.M)
NAME = re.compile(
    r'#define (BR_\w+|br_\w+)|enum \{ (BR_\w+)|\(\*(br_\w+)\)|^\} (br_\w+);'
    r'|^typedef struct br_\w+ (br_\w+);|\b(br_\w+)\(', re.M)


def headers():
    """Returns the public headers in the order of the layers, without brasa.h and headers that only
    include others and say nothing about them."""
    def rank(path):
        first = path.relative_to(HEADERS).parts[0].removesuffix(".h")
        return ORDER.index(first) if first in ORDER else len(ORDER), path
    found = [p for p in HEADERS.rglob("*.h") if p.name != "brasa.h" and re.search(r"BR_API|\A/\*(?:(?!\*/)[\s\S])*\n \*\n", p.read_text())]
    return sorted(found, key=rank)


def text_of(comment):
    """Returns a C comment as Markdown: escapes markup except in `code` and indented lines."""
    body = re.sub(r'^/\* ?|\s*\*/\s*$', '', comment)
    lines = [re.sub(r'^ \* ?', '', line) for line in body.split("\n")]
    return "\n".join(
        line if line.startswith("    ") else
        re.sub(r'`[^`]*`|\*|<|(?<!\w)_', lambda m: m[0] if m[0][0] == "`" else "\\" + m[0], line)
        for line in lines)


def code_of(declarations):
    """Returns declarations without BR_API, and realigns their continuation lines."""
    return re.sub(r'^BR_API (.*(?:\n {8,}.*)*)', lambda m: m[1].replace("\n       ", "\n"),
                  declarations, flags=re.M)


def names_of(code):
    """Returns the names that an entry declares, without duplicates."""
    bare = re.sub(r'/\*.*?\*/', '', code, flags=re.S)
    bare = re.sub(r'^(typedef struct br_\w+ \{).*?^\}', r'\1\n}', bare, flags=re.S | re.M)
    bare = re.sub(r'^(#define \w+).*?(?<!\\)$', r'\1', bare, flags=re.S | re.M)
    found = [next(filter(None, groups)) for groups in NAME.findall(bare)]
    return list(dict.fromkeys(found))


def page_of(path, index):
    """Returns the page of a header. Adds (name, page) for each name to the index."""
    source = path.read_text()
    comment = source[:source.index("*/") + 3]
    header, text = text_of(comment).split(" - ", 1)
    page = ".".join(path.relative_to(HEADERS).with_suffix(".md").parts)
    out = [f"# {header}", text[0].upper() + text[1:]]
    pending = ""
    for piece in PIECE.finditer(FRAME.sub("", source[len(comment):])):
        if title := re.match(r'/\* -+ (.*?) ?-* \*/', piece[0]):
            out.append("## " + re.sub(r' \(\w+/[^)]*\)|:.*', '', title[1]))
        elif piece["comment"]:
            if pending:
                out.append(text_of(pending))
            pending = piece[0]
        else:
            names = names_of(piece[0])
            index += [(name, page) for name in names]
            anchors = "".join(f'<a id="{name}"></a>' for name in names)
            out.append(f"{anchors}\n```c\n{code_of(piece[0])}```" + (f"\n{text_of(pending)}" if pending else ""))
            pending = ""
    return page, header, "\n\n".join(out) + "\n"


def reference():
    """Returns a dictionary of all pages by name."""
    pages, index = {}, []
    contents = ["# API reference", "", "Generated from the public headers by `docs/make_api.py`.", ""]
    for path in headers():
        page, header, text = page_of(path, index)
        pages[page] = text
        summary = text.split("\n\n")[1].split(". ")[0].split(".\n")[0].rstrip(".")
        contents.append(f"- [{header}]({page}) - {summary}")
    contents += ["", "## Every name", ""]
    contents += [f"- [`{name}`]({page}#{name})" for name, page in sorted(set(index))]
    pages["README.md"] = "\n".join(contents) + "\n"
    return pages


def main():
    pages = reference()
    if "--check" in sys.argv:
        there = {p.name: p.read_text() for p in PAGES.glob("*.md")}
        stale = sorted(n for n in pages.keys() | there.keys() if pages.get(n) != there.get(n))
        for name in stale:
            print(f"docs/api/{name} is out of date: run docs/make_api.py")
        return 1 if stale else 0
    PAGES.mkdir(exist_ok=True)
    for old in PAGES.glob("*.md"):
        old.unlink()
    for name, text in pages.items():
        (PAGES / name).write_text(text)
    return 0


sys.exit(main())
