#!/usr/bin/env python3
"""Compares `brasa classify` and `brasa tag` with transformers' pipelines, on random models of every encoder and random
texts: single label, several labels and regression; pairs; all five groups, and texts in parts. The models have random
values for the keys of config.json that change results.

    tests/pretrained/compare_pipelines.py BRASA [SEED [ROUNDS]]

BRASA is the command. A round has three folders of each family and head. Tokenizers are trained on the project's documents. The exit status is 1 if anything differs.
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
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402
from transformers import (AutoModelForSequenceClassification, AutoModelForTokenClassification,  # noqa: E402
                          TextClassificationPipeline, TokenClassificationPipeline)

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
TOKENIZERS = {"bert": transformers.BertTokenizer, "roberta": transformers.RobertaTokenizer,
              "xlm-roberta": transformers.XLMRobertaTokenizer, "camembert": transformers.CamembertTokenizer,
              "distilbert": transformers.BertTokenizer, "electra": transformers.BertTokenizer,
              "albert": transformers.AlbertTokenizer, "mpnet": transformers.MPNetTokenizer, "modernbert": None}
ACTIVATIONS = ["gelu", "relu", "gelu_new", "silu", "tanh", "quick_gelu", "mish"]
LABELS = [["O", "B-PER", "I-PER", "B-LOC", "I-LOC"], ["O", "PER", "LOC-X"], ["NOUN", "VERB", "O"]]
PROBLEMS = [None, "multi_label_classification", "regression"]
GROUPS = ["none", "simple", "first", "average", "max"]
OTHERS = ["É", "naïve", "日本語", "🙂", "don't", "Straße", "①", "...", "New  York", "O'Hara-Smith", "ÀÉ"]
POSITIONS, LIMIT, PART, STRIDE = 400, 62, 30, 5
TOLERANCE = 2e-5


def modernbert_tokenizer(lines):
    """Trains a byte-level BPE of ModernBERT's kind: texts are NFC, and some added tokens are matched in them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.decoder = normalizers.NFC(), decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                             special_tokens=specials, show_progress=False))
    tokenizer.add_tokens([AddedToken("  ", normalized=True), AddedToken("na\u00efve", normalized=True)])
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids)
    named = {f"{token[1:-1].lower()}_token": token for token in specials}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_input_names=["input_ids", "attention_mask"], **named)


def make_tokenizer(family, lines):
    cls = TOKENIZERS[family]
    return cls().train_new_from_iterator(lines, 600) if cls else modernbert_tokenizer(lines)


def random_keys(rng, family):
    """Returns random values for keys of config.json that change results and no label."""
    act, heads = rng.choice(ACTIVATIONS), rng.choice([1, 2, 4])
    if family == "distilbert":
        return dict(dim=16, n_layers=rng.randint(1, 3), n_heads=heads, hidden_dim=rng.randint(5, 40), activation=act)
    keys = dict(hidden_size=16, num_hidden_layers=rng.randint(1, 4), num_attention_heads=heads, intermediate_size=rng.randint(5, 40))
    if family == "modernbert":
        every = rng.randint(1, 4)
        keys |= {key: rng.random() < 0.5 for key in ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias")}
        keys |= dict(hidden_activation=act, classifier_activation=rng.choice(ACTIVATIONS), norm_eps=10 ** rng.uniform(-9, -2),
                     local_attention=rng.randint(1, 40), classifier_pooling=rng.choice(["cls", "mean"]),
                     layer_types=["sliding_attention" if i % every else "full_attention" for i in range(keys["num_hidden_layers"])])
        return keys | {"rope_parameters": {kind: {"rope_type": "default", "rope_theta": 10 ** rng.uniform(1, 6)}
                                           for kind in ("full_attention", "sliding_attention")}}
    keys |= dict(hidden_act=act, layer_norm_eps=10 ** rng.uniform(-9, -2))
    if family in ("bert", "electra", "albert"):
        keys["type_vocab_size"] = rng.randint(2, 4)
    if family in ("electra", "albert"):
        keys["embedding_size"] = rng.choice([16, 5, 12])
    if family == "albert":
        keys |= dict(num_hidden_groups=rng.randint(1, keys["num_hidden_layers"]), inner_group_num=rng.randint(1, 2))
    return keys


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
                   wanted.keys() == found.keys() and all(abs(wanted[k] - found[k]) <= TOLERANCE * (1 + abs(wanted[k])) for k in wanted))

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
        keys = random_keys(self.rng, family)
        what = family, case, keys
        labels = dict(enumerate(LABELS[case]))
        config = transformers.AutoConfig.for_model(
            family, **keys, vocab_size=len(tokenizer), max_position_embeddings=POSITIONS, id2label=labels,
            pad_token_id=tokenizer.pad_token_id, bos_token_id=0, eos_token_id=0, label2id={label: i for i, label in labels.items()})
        config.problem_type = PROBLEMS[case]
        for cls, compare in ((AutoModelForSequenceClassification, self.compare_classes),
                             (AutoModelForTokenClassification, self.compare_tags)):
            torch.manual_seed(self.rng.randrange(2**31))
            model = cls.from_config(config).eval()
            with torch.no_grad():
                for p in model.parameters():
                    p.normal_(0, 0.5)
            model.save_pretrained(self.folder)
            tokenizer.save_pretrained(self.folder)
            compare(what, model, tokenizer)


def main():
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)  # faster for small models
    lines = [line for path in sorted(DOCUMENTS.glob("*.md")) for line in path.read_text().split("\n")]
    words = [word for line in lines for word in line.split()]
    seed, rounds = (sys.argv[2:] + ["1", "1"][len(sys.argv) - 2:])[:2]
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(sys.argv[1], seed, words, folder)
        for family in TOKENIZERS:
            tokenizer = make_tokenizer(family, lines)
            for case in int(rounds) * list(range(len(LABELS))):
                comparison.compare(family, case, tokenizer)
    print(f"seed {seed}: {comparison.different} of {comparison.compared} results differ")
    sys.exit(comparison.different > 0)


if __name__ == "__main__":
    main()
