#!/usr/bin/env python3
"""Compares the measures of brasa/metrics.h with those of scikit-learn and sacrebleu, for random predictions and texts.

    tests/metrics/compare_metrics.py LIBRARY [CASES [SEED]]

LIBRARY is libbrasa.so. The exit status is 1 if anything differs.
"""
import ctypes
import math
import os
import pathlib
import random
import sys
import warnings

import sacrebleu
from sklearn import metrics

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "ctypes"))
from binding import Binding  # noqa: E402

warnings.simplefilter("ignore")
NONE = -2**63
WORDS = ["the", "The", "cat", "cat", "sat", "on", "3.5", "1,000", "a", "a", "don't", "&amp;", "&lt;b&gt;", "...", "x-y", "10-20", "9.", ".9", ",",
         "\u00c4rger", "\u00fc", "\u4e2d\u6587", "\u2003", "\u00a0", "\t", "\x1c", "-\n", "\n", "<skipped>", "(a)", "$5", "{x}", "\u0130", "\u039f\u03a3", "\u03a3\u0391\u03a3.", "\U0001f600"]
METHODS, TOKENIZERS, AVERAGES = ["exp", "floor", "add-k", "none"], ["13a", "char", "none"], ["micro", "macro", "weighted", None]


class Brasa:
    def __init__(self, path):
        self.br = Binding(os.path.abspath(path), os.environ.get("CC", "cc"))

    def integers(self, values):
        sizes = (ctypes.c_int64 * 1)(len(values))
        return self.br.br_from_i64(1, sizes, (ctypes.c_int64 * len(values))(*values))

    def numbers(self, rows):
        flat = [v for row in rows for v in row]
        sizes = (ctypes.c_int64 * 2)(len(rows), len(rows[0]))
        return self.br.br_from_f64(2, sizes, (ctypes.c_double * len(flat))(*flat))

    def values(self, t):
        if not t:
            sys.exit(self.br.br_error_message().decode())
        t = self.br.br_contiguous(t)
        return list(ctypes.cast(self.br.br_data_f64(t), ctypes.POINTER(ctypes.c_double))[:self.br.br_numel(t)])

    def bleu(self, hypotheses, references, method, tokenizer, lowercase, effective):
        def texts(list_of):
            return (ctypes.c_char_p * len(list_of))(*[t if t is None else t.encode() for t in list_of])

        options, score = self.br.br_bleu_defaults(), self.br.br_bleu_score()
        options.smooth_method, options.tokenize = METHODS.index(method), TOKENIZERS.index(tokenizer)
        options.lowercase, options.effective_order = lowercase, effective
        all_references = [text for stream in references for text in stream]
        if not self.br.br_bleu(len(hypotheses), texts(hypotheses), len(references), texts(all_references), ctypes.byref(options), ctypes.byref(score)):
            sys.exit(self.br.br_error_message().decode())
        return [score.score, score.bp, score.sys_len, score.ref_len] + list(score.precisions)[:4]


def differ(a, b):
    return len(a) != len(b) or any(not (math.isnan(x) and math.isnan(y)) and not abs(x - y) <= 1e-11 * max(1, abs(y)) for x, y in zip(a, b))


def random_text(rng):
    words = rng.choices(WORDS, k=rng.choice([0, 1, 3, 8, 20]))
    return rng.choice(["", " ", "  "]).join(words) if rng.random() < 0.3 else " ".join(words)


def compare_classes(br, rng):
    """Yields the differences for random predictions of classes."""
    n, classes = rng.randint(1, 40), rng.randint(2, 6)
    targets, predictions = ([rng.randrange(classes) for _ in range(n)] for _ in range(2))
    confusion = br.br.br_confusion_matrix(br.integers(predictions), br.integers(targets), classes, NONE)
    beta = rng.choice([0, 0.5, 1, 2])
    for i, average in enumerate(AVERAGES):
        settings = {"average": average, "zero_division": 0, "labels": range(classes) if average is None else None}
        theirs = {"precision": metrics.precision_score(targets, predictions, **settings), "recall": metrics.recall_score(targets, predictions, **settings),
                  "fbeta_score": metrics.fbeta_score(targets, predictions, beta=beta, **settings)}
        ours = {"precision": br.br.br_precision(confusion, i), "recall": br.br.br_recall(confusion, i), "fbeta_score": br.br.br_fbeta_score(confusion, beta, i)}
        for name, expected in theirs.items():
            expected = list(expected) if average is None else [expected]
            if differ(br.values(ours[name]), expected):
                yield f"{name}, average {average}, beta {beta}: {br.values(ours[name])}, expected {expected}: {targets} {predictions}"


def compare_areas(br, rng):
    """Yields the differences for random scores of classes, each of which has examples."""
    classes = rng.randint(2, 5)
    targets = [*range(classes)] + [rng.randrange(classes) for _ in range(rng.randint(0, 30))]
    scores = [[rng.choice([rng.random(), rng.randrange(4), rng.gauss(0, 1e-3)]) for _ in range(classes)] for _ in targets]
    one_hot = [[int(t == c) for c in range(classes)] for t in targets]
    for i, average in enumerate(AVERAGES):
        ours = br.values(br.br.br_auroc(br.numbers(scores), br.integers(targets), i))
        expected = metrics.roc_auc_score(one_hot, scores, average=average)
        expected = list(expected) if average is None else [expected]
        if differ(ours, expected):
            yield f"auroc, average {average}: {ours}, expected {expected}: {targets} {scores}"


def compare_texts(br, rng):
    """Yields the differences for random texts."""
    n, streams = rng.randint(1, 5), rng.randint(1, 3)
    hypotheses = [random_text(rng) for _ in range(n)]
    references = [[random_text(rng) if r == 0 or rng.random() < 0.7 else None for _ in range(n)] for r in range(streams)]
    for i, hypothesis in enumerate(hypotheses):
        if rng.random() < 0.3:
            references[0][i] = hypothesis
    case = rng.choice(METHODS), rng.choice(TOKENIZERS), rng.random() < 0.5, rng.random() < 0.5
    score = sacrebleu.metrics.BLEU(smooth_method=case[0], tokenize=case[1], lowercase=case[2], effective_order=case[3]).corpus_score(hypotheses, references)
    expected = [score.score, score.bp, score.sys_len, score.ref_len] + score.precisions
    ours = br.bleu(hypotheses, references, *case)
    if differ(ours, expected):
        yield f"bleu {case}: {ours}, expected {expected}: {hypotheses} {references}"


def main():
    br = Brasa(sys.argv[1])
    cases, seed = int(sys.argv[2]) if len(sys.argv) > 2 else 300, sys.argv[3] if len(sys.argv) > 3 else "1"
    rng, wrong = random.Random(seed), 0
    for _ in range(cases):
        scope = br.br.br_scope_begin()
        for difference in [*compare_classes(br, rng), *compare_areas(br, rng), *compare_texts(br, rng)]:
            print(difference)
            wrong += 1
        br.br.br_scope_end(scope)
    print(f"seed {seed}: {cases} cases of classes, areas and texts, {wrong} differences")
    sys.exit(wrong > 0)


main()
