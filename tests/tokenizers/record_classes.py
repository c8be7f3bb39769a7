#!/usr/bin/env python3
"""Writes class_cases.json, normal/fairseq.model and normal/albert.model for test_auto_tokenizer.c: folders of RoBERTa,
XLM-RoBERTa, CamemBERT, ALBERT and MPNet without tokenizer.json, and of Llama 2's kind with it, texts, and their ids and type ids by the AutoTokenizer
of PyPI's `transformers`. PyPI's `sentencepiece` and `protobuf` must be installed, too."""
import json
import pathlib
import random
import tempfile

from compare_auto import wanted, write
from compare_normalizers import ACCENTS, random_text
from compare_unigram import train
from record_unigram import RULES

HERE = pathlib.Path(__file__).resolve().parent
WORDS = "<s>\n<pad>\n</s>\n[UNK]\nthe\nlicense\n##s\n##e\na\nb\nc\ne\n\u00e9\n,\n.\n\u4e2d\n"
TEXTS = ["", "The license, \u00c9t\u00e9 ``x''", "a <mask>b </s> [MASK] <unk>", "\u4e2d\u6587 A\u0301 \u2122"]


def models(folder):
    """Trains a model with the first pieces of fairseq's, and one with those of ALBERT's."""
    rules = folder / "rules.tsv"
    rules.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in RULES.items()))
    settings = {"fairseq": dict(pad_id=-1, unk_id=0, bos_id=1, eos_id=2),
                "albert": dict(pad_id=0, unk_id=1, eos_id=-1, control_symbols=["[CLS]", "[SEP]", "[MASK]"])}
    for name, ids in settings.items():
        model, proto = train([HERE.parents[1] / "LICENSE"], folder, name, 300, normalization_rule_tsv=str(rules), **ids)
        del proto.trainer_spec.input[:]  # the paths of the training files
        proto.trainer_spec.model_prefix = proto.normalizer_spec.normalization_rule_tsv = ""
        (HERE / "normal" / f"{name}.model").write_bytes(proto.SerializeToString())


def roberta_files():
    """Returns the files of GPT-2's kind with RoBERTa's special tokens."""
    tokens = json.loads((HERE / "bpe" / "vocab.json").read_text())
    vocab = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3} | {token: i + 4 for token, i in tokens.items()}
    return {"vocab.json": json.dumps(vocab | {"<mask>": len(vocab)}), "merges.txt": HERE / "bpe" / "merges.txt"}


def folders():
    bpe, fairseq, albert = roberta_files(), HERE / "normal" / "fairseq.model", HERE / "normal" / "albert.model"
    spm = {"sentencepiece.bpe.model": fairseq}
    yield "roberta", bpe, None
    yield "xlm-roberta", spm, None
    yield "xlm-roberta", spm, {"tokenizer_class": "XLMRobertaTokenizerFast", "add_prefix_space": False, "mask_token": "<mask>"}
    yield "camembert", spm, None
    yield "albert", {"spiece.model": albert}, None
    yield "albert", {"spiece.model": albert}, {"do_lower_case": False, "keep_accents": True}
    yield "mpnet", {"vocab.txt": WORDS + "<mask>\n"}, None
    yield "mpnet", {"vocab.txt": WORDS}, {"do_lower_case": False, "tokenize_chinese_chars": False, "tokenizer_class": "MPNetTokenizer"}
    yield from replaced_parts()


def replaced_parts():
    """Yields folders of Llama 2's kind with classes that replace parts of tokenizer.json."""
    characters, bytes_ = [{"tokenizer.json": HERE / name / "tokenizer.json"} for name in ("char_bpe", "bpe")]
    for name, more in [("LlamaTokenizer", {}), ("LlamaTokenizerFast", {"legacy": True, "add_bos_token": False}),
                       ("LlamaTokenizer", {"add_prefix_space": False}), ("LlamaTokenizer", {"add_prefix_space": None, "legacy": False}),
                       ("GemmaTokenizer", {"legacy": True})]:
        yield "llama", characters, {"tokenizer_class": name, "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"} | more
    for model_type in "mistral", "phi3", "granite", "modernbert":  # which follow the file
        yield model_type, characters, {"tokenizer_class": "LlamaTokenizer"}
    yield "llama", bytes_, {"tokenizer_class": "LlamaTokenizerFast", "bos_token": "a", "eos_token": "b", "unk_token": "c"}


def main():
    rng, recorded = random.Random(6), []
    lines = [line for line in (HERE.parents[1] / "LICENSE").read_text().split("\n") if line.strip()] + [ACCENTS]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        models(folder)
        for model_type, files, config in folders():
            files = files | {"config.json": json.dumps({"model_type": model_type})}
            if config:
                files["tokenizer_config.json"] = json.dumps(config)
            texts = TEXTS + [random_text(rng, lines).replace("\0", "") for _ in range(6)]
            texts = [(text,) for text in texts] + [tuple(texts[1:3]), tuple(texts[4:6])]
            write(folder / "model", files)
            cases = [{"texts": t, "ids": ids, "type_ids": types} for t, (ids, types) in zip(texts, wanted(folder / "model", texts))]
            copies = {name: str(path.relative_to(HERE)) for name, path in files.items() if isinstance(path, pathlib.Path)}
            own = {name: text for name, text in files.items() if isinstance(text, str)}
            recorded.append({"copies": copies, "files": own, "cases": cases})
    text = ",\n".join(json.dumps(r, separators=(",", ":")) for r in recorded)
    (HERE / "class_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
