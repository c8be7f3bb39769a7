"""Shared by the make_*_chars.py scripts: packs tables of code points, in the form of char_table.h, as C source."""
import pathlib
import sys

END = 0x110000
KINDS, PAGE, PAGES = 16, 256, 256


def ranges(kinds):
    """Returns (first code point, kind) of each range of code points of one kind, from all (code point, kind)."""
    found = []
    for code, kind in kinds:
        if not found or kind != found[-1][1]:
            found.append((code, kind))
    return found


def pack_run(number, length):
    if length < 16:
        return bytes([number | length << 4])
    packed = [number]
    while length >= 128:
        packed.append(length & 127 | 128)
        length >>= 7
    return bytes(packed + [length])


def pack(first, numbers):
    runs = [pack_run(number, end - begin) for number, begin, end in zip(numbers, first, first[1:] + [END])]
    packed, i = b"", 0
    while i < len(runs):
        pair, times = runs[max(i - 2, 0):i], 0
        if [len(run) for run in pair] == [1, 1]:
            while times < 255 and runs[i + 2 * times:i + 2 * times + 2] == pair:
                times += 1
        packed += bytes([0, 0, times]) if times > 1 else runs[i]
        i += 2 * times if times > 1 else 1
    return packed


def digest(table):
    """Returns the FNV-1a hash of the two bytes of each code point's kind, which test_char_table.c checks."""
    result = 0xcbf29ce484222325
    for (begin, kind), (end, _) in zip(table, table[1:] + [(END, 0)]):
        for byte in kind.to_bytes(2, "little") * (end - begin):
            result = (result ^ byte) * 0x100000001b3 % 2 ** 64
    return result


def lines(items, per_line):
    return "\n".join("    " + " ".join(items[i:i + per_line]) for i in range(0, len(items), per_line))


def source(name, table):
    """Returns the C source of a table made by ranges()."""
    first = [begin for begin, _ in table]
    kinds = sorted({kind for _, kind in table})
    assert first[0] == 0 and len(kinds) <= KINDS, kinds
    assert KINDS + len({begin // PAGE for begin in first if begin % PAGE}) <= PAGES
    runs = pack(first, [kinds.index(kind) for _, kind in table])
    return f"""static const uint8_t runs[] = {{
{lines([f"{byte}," for byte in runs], 18)}
}};
static const uint16_t kinds[] = {{
{lines([f"{kind:#x}," for kind in kinds], 12)}
}};
static br_char_pages pages;
const br_char_table {name} = {{ runs, kinds, &pages }};
"""


def write(name, text, table):
    """Writes tokenizers/NAME. With --check, compares it with the text instead; with --digest, prints the digest."""
    if "--digest" in sys.argv:
        sys.exit(print(f"{digest(table):#x}"))
    path = pathlib.Path(__file__).resolve().parent / name
    if "--check" in sys.argv:
        sys.exit(0 if path.read_text() == text else f"{path} is out of date")
    path.write_text(text)
