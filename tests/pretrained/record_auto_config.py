#!/usr/bin/env python3
"""Writes auto_config_defaults.json: for each model type, the defaults of transformers for keys that a
config.json lacks, and its alternative names of keys.

    record_auto_config.py > auto_config_defaults.json

Requires transformers from PyPI; written with 5.23.0.
"""
import json

from transformers import (AlbertConfig, BertConfig, CamembertConfig, DistilBertConfig, ElectraConfig, Gemma2Config,
                          Gemma3TextConfig, GPT2Config, GPTNeoXConfig, GraniteConfig, LlamaConfig, MistralConfig, ModernBertConfig, MPNetConfig, Phi3Config, Qwen2Config,
                          Qwen3Config, Qwen3MoeConfig, RobertaConfig, SmolLM3Config, T5Config, XLMRobertaConfig)

CONFIGS = (BertConfig, RobertaConfig, XLMRobertaConfig, CamembertConfig, DistilBertConfig, ElectraConfig, AlbertConfig,
           MPNetConfig, ModernBertConfig, GPT2Config, GPTNeoXConfig, T5Config, LlamaConfig, MistralConfig, SmolLM3Config, GraniteConfig, Phi3Config, Qwen2Config,
           Qwen3Config, Qwen3MoeConfig, Gemma2Config, Gemma3TextConfig)

# Keys about the package and a single run; labels, which are read one by one; and the keys that T5's
# constructor derives from feed_forward_proj and tie_word_embeddings, and ModernBERT's from keys of older files.
LEFT_OUT = {
    "transformers_version", "_name_or_path", "model_type", "return_dict", "dtype",
    "id2label", "label2id",
    "dense_act_fn", "is_gated_act", "scale_decoder_outputs",
    "layer_types", "rope_parameters",
}
# Keys of decoders whose default the constructor derives from other keys.
LAYERS, QWEN = {"rope_parameters", "layer_types"}, {"rope_parameters", "layer_types", "sliding_window"}
DERIVED = {"llama": {"rope_parameters", "head_dim"}, "mistral": {"rope_parameters", "head_dim"},
           "smollm3": LAYERS | {"no_rope_layers"}, "granite": {"rope_parameters"}, "qwen2": QWEN, "qwen3": QWEN, "qwen3_moe": {"sliding_window", "mlp_only_layers"}, "gemma2": LAYERS, "gemma3_text": LAYERS | {"_sliding_window_pattern"}}


def record(cls):
    config = cls()
    derived = DERIVED.get(cls.model_type, set())
    values = {k: v for k, v in config.to_dict().items() if k not in LEFT_OUT | derived}
    return {"defaults": dict(sorted({**values, "num_labels": config.num_labels}.items())),
            "spellings": cls.attribute_map}


if __name__ == "__main__":
    print(json.dumps({cls.model_type: record(cls) for cls in CONFIGS}, indent=1))
