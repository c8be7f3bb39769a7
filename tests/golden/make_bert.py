#!/usr/bin/env python3
"""Makes golden-1 files of BERT's classes with PyTorch, for `brasa check`.

    make_bert.py FOLDER [--seed 1] [--d-model 32] [--n-heads 4] ... [--intended]

The classes are those of the notebook, with its sizes as arguments. `--intended` takes the form in
which the attention's output layer and norm are made once, and a layer ends in norm(x + ffn(x)); the
files' config then has "as_written": false.

Expected values are computed in float64 from the file's float32 values. The tolerance of a tensor is
six times the largest error of float32 runs on this machine, but at least 16 units in the last place
of its largest element.
"""

import argparse
import json
import math
import pathlib

import torch
import torch.nn as nn
from safetensors.torch import save_file

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


# ---- Losses ---------------------------------------------------------------------------------------


def losses_of(case, outputs, tensors):
    """The loss, and its addends where the format wants them."""
    if case["loss"] == "half_mean_square":
        return {"loss": sum((outputs[n] ** 2).mean() / 2 for n in case["loss_of"])}
    if case["loss"] == "weighted_mean":
        return {"loss": sum((outputs[n] * tensors["cotangent/" + n]).mean()
                            for n in case["loss_of"])}
    lm = nn.functional.cross_entropy(outputs["logits_lm"].transpose(1, 2),
                                     tensors["label/masked_tokens"])
    clsf = nn.functional.cross_entropy(outputs["logits_clsf"], tensors["label/isNext"])
    return {"loss": lm + clsf, "loss_lm": lm, "loss_clsf": clsf}


# ---- Drawing --------------------------------------------------------------------------------------


def draw_fresh(c, count, seed):
    """Pairs of layers as their constructors draw them, in order."""
    torch.manual_seed(seed)
    return [(nn.Linear(c["n_heads"] * c["d_v"], c["d_model"]), nn.LayerNorm(c["d_model"]))
            for _ in range(count)]


def fresh_tensors(pairs, prefix):
    return {f"{prefix}{i}/{layer}.{name}": value.detach()
            for i, pair in enumerate(pairs)
            for layer, module in zip(("linear", "layernorm"), pair)
            for name, value in module.state_dict().items()}


def fresh_iterator(pairs, dtype):
    """Copies, so that no run changes another's."""
    for linear, norm in pairs:
        a = nn.Linear(linear.in_features, linear.out_features).to(dtype)
        b = nn.LayerNorm(norm.normalized_shape).to(dtype)
        a.load_state_dict(linear.state_dict())
        b.load_state_dict(norm.state_dict())
        yield a, b


def draw_ids(c, batch, length):
    ids = torch.randint(4, c["vocab_size"], (batch, length))
    for row in range(batch):  # the last row keeps its length
        ids[row, length - (row + 1) * length // (2 * batch):] = 0
    ids[:, 0] = 1
    return ids


def bert_batch(c, batch):
    ids = draw_ids(c, batch, c["maxlen"])
    pos = torch.stack([torch.randperm(c["maxlen"] // 2 - 1)[:c["max_pred"]] + 1
                       for _ in range(batch)])
    segments = (torch.arange(c["maxlen"]) > c["maxlen"] // 4).long() * ids.ne(0)
    inputs = {"input_ids": ids, "segment_ids": segments, "masked_pos": pos}
    labels = {"masked_tokens": ids.gather(1, pos), "isNext": torch.arange(batch) % 2}
    return inputs, labels


def masks(batch, q, k):
    """Keys masked at random; one query of the last row has every key masked."""
    mask = torch.rand(batch, q, k) < 0.25
    mask[-1, 0] = True
    return mask


# ---- One case -------------------------------------------------------------------------------------


def run(case, tensors, dtype):
    """Outputs, losses and gradients in the given precision."""
    cast = {n: t.to(dtype) if t.is_floating_point() else t for n, t in tensors.items()}
    inputs = {n: cast["input/" + n].clone() for n in case["inputs"]}
    for name, value in inputs.items():
        value.requires_grad_(value.is_floating_point())
    module = case["build"]()
    extra = {}
    if case["fresh"]:
        extra["fresh"] = fresh_iterator(case["fresh"], dtype)
    if isinstance(module, nn.Module):
        module.to(dtype)
        module.load_state_dict({n[6:]: t for n, t in cast.items() if n.startswith("param/")})
    outputs = module(**inputs, **extra)
    if isinstance(outputs, torch.Tensor):
        outputs = {"0": outputs}
    results = {"output/" + n: t for n, t in outputs.items()}
    if case["loss"] != "none":
        losses = losses_of(case, outputs, cast)
        results.update(losses)
        losses["loss"].backward()
        if isinstance(module, nn.Module):
            results.update({"grad/" + n: p.grad for n, p in module.named_parameters()
                            if p.grad is not None})
        results.update({"grad_input/" + n: t.grad for n, t in inputs.items()
                        if t.grad is not None})
    return {n: t.detach() for n, t in results.items()}


def tolerances(exact, *approximate):
    tol = {}
    largest = max((t.abs().max().item() for n, t in exact.items() if n.startswith("grad")),
                  default=0)
    for name, want in exact.items():
        if not want.is_floating_point():
            continue
        # The gradient by the keys' bias is zero, but for what larger numbers leave behind.
        size = largest * 4 if name.endswith("W_K.bias") else want.abs().max().item()
        error = max((a[name].double() - want.double()).abs().max().item() for a in approximate)
        tol[name] = float(f"{max(6 * error, 16 * 2.0 ** -24 * size, 1e-12):.2g}")
    return tol


def save(folder, case, tensors, results, tol, **more):
    metadata = {"format": "golden-1", "case": case["name"], "model": case["model"], "mode": "eval",
                "config": json.dumps(case["config"]), "loss": case["loss"], "no_grad": "[]",
                "rtol": "1e-05", "atol": str(max(tol.values(), default=0.0)),
                "tol": json.dumps(tol)}
    if "loss_of" in case:
        metadata["loss_of"] = json.dumps(case["loss_of"])
    metadata.update({n: v if isinstance(v, str) else json.dumps(v) for n, v in more.items()})
    values = {n: (t.float() if t.is_floating_point() else t).contiguous().clone()
              for n, t in {**tensors, **results}.items()}
    save_file(values, folder / f"{case['name']}.safetensors", metadata)


def make(folder, config, seed, name, build, inputs, loss, fresh_layers=0, **more):
    torch.manual_seed(seed)
    case = {"name": "bert." + name, "model": "bert." + name, "config": config, "build": build,
            "inputs": list(inputs), "loss": loss, "fresh": None, **more.pop("case", {})}
    module = build()
    params = module.state_dict() if isinstance(module, nn.Module) else {}
    tensors = {"input/" + n: t for n, t in inputs.items()}
    tensors.update({"param/" + n: t.clone() for n, t in params.items()})
    tensors.update(more.pop("tensors", {}))
    if fresh_layers and config["as_written"]:
        more["fresh_seed"] = seed + 50
        case["fresh"] = draw_fresh(config, fresh_layers, seed + 50)
        tensors.update(fresh_tensors(case["fresh"], "fresh/"))
    exact = run(case, tensors, torch.float64)
    tol = tolerances(exact, run(case, tensors, torch.float32))
    save(folder, case, tensors, exact, tol, **more)


def make_all(folder, c, seed, batch):
    d, heads, n = c["d_model"], c["n_heads"], c["maxlen"] // 2
    torch.manual_seed(seed)
    make(folder, {}, seed, "gelu", lambda: gelu, {"x": torch.randn(batch, n, d)},
         "half_mean_square", case={"loss_of": ["0"]})
    make(folder, {}, seed + 1, "get_attn_pad_masked", lambda: get_attn_pad_masked,
         {"seq_q": draw_ids(c, batch, n - 2), "seq_k": draw_ids(c, batch, n)}, "none")
    make(folder, c, seed + 2, "Embedding", lambda: Embedding(c),
         {"x": draw_ids(c, batch, n), "seg": torch.randint(0, c["n_segments"], (batch, n))},
         "half_mean_square", case={"loss_of": ["0"]})
    make(folder, c, seed + 3, "ScaledDotProductAttention", ScaledDotProductAttention,
         {"Q": torch.randn(batch, heads, n, c["d_k"]), "K": torch.randn(batch, heads, n, c["d_k"]),
          "V": torch.randn(batch, heads, n, c["d_v"]), "attn_mask": masks(batch, n, n)[:, None]},
         "half_mean_square", case={"loss_of": ["context", "attn"]})
    make(folder, c, seed + 4, "MultiHeadAttention", lambda: MultiHeadAttention(c),
         {"Q": torch.randn(batch, n - 1, d), "K": torch.randn(batch, n, d),
          "V": torch.randn(batch, n, d), "attn_mask": masks(batch, n - 1, n)},
         "weighted_mean", 1, case={"loss_of": ["output", "attn"]},
         tensors={"cotangent/output": torch.randn(batch, n - 1, d),
                  "cotangent/attn": torch.randn(batch, heads, n - 1, n)})
    make(folder, c, seed + 5, "PoswiseFeedForward", lambda: PoswiseFeedForward(c),
         {"x": torch.randn(batch, n, d)}, "half_mean_square", case={"loss_of": ["0"]})
    make(folder, c, seed + 6, "EncoderLayer", lambda: EncoderLayer(c),
         {"enc_inputs": torch.randn(batch, n, d), "enc_self_attn_mask": masks(batch, n, n)},
         "weighted_mean", 1, case={"loss_of": ["output", "attn"]},
         tensors={"cotangent/output": torch.randn(batch, n, d),
                  "cotangent/attn": torch.randn(batch, heads, n, n)})
    inputs, labels = bert_batch(c, batch)
    make(folder, c, seed + 7, "BERT", lambda: BERT(c), inputs, "bert_mlm_nsp", c["n_layers"],
         tensors={"label/" + k: v for k, v in labels.items()},
         tied={"decoder.weight": "embedding.tok_embed.weight"})


# ---- Ten steps ------------------------------------------------------------------------------------


def train(c, start, batch, labels, pairs, dtype, options):
    model = BERT(c).to(dtype)
    model.load_state_dict(start)
    adam = torch.optim.Adam(model.parameters(), lr=options["lr"], betas=options["betas"],
                            eps=options["eps"])
    losses = []
    for step in range(options["steps"]):
        adam.zero_grad()
        fresh = fresh_iterator(pairs[step], dtype) if pairs else None
        outputs = model(**batch, fresh=fresh)
        loss = losses_of({"loss": "bert_mlm_nsp"}, outputs,
                         {"label/" + n: t for n, t in labels.items()})["loss"]
        losses.append(loss.item())
        loss.backward()
        adam.step()
    return {"losses": torch.tensor(losses, dtype=torch.float64),
            **{"after/" + n: p.detach() for n, p in model.named_parameters()}}


def make_training(folder, c, seed, batch_size):
    options = {"name": "Adam", "lr": 0.001, "betas": [0.9, 0.999], "eps": 1e-8,
               "weight_decay": 0.0, "amsgrad": False, "steps": 10}
    torch.manual_seed(seed)
    batch, labels = bert_batch(c, batch_size)
    torch.manual_seed(seed)
    start = {n: t.clone() for n, t in BERT(c).state_dict().items()}
    tensors = {"param/" + n: t for n, t in start.items()}
    tensors.update({"batch/" + n: t for n, t in {**batch, **labels}.items()})
    pairs, more = None, {}
    if c["as_written"]:
        layers = c["n_layers"]
        flat = draw_fresh(c, options["steps"] * layers, seed + 50)
        pairs = [flat[i * layers:(i + 1) * layers] for i in range(options["steps"])]
        more["fresh_seed"] = seed + 50
        for step, chosen in enumerate(pairs):
            tensors.update(fresh_tensors(chosen, f"fresh/{step}/"))
    exact = train(c, start, batch, labels, pairs, torch.float64, options)
    tol = tolerances(exact, train(c, start, batch, labels, pairs, torch.float32, options))
    for name in tol:  # a step may differ by what rounding does to a gradient near zero
        tol[name] = max(tol[name], 2e-6)
    case = {"name": "bert.BERT_adam10", "model": "bert.BERT", "config": c, "loss": "bert_mlm_nsp"}
    save(folder, case, tensors, exact, tol, optimizer=options, init={"manual_seed": seed},
         noise=[n[6:] for n in exact if n.endswith("W_K.bias")],
         tied={"decoder.weight": "embedding.tok_embed.weight"}, **more)


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
    arguments.folder.mkdir(parents=True, exist_ok=True)
    make_all(arguments.folder, config, 100 * arguments.seed, arguments.batch)
    make_training(arguments.folder, config, 100 * arguments.seed + 20, arguments.batch)


if __name__ == "__main__":
    main()
