#!/usr/bin/env python3
"""Writes golden-1 files for Vanilla Transformer's classes with PyTorch, for `brasa check`.

    make_vanilla.py FOLDER [--seed 1] [--embed-dim 32] [--n-heads 4] ... [--intended]

The classes compute the same as those of the notebook. `--intended` sets every option of the intended
variant and stores the options in the files' config. It omits the case of a row without keys, which
has no finite result.
"""

import argparse
import pathlib

import torch
import torch.nn as nn

from golden1 import Case, make_files

SIZES = dict(vocab_size=40, src_vocab_size=40, trg_vocab_size=36, n_classes=4, embed_dim=32,
             n_layers=2, n_heads=4, ff_hid_dim=64, max_length=12)
PADS = dict(src_pad_idx=0, trg_pad_idx=1, pad_idx=0)
OPTIONS = ("scale_by_head_dim", "infinite_fill", "sublayer_dropout", "use_joint_attention",
           "use_norm_3", "max_over_tokens")

# ---- The notebook's classes -----------------------------------------------------------------------


class MultiHeadAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = c["embed_dim"]
        self.heads, head_dim = c["n_heads"], d // c["n_heads"]
        self.scale = (head_dim if c.get("scale_by_head_dim") else d) ** 0.5
        self.fill = -torch.inf if c.get("infinite_fill") else -1e20
        self.keys, self.queries = nn.Linear(d, d), nn.Linear(d, d)
        self.values, self.proj = nn.Linear(d, d), nn.Linear(d, d)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, q, k, v, mask=None):
        q, k, v = self.queries(q), self.keys(k), self.values(v)
        energy = self.split(q) @ self.split(k).transpose(2, 3) / self.scale
        if mask is not None:
            energy = energy.masked_fill(mask == 0, self.fill)
        return self.proj((energy.softmax(-1) @ self.split(v)).transpose(1, 2).flatten(2))


def mlp(c):
    return nn.Sequential(nn.Linear(c["embed_dim"], c["ff_hid_dim"]), nn.ReLU(),
                         nn.Dropout(c["dropout"]), nn.Linear(c["ff_hid_dim"], c["embed_dim"]))


class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention = MultiHeadAttention(c)
        self.norm_1, self.norm_2 = nn.LayerNorm(c["embed_dim"]), nn.LayerNorm(c["embed_dim"])
        self.mlp = mlp(c)

    def forward(self, src, mask):
        x = self.norm_1(self.attention(src, src, src, mask) + src)
        return self.norm_2(self.mlp(x) + x)


class DecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention, self.joint_attention = MultiHeadAttention(c), MultiHeadAttention(c)
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(c["embed_dim"]) for _ in range(3))
        self.mlp = mlp(c)
        self.c = c

    def forward(self, trg, src, trg_mask, src_mask):
        joint = self.joint_attention if self.c.get("use_joint_attention") else self.attention
        last_norm = self.norm_3 if self.c.get("use_norm_3") else self.norm_2
        trg = self.norm_1(trg + self.attention(trg, trg, trg, trg_mask))
        trg = self.norm_2(trg + joint(trg, src, src, src_mask))
        return last_norm(trg + self.mlp(trg))


class Block(nn.Module):
    """Base class of Encoder and Decoder."""

    def __init__(self, c, vocab_size, layer):
        super().__init__()
        self.scale = c["embed_dim"] ** 0.5
        self.tok_emb = nn.Embedding(vocab_size, c["embed_dim"])
        self.pos_emb = nn.Embedding(c["max_length"], c["embed_dim"])
        self.blocks = nn.ModuleList([layer(c) for _ in range(c["n_layers"])])

    def embed(self, ids):
        return self.tok_emb(ids) * self.scale + self.pos_emb(torch.arange(ids.size(1)))


class Encoder(Block):
    def __init__(self, c, vocab_size):
        super().__init__(c, vocab_size, EncoderLayer)

    def forward(self, src, mask):
        out = self.embed(src)
        for block in self.blocks:
            out = block(out, mask)
        return out


class Decoder(Block):
    def __init__(self, c, vocab_size):
        super().__init__(c, vocab_size, DecoderLayer)
        self.fc = nn.Linear(c["embed_dim"], vocab_size)

    def forward(self, trg, src, trg_mask, src_mask):
        trg = self.embed(trg)
        for block in self.blocks:
            trg = block(trg, src, trg_mask, src_mask)
        return self.fc(trg)


def pad_mask(ids, pad_idx):
    return (ids != pad_idx)[:, None, None]


def later_mask(ids, pad_idx):
    n = ids.size(1)
    return torch.ones(n, n).tril().bool() & pad_mask(ids, pad_idx)


class Transformer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder = Encoder(c, c["src_vocab_size"])
        self.decoder = Decoder(c, c["trg_vocab_size"])
        self.c = c

    def forward(self, src, trg):
        src_mask = pad_mask(src, self.c["src_pad_idx"])
        trg_mask = later_mask(trg, self.c["trg_pad_idx"])
        return self.decoder(trg, self.encoder(src, src_mask), trg_mask, src_mask)


class EncoderClassifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder = Encoder(c, c["vocab_size"])
        self.linear = nn.Linear(c["embed_dim"], c["n_classes"])
        self.c = c

    def forward(self, x):
        mask = pad_mask(x, self.c["pad_idx"])
        x = self.encoder(x, mask)
        if self.c.get("max_over_tokens"):
            x = x.masked_fill(~mask[:, 0].transpose(1, 2), -torch.inf)
        first, second = x.topk(2, dim=1).values.unbind(1)
        self.margin = (first - second).min().item()
        return self.linear(first)


# ---- Cases ----------------------------------------------------------------------------------------


def draw_ids(vocab_size, pad_idx, batch, length):
    """Returns rows of ids of different lengths, padded at the end; the last row has no padding."""
    ids = torch.randint(vocab_size, (batch, length))
    ids[ids == pad_idx] = vocab_size - 1
    for row in range(batch):
        ids[row, max(2, length - (batch - 1 - row) * (length // batch)):] = pad_idx
    return ids


class Cases:
    """Functions for make_pass(): each returns its case with new random inputs."""

    def __init__(self, c, batch, src_len, trg_len):
        self.c, self.batch, self.src_len, self.trg_len = c, batch, src_len, trg_len

    def config(self, *names):
        chosen = {n: self.c[n] for n in ("embed_dim", "n_heads", "dropout", *names)}
        return {**chosen, **{n: True for n in OPTIONS if self.c.get(n)}}

    def layer_config(self):
        return self.config("ff_hid_dim")

    def block_config(self, *names):
        return self.config("ff_hid_dim", "n_layers", "max_length", *names)

    def transformer_config(self):
        return self.block_config("src_vocab_size", "trg_vocab_size", "src_pad_idx", "trg_pad_idx")

    def src_ids(self):
        return draw_ids(self.c["src_vocab_size"], self.c["src_pad_idx"], self.batch, self.src_len)

    def trg_ids(self, length=None):
        return draw_ids(self.c["trg_vocab_size"], self.c["trg_pad_idx"], self.batch,
                        length or self.trg_len)

    def src_mask(self):
        return pad_mask(self.src_ids(), self.c["src_pad_idx"])

    def trg_mask(self):
        return later_mask(self.trg_ids(), self.c["trg_pad_idx"])

    def states(self, length):
        return torch.randn(self.batch, length, self.c["embed_dim"])

    def case(self, name, config, build, inputs, **more):
        return Case("vanilla." + name, config, build, inputs, zero_gradient=("keys.bias",), **more)

    def attention(self, variant, q_len, mask):
        c = self.config()
        inputs = {"q": self.states(q_len), "k": self.states(self.src_len),
                  "v": self.states(self.src_len)}
        if mask is not None:
            inputs["mask"] = mask
        return self.case("MultiHeadAttention" + variant, c, lambda: MultiHeadAttention(c), inputs)

    def plain_attention(self):
        return self.attention("", self.trg_len, None)

    def masked_attention(self):
        ids = self.src_ids()
        return self.attention("_mask", self.src_len, later_mask(ids, self.c["src_pad_idx"]))

    def attention_without_keys(self):
        mask = self.src_mask()
        mask[-1] = False
        return self.attention("_masked_row", self.trg_len, mask)

    def encoder_layer(self):
        c = self.layer_config()
        inputs = {"src": 0.05 * self.states(self.src_len), "mask": self.src_mask()}
        return self.case("EncoderLayer", c, lambda: EncoderLayer(c), inputs)

    def decoder_layer(self):
        c = self.layer_config()
        inputs = {"trg": self.states(self.trg_len), "src": self.states(self.src_len),
                  "trg_mask": self.trg_mask(), "src_mask": self.src_mask()}
        return self.case("DecoderLayer", c, lambda: DecoderLayer(c), inputs)

    def encoder(self):
        c = self.block_config("vocab_size")
        src = draw_ids(c["vocab_size"], 0, self.batch, self.src_len)
        return self.case("Encoder", c, lambda: Encoder(c, c["vocab_size"]),
                         {"src": src, "mask": pad_mask(src, 0)})

    def decoder(self):
        c = self.block_config("vocab_size")
        trg = draw_ids(c["vocab_size"], 0, self.batch, self.trg_len)
        inputs = {"trg": trg, "src": self.states(self.src_len), "trg_mask": later_mask(trg, 0),
                  "src_mask": self.src_mask()}
        return self.case("Decoder", c, lambda: Decoder(c, c["vocab_size"]), inputs)

    def masks(self):
        c = self.transformer_config()
        both = lambda src, trg: {"src_mask": pad_mask(src, c["src_pad_idx"]),
                                 "trg_mask": later_mask(trg, c["trg_pad_idx"])}
        return self.case("Transformer_masks", c, lambda: both,
                         {"src": self.src_ids(), "trg": self.trg_ids()}, loss="none",
                         model="vanilla.Transformer.src_mask, vanilla.Transformer.trg_mask")

    def transformer(self):
        c = self.transformer_config()
        return self.case("Transformer", c, lambda: Transformer(c),
                         {"src": self.src_ids(), "trg": self.trg_ids()})

    def classifier(self):
        c = self.block_config("vocab_size", "n_classes", "pad_idx")
        x = draw_ids(c["vocab_size"], c["pad_idx"], self.batch, self.src_len)
        return self.case("EncoderClassifier", c, lambda: EncoderClassifier(c), {"x": x})

    def training(self):
        """Returns a case with targets shifted by one, as for a language model; padding is ignored."""
        c = self.transformer_config()
        trg = self.trg_ids(self.trg_len + 1)
        return self.case("Transformer_adam10", c, lambda: Transformer(c),
                         {"src": self.src_ids(), "trg": trg[:, :-1]},
                         loss="cross_entropy_ignore", ignore_index=c["trg_pad_idx"],
                         labels={"labels": trg[:, 1:]})


def make_all(folder, cases, seed):
    passes = [cases.plain_attention, cases.masked_attention, cases.encoder_layer,
             cases.decoder_layer, cases.encoder, cases.decoder, cases.masks, cases.transformer,
             cases.classifier]
    if not cases.c.get("infinite_fill"):
        passes.append(cases.attention_without_keys)
    make_files(folder, passes, [cases.training], seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--src-len", type=int, default=8)
    parser.add_argument("--trg-len", type=int, default=6)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--intended", action="store_true")
    for name, size in {**SIZES, **PADS}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=size)
    arguments = parser.parse_args()
    c = {name: getattr(arguments, name) for name in (*SIZES, *PADS, "dropout")}
    if arguments.intended:
        c.update({name: True for name in OPTIONS})
    make_all(arguments.folder, Cases(c, arguments.batch, arguments.src_len, arguments.trg_len),
             10000 * arguments.seed)


if __name__ == "__main__":
    main()
