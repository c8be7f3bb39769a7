#!/usr/bin/env python3
"""Compares sentence embeddings by Brasa, PyTorch and ONNX Runtime in one interleaved run.

Each library runs in its own process, with weights from the same folder. The processes take turns, one
step each: a text of 8, 128 or 512 tokens, 32 lines of a file, which is sorted by length, or all lines of
the file in their order (embed-texts). Each library tokenizes the lines itself. The sums of the embeddings must agree. The output is the median time of a
step, the median of the ratios of neighbouring steps, and for a file also the lines per second.

Rivals:
  torch     transformers' BertModel as installed
  compiled  torch, under torch.compile
  torch-amp torch, under autocast to bf16
  onnx      torch, exported by torch.onnx and run by ONNX Runtime
  sentence  SentenceTransformer.encode() of sentence-transformers, only for embed-texts
For embed-texts, torch and onnx get padded batches of 32 lines of similar length, as sentence-transformers
makes them.
With --matmul-precision medium, Brasa rounds the operands of products to bf16, as autocast does.
Rivals whose packages (torch, transformers, tokenizers; for onnx also onnx, onnxscript, onnxruntime) are
not installed are skipped.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from turns import Side, read_arguments

PACKAGES = {"torch": ["torch", "transformers", "tokenizers"],
            "compiled": ["torch", "transformers", "tokenizers"],
            "torch-amp": ["torch", "transformers", "tokenizers"],
            "onnx": ["torch", "transformers", "tokenizers", "onnx", "onnxscript", "onnxruntime"],
            "sentence": ["torch", "sentence_transformers"]}
LENGTHS = {"embed-8": 8, "embed-128": 128, "embed-512": 512}
ENTRIES = [*LENGTHS, "embed-lines", "embed-texts"]
BATCH = 32
TOLERANCE, BF16_TOLERANCE = 1e-3, 0.1  # of the sums; if one of the libraries rounds to bf16
STRIDE = 89  # batches from one step to the next, so that a few steps cover all lengths


# ---- A rival, in its own process ----------------------------------------------------------------

def pool(torch, hidden, mask):
    total = (hidden * mask.unsqueeze(-1)).sum(1)
    return torch.nn.functional.normalize(total, dim=1)


def torch_runner(args, rival):
    """Returns a function of ids and mask that returns the sum of the embeddings."""
    import torch
    from transformers import BertModel
    torch.set_num_threads(args.threads)
    model = BertModel.from_pretrained(args.model).eval()

    def embed(ids, mask):
        return pool(torch, model(input_ids=ids, attention_mask=mask).last_hidden_state, mask)

    run = torch.compile(embed, dynamic=True) if rival == "compiled" else embed

    def step(ids, mask):
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=rival == "torch-amp"):
            return run(torch.tensor(ids), torch.tensor(mask)).sum().item()
    return step


def export(args):
    import torch
    from transformers import BertModel

    class Embedder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = BertModel.from_pretrained(args.model)

        def forward(self, ids, mask):
            return pool(torch, self.model(input_ids=ids, attention_mask=mask).last_hidden_state, mask)

    ids, mask = torch.arange(18).reshape(2, 9), torch.ones(2, 9, dtype=torch.long)
    batch, tokens = torch.export.Dim("batch", max=4096), torch.export.Dim("tokens", max=512)
    torch.onnx.export(Embedder().eval(), (ids, mask), str(args.onnx), input_names=["ids", "mask"],
                      output_names=["embeddings"], dynamo=True, verbose=False,
                      dynamic_shapes={"ids": {0: batch, 1: tokens}, "mask": {0: batch, 1: tokens}})


def onnx_runner(args, _):
    import numpy
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(args.onnx, options, providers=["CPUExecutionProvider"])

    def step(ids, mask):
        given = {"ids": numpy.array(ids, dtype=numpy.int64), "mask": numpy.array(mask, dtype=numpy.int64)}
        return float(session.run(None, given)[0].sum())
    return step


def sentence_runner(args, _):
    """Returns a function of texts that returns the sum of their embeddings."""
    import torch
    from sentence_transformers import SentenceTransformer
    torch.set_num_threads(args.threads)
    model = SentenceTransformer(str(args.model), device="cpu")
    model.max_seq_length = 512
    return lambda texts: float(model.encode(texts, batch_size=BATCH).sum())


def texts_step(args, step):
    """Returns a function that embeds all lines of the file with the runner."""
    lines = pathlib.Path(args.file).read_text(encoding="utf-8").splitlines()
    if args.serve == "sentence":
        return lambda: step(lines)
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()

    def run():
        order, total = sorted(lines, key=len, reverse=True), 0.0
        for i in range(0, len(order), BATCH):
            encoded = tokenizer.encode_batch(order[i:i + BATCH])
            total += step([e.ids for e in encoded], [e.attention_mask for e in encoded])
        return total
    return run


def batches_of(args):
    """Yields the ids and mask of one text repeatedly, or of batches of lines, tokenized on demand."""
    from tokenizers import Tokenizer
    if args.entry != "embed-lines":
        size = json.loads((args.model / "config.json").read_text(encoding="utf-8"))["vocab_size"]
        n = LENGTHS[args.entry]
        ids = [[i * 104729 % size for i in range(n)]]
        while True:
            yield ids, [[1] * n]
    tokenizer = Tokenizer.from_file(str(args.model / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    lines = pathlib.Path(args.file).read_text(encoding="utf-8").splitlines()
    lines.sort(key=lambda line: len(line.encode()))
    batch, count = 0, len(lines) // BATCH
    while True:
        encoded = tokenizer.encode_batch(lines[batch * BATCH:(batch + 1) * BATCH])
        yield [e.ids for e in encoded], [e.attention_mask for e in encoded]
        batch = (batch + STRIDE) % count


def serve(args):
    import time
    if args.serve == "export":
        sys.stdout = sys.stderr  # the exporter prints its progress
        export(args)
        return
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if args.threads > 1 else "false"
    runners = {"onnx": onnx_runner, "sentence": sentence_runner}
    step = runners.get(args.serve, torch_runner)(args, args.serve)
    batches = batches_of(args)
    whole = texts_step(args, step) if args.entry == "embed-texts" else None
    for _ in sys.stdin:
        start = time.perf_counter()
        total = whole() if whole else step(*next(batches))
        print(f"{total:.9g} {(time.perf_counter() - start) * 1e3:.6f}", flush=True)


# ---- The comparison -----------------------------------------------------------------------------

class Runner(Side):
    """A process that runs one step per line of input."""
    settle = 0.25  # threads of ONNX Runtime keep spinning for a while

    def __init__(self, *args):
        super().__init__(*args)
        self.sums, self.ms = [], []

    def step(self):
        total, ms = self.ask()
        self.sums.append(total)
        self.ms.append(ms)


def missing(rival):
    return [name for name in PACKAGES[rival] if not importlib.util.find_spec(name)]


def start(entry, rival, args):
    command = [sys.executable, __file__, "--serve", rival, "--entry", entry, "--onnx", str(args.onnx)]
    if rival == "brasa":
        command = [args.brasa, "bench", "embed", "--serve", "--filter", entry,
                   "--matmul-precision", args.matmul_precision]
    command += ["--model", str(args.model), "--threads", str(args.threads), "--file", str(args.file)]
    return Runner(rival, command, args.threads)


def compare(entry, rivals, args):
    runners = [start(entry, rival, args) for rival in ["brasa", *rivals]]
    ours = runners[0]
    for i in range(args.warmup + args.steps):
        for runner in runners:
            runner.step()
            a, b = ours.sums[i], runner.sums[i]
            rounded = args.matmul_precision == "medium" or runner.label == "torch-amp"
            if not abs(a - b) <= (BF16_TOLERANCE if rounded else TOLERANCE) * max(1, abs(b)):
                sys.exit(f"{entry}: sums of step {i} differ: brasa {a}, {runner.label} {b}")
    row = {"name": entry, "threads": args.threads, "matmul_precision": args.matmul_precision, "steps": args.steps, "load": os.getloadavg()[0]}
    mine = ours.ms[args.warmup:]
    for runner in runners:
        runner.close()
        his = runner.ms[args.warmup:]
        row[runner.label] = {"ms": statistics.median(his), "min_ms": min(his),
                             "ratio": statistics.median(t / m for m, t in zip(mine, his))}
        if entry not in LENGTHS:
            lines = args.lines if entry == "embed-texts" else BATCH
            row[runner.label]["lines_per_s"] = 1e3 * lines * len(his) / sum(his)
            row[runner.label]["ratio"] = sum(his) / sum(mine)
    return row


def print_row(row):
    print(f"{row['name']}, {row['threads']} threads")
    for label in ["brasa", *PACKAGES]:
        if label not in row:
            continue
        r = row[label]
        lines = f"  {r['lines_per_s']:7.0f} lines/s" if "lines_per_s" in r else ""
        ratio = "" if label == "brasa" else f"  Brasa is {r['ratio']:.2f} times as fast"
        print(f"  {label:9} {r['ms']:9.2f} ms (least {r['min_ms']:.2f}){lines}{ratio}", flush=True)


def write_lines(path, model, n):
    """Writes n lines of 3 to 60 words of the vocabulary, most of them short, the same each time."""
    words = [w for w in (model / "vocab.txt").read_text(encoding="utf-8").split("\n")
             if w.isalpha() and w.isascii()]
    state = 1
    with open(path, "w", encoding="utf-8") as out:
        for _ in range(n):
            state = state * 48271 % 2147483647
            line = []
            for _ in range(3 + state % 58 * (state // 58 % 58) // 58):
                state = state * 48271 % 2147483647
                line.append(words[state % len(words)])
            out.write(" ".join(line) + "\n")


def texts_args(args, folder):
    """Returns the arguments with a file of the first lines only."""
    path = pathlib.Path(folder) / "texts.txt"
    lines = pathlib.Path(args.file).read_text(encoding="utf-8").splitlines()[:args.lines]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return argparse.Namespace(**{**vars(args), "file": path, "lines": len(lines)})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True,
                        help="folder of a BERT, as downloaded from the Hugging Face hub")
    parser.add_argument("--file", help="text file with lines to embed (10,000 generated lines)")
    parser.add_argument("--lines", type=int, default=1000,
                        help="lines of the file that embed-texts embeds (1000)")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=15, help="measured steps of each (15)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the measured ones (3)")
    parser.add_argument("--entry", choices=ENTRIES, help="what to embed (all)")
    parser.add_argument("--rival", choices=PACKAGES, action="append", help="repeat for more (all)")
    parser.add_argument("--matmul-precision", choices=["highest", "high", "medium"], default="highest",
                        help="precision of Brasa's products (highest)")
    parser.add_argument("--brasa", default="build/brasa", help="path of the command (build/brasa)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--onnx", help=argparse.SUPPRESS)
    args = read_arguments(parser)
    if args.serve:
        serve(args)
        return
    rivals = []
    for rival in args.rival or PACKAGES:
        if missing(rival):
            print(f"skipping {rival}: not installed: {', '.join(missing(rival))}", file=sys.stderr)
        else:
            rivals.append(rival)
    with tempfile.TemporaryDirectory() as folder:
        if not args.file:
            args.file = pathlib.Path(folder) / "lines.txt"
            write_lines(args.file, args.model, 10000)
        args.onnx = pathlib.Path(folder) / "model.onnx"
        if "onnx" in rivals:
            subprocess.run([sys.executable, __file__, "--serve", "export", "--onnx", args.onnx,
                            "--model", args.model], check=True)
        for entry in [args.entry] if args.entry else ENTRIES:
            each = [r for r in rivals if r != "sentence" or entry == "embed-texts"]
            row = compare(entry, each, texts_args(args, folder) if entry == "embed-texts" else args)
            print(json.dumps(row), flush=True) if args.json else print_row(row)


if __name__ == "__main__":
    main()
