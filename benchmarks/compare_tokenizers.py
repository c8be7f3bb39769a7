#!/usr/bin/env python3
"""Compares Brasa's tokenizers with those of other libraries in one interleaved run.

    benchmarks/compare_tokenizers.py --model DIR --file FILE...

DIR has a tokenizer.json; each FILE is a text. Each library runs in its own process, on one thread, and encodes the
whole text, or a batch of its lines, to ids alone. The processes take turns. The output is the number of tokens, MiB
per second of processor time (the median), and the median of the ratios of neighbouring steps.

Rivals, which are skipped if their packages are not installed:
  tokenizers      Hugging Face's
  tiktoken        OpenAI's, only for a byte-level BPE whose ids have the order of its merges
  iree-tokenizer  IREE's; returns arrays
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import sys
import time

from turns import Side, read_arguments

MODULES = {"tokenizers": "tokenizers", "tiktoken": "tiktoken", "iree-tokenizer": "iree.tokenizer"}
# GPT-2's pattern, with possessive quantifiers as tiktoken has it.
PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


# ---- A rival, in its own process ----------------------------------------------------------------

def load_tokenizers(path):
    """Returns a function of a list of texts that returns the number of tokens."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda texts: sum(len(e) for e in tokenizer.encode_batch_fast(texts))


def load_tiktoken(path):
    import tiktoken
    said = json.loads(path.read_text(encoding="utf-8"))
    # The characters that stand for bytes: printable ones for themselves, others from 256 on.
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = {chr(b): b for b in printable}
    byte_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)})
    special = {t["content"]: t["id"] for t in said["added_tokens"]}
    ranks = {bytes(byte_of[c] for c in token): i for token, i in said["model"]["vocab"].items() if token not in special}
    encoding = tiktoken.Encoding("compared", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)

    def run(texts):
        if len(texts) == 1:
            return len(encoding.encode_to_numpy(texts[0], disallowed_special=()))
        return sum(len(encoding.encode_ordinary(text)) for text in texts)
    return run


def load_iree(path):
    from iree.tokenizer import Tokenizer
    tokenizer = Tokenizer.from_file(str(path))

    def run(texts):
        if len(texts) == 1:
            return len(tokenizer.encode_to_array(texts[0], add_special_tokens=True))
        return len(tokenizer.encode_batch_to_array(texts, add_special_tokens=True)[0])
    return run


LOADERS = {"tokenizers": load_tokenizers, "tiktoken": load_tiktoken, "iree-tokenizer": load_iree}


def texts_of(file, entry):
    text = file.read_bytes().decode()
    return [text] if entry == "ids-file" else text.removesuffix("\n").split("\n")


def serve(args):
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    run = LOADERS[args.serve](args.model / "tokenizer.json")
    texts = texts_of(args.file[0], args.entry)
    for _ in sys.stdin:
        start = time.process_time()
        tokens = run(texts)
        print(tokens, (time.process_time() - start) * 1e3, flush=True)


# ---- The comparison -----------------------------------------------------------------------------

def start(label, entry, file, args):
    command = [sys.executable, __file__, "--serve", label, "--entry", entry]
    if label == "brasa":
        command = [args.brasa, "bench", "tokenizers", "--serve", "--filter", entry, "--threads", "1"]
    return Side(label, command + ["--model", str(args.model), "--file", str(file)], 1)


def compare(entry, file, rivals, args):
    sides = [start(label, entry, file, args) for label in ["brasa", *rivals]]
    ms = {side.label: [] for side in sides}
    tokens = {}
    for i in range(args.warmup + args.steps):
        for side in sides:
            tokens[side.label], taken = side.ask()
            if i >= args.warmup:
                ms[side.label].append(taken)
    for side in sides:
        side.close()
    mib = sum(len(text.encode()) for text in texts_of(file, entry)) / 2**20
    return {"file": file.name, "entry": entry, "load": os.getloadavg()[0],
            **{label: {"tokens": int(tokens[label]), "mib_per_s": 1e3 * mib / statistics.median(some),
                       "ratio": statistics.median(t / m for m, t in zip(ms["brasa"], some))}
               for label, some in ms.items()}}


def print_row(row):
    print(f"{row['file']}, {row['entry']}")
    for label, r in row.items():
        if isinstance(r, dict):
            ratio = "" if label == "brasa" else f"  Brasa is {r['ratio']:.2f} times as fast"
            print(f"  {label:14} {r['mib_per_s']:7.2f} MiB/s {r['tokens']:9} tokens{ratio}", flush=True)


def is_byte_level(path):
    said = json.loads(path.read_text(encoding="utf-8"))
    return said["model"]["type"] == "BPE" and "ByteLevel" in json.dumps(said["pre_tokenizer"])


def has_module(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def usable_rivals(args):
    for rival in args.rival or LOADERS:
        if not has_module(MODULES[rival]):
            print(f"skipping {rival}: not installed", file=sys.stderr)
        elif rival != "tiktoken" or is_byte_level(args.model / "tokenizer.json"):
            yield rival


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="folder with a tokenizer.json")
    parser.add_argument("--file", type=pathlib.Path, required=True, nargs="+", help="texts, in UTF-8")
    parser.add_argument("--steps", type=int, default=7, help="measured steps of each (7)")
    parser.add_argument("--warmup", type=int, default=1, help="steps before the measured ones (1)")
    parser.add_argument("--entry", choices=["ids-file", "ids-lines"], help="one text, or one for each line (both)")
    parser.add_argument("--rival", choices=LOADERS, action="append", help="repeat for more (all)")
    parser.add_argument("--brasa", default="build/brasa", help="path of the command (build/brasa)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = read_arguments(parser)
    if args.serve:
        serve(args)
        return
    rivals = list(usable_rivals(args))
    for file in args.file:
        for entry in [args.entry] if args.entry else ["ids-file", "ids-lines"]:
            row = compare(entry, file, rivals, args)
            print(json.dumps(row), flush=True) if args.json else print_row(row)


if __name__ == "__main__":
    main()
