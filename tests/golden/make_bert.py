#!/usr/bin/env python3
"""Writes golden-1 files for BERT's classes with PyTorch, for `brasa check`.

    make_bert.py FOLDER [--seed 1] [--batch 2] [--d-model 32] [--n-heads 4] ... [--intended]

The classes are those of the notebook, with the sizes as arguments. `--intended` uses the intended
variant: the attention's output layer and norm are created once, and a layer ends with
norm(x + ffn(x)). The files' config then has "as_written": false.
"""

import argparse
import math
import pathlib

import torch
import torch.nn as nn

from golden1 import ADAM, Case, make_files

SIZES = dict(vocab_size=40, d_model=32, n_layers=2, n_heads=4, d_ff=128, d_k=8, d_v=8, maxlen=16,
             n_segments=2, max_pred=4)


# ---- The notebook's functions and classes ---------------------------------------------------------


def gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def get_attn_pad_masked(seq_q, seq_k):
    batch_size, len_q = seq_q.size()
    return seq_k.eq(0).unsqueeze(1).expand(batch_size, len_q, seq_k.size(1))


class Embedding(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.tok_embed = nn.Embedding(c["vocab_size"], c["d_model"])
        self.pos_embed = nn.Embedding(c["maxlen"], c["d_model"])
        self.seg_embed = nn.Embedding(c["n_segments"], c["d_model"])
        self.norm = nn.LayerNorm(c["d_model"])

    def forward(self, x, seg):
        pos = torch.arange(x.size(1)).unsqueeze(0).expand_as(x)
        return self.norm(self.tok_embed(x) + self.pos_embed(pos) + self.seg_embed(seg))


class ScaledDotProductAttention(nn.Module):
    def forward(self, Q, K, V, attn_mask):
        scores = Q @ K.transpose(-1, -2) / math.sqrt(K.size(-1))
        attn = scores.masked_fill(attn_mask, -1e9).softmax(-1)
        return {"context": attn @ V, "attn": attn}


class MultiHeadAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.W_Q = nn.Linear(c["d_model"], c["d_k"] * c["n_heads"])
        self.W_K = nn.Linear(c["d_model"], c["d_k"] * c["n_heads"])
        self.W_V = nn.Linear(c["d_model"], c["d_v"] * c["n_heads"])
        if not c["as_written"]:
            self.linear = nn.Linear(c["n_heads"] * c["d_v"], c["d_model"])
            self.norm = nn.LayerNorm(c["d_model"])

    def heads(self, x, d):
        return x.view(x.size(0), -1, self.c["n_heads"], d).transpose(1, 2)

    def forward(self, Q, K, V, attn_mask, fresh=None):
        q, k = self.heads(self.W_Q(Q), self.c["d_k"]), self.heads(self.W_K(K), self.c["d_k"])
        v = self.heads(self.W_V(V), self.c["d_v"])
        out = ScaledDotProductAttention()(q, k, v, attn_mask.unsqueeze(1))
        context = out["context"].transpose(1, 2).flatten(2)
        linear, norm = next(fresh) if self.c["as_written"] else (self.linear, self.norm)
        return {"output": norm(linear(context) + Q), "attn": out["attn"]}


class PoswiseFeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc1 = nn.Linear(c["d_model"], c["d_ff"])
        self.fc2 = nn.Linear(c["d_ff"], c["d_model"])

    def forward(self, x):
        return self.fc2(gelu(self.fc1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.enc_self_attn = MultiHeadAttention(c)
        self.pos_ffn = PoswiseFeedForward(c)
        if not c["as_written"]:
            self.norm = nn.LayerNorm(c["d_model"])

    def forward(self, enc_inputs, enc_self_attn_mask, fresh=None):
        out = self.enc_self_attn(enc_inputs, enc_inputs, enc_inputs, enc_self_attn_mask, fresh)
        x = out["output"]
        y = self.norm(x + self.pos_ffn(x)) if hasattr(self, "norm") else self.pos_ffn(x)
        return {"output": y, "attn": out["attn"]}


class BERT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embedding = Embedding(c)
        self.layers = nn.ModuleList([EncoderLayer(c) for _ in range(c["n_layers"])])
        self.fc = nn.Linear(c["d_model"], c["d_model"])
        self.linear = nn.Linear(c["d_model"], c["d_model"])
        self.norm = nn.LayerNorm(c["d_model"])
        self.classifier = nn.Linear(c["d_model"], 2)
        self.decoder = nn.Linear(c["d_model"], c["vocab_size"], bias=False)
        self.decoder.weight = self.embedding.tok_embed.weight
        self.decoder_bias = nn.Parameter(torch.zeros(c["vocab_size"]))

    def forward(self, input_ids, segment_ids, masked_pos, fresh=None):
        output = self.embedding(input_ids, segment_ids)
        mask = get_attn_pad_masked(input_ids, input_ids)
        for layer in self.layers:
            output = layer(output, mask, fresh)["output"]
        logits_clsf = self.classifier(torch.tanh(self.fc(output[:, 0])))
        index = masked_pos[:, :, None].expand(-1, -1, output.size(-1))
        h_masked = self.norm(gelu(self.linear(torch.gather(output, 1, index))))
        return {"logits_lm": self.decoder(h_masked) + self.decoder_bias,
                "logits_clsf": logits_clsf}


# ---- Fresh layers ---------------------------------------------------------------------------------


class Fresh:
    """The pairs of layers that `per_forward` attention modules create in each of `steps` forward
    passes, in order, with their initial parameters."""

    def __init__(self, c, per_forward, seed, steps=1):
        torch.manual_seed(seed)
        self.seed, self.per_forward = seed, per_forward
        self.pairs = [(nn.Linear(c["n_heads"] * c["d_v"], c["d_model"]), nn.LayerNorm(c["d_model"]))
                      for _ in range(steps * per_forward)]

    def tensors(self):
        """Returns the tensors to store in the file."""
        one = len(self.pairs) == self.per_forward
        prefix = "fresh/{1}" if one else "fresh/{0}/{1}"
        return {f"{prefix.format(i // self.per_forward, i % self.per_forward)}/{layer}.{name}":
                value.detach()
                for i, pair in enumerate(self.pairs)
                for layer, module in zip(("linear", "layernorm"), pair)
                for name, value in module.state_dict().items()}

    def extra(self, dtype, step):
        """Returns copies for one forward pass, so that runs do not change each other's layers."""
        def copies():
            for linear, norm in self.pairs[step * self.per_forward:][:self.per_forward]:
                a = nn.Linear(linear.in_features, linear.out_features).to(dtype)
                b = nn.LayerNorm(norm.normalized_shape).to(dtype)
                a.load_state_dict(linear.state_dict())
                b.load_state_dict(norm.state_dict())
                yield a, b
        return {"fresh": copies()}


def with_fresh(c, case, per_forward, steps=1):
    """Adds the layers that forward creates to a case of the variant as written."""
    if c["as_written"]:
        seed = int(torch.randint(1 << 30, ()))
        fresh = Fresh(c, per_forward, seed, steps)
        case.extra, case.extra_tensors = fresh.extra, fresh.tensors()
        case.metadata = {"fresh_seed": seed}
    return case


# ---- Cases ----------------------------------------------------------------------------------------


def masks(batch, q, k):
    """Returns random masks; in the last row, the first query has every key masked."""
    mask = torch.rand(batch, q, k) < 0.25
    mask[-1, 0] = True
    return mask


def small(embedding):
    """Scales the embeddings so that the eps of the layer norm affects the result."""
    for table in (embedding.tok_embed, embedding.pos_embed, embedding.seg_embed):
        table.weight.data *= 0.005
    return embedding


class Cases:
    """Functions for make_pass(): each returns its case with new random inputs."""

    def __init__(self, c, batch):
        self.c, self.batch, self.length = c, batch, c["maxlen"] // 2

    def case(self, model, build, inputs, config=None, variant="", **more):
        model = "bert." + model
        return Case(model + variant, self.c if config is None else config, build, inputs,
                    model=model, zero_gradient=("W_K.bias",), **more)

    def states(self, length=None):
        return torch.randn(self.batch, length or self.length, self.c["d_model"])

    def heads(self, d):
        return torch.randn(self.batch, self.c["n_heads"], self.length, d)

    def ids(self, length=None):
        """Returns ids in which every row ends with padding."""
        length = length or self.length
        ids = torch.randint(4, self.c["vocab_size"], (self.batch, length))
        for row in range(self.batch):
            ids[row, length - (row + 1) * length // (2 * self.batch):] = 0
        ids[:, 0] = 1
        return ids

    def cotangents(self, queries):
        return {"output": self.states(queries),
                "attn": torch.randn(self.batch, self.c["n_heads"], queries, self.length)}

    def gelu(self):
        return self.case("gelu", lambda: gelu, {"x": self.states()}, {})

    def pad_mask(self):
        return self.case("get_attn_pad_masked", lambda: get_attn_pad_masked,
                         {"seq_q": self.ids(self.length - 2), "seq_k": self.ids()}, {}, loss="none")

    def embedding(self):
        seg = torch.randint(self.c["n_segments"], (self.batch, self.length))
        return self.case("Embedding", lambda: small(Embedding(self.c)), {"x": self.ids(), "seg": seg})

    def attention(self):
        mask = masks(self.batch, self.length, self.length)[:, None]
        return self.case("ScaledDotProductAttention", ScaledDotProductAttention,
                         {"Q": self.heads(self.c["d_k"]), "K": self.heads(self.c["d_k"]),
                          "V": self.heads(self.c["d_v"]), "attn_mask": mask})

    def multi_head(self):
        queries = self.length - 1
        inputs = {"Q": self.states(queries), "K": self.states(), "V": self.states(),
                  "attn_mask": masks(self.batch, queries, self.length)}
        return with_fresh(self.c, self.case(
            "MultiHeadAttention", lambda: MultiHeadAttention(self.c), inputs, loss="weighted_mean",
            loss_of=("output", "attn"), cotangents=self.cotangents(queries)), 1)

    def feed_forward(self):
        return self.case("PoswiseFeedForward", lambda: PoswiseFeedForward(self.c),
                         {"x": self.states()})

    def layer(self):
        mask = masks(self.batch, self.length, self.length)
        return with_fresh(self.c, self.case(
            "EncoderLayer", lambda: EncoderLayer(self.c),
            {"enc_inputs": self.states(), "enc_self_attn_mask": mask}, loss="weighted_mean",
            loss_of=("output", "attn"), cotangents=self.cotangents(self.length)), 1)

    def bert(self, variant="", steps=1):
        c, maxlen = self.c, self.c["maxlen"]
        ids = self.ids(maxlen)
        pos = torch.stack([torch.randperm(maxlen // 2 - 1)[:c["max_pred"]] + 1
                           for _ in range(self.batch)])
        segments = (torch.arange(maxlen) > maxlen // 4).long() * ids.ne(0)
        labels = {"masked_tokens": ids.gather(1, pos), "isNext": torch.arange(self.batch) % 2}
        return with_fresh(c, self.case(
            "BERT", lambda: BERT(c),
            {"input_ids": ids, "segment_ids": segments, "masked_pos": pos}, variant=variant,
            loss="bert_mlm_nsp", loss_of=("logits_lm", "logits_clsf"), labels=labels,
            tied={"decoder.weight": "embedding.tok_embed.weight"}), c["n_layers"], steps)

    def training(self):
        return self.bert("_adam10", ADAM["steps"])


def make_all(folder, cases, seed):
    passes = [cases.gelu, cases.pad_mask, cases.embedding, cases.attention, cases.multi_head,
             cases.feed_forward, cases.layer, cases.bert]
    make_files(folder, passes, [cases.training], seed)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--intended", action="store_true")
    for name, size in SIZES.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=size)
    arguments = parser.parse_args()
    config = {name: getattr(arguments, name) for name in SIZES}
    config["as_written"] = not arguments.intended
    make_all(arguments.folder, Cases(config, arguments.batch), 10000 * arguments.seed)


if __name__ == "__main__":
    main()
