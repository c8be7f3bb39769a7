#!/usr/bin/env python3
"""Brasa and PyTorch side by side, from one interleaved run.

Both run as processes of their own, with the same model, sizes, seed, batch and threads. They take
turns, one step each; before any figure is printed their first losses must agree. Printed are the
median and least time of a step, the median of the ratios of neighbouring steps, and peak memory.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys

MODELS = ["bert-scratch", "bert-scratch-as-written", "encoder-decoder",
          "encoder-decoder-as-written", "attention-2048", "attention-2048-causal",
          "attention-8192"]
NO_DROPOUT = ["encoder-decoder", "encoder-decoder-as-written"]  # train in evaluation mode
PHASES = ["train", "forward"]


# ---- PyTorch's side, in a process of its own ---------------------------------------------------

def bert(as_written):
    import torch
    from torch import nn

    d_model, heads, layers, d_ff, maxlen, vocab = 768, 12, 6, 3072, 100, 70
    d_k = d_model // heads

    def gelu(x):
        return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))

    class Embedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok_embed = nn.Embedding(vocab, d_model)
            self.pos_embed = nn.Embedding(maxlen, d_model)
            self.seg_embed = nn.Embedding(2, d_model)
            self.norm = nn.LayerNorm(d_model)

        def forward(self, x, seg):
            pos = torch.arange(x.size(1)).unsqueeze(0).expand_as(x)
            return self.norm(self.tok_embed(x) + self.pos_embed(pos) + self.seg_embed(seg))

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.W_Q = nn.Linear(d_model, d_model)
            self.W_K = nn.Linear(d_model, d_model)
            self.W_V = nn.Linear(d_model, d_model)
            if not as_written:
                self.linear = nn.Linear(d_model, d_model)
                self.norm = nn.LayerNorm(d_model)

        def forward(self, x, mask):
            def heads_of(t):
                return t.view(x.size(0), -1, heads, d_k).transpose(1, 2)
            q, k, v = heads_of(self.W_Q(x)), heads_of(self.W_K(x)), heads_of(self.W_V(x))
            scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(d_k)
            scores.masked_fill_(mask.unsqueeze(1).repeat(1, heads, 1, 1), -1e9)
            context = torch.matmul(torch.softmax(scores, -1), v)
            context = context.transpose(1, 2).contiguous().view(x.size(0), -1, d_model)
            linear = nn.Linear(d_model, d_model) if as_written else self.linear
            norm = nn.LayerNorm(d_model) if as_written else self.norm
            return norm(linear(context) + x)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.enc_self_attn = Attention()
            self.fc1 = nn.Linear(d_model, d_ff)
            self.fc2 = nn.Linear(d_ff, d_model)
            if not as_written:
                self.norm = nn.LayerNorm(d_model)

        def forward(self, x, mask):
            x = self.enc_self_attn(x, mask)
            y = self.fc2(gelu(self.fc1(x)))
            return y if as_written else self.norm(x + y)

    class BERT(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = Embedding()
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])
            self.fc = nn.Linear(d_model, d_model)
            self.linear = nn.Linear(d_model, d_model)
            self.norm = nn.LayerNorm(d_model)
            self.classifier = nn.Linear(d_model, 2)
            self.decoder = nn.Linear(d_model, vocab, bias=False)
            self.decoder.weight = self.embedding.tok_embed.weight
            self.decoder_bias = nn.Parameter(torch.zeros(vocab))

        def forward(self, ids, segments, positions):
            x = self.embedding(ids, segments)
            mask = ids.eq(0).unsqueeze(1).expand(-1, ids.size(1), -1)
            for layer in self.layers:
                x = layer(x, mask)
            pooled = torch.tanh(self.fc(x[:, 0]))
            chosen = torch.gather(x, 1, positions[:, :, None].expand(-1, -1, x.size(-1)))
            chosen = self.norm(gelu(self.linear(chosen)))
            return self.decoder(chosen) + self.decoder_bias, self.classifier(pooled)

    words = 40
    ids = torch.zeros(6, 100, dtype=torch.long)
    segments = torch.zeros_like(ids)
    for b in range(6):
        for s in range(words):
            ids[b, s] = 4 + (b * 31 + s * 7) % 66
            segments[b, s] = int(s >= words // 2)
    tokens = torch.tensor([[4 + (b * 3 + p * 5) % 66 for p in range(7)] for b in range(6)])
    positions = torch.tensor([[1 + 5 * p for p in range(7)] for _ in range(6)])
    following = torch.tensor([b % 2 for b in range(6)])
    criterion = nn.CrossEntropyLoss()

    def loss(model):
        lm, clsf = model(ids, segments, positions)
        return criterion(lm.transpose(1, 2), tokens) + criterion(clsf, following)

    return BERT, loss


def encoder_decoder(as_written):
    import torch
    from torch import nn

    d_model, heads, layers, d_ff, max_positions, vocab, dropout = 512, 8, 6, 2048, 512, 100, 0.1

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Linear(d_model, d_model)
            self.k = nn.Linear(d_model, d_model)
            self.v = nn.Linear(d_model, d_model)
            self.output_linear = nn.Linear(d_model, d_model)
            self.dropout = nn.Dropout(dropout)

        def forward(self, query, key, mask=None):
            def heads_of(t):
                return t.view(t.size(0), -1, heads, d_model // heads).transpose(1, 2)
            q, k, v = heads_of(self.q(query)), heads_of(self.k(key)), heads_of(self.v(key))
            scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(d_model // heads)
            if mask is not None:
                scores = scores.masked_fill(mask.unsqueeze(1) == 0, float("-inf"))
            x = torch.matmul(self.dropout(torch.softmax(scores, -1)), v)
            x = x.transpose(1, 2).contiguous().view(x.size(0), -1, d_model)
            return self.output_linear(x)

    class FeedForward(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear_1 = nn.Linear(d_model, d_ff)
            self.linear_2 = nn.Linear(d_ff, d_model)
            self.dropout = nn.Dropout(dropout)

        def forward(self, x):
            return self.dropout(self.linear_2(torch.relu(self.linear_1(x))))

    class EncoderBlock(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer_norm_1 = nn.LayerNorm(d_model)
            self.layer_norm_2 = nn.LayerNorm(d_model)
            self.attention = Attention()
            self.feed_forward = FeedForward()
            self.dropout = nn.Dropout(dropout)

        def forward(self, x):
            hidden = self.layer_norm_1(x)
            attention_output = self.attention(hidden, hidden)
            x = self.layer_norm_2(x + self.dropout(x if as_written else attention_output))
            return self.dropout(x + self.feed_forward(x))

    class DecoderBlock(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer_norm_1 = nn.LayerNorm(d_model)
            self.layer_norm_2 = nn.LayerNorm(d_model)
            self.layer_norm_3 = nn.LayerNorm(d_model)
            self.attn_1 = Attention()
            self.attn_2 = Attention()
            self.feed_forward = FeedForward()
            self.dropout = nn.Dropout(dropout)

        def forward(self, x, encoder_output, source_mask, target_mask):
            hidden = self.layer_norm_1(x)
            x = self.layer_norm_2(x + self.dropout(self.attn_1(hidden, hidden, target_mask)))
            x = self.layer_norm_3(x + self.dropout(self.attn_2(x, encoder_output, source_mask)))
            return x + self.dropout(self.feed_forward(x))

    class Stack(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.token_embeddings = nn.Embedding(vocab, d_model)
            self.position_embeddings = nn.Embedding(max_positions, d_model)
            self.layer_norm = nn.LayerNorm(d_model, eps=1e-12)
            self.dropout = nn.Dropout()
            self.layers = nn.ModuleList([block() for _ in range(layers)])

        def forward(self, ids, *arguments):
            positions = self.position_embeddings(torch.arange(ids.size(1)).unsqueeze(0))
            x = self.dropout(self.layer_norm(self.token_embeddings(ids) + positions))
            for layer in self.layers:
                x = layer(x, *arguments)
            return x

    class EncoderDecoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = Stack(EncoderBlock)
            self.decoder = Stack(DecoderBlock)
            self.fc = nn.Linear(d_model, vocab)

        def forward(self, source, target, source_mask, target_mask):
            encoder_output = self.encoder(source)
            return self.fc(self.decoder(target, encoder_output, source_mask, target_mask))

    batch, length = 64, 10
    source = torch.tensor([[1 if s == 0 else 1 + (b * 31 + s * 7) % 99 for s in range(length)]
                           for b in range(batch)])
    target, target_y = source[:, :-1], source[:, 1:].flatten()
    source_mask = (source != 0).unsqueeze(-2)
    target_mask = torch.ones(length - 1, length - 1).tril().expand(batch, -1, -1)
    criterion = nn.CrossEntropyLoss()

    def loss(model):
        return criterion(model(source, target, source_mask, target_mask).flatten(0, 1), target_y)

    return EncoderDecoder, loss


def attention(name):
    """Attention alone: its three inputs are the parameters, and there is no optimizer."""
    import torch
    from torch import nn

    length, causal = int(name.split("-")[1]), name.endswith("causal")

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (
                nn.Parameter(torch.randn(1, 12, length, 64)) for _ in range(3))

    def loss(model):
        out = nn.functional.scaled_dot_product_attention(model.query, model.key, model.value,
                                                         is_causal=causal)
        return (out * out).sum()

    return Attention, loss


def model_of(name):
    if name.startswith("attention"):
        return attention(name)
    family = bert if name.startswith("bert") else encoder_decoder
    return family(as_written=name.endswith("as-written"))


def serve_torch(name, phase, threads):
    import resource
    import time
    import torch

    torch.set_num_threads(threads)
    make, loss_of = model_of(name)
    torch.manual_seed(0)
    model = make()
    model.train(phase == "train" and name not in NO_DROPOUT)
    optimizer = None if name.startswith("attention") else torch.optim.Adam(model.parameters())

    def train():
        model.zero_grad()
        loss = loss_of(model)
        loss.backward()
        if optimizer:
            optimizer.step()
        return loss.item()

    def forward():
        with torch.no_grad():
            return loss_of(model).item()

    step = train if phase == "train" else forward
    for _ in sys.stdin:
        start = time.perf_counter()
        loss = step()
        ms = (time.perf_counter() - start) * 1e3
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{loss:.9g} {ms:.6f} {peak:.1f}", flush=True)


# ---- The comparison ----------------------------------------------------------------------------

class Rival:
    """A process that does one step a line."""

    def __init__(self, label, command, threads):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads))
        self.label = label
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=env)
        self.ms, self.losses, self.peak = [], [], 0.0

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.label} ended: exit status {self.process.wait()}")
        loss, ms, self.peak = map(float, line.split())
        self.losses.append(loss)
        self.ms.append(ms)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(name, phase, args):
    ours = Rival("brasa", [args.brasa, "bench", "models", "--serve", "--filter", f"{name}/{phase}",
                           "--threads", str(args.threads)], args.threads)
    theirs = Rival("torch", [sys.executable, __file__, "--serve", name, phase, "--threads",
                             str(args.threads)], args.threads)
    for i in range(args.warmup + args.steps):
        ours.step()
        theirs.step()
        a, b = ours.losses[i], theirs.losses[i]
        # Later steps of a trained model drift apart by rounding; the first must not.
        if i == 0 and not abs(a - b) <= args.tolerance * abs(b):
            sys.exit(f"{name}/{phase}: first losses {a} and {b} differ")
    ours.close()
    theirs.close()
    mine, his = ours.ms[args.warmup:], theirs.ms[args.warmup:]
    return {
        "name": name, "phase": phase, "threads": args.threads, "loss": ours.losses[0],
        "brasa_ms": statistics.median(mine), "brasa_min_ms": min(mine),
        "brasa_mib": ours.peak, "torch_ms": statistics.median(his), "torch_min_ms": min(his),
        "torch_mib": theirs.peak,
        "speedup": statistics.median(t / m for m, t in zip(mine, his)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=15, help="counted steps of each (15)")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them (3)")
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--phase", choices=PHASES, action="append")
    parser.add_argument("--brasa", default="build/brasa", help="the command (build/brasa)")
    parser.add_argument("--tolerance", type=float, default=1e-5,
                        help="relative difference of first losses that is accepted (1e-5)")
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument("--serve", nargs=2, metavar=("MODEL", "PHASE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve_torch(*args.serve, args.threads)
        return
    for name in args.model or MODELS:
        for phase in args.phase or PHASES:
            row = compare(name, phase, args)
            if args.json:
                print(json.dumps(row), flush=True)
                continue
            print(f"{row['name']}, {phase}, {args.threads} threads: "
                  f"Brasa {row['brasa_ms']:.1f} ms (least {row['brasa_min_ms']:.1f}), "
                  f"{row['brasa_mib']:.0f} MiB; "
                  f"PyTorch {row['torch_ms']:.1f} ms (least {row['torch_min_ms']:.1f}), "
                  f"{row['torch_mib']:.0f} MiB; {row['speedup']:.2f} times as fast; "
                  f"first loss {row['loss']:.6f}", flush=True)


if __name__ == "__main__":
    main()
