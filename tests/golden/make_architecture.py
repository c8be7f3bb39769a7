#!/usr/bin/env python3
"""Writes golden-1 files for Transformers Architecture's classes with PyTorch, for `brasa check`.

    make_architecture.py FOLDER [--seed 1] [--hidden-size 32] [--num-attention-heads 4] ... [--intended]

The classes compute the same as those of the notebook. `--intended` sets every option of the intended
variant and stores the options in the files' config.
"""

import argparse
import pathlib
from math import sqrt

import torch
import torch.nn as nn

from golden1 import Case, make_files

SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, vocab_size=40,
             max_position_embeddings=12, num_attention_heads=4, num_labels=3)
OPTIONS = ("add_attention", "pre_norm", "mask_source", "mask_padding", "dropout_once",
           "embedding_dropout", "small_eps")

# ---- The notebook's functions and classes ---------------------------------------------------------


def scaled_dot_product_attention(query, key, value, mask=None, dropout=None):
    scores = query @ key.transpose(-2, -1) / sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask.unsqueeze(1) == 0, -torch.inf)
    weights = scores.softmax(-1)
    return (dropout(weights) if dropout else weights) @ value


class MultiHeadAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = c["hidden_size"]
        self.heads = c["num_attention_heads"]
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
        self.output_linear = nn.Linear(d, d)
        self.dropout = nn.Dropout(c["hidden_dropout_prob"])

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q, k, v = self.split(self.q(query)), self.split(self.k(key)), self.split(self.v(value))
        heads = scaled_dot_product_attention(q, k, v, mask, self.dropout)
        return self.output_linear(heads.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.linear_1 = nn.Linear(c["hidden_size"], c["intermediate_size"])
        self.linear_2 = nn.Linear(c["intermediate_size"], c["hidden_size"])
        self.relu = nn.ReLU()
        self.dropout = nn.Dropout(c["hidden_dropout_prob"])

    def forward(self, x):
        return self.dropout(self.linear_2(self.relu(self.linear_1(x))))


def norm(c):
    return nn.LayerNorm(c["hidden_size"], 1e-12 if c.get("small_eps") else 1e-5)


class TransformerEncoderBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.layer_norm_1, self.layer_norm_2 = norm(c), norm(c)
        self.attention = MultiHeadAttention(c)
        self.feed_forward = FeedForward(c)
        self.dropout = nn.Dropout(c["hidden_dropout_prob"])

    def forward(self, x, mask=None):
        hidden_state = self.layer_norm_1(x)
        attention_output = self.attention(hidden_state, hidden_state, hidden_state, mask)
        x = x + self.dropout(attention_output if self.c.get("add_attention") else x)
        hidden_state = self.layer_norm_2(x)
        x = (x if self.c.get("pre_norm") else hidden_state) + self.feed_forward(hidden_state)
        return x if self.c.get("dropout_once") else self.dropout(x)


class Embeddings(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.token_embeddings = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.position_embeddings = nn.Embedding(c["max_position_embeddings"], c["hidden_size"])
        self.layer_norm = nn.LayerNorm(c["hidden_size"], eps=1e-12)
        self.dropout = nn.Dropout(c["hidden_dropout_prob"] if c.get("embedding_dropout") else 0.5)

    def forward(self, input_ids):
        positions = self.position_embeddings(torch.arange(input_ids.size(1)))
        return self.dropout(self.layer_norm(self.token_embeddings(input_ids) + positions))


class Stack(nn.Module):
    """Base class of TransformerEncoder and TransformerDecoder."""

    def __init__(self, c, block):
        super().__init__()
        self.embeddings = Embeddings(c)
        self.layers = nn.ModuleList([block(c) for _ in range(c["num_hidden_layers"])])
        self.layer_norm = norm(c) if c.get("pre_norm") else nn.Identity()

    def run(self, ids, *arguments):
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x, *arguments)
        return self.layer_norm(x)


class TransformerEncoder(Stack):
    def __init__(self, c):
        super().__init__(c, TransformerEncoderBlock)

    def forward(self, x, mask=None):
        return self.run(x, mask)


class TransformerForSequenceClassification(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.mask_padding = c.get("mask_padding")
        self.encoder = TransformerEncoder(c)
        self.dropout = nn.Dropout(c["hidden_dropout_prob"])
        self.classifier = nn.Linear(c["hidden_size"], c["num_labels"])

    def forward(self, x):
        mask = source_mask_of(x) if self.mask_padding else None
        return self.classifier(self.dropout(self.encoder(x, mask)[:, 0]))


class TransformerDecoderBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.layer_norm_1, self.layer_norm_2, self.layer_norm_3 = norm(c), norm(c), norm(c)
        self.attn_1, self.attn_2 = MultiHeadAttention(c), MultiHeadAttention(c)
        self.feed_forward = FeedForward(c)
        self.dropout = nn.Dropout(c["hidden_dropout_prob"])

    def residual(self, x, hidden_state):
        return x if self.c.get("pre_norm") else hidden_state

    def forward(self, x, encoder_output, source_mask=None, target_mask=None):
        hidden_state = self.layer_norm_1(x)
        x = x + self.dropout(self.attn_1(hidden_state, hidden_state, hidden_state, target_mask))
        hidden_state = self.layer_norm_2(x)
        attended = self.attn_2(hidden_state, encoder_output, encoder_output, source_mask)
        x = self.residual(x, hidden_state) + self.dropout(attended)
        hidden_state = self.layer_norm_3(x)
        output = self.feed_forward(hidden_state)
        output = output if self.c.get("dropout_once") else self.dropout(output)
        return self.residual(x, hidden_state) + output


class TransformerDecoder(Stack):
    def __init__(self, c):
        super().__init__(c, TransformerDecoderBlock)

    def forward(self, input_ids, encoder_output, source_mask=None, target_mask=None):
        return self.run(input_ids, encoder_output, source_mask, target_mask)


class EncoderDecoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.mask_source = c.get("mask_source")
        self.encoder = TransformerEncoder(c)
        self.decoder = TransformerDecoder(c)
        self.fc = nn.Linear(c["hidden_size"], c["vocab_size"])

    def forward(self, input_ids, target_ids, source_mask=None, target_mask=None):
        encoder_output = self.encoder(input_ids, source_mask if self.mask_source else None)
        return self.fc(self.decoder(target_ids, encoder_output, source_mask, target_mask))


def create_mask(batch_size, seq_length):
    return torch.ones(seq_length, seq_length).tril().expand(batch_size, -1, -1)


def source_mask_of(source):
    return (source != 0).unsqueeze(-2)


def std_mask(target):
    return source_mask_of(target) & subsequent_mask(target.size(-1))


def subsequent_mask(size):
    return torch.ones(size, size).tril().bool()


# ---- Cases ----------------------------------------------------------------------------------------


class Cases:
    """Functions for make_files(): each returns its case with new random inputs. make_files() seeds the generator
    before each call."""

    def __init__(self, config, batch, source_len, target_len):
        self.c, self.batch = config, batch
        self.source_len, self.target_len = source_len, target_len

    def states(self, length):
        return torch.randn(self.batch, length, self.c["hidden_size"])

    def heads(self, length):
        heads = self.c["num_attention_heads"]
        return torch.randn(self.batch, heads, length, self.c["hidden_size"] // heads)

    def ids(self, length, padded=True):
        """Returns ids that begin with 1; if `padded`, all rows except the last end with padding."""
        ids = torch.randint(1, self.c["vocab_size"], (self.batch, length))
        ids[:, 0] = 1
        for row in range(self.batch - 1 if padded else 0):
            ids[row, length - (row + 1) * length // (2 * self.batch):] = 0
        return ids

    def random_mask(self):
        """Returns a random mask with at least one key for each query."""
        mask = (torch.rand(self.batch, self.target_len, self.source_len) < 0.6).float()
        mask[..., 0] = 1
        return mask

    def case(self, name, module, inputs, **more):
        return Case("architecture." + name, dict(self.c), lambda: module(self.c), inputs,
                    zero_gradient=("k.bias",), **more)

    def attention(self, variant, generate, **mask):
        inputs = {"query": generate(self.target_len), "key": generate(self.source_len),
                  "value": generate(self.source_len), **mask}
        return Case("architecture.scaled_dot_product_attention" + variant, {},
                    lambda: scaled_dot_product_attention, inputs,
                    model="architecture.scaled_dot_product_attention")

    def attention_of_heads(self):
        return self.attention("", self.heads)

    def masked_attention(self):
        return self.attention("_mask", self.heads, mask=self.random_mask())

    def masked_attention_3d(self):
        return self.attention("_mask_3d", self.states, mask=self.random_mask())

    def multi_head_attention(self):
        inputs = {n: self.states(self.source_len) for n in ("query", "key", "value")}
        return self.case("MultiHeadAttention", MultiHeadAttention, inputs)

    def masked_multi_head_attention(self):
        inputs = {"query": self.states(self.target_len), "key": self.states(self.source_len),
                  "value": self.states(self.source_len),
                  "mask": source_mask_of(self.ids(self.source_len))}
        return self.case("MultiHeadAttention_mask", MultiHeadAttention, inputs)

    def feed_forward(self):
        return self.case("FeedForward", FeedForward, {"x": self.states(self.source_len)})

    def encoder_block(self):
        inputs = {"x": 0.01 * self.states(self.source_len),
                  "mask": create_mask(self.batch, self.source_len)}
        return self.case("TransformerEncoderBlock", TransformerEncoderBlock, inputs)

    def embeddings(self):
        return self.case("Embeddings", Embeddings, {"input_ids": self.ids(self.source_len)})

    def encoder(self):
        return self.case("TransformerEncoder", TransformerEncoder,
                         {"x": self.ids(self.source_len)})

    def classifier(self):
        return self.case("TransformerForSequenceClassification",
                         TransformerForSequenceClassification, {"x": self.ids(self.source_len)})

    def decoder_block(self):
        inputs = {"x": 0.01 * self.states(self.target_len),
                  "encoder_output": self.states(self.source_len),
                  "source_mask": source_mask_of(self.ids(self.source_len)),
                  "target_mask": create_mask(self.batch, self.target_len)}
        return self.case("TransformerDecoderBlock", TransformerDecoderBlock, inputs)

    def decoder(self):
        inputs = {"input_ids": self.ids(self.target_len),
                  "encoder_output": self.states(self.source_len),
                  "target_mask": create_mask(self.batch, self.target_len)}
        return self.case("TransformerDecoder", TransformerDecoder, inputs)

    def create_mask(self):
        sizes = {"batch_size": self.batch, "seq_length": self.source_len}
        return Case("architecture.create_mask", sizes, lambda: lambda: create_mask(**sizes), {},
                    loss="none", model="architecture.create_mask")

    def dataset_masks(self):
        """Returns the masks of one sample with padding."""
        def masks(target):
            return {"subsequent_mask": subsequent_mask(target.size(-1)),
                    "target_mask": std_mask(target), "source_mask": source_mask_of(target)}
        return Case("architecture.RandomDataset_masks", {}, lambda: masks,
                    {"target": self.ids(self.source_len)[0]}, loss="none")

    def encoder_decoder(self):
        """Returns the case of the notebook's In [32], with targets."""
        inputs = {"input_ids": self.ids(self.source_len, False),
                  "target_ids": self.ids(self.target_len, False),
                  "target_mask": create_mask(self.batch, self.target_len)}
        target_y = torch.randint(0, self.c["vocab_size"], (self.batch, self.target_len))
        return self.case("EncoderDecoder", EncoderDecoder, inputs, loss="cross_entropy",
                         labels={"target_y": target_y})

    def copying(self, variant):
        """Returns the case of a batch of the dataset, with padding; the masks fit the targets."""
        source = self.ids(self.source_len)
        target = source[:, :-1]
        inputs = {"input_ids": source, "target_ids": target,
                  "source_mask": source_mask_of(source), "target_mask": std_mask(target)}
        return self.case("EncoderDecoder" + variant, EncoderDecoder, inputs, loss="cross_entropy",
                         labels={"target_y": source[:, 1:]})

    def one_step(self):
        return self.copying("_train")

    def training(self):
        return self.copying("_adam10")


def make_all(folder, cases, seed):
    passes = [cases.attention_of_heads, cases.masked_attention, cases.masked_attention_3d,
             cases.multi_head_attention, cases.masked_multi_head_attention, cases.feed_forward,
             cases.encoder_block, cases.embeddings, cases.encoder, cases.classifier,
             cases.decoder_block, cases.decoder, cases.create_mask, cases.dataset_masks,
             cases.encoder_decoder, cases.one_step]
    make_files(folder, passes, [cases.training], seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--source-len", type=int, default=8)
    parser.add_argument("--target-len", type=int, default=6)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--intended", action="store_true")
    for name, size in SIZES.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=size)
    arguments = parser.parse_args()
    c = {name: getattr(arguments, name) for name in SIZES}
    c["hidden_dropout_prob"] = arguments.dropout
    if arguments.intended:
        c.update({name: True for name in OPTIONS})
    make_all(arguments.folder,
             Cases(c, arguments.batch, arguments.source_len, arguments.target_len),
             10000 * arguments.seed)


if __name__ == "__main__":
    main()
