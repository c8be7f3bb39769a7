#!/usr/bin/env python3
"""Compares `brasa tokenize --model` with the AutoTokenizer of PyPI's `transformers` on random model folders, which
have every kind of tokenizer file, and side files with random keys.

    tests/tokenizers/compare_auto.py BRASA [FOLDERS [SEED]]

BRASA is the command. PyPI's `sentencepiece` and `protobuf` must be installed, too. A folder that
either of them refuses is only counted. The exit status is 1 if ids or type ids differ.
"""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors
from transformers import AutoTokenizer

from compare_added import PARTS, byte_level, letters, pieces, words

HERE = pathlib.Path(__file__).resolve().parent
TOKENS = ["<|BOS|>", "New York", "\u00c9t\u00e9", "<x>", "plain", "re"]
NAMES = {"bert": ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"], "gpt2": ["<|endoftext|>"], "t5": ["</s>", "<pad>", "<unk>", "<extra_id_0>", "<extra_id_7>"]}
ROLES = {"bert": ["unk", "cls", "sep", "pad", "mask"], "gpt2": ["bos", "eos", "pad"], "t5": ["eos", "unk", "pad"]}
STANDARD = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}
CLASSES = {"bert": "BertTokenizer", "gpt2": "GPT2Tokenizer", "t5": "T5Tokenizer"}
# Keys that the class does not use, and roles: null is valid for them.
NULLS = {"bert": ["add_prefix_space", "add_bos_token", "add_eos_token", "extra_ids", "image_token", "chat_template", "mask_token", "cls_token", "sep_token"],
         "gpt2": ["add_bos_token", "add_eos_token", "do_lower_case", "tokenize_chinese_chars", "extra_ids", "unk_token", "bos_token", "strip_accents"],
         "t5": ["add_prefix_space", "add_bos_token", "do_lower_case", "legacy", "pad_token", "image_token", "clean_up_tokenization_spaces"]}
CAPITALS = ["H\u00e9LLO", "\u4e2d\u6587", "\u00c9T\u00c9 ", "the ", " ", "new york", "<|bos|>"]


def base_files(rng, kind):
    """Returns the files with the vocabulary, and its size."""
    if kind == "bert":
        vocab = sorted(words(rng).get_vocab().items(), key=lambda item: item[1])
        tokens = [token for token, _ in vocab if token not in ("[MASK]", "[PAD]") or rng.random() < 0.8]
        return {"vocab.txt": "".join(token + "\n" for token in tokens)}, len(tokens)
    folder = HERE / ("bpe" if kind == "gpt2" else "unigram")
    names = ["vocab.json", "merges.txt"] if kind == "gpt2" else ["spiece.model"]
    return {name: folder / name for name in names}, 314 if kind == "gpt2" else 700


def saved_file(rng, kind):
    """Returns a tokenizer.json with the class's own settings where the keys do not state them, and its size."""
    tokenizer = {"bert": words, "gpt2": byte_level, "t5": pieces}[kind](rng)
    said = json.loads(tokenizer.to_str())
    if kind == "bert":
        for part in said["normalizer"].get("normalizers", [said["normalizer"]]):
            if part["type"] == "BertNormalizer":
                part.update(clean_text=True)
        cls, sep = [tokenizer.token_to_id(t) for t in ("[CLS]", "[SEP]")]
        tokenizer = Tokenizer.from_str(json.dumps(said))
        tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                                 special_tokens=[("[CLS]", cls), ("[SEP]", sep)])
        tokenizer.add_special_tokens(NAMES["bert"])
    elif kind == "gpt2":
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
        tokenizer.add_special_tokens(NAMES["gpt2"])
    else:
        tokenizer = Tokenizer.from_file(str(HERE / "unigram" / "tokenizer.json"))
    for token in rng.sample(TOKENS, rng.randint(0, 2)):
        tokenizer.add_tokens([AddedToken(token, normalized=rng.random() < 0.5)])
    return tokenizer


def token_object(rng, text, **more):
    flags = {name: rng.random() < 0.2 for name in ("lstrip", "rstrip", "single_word")}
    return {"content": text, **flags, "normalized": rng.random() < 0.5, **more}


def random_folder(rng):
    kind = rng.choice(list(CLASSES))
    files, size = base_files(rng, kind)
    tokenizer = saved_file(rng, kind) if rng.random() < 0.5 else None
    config, by_class = {}, rng.random() < 0.6
    if by_class:
        config["tokenizer_class"] = CLASSES[kind] + rng.choice(["", "Fast"])
    if tokenizer and rng.random() < 0.3:
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
    rebuilt = config.get("tokenizer_class") != "PreTrainedTokenizerFast"
    ids = {}
    if tokenizer:
        files = {"tokenizer.json": tokenizer.to_str()}
        size = tokenizer.get_vocab_size()
        ids = {t.content: i for i, t in tokenizer.get_added_tokens_decoder().items()}
    files["config.json"] = json.dumps({"model_type": kind})
    # With a tokenizer.json, a key that is absent counts as the class's default in transformers, but not in Brasa.
    for key in {"bert": ["do_lower_case", "strip_accents", "tokenize_chinese_chars"], "gpt2": ["add_prefix_space"], "t5": []}[kind]:
        if rng.random() < 0.5 or (tokenizer and rebuilt):
            config[key] = rng.choice([True, False] + [None] * (key == "strip_accents"))
    if kind == "gpt2" and rng.random() < 0.3:
        config[rng.choice(["add_bos_token", "add_eos_token"])] = rng.random() < 0.7
    if kind == "t5" and (rng.random() < 0.5 or (tokenizer and rebuilt)):
        config["extra_ids"] = 3 if tokenizer else rng.choice([0, 3, 100])
    if kind == "t5" and not tokenizer:
        size += config.get("extra_ids", 100)
    special = {}
    for role in ROLES[kind]:
        if rng.random() < 0.3:
            text = STANDARD[role] if kind == "bert" else {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}[role] if kind == "t5" else "<|endoftext|>"
            text = rng.choice([text, "<|BOS|>"]) if role in ("pad", "mask", "bos") else text
            special[role + "_token"] = text
    where = {}
    if rng.random() < 0.4:
        where = special
    else:
        config.update(special)
    if rng.random() < 0.3:
        config[rng.choice(["additional_special_tokens", "extra_special_tokens"])] = rng.sample(TOKENS, rng.randint(0, 2))
    if rng.random() < 0.2:
        config["image_token"] = "<x>"
    pieces_of_model = ["re"] + ["plain"] * (kind == "t5")  # another id for them is an error in Brasa
    added = [t for t in rng.sample(TOKENS, rng.randint(0, 3)) if t not in ids and t not in pieces_of_model]
    new = {t: size + i for i, t in enumerate(added)}
    style = rng.choice(["none", "decoder", "file"])
    if style == "decoder":
        known = {t: i for t, i in ids.items() if rng.random() < 0.9} if rebuilt else ids
        config["added_tokens_decoder"] = {str(i): token_object(rng, t, special=rng.random() < 0.5) for t, i in sorted({**known, **new}.items(), key=lambda x: x[1])}
    elif style == "file":
        files["added_tokens.json"] = json.dumps(new)
    if where:
        files["special_tokens_map.json"] = json.dumps({k: token_object(rng, t) if rng.random() < 0.5 else t for k, t in where.items()})
    for key in rng.sample(NULLS[kind], rng.choice([0, 0, 1, 3])):
        config.setdefault(key, None)
    if config or rng.random() < 0.5:
        files["tokenizer_config.json"] = json.dumps(config)
    return kind, files


def write(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        if isinstance(content, pathlib.Path):
            shutil.copy(content, folder / name)
        else:
            (folder / name).write_text(content, encoding="utf-8")


def random_text(rng):
    return "".join(rng.choices(PARTS + 3 * TOKENS + CAPITALS + sum(NAMES.values(), []), k=rng.randint(0, 12))).replace("\t", " ")


def wanted(folder, texts):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encodings = [tokenizer._tokenizer.encode(*text) for text in texts]
    return [(e.ids, e.type_ids) for e in encodings]


def got(brasa, folder, texts):
    result = []
    for pair in False, True:
        some = [t for t in texts if (len(t) == 2) == pair]
        file = folder / "texts"
        file.write_bytes("".join("\t".join(t) + "\0" for t in some).encode())
        command = [brasa, "tokenize", "--json", "--null", "--file", file, "--model", folder] + ["--pair"] * pair
        process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if process.returncode:
            raise ValueError(process.stderr.decode())
        result += [(e["ids"], e["type_ids"]) for e in map(json.loads, process.stdout.splitlines())]
    return result


def attempt(function, *arguments):
    try:
        return function(*arguments), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def main():
    brasa, count, seed = sys.argv[1], int((sys.argv[2:] or ["50"])[0]), int((sys.argv[3:] or ["1"])[0])
    rng = random.Random(seed)
    differences = refused = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "model"
        for turn in range(count):
            kind, files = random_folder(rng)
            write(folder, files)
            texts = [(random_text(rng),) for _ in range(40)] + [(random_text(rng), random_text(rng)) for _ in range(5)]
            want, problem = attempt(wanted, folder, texts)
            have, refusal = attempt(got, brasa, folder, texts)
            failed += problem is not None
            refused += refusal is not None and not problem
            if refusal and not problem:
                print(f"folder {turn}: refused: {refusal.strip()}")
            bad = [(t, h, w) for t, h, w in zip(texts, have or [], want or []) if list(h) != [list(x) for x in w]]
            if bad:
                differences += 1
                sides = {name: text for name, text in files.items() if name in (
                    "config.json", "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json")}
                print(f"folder {turn} ({kind}, {sorted(files)}): {len(bad)} of {len(texts)} texts differ\n  {sides}")
                print(f"  {bad[0][0]!a}\n  {bad[0][1]}\n  expected {bad[0][2]}")
    print(f"{count} folders, {differences} with differences, {refused} refused, {failed} that transformers refuses")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
