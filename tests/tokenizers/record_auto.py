#!/usr/bin/env python3
"""Writes auto_cases.json for test_auto_tokenizer.c: small model folders, texts, and their ids and type ids by the
AutoTokenizer of PyPI's `transformers`. PyPI's `sentencepiece` and `protobuf` must be installed, too."""
import json
import pathlib
import random
import tempfile

from compare_auto import HERE, attempt, random_folder, random_text, wanted, write

PER_KIND, LARGEST = {"bert": 6, "gpt2": 5, "t5": 5}, 9000


def main():
    rng, recorded, left = random.Random(8), [], dict(PER_KIND)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "model"
        while any(left.values()):
            kind, files = random_folder(rng)
            texts = [(random_text(rng),) for _ in range(5)] + [(random_text(rng), random_text(rng))]
            own = {name: text for name, text in files.items() if isinstance(text, str)}
            write(folder, files)
            results, problem = attempt(wanted, folder, texts)
            sides = len(own) > 1 + ("tokenizer.json" in own or "vocab.txt" in own)
            if problem or not left[kind] or not sides or sum(map(len, own.values())) > LARGEST:
                continue
            left[kind] -= 1
            copies = {name: str(path.relative_to(HERE)) for name, path in files.items() if name not in own}
            cases = [{"texts": t, "ids": ids, "type_ids": types} for t, (ids, types) in zip(texts, results)]
            recorded.append({"copies": copies, "files": own, "cases": cases})
    text = ",\n".join(json.dumps(r, separators=(",", ":")) for r in recorded)
    (HERE / "auto_cases.json").write_text(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main()
