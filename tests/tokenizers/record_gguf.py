#!/usr/bin/env python3
"""Writes gguf_cases.json for test_gguf_tokenizer.c: the metadata of small tokenizers as in GGUF files, texts, and the ids
that transformers gives with the tokenizer that it makes of the file.

transformers leaves out parts of the models' own tokenizers. These are added before the ids are recorded: the spaces of
Llama 2, whole words of Llama 3, the form of Qwen, and the digits of SmolLM. Needs transformers, and its requirement gguf.
"""
import json
import pathlib
import random
import tempfile

import gguf
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer

from compare_bpe import NASTY
from compare_tokenizers import nasty_texts

HERE = pathlib.Path(__file__).resolve().parent
META = "\u2581"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
LEARNT = (["the time flies like an arrow, and the fruit flies like a banana"] * 4 + ["they're there; 12 of them at 10:45."] * 3
          + ["def f(x):", "    return x", "        # 4 + 4"] * 3 + ["\u4f60\u597d\u4e16\u754c \u4f60\u597d"] * 3)
TEXTS = ["time flies like an arrow", "", " ", "  a  b ", "    return the\n\n  x\ty", "e" * 30, " " * 9 + "the", META, META + "the " + META,
         "<s>a</s> b<|end|> c<s", "time<s> flies</s> <|end|>", "\u00e9e\u0301 \u4f60\u597d\u4e2d \U0001f600", "<0x41>\u00ff", "123 4567 8x9",
         "they're THEY'RE \u1e9b\u0323", "\n\n\n\t\t<think> x"]


def learnt(size, **parts):
    """Returns the tokens that BPE learns, in the order of their merges, and the merges."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = parts.get("normalizer")
    tokenizer.pre_tokenizer = parts.get("pre_tokenizer")
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=parts.get("alphabet", []), show_progress=False)
    tokenizer.train_from_iterator(LEARNT, trainer)
    state = json.loads(tokenizer.to_str())["model"]
    return sorted(state["vocab"], key=state["vocab"].get), [" ".join(merge) for merge in state["merges"]]


def characters(specials, added):
    """A vocabulary of SentencePiece: special tokens, added ones, bytes, merged tokens, single characters."""
    tokens, _ = learnt(150, normalizer=normalizers.Replace(" ", META))
    merged = [token for token in tokens if len(token) > 1]
    single = [token for token in tokens if len(token) == 1]
    types = [UNKNOWN if token == "<unk>" else CONTROL for token in specials] + [USER_DEFINED] * len(added)
    ordinary = merged + single
    return {"tokens": specials + added + BYTES + ordinary,
            "types": types + [BYTE] * 256 + [NORMAL] * len(ordinary),
            "scores": [-1000.0] * len(types) + [0.0] * 256 + [-float(i) for i in range(len(ordinary))]}


def of_bytes(specials, added):
    tokens, merges = learnt(340, pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False),
                            alphabet=pre_tokenizers.ByteLevel.alphabet())
    return {"tokens": tokens + specials + added, "merges": merges,
            "types": [NORMAL] * len(tokens) + [CONTROL] * len(specials) + [USER_DEFINED] * len(added)}


def ids_of(case, **names):
    """Adds ids of special tokens."""
    return case | {f"{name}_token_id": case["tokens"].index(token) for name, token in names.items()}


def like_llama2(tokenizer):
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(META), normalizers.Replace(" ", META)])
    tokenizer.pre_tokenizer = None


def without_prefix(tokenizer):
    tokenizer.normalizer = normalizers.Replace(" ", META)
    tokenizer.pre_tokenizer = None
    tokenizer.decoder = decoders.Sequence([decoders.Replace(META, " "), decoders.ByteFallback(), decoders.Fuse()])


def like_llama3(tokenizer):
    state = json.loads(tokenizer.to_str())["model"]
    tokenizer.model = models.BPE(vocab=state["vocab"], merges=[tuple(merge) for merge in state["merges"]], ignore_merges=True)


def like_qwen(tokenizer):
    tokenizer.normalizer = normalizers.NFC()


def like_smollm(tokenizer):
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])


def cases():
    """Yields the metadata, and a function that adds what transformers leaves out."""
    gemma = characters(["<pad>", "<eos>", "<bos>", "<unk>"], ["\n", "\n\n", "\n\n\n", "  ", "   ", "    ", "\t\t", "<think>"])
    yield ids_of(gemma | {"name": "gemma", "architecture": "gemma3", "model": "llama", "pre": "default", "add_bos_token": True,
                          "add_space_prefix": False}, bos="<bos>", eos="<eos>", unknown="<unk>", padding="<pad>"), None
    llama = characters(["<unk>", "<s>", "</s>"], ["<|end|>", "  "])
    yield llama | {"name": "llama", "architecture": "llama", "model": "llama"}, like_llama2
    yield ids_of(llama | {"name": "no prefix", "architecture": "llama", "model": "llama", "add_space_prefix": False,
                          "add_bos_token": False, "add_eos_token": True}, bos="<s>", eos="</s>", unknown="<unk>"), without_prefix
    some = of_bytes(["<s>", "</s>"], ["<|end|>", "<think>"])
    some = ids_of(some | {"architecture": "llama", "model": "gpt2"}, bos="<s>", eos="</s>")
    yield some | {"name": "gpt-2", "pre": "gpt-2"}, None
    yield some | {"name": "smollm", "pre": "smollm"}, like_smollm
    yield some | {"name": "refact", "pre": "refact"}, like_smollm
    yield some | {"name": "llama 3", "pre": "llama-bpe", "add_bos_token": True}, like_llama3
    yield ids_of(some | {"name": "qwen", "architecture": "qwen2", "pre": "qwen2", "add_bos_token": False}, padding="<|end|>"), like_qwen


def write(case, path):
    """Writes the metadata as a GGUF file."""
    writer = gguf.GGUFWriter(path, case["architecture"])
    for key in ("context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count",
                "attention.head_count_kv"):
        writer.add_uint32(f"{case['architecture']}.{key}", 8)
    writer.add_tokenizer_model(case["model"])
    writer.add_token_list(case["tokens"])
    writer.add_token_types(case["types"])
    for key, add in (("pre", writer.add_tokenizer_pre), ("scores", writer.add_token_scores), ("merges", writer.add_token_merges)):
        if key in case:
            add(case[key])
    for key, value in case.items():
        if key.endswith("_id"):
            writer.add_uint32(f"tokenizer.ggml.{key}", value)
        elif key.startswith("add_"):
            writer.add_bool(f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def reference(case, change, folder):
    """Returns the tokenizer of transformers with the parts that it leaves out. A vocabulary of SentencePiece without ids has
    the first three tokens of Llama 2."""
    named = case if "bos_token_id" in case else case | {"unknown_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    write(named, folder / "model.gguf")
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file="model.gguf")
    if change:
        change(tokenizer.backend_tokenizer)
    return tokenizer


def main():
    texts = TEXTS + nasty_texts(4, random.Random(3), NASTY)
    texts = [text.replace("\0", "") for text in texts]
    recorded = []
    for case, change in cases():
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = reference(case, change, pathlib.Path(folder))
        ids = [tokenizer(text)["input_ids"] for text in texts]
        recorded.append(case | {"ids": ids, "decoded": [tokenizer.decode(row, skip_special_tokens=True) for row in ids]})
    lines = [json.dumps(case) for case in recorded]
    (HERE / "gguf_cases.json").write_text('{"texts": ' + json.dumps(texts) + ',\n"cases": [\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
