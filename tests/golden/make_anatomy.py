#!/usr/bin/env python3
"""Writes golden-1 files for the notebooks on Transformer Anatomy with PyTorch, for `brasa check`.

    make_anatomy.py FOLDER [--seed 1] [--batch 2] [--length 8] [--hidden-size 32] ... [--intended]

The classes compute the same as those of the notebooks. `--intended` sets every option of the
intended variant and stores the options in the files' config. `scratch.*` are the same classes under
the names of the other notebook.
"""

import argparse
import pathlib
from functools import partial
from math import sqrt
from types import SimpleNamespace

import torch
from torch import nn

from golden1 import Case, make_files

CONFIG = dict(vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
              intermediate_size=64, max_position_embeddings=12, num_labels=3, hidden_dropout_prob=0.1)
OPTIONS = ["mask_padding", "attention_dropout", "final_norm", "small_eps"]


# ---- The notebooks' functions and classes ---------------------------------------------------------


def simplified_attention(inputs_embeds):
    query = key = value = inputs_embeds
    scores = torch.bmm(query, key.transpose(1, 2)) / sqrt(key.size(-1))
    weights = scores.softmax(-1)
    return {"inputs_embeds": inputs_embeds, "scores": scores, "weights": weights,
            "attn_outputs": torch.bmm(weights, value)}


class SimplifiedAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.token_emb = nn.Embedding(config.vocab_size, config.hidden_size)

    def forward(self, input_ids):
        return simplified_attention(self.token_emb(input_ids))


def causal_mask(scores):
    seq_len = scores.size(-1)
    mask = torch.tril(torch.ones(seq_len, seq_len, dtype=scores.dtype)).unsqueeze(0)
    masked_scores = scores.masked_fill(mask == 0, -float("inf"))
    return {"mask": mask, "masked_scores": masked_scores, "weights": masked_scores.softmax(-1)}


def scaled_dot_product_attention(query, key, value, mask=None, dropout=nn.Identity()):
    scores = torch.bmm(query, key.transpose(1, 2)) / sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -float("inf"))
    return dropout(scores.softmax(-1)).bmm(value)


class AttentionHead(nn.Module):
    def __init__(self, embed_dim, head_dim, dropout=0.0):
        super().__init__()
        self.q = nn.Linear(embed_dim, head_dim)
        self.k = nn.Linear(embed_dim, head_dim)
        self.v = nn.Linear(embed_dim, head_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_state, mask=None):
        return scaled_dot_product_attention(self.q(hidden_state), self.k(hidden_state),
                                            self.v(hidden_state), mask, self.dropout)


class MultiHeadAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        dropout = config.hidden_dropout_prob if config.attention_dropout else 0.0
        head_dim = config.hidden_size // config.num_attention_heads
        self.heads = nn.ModuleList([AttentionHead(config.hidden_size, head_dim, dropout)
                                    for _ in range(config.num_attention_heads)])
        self.output_linear = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_state, mask=None):
        x = torch.cat([head(hidden_state, mask) for head in self.heads], dim=-1)
        return self.dropout(self.output_linear(x))


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear_1 = nn.Linear(config.hidden_size, config.intermediate_size)
        self.linear_2 = nn.Linear(config.intermediate_size, config.hidden_size)
        self.gelu = nn.GELU()
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x):
        return self.dropout(self.linear_2(self.gelu(self.linear_1(x))))


class TransformerEncoderLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.layer_norm_1 = nn.LayerNorm(config.hidden_size, config.eps)
        self.layer_norm_2 = nn.LayerNorm(config.hidden_size, config.eps)
        self.attention = MultiHeadAttention(config)
        self.feed_forward = FeedForward(config)

    def forward(self, x, mask=None):
        x = x + self.attention(self.layer_norm_1(x), mask)
        return x + self.feed_forward(self.layer_norm_2(x))


class Embeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.token_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=1e-12)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids):
        position_ids = torch.arange(input_ids.size(1)).unsqueeze(0)
        embeddings = self.token_embeddings(input_ids) + self.position_embeddings(position_ids)
        return self.dropout(self.layer_norm(embeddings))


class TransformerEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.mask_padding = config.mask_padding
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList([TransformerEncoderLayer(config)
                                     for _ in range(config.num_hidden_layers)])
        self.layer_norm = (nn.LayerNorm(config.hidden_size, config.eps) if config.final_norm
                           else nn.Identity())

    def forward(self, x):
        mask = (x != 0).unsqueeze(1) if self.mask_padding else None
        x = self.embeddings(x)
        for layer in self.layers:
            x = layer(x, mask)
        return self.layer_norm(x)


class TransformerForSequenceClassification(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.encoder = TransformerEncoder(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, x):
        return self.classifier(self.dropout(self.encoder(x)[:, 0, :]))


# ---- Cases ----------------------------------------------------------------------------------------


def draw_ids(c, batch, length):
    """Returns ids; all rows except the last end with padding."""
    ids = torch.randint(1, c.vocab_size, (batch, length))
    for row in range(batch - 1):
        ids[row, length - (row + 1) * length // (2 * batch):] = 0
    return ids


def draw_mask(batch, queries, keys):
    """Returns a random mask with at least one key for each query."""
    mask = torch.rand(batch, queries, keys) < 0.6
    mask[..., 0] = True
    return mask


def small(module):
    """Scales the embeddings so that the eps of the layer norm affects the result."""
    for table in (module.token_embeddings, module.position_embeddings):
        table.weight.data *= 0.005
    return module


class Cases:
    """Functions for make_pass(): each returns its case with new random inputs."""

    def __init__(self, c, batch, length):
        self.config, self.batch, self.length = c, batch, length
        self.c = SimpleNamespace(**{**dict.fromkeys(OPTIONS, False), **c})
        self.c.eps = 1e-12 if self.c.small_eps else 1e-5

    def states(self, length=None):
        return torch.randn(self.batch, length or self.length, self.c.hidden_size)

    def ids(self):
        return draw_ids(self.c, self.batch, self.length)

    def case(self, model, config, build, inputs, variant="", **more):
        return Case(model + variant, config, build, inputs, model=model,
                    zero_gradient=("k.bias",), **more)

    # Cases of both notebooks.

    def simplified(self, notebook):
        config = {n: self.config[n] for n in ("vocab_size", "hidden_size")}
        return self.case(notebook + ".simplified_attention", config,
                         lambda: SimplifiedAttention(self.c), {"input_ids": self.ids()},
                         loss_of=("attn_outputs",))

    def attention(self, notebook, variant="", **more):
        inputs = {"query": self.states(self.length - 2), "key": self.states(),
                  "value": self.states(), **more}
        return self.case(notebook + ".scaled_dot_product_attention", {},
                         lambda: scaled_dot_product_attention, inputs, variant)

    def head(self, notebook):
        d, head_dim = self.c.hidden_size, self.c.hidden_size // self.c.num_attention_heads
        return self.case(notebook + ".AttentionHead", {"embed_dim": d, "head_dim": head_dim},
                         lambda: AttentionHead(d, head_dim), {"hidden_state": self.states()})

    def multi_head(self, notebook, variant="", **more):
        return self.case(notebook + ".MultiHeadAttention", self.config,
                         lambda: MultiHeadAttention(self.c),
                         {"hidden_state": self.states(), **more}, variant)

    # Cases of Transformer Anatomy only.

    def attention_mask(self, notebook):
        mask = draw_mask(self.batch, self.length - 2, self.length)
        return self.attention(notebook, "_mask", mask=mask.float())

    def attention_mask_none(self, notebook):
        return self.attention(notebook, "_mask_none")

    def multi_head_mask(self, notebook):
        mask = draw_mask(self.batch, self.length, self.length)
        return self.multi_head(notebook, "_mask", mask=mask)

    def causal_mask(self, notebook):
        n = self.length
        return self.case(notebook + ".causal_mask", {}, lambda: causal_mask,
                         {"scores": 3 * torch.randn(self.batch, n, n)}, loss_of=("weights",))

    def feed_forward(self, notebook):
        return self.case(notebook + ".FeedForward", self.config, lambda: FeedForward(self.c),
                         {"x": self.states()})

    def layer(self, notebook):
        return self.case(notebook + ".TransformerEncoderLayer", self.config,
                         lambda: TransformerEncoderLayer(self.c), {"x": 0.005 * self.states()})

    def embeddings(self, notebook):
        return self.case(notebook + ".Embeddings", self.config, lambda: small(Embeddings(self.c)),
                         {"input_ids": self.ids()})

    def encoder(self, notebook):
        return self.case(notebook + ".TransformerEncoder", self.config,
                         lambda: TransformerEncoder(self.c), {"x": self.ids()})

    def classifier(self, notebook, variant="", **more):
        return self.case(notebook + ".TransformerForSequenceClassification", self.config,
                         lambda: TransformerForSequenceClassification(self.c), {"x": self.ids()},
                         variant, **more)

    def training(self, notebook):
        return self.classifier(notebook, "_adam10", loss="cross_entropy", labels={
            "target_y": torch.randint(self.c.num_labels, (self.batch,))})


def make_all(folder, cases, seed):
    both = [cases.simplified, cases.attention, cases.head, cases.multi_head]
    anatomy = [cases.attention_mask, cases.attention_mask_none, cases.multi_head_mask,
               cases.causal_mask, cases.feed_forward, cases.layer, cases.embeddings, cases.encoder,
               cases.classifier]
    passes = [partial(case, "anatomy") for case in both + anatomy]
    passes += [partial(case, "scratch") for case in both]
    make_files(folder, passes, [partial(cases.training, "anatomy")], seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--intended", action="store_true")
    for name, value in CONFIG.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    arguments = parser.parse_args()
    config = {name: getattr(arguments, name) for name in CONFIG}
    if arguments.intended:
        config.update(dict.fromkeys(OPTIONS, True))
    make_all(arguments.folder, Cases(config, arguments.batch, arguments.length),
             10000 * arguments.seed)


if __name__ == "__main__":
    main()
