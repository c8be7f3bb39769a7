#!/usr/bin/env python3
"""Compares models of every family with transformers, in one interleaved run.

For each family transformers writes a folder with random weights of a common size. `brasa bench pretrained`
and transformers load it, each in its own process, and take turns, one step each:

  forward   logits of all tokens of one text
  train     forward, the loss of a language model, backward, AdamW (in PyTorch the fused one)
  prompt    the logits after a prompt, whose keys and values are kept (decoders)
  token     the logits after one more token (decoders)

The values of a step must agree: the mean square of the logits, or the loss. The output is the median time of a
step, and the median of the ratios of neighbouring steps.
"""
import argparse
import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

from turns import Side, read_arguments

TOLERANCE = {"f32": 1e-3, "bf16": 0.1}  # of a value, relatively
TOKENS = 128

# Sizes of well-known models. Decoders that have none of about 100 to 300 million parameters are smaller copies.
BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
SMOL = {"hidden_size": 576, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3,
        "intermediate_size": 1536, "vocab_size": 49152, "tie_word_embeddings": True}
WIDE = {"hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 4,
        "intermediate_size": 3072, "vocab_size": 32000}
ENCODERS = {
    "bert": {},
    "roberta": {"vocab_size": 50265, "max_position_embeddings": 514},
    "xlm-roberta": {"vocab_size": 250002, "max_position_embeddings": 514},
    "camembert": {"vocab_size": 32005, "max_position_embeddings": 514},
    "distilbert": {},
    "electra": {"embedding_size": 768, **BASE},
    "albert": BASE,
    "mpnet": {"vocab_size": 30527, "max_position_embeddings": 514},
    "modernbert": {},
}
DECODERS = {
    "gpt2": {},
    "gpt_neox": {**BASE, "vocab_size": 50304},
    "llama": SMOL,
    "mistral": {**WIDE, "sliding_window": 4096},
    "smollm3": {**SMOL, "pad_token_id": None},
    "granite": {**WIDE, "embedding_multiplier": 12.0, "logits_scaling": 8.0, "residual_multiplier": 0.22,
                "attention_multiplier": 0.015625},
    "phi3": {**WIDE, "pad_token_id": None},
    "qwen2": {"hidden_size": 896, "num_hidden_layers": 12, "num_attention_heads": 14, "num_key_value_heads": 2,
              "intermediate_size": 4864, "tie_word_embeddings": True},
    "qwen3": {"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8,
              "head_dim": 128, "intermediate_size": 3072, "tie_word_embeddings": True},
    "qwen3_moe": {"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2,
                  "head_dim": 64, "num_experts": 32, "num_experts_per_tok": 4, "moe_intermediate_size": 256,
                  "vocab_size": 49152},
    "gemma2": {"hidden_size": 640, "num_hidden_layers": 18, "num_attention_heads": 4, "num_key_value_heads": 1,
               "head_dim": 256, "intermediate_size": 2048},
    "gemma3_text": {"hidden_size": 640, "num_hidden_layers": 18, "num_attention_heads": 4,
                    "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 2048,
                    "sliding_window": 512},
}
ENCODER_DECODERS = {"t5": {}}
FAMILIES = {**ENCODERS, **DECODERS, **ENCODER_DECODERS}


# ---- transformers, in its own process -----------------------------------------------------------

def automatic_class(family):
    import transformers
    if family in ENCODERS:
        return transformers.AutoModelForMaskedLM
    return transformers.AutoModelForCausalLM if family in DECODERS else transformers.AutoModelForSeq2SeqLM


def write_folder(args):
    import torch
    import transformers
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(args.family, **FAMILIES[args.family])
    model = automatic_class(args.family).from_config(config)
    model.save_pretrained(args.folder)
    print(sum(p.numel() for p in model.parameters()))


def mean_square(logits):
    return logits.double().square().mean().item()


def make_step(args):
    """Returns a function that runs one step and returns its value."""
    import torch
    import transformers
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[args.dtype]
    model = automatic_class(args.family).from_pretrained(args.folder, dtype=dtype).eval()
    ids = (torch.arange(args.tokens) * 104729 % model.config.vocab_size)[None]
    decoder = {"decoder_input_ids": ids} if args.family in ENCODER_DECODERS else {}
    optimizer = torch.optim.AdamW(model.parameters(), fused=True) if args.entry == "train" else None
    cached = None

    def loss():
        if args.family not in DECODERS:
            logits = model(input_ids=ids, **decoder).logits
            return torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten())
        return model(input_ids=ids, labels=ids).loss

    def train():
        optimizer.zero_grad()
        result = loss()
        result.backward()
        optimizer.step()
        return result.item()

    def prompt():
        return model(input_ids=ids, use_cache=True, logits_to_keep=1)

    def token():
        nonlocal cached
        cached = cached or prompt().past_key_values
        value = mean_square(model(input_ids=ids[:, :1], past_key_values=cached, use_cache=True).logits)
        cached.crop(-1)
        return value

    steps = {"forward": lambda: mean_square(model(input_ids=ids, **decoder).logits), "train": train,
             "prompt": lambda: mean_square(prompt().logits), "token": token}
    grad = contextlib.nullcontext if args.entry == "train" else torch.inference_mode

    def step():
        with grad():
            return steps[args.entry]()
    return step


def serve(args):
    if args.serve == "write":
        write_folder(args)
        return
    step = make_step(args)
    for _ in sys.stdin:
        start = time.perf_counter()
        value = step()
        print(f"{value:.9g} {(time.perf_counter() - start) * 1e3:.6f}", flush=True)


# ---- The comparison -----------------------------------------------------------------------------

def command_of(side, args, family, entry, folder):
    if side == "brasa":
        return [args.brasa, "bench", "pretrained", "--serve", "--filter", entry, "--model", folder, "--dtype",
                args.dtype, "--tokens", str(args.tokens), "--threads", str(args.threads)]
    return [sys.executable, __file__, "--serve", side, "--family", family, "--entry", entry, "--folder", folder,
            "--dtype", args.dtype, "--tokens", str(args.tokens), "--threads", str(args.threads)]


def compare(args, family, entry, folder):
    """Returns Brasa's median time in ms, the median ratio, and Brasa's peak memory in MiB."""
    ours, theirs = (Side(side, command_of(side, args, family, entry, folder), args.threads)
                    for side in ["brasa", "transformers"])
    mine, ratios = [], []
    for i in range(args.warmup + args.steps):
        value, ms, peak = ours.ask()
        his_value, his_ms = theirs.ask()
        if not abs(value - his_value) <= TOLERANCE[args.dtype] * abs(his_value):
            sys.exit(f"{family}, {entry}: step {i} gives {value}, transformers {his_value}")
        if i >= args.warmup:
            mine.append(ms)
            ratios.append(his_ms / ms)
    ours.close()
    theirs.close()
    return {"ms": statistics.median(mine), "ratio": statistics.median(ratios), "peak_mib": peak}


def entries_of(args, family):
    entries = ["forward", "train"] + (["prompt", "token"] if family in DECODERS else [])
    return [e for e in entries if not args.entry or e == args.entry]


def compare_family(args, family):
    with tempfile.TemporaryDirectory() as folder:
        writer = Side("writer", [sys.executable, __file__, "--serve", "write", "--family", family,
                                 "--folder", folder], args.threads)
        parameters = writer.ask()[0]
        writer.close()
        for entry in entries_of(args, family):
            row = {"family": family, "entry": entry, "dtype": args.dtype, "tokens": args.tokens,
                   "threads": args.threads, "parameters": int(parameters),
                   **compare(args, family, entry, folder), "load": os.getloadavg()[0]}
            if args.json:
                print(json.dumps(row), flush=True)
            else:
                print(f"{family:12} {parameters / 1e6:6.1f}M {entry:8} {row['ms']:9.2f} ms, {row['ratio']:5.2f} times as "
                      f"fast as transformers, peak {row['peak_mib']:.0f} MiB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=FAMILIES, help="the model_type (all)")
    parser.add_argument("--entry", choices=["forward", "train", "prompt", "token"], help="what is measured (all)")
    parser.add_argument("--dtype", choices=TOLERANCE, default="f32", help="dtype of the parameters (f32)")
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"tokens of the text ({TOKENS})")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--steps", type=int, default=7, help="measured steps of each (7)")
    parser.add_argument("--warmup", type=int, default=2, help="steps before the measured ones (2)")
    parser.add_argument("--brasa", default="build/brasa", help="path of the command (build/brasa)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    args = read_arguments(parser)
    if args.serve:
        serve(args)
        return
    for family in [args.family] if args.family else FAMILIES:
        compare_family(args, family)


if __name__ == "__main__":
    main()
