#!/usr/bin/env python3
"""Compares `brasa classify` and `brasa tag` with transformers' pipelines, on random models of every encoder and random
texts: single label, several labels and regression; pairs; all five groups, and texts in parts.

    tests/pretrained/compare_pipelines.py BRASA [SEED]

BRASA is the command. Tokenizers are trained on the project's documents. The exit status is 1 if anything differs.
Requires torch and transformers from PyPI.
"""
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TQDM_DISABLE"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import (AutoModelForSequenceClassification, AutoModelForTokenClassification,  # noqa: E402
                          TextClassificationPipeline, TokenClassificationPipeline)

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
TOKENIZERS = {"bert": transformers.BertTokenizer, "roberta": transformers.RobertaTokenizer,
              "xlm-roberta": transformers.XLMRobertaTokenizer, "camembert": transformers.CamembertTokenizer,
              "distilbert": transformers.BertTokenizer, "electra": transformers.BertTokenizer,
              "mpnet": transformers.MPNetTokenizer}
LABELS = [["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], ["O", "PER", "LOC-X"], ["NOUN", "VERB", "O"]]
PROBLEMS = [None, "multi_label_classification", "regression"]
GROUPS = ["none", "simple", "first", "average", "max"]
OTHERS = ["É", "naïve", "日本語", "🙂", "don't", "Straße", "①", "...", "New  York", "O'Hara-Smith", "ÀÉ"]
POSITIONS, LIMIT, PART, STRIDE = 400, 62, 30, 5
TOLERANCE = 2e-5


class Comparison:
    def __init__(self, brasa, seed, words, folder):
        self.brasa, self.rng, self.words, self.folder = brasa, random.Random(seed), words, Path(folder)
        self.compared = self.different = 0

    def texts(self, n, most):
        rng = self.rng
        return [" ".join(rng.choice(self.words if rng.random() < 0.85 else OTHERS) for _ in range(rng.randint(1, most)))
                for _ in range(n)]

    def run(self, command, *arguments):
        done = subprocess.run([self.brasa, command, "-m", self.folder, "--json", *arguments], capture_output=True, text=True)
        if done.returncode:
            self.different += 1
            print(f"{command}: {done.stderr}")
            return []
        return [json.loads(line) for line in done.stdout.splitlines()]

    def run_texts(self, command, texts, *arguments):
        path = self.folder / "texts"
        path.write_text("".join(text + "\n" for text in texts))
        return self.run(command, "-f", str(path), *arguments)

    def check(self, what, same):
        self.compared += 1
        if not same:
            self.different += 1
            print("differs:", *what)

    def check_scores(self, what, wanted, row):
        wanted = {w["label"]: w["score"] for w in wanted}
        found = {f["label"]: f["score"] for f in row["labels"]}
        self.check((*what, wanted, found),
                   wanted.keys() == found.keys() and all(abs(wanted[k] - found[k]) <= TOLERANCE for k in wanted))

    def check_entities(self, what, wanted, row):
        names = [(w.get("entity_group", w.get("entity")), w["start"], w["end"]) for w in wanted]
        found = [(f["label"], f["start"], f["end"]) for f in row["entities"]]
        self.check((*what, names, found), names == found and all(
            abs(w["score"] - f["score"]) <= TOLERANCE for w, f in zip(wanted, row["entities"])))

    def compare_classes(self, what, model, tokenizer):
        pipe, texts = TextClassificationPipeline(model=model, tokenizer=tokenizer), self.texts(12, 14)
        for text, row in zip(texts, self.run_texts("classify", texts, "-k", "9")):
            self.check_scores((*what, text), pipe([text], top_k=None)[0], row)
        pairs = list(zip(texts[::2], texts[1::2]))
        rows = self.run("classify", "-k", "9", "--pair", "--", *[text for pair in pairs for text in pair])
        for (text, pair), row in zip(pairs, rows):
            self.check_scores((*what, text, pair), pipe({"text": text, "text_pair": pair}, top_k=None), row)

    def compare_tags(self, what, model, tokenizer):
        texts, longer = self.texts(12, 14), self.texts(6, 80)
        for group in GROUPS:
            tokenizer.model_max_length = LIMIT
            pipe = TokenClassificationPipeline(model=model, tokenizer=tokenizer, aggregation_strategy=group)
            for text, row in zip(texts, self.run_texts("tag", texts, "-l", str(LIMIT), "-g", group)):
                self.check_entities((*what, group, text), pipe(text), row)
            if group == "none":
                continue
            pipe = TokenClassificationPipeline(model=model, tokenizer=tokenizer, aggregation_strategy=group, stride=STRIDE)
            tokenizer.model_max_length = PART
            for text, row in zip(longer, self.run_texts("tag", longer, "-l", str(PART), "--stride", str(STRIDE), "-g", group)):
                self.check_entities((*what, group, "parts", text), pipe(text), row)

    def compare(self, family, case, tokenizer):
        sizes = dict(dim=16, n_layers=2, n_heads=2, hidden_dim=20) if family == "distilbert" else dict(
            hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20)
        labels = dict(enumerate(LABELS[case]))
        config = transformers.AutoConfig.for_model(
            family, **sizes, vocab_size=len(tokenizer), max_position_embeddings=POSITIONS, id2label=labels,
            pad_token_id=tokenizer.pad_token_id, label2id={label: i for i, label in labels.items()})
        config.problem_type = PROBLEMS[case]
        for cls, compare in ((AutoModelForSequenceClassification, self.compare_classes),
                             (AutoModelForTokenClassification, self.compare_tags)):
            torch.manual_seed(case)
            model = cls.from_config(config).eval()
            with torch.no_grad():
                for p in model.parameters():
                    p.normal_(0, 0.5)
            model.save_pretrained(self.folder)
            tokenizer.save_pretrained(self.folder)
            compare((family, case), model, tokenizer)


def main():
    transformers.logging.set_verbosity_error()
    lines = [line for path in sorted(DOCUMENTS.glob("*.md")) for line in path.read_text().split("\n")]
    words = [word for line in lines for word in line.split()]
    seed = sys.argv[2] if len(sys.argv) > 2 else "1"
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(sys.argv[1], seed, words, folder)
        for family, cls in TOKENIZERS.items():
            tokenizer = cls().train_new_from_iterator(lines, 600)
            for case in range(len(LABELS)):
                comparison.compare(family, case, tokenizer)
    print(f"seed {seed}: {comparison.different} of {comparison.compared} results differ")
    sys.exit(comparison.different > 0)


if __name__ == "__main__":
    main()
