#!/usr/bin/env python3
"""Compares the embeddings of `brasa embed` with those of sentence-transformers, for a real model and 20 texts.

    tests/pretrained/compare_embeddings.py BRASA FOLDER

BRASA is the command, FOLDER that of a model of sentence-transformers. The exit status is 1 if an element differs by more
than 2e-6. Requires sentence-transformers from PyPI.
"""
import json
import os
import subprocess
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TQDM_DISABLE"] = "1"

import torch  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402

TEXTS = ["time flies like an arrow", "fruit flies like a banana", "The quick brown fox jumps over the lazy dog.",
         "Ada Lovelace met Charles Babbage in London.", "A tensor is a multi-dimensional array.", "How many people live in Berlin?",
         "Berlin has 3.7 million inhabitants.", "Das Wetter ist heute sehr sch\u00f6n.", "Il fait beau aujourd'hui \u00e0 Paris.",
         "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3067\u3059\u3002", "\U0001f600 emoji and <html> tags", "x", "", "def f(x): return x + 1",
         "I love this film!", "I hate this film!", "Na\u00efve caf\u00e9 fa\u00e7ade", "1234567890 !!! ???", "and " * 100,
         "An encoder reads a text and returns a vector for each of its tokens; the mean of the vectors is the embedding."]
TOLERANCE = 2e-6


def main():
    brasa, folder = sys.argv[1:]
    lines = subprocess.run([brasa, "embed", "--json", "--model", folder, "--", *TEXTS], stdout=subprocess.PIPE, check=True).stdout
    have = torch.tensor([json.loads(line)["embedding"] for line in lines.splitlines()])
    want = torch.tensor(SentenceTransformer(folder, device="cpu", local_files_only=True).encode(TEXTS))
    largest = (have - want).abs().max().item()
    print(f"{len(TEXTS)} embeddings of {want.shape[1]} elements: the largest difference is {largest:.2g}")
    sys.exit(0 if largest <= TOLERANCE else 1)


if __name__ == "__main__":
    main()
