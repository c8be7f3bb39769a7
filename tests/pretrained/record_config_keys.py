#!/usr/bin/env python3
"""Writes config_keys.json: for each model type, the keys that transformers writes to a config.json or ignores
when it reads one, each with a value that has no effect.

    record_config_keys.py > config_keys.json

Requires transformers from PyPI; written with 5.23.0.
"""
import json
import tempfile
from pathlib import Path

from transformers import GenerationConfig

from record_auto_config import CONFIGS

# Keys that the recorded models set themselves.
SIZES = {"vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_decoder_layers", "num_heads", "n_embd", "n_head",
         "n_layer", "n_positions", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
         "max_position_embeddings", "relative_attention_num_buckets", "relative_attention_max_distance", "dim", "n_layers",
         "n_heads", "hidden_dim", "embedding_size", "num_hidden_groups", "inner_group_num", "type_vocab_size",
         "layer_types"}
# Ids that are in the vocabularies of the recorded models.
IDS = {"modernbert": {"pad_token_id": 0}}
# Written by transformers 4.
OLD = dict(_name_or_path="x", torch_dtype="float32", gradient_checkpointing=False, pruned_heads={}, torchscript=False,
           use_bfloat16=False, tie_encoder_decoder=False, finetuning_task=None, task_specific_params={},
           tokenizer_class=None, prefix=None, sep_token_id=None, tf_legacy_loss=False, cross_attention_hidden_size=None)


def record(cls):
    with tempfile.TemporaryDirectory() as folder:
        cls(**IDS.get(cls.model_type, {})).save_pretrained(folder)
        written = json.loads((Path(folder) / "config.json").read_text())
    skipped = GenerationConfig._get_default_generation_params()
    return {k: v for k, v in {**OLD, **skipped, **written}.items() if k not in SIZES and v is not None}


print(json.dumps({cls.model_type: record(cls) for cls in CONFIGS}, indent=1, sort_keys=True))
