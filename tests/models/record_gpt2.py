#!/usr/bin/env python3
"""Writes the expected results of tests/models/test_gpt2.c and test_generate.c.

    record_gpt2.py gpt2      two tiny models with random weights, and their results

Results are those of transformers in double precision, rounded to f32; tokens are those of its
generate() in f32. Requires torch and transformers from PyPI; written with 5.24.0.
"""
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

# Three texts; the second and third are padded at the end, for generate() at the beginning.
IDS = [[2, 17, 5, 9, 3, 11, 30, 8, 3], [2, 6, 24, 3, 39, 3, 0, 0, 0], [2, 12, 3, 0, 0, 0, 0, 0, 0]]
LENGTHS = [9, 6, 3]
EOS, PAD = 17, 0
SIZES = dict(vocab_size=40, n_positions=24, n_embd=16, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=EOS,
             embd_pdrop=0.0, attn_pdrop=0.0, resid_pdrop=0.0)


def randomize(model):
    """Sets weights so that every part affects the result."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(1.0 if "ln_" in name and name.endswith("weight") else 0.0, 0.25)


def save(path, tensors):
    save_file({k: v.float().contiguous() if v.is_floating_point() else v.contiguous()
               for k, v in tensors.items()}, path)


def open_model(folder, dtype=torch.float64):
    return GPT2LMHeadModel.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


def numbers(model):
    ids = torch.tensor(IDS)
    mask = torch.tensor([[1] * n + [0] * (9 - n) for n in LENGTHS])
    given = dict(input_ids=ids, attention_mask=mask)
    labels = torch.where(mask.bool(), ids, -100)
    out = model(**given, labels=labels, output_hidden_states=True, output_attentions=True)
    out.loss.backward()
    result = {**given, "labels": labels, "logits": out.logits.detach(), "loss": out.loss.detach(),
              "hidden_states": torch.stack(out.hidden_states).detach(),
              "attentions": torch.stack(out.attentions).detach()}
    for name, p in model.named_parameters():
        result["grad." + name] = p.grad
    positions = torch.arange(9).flip(0)[None]
    with torch.no_grad():
        result["placed_logits"] = model(ids, position_ids=positions, token_type_ids=ids.flip(0)).logits
    return result


def left_padded():
    rows = [[PAD] * (9 - n) + row[:n] for row, n in zip(IDS, LENGTHS)]
    return torch.tensor(rows), torch.tensor([[0] * (9 - n) + [1] * n for n in LENGTHS])


def generated(model):
    ids, mask = left_padded()
    plain = dict(attention_mask=mask, max_new_tokens=12, pad_token_id=PAD)
    ways = {
        "greedy": dict(do_sample=False),
        "penalized": dict(do_sample=False, repetition_penalty=1.7, eos_token_id=None),
        "late": dict(do_sample=False, min_new_tokens=4, eos_token_id=[23, 9]),
        "sampled": dict(do_sample=True, top_k=0),
        "warm": dict(do_sample=True, top_k=0, temperature=2.5),
        "top_k": dict(do_sample=True, top_k=3, temperature=1.5),
        "top_p": dict(do_sample=True, top_k=0, top_p=0.6),
        "all": dict(do_sample=True, top_k=6, top_p=0.8, temperature=3.0, repetition_penalty=1.3),
        "pairs": dict(do_sample=False, no_repeat_ngram_size=2),
        "triples": dict(do_sample=False, no_repeat_ngram_size=3, eos_token_id=None),
        "min_p": dict(do_sample=True, top_k=0, min_p=0.3, temperature=2.0),
        "suppressed": dict(do_sample=False, suppress_tokens=[0, 9, 39]),
    }
    result = {"left_ids": ids, "left_mask": mask}
    for name, options in ways.items():
        torch.manual_seed(7)
        result[name] = model.generate(ids, **{**plain, **options})
    return result


def main():
    out = Path(sys.argv[1])
    forms = dict(tie_word_embeddings=False, scale_attn_by_inverse_layer_idx=True, n_inner=20,
                 activation_function="relu", layer_norm_epsilon=1e-3)
    for name, more in {"lm": {}, "forms": forms}.items():
        model = GPT2LMHeadModel(GPT2Config(**SIZES, **more))
        randomize(model)
        model.save_pretrained(out / name)
        (out / name / "generation_config.json").unlink()
    with torch.no_grad():
        forms = open_model(out / "forms")(torch.tensor(IDS)).logits
    save(out / "expected.safetensors", {
        **numbers(open_model(out / "lm")), **generated(open_model(out / "lm", torch.float32)),
        "forms_logits": forms})


if __name__ == "__main__":
    main()
