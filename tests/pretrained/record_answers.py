#!/usr/bin/env python3
"""Writes answers.json: what the pipeline "question-answering" of transformers 4 gives, with the model
tests/models/encoders/bert2 and a small vocabulary. test_answers.c compares.

    record_answers.py > answers.json

Requires torch and transformers 4 from PyPI, because transformers 5 has no such pipeline; written with 4.57.6.
"""
import json
import random
import tempfile
from pathlib import Path

from transformers import AutoModelForQuestionAnswering, BertTokenizerFast, QuestionAnsweringPipeline
from transformers.utils import logging

from record_pipelines import make

QUESTIONS = ["john met", "in london", "ada , loves"]
CONTEXTS = ["Ada Lovelace met John in London", "lovelaces, LOVELACES - lovelaces", "Xavier  \u00c4da", "in"]
CONTEXTS += [" ".join(random.Random(i).choices(["ada", "love", "Lovelace", "Xavier", "in", "london", "loves", "john-lace"], k=9)) for i in range(4)]
SETTINGS = [{}, {"top_k": 9, "max_seq_len": 9, "doc_stride": 1, "handle_impossible_answer": True}, {"top_k": 4}, {"top_k": 3, "handle_impossible_answer": True}, {"top_k": 5, "align_to_words": False},
            {"top_k": 6, "max_answer_len": 2}, {"top_k": 3, "max_seq_len": 10, "doc_stride": 2}, {"top_k": 1, "max_answer_len": 1, "align_to_words": False}]


def main():
    logging.set_verbosity_error()
    recorded = {"questions": QUESTIONS, "contexts": CONTEXTS, "cases": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorded["words"] = make(folder, None)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k not in ("id2label", "label2id")}))
        tokenizer = BertTokenizerFast.from_pretrained(folder)
        tokenizer.model_max_length = 14  # the number of positions
        pipe = QuestionAnsweringPipeline(model=AutoModelForQuestionAnswering.from_pretrained(folder), tokenizer=tokenizer)
        for i, settings in enumerate(SETTINGS):
            for k, context in enumerate(CONTEXTS):
                if settings.get("max_seq_len") == 9 and k not in (0, 2, 3):
                    continue  # in other contexts, answers of probability 0 change the offsets of equal ones
                question = (i + k) % len(QUESTIONS)
                given = {"max_seq_len": 14, "doc_stride": 3} | settings
                answers = pipe(question=QUESTIONS[question], context=context, **given)
                answers = [a for a in (answers if isinstance(answers, list) else [answers]) if a["score"] > 0]
                recorded["cases"].append({"question": question, "context": k, "settings": given,
                                          "answers": [[float(a["score"]), a["start"], a["end"], a["answer"]] for a in answers]})
    print(json.dumps(recorded))


if __name__ == "__main__":
    main()
