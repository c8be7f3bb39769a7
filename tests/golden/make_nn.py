#!/usr/bin/env python3
"""Writes golden-1 files for torch.nn's attention and Transformer modules, for `brasa check`.

    make_nn.py FOLDER [--seed 1] [--d-model 8] [--nhead 2] [--dim-feedforward 12] ...

The cases cover layouts, pre-norm and post-norm, activations, all kinds of masks, and attention
weights. Two cases train from the constructors' initial parameters.
"""

import argparse
import pathlib

import torch
import torch.nn as nn

from golden1 import Case, make_files

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}  # modules, because golden1 hooks nn.ReLU


class Attention(nn.MultiheadAttention):
    """Attention that returns its outputs by name; key and value default to the query and the key."""

    def __init__(self, c):
        super().__init__(c["embed_dim"], c["num_heads"], c["dropout"], bias=not c.get("no_bias"),
                         add_bias_kv=c.get("add_bias_kv", False),
                         add_zero_attn=c.get("add_zero_attn", False), kdim=c.get("kdim"),
                         vdim=c.get("vdim"), batch_first=c.get("batch_first", False))
        self.c = c

    def forward(self, query, key=None, value=None, attn_mask=None, key_padding_mask=None):
        key = query if key is None else key
        out, weights = super().forward(
            query, key, key if value is None else value, key_padding_mask=key_padding_mask,
            need_weights=self.c.get("weights", False), attn_mask=attn_mask,
            average_attn_weights=not self.c.get("per_head"), is_causal=self.c.get("causal", False))
        return {"0": out} if weights is None else {"0": out, "weights": weights}


def layer(kind, c):
    return kind(c["d_model"], c["nhead"], c["dim_feedforward"], c["dropout"],
                ACTIVATIONS["gelu" if c.get("gelu") else "relu"](), layer_norm_eps=c["eps"],
                batch_first=c.get("batch_first", False), norm_first=c.get("norm_first", False),
                bias=not c.get("no_bias"))


def norm(c):
    return nn.LayerNorm(c["d_model"], c["eps"], bias=not c.get("no_bias"))


def encoder(c):
    return nn.TransformerEncoder(layer(nn.TransformerEncoderLayer, c), c["num_layers"], norm(c),
                                 enable_nested_tensor=False)


def decoder(c):
    return nn.TransformerDecoder(layer(nn.TransformerDecoderLayer, c), c["num_layers"])


def transformer(c):
    return nn.Transformer(
        c["d_model"], c["nhead"], c["num_encoder_layers"], c["num_decoder_layers"],
        c["dim_feedforward"], c["dropout"], ACTIVATIONS["gelu" if c.get("gelu") else "relu"](),
        layer_norm_eps=c["eps"], batch_first=c.get("batch_first", False),
        norm_first=c.get("norm_first", False), bias=not c.get("no_bias"))


def causal(n):
    return torch.ones(n, n).triu(1).bool()


def additive(mask):
    """Returns a float mask: -inf where the mask is true, random numbers elsewhere."""
    return torch.randn(mask.shape).masked_fill(mask, -torch.inf)


def padding(batch, length):
    """Returns a mask that is true after the end of each row; the last row has no padding."""
    return torch.arange(length) >= torch.arange(length - batch + 1, length + 1)[:, None]


class Cases:
    """Functions for make_pass(): each returns its case with new random inputs."""

    def __init__(self, a):
        self.a, self.n, self.s, self.t = a, a.batch, a.src_len, a.tgt_len

    def states(self, length, size=None, batch_first=True):
        shape = (self.n, length) if batch_first else (length, self.n)
        return torch.randn(*shape, size or self.a.d_model)

    def case(self, name, config, build, inputs, outputs):
        cotangents = {n: torch.randn(shape) for n, shape in outputs.items()}
        return Case("nn." + name, config, lambda: build(config), inputs, loss="weighted_mean",
                    loss_of=tuple(outputs), cotangents=cotangents)

    # ---- Attention

    def attention(self, name, inputs, **options):
        e, h = self.a.d_model, self.a.nhead
        config = dict(embed_dim=e, num_heads=h, dropout=self.a.dropout, **options)
        outputs = {"0": inputs["query"].shape}
        if options.get("weights"):
            heads = (h,) if options.get("per_head") else ()
            outputs["weights"] = (self.n, *heads, self.t, self.s)
        return self.case("MultiheadAttention_" + name, config, Attention, inputs, outputs)

    def self_attention(self):
        return self.attention("self", {"query": self.states(self.s)}, batch_first=True)

    def causal_attention(self):
        return self.attention("causal", {"query": torch.randn(self.t, self.a.d_model),
                                         "attn_mask": causal(self.t)}, causal=True, no_bias=True)

    def masked_attention(self):
        mask = torch.rand(self.t, self.s) < 0.3
        mask[:, 0] = False
        return self.attention("masks", {
            "query": self.states(self.t, batch_first=False),
            "key": self.states(self.s, batch_first=False), "attn_mask": mask,
            "key_padding_mask": padding(self.n, self.s)}, weights=True)

    def added_masks(self):
        mask = torch.rand(self.n * self.a.nhead, self.t, self.s) < 0.3
        mask[..., 0] = False
        return self.attention("float_masks", {
            "query": self.states(self.t), "key": self.states(self.s),
            "value": self.states(self.s), "attn_mask": additive(mask),
            "key_padding_mask": additive(padding(self.n, self.s))}, batch_first=True, weights=True,
            per_head=True)

    def added_keys(self):
        return self.attention("added_keys", {
            "query": self.states(self.t), "key": self.states(self.s, 5),
            "value": self.states(self.s, 7), "attn_mask": torch.rand(self.t, self.s) < 0.3,
            "key_padding_mask": padding(self.n, self.s)}, batch_first=True, kdim=5, vdim=7,
            add_bias_kv=True, add_zero_attn=True)

    # ---- Layers and stacks

    def config(self, **options):
        return dict(d_model=self.a.d_model, nhead=self.a.nhead,
                    dim_feedforward=self.a.dim_feedforward, dropout=self.a.dropout, eps=1e-5,
                    **options)

    def encoder_inputs(self, batch_first=False):
        return {"src": self.states(self.s, batch_first=batch_first), "src_mask": causal(self.s),
                "src_key_padding_mask": padding(self.n, self.s)}

    def decoder_inputs(self, batch_first=False):
        mask = torch.rand(self.t, self.s) < 0.3
        mask[:, 0] = False
        return {"tgt": self.states(self.t, batch_first=batch_first),
                "memory": self.states(self.s, batch_first=batch_first),
                "tgt_mask": additive(causal(self.t)), "memory_mask": mask,
                "memory_key_padding_mask": padding(self.n, self.s)}

    def stack(self, name, build, inputs, of, **options):
        return self.case(name, self.config(**options), build, inputs, {"0": inputs[of].shape})

    def encoder_layer(self):
        return self.stack("TransformerEncoderLayer",
                          lambda c: layer(nn.TransformerEncoderLayer, c), self.encoder_inputs(),
                          "src")

    def encoder_layer_pre(self):
        return self.stack("TransformerEncoderLayer_pre",
                          lambda c: layer(nn.TransformerEncoderLayer, c),
                          self.encoder_inputs(True), "src", norm_first=True, batch_first=True,
                          gelu=True, no_bias=True)

    def decoder_layer(self):
        return self.stack("TransformerDecoderLayer",
                          lambda c: layer(nn.TransformerDecoderLayer, c), self.decoder_inputs(),
                          "tgt")

    def decoder_layer_pre(self):
        return self.stack("TransformerDecoderLayer_pre",
                          lambda c: layer(nn.TransformerDecoderLayer, c),
                          self.decoder_inputs(True), "tgt", norm_first=True, batch_first=True,
                          gelu=True)

    def encoder(self):
        inputs = self.encoder_inputs(True)
        inputs["mask"] = inputs.pop("src_mask")
        return self.stack("TransformerEncoder", encoder, inputs, "src", batch_first=True,
                          num_layers=2)

    def decoder(self):
        return self.stack("TransformerDecoder", decoder, self.decoder_inputs(), "tgt",
                          norm_first=True, num_layers=2)

    def transformer(self):
        inputs = {**self.encoder_inputs(), **self.decoder_inputs(),
                  "tgt_key_padding_mask": torch.zeros(self.n, self.t)}
        del inputs["memory"]
        return self.stack("Transformer", transformer, inputs, "tgt", norm_first=True,
                          num_encoder_layers=1, num_decoder_layers=2)

    # ---- Training

    def train_transformer(self):
        c = self.config(batch_first=True, num_encoder_layers=2, num_decoder_layers=1)
        inputs = {"src": self.states(self.s), "tgt": self.states(self.t),
                  "tgt_mask": additive(causal(self.t))}
        labels = {"target_y": torch.randint(self.a.d_model, (self.n, self.t))}
        return Case("nn.Transformer_adam10", c, lambda: transformer(c), inputs,
                    loss="cross_entropy", labels=labels)

    def train_attention(self):
        c = dict(embed_dim=self.a.d_model, num_heads=self.a.nhead, dropout=0.0, batch_first=True,
                 kdim=5, vdim=7, add_bias_kv=True)
        inputs = {"query": self.states(self.t), "key": self.states(self.s, 5),
                  "value": self.states(self.s, 7)}
        labels = {"target_y": torch.randint(self.a.d_model, (self.n, self.t))}
        return Case("nn.MultiheadAttention_adam10", c, lambda: Attention(c), inputs,
                    loss="cross_entropy", labels=labels)


def make_all(folder, cases, seed):
    passes = [cases.self_attention, cases.causal_attention, cases.masked_attention,
             cases.added_masks, cases.added_keys, cases.encoder_layer, cases.encoder_layer_pre,
             cases.decoder_layer, cases.decoder_layer_pre, cases.encoder, cases.decoder,
             cases.transformer]
    make_files(folder, passes, [cases.train_transformer, cases.train_attention], seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dropout", type=float, default=0.1)
    for name, size in dict(d_model=8, nhead=2, dim_feedforward=12, batch=2, src_len=5,
                           tgt_len=4).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=size)
    arguments = parser.parse_args()
    make_all(arguments.folder, Cases(arguments), 10000 * arguments.seed)


if __name__ == "__main__":
    main()
