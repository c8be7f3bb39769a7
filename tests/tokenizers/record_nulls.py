#!/usr/bin/env python3
"""Writes null_cases.json for test_nulls.c: what each key of a tokenizer's files means if it is null, absent, or has another
value, by PyPI's `tokenizers` for tokenizer.json, and by the AutoTokenizer of `transformers` for the other files.
`sentencepiece` and `protobuf` must be installed, too.

Each record has the files of a folder, one of which is changed, and the change: "absent" removes a key, "opposite" negates a
boolean, and any other change is the key's new value. "same" lists the paths (keys and indices separated by tabs) whose
change has no effect, "refused" those that the reference refuses, and "other" has the results for the other paths: the ids,
word ids and decoded ids of each text. "harmless" lists keys whose change the reference refuses, although they have no
effect; Brasa ignores them."""
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

TEXTS = ["A \u00e9 [CLS] a-b the re", "a  b", " ab </s> <|endoftext|> <x>", "", "they're the\u2581the , \u4e2d re "]
HARMLESS_KEYS = ["auto_map", "init_inputs", "fast_tokenizer_files", "model_input_names", "padding_side", "truncation_side"]
HARMLESS_PATHS = re.compile(r"version|post_processor\tspecial_tokens\t.*\t(id|tokens.*)|pre_tokenizer\ttrim_offsets|post_processor\tuse_regex|"
                            r"decoder\t(add_prefix_space|trim_offsets|use_regex|split)")
# Missing fields, which the reference refuses. In Brasa, flags are false, and the others have the values of words_json().
FLAGS = re.compile(r"added_tokens\t\d+\t(single_word|lstrip|rstrip|normalized|special)")
USUAL = re.compile(r"normalizer\t(clean_text|handle_chinese_chars|lowercase)|decoder\t(prefix|cleanup)|"
                   r"model\t(unk_token|continuing_subword_prefix|max_input_chars_per_word)|" + HARMLESS_PATHS.pattern)
# Changes that Brasa refuses: other ids of added tokens, byte-level tokens without their pattern, other forms of a template.
UNSUPPORTED = {("words", "absent"): ["model vocab [PAD]", "post_processor single 1", "post_processor special_tokens [CLS] ids 0",
                                     "post_processor special_tokens [SEP] ids 0"],
               ("bpe", None): ["pre_tokenizer"],
               ("bpe", "absent"): ["pre_tokenizer", "added_tokens 1", "model vocab <|endoftext|>", "model vocab !"],
               ("bpe", "opposite"): ["model byte_fallback", "pre_tokenizer use_regex"],
               ("unigram", "absent"): ["pre_tokenizer pretokenizers 1", "post_processor single 0", "model vocab 0", "model vocab 1",
                                       "post_processor special_tokens </s> ids 0"]}
ROLES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]
BOOLEANS = ["do_lower_case", "strip_accents", "tokenize_chinese_chars", "add_prefix_space", "add_bos_token", "add_eos_token",
            "split_special_tokens", "clean_up_tokenization_spaces", "do_basic_tokenize", "legacy", "use_fast", "trim_offsets"]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "A", "\u00e9", "e", "-", "b", "##b", "the", "re"]


def known_keys():
    """Returns the keys of Brasa's table."""
    source = (HERE.parent.parent / "tokenizers" / "tokenizer_config_keys.c").read_text()
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


def changed(value, path, change):
    """Returns a copy of the value with the change at the path, or None if there is nothing to negate."""
    value = copy.deepcopy(value)
    place = value
    for key in path[:-1]:
        place = place[int(key) if isinstance(place, list) else key]
    key = int(path[-1]) if isinstance(place, list) else path[-1]
    if change == "opposite" and not isinstance(place[key], bool):
        return None
    if change == "absent":
        del place[key]
    else:
        place[key] = not place[key] if change == "opposite" else change
    return value


def results_of(backend, decode):
    """Returns the ids, word ids and decoded ids of each text."""
    encodings = [backend.encode(text) for text in TEXTS]
    return [[e.ids, [-1 if word is None else word for word in e.word_ids], decode(e.ids, skip_special_tokens=True)] for e in encodings]


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except BaseException as error:  # a panic is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        return None


def sort_results(base, results, harmless):
    """Returns the lists of a record. `results` has the results for each path, or None."""
    refused = [path for path, result in results.items() if result is None]
    return {"results": base, "same": [path for path, result in results.items() if result == base],
            "refused": [path for path in refused if not harmless(path)], "harmless": [path for path in refused if harmless(path)],
            "other": {path: result for path, result in results.items() if result not in (None, base)}}


def record_json(name, change):
    """Records a tokenizer.json: that of VOCAB, or that of a folder."""
    copied = name != "words"
    content = json.loads((HERE / name / "tokenizer.json").read_text()) if copied else words_json()

    def results_for(value):
        backend = Tokenizer.from_str(json.dumps(value))
        return results_of(backend, backend.decode)
    values = {"\t".join(path): changed(content, path, change) for path in paths(content)}
    if change == "absent":
        values.update({path: changed(content, path.split("\t"), False) for path in values if FLAGS.fullmatch(path)})
    results = {path: attempt(results_for, value) for path, value in values.items() if value is not None}
    if (name, change) == ("bpe", "absent"):
        del results["pre_tokenizer\tadd_prefix_space"]  # refused; Brasa's default is true, which another test checks
    for path in UNSUPPORTED.get((name, change), []):
        results[path.replace(" ", "\t")] = None
    files = {} if copied else {"tokenizer.json": json.dumps(content, separators=(",", ":"))}
    return {"alone": True, "changed": "tokenizer.json", "change": change,
            "copies": {"tokenizer.json": f"{name}/tokenizer.json"} if copied else {}, "files": files,
            **sort_results(results_for(content), results, (USUAL if change == "absent" else HARMLESS_PATHS).fullmatch)}


def record_folder(folder, changed_file, keys, change, copies, files):
    """Records a folder, one of whose files gets more keys."""
    def results_for(more):
        content = {**json.loads(files[changed_file]), **more}
        write(folder, {**{name: HERE / path for name, path in copies.items()}, **files, changed_file: json.dumps(content)})
        tokenizer = AutoTokenizer.from_pretrained(folder)
        return results_of(tokenizer._tokenizer, tokenizer.decode)
    results = {key: attempt(results_for, {key: change}) for key in keys}
    if change is True and any("unigram" in path for path in copies.values()):
        del results["split_special_tokens"]  # a special token that is a piece: docs/tokenizer.md
    return {"alone": False, "changed": changed_file, "change": change, "copies": copies, "files": files,
            **sort_results(results_for({}), results, HARMLESS_KEYS.__contains__)}


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


def changes_of_folder():
    """Returns for each change of a key of tokenizer_config.json: the keys, and those of special_tokens_map.json."""
    # null as the class leads to the rules of a folder that names none, which differ: docs/tokenizer.md
    known, lists = [key for key in known_keys() if key != "tokenizer_class"], ["additional_special_tokens", "extra_special_tokens"]
    roles = ROLES + ["image_token"]
    return [(None, known, ROLES + lists + ["image_token", "other"]), (True, BOOLEANS, []), (False, BOOLEANS, []),
            ("re", roles, roles), ({"__type": "AddedToken", "content": "A"}, roles, roles), (["b", "the"], lists, lists)]


def main():
    records = [record_json(name, change) for name in ("words", "bpe", "unigram") for change in (None, "absent", "opposite")]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "model"
        for copies, files, config in folders():
            files = {**files, "tokenizer_config.json": json.dumps(config), "special_tokens_map.json": "{}"}
            for change, keys, map_keys in changes_of_folder():
                records.append(record_folder(folder, "tokenizer_config.json", keys, change, copies, files))
                if map_keys:
                    records.append(record_folder(folder, "special_tokens_map.json", map_keys, change, copies, files))
    text = ",\n".join(json.dumps(record, separators=(",", ":")) for record in records)
    (HERE / "null_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
