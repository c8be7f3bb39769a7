#!/usr/bin/env python3
"""Writes pipelines.json: what transformers' pipelines give for texts, with the model tests/models/encoders/bert2 and a
small vocabulary. test_pipeline.c compares.

    record_pipelines.py > pipelines.json

Requires torch and transformers from PyPI; written with 5.24.0.
"""
import json
import random
import tempfile
from pathlib import Path

import torch
from sentence_transformers import CrossEncoder
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForSequenceClassification, AutoModelForTokenClassification, BertTokenizer,
                          TextClassificationPipeline, TokenClassificationPipeline)
from transformers.utils import logging

MODEL = Path(__file__).resolve().parent.parent / "models" / "encoders" / "bert2"
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ada", "love", "##lace", "##s", "met", "john", "in", "lon", "##don",
         ",", "-"]
LABELS = ["O", "B-PER", "I-PER"]
BIAS = [-0.5, 0.3, 0.5]  # of the classifier, whose weight is doubled, so that all labels occur
TEXTS = ["Ada Lovelace met John in London", "john-john, lovelaces", "", "in in Xavier London", "\u00c4da  met lovelaces, ada"]
TEXTS += [" ".join(random.Random(i).choices(["ada", "love", "lovelace", "Xavier", "in", "london", "loves", "john-lace"], k=4))
          for i in range(10)]
PAIRS = [("ada", "met john"), ("in london", ","), ("lovelaces", "lovelaces , in -")]
QUERY = "met lovelace in london"
PROMPTS = {"prompts": {"a": "in london ", "b": "ada , "}, "default_prompt_name": "a"}
LONG = "ada lovelace met john in london , in london john met ada - ada lovelace"


def make(folder, problem_type):
    tensors = load_file(MODEL / "model.safetensors")
    tensors["classifier.bias"] = torch.tensor(BIAS)
    tensors["classifier.weight"] *= 2
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((MODEL / "config.json").read_text())
    config |= {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)},
               "problem_type": problem_type}
    (folder / "config.json").write_text(json.dumps(config))
    words = WORDS + [f"[unused{i}]" for i in range(config["vocab_size"] - len(WORDS))]
    (folder / "vocab.txt").write_text("".join(word + "\n" for word in words))
    return words


def rank(folder, changes, limit, prompts=None, **options):
    """Returns the scores of the texts by a cross-encoder with the first label only. Its prompts are saved with it."""
    make(folder, None)
    tensors = load_file(folder / "model.safetensors")
    for name in ("classifier.weight", "classifier.bias"):
        tensors[name] = tensors[name][:1].contiguous()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config |= {"id2label": {0: "LABEL_0"}, "label2id": {"LABEL_0": 0}, **changes}
    (folder / "config.json").write_text(json.dumps(config))
    BertTokenizer.from_pretrained(folder, model_max_length=limit).save_pretrained(folder)
    if prompts:
        saved = folder / "saved"
        CrossEncoder(str(folder), device="cpu", local_files_only=True, **prompts).save_pretrained(str(saved))
        folder = saved
    model = CrossEncoder(str(folder), device="cpu", local_files_only=True)
    return [float(x) for x in model.predict([(QUERY, text) for text in TEXTS], **options)]


def scores(results):
    found = {result["label"]: result["score"] for result in results}
    return [found[label] for label in LABELS]


def entities(results):
    return [[r.get("entity_group", r.get("entity")), float(r["score"]), r["start"], r["end"]] for r in results]


def main():
    logging.set_verbosity_error()
    recorded = {"labels": LABELS, "texts": TEXTS, "pairs": PAIRS, "long": LONG, "scores": {}, "entities": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for problem_type in (None, "single_label_classification", "multi_label_classification", "regression"):
            recorded["words"] = make(folder, problem_type)
            tokenizer = BertTokenizer.from_pretrained(folder)
            pipe = TextClassificationPipeline(model=AutoModelForSequenceClassification.from_pretrained(folder),
                                              tokenizer=tokenizer)
            recorded["scores"][str(problem_type)] = [scores(pipe(text, top_k=None)) for text in TEXTS]
        recorded["pair_scores"] = [scores(pipe({"text": a, "text_pair": b}, top_k=None)) for a, b in PAIRS]
        tokenizer.model_max_length = 14  # the number of positions
        model = AutoModelForTokenClassification.from_pretrained(folder)
        for strategy in ("none", "simple", "first", "average", "max"):
            pipe = TokenClassificationPipeline(model=model, tokenizer=tokenizer, aggregation_strategy=strategy)
            recorded["entities"][strategy] = [entities(pipe(text)) for text in TEXTS]
        pipe = TokenClassificationPipeline(model=model, tokenizer=tokenizer, aggregation_strategy="first", stride=2)
        tokenizer.model_max_length = 8
        recorded["parts"] = entities(pipe(LONG))
        recorded["all"] = entities(pipe(TEXTS[0], ignore_labels=[]))
        identity = "torch.nn.modules.linear.Identity"
        recorded["ranks"] = {
            "plain": rank(folder, {}, 14), "short": rank(folder, {}, 9),
            "new": rank(folder, {"sentence_transformers": {"activation_fn": identity}}, 14),
            "old": rank(folder, {"sbert_ce_default_activation_function": identity}, 14),
            "prompt": rank(folder, {}, 14, PROMPTS), "other prompt": rank(folder, {}, 14, PROMPTS, prompt_name="b")}
        recorded["query"] = QUERY
    print(json.dumps(recorded))


if __name__ == "__main__":
    main()
