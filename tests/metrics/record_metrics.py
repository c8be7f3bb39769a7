#!/usr/bin/env python3
"""Records what scikit-learn, torchmetrics and sacrebleu compute for the inputs of tests/metrics/test_metrics.c.

    $BRASA_TORCH_PYTHON tests/metrics/record_metrics.py >tests/metrics/metric_values.h

Requires scikit-learn, torchmetrics and sacrebleu.
"""
import itertools
import math

import sacrebleu
import torch
from sklearn import metrics
from torchmetrics.functional.text import perplexity

CLASSES = 5


def series(n, most, step):
    """The same numbers as in the test: a linear congruential generator."""
    state = 1
    for _ in range(n):
        state = (state * 1103515245 + 12345) % 2**31
        yield (state >> 8) * step % most


HYPOTHESES = ["The cat sat on the mat.", "It's 3.5 percent, isn't it?", "a b", "", "Tom &amp; Jerry-\nlike <skipped>shows &lt;now&gt;",
              "the the the the", "\u00c4rger \u2003 und \u00dcbermut", "10-20 items: $5,000.00 / 1,5"]
REFERENCES = [["The cat is on the mat.", "It is 3.5 percent, is it not?", "a b c", "x", "Tom & Jerry-like shows <now>",
               "the cat the dog", "\u00e4rger und \u00fcbermut", "10 - 20 items : $ 5,000.00 / 1,5"],
              ["There is a cat on the mat", None, "a b", "", None, "the the", None, "10-20 things"]]
SMOOTH = ["exp", "floor", "add-k", "none"]


def bleu(hypotheses, references, **settings):
    score = sacrebleu.metrics.BLEU(**settings).corpus_score(hypotheses, references)
    orders = settings.get("max_ngram_order", 4)
    return [score.score, score.bp, score.sys_len, score.ref_len] + [score.precisions[i] for i in range(orders)]


def show(name, rows):
    print(f"static const double {name}[][{len(rows[0])}] = {{")
    for row in rows:
        print("    { " + ", ".join("NAN" if math.isnan(v) else repr(float(v)) for v in row) + " },")
    print("};")


def averages(function, *args, **settings):
    return [float(function(*args, average=a, zero_division=0, **settings)) for a in ("micro", "macro", "weighted")] + list(
        function(*args, average=None, labels=range(CLASSES), zero_division=0, **settings))


def main():
    print("/* Written by tests/metrics/record_metrics.py. */")
    target = [c if c != 3 else 2 for c in series(60, CLASSES, 7)]  # no example of class 3
    predicted = [c if i % 3 else (2 * c + i) % CLASSES for i, c in enumerate(target)]
    show("recorded_confusion", metrics.confusion_matrix(target, predicted, labels=range(CLASSES)).tolist())
    show("recorded_measures", [averages(f, target, predicted) for f in (metrics.precision_score, metrics.recall_score, metrics.f1_score)] +
         [averages(metrics.fbeta_score, target, predicted, beta=b) for b in (0.5, 2)])
    show("recorded_accuracy", [[metrics.accuracy_score(target, predicted)]])
    scores = [v / 8 for v in series(60, 9, 5)]
    positives = list(series(60, 2, 11))
    many = torch.tensor([v / 40 for v in series(60 * 3, 17, 5)], dtype=torch.float64).reshape(60, 3)
    classes = list(series(60, 3, 11))
    one_hot = torch.nn.functional.one_hot(torch.tensor(classes), 3)
    areas = [metrics.roc_auc_score(positives, scores)]
    areas += [metrics.roc_auc_score(one_hot, many, average=a) for a in ("micro", "macro", "weighted")]
    show("recorded_areas", [areas + list(metrics.roc_auc_score(one_hot, many, average=None))])
    logits = torch.tensor(list(series(2 * 6 * 4, 11, 5)), dtype=torch.float64).reshape(2, 6, 4) / 4
    words = torch.tensor(list(series(12, 4, 11))).reshape(2, 6)
    show("recorded_perplexity", [[perplexity(logits, words), perplexity(logits, words, ignore_index=2)]])
    rows = [bleu(HYPOTHESES, REFERENCES, smooth_method=m, tokenize=t, lowercase=lower) for m, t, lower in itertools.product(
        SMOOTH, ["13a", "char", "none"], [False, True])]
    show("recorded_bleu", rows)
    show("recorded_sentences", [bleu([h], [[r] for r in refs if r is not None], effective_order=True) for h, *refs in zip(HYPOTHESES, *REFERENCES)])
    show("recorded_orders", [bleu(HYPOTHESES, REFERENCES, max_ngram_order=2, smooth_method="floor", smooth_value=0.5) + [0] * 2])


main()
