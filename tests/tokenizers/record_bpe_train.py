#!/usr/bin/env python3
"""Writes bpe_train.json: texts, and the tokenizers that PyPI's tokenizers learns from them, for test_bpe_train.c."""
import json
import random
from pathlib import Path

from tokenizers import ByteLevelBPETokenizer

ALPHABETS = ["ab", "abc  ", "aA1 \n.'", "αβ γ中文\n", "-= \n", "abcdefghij  \n"]


def case(texts, size, frequency, special):
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(texts, vocab_size=size, min_frequency=frequency, special_tokens=special,
                                  show_progress=False)
    learned = json.loads(tokenizer.to_str())
    model = learned.pop("model")
    vocab = sorted(model["vocab"], key=model["vocab"].get)
    return {"texts": texts, "vocab_size": size, "min_frequency": frequency, "special": special,
            "tokens": vocab[len(special) + 256:], "merges": [" ".join(pair) for pair in model["merges"]],
            "rest": learned}


def main():
    cases = [case([], 300, 2, []), case(["the cat, the hat; the cat's hat\n", "the bat"], 290, 2, ["<|endoftext|>"]),
             case(["a" * n for n in range(1, 40)], 270, 0, ["<s>", "aa", "</s>"])]
    for seed in range(20):
        random.seed(seed)
        letters = random.choice(ALPHABETS)
        texts = ["".join(random.choice(letters) for _ in range(random.randint(0, 120))) for _ in range(3)]
        cases.append(case(texts, random.choice([260, 280, 310]), random.choice([0, 1, 2, 3]), ["<|endoftext|>"]))
    same = cases[1]["rest"]
    for each in cases[2:]:
        assert {**each.pop("rest"), "added_tokens": 0} == {**same, "added_tokens": 0}
    del cases[0]["rest"]
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in cases)
    Path(__file__).with_name("bpe_train.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
