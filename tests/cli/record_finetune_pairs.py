#!/usr/bin/env python3
"""Prints losses for test_finetune_pairs.c, where a batch has all examples: of sentence-transformers'
MultipleNegativesRankingLoss, and of direct preference optimization as trl's DPOTrainer computes it.

The models are tests/models/encoders/bert2, without dropout, and tests/models/gpt2/lm. Requires torch, transformers and
sentence-transformers; written with 2.15, 5.24 and 6.
"""
from pathlib import Path

import torch
import torch.nn.functional as F
from transformers import BertModel, GPT2LMHeadModel, get_linear_schedule_with_warmup

from record_finetune import END, tokens
from record_finetune_classify import FOLDER, STEPS, WORDS

# Anchor, positive and negative, as in the test.
TRIPLES = [("a aa", "aaa", "aa"), ("aaa a aaaa", "a", "aaaa"), ("aa", "aa a", "aaaaa a"), ("aaaa aaaaa a", "aaa aa", "a")]
# Prompt, chosen and rejected, as in the test.
PREFERENCES = [("ab c", " de", " ed"), ("at", "he cab", "x"), ("0 1 2 3", " 4 5", " 9")]


def train(parameters, lr, loss_of):
    optim = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    schedule = get_linear_schedule_with_warmup(optim, 0, STEPS)
    values = []
    for _ in range(STEPS):
        loss = loss_of()
        values.append(f"{loss.item():.9g}")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optim.step()
        schedule.step()
        optim.zero_grad()
    return values


def features(texts):
    rows = [[2] + [WORDS.index(word) for word in text.split()] + [3] for text in texts]
    longest = max(map(len, rows))
    return {"input_ids": torch.tensor([row + [0] * (longest - len(row)) for row in rows]),
            "attention_mask": torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])}


class Encoder(torch.nn.Module):
    """What the loss needs of a SentenceTransformer: the mean of the hidden states of a text's tokens."""

    def __init__(self):
        super().__init__()
        self.bert = BertModel.from_pretrained(FOLDER, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)

    def forward(self, batch):
        mask = batch["attention_mask"].unsqueeze(-1).float()
        return {"sentence_embedding": (self.bert(**batch)[0] * mask).sum(1) / mask.sum(1)}


def contrastive(columns):
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    torch.manual_seed(0)
    encoder = Encoder()
    loss = MultipleNegativesRankingLoss(encoder)
    encoder.train()
    batches = [features([row[k] for row in TRIPLES]) for k in range(columns)]
    return train(list(encoder.parameters()), 0.01, lambda: loss(batches, None))


def log_probability(model, prompt, answer, mean):
    before, ids = tokens(prompt), tokens(prompt + answer) + [END]
    common = next((i for i, (a, b) in enumerate(zip(before, ids)) if a != b), len(before))
    labels = [-100] * common + ids[common:]
    value = -model(input_ids=torch.tensor([ids]), labels=torch.tensor([labels])).loss
    return value if mean else value * sum(label != -100 for label in labels)


def preference(kind):
    model = GPT2LMHeadModel.from_pretrained(Path(__file__).parent.parent / "models/gpt2/lm")
    model.eval()  # without dropout

    def all_of():
        return [[log_probability(model, prompt, answer, kind == "ipo") for answer in answers]
                for prompt, *answers in PREFERENCES]

    with torch.no_grad():
        reference = all_of()

    def loss_of():
        total = 0
        for (chosen, rejected), (ref_chosen, ref_rejected) in zip(all_of(), reference):
            delta = (chosen - ref_chosen) - (rejected - ref_rejected)
            total = total + {"sigmoid": -F.logsigmoid(0.1 * delta), "hinge": torch.relu(1 - 0.1 * delta),
                             "ipo": (delta - 1 / 0.2) ** 2}[kind]
        return total / len(PREFERENCES)

    return train(list(model.parameters()), 0.001, loss_of)


if __name__ == "__main__":
    print("pairs:", *contrastive(2))
    print("triples:", *contrastive(3))
    for kind in ("sigmoid", "hinge", "ipo"):
        print(kind + ":", *preference(kind))
