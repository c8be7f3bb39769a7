#!/usr/bin/env python3
"""Writes auto_config_defaults.json: what transformers takes for keys that a config.json lacks, and
the names that it has for keys, for each model type.

    record_auto_config.py > auto_config_defaults.json

Wants PyPI's transformers; written with 5.23.0.
"""
import json

from transformers import BertConfig, GPT2Config, T5Config

# Of the package and of one run of it; labels, which are asked for one by one; and what T5's
# constructor makes of feed_forward_proj and tie_word_embeddings.
LEFT_OUT = {
    "transformers_version", "_name_or_path", "model_type", "return_dict", "dtype",
    "id2label", "label2id",
    "dense_act_fn", "is_gated_act", "scale_decoder_outputs",
}


def record(cls):
    config = cls()
    values = {k: v for k, v in config.to_dict().items() if k not in LEFT_OUT}
    return {"defaults": dict(sorted({**values, "num_labels": config.num_labels}.items())),
            "spellings": cls.attribute_map}


print(json.dumps({cls.model_type: record(cls) for cls in (BertConfig, GPT2Config, T5Config)},
                 indent=1))
