#!/usr/bin/env python3
"""Writes char_bpe/ and char_bpe_cases.json for test_char_bpe.c: BPE over characters with byte fallback as in Llama 2,
Gemma and Mistral, texts, random ids, and the results of PyPI's `tokenizers`."""
import json
import pathlib
import random

from compare_bpe import NASTY
from compare_bpe_characters import FAMILIES, META, MORE, of_family, trained
from compare_tokenizers import nasty_texts
from record_tokenizer import wanted

HERE = pathlib.Path(__file__).resolve().parent
LEARNT = (["the time flies like an arrow, and the fruit flies like a banana"] * 4 + ["they're there; 12 of them at 10:45."] * 3
          + ["def f(x):", "    return x", "        # 4 + 4"] * 3 + ["\u4f60\u597d\u4e16\u754c \u4f60\u597d"] * 3)
TEXTS = ["time flies like an arrow", "", " ", "  a  b ", "    return the\n\n  x\ty", "e" * 30, " " * 9 + "the", META, META + "the " + META,
         "a\0b", "<s>a</s> b<|end|> c<s", "time<s> flies</s>", "\u00e9e\u0301 \u4f60\u597d\u4e2d \U0001f600\U0001f468\u200d", "<0x41>\u00ff",
         "e t, the"]


def cases(parts):
    rng = random.Random(3)
    texts = TEXTS + nasty_texts(4, rng, NASTY + MORE)
    for name, family in FAMILIES.items():
        tokenizer = of_family(parts, *family)
        said = json.loads(tokenizer.to_str())
        parts_of_family = {key: said[key] for key in ("added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder")}
        encoded = []
        for text in texts:
            for more in [], [texts[0]]:
                encoding = tokenizer.encode(text, *more)
                encoded.append({"texts": [text, *more], "want": wanted(encoding, [text, *more]),
                                "decoded": tokenizer.decode(encoding.ids)})
        byte = tokenizer.token_to_id("<0x00>")
        decoded = []
        for _ in range(12):
            ids = [rng.choice([rng.randrange(tokenizer.get_vocab_size()), byte + rng.randrange(256),
                               tokenizer.token_to_id(META), tokenizer.token_to_id("\u4f60")]) for _ in range(rng.randint(0, 9))]
            decoded.append({"ids": ids, "decoded": tokenizer.decode(ids)})
        yield {"name": name, "parts": parts_of_family, "texts": encoded, "ids": decoded}


def main():
    parts = trained(LEARNT, 350)
    (HERE / "char_bpe").mkdir(exist_ok=True)
    of_family(parts, *FAMILIES["Llama 2"]).save(str(HERE / "char_bpe" / "tokenizer.json"), pretty=False)
    text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases(parts))
    (HERE / "char_bpe_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
