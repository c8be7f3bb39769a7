#!/usr/bin/env python3
"""Compares `brasa answer` with the pipeline "question-answering" of transformers 4, on random models and texts.

    tests/pretrained/compare_answers.py BRASA [SEED [CASES]]

BRASA is the command. Settings are random: the number of answers, their length, parts of contexts, no answer, and answers
within words. Answers of probability 0, which only transformers has, are left out. The exit status is 1 if anything
differs. Requires torch and transformers 4 from PyPI; transformers 5 has no such pipeline. Used with 4.57.6.
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
from transformers import AutoModelForQuestionAnswering, QuestionAnsweringPipeline  # noqa: E402

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
TOKENIZERS = {"bert": transformers.BertTokenizerFast, "roberta": transformers.RobertaTokenizerFast,
              "distilbert": transformers.DistilBertTokenizerFast, "electra": transformers.ElectraTokenizerFast,
              "mpnet": transformers.MPNetTokenizerFast}
OTHERS = ["\u00c9", "na\u00efve", "\u65e5\u672c\u8a9e", "\U0001f642", "don't", "Stra\u00dfe", "STRASSE", "\u2460", "...", "New  York", "O'Hara-Smith"]
POSITIONS, TOLERANCE = 600, 2e-5


def make_tokenizer(family, lines):
    """Trains a tokenizer of the family's class on lines of text."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    if family == "roberta":
        tokenizer, trainer = Tokenizer(models.BPE()), trainers.BpeTrainer
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    else:
        specials = ["<s>", "<pad>", "</s>", "[UNK]", "<mask>"] if family == "mpnet" else ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        tokenizer, trainer = Tokenizer(models.WordPiece(unk_token="[UNK]")), trainers.WordPieceTrainer
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    alphabet = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()} if family == "roberta" else {}
    tokenizer.train_from_iterator(lines, trainer(vocab_size=700, special_tokens=specials, show_progress=False, **alphabet))
    ids = {token: tokenizer.token_to_id(token) for token in specials}
    if "<s>" in ids:
        tokenizer.post_processor = processors.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]), True, False)
    else:
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return TOKENIZERS[family](tokenizer_object=tokenizer)


class Comparison:
    def __init__(self, brasa, seed, words, folder):
        self.brasa, self.rng, self.words, self.folder = brasa, random.Random(seed), words, Path(folder)
        self.compared = self.different = 0

    def text(self, most):
        rng = self.rng
        return " ".join(rng.choice(self.words if rng.random() < 0.85 else OTHERS) for _ in range(rng.randint(1, most)))

    def settings(self):
        """Returns random settings of the pipeline, and the same for the command."""
        rng = self.rng
        chosen = {"top_k": rng.choice([1, 1, 2, 5, 20]), "max_answer_len": rng.choice([1, 3, 15, 40]),
                  "handle_impossible_answer": rng.random() < 0.4, "align_to_words": rng.random() < 0.7}
        given = ["-k", str(chosen["top_k"]), "--max-answer", str(chosen["max_answer_len"])]
        given += ["--impossible"] * chosen["handle_impossible_answer"] + ["--split-words"] * (not chosen["align_to_words"])
        if rng.random() < 0.6:
            chosen |= {"max_seq_len": rng.randint(60, 90), "doc_stride": rng.randint(1, 12)}
            given += ["-l", str(chosen["max_seq_len"]), "--stride", str(chosen["doc_stride"])]
        return chosen, given

    def found(self, question, context, given):
        done = subprocess.run([self.brasa, "answer", "-m", self.folder, "--json", "-q", question, *given, "--", context],
                              capture_output=True, text=True)
        return json.loads(done.stdout)["answers"] if done.returncode == 0 else done.stderr

    def compare(self, family, pipe):
        question, context = self.text(8), self.text(self.rng.choice([6, 60, 200]))
        chosen, given = self.settings()
        wanted = pipe(question=question, context=context, **chosen)
        wanted = [w for w in (wanted if isinstance(wanted, list) else [wanted]) if w["score"] > 0]
        found = self.found(question, context, given)
        self.compared += 1
        # Answers of nearly equal scores may change places.
        same = isinstance(found, list) and len(found) == len(wanted) and all(
            abs(f["score"] - w["score"]) <= TOLERANCE and any(
                (f["start"], f["end"], f["answer"]) == (x["start"], x["end"], x["answer"]) and abs(x["score"] - w["score"]) <= TOLERANCE
                for x in wanted) or (w is wanted[-1] and abs(f["score"] - w["score"]) <= TOLERANCE)
            for f, w in zip(found, wanted))
        if not same:
            self.different += 1
            print("differs:", family, chosen, repr(question), repr(context), *(wanted, found), sep="\n  ")


def make_model(family, tokenizer, seed):
    sizes = dict(dim=16, n_layers=2, n_heads=2, hidden_dim=20) if family == "distilbert" else dict(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=20)
    config = transformers.AutoConfig.for_model(family, **sizes, vocab_size=len(tokenizer), max_position_embeddings=POSITIONS,
                                               pad_token_id=tokenizer.pad_token_id)
    torch.manual_seed(seed)
    model = AutoModelForQuestionAnswering.from_config(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(0, 0.7)
    return model


def main():
    transformers.logging.set_verbosity_error()
    lines = [line for path in sorted(DOCUMENTS.glob("*.md")) for line in path.read_text().split("\n")]
    words = [word for line in lines for word in line.split()]
    seed, cases = (sys.argv[2:] + ["1", "60"][len(sys.argv) - 2:])[:2]
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(sys.argv[1], seed, words, folder)
        for number, family in enumerate(TOKENIZERS):
            tokenizer = make_tokenizer(family, lines)
            model = make_model(family, tokenizer, number)
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            pipe = QuestionAnsweringPipeline(model=model, tokenizer=tokenizer)
            for _ in range(int(cases)):
                comparison.compare(family, pipe)
    print(f"seed {seed}: {comparison.different} of {comparison.compared} results differ")
    sys.exit(comparison.different > 0)


if __name__ == "__main__":
    main()
