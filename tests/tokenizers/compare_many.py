#!/usr/bin/env python3
"""Compares `brasa tokenize` with PyPI's `tokenizers` on very many random texts for each kind of tokenizer: everything that
compare_tokenizers.py compares.

    tests/tokenizers/compare_many.py BRASA [TEXTS [SEED [KIND]]]

BRASA is the command; TEXTS is the number of texts of each kind, 1,000,000 if it is not given. KIND is WordPiece,
byte-level BPE, Unigram or BPE of characters, all if it is not given. A kind has several tokenizers with different
settings, which share its texts. Half of the texts are made of difficult strings, half of words of the project's documents
with difficult strings between and within them. The exit status is 1 if anything differs.
"""
import pathlib
import random
import sys
import tempfile

from tokenizers import Tokenizer, normalizers, pre_tokenizers, trainers
from tokenizers.models import WordPiece

import compare_bpe
import compare_bpe_characters
import compare_bpe_families
import compare_tokenizers
import compare_unigram
from compare_tokenizers import Comparison

DOCUMENTS = sorted((pathlib.Path(__file__).resolve().parents[2] / "docs").glob("*.md"))
AT_ONCE = 20000


class WithoutTokens(Comparison):
    """Compares everything but tokens, because `tokenizers` returns the text of an unknown token."""

    def check(self, label, texts, got, want):
        for encoding in got, want:
            encoding.pop("tokens", None)
        super().check(label, texts, got, want)


# ---- Tokenizers -----------------------------------------------------------------------------------


def word_pieces(lines, folder):
    """Yields a WordPiece tokenizer with each of the settings of compare_tokenizers.py."""
    trained = Tokenizer(WordPiece(unk_token="[UNK]"))
    trained.normalizer, trained.pre_tokenizer = normalizers.BertNormalizer(lowercase=False), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=3000, special_tokens=compare_tokenizers.SPECIALS, show_progress=False,
                                        initial_alphabet=[c for c in compare_tokenizers.NASTY if len(c) == 1])
    trained.train_from_iterator(lines + [line.lower() for line in lines], trainer)
    for settings in compare_tokenizers.SETTINGS.values():
        yield compare_tokenizers.make(trained.get_vocab(), settings)


def byte_level(lines, folder):
    """Yields the byte-level BPE of GPT-2, with and without a space before a text, and of other families."""
    plain = compare_bpe.trained(DOCUMENTS, 2000)
    yield compare_bpe.with_settings(plain)
    yield compare_bpe.with_settings(plain, prefix_space=True)
    for parts in compare_bpe_families.FAMILIES.values():
        yield compare_bpe_families.of_family(plain, *parts)


def unigram(lines, folder):
    """Yields T5's tokenizer, with bytes for unknown characters, and with ALBERT's way to split."""
    proto = compare_unigram.train(DOCUMENTS, folder, "t5", 3000)[1]
    with_bytes = compare_unigram.train(DOCUMENTS, folder, "bytes", 2000, byte_fallback=True)[1]
    yield compare_unigram.converted(proto)
    yield compare_unigram.converted(with_bytes, byte_fallback=True)
    yield compare_unigram.converted(proto, pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="always"))
    yield compare_unigram.converted(proto, pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False))


def characters(lines, folder):
    """Yields the BPE over characters of Llama 2, Mistral, Gemma and others."""
    parts = compare_bpe_characters.trained(lines, 2000)
    for family in compare_bpe_characters.FAMILIES.values():
        yield compare_bpe_characters.of_family(parts, *family, template=not family[3])


KINDS = {"WordPiece": (word_pieces, compare_tokenizers.NASTY, Comparison),
         "byte-level BPE": (byte_level, compare_bpe.NASTY, Comparison),
         "Unigram": (unigram, compare_unigram.NASTY, WithoutTokens),
         "BPE of characters": (characters, compare_bpe.NASTY + compare_bpe_characters.MORE, Comparison)}

# ---- Texts ----------------------------------------------------------------------------------------


def mixed_text(rng, words, alphabet):
    """Returns words with difficult strings between and within them."""
    parts = []
    for _ in range(rng.randint(1, 12)):
        word = rng.choice(words)
        cut = rng.randrange(len(word) + 1)
        within = rng.choice(alphabet) if rng.random() < 0.2 else ""
        parts += [word[:cut], within, word[cut:], rng.choice(alphabet) if rng.random() < 0.1 else " "]
    return "".join(parts)


def random_texts(n, rng, words, alphabet):
    half = compare_tokenizers.nasty_texts(n // 2, rng, alphabet)
    return [text.replace("\0", "") for text in half + [mixed_text(rng, words, alphabet) for _ in range(n - n // 2)]]


def compare(brasa, kind, count, seed, lines):
    """Compares texts of a kind, a few at a time, and returns the number of differences."""
    make, alphabet, compares = KINDS[kind]
    rng, words = random.Random(f"{seed} {kind}"), [word for line in lines for word in line.split()]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        comparison, tokenizers = compares(brasa, folder), list(make(lines, folder))
        for number in range(0, count, AT_ONCE):
            path, turn = folder / "tokenizer.json", number // AT_ONCE % len(tokenizers)
            tokenizers[turn].save(str(path))
            texts = random_texts(min(AT_ONCE, count - number), rng, words, alphabet)
            # Reading the file changes the last bit of some scores.
            comparison.run(f"{kind} {turn}", Tokenizer.from_file(str(path)), texts, ["--tokenizer", path])
    print(f"{kind}: {comparison.differences} of {comparison.compared} texts differ", flush=True)
    return comparison.differences


def main():
    brasa, *rest = sys.argv[1:]
    count, seed = [int(x) for x in rest[:2] + ["1000000", "1"][len(rest[:2]):]]
    lines = [line for path in DOCUMENTS for line in path.read_text("utf-8").split("\n")]
    sys.exit(any([compare(brasa, kind, count, seed, lines) for kind in rest[2:] or KINDS]))


if __name__ == "__main__":
    main()
