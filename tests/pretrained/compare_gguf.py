#!/usr/bin/env python3
"""Compares models from GGUF files with transformers, which reads the same files.

    tests/pretrained/compare_gguf.py BRASA LIBRARY [FILES [SEED]]       random small models of each architecture
    tests/pretrained/compare_gguf.py BRASA LIBRARY --model FILE.gguf [SEED] a real one: ids of 3000 random texts; logits and 64
                                                                        greedy tokens of 20 prompts

transformers ignores some of what a file says (docs/gguf.md lists it). There, its model gets a configuration that says the
same. The exit status is 1 if anything differs. Needs transformers and what it requires for GGUF files: gguf, accelerate.
"""
import ctypes
import os
import pathlib
import random
import subprocess
import sys
import tempfile

os.environ["TQDM_DISABLE"] = "1"  # no progress bars

import gguf
import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
PROMPTS = ["The capital of France is", "Once upon a time", "def fibonacci(n):", "1 + 1 =", "The quick brown fox", "Water boils at",
           "import numpy as np\n", "Dear Sir or Madam,\n\n", "\u00bfC\u00f3mo est\u00e1s", "Die Hauptstadt von Deutschland", "\u6771\u4eac\u306f", "\u041c\u043e\u0441\u043a\u0432\u0430 \u2014",
           "A list of three colours:\n-", "    return x", "The opposite of hot", "Roses are red,", "In 1969, the first", "E = mc^2 means",
           "<start_of_turn>user\nHello<end_of_turn>\n", "\U0001f600 is"]
NEW_TOKENS = 64
# How close logits must be: relative to the largest, as both round f32 in other orders.
TOLERANCE = 2e-5


class Brasa:
    """The functions of the library that run a model."""

    def __init__(self, library):
        self.br = ctypes.CDLL(library)
        for name in ("br_auto_model_load", "br_from_i64", "br_llama_lm_forward", "br_gpt_neox_lm_forward", "br_contiguous", "br_data_f32", "br_no_grad_begin"):
            getattr(self.br, name).restype = ctypes.c_void_p
        self.br.br_error_message.restype = ctypes.c_char_p

    def check(self, value):
        if not value:
            sys.exit(f"brasa: {self.br.br_error_message().decode()}")
        return ctypes.c_void_p(value)

    def load(self, path):
        return self.check(self.br.br_auto_model_load(str(path).encode(), None, None))

    def free(self, model):
        self.br.br_module_free(model)

    def logits(self, model, ids, vocabulary, name="llama"):
        """Returns the logits of a text, [tokens, vocabulary]."""
        forward = getattr(self.br, f"br_{name}_lm_forward")
        scope = self.check(self.br.br_no_grad_begin())
        sizes, values = (ctypes.c_int64 * 2)(1, len(ids)), (ctypes.c_int64 * len(ids))(*ids)
        y = self.check(forward(model, self.check(self.br.br_from_i64(2, sizes, values)), None))
        data = self.check(self.br.br_data_f32(self.check(self.br.br_contiguous(y))))
        array = np.ctypeslib.as_array(ctypes.cast(data, ctypes.POINTER(ctypes.c_float)), (len(ids), vocabulary)).copy()
        self.br.br_scope_end(scope)
        return array


def difference(mine, reference):
    """The largest difference of logits, relative to the largest logit."""
    reference = reference.detach().float().numpy()
    return float(np.abs(mine - reference).max() / np.abs(reference).max())


# ---- A real model ---------------------------------------------------------------------------------------------------------


def random_text(rng, tokens):
    """Characters of several scripts, spaces, tokens."""
    parts = [lambda: chr(rng.randrange(32, 127)), lambda: chr(rng.randrange(0xa0, 0x500)), lambda: chr(rng.randrange(0x4e00, 0x9fff)),
             lambda: chr(rng.randrange(0x1f300, 0x1f9ff)), lambda: " " * rng.randrange(1, 40),
             lambda: rng.choice(["\n", "\t", "\r", "\u3000", "\u00a0", "\u2581"]) * rng.randrange(1, 5),
             lambda: rng.choice(tokens).replace("\u2581", " ")]
    return "".join(rng.choice(parts)() for _ in range(rng.randrange(1, 25)))


def compare_ids(program, path, tokenizer, seed):
    rng, tokens = random.Random(seed), list(tokenizer.get_vocab())
    texts = [random_text(rng, tokens) for _ in range(3000)]
    with tempfile.NamedTemporaryFile() as file:
        file.write("\0".join(texts).encode() + b"\0")
        file.flush()
        run = subprocess.run([program, "tokenize", "--model", path, "--ids", "--null", "--file", file.name], capture_output=True,
                             text=True, check=True)
    lines, bad = run.stdout.split("\n"), 0
    for text, line in zip(texts, lines, strict=False):
        due = tokenizer(text)["input_ids"]
        if [int(word) for word in line.split()] != due:
            bad += 1
            print(f"{text!r}: ids {line}, must be {due}")
    print(f"{len(texts)} texts, ids of {bad} differ", flush=True)
    return bad + (len(lines) - 1 != len(texts))


def compare_real(program, library, path, seed):
    path = pathlib.Path(path)
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    reference = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    brasa = Brasa(library)
    model, worst, bad = brasa.load(path), 0.0, compare_ids(program, path, tokenizer, seed)
    for prompt in PROMPTS:
        ids = tokenizer(prompt)["input_ids"]
        mine = subprocess.run([program, "tokenize", "--model", path, "--ids", "--", prompt], capture_output=True, text=True, check=True)
        if [int(word) for word in mine.stdout.split()] != ids:
            print(f"{prompt!r}: ids {mine.stdout.strip()}, must be {ids}")
            bad += 1
        with torch.no_grad():
            d = difference(brasa.logits(model, ids, reference.config.vocab_size), reference(torch.tensor([ids])).logits[0])
            tokens = reference.generate(torch.tensor([ids]), max_new_tokens=NEW_TOKENS, do_sample=False)[0]
        worst = max(worst, d)
        text = tokenizer.decode(tokens[len(ids):], skip_special_tokens=True)
        run = subprocess.run([program, "generate", "--model", path, "-n", str(NEW_TOKENS), "--", prompt],
                             capture_output=True, check=True)
        written = run.stdout.decode(errors="replace")
        if written != prompt + text + "\n":
            print(f"{prompt!r} continues with {written[len(prompt):-1]!r}, must continue with {text!r}")
            bad += 1
    brasa.free(model)
    print(f"{len(PROMPTS)} prompts: logits differ by at most {worst:.1e} of the largest, {bad} texts or ids differ")
    return bad > 0 or worst > TOLERANCE


# ---- Random models --------------------------------------------------------------------------------------------------------

TYPES = {"llama": "llama", "smollm3": "smollm3", "granite": "granite", "phi3": "phi3", "qwen2": "qwen2", "qwen3": "qwen3", "gemma2": "gemma2", "gemma3": "gemma3_text",
         "gptneox": "gpt_neox"}


def neox_config(rng):
    heads, head = rng.choice([1, 2, 3]), rng.choice([8, 32])
    rope = {"rope_type": "default", "rope_theta": rng.choice([100.0, 10000.0]), "partial_rotary_factor": rng.choice([0.25, 1.0])}
    if rng.random() < 0.3:
        rope |= {"rope_type": "linear", "factor": 2.5}
    return {"vocab_size": rng.randrange(20, 60), "hidden_size": heads * head, "intermediate_size": 32 * rng.randrange(1, 4),
            "num_hidden_layers": rng.randrange(1, 6), "num_attention_heads": heads, "max_position_embeddings": 128,
            "layer_norm_eps": float(np.float32(10 ** rng.uniform(-6, -3))), "rope_parameters": rope, "tie_word_embeddings": rng.random() < 0.5,
            "use_parallel_residual": rng.random() < 0.5, "attention_bias": rng.random() < 0.7, "bos_token_id": 1, "eos_token_id": 2}


def phi_positions(theta, head, rng):
    """Returns the positions of a Phi-3, plain or longrope."""
    part = rng.choice([0.5, 1.0])
    rope = {"rope_type": "default", "rope_theta": theta, "partial_rotary_factor": part}
    if rng.random() < 0.6:
        rope |= {key: [float(np.float32(rng.uniform(1, 8))) for _ in range(int(head * part) // 2)] for key in ("short_factor", "long_factor")}
        rope |= {"rope_type": "longrope", "attention_factor": rng.choice([1.0, 1.25])}
    return {"rope_parameters": rope, "sliding_window": rng.choice([None, 3, 9]), "original_max_position_embeddings": rng.choice([8, 16])}


def random_config(architecture, rng):
    if architecture == "gptneox":
        return neox_config(rng)
    kv, group = rng.choice([1, 2, 3]), rng.choice([1, 2])
    heads, head = kv * group, rng.choice([4, 8, 32])
    own_head = architecture in ("llama", "qwen3", "gemma2", "gemma3")
    config = {"vocab_size": rng.randrange(20, 60), "hidden_size": heads * (rng.choice([8, 32]) if own_head else head),
              "intermediate_size": 32 * rng.randrange(1, 4), "num_hidden_layers": rng.randrange(1, 8), "num_attention_heads": heads,
              "num_key_value_heads": kv, "max_position_embeddings": 128, "rms_norm_eps": float(np.float32(10 ** rng.uniform(-6, -3))),
              "rope_parameters": {"rope_type": "default", "rope_theta": rng.choice([100.0, 10000.0, 500000.0])},
              "tie_word_embeddings": architecture == "gemma2" or rng.random() < 0.5, "pad_token_id": None, "bos_token_id": 1,
              "eos_token_id": 2}
    scaling = rng.choice([{}, {"rope_type": "linear", "factor": 2.5},
                          {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 20}])
    config["rope_parameters"] |= scaling
    if architecture == "phi3":
        config |= phi_positions(config["rope_parameters"]["rope_theta"], head, rng)
    if own_head:
        config["head_dim"] = head
    if architecture in ("llama", "smollm3", "granite", "qwen3") and rng.random() < 0.3:
        config["attention_bias"] = True
    if architecture in ("llama", "smollm3", "granite") and rng.random() < 0.3:
        config["mlp_bias"] = True
    if architecture == "granite":
        config |= {key: float(np.float32(rng.uniform(0.2, 8))) for key in ("embedding_multiplier", "logits_scaling")}
        config |= {key: float(np.float32(rng.uniform(0.1, 1))) for key in ("attention_multiplier", "residual_multiplier")}
    if architecture.startswith("gemma"):
        config |= {"query_pre_attn_scalar": head, "sliding_window": rng.randrange(2, 20)}
    if architecture == "gemma2":
        config |= {"attn_logit_softcapping": rng.choice([2.0, 50.0]), "final_logit_softcapping": rng.choice([1.5, 30.0])}
    if architecture == "gemma3":
        config["rope_parameters"] = {"full_attention": config["rope_parameters"],
                                     "sliding_attention": {"rope_type": "default", "rope_theta": rng.choice([50.0, 10000.0])}}
    return config


def permuted(x, heads):
    """What the converter of llama.cpp does to queries and keys."""
    return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)


def write(path, architecture, config, state, rng):
    writer = gguf.GGUFWriter(path, architecture)
    rope = config["rope_parameters"]
    if architecture == "gemma3":
        writer.add_float32("gemma3.rope.freq_base_swa", rope["sliding_attention"]["rope_theta"])
        rope = rope["full_attention"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    if architecture == "gptneox":
        writer.add_layer_norm_eps(config["layer_norm_eps"])
        writer.add_parallel_residual(config["use_parallel_residual"])
        writer.add_rope_dimension_count(int(config["hidden_size"] // config["num_attention_heads"] * rope["partial_rotary_factor"]))
    else:
        writer.add_head_count_kv(config["num_key_value_heads"])
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(rope["rope_theta"])
    if "head_dim" in config:
        writer.add_key_length(config["head_dim"])
        writer.add_value_length(config["head_dim"])
        writer.add_rope_dimension_count(config["head_dim"])
    if architecture == "phi3":
        head = config["hidden_size"] // config["num_attention_heads"]
        writer.add_rope_dimension_count(int(head * rope["partial_rotary_factor"]))
        writer.add_rope_scaling_orig_ctx_len(config["original_max_position_embeddings"])
        writer.add_sliding_window(config["sliding_window"] or 0)
    if "short_factor" in rope:
        writer.add_rope_scaling_attn_factors(rope["attention_factor"])
        for key in ("short", "long"):
            writer.add_tensor(f"rope_factors_{key}.weight", np.array(rope[f"{key}_factor"], dtype=np.float32))
    if "factor" in rope:
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if "sliding_window" in config and architecture != "phi3":
        writer.add_sliding_window(config["sliding_window"])
    if "attn_logit_softcapping" in config:
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if architecture == "granite":
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    names = gguf.get_tensor_name_map(next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == architecture), 99)
    quantized = [gguf.GGMLQuantizationType[name] for name in ("Q8_0", "Q4_0", "Q5_1", "F16", "BF16")]
    for name, tensor in state.items():
        if name == "lm_head.weight" and config["tie_word_embeddings"]:
            continue
        x = tensor.detach().numpy()
        if architecture in ("llama", "smollm3", "granite") and (".q_proj." in name or ".k_proj." in name):
            x = permuted(x, config["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"])
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            x = x + 1
        if ".query_key_value." in name:
            x = x.reshape(config["num_attention_heads"], 3, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
        kind = rng.choice(quantized) if x.ndim == 2 and x.shape[1] % 32 == 0 else gguf.GGMLQuantizationType.F32
        base, end = name.rsplit(".", 1)
        writer.add_tensor(f"{names.get_name(base)}.{end}", gguf.quants.quantize(np.ascontiguousarray(x), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def dequantized(path, architecture, config, model):
    """Gives the model the values that the file has, without transformers' reader."""
    names = gguf.get_tensor_name_map(next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == architecture), 99)
    stored = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).reshape(tuple(reversed(t.shape.tolist())))
              for t in gguf.GGUFReader(path).tensors}
    state = {}
    for name, tensor in model.state_dict().items():
        base, end = name.rsplit(".", 1)
        key = f"{names.get_name(base)}.{end}"
        if key not in stored:
            continue
        x = stored[key]
        if architecture in ("llama", "smollm3", "granite") and (".q_proj." in name or ".k_proj." in name):
            heads = config["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"]
            x = x.reshape(heads, -1, 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            x = x - 1
        if ".query_key_value." in name:
            x = x.reshape(3, config["num_attention_heads"], -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
        state[name] = torch.from_numpy(np.array(x, dtype=np.float32))
    model.load_state_dict(state, strict=False)


def from_transformers(path, architecture, config):
    """Returns what transformers reads from the file. It ignores the scaling of positions, biases and some sizes, so it gets the
    configuration. It does not know smollm3, granite and gptneox."""
    made = transformers.AutoConfig.for_model(TYPES[architecture], **config)
    if architecture in ("smollm3", "granite", "gptneox"):
        model = AutoModelForCausalLM.from_config(made)
        dequantized(path, architecture, config, model)
        return model.eval()
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, config=made, dtype=torch.float32).eval()


def compare_random(library, files, seed):
    rng, brasa, bad, worst = random.Random(seed), Brasa(library), 0, 0.0
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.gguf"
        for i in range(files):
            architecture = list(TYPES)[i % len(TYPES)]
            config = random_config(architecture, rng)
            made = AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(TYPES[architecture], **config))
            for parameter in made.parameters():
                parameter.data.normal_(0, 0.3)
            write(path, architecture, config, made.state_dict(), rng)
            reference = from_transformers(path, architecture, config)
            ids = [rng.randrange(config["vocab_size"]) for _ in range(rng.randrange(1, 40))]
            model, name = brasa.load(path), "gpt_neox" if architecture == "gptneox" else "llama"
            with torch.no_grad():
                d = difference(brasa.logits(model, ids, config["vocab_size"], name), reference(torch.tensor([ids])).logits[0])
            brasa.free(model)
            worst = max(worst, d)
            if not d <= TOLERANCE:
                bad += 1
                print(f"file {i}, {architecture}: logits differ by {d:.1e}: {config}")
    print(f"{files} files: logits differ by at most {worst:.1e} of the largest, {bad} files differ")
    return bad > 0


def main():
    program, library = sys.argv[1:3]
    torch.set_grad_enabled(False)
    if sys.argv[3:4] == ["--model"]:
        sys.exit(compare_real(program, library, sys.argv[4], int((sys.argv + ["0"])[5])))
    numbers = [int(word) for word in sys.argv[3:]] + [60, 0][len(sys.argv[3:]):]
    sys.exit(compare_random(library, *numbers))


if __name__ == "__main__":
    main()
