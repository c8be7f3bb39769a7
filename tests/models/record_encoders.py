#!/usr/bin/env python3
"""Writes the models and the expected results of tests/models/test_encoders.c.

    record_encoders.py encoders

For each family there are three folders with random sizes and weights; a folder has the weights of all heads. The results
are those of transformers in double precision: of each head the logits, rounded to f32, and two numbers for the gradients
of all parameters. The loss is the sum of the logits, times cos(0), cos(1), ...; the numbers are the sum of all gradients,
times cos(0), cos(1), ... within each parameter, and the sum of their squares. Requires torch and transformers from PyPI;
written with 5.23.0.
"""
import json
import random
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

BATCH, TOKENS, POSITIONS = 3, 9, 14
PREFIXES = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert",
            "distilbert": "DistilBert", "electra": "Electra", "albert": "Albert", "mpnet": "MPNet", "modernbert": "ModernBert"}
HEADS = ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
MORE = {"bert": ["ForPreTraining", "ForNextSentencePrediction"], "electra": ["ForPreTraining"], "albert": ["ForPreTraining"]}
ACTIVATIONS = ["gelu", "relu", "gelu_new", "silu", "tanh"]


def modernbert_sizes(rng, heads, vocab, pad, act, ffn):
    """Returns sizes with which local layers do not see all tokens."""
    layers = rng.randint(2, 5)
    made = dict(vocab_size=vocab, hidden_size=heads * rng.choice([4, 6]), num_attention_heads=heads, num_hidden_layers=layers,
                intermediate_size=ffn, hidden_activation=act, classifier_activation=rng.choice(ACTIVATIONS), pad_token_id=pad,
                norm_eps=10 ** rng.uniform(-12, -3), local_attention=rng.randint(1, 7), classifier_pooling=rng.choice(["cls", "mean"]),
                global_attn_every_n_layers=rng.randint(2, 3), bos_token_id=2, eos_token_id=2, cls_token_id=2, sep_token_id=2)
    made["rope_parameters"] = {kind: {"rope_type": "default", "rope_theta": 10 ** rng.uniform(1, 5)}
                               for kind in ("full_attention", "sliding_attention")}
    return made | {key: rng.random() < 0.5 for key in ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias", "decoder_bias")}


def sizes(rng, family):
    heads, layers, vocab = rng.randint(1, 3), rng.randint(1, 3), rng.randint(18, 26)
    width, pad = heads * rng.choice([3, 4]) + 3 * (heads == 1), rng.choice([0, 1, 3])
    act, ffn = rng.choice(ACTIVATIONS), rng.randint(5, 14)
    if family == "modernbert":
        return modernbert_sizes(rng, heads, vocab, pad, act, ffn)
    if family == "distilbert":
        return dict(vocab_size=vocab, dim=width, n_heads=heads, n_layers=layers, hidden_dim=ffn, activation=act,
                    max_position_embeddings=POSITIONS, pad_token_id=pad)
    made = dict(vocab_size=vocab, hidden_size=width, num_attention_heads=heads, num_hidden_layers=layers,
                intermediate_size=ffn, hidden_act=act, max_position_embeddings=POSITIONS, pad_token_id=pad,
                layer_norm_eps=10 ** rng.uniform(-12, -3))
    if family != "mpnet":
        made["type_vocab_size"] = rng.randint(2, 3)
    if family in ("electra", "albert"):
        made["embedding_size"] = rng.choice([width, 5, 7])
    if family == "albert":
        made |= dict(num_hidden_layers=rng.randint(2, 5), num_hidden_groups=rng.randint(1, 3),
                     inner_group_num=rng.randint(1, 2))
        made["num_hidden_groups"] = min(made["num_hidden_groups"], made["num_hidden_layers"])
    return made


def randomize(model, generator):
    """Sets weights so that every part affects the result."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_norm = p.dim() == 1 and name.endswith("weight")
            p.normal_(1.0 if is_norm else 0.0, 0.4, generator=generator)


def classes(family):
    return [getattr(transformers, PREFIXES[family] + head) for head in HEADS + MORE.get(family, [])]


def save_model(folder, family, config, generator):
    """Saves the weights of all heads and of one base model, with its pooler."""
    tensors, base = {}, classes(family)[0](config)
    randomize(base, generator)
    for cls in classes(family)[1:]:
        model = cls(type(config)(**(config.to_dict() | {"num_labels": 2})) if "Question" in cls.__name__ else config)
        randomize(model, generator)
        with tempfile.TemporaryDirectory() as name:
            model.save_pretrained(name)
            saved = load_file(Path(name) / "model.safetensors")
        tensors |= {k: v for k, v in saved.items() if not k.startswith(base.base_model_prefix + ".")}
    tensors |= {f"{base.base_model_prefix}.{k}": v for k, v in base.state_dict().items()}
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    save_file({k: v.float().contiguous().clone() for k, v in tensors.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})


def inputs(rng, config, family):
    """Returns random ids with padding at the end of rows, and one padding id within a row."""
    pad = 1 if family == "mpnet" else config.pad_token_id
    lengths = [TOKENS, rng.randint(3, TOKENS - 1), rng.randint(2, TOKENS - 2)]
    ids = [[rng.choice([i for i in range(config.vocab_size) if i != pad]) for _ in range(n)] + [pad] * (TOKENS - n)
           for n in lengths]
    ids[0][4] = pad
    given = {"input_ids": torch.tensor(ids),
             "attention_mask": torch.tensor([[1] * n + [0] * (TOKENS - n) for n in lengths])}
    if hasattr(config, "type_vocab_size"):
        given["token_type_ids"] = torch.tensor([[rng.randrange(config.type_vocab_size) for _ in range(TOKENS)] for _ in lengths])
    return given


def compute_rotations_in_f64():
    """Makes ModernBERT rotate in double precision; transformers does so in single precision, whatever the dtype is."""
    module = transformers.models.modernbert.modeling_modernbert

    def tables(self, x, position_ids, layer_type):
        size = self.config.hidden_size // self.config.num_attention_heads
        pairs = torch.arange(0, size, 2, dtype=torch.float64) / size
        angles = position_ids[..., None].double() / self.config.rope_parameters[layer_type]["rope_theta"] ** pairs
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()

    def rotate(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
        return q * cos + module.rotate_half(q) * sin, k * cos + module.rotate_half(k) * sin

    module.ModernBertRotaryEmbedding.forward, module.apply_rotary_pos_emb = tables, rotate


def weights_of(n):
    return torch.cos(torch.arange(n, dtype=torch.float64))


def run(folder, cls, given):
    labels = {"num_labels": 2} if "Question" in cls.__name__ else {}
    # Only with "sdpa", which is the default, is the context of a query without keys 0, as in Brasa.
    attention = "sdpa" if "ModernBert" in cls.__name__ else "eager"
    model = cls.from_pretrained(folder, dtype=torch.float64, attn_implementation=attention, **labels).eval()
    out = model(**given)
    if hasattr(out, "start_logits"):
        logits = torch.stack([out.start_logits, out.end_logits], -1)
    elif hasattr(out, "prediction_logits"):
        relation = getattr(out, "seq_relationship_logits", getattr(out, "sop_logits", None))
        logits = torch.cat([out.prediction_logits.flatten(), relation.flatten()])
    else:
        logits = out[0]
    (logits.flatten() * weights_of(logits.numel())).sum().backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    sums = [sum((g * weights_of(len(g))).sum() for g in gradients), sum((g * g).sum() for g in gradients)]
    return {cls.__name__: logits.detach().float(), cls.__name__ + ".gradients": torch.stack(sums)}


def main(out):
    expected = {}
    compute_rotations_in_f64()
    for family in PREFIXES:
        rng, generator = random.Random(family), torch.Generator().manual_seed(1)
        for i in range(3):
            # All classifiers of ModernBERT have the same name, so they share their labels.
            labels = 2 if family == "modernbert" else 3
            config = transformers.AutoConfig.for_model(family, **sizes(rng, family), num_labels=labels)
            config.architectures = [PREFIXES[family] + "ForMaskedLM"]
            folder = out / f"{family}{i}"
            save_model(folder, family, config, generator)
            given = inputs(rng, config, family)
            for cls in classes(family):
                given |= run(folder, cls, {k: v for k, v in given.items() if k in ("input_ids", "attention_mask", "token_type_ids")})
            expected |= {f"{family}{i}.{k}": v.contiguous() for k, v in given.items()}
    save_file(expected, out / "expected.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
