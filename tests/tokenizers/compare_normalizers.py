#!/usr/bin/env python3
"""Compares `brasa tokenize` with the fast tokenizer of PyPI's `tokenizers`, for tokenizers that normalize texts by
Unicode's forms: byte-level BPE with NFC, NFD, NFKC and NFKD, and Unigram with ALBERT's steps and with others.

    tests/tokenizers/compare_normalizers.py BRASA [TEXTS [SEED]]

BRASA is the command. TEXTS random texts are made for each tokenizer, of English, letters with accents, CJK, combining
marks, every script, and random bytes decoded with replacement; the code points, alone and beside marks, are compared
once. The exit status is 1 if anything differs.
"""
import pathlib
import random
import sys
import tempfile

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from compare_tokenizers import NASTY, code_points
from compare_unigram import FastComparison
from compare_unigram import NASTY as MORE_NASTY

FORMS = {"NFC": normalizers.NFC, "NFD": normalizers.NFD, "NFKC": normalizers.NFKC, "NFKD": normalizers.NFKD}
LATE = ["New York", "e\u0301t\u00e9", "\u212b", "  ", "|||URL|||", "\uac00", "\ufb01x"]
MARKS = "".join(map(chr, [0x300, 0x301, 0x302, 0x308, 0x323, 0x327, 0x328, 0x30c, 0x315, 0x334, 0x345, 0x3099, 0x309a, 0x5b0, 0x651, 0x93c, 0xf71,
                          0xf72, 0x1161, 0x11a8, 0x20dd, 0xe0100]))
BASES = "aeiouAEIOUcnsyzq " + "\u00ea\u00d6\u01a0\u1ea4\u03b1\u03c9\u1f00\u0438\u0928\u09c7\u0b47\u30ab\u30cf\u1100\u1112\uac00\ud588\u4e2d\uf900"
ACCENTS = "\u00e9\u00e8\u00fc\u00df\u00e7\u0151\u017f\u1e9e\u0130\u01c4\u01c5\ufb03\u2460\u00bd\u00a8\u00b4\u2126\u212a\u210c\u00b5\u2167\uff21\uff76\uff9e\u3392\u00a0\u2003"


def random_text(rng, lines):
    kind = rng.randrange(6)
    if kind == 0:
        words = rng.choice(lines).split()
        return " ".join(words[:rng.randint(0, 12)])
    if kind == 1:
        return "".join(rng.choices(ACCENTS + "abc de", k=rng.randint(0, 20)))
    if kind == 2:
        return "".join(rng.choice(BASES) + "".join(rng.choices(MARKS, k=rng.choice([0, 0, 1, 1, 2, 3, 6]))) for _ in range(rng.randint(0, 10)))
    if kind == 3:
        return "".join(rng.choices(NASTY + MORE_NASTY + LATE + ["``", "''", '"'], k=rng.randint(0, 16)))
    if kind == 4:
        return "".join(chr(rng.choice([rng.randint(0x4e00, 0x9fff), rng.randint(0x3040, 0x30ff), rng.randint(0xac00, 0xd7a3),
                                       rng.randint(0xf900, 0xfaff), rng.randint(0x1100, 0x11ff), rng.randint(0xff00, 0xffef)]))
                       for _ in range(rng.randint(0, 12)))
    return rng.randbytes(rng.randint(0, 24)).decode("utf-8", "replace")


def byte_level(lines, form, size=700):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = FORMS[form]()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=form == "NFKD")
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["[CLS]", "[SEP]"],
                                  show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_tokens([AddedToken(token, normalized=i % 3 < 2, lstrip=i == 4) for i, token in enumerate(LATE)])
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    around = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids)
    tokenizer.post_processor = around if form == "NFC" else processors.ByteLevel(trim_offsets=form == "NFD")
    return tokenizer


def albert_steps(charsmap):
    n = normalizers
    return n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(), charsmap])


def pieces(lines, normalizer, small, size=800):
    """Returns a Unigram tokenizer whose pieces are learned from the texts."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()]) if small else normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(vocab_size=size, special_tokens=["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"], unk_token="<unk>",
                                      show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_tokens([AddedToken(token, normalized=True) for token in LATE[:3]])
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                             special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")])
    return tokenizer


def make_tokenizers(lines, charsmap):
    n = normalizers
    made = {form: byte_level(lines, form) for form in FORMS}
    made["ALBERT"] = pieces(lines, albert_steps(charsmap), True)
    made["ALBERT with case and accents"] = pieces(lines, n.Sequence([n.Replace("``", '"'), n.Replace("''", '"'), charsmap]), False)
    made["other steps"] = pieces(lines, n.Sequence([n.Lowercase(), n.NFC(), n.StripAccents(), n.Strip(), n.NFKC()]), True)
    made["one step"] = pieces(lines, n.NFD(), False)
    return made


def main():
    brasa, count, seed = sys.argv[1], int((sys.argv[2:] or ["20000"])[0]), (sys.argv[3:] or ["1"])[0]
    rng = random.Random(seed)
    sources = sorted((pathlib.Path(__file__).resolve().parents[2] / "docs").glob("*.md"))
    lines = [line for path in sources for line in path.read_text().split("\n") if line.strip()]
    lines += [ACCENTS, BASES]
    # Any map will do: T5's tests have a small one.
    charsmap = Tokenizer.from_file(str(pathlib.Path(__file__).resolve().parent / "unigram" / "tokenizer.json")).normalizer
    everything = [c for c in code_points() if c != "\0"]
    beside = [rng.choice(BASES) + c + rng.choice(MARKS) for c in everything]
    everything, beside = [[" ".join(some[i:i + 10]) for i in range(0, len(some), 10)] for some in (everything, beside)]
    with tempfile.TemporaryDirectory() as folder:
        comparison = FastComparison(brasa, folder)
        for name, tokenizer in make_tokenizers(lines, charsmap).items():
            file = pathlib.Path(folder) / "tokenizer.json"
            tokenizer.save(str(file))
            tokenizer = Tokenizer.from_file(str(file))
            texts = [random_text(rng, lines).replace("\0", "") for _ in range(count)]
            for what, some in ("every code point", everything), ("code points beside others", beside), ("random texts", texts):
                if count >= 20000 or what == "random texts":
                    comparison.run(f"{name}, {what}", tokenizer, some, ["--tokenizer", file])
        print(f"seed {seed}: {comparison.compared} texts compared, {comparison.differences} differences")
        sys.exit(1 if comparison.differences else 0)


if __name__ == "__main__":
    main()
