#!/usr/bin/env python3
"""Writes bpe/ and bpe_cases.json for test_bpe.c: a byte-level BPE, texts, and the results of the fast
tokenizer in PyPI's `tokenizers`."""
import json
import pathlib
import random
import tempfile

from tokenizers import processors

from compare_bpe import NASTY, trained, with_settings
from compare_tokenizers import nasty_texts
from record_tokenizer import wanted

HERE = pathlib.Path(__file__).resolve().parent
LEARNT = ("the time flies like an arrow and the fruit flies like a banana, don't they? " * 4 +
          "they're there; I'll see 12 or 1234 of them at 10:45.\n" * 3)
TEXTS = ["time flies like an arrow", "", " ", "  a  b ", "don't I'LL we've\n\n  x", "x" * 30, " " * 9 + "the",
         "a\0b", "<|endoftext|>a<|end|> b<|endoftext|", "\u00e9e\u0301 \u4e2d\u6587 \U0001f600\U0001f468\u200d", "\u1c89a \u2028 1\u0661\u00bd",
         "\tthe fruit"]


def case(tokenizer, texts, **more):
    encoding = tokenizer.encode(*texts)
    return {"json": False, "prefix": False, "trim": False, "texts": texts, "max_length": 0, "stride": 0,
            "want": wanted(encoding, texts), "decoded": tokenizer.decode(encoding.ids)} | more


def cases(plain):
    rng = random.Random(3)
    texts = TEXTS + nasty_texts(4, rng, NASTY)
    for settings in {}, {"prefix": True}, {"trim": True}:
        tokenizer = with_settings(plain, settings.get("prefix", False), settings.get("trim"), normalized=(True,))
        for text in texts:
            yield case(tokenizer, [text], **settings)
    for length, stride in (5, 2), (9, 0):
        tokenizer.enable_truncation(length, stride=stride)
        for text in texts:
            yield case(tokenizer, [text], trim=True, max_length=length, stride=stride)
    own = with_settings(plain, normalized=(False, True, True))
    own.save(str(HERE / "bpe" / "tokenizer.json"), pretty=False)
    for text in texts:
        yield case(own, [text], json=True)
        yield case(own, [text, texts[0]], json=True)


def templates():
    """Yields the post-processors that transformers 5 writes for fast tokenizers, and others that exist."""
    begin, end, ids = "<|endoftext|>", "<|end|>", {}
    for first in "", begin:
        for last in "", end:
            single = f"{first + ':0 ' if first else ''}$A:0{' ' + last + ':0' if last else ''}"
            pair = f"{single}{' ' + first + ':1' if first else ''} $B:1{' ' + last + ':1' if last else ''}"
            yield single, pair
    yield f"{begin}:0 $A:0", f"{begin}:0 $A:0 $B:1"
    yield f"{begin}:0 $A:0 {end}:0", f"{begin}:0 $A:0 {end}:0 {begin}:0 $B:0 {end}:0"


def template_cases(plain):
    base = with_settings(plain, normalized=(False, True, True))
    specials = [(t, base.token_to_id(t)) for t in ("<|endoftext|>", "<|end|>")]
    texts = ["time flies", "", " a<|end|>  b "]
    for single, pair in templates():
        used = [s for s in specials if s[0] in pair]
        template = processors.TemplateProcessing(single=single, pair=pair, special_tokens=used)
        for trim in False, True:
            if trim:
                template = processors.Sequence([processors.ByteLevel(trim_offsets=True), template])
            base.post_processor = template
            said = json.loads(base.to_str())["post_processor"]
            for text in texts:
                yield case(base, [text], template=said)
                yield case(base, [text, texts[0]], template=said)
            if "$B:1" in pair:  # with "$B:0", `tokenizers` still gives the overflow type 1, which Brasa does not
                base.enable_truncation(6)
                yield case(base, [texts[0], "a b"], template=said, max_length=6)
                base.no_truncation()


def main():
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(LEARNT)
        file.flush()
        plain = trained([file.name], 320)
    (HERE / "bpe").mkdir(exist_ok=True)
    plain.model.save(str(HERE / "bpe"))
    text = ",\n".join(json.dumps(c, separators=(",", ":")) for c in [*cases(plain), *template_cases(plain)])
    (HERE / "bpe_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
