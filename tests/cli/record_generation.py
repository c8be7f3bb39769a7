#!/usr/bin/env python3
"""Writes generation_cases.tsv: every key of generation_config.json, and what `brasa generate` must do with it.

    record_generation.py write         writes the file
    record_generation.py check         fails if the file differs from what this version of transformers gives

The columns are the model, the file that has the keys, the keys, options of the command, what happens, and the expected
text: `changed` (the key changes the text), `same` (it does not) or `refused` (then the text is a part of the message).
Several texts have \\n between them. Texts are those of transformers. Requires torch and transformers from PyPI; written with 5.24.0.
"""
import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import GenerationConfig, GPT2LMHeadModel, PreTrainedTokenizerFast, T5ForConditionalGeneration
from transformers.utils import logging as transformers_logging

TESTS = Path(__file__).resolve().parent.parent
CASES = TESTS / "cli" / "generation_cases.tsv"
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

# The models, with the prompt's ids and the text of each id: see the tokenizers in test_generation.c.
MODELS = {
    "gpt2": (GPT2LMHeadModel, TESTS / "models/gpt2/lm", "cmd", [2, 12, 3], [*LETTERS, "th", "he", " ", ""]),
    "t5": (T5ForConditionalGeneration, TESTS / "models/t5/relu", "x y z 9", None, ["", "", "<unk>", " ", *LETTERS]),
}
BASE = {"gpt2": {"max_new_tokens": 8, "eos_token_id": 17},
        "t5": {"max_new_tokens": 8, "eos_token_id": 1, "decoder_start_token_id": 0, "suppress_tokens": [1]}}
SAMPLED = {"do_sample": True, "temperature": 2.0}
GREEDY = {}
EARLY = {"eos_token_id": [0, 20]}  # one of the tokens that come first

# Per key: the value, and the keys beside it.
CHANGED = {
    "max_length": (6, {"max_new_tokens": None}),
    "max_new_tokens": (3, GREEDY),
    "min_length": (7, EARLY),
    "min_new_tokens": (3, EARLY),
    "do_sample": (True, GREEDY),
    "temperature": (5.0, SAMPLED),
    "top_k": (2, SAMPLED),
    "top_p": (0.4, SAMPLED),
    "min_p": (0.6, SAMPLED),
    "repetition_penalty": (4.0, GREEDY),
    "no_repeat_ngram_size": (2, GREEDY),
    "suppress_tokens": ([0, 9, 20, 39], GREEDY),
    "stop_strings": (["xy", "aa", "mmm"], GREEDY),
    "eos_token_id": ([9, 13, 20], GREEDY),
    "decoder_start_token_id": (5, {"bos_token_id": 7}),
    "bos_token_id": (7, {"decoder_start_token_id": None}),
}
ONLY_T5 = {"decoder_start_token_id", "bos_token_id"}
REFUSED = {
    "max_time": (1.5, GREEDY),
    "top_h": (0.4, SAMPLED),
    "typical_p": (0.5, SAMPLED),
    "epsilon_cutoff": (0.01, SAMPLED),
    "eta_cutoff": (0.01, SAMPLED),
    "encoder_repetition_penalty": (1.5, GREEDY),
    "encoder_no_repeat_ngram_size": (2, GREEDY),
    "bad_words_ids": ([[1, 2]], GREEDY),
    "begin_suppress_tokens": ([1], GREEDY),
    "forced_bos_token_id": (1, GREEDY),
    "forced_eos_token_id": (1, GREEDY),
    "exponential_decay_length_penalty": ([5, 1.5], GREEDY),
    "sequence_bias": ([[[1], 2.0]], GREEDY),
    "token_healing": (True, GREEDY),
    "guidance_scale": (1.5, GREEDY),
    "watermarking_config": ({"bias": 3.0}, GREEDY),
    "num_beam_groups": (2, {"num_beams": 4}),
    "diversity_penalty": (0.5, {"num_beams": 4}),
    "constraints": ([1], GREEDY),
    "force_words_ids": ([[1]], GREEDY),
    "penalty_alpha": (0.6, GREEDY),
    "dola_layers": ("high", GREEDY),
    "use_mtp": (True, GREEDY),
    "prompt_lookup_num_tokens": (2, GREEDY),
    "assistant_early_exit": (1, GREEDY),
    "is_assistant": (True, GREEDY),
    "cache_implementation": ("quantized", GREEDY),
}
SAME = {
    "remove_invalid_values": (True, SAMPLED),
    "renormalize_logits": (True, SAMPLED),
    "pad_token_id": (5, GREEDY),
    "num_beam_groups": (2, GREEDY),
    "diversity_penalty": (0.5, GREEDY),
    "early_stopping": (True, GREEDY),
    "length_penalty": (2.0, GREEDY),
    "num_assistant_tokens": (3, GREEDY),
    "num_assistant_tokens_schedule": ("heuristic", GREEDY),
    "assistant_confidence_threshold": (0.9, GREEDY),
    "assistant_ensemble_weight": (0.5, GREEDY),
    "assistant_lookbehind": (3, GREEDY),
    "target_lookbehind": (3, GREEDY),
    "max_matching_ngram_size": (3, GREEDY),
    "speculation_type": ("x", GREEDY),
    "cache_config": ({"a": 1}, GREEDY),
    "max_cache_len": (50, GREEDY),
    "use_cache": (False, GREEDY),
    "low_memory": (True, GREEDY),
    "prefill_chunk_size": (2, GREEDY),
    "disable_compile": (True, GREEDY),
    "output_attentions": (True, GREEDY),
    "output_hidden_states": (True, GREEDY),
    "output_logits": (True, GREEDY),
    "output_scores": (True, GREEDY),
    "_from_model_config": (True, GREEDY),
    "transformers_version": ("4.20.0", GREEDY),
    # Without sampling, these have no effect.
    "temperature": (0.5, GREEDY), "top_k": (2, GREEDY), "top_p": (0.4, GREEDY), "min_p": (0.6, GREEDY),
    "top_h": (0.4, GREEDY), "typical_p": (0.5, GREEDY), "epsilon_cutoff": (0.01, GREEDY), "eta_cutoff": (0.01, GREEDY),
    # Null is the default, and so are these values.
    "num_beams": (1, GREEDY), "num_return_sequences": (1, GREEDY), "guidance_scale": (1, GREEDY), "token_healing": (False, GREEDY), "max_time": (None, GREEDY),
    "cache_implementation": ("dynamic", GREEDY),
}
# transformers computes the same, but cannot read these values from a file, or returns more than the tokens.
NOT_RUN = {"compile_config": ({"mode": "x"}, GREEDY), "continuous_batching_config": ({"num_blocks": 3}, GREEDY),
           "return_dict_in_generate": (True, GREEDY), "_commit_hash": ("x", GREEDY)}

# Other cases: the file, its keys (they replace the base), options of the command, and keys with the same meaning.
MORE = [
    ("gpt2", "generation_config.json", {"max_new_tokens": 4, "max_length": 20}, "", {}),
    ("gpt2", "generation_config.json", {"max_length": 9}, "--max-new-tokens 2", {"max_new_tokens": 2}),
    ("gpt2", "generation_config.json", {"max_length": 9}, "--set max_length=5", {"max_length": 5}),
    ("gpt2", "generation_config.json", {"max_new_tokens": 8, "num_beams": 4}, "--set num_beams=1", {"num_beams": 1}),
    ("gpt2", "generation_config.json", {"max_new_tokens": 8, "do_sample": True, "top_k": 3}, "--set do_sample=false",
     {"do_sample": False}),
    ("gpt2", "generation_config.json", {"max_new_tokens": 8, "do_sample": True, "top_k": 3}, "--top-k 40", {"top_k": 40}),
    ("gpt2", "generation_config.json", {"max_new_tokens": 8, "temperature": 3.0}, "--seed 0", {"do_sample": True}),
    ("gpt2", "generation_config.json", {"max_new_tokens": 8, "repetition_penalty": 9.0}, "--repetition-penalty 1.1",
     {"repetition_penalty": 1.1}),
    ("gpt2", "generation_config.json", {"max_new_tokens": 8}, "", {}),  # eos_token_id of config.json does not count
    ("gpt2", "config.json", {"max_new_tokens": 8}, "", {}),  # here it does
    ("gpt2", "config.json", {"max_length": 9, "repetition_penalty": 4.0, "no_repeat_ngram_size": 2}, "", {}),
    ("gpt2", "config.json", {"max_length": 9, "do_sample": True, "temperature": 2.0}, "", {}),
    ("gpt2", "config.json", {"max_length": 9, "task_specific_params": {"text-generation": {"max_length": 5}}}, "", {}),
    *((name, "generation_config.json", {**BASE[name], "num_beams": beams, "num_return_sequences": 2, **more}, "", {})
      for name in BASE for beams in (2, 3, 5)
      for more in ({}, {"eos_token_id": [0, 9, 20, 30]}, {"eos_token_id": [0, 9, 20], "early_stopping": True},
                   {"eos_token_id": [0, 9, 20], "early_stopping": "never", "length_penalty": 0.5},
                   {"eos_token_id": None, "no_repeat_ngram_size": 2}, {"repetition_penalty": 1.5, "length_penalty": -1.0},
                   {"eos_token_id": [9, 30], "min_new_tokens": 3, "length_penalty": 3.0, "pad_token_id": 5})),
    ("gpt2", "generation_config.json", {"max_new_tokens": 5, "num_return_sequences": 3, "do_sample": True,
                                        "temperature": 2.0}, "", {}),
    # Stop strings: one that begins in the prompt, one in the middle of a token, and those of options.
    *(("gpt2", "generation_config.json", {**BASE["gpt2"], "stop_strings": strings, **more}, options, changes)
      for strings, more, options, changes in (
          ("da", {}, "", {}), (["aaa", "aaaaaaaaa"], {"eos_token_id": None}, "", {}),
          ("ii", {"do_sample": True, "temperature": 5.0}, "", {}), ("h", {"do_sample": True, "temperature": 9.0}, "", {}),
          ("a", {}, "--stop r", {"stop_strings": ["r"]}), ("a", {}, "--stop r --stop aaa", {"stop_strings": ["r", "aaa"]}),
          ("a", {}, "--set stop_strings=null", {"stop_strings": None}))),
    # A search that never ends early finds other texts.
    *(("gpt2", "generation_config.json", {**BASE["gpt2"], "num_beams": 2, "num_return_sequences": 2, "eos_token_id": [0, 9, 20],
                                          "length_penalty": penalty, "early_stopping": early}, "", {})
      for penalty in (1.0, 3.0) for early in (False, "never")),
    *((name, "generation_config.json", {**BASE[name], "num_beams": beams, "num_return_sequences": 2, "do_sample": True,
                                        **more}, "", {})
      for name in BASE for beams in (2, 4)
      for more in ({}, {"temperature": 3.0}, {"top_k": 2, "eos_token_id": [0, 9, 20]}, {"top_p": 0.3, "top_k": 0},
                   {"top_p": 0.01, "top_k": 0, "temperature": 3.0},
                   {"min_p": 0.9, "eos_token_id": None}, {"top_k": 5, "top_p": 0.6, "min_p": 0.2, "temperature": 0.7,
                    "repetition_penalty": 1.3}, {"eos_token_id": [0, 9, 20], "early_stopping": True, "temperature": 2.0})),
    *((name, "generation_config.json", {**BASE[name], "num_beams": 3, "num_return_sequences": 3, "stop_strings": strings,
                                        **more}, "", {})
      for name in BASE for strings in (["aa", "m"], ["r", "mm", "aj"])
      for more in ({}, {"length_penalty": -1.0}, {"early_stopping": True})),
    ("t5", "config.json", {"max_length": 5}, "", {}),
    ("t5", "config.json", {"max_length": 5, "decoder_start_token_id": 6}, "", {}),
]


def tokenizer(name):
    """Returns the tokenizer of test_generation.c for the model."""
    pieces = MODELS[name][4]
    if name == "gpt2":
        vocab = {{" ": "Ġ", "": "<|endoftext|>"}.get(piece, piece): i for i, piece in enumerate(pieces)}
        own = Tokenizer(models.BPE(vocab, [("t", "h"), ("h", "e")]))
        own.pre_tokenizer, own.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    else:
        own = Tokenizer(models.Unigram([("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0),
                                        *((piece, -3.0) for piece in pieces[4:])], 2))
        own.pre_tokenizer, own.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=own)


class Runner:
    def __init__(self, folder):
        self.folder = Path(folder)

    def text(self, name, file, keys, changes):
        """Returns the text of transformers with these keys in the file."""
        cls, source, prompt, ids, pieces = MODELS[name]
        model_folder = self.folder / "model"
        shutil.rmtree(model_folder, ignore_errors=True)
        shutil.copytree(source, model_folder)
        path = model_folder / file
        old = json.loads(path.read_text()) if file == "config.json" else {}
        path.write_text(json.dumps({**old, **keys, **changes}))
        model = cls.from_pretrained(model_folder).eval()
        if name == "t5":
            ids = [i for word in prompt.split() for i in [3, *(pieces.index(c) for c in word)]] + [1]
        torch.manual_seed(0)
        inputs = torch.tensor([ids])
        rows = model.generate(inputs, attention_mask=torch.ones_like(inputs), tokenizer=tokenizer(name)).tolist()
        ends = model.generation_config.eos_token_id
        ends = [ends] if isinstance(ends, int) else ends or [-1]  # -1: what beams are padded with
        return "\\n".join(self.shown(name, row, ends) for row in rows)

    def shown(self, name, out, ends):
        """Returns the text of a row of ids up to its end."""
        _, _, prompt, ids, pieces = MODELS[name]
        first = len(ids) if name == "gpt2" else 1
        out = out[:first] + out[first:next((i + 1 for i in range(first, len(out)) if out[i] in ends), len(out))]
        out = [i for i in out if i >= 0]
        if name == "gpt2":
            return prompt + "".join(pieces[i] for i in out[len(ids):])
        text = "".join(pieces[i] for i in out)
        while out and out[0] < 2:  # the first space of a text is dropped
            del out[0]
        return text[1:] if out and out[0] == 3 else text


def row(name, file, keys, options, kind, text):
    return "\t".join([name, file, json.dumps(keys, separators=(",", ":")), options, kind, text])


def cases(run):
    file = "generation_config.json"
    for name in MODELS:
        texts = {}

        def text(keys):
            key = json.dumps(keys, sort_keys=True)
            if key not in texts:
                texts[key] = run.text(name, file, keys, {})
            return texts[key]

        for kind, table in ("changed", CHANGED), ("same", SAME), ("same", NOT_RUN), ("refused", REFUSED):
            for key, (value, more) in table.items():
                if kind == "changed" and key in ONLY_T5 and name != "t5":
                    continue
                plain = {**BASE[name], **{k: v for k, v in more.items() if v is not None}}
                keys = {**BASE[name], **more, key: value}
                if kind == "refused":
                    shown = json.dumps(value, separators=(",", ":"))
                    yield row(name, file, keys, "", kind, f"{key} is {shown}, must be ")
                    continue
                want = text(plain) if table is NOT_RUN else text(keys)
                if (want != text(plain)) != (kind == "changed"):
                    raise SystemExit(f"{name}: {key}: {want!a} is not {kind} from {text(plain)!a}")
                yield row(name, file, keys, "", kind, want)
        # null, and lists that are empty; without max_new_tokens the default length differs: docs/generate.md
        changes = [{key: None} for table in (CHANGED, SAME, NOT_RUN, REFUSED) for key in table
                   if (key, name) not in (("max_new_tokens", name), ("decoder_start_token_id", "t5"))]  # T5 needs the second
        for change in changes + [{"suppress_tokens": []}, {"begin_suppress_tokens": []}]:
            keys = {**BASE[name], **change}
            yield row(name, file, keys, "", "same" if text(keys) == text(BASE[name]) else "changed", text(keys))
    for name, file, keys, options, changes in MORE:
        yield row(name, file, keys, options, "changed", run.text(name, file, keys, changes))


def main():
    logging.disable(logging.WARNING)
    transformers_logging.set_verbosity_error()
    unknown = set(GenerationConfig().to_dict()) - set(CHANGED) - set(SAME) - set(REFUSED) - set(NOT_RUN)
    if unknown:
        raise SystemExit(f"add these keys of GenerationConfig to the tables: {sorted(unknown)}")
    with tempfile.TemporaryDirectory() as folder:
        lines = "\n".join(cases(Runner(folder))) + "\n"
    if sys.argv[1:] == ["write"]:
        CASES.write_text(lines)
    elif CASES.read_text() != lines:
        raise SystemExit(f"{CASES} differs from what this version of transformers gives")


if __name__ == "__main__":
    main()
