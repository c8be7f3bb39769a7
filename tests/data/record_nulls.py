#!/usr/bin/env python3
"""Writes null_cases.json for test_nulls.c: what null means for every key of a tokenizer's files, by PyPI's `tokenizers` for
tokenizer.json, and by the AutoTokenizer of `transformers` for the other files. `sentencepiece` and `protobuf` must be
installed, too.

Each record has the files of a folder, one of which is changed. "same" lists the paths (keys and indices separated by tabs)
whose null changes nothing, "refused" those that the reference refuses, and "other" has the ids that result. "harmless" lists keys that the reference
refuses, although they have no effect on ids; Brasa ignores null there."""
import copy
import json
import os
import pathlib
import re
import tempfile

os.environ["RUST_BACKTRACE"] = "0"

from tokenizers import Tokenizer

from compare_auto import HERE, write
from transformers import AutoTokenizer

TEXTS = ["A \u00e9 [CLS] a-b the re", "a  b", " ab </s> <|endoftext|> <x>", ""]
HARMLESS_KEYS = ["auto_map", "init_inputs", "fast_tokenizer_files", "model_input_names", "padding_side", "truncation_side"]
HARMLESS_PATHS = re.compile(r"version|post_processor\tspecial_tokens\t.*\t(id|tokens.*)|pre_tokenizer\ttrim_offsets|post_processor\tuse_regex|"
                            r"decoder\t(add_prefix_space|trim_offsets|use_regex|split)")
ROLES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "A", "\u00e9", "e", "-", "b", "##b", "the", "re"]


def known_keys():
    """Returns the keys of Brasa's table."""
    source = (HERE.parent.parent / "data" / "tokenizer_keys.c").read_text()
    return re.findall(r'\{ "(\w+)", BR_KEY', source) + ["image_token", "other"]


def flags(token, **more):
    return {"content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True, **more}


def words_json():
    ids = {token: i for i, token in enumerate(VOCAB)}

    def piece(kind, name, type_id):
        return {kind: {"id": name, "type_id": type_id}}
    single = [piece("SpecialToken", "[CLS]", 0), piece("Sequence", "A", 0), piece("SpecialToken", "[SEP]", 0)]
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [flags(VOCAB[i], id=i) for i in range(5)] + [{**flags("re", lstrip=True), "id": 13}],
            "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": single,
                               "pair": single + [piece("Sequence", "B", 1), piece("SpecialToken", "[SEP]", 1)],
                               "special_tokens": {t: {"id": t, "ids": [ids[t]], "tokens": [t]} for t in ("[CLS]", "[SEP]")}},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                      "vocab": ids}}


def paths(value, at=()):
    """Returns the paths of all values, except most tokens and merges."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, member in list(items)[:2] if at[-1:] in (("vocab",), ("merges",)) else items:
        yield at + (str(key),)
        yield from paths(member, at + (str(key),))


def with_null(value, path):
    value = copy.deepcopy(value)
    place = value
    for key in path[:-1]:
        place = place[int(key) if isinstance(place, list) else key]
    place[int(path[-1]) if isinstance(place, list) else path[-1]] = None
    return value


def encode(backend):
    return [backend.encode(text).ids for text in TEXTS]


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except BaseException as error:  # a panic is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def sort_results(base, results, harmless):
    """Returns the lists of a record. `results` has the ids for each path, or None."""
    refused = [path for path, ids in results.items() if ids is None]
    return {"ids": base, "same": [path for path, ids in results.items() if ids == base],
            "refused": [path for path in refused if not harmless(path)], "harmless": [path for path in refused if harmless(path)],
            "other": {path: ids for path, ids in results.items() if ids not in (None, base)}}


def record_json(name):
    """Records a tokenizer.json: that of VOCAB, or that of a folder."""
    copied = name != "words"
    content = json.loads((HERE / name / "tokenizer.json").read_text()) if copied else words_json()

    def ids_of(value):
        return encode(Tokenizer.from_str(json.dumps(value)))
    results = {"\t".join(path): attempt(ids_of, with_null(content, path)) for path in paths(content)}
    if name == "bpe":
        results["pre_tokenizer"] = None  # Brasa refuses this: tokens of characters, not of bytes
    files = {} if copied else {"tokenizer.json": json.dumps(content, separators=(",", ":"))}
    return {"alone": True, "changed": "tokenizer.json", "copies": {"tokenizer.json": f"{name}/tokenizer.json"} if copied else {},
            "files": files, **sort_results(ids_of(content), results, HARMLESS_PATHS.fullmatch)}


def record_folder(folder, changed, keys, copies, files):
    """Records a folder, one of whose files gets more keys."""
    def ids_of(more):
        content = {**json.loads(files[changed]), **more}
        write(folder, {**{name: HERE / path for name, path in copies.items()}, **files, changed: json.dumps(content)})
        return encode(AutoTokenizer.from_pretrained(folder)._tokenizer)
    results = {key: attempt(ids_of, {key: None}) for key in keys}
    return {"alone": False, "changed": changed, "copies": copies, "files": files, **sort_results(ids_of({}), results, HARMLESS_KEYS.__contains__)}


def folders():
    """Returns the copied files, other files, and keys of tokenizer_config.json of each folder."""
    words = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}
    text = json.dumps(words_json(), separators=(",", ":"))
    vocab = "".join(token + "\n" for token in VOCAB)
    return [({}, {"vocab.txt": vocab}, {"tokenizer_class": "BertTokenizer"}),
            ({}, {"tokenizer.json": text}, {"tokenizer_class": "BertTokenizer", **words}),
            ({}, {"tokenizer.json": text}, {"tokenizer_class": "PreTrainedTokenizerFast"}),
            ({"vocab.json": "bpe/vocab.json", "merges.txt": "bpe/merges.txt"}, {}, {"tokenizer_class": "GPT2Tokenizer"}),
            ({"tokenizer.json": "bpe/tokenizer.json"}, {}, {"tokenizer_class": "PreTrainedTokenizerFast"}),
            ({"spiece.model": "unigram/spiece.model"}, {}, {"tokenizer_class": "T5Tokenizer"}),
            ({"tokenizer.json": "unigram/tokenizer.json"}, {}, {"tokenizer_class": "PreTrainedTokenizerFast"})]


def main():
    records = [record_json(name) for name in ("words", "bpe", "unigram")]
    lists = ["additional_special_tokens", "extra_special_tokens", "image_token", "other"]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "model"
        for copies, files, config in folders():
            files = {**files, "tokenizer_config.json": json.dumps(config), "special_tokens_map.json": "{}"}
            # null as the class leads to the rules of a folder that names none, which differ: docs/tokenizer.md
            keys = [key for key in known_keys() if key != "tokenizer_class"]
            records.append(record_folder(folder, "tokenizer_config.json", keys, copies, files))
            records.append(record_folder(folder, "special_tokens_map.json", ROLES + lists, copies, files))
    text = ",\n".join(json.dumps(record, separators=(",", ":")) for record in records)
    (HERE / "null_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
