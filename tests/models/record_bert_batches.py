#!/usr/bin/env python3
"""Writes bert_batches.txt: the notebook's vocabulary, token lists and batches, computed by CPython.

    record_bert_batches.py ../../data/frases.txt > bert_batches.txt

The functions are those of the notebook, but words are sorted.
"""

import random
import re
import sys

MAXLEN, MAX_PRED, BATCH_SIZE = 34, 7, 6
CLS, SEP, MASK = 1, 2, 3


def make_instance(token_list, vocab_size):
    a, b = random.randrange(len(token_list)), random.randrange(len(token_list))
    tokens_a, tokens_b = token_list[a], token_list[b]
    input_ids = [CLS] + tokens_a + [SEP] + tokens_b + [SEP]
    segment_ids = [0] * (1 + len(tokens_a) + 1) + [1] * (len(tokens_b) + 1)
    n_pred = min(MAX_PRED, max(1, int(round(len(input_ids) * 0.15))))
    candidates = [i for i, token in enumerate(input_ids) if token not in (CLS, SEP)]
    random.shuffle(candidates)
    masked_tokens, masked_pos = [], []
    for pos in candidates[:n_pred]:
        masked_pos.append(pos)
        masked_tokens.append(input_ids[pos])
        if random.random() < 0.8:
            input_ids[pos] = MASK
        elif random.random() < 0.5:
            input_ids[pos] = random.randint(0, vocab_size - 1)
    return a + 1 == b, [input_ids + [0] * (MAXLEN - len(input_ids)),
                        segment_ids + [0] * (MAXLEN - len(segment_ids)),
                        masked_tokens + [0] * (MAX_PRED - len(masked_tokens)),
                        masked_pos + [0] * (MAX_PRED - len(masked_pos))]


def make_batch(token_list, vocab_size):
    batch, counts = [], [0, 0]
    while counts != [BATCH_SIZE / 2] * 2:
        is_next, instance = make_instance(token_list, vocab_size)
        if counts[is_next] < BATCH_SIZE / 2:
            counts[is_next] += 1
            batch.append(instance + [[int(is_next)]])
    return batch


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    sentences = re.sub("[.,!?\\-]", "", text.lower()).split("\n")
    words = sorted(set(" ".join(sentences).split()), key=lambda word: word.encode())
    words = ["[PAD]", "[CLS]", "[SEP]", "[MASK]"] + words
    ids = {word: i for i, word in enumerate(words)}
    token_list = [[ids[word] for word in sentence.split()] for sentence in sentences]
    print(*words)
    for tokens in token_list:
        print(*tokens)
    for number in (0, 1, 7, 12345, 2**32 + 3, 2**64 - 1):
        print(number)
        random.seed(number)
        for instance in make_batch(token_list, len(words)):
            for row in instance:
                print(*row)


if __name__ == "__main__":
    main()
