#!/usr/bin/env python3
"""Prints the losses of transformers for the data of test_finetune_classify.c, where a batch has all examples.

The model is tests/models/encoders/bert2 without dropout. Requires torch and transformers; written with 2.15 and 5.24.
"""
from pathlib import Path

import torch
from transformers import BertForSequenceClassification, get_linear_schedule_with_warmup

FOLDER = Path(__file__).parent.parent / "models/encoders/bert2"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"] + ["a" * n for n in range(1, 19)]
PAIRS = [("a aa", "aaa"), ("aaa a aaaa", "a"), ("aa", "aa"), ("aaaa aaaaa a", "aaa aa")]
STEPS = 4


def encode(text, pair):
    """Returns the ids and the token types."""
    first = [2] + [WORDS.index(word) for word in text.split()] + [3]
    second = [WORDS.index(word) for word in pair.split()] + [3]
    return first + second, [0] * len(first) + [1] * len(second)


def batch(labels):
    rows = [encode(*pair) for pair in PAIRS]
    longest = max(len(ids) for ids, _ in rows)
    padded = [[ids + [0] * (longest - len(ids)), types + [0] * (longest - len(ids)),
               [1] * len(ids) + [0] * (longest - len(ids))] for ids, types in rows]
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return {name: torch.tensor([row[i] for row in padded]) for i, name in enumerate(names)} | {
        "labels": torch.tensor(labels)}


def losses(problem, n, labels):
    torch.manual_seed(0)
    model = BertForSequenceClassification.from_pretrained(
        FOLDER, num_labels=n, problem_type=problem, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
        ignore_mismatched_sizes=True)
    model.train()
    optim = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
    schedule = get_linear_schedule_with_warmup(optim, 0, STEPS)
    values = []
    for _ in range(STEPS):
        loss = model(**batch(labels)).loss
        values.append(f"{loss.item():.9g}")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        schedule.step()
        optim.zero_grad()
    return values


if __name__ == "__main__":
    print("labels of the model:", *losses("single_label_classification", 3, [0, 2, 1, 0]))
    print("new labels:", *losses("single_label_classification", 4, [0, 3, 1, 2]))
    print("several labels:", *losses("multi_label_classification", 3,
                                     [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 1.0]]))
    print("numbers:", *losses("regression", 1, [[0.5], [-1.25], [2.0], [0.75]]))
