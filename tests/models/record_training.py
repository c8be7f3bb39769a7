#!/usr/bin/env python3
"""Prints tests/models/training_losses.h: the losses of 20 steps of Adam, in training mode with dropout, that PyTorch
computes for the notebooks' models. One seed determines initial values, data and dropout. On Intel's processors
PyTorch drops other elements, so run this on another processor."""

import pathlib
import sys
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "golden"))
sys.dont_write_bytecode = True
import make_anatomy  # noqa: E402
import make_architecture  # noqa: E402
import make_bert  # noqa: E402

STEPS, BATCH, LENGTH, VOCABULARY, LABELS, SEED = 20, 4, 8, 30, 3, 20
WIDTH, HEADS, LAYERS, INNER = 16, 2, 2, 24


def train(name, make, draw_batch, loss_of):
    torch.manual_seed(SEED)
    model = make().train()
    batch = draw_batch()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        losses.append("%.8g" % loss.item())
    print(f"static const double {name}[STEPS] = {{ {', '.join(losses)} }};")


def ids():
    return torch.randint(1, VOCABULARY, (BATCH, LENGTH))


# ---- The classifiers, and the encoder-decoder of 004 ----------------------------------------------


def config(options):
    return dict(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                intermediate_size=INNER, max_position_embeddings=LENGTH, num_labels=LABELS,
                hidden_dropout_prob=0.1, **options)


def labelled_ids():
    return ids(), torch.randint(0, LABELS, (BATCH,))


def classification_loss(model, x, labels):
    return cross_entropy(model(x), labels)


def copy_loss(model, source):
    """Returns the loss of copying the ids, as in the notebook's loop."""
    target = source[:, :-1]
    logits = model(source, target, make_architecture.source_mask_of(source), make_architecture.std_mask(target))
    return cross_entropy(logits.flatten(0, 1), source[:, 1:].flatten())


# ---- BERT of 003 ----------------------------------------------------------------------------------


def bert_batch():
    """Returns ids, segments, masked positions, masked tokens and is_next."""
    return (ids(), torch.randint(0, 2, (BATCH, LENGTH)), torch.randint(0, LENGTH, (BATCH, 3)),
            torch.randint(1, VOCABULARY, (BATCH, 3)), torch.randint(0, 2, (BATCH,)))


def fresh_layers():
    """Yields the layers that the notebook's attention creates in each forward."""
    while True:
        yield nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)


def bert_loss(model, x, segments, positions, tokens, is_next):
    out = model(x, segments, positions, fresh_layers())
    return cross_entropy(out["logits_lm"].transpose(1, 2), tokens) + cross_entropy(out["logits_clsf"], is_next)


def main():
    print("/* Recorded by record_training.py. */")
    print(f"enum {{ STEPS = {STEPS}, BATCH = {BATCH}, LENGTH = {LENGTH}, VOCABULARY = {VOCABULARY} }};")
    print(f"enum {{ LABELS = {LABELS}, SEED = {SEED} }};")
    print(f"enum {{ WIDTH = {WIDTH}, HEADS = {HEADS}, LAYERS = {LAYERS}, INNER = {INNER} }};")
    for variant, intended in ("as_written", False), ("intended", True):
        anatomy = SimpleNamespace(**config(dict.fromkeys(make_anatomy.OPTIONS, intended)),
                                  eps=1e-12 if intended else 1e-5)
        train("anatomy_" + variant, lambda: make_anatomy.TransformerForSequenceClassification(anatomy),
              labelled_ids, classification_loss)
        architecture = config(dict.fromkeys(make_architecture.OPTIONS, intended))
        train("architecture_" + variant,
              lambda: make_architecture.TransformerForSequenceClassification(architecture), labelled_ids,
              classification_loss)
        train("encoder_decoder_" + variant, lambda: make_architecture.EncoderDecoder(architecture),
              lambda: (ids(),), copy_loss)
        bert = dict(vocab_size=VOCABULARY, d_model=WIDTH, n_layers=LAYERS, n_heads=HEADS, d_ff=INNER,
                    d_k=WIDTH // HEADS, d_v=WIDTH // HEADS, maxlen=LENGTH, n_segments=2, max_pred=3,
                    as_written=not intended)
        train("bert_" + variant, lambda: make_bert.BERT(bert), bert_batch, bert_loss)


if __name__ == "__main__":
    main()
