#!/usr/bin/env python3
"""Writes config_cases.tsv: every key of the config.json of a BERT, its relatives, a ModernBERT, a GPT-2, a GPT-NeoX, a T5, a
Llama and its relatives, with a value other than its default, and what must happen.

    record_config_cases.py write [TYPE...]     writes the file; with types, replaces only their rows
    record_config_cases.py check               fails if the file differs from what this version of transformers gives

The columns are the model type, the key, the value, what happens, and what test_config_keys.c compares with:
  changed   the number of parameters and a sum of the logits, which differ from those without the key
  same      the same numbers, because the key has no effect on them
  field     nothing: the model's configuration has the value, but not in evaluation mode
  class     the class of the model that is loaded
  refused   a part of the message
  ignored   the numbers without the key: transformers refuses null, but Brasa does not read the key
The numbers are those of transformers, in double precision, with the weights of weight(). Requires torch and transformers
from PyPI; written with 5.24.0.
"""
import json
import math
import sys
import tempfile
from pathlib import Path

import torch
from transformers import (AlbertConfig, AlbertForMaskedLM, BertConfig, BertForPreTraining, DistilBertConfig,
                          DistilBertForMaskedLM, ElectraConfig, ElectraForMaskedLM, Gemma2Config, Gemma2ForCausalLM,
                          Gemma3ForCausalLM, Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, GPTNeoXConfig, GPTNeoXForCausalLM, GraniteConfig,
                          GraniteForCausalLM, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM, ModernBertConfig, ModernBertForMaskedLM, MPNetConfig,
                          MPNetForMaskedLM, Phi3Config, Phi3ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
                          Qwen3MoeConfig, Qwen3MoeForCausalLM, RobertaConfig,
                          RobertaForMaskedLM, SmolLM3Config, SmolLM3ForCausalLM, T5Config, T5ForConditionalGeneration)
from transformers.utils import logging

CASES = Path(__file__).resolve().parent / "config_cases.tsv"
IDS = [3, 17, 5, 9, 4, 11, 2, 8]
SIZES = dict(vocab_size=20, hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=10,
             max_position_embeddings=16, dtype="float32")
DECODER_SIZES = SIZES | dict(num_key_value_heads=1, bos_token_id=1, eos_token_id=2, pad_token_id=0)
WINDOW = dict(use_sliding_window=True, sliding_window=3, max_window_layers=1)
GEMMA_SIZES = DECODER_SIZES | dict(head_dim=6, sliding_window=4)
CLASSES = {
    "bert": (BertConfig, BertForPreTraining, SIZES),
    "roberta": (RobertaConfig, RobertaForMaskedLM, SIZES),
    "distilbert": (DistilBertConfig, DistilBertForMaskedLM,
                   dict(vocab_size=20, dim=12, n_layers=2, n_heads=2, hidden_dim=10, max_position_embeddings=16,
                        dtype="float32")),
    "electra": (ElectraConfig, ElectraForMaskedLM, SIZES | dict(embedding_size=8)),
    "albert": (AlbertConfig, AlbertForMaskedLM, SIZES | dict(embedding_size=8, num_hidden_groups=2)),
    "mpnet": (MPNetConfig, MPNetForMaskedLM, SIZES),
    "modernbert": (ModernBertConfig, ModernBertForMaskedLM,
                   dict(vocab_size=20, hidden_size=12, num_hidden_layers=3, num_attention_heads=2, intermediate_size=10,
                        local_attention=4, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
                        dtype="float32")),
    "gpt2": (GPT2Config, GPT2LMHeadModel,
             dict(vocab_size=20, n_positions=16, n_embd=12, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2, dtype="float32")),
    "gpt_neox": (GPTNeoXConfig, GPTNeoXForCausalLM,
                 SIZES | dict(hidden_size=16, bos_token_id=1, eos_token_id=2)),
    "t5": (T5Config, T5ForConditionalGeneration,
           dict(vocab_size=20, d_model=12, d_kv=6, d_ff=10, num_layers=2, num_decoder_layers=2, num_heads=2,
                relative_attention_num_buckets=8, relative_attention_max_distance=12, dtype="float32")),
    "llama": (LlamaConfig, LlamaForCausalLM, DECODER_SIZES),
    "mistral": (MistralConfig, MistralForCausalLM, DECODER_SIZES | dict(sliding_window=4)),
    "smollm3": (SmolLM3Config, SmolLM3ForCausalLM,
                DECODER_SIZES | dict(use_sliding_window=True, sliding_window=3, no_rope_layer_interval=2)),
    "granite": (GraniteConfig, GraniteForCausalLM, DECODER_SIZES),
    "phi3": (Phi3Config, Phi3ForCausalLM,
             DECODER_SIZES | dict(rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.35})),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, DECODER_SIZES | WINDOW),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, DECODER_SIZES | WINDOW | dict(head_dim=6)),
    "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM,
                  DECODER_SIZES | dict(head_dim=6, use_sliding_window=True, sliding_window=3, moe_intermediate_size=4, num_experts=3,
                                       num_experts_per_tok=2, num_hidden_layers=4, decoder_sparse_step=2)),
    "gemma2": (Gemma2Config, Gemma2ForCausalLM, GEMMA_SIZES),
    "gemma3_text": (Gemma3TextConfig, Gemma3ForCausalLM,
                    GEMMA_SIZES | dict(layer_types=["sliding_attention", "full_attention"])),
}
DECODERS = ("llama", "mistral", "smollm3", "granite", "phi3", "qwen2", "qwen3", "qwen3_moe", "gemma2", "gemma3_text")
NAMED = ("bert", "modernbert", "gpt2", "gpt_neox", "t5") + DECODERS  # modules have the names of files
NOT_RUN = {"return_dict"}  # some models of transformers need its default
# The keys of every model type.
COMMON = {
    "_name_or_path": ("x", "same"),
    "transformers_version": ("4.20.0", "same"),
    "dtype": ("float16", "same"),
    "return_dict": (False, "same"),
    "output_hidden_states": (True, "same"),
    "output_attentions": (True, "same"),
    "chunk_size_feed_forward": (4, "same"),
    "problem_type": ("regression", "same"),
    "id2label": ({"0": "a", "1": "b", "2": "c"}, "field"),
    "label2id": ({"a": 0, "b": 1, "c": 2}, "same"),
    "use_cache": (False, "same"),
    "tie_word_embeddings": (False, "changed"),
    "model_type": ("mamba", "refused"),
    "vocab_size": (23, "changed"),
}
ENCODER = {
    "is_encoder_decoder": (True, "refused"),
    "hidden_size": (16, "changed"),
    "num_hidden_layers": (3, "changed"),
    "num_attention_heads": (3, "changed"),
    "intermediate_size": (14, "changed"),
    "hidden_act": ("relu", "changed"),
    "hidden_dropout_prob": (0.3, "field"),
    "attention_probs_dropout_prob": (0.3, "field"),
    "max_position_embeddings": (12, "changed"),
    "initializer_range": (0.5, "field"),
    "layer_norm_eps": (0.1, "changed"),
    "bos_token_id": (4, "same"),
    "eos_token_id": (4, "same"),
}
BERT = ENCODER | {
    "classifier_dropout": (0.3, "field"),
    "type_vocab_size": (3, "changed"),
    "pad_token_id": (4, "field"),
    "is_decoder": (True, "refused"),
    "add_cross_attention": (True, "refused"),
}
DECODER = {
    "is_encoder_decoder": (True, "refused"),
    "hidden_size": (16, "changed"),
    "num_hidden_layers": (3, "changed"),
    "num_attention_heads": (1, "changed"),
    "num_key_value_heads": (2, "changed"),
    "intermediate_size": (14, "changed"),
    "hidden_act": ("relu", "changed"),
    "attention_dropout": (0.3, "field"),
    "max_position_embeddings": (12, "same"),
    "initializer_range": (0.5, "field"),
    "rms_norm_eps": (0.1, "changed"),
    "rope_parameters": ({"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0}, "changed"),
    "bos_token_id": (4, "same"),
    "eos_token_id": (4, "same"),
    "pad_token_id": (4, "field"),
}
UNTIED = DECODER | {"tie_word_embeddings": (True, "changed")}
BIASES = {"attention_bias": (True, "changed"), "mlp_bias": (True, "changed")}
WINDOWS = {"use_sliding_window": (False, "refused"), "sliding_window": (5, "changed"), "max_window_layers": (2, "same"),
           "layer_types": (["sliding_attention", "full_attention"], "changed")}
GEMMA = {k: v for k, v in DECODER.items() if k != "hidden_act"} | {
    "head_dim": (4, "changed"),
    "hidden_activation": ("relu", "changed"),
    "attention_bias": (True, "changed"),
    "query_pre_attn_scalar": (4, "changed"),
    "sliding_window": (2, "changed"),
    "final_logit_softcapping": (0.5, "changed"),
    "use_bidirectional_attention": (True, "refused"),
}
for keys in (WINDOWS, GEMMA):
    keys["num_hidden_layers"] = (3, "refused")  # layer_types is in the file
TWO_ROPES = {"sliding_attention": {"rope_type": "default", "rope_theta": 30.0},
             "full_attention": {"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0}}
KEYS = {
    "llama": UNTIED | BIASES | {
        "architectures": (["LlamaModel"], "class"),
        "head_dim": (4, "changed"),
        "pretraining_tp": (2, "same"),
    },
    "mistral": UNTIED | {
        "architectures": (["MistralModel"], "class"),
        "head_dim": (4, "changed"),
        "sliding_window": (2, "changed"),
    },
    "smollm3": DECODER | BIASES | {
        "num_hidden_layers": (3, "refused"),  # no_rope_layers is in the file
        "architectures": (["SmolLM3Model"], "class"),
        "use_sliding_window": (False, "same"),  # layer_types is in the file
        "sliding_window": (5, "changed"),
        "no_rope_layer_interval": (3, "same"),  # no_rope_layers is in the file
        "no_rope_layers": ([0, 0], "changed"),
        "layer_types": (["sliding_attention", "full_attention"], "changed"),
    },
    "granite": UNTIED | BIASES | {
        "architectures": (["GraniteModel"], "class"),
        "attention_multiplier": (0.5, "changed"),
        "embedding_multiplier": (2.5, "changed"),
        "residual_multiplier": (0.3, "changed"),
        "logits_scaling": (4.0, "changed"),
    },
    "phi3": UNTIED | {
        "architectures": (["Phi3Model"], "class"),
        "sliding_window": (2, "changed"),
        "original_max_position_embeddings": (12, "same"),
        "rope_parameters": ({"rope_type": "longrope", "rope_theta": 100.0, "partial_rotary_factor": 0.7,
                             "short_factor": [1.5, 2], "long_factor": [3.0, 4.0], "attention_factor": 1.3}, "changed"),
        "resid_pdrop": (0.3, "field"),
        "embd_pdrop": (0.3, "same"),
    },
    "qwen2": UNTIED | WINDOWS | {"architectures": (["Qwen2Model"], "class")},
    "qwen3": UNTIED | WINDOWS | {"architectures": (["Qwen3Model"], "class"), "attention_bias": (True, "changed"),
                                  "head_dim": (4, "changed")},
    "qwen3_moe": UNTIED | {
        "architectures": (["Qwen3MoeModel"], "class"),
        "head_dim": (4, "changed"),
        "attention_bias": (True, "changed"),
        "use_sliding_window": (False, "changed"),
        "sliding_window": (5, "changed"),
        "decoder_sparse_step": (1, "changed"),
        "mlp_only_layers": ([1], "changed"),
        "moe_intermediate_size": (5, "changed"),
        "num_local_experts": (4, "changed"),
        "num_experts_per_tok": (1, "changed"),
        "norm_topk_prob": (True, "changed"),
        "output_router_logits": (True, "field"),
        "router_aux_loss_coef": (0.3, "field"),
    },
    "gemma2": GEMMA | {"architectures": (["Gemma2Model"], "class"), "attn_logit_softcapping": (0.5, "changed"),
                       "layer_types": (["full_attention", "sliding_attention"], "changed")},
    "gemma3_text": GEMMA | {"architectures": (["Gemma3TextModel"], "class"),
                            "use_bidirectional_attention": (True, "changed"), "attn_logit_softcapping": (0.5, "same"),
                            "rope_parameters": (TWO_ROPES, "changed"),
                            "layer_types": (["full_attention", "sliding_attention"], "changed"),
                            "_sliding_window_pattern": (2, "same")},
    "bert": BERT | {"architectures": (["BertModel"], "class")},
    "roberta": BERT | {"architectures": (["RobertaModel"], "class"), "pad_token_id": (4, "changed")},
    "distilbert": {
        "architectures": (["DistilBertModel"], "class"),
        "is_encoder_decoder": (True, "refused"),
        "dim": (16, "changed"),
        "n_layers": (3, "changed"),
        "n_heads": (3, "changed"),
        "hidden_dim": (14, "changed"),
        "activation": ("relu", "changed"),
        "dropout": (0.3, "field"),
        "attention_dropout": (0.3, "field"),
        "seq_classif_dropout": (0.3, "field"),
        "qa_dropout": (0.3, "field"),
        "max_position_embeddings": (12, "changed"),
        "initializer_range": (0.5, "field"),
        "sinusoidal_pos_embds": (True, "same"),
        "pad_token_id": (4, "field"),
        "bos_token_id": (4, "same"),
        "eos_token_id": (4, "same"),
    },
    "electra": BERT | {
        "architectures": (["ElectraModel"], "class"),
        "embedding_size": (12, "changed"),
        "summary_type": ("last", "same"),
        "summary_use_proj": (False, "same"),
        "summary_activation": ("tanh", "same"),
        "summary_last_dropout": (0.3, "same"),
    },
    "albert": ENCODER | {
        "architectures": (["AlbertModel"], "class"),
        "embedding_size": (12, "changed"),
        "num_hidden_groups": (1, "changed"),
        "inner_group_num": (2, "changed"),
        "classifier_dropout_prob": (0.3, "field"),
        "type_vocab_size": (3, "changed"),
        "pad_token_id": (4, "field"),
    },
    "mpnet": ENCODER | {
        "architectures": (["MPNetModel"], "class"),
        "relative_attention_num_buckets": (36, "changed"),
        "pad_token_id": (4, "same"),
    },
    "modernbert": {
        "architectures": (["ModernBertModel"], "class"),
        "is_encoder_decoder": (True, "refused"),
        "rope_scaling": ({"rope_type": "linear", "factor": 2.0}, "changed"),
        "hidden_size": (16, "changed"),
        "intermediate_size": (14, "changed"),
        "num_hidden_layers": (2, "refused"),  # layer_types has 3
        "num_attention_heads": (3, "changed"),
        "hidden_activation": ("relu", "changed"),
        "max_position_embeddings": (4, "same"),
        "initializer_range": (0.5, "field"),
        "initializer_cutoff_factor": (3.0, "field"),
        "norm_eps": (0.1, "changed"),
        "layer_norm_eps": (0.1, "same"),
        "norm_bias": (True, "changed"),
        "pad_token_id": (4, "field"),
        "eos_token_id": (4, "same"),
        "bos_token_id": (4, "same"),
        "cls_token_id": (4, "same"),
        "sep_token_id": (4, "same"),
        "attention_bias": (True, "changed"),
        "attention_dropout": (0.3, "field"),
        "layer_types": (["sliding_attention", "sliding_attention", "full_attention"], "changed"),
        "rope_parameters": ({"full_attention": {"rope_type": "default", "rope_theta": 50.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 7.0}}, "changed"),
        "global_attn_every_n_layers": (2, "same"),  # layer_types and rope_parameters are in the file
        "global_rope_theta": (50.0, "same"),
        "local_rope_theta": (7.0, "same"),
        "sliding_window": (1, "changed"),
        "local_attention": (7, "changed"),
        "embedding_dropout": (0.3, "field"),
        "mlp_bias": (True, "changed"),
        "mlp_dropout": (0.3, "field"),
        "decoder_bias": (False, "changed"),
        "classifier_pooling": ("mean", "same"),
        "classifier_dropout": (0.3, "field"),
        "classifier_bias": (True, "changed"),
        "classifier_activation": ("relu", "changed"),
        "deterministic_flash_attn": (True, "same"),
        "sparse_prediction": (True, "same"),
        "sparse_pred_ignore_index": (0, "same"),
        "reference_compile": (True, "same"),
        "position_embedding_type": ("absolute", "same"),
    },
    "gpt2": {
        "architectures": (["GPT2Model"], "class"),
        "is_encoder_decoder": (True, "refused"),
        "n_positions": (12, "changed"),
        "n_embd": (16, "changed"),
        "n_layer": (3, "changed"),
        "n_head": (3, "changed"),
        "n_inner": (14, "changed"),
        "activation_function": ("relu", "changed"),
        "resid_pdrop": (0.3, "field"),
        "embd_pdrop": (0.3, "field"),
        "attn_pdrop": (0.3, "field"),
        "layer_norm_epsilon": (0.1, "changed"),
        "initializer_range": (0.5, "field"),
        "summary_type": ("first", "same"),
        "summary_use_proj": (False, "same"),
        "summary_activation": ("tanh", "same"),
        "summary_proj_to_labels": (False, "same"),
        "summary_first_dropout": (0.3, "same"),
        "scale_attn_weights": (False, "changed"),
        "scale_attn_by_inverse_layer_idx": (True, "changed"),
        "reorder_and_upcast_attn": (True, "same"),
        "bos_token_id": (4, "same"),
        "eos_token_id": (4, "same"),
        "pad_token_id": (4, "same"),
        "add_cross_attention": (True, "refused"),
    },
    "gpt_neox": {
        "tie_word_embeddings": (True, "changed"),
        "architectures": (["GPTNeoXModel"], "class"),
        "is_encoder_decoder": (True, "refused"),
        "is_decoder": (True, "same"),
        "hidden_size": (18, "changed"),
        "num_hidden_layers": (3, "changed"),
        "num_attention_heads": (1, "changed"),
        "intermediate_size": (14, "changed"),
        "hidden_act": ("relu", "changed"),
        "attention_dropout": (0.3, "field"),
        "hidden_dropout": (0.3, "field"),
        "classifier_dropout": (0.3, "same"),
        "max_position_embeddings": (12, "same"),
        "initializer_range": (0.5, "field"),
        "layer_norm_eps": (0.1, "changed"),
        "use_parallel_residual": (False, "changed"),
        "attention_bias": (False, "changed"),
        "rope_parameters": ({"rope_type": "linear", "rope_theta": 100.0, "factor": 3.0, "partial_rotary_factor": 0.75}, "changed"),
        "rotary_pct": (0.7, "same"),  # rope_parameters is in the file
        "rotary_emb_base": (100.0, "same"),
        "rope_theta": (100.0, "same"),
        "bos_token_id": (4, "same"),
        "eos_token_id": (4, "same"),
        "pad_token_id": (4, "same"),
    },
    "t5": {
        "tie_word_embeddings": (False, "field"),  # the weights in the file decide
        "architectures": (["T5Model"], "class"),
        "is_encoder_decoder": (False, "refused"),
        "d_model": (16, "changed"),
        "d_kv": (4, "changed"),
        "d_ff": (14, "changed"),
        "num_layers": (3, "changed"),
        "num_decoder_layers": (3, "changed"),
        "num_heads": (3, "changed"),
        "relative_attention_num_buckets": (6, "changed"),
        "relative_attention_max_distance": (5, "changed"),
        "dropout_rate": (0.3, "field"),
        "layer_norm_epsilon": (0.1, "changed"),
        "initializer_factor": (0.5, "field"),
        "feed_forward_proj": ("silu", "same"),  # dense_act_fn and is_gated_act are in the file
        "dense_act_fn": ("silu", "changed"),
        "is_gated_act": (True, "changed"),
        "scale_decoder_outputs": (False, "changed"),
        "classifier_dropout": (0.3, "same"),
        "is_decoder": (True, "same"),
        "pad_token_id": (4, "field"),
        "eos_token_id": (4, "same"),
        "decoder_start_token_id": (4, "field"),
        "bos_token_id": (4, "same"),
    },
}


def weight(name, p, is_named):
    """Sets the elements of a parameter to values that depend on their index, and on the parameter's name unless modules
    have other names than files."""
    first, norm = sum(name.encode()) % 97 if is_named else 0, p.dim() == 1 and name.endswith("weight")
    values = [norm + 0.3 * math.sin(0.37 * i + first) for i in range(p.numel())]
    p.copy_(torch.tensor(values, dtype=torch.float64).view_as(p))


def fill(key, p, is_named):
    """Sets a parameter. The experts of transformers are one parameter, but those of files have their own keys."""
    base, _, last = key.rpartition(".experts.")
    if not base:
        return weight(key, p, is_named)
    for i, expert in enumerate(p):
        parts = expert.chunk(2) if last == "gate_up_proj" else [expert]
        for part, part_name in zip(parts, ["gate_proj", "up_proj"] if last == "gate_up_proj" else [last]):
            weight(f"{base}.experts.{i}.{part_name}.weight", part, is_named)


def numbers(name, config_file):
    config_class, model_class, _ = CLASSES[name]
    config = config_class.from_pretrained(config_file)
    if name == "qwen3_moe":
        config._experts_implementation = "eager"
    model = model_class(config).double().eval()
    ids = torch.tensor([IDS])
    with torch.no_grad():
        for key, p in model.named_parameters():
            fill(key, p, name in NAMED)
        more = {"decoder_input_ids": ids.flip(1)} if name == "t5" else {}
        out = model(input_ids=ids, return_dict=True, **more)
        logits = (out.prediction_logits if name == "bert" else out.logits).flatten()
    total = sum(x * math.cos(0.11 * i) for i, x in enumerate(logits.tolist()))
    return f"{sum(p.numel() for p in model.parameters())} {total:.7g}"


def refusal(name, key, value):
    """Returns a part of the message for a value that is not supported."""
    if key == "model_type" and name in DECODERS:
        return f"config.json: model_type is {json.dumps(value)}, must be llama, mistral, "
    if name == "modernbert" and key == "num_hidden_layers":
        return "config.json: layer_types has 3 elements, must have one for each of num_hidden_layers 2"
    if key == "model_type" and name not in ("modernbert", "gpt2", "gpt_neox", "t5"):
        return f"config.json: model_type is {json.dumps(value)}, must be bert, roberta, "
    if key == "num_hidden_layers":
        lists = "no_rope_layers" if name == "smollm3" else "layer_types"
        return f"config.json: {lists} has 2 elements, must have num_hidden_layers = {value}"
    supported = name if key == "model_type" else not value
    return f"config.json: {key} is {json.dumps(value)}, must be {json.dumps(supported)}"


def shown(name, key):
    """Returns how messages show the key: "hidden_size (dim)" if another family's key names the same size."""
    return f"({key})" if name == "distilbert" and key in ("dim", "n_layers", "n_heads") else f"config.json: {key}"


def null_case(name, path, base, key, kind, plain):
    """Returns what happens if a key is null, and the numbers or a part of the message."""
    path.write_text(json.dumps({**base, key: None}))
    try:
        found = numbers(name, path.parent)
    except Exception:
        is_read = key in ("feed_forward_proj", "classifier_pooling") or (key == "max_position_embeddings" and name in DECODERS + ("gpt_neox",))
        ignored = kind == "same" and not is_read
        return ("ignored", plain) if ignored else ("refused", f"{shown(name, key)} is null, must be ")
    return "same" if found == plain else "changed", found


def cases(folder, types):
    path = Path(folder) / "config.json"
    before = [line.split("\t") for line in CASES.read_text().splitlines()]
    for name, (config_class, _, sizes) in CLASSES.items():
        if types and name not in types:
            yield from (row for row in before if row[0] == name)
            continue
        keys = {**COMMON, **KEYS[name]}
        unknown = set(config_class().to_dict()) - set(keys)
        if unknown:
            raise SystemExit(f"add these keys of {config_class.__name__} to the table: {sorted(unknown)}")
        config_class(**sizes).save_pretrained(folder)
        base = json.loads(path.read_text())
        yield name, "", json.dumps(base, separators=(",", ":"), sort_keys=True), "same", numbers(name, folder)
        for key, (value, kind) in sorted(keys.items()):
            expected = refusal(name, key, value) if kind == "refused" else value[0] if kind == "class" else ""
            if kind in ("changed", "same"):
                path.write_text(json.dumps(base))
                plain = numbers(name, folder)
                path.write_text(json.dumps({**base, key: value}))
                expected = plain if key in NOT_RUN else numbers(name, folder)
                if (expected != plain) != (kind == "changed"):
                    raise SystemExit(f"{name}: {key}: {expected} is not {kind} from {plain}")
            yield name, key, json.dumps(value, separators=(",", ":")), kind, expected
        path.write_text(json.dumps(base))
        plain = numbers(name, folder)
        for key, (_, kind) in sorted(keys.items()):
            if key != "model_type":  # without a type, Brasa refuses the file
                yield name, key, "null", *null_case(name, path, base, key, kind, plain)


def main():
    logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as folder:
        lines = "".join("\t".join(row) + "\n" for row in cases(folder, sys.argv[2:]))
    if sys.argv[1:2] == ["write"]:
        CASES.write_text(lines)
    elif CASES.read_text() != lines:
        raise SystemExit(f"{CASES} differs from what this version of transformers gives")


if __name__ == "__main__":
    main()
