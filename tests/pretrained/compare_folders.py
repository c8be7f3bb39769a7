#!/usr/bin/env python3
"""Compares Brasa with transformers and sentence-transformers on random model folders of every type of the zoo: ids of
texts, results of the model, embeddings, and generated text. Brasa also saves each model, as its class and as the base
class, and transformers must load the same weights, configuration and tokenizer from the saved folder as from the first.

    tests/pretrained/compare_folders.py BRASA LIBRARY [FOLDERS [SEED [NUMBER]]] [--kinds KINDS]

BRASA is the command and LIBRARY the shared library. KINDS are `encoders`, `decoders`, or model types with commas between
them. Side files have random keys whose values are not their defaults: eight folders of a model type have all of them.
With NUMBER, only that folder is made, in a new temporary folder that is kept. The exit status is 1 if anything differs,
if Brasa refuses a folder for a reason that DOCUMENTED lacks, or if a refusal does not name the file and the key. Requires
torch, transformers, sentence-transformers, sentencepiece and protobuf from PyPI.
"""
import argparse
import collections
import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
os.environ["TQDM_DISABLE"] = "1"

import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402
from transformers import AutoConfig, AutoTokenizer, GenerationConfig  # noqa: E402

from random_folders import make_folder, random_text, refused_keys  # noqa: E402
from random_models import DECODERS, ENCODERS, GENERATORS, KINDS, LONGEST, MODELS  # noqa: E402
from folder_models import (NO_CACHE, NO_CHUNKS, Library, Refusal, exact_results, in_double_precision,  # noqa: E402
                           load, make_batch, reference)
from compare_auto import got  # noqa: E402

# Refusals of folders that transformers accepts. These are parts of the messages.
DOCUMENTED = [
    "_config.json: do_lower_case is true, but this is supported only for WordPiece",  # docs/auto_model.md
    "add_prefix_space and trim_offsets are both true, which is not supported",  # only for offsets: docs/tokenizer.md
    "add_prefix_space and post_processor.trim_offsets are both true, which is not supported",
    "rope_scaling.type is not read by transformers beside layers of two kinds",  # docs/zoo.md
    "no token is left, all logits are -inf",  # then transformers chooses token 0
    ", but with tokenizer.json it gets id ",  # ids that differ from tokenizer.json's: docs/tokenizer.md
]


def documented(refusal):
    """Returns the reason of a refusal that the documents name, or None."""
    return next((part for part in DOCUMENTED if part in str(refusal)), None)


# ---- Numbers --------------------------------------------------------------------------------------


def deviation(have, double, others, epsilon):
    """Returns the largest error of `have` as a multiple of the tolerance; `double` is the exact result, `epsilon` the
    rounding of the dtype. The tolerance is 8 times the largest error of `others`, plus 16 roundings of the largest element.
    `others` are transformers' result in the dtype and, for models that amplify small differences, exact results with
    weights moved by half a rounding. Without these, a result that is accurate by chance would make the tolerance too small.
    Returns 0 if a result of transformers is not finite: then the dtype cannot represent what the model computes."""
    if have.shape != double.shape:
        return float("inf")
    if not all(torch.isfinite(t).all() for t in (double, *others)):
        return 0
    error = max((other.double() - double).abs().max() for other in others)
    allowed = 8 * error + 16 * epsilon * double.abs().max()
    own = (have.double() - double).abs().max()
    return (own / allowed).item() if own else 0


# ---- Comparing ------------------------------------------------------------------------------------


class Comparison:
    def __init__(self, brasa, library):
        self.brasa, self.library = brasa, Library(library)
        self.counts = dict.fromkeys(["ids", "results", "embeddings", "texts", "saved models", "refused keys"], 0)
        self.refused = collections.Counter()  # folders that are refused for each reason
        self.problems = []
        self.unanswered = []  # errors of transformers
        self.close = 0

    def problem(self, what):
        self.problems.append(what)

    def run(self, *arguments):
        process = subprocess.run([self.brasa, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if process.returncode:
            raise Refusal(process.stderr.decode(errors="replace").strip())
        return process.stdout.decode()

    def step(self, function, folder, *arguments):
        """Calls a comparison. It is a problem if Brasa refuses what transformers accepts; the opposite is only counted."""
        name = function.__name__
        try:
            function(folder, *arguments)
        except Refusal as error:
            self.refused[documented(error)] += 1
            if not documented(error):
                self.problem(f"{name}: refused: {error}")
        except Exception as error:
            self.unanswered.append(f"{name}: {type(error).__name__}: {error}")

    def ids(self, folder, texts, want):
        try:
            have = got(self.brasa, folder.model, texts)
        except ValueError as error:
            raise Refusal(error) from error
        self.counts["ids"] += len(texts)
        for text, h, w in zip(texts, have, want):
            if tuple(map(list, h)) != tuple(map(list, w)):
                return self.problem(f"ids of {text!a}: {h[0]}\n  expected {w[0]}")

    def results(self, folder, batch):
        """Compares the results in the dtype of the folder, and those in f64."""
        for dtype in None, torch.float64:
            self.results_in(folder, batch, dtype)

    def results_in(self, folder, batch, dtype):
        model = load(folder.model_class, folder.model, dtype or "auto")
        double = exact_results(model, folder, batch)
        others = [exact_results(model, folder, batch, seed) for seed in range(2)]
        if not dtype:
            others.append(reference(model, folder.kind, batch))
        # transformers has 10 digits of the constant of gelu_fast.
        least = 1e-12 if "gelu_fast" in json.dumps(model.config.to_dict()) else 0
        have, found = self.library.results(folder, batch, dtype)
        if found != model.dtype:
            self.problem(f"the model has dtype {found} instead of {model.dtype}")
        for key, value in have.items():
            self.counts["results"] += 1
            want, near = double[key], [other[key] for other in others]
            if want.dim() >= 2 and want.shape[:2] == batch[2].shape == value.shape[:2]:  # padding has no defined results
                value, want, *near = (t[batch[2].bool()] for t in (value, want, *near))
            error = deviation(value, want, near, max(torch.finfo(found).eps, least))
            if not error <= 1:  # or it is NaN
                self.problem(f"{folder.model_class.__name__}: {key} in {found} differs by {error:.3g} times what is allowed")

    def saved(self, folder, model_class, texts, want):
        """Saves the folder's model as a class, and compares what transformers loads from both folders."""
        target = folder.path.with_name(folder.path.name + "-" + model_class.__name__)
        self.library.save(folder, model_class.__name__, target)
        self.counts["saved models"] += 1
        (model, info), (first, first_info) = [
            model_class.from_pretrained(path, dtype="auto", attn_implementation="eager", output_loading_info=True)
            for path in (target, folder.model)]
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            if info[kind]:
                self.problem(f"saved {model_class.__name__}: {kind} {info[kind]}")
        have, expected = model.state_dict(), first.state_dict()
        keys = expected.keys() - set(first_info["missing_keys"]) | have.keys() ^ expected.keys()
        different = [key for key in keys if key not in have or key not in expected or not same_bits(have[key], expected[key])]
        if different:
            self.problem(f"saved {model_class.__name__}: {len(different)} of {len(keys)} weights differ: {different[0]}")
        own = folder.path.with_name("own")
        first.save_pretrained(own)
        keys, own_keys = [set(load_file(path / "model.safetensors")) for path in (target, own)]
        has_old_names = any(key.endswith("LayerNorm.gamma") for key in own_keys)  # which transformers writes again
        if keys != own_keys and not first_info["missing_keys"] and not has_old_names:
            self.problem(f"saved {model_class.__name__}: keys {keys ^ own_keys} are in one of Brasa's and transformers' files")
        self.saved_files(folder, model_class, target, texts, want)

    def saved_files(self, folder, model_class, target, texts, want):
        config, first = [json.loads((path / "config.json").read_text()) for path in (target, folder.model)]
        if AutoConfig.from_pretrained(target).architectures != [model_class.__name__]:
            self.problem(f"saved {model_class.__name__}: architectures is {config.get('architectures')}")
        for key in first.keys() - {"architectures", "dtype", "torch_dtype"}:
            if config.get(key) != first[key]:
                self.problem(f"saved {model_class.__name__}: {key} is {config.get(key)} instead of {first[key]}")
        order = [key for key in config if key in first]
        if order != list(first) or config.keys() - first.keys() - {"architectures", "dtype"}:
            self.problem(f"saved {model_class.__name__}: the keys are {list(config)} instead of {list(first)}")
        if encode(AutoTokenizer.from_pretrained(target), texts) != want:
            self.problem(f"saved {model_class.__name__}: other ids")
        if (folder.model / "generation_config.json").exists() and GenerationConfig.from_pretrained(target) != GenerationConfig.from_pretrained(folder.model):
            self.problem(f"saved {model_class.__name__}: another generation_config.json")
        if folder.sentence and folder.path == folder.model and model_class is MODELS[folder.kind][0]:
            rows = [sentence_embeddings(dataclasses.replace(folder, path=path), None, [text for text, *_ in texts[:3]], None, "auto")
                    for path in (target, folder.path)]
            if not all(map(torch.equal, *rows)):
                self.problem("saved folder of sentence-transformers: other embeddings")

    def embeddings(self, folder, tokenizer, texts):
        """Compares embeddings in f32, and those of sentence-transformers also in the dtype of the folder."""
        rows = sentence_embeddings if folder.sentence else mean_embeddings
        single, double = [rows(folder, tokenizer, texts, dtype) for dtype in (torch.float32, torch.float64)]
        same = self.compare_embeddings(folder, texts, ["--dtype", "f32"], single, double)
        own = sentence_embeddings(folder, tokenizer, texts, "own", "auto") if folder.sentence and same else single
        if own[0].dtype != torch.float32:
            double = sentence_embeddings(folder, tokenizer, texts, torch.float64, "auto")
            self.compare_embeddings(folder, texts, [], own, double)

    def compare_embeddings(self, folder, texts, options, near, double):
        lines = self.run("embed", *options, "--json", "--model", folder.path, "--", *texts).splitlines()
        have = torch.tensor([json.loads(line)["embedding"] for line in lines])
        epsilon = max(torch.finfo(near[0].dtype).eps, torch.finfo(torch.float32).eps)  # Brasa's are f32
        self.counts["embeddings"] += len(texts)
        for text, h, s, d in zip(texts, have, near, double):
            error = deviation(h, d, [s], epsilon)
            if not error <= 1:
                self.problem(f"embedding of {text!a} ({near[0].dtype}) differs by {error:.3g} times what is allowed: "
                             f"{h[:4].tolist()}\n  expected {d[:4].tolist()}")
                return False
        return True

    def generated(self, folder, model, tokenizer, prompts):
        for prompt in prompts:
            have = self.run("generate", "--dtype", "f32", "--model", folder.model, "--", prompt)
            want, decided = generated_text(folder, model, tokenizer, prompt)
            self.counts["texts"] += 1
            if have != want + "\n" and not decided:
                self.close += 1
            elif have != want + "\n":
                return self.problem(f"text after {prompt!a}: {have!a}\n  expected {want!a}")

    def refusal(self, path, key, value, use):
        """Sets a key to a value that is not supported, and checks that the message of use() names file, key and value."""
        path.write_text(json.dumps(value))
        shown = f"{path.name}: {key} is {json.dumps(value[key], separators=(',', ':'))}"
        try:
            use()
            self.problem(f"{shown} without an error")
        except Refusal as error:
            self.counts["refused keys"] += 1
            if shown not in str(error) and not documented(error):
                self.problem(f"{shown}, but the error does not name it: {error}")


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.flatten().view(torch.uint8).equal(b.flatten().view(torch.uint8))


def exactly(folder, dtype):
    base = MODELS[folder.kind][0]
    return in_double_precision(base) if dtype == torch.float64 else contextlib.nullcontext()


def sentence_embeddings(folder, tokenizer, texts, dtype, loaded=torch.float32):
    """Returns embeddings by a model that is loaded in one dtype and converted to another. "own": not converted. None: to
    any other, so that the weights are copied and their alignment in the file does not change the last bits."""
    with exactly(folder, dtype):
        model = SentenceTransformer(str(folder.path), device="cpu", local_files_only=True,
                                    model_kwargs={"dtype": loaded, "attn_implementation": "eager"},
                                    config_kwargs=NO_CHUNKS)
        other = torch.float64 if model.dtype == torch.float32 else torch.float32
        model = model if dtype == "own" else model.to(dtype or other)
        # One text at a time, because texts that are padded on the left have other positions in a batch.
        return [model.encode([text], convert_to_tensor=True)[0] for text in texts]


def mean_embeddings(folder, tokenizer, texts, dtype):
    rows = []
    with exactly(folder, dtype):
        model = load(MODELS[folder.kind][0], folder.model, torch.float32).to(dtype)
        for ids, types in encode(tokenizer, [(text,) for text in texts]):
            batch = [torch.tensor([row]) for row in (ids, types, [1] * len(ids))]
            states = reference(model, folder.kind, batch)["last_hidden_state"][0]
            rows.append(torch.nn.functional.normalize(states.mean(0), dim=0))
    return rows


def encode(tokenizer, texts):
    return [(e.ids, e.type_ids) for e in (tokenizer._tokenizer.encode(*text) for text in texts)]


def generated_text(folder, model, tokenizer, prompt):
    """Returns transformers' text as `brasa generate` prints it, and whether rounding cannot change it: no step had two
    tokens whose scores are nearly equal."""
    ids = torch.tensor([encode(tokenizer, [(prompt,)])[0][0]])
    torch.manual_seed(0)
    # Cached keys keep their factors of longrope.
    more = {"use_cache": True} if '"longrope"' in json.dumps(model.config.to_dict()) else NO_CACHE
    out = model.generate(ids, attention_mask=torch.ones_like(ids), return_dict_in_generate=True, output_scores=True,
                         prefill_chunk_size=None, **more)
    tokens = out.sequences[0].tolist()
    gaps = [(top[0] - top[1]).item() / (top[0].abs().item() + 1) for top in (scores[0].topk(2).values for scores in out.scores)]

    def decode(ids):
        return tokenizer.decode(ids, skip_special_tokens=True)
    text = decode(tokens)
    if folder.kind != "t5":
        text = prompt + text[len(os.path.commonprefix([text, decode(ids[0].tolist())])):]
    return text, min(gaps) > 1e-5


# ---- A folder -------------------------------------------------------------------------------------


def check_refusals(comparison, folder, batch, config, rng):
    """Checks one refused key of each file. This overwrites the files."""
    files = refused_keys(folder.kind)
    path = folder.model / "generation_config.json"
    if path.exists() and folder.model_class is GENERATORS.get(folder.kind):
        key, (value, more) = rng.choice(sorted(files[path.name].items()))
        comparison.refusal(path, key, {**more, key: value}, lambda: comparison.run("generate", "--model", folder.model, "a"))
    key, value = rng.choice(sorted(files["config.json"].items()))
    comparison.refusal(folder.model / "config.json", key, {**config, key: value}, lambda: comparison.library.results(folder, batch))


def compare(comparison, path, seed, turn, kinds):
    folder, tokenizer, rng = make_folder(path, seed, turn, kinds)
    texts = [(random_text(rng),) for _ in range(20)] + [(random_text(rng), random_text(rng)) for _ in range(4)]
    want = encode(tokenizer, texts)
    comparison.step(comparison.ids, folder, texts, want)
    config = json.loads((folder.model / "config.json").read_text())
    usable = [e for e in want if 0 < len(e[0]) <= LONGEST]
    padding = config.get("pad_token_id") if folder.kind in DECODERS else 0
    # Decoders find the end of a text by its padding.
    several = padding is not None or not folder.model_class.__name__.endswith("ForSequenceClassification")
    batch = make_batch(usable[:3] + usable[-2:] if several else usable[:1], config["vocab_size"], config.get("type_vocab_size", 2),
                       padding or 0)
    comparison.step(comparison.results, folder, batch)
    longest = min(40, config.get("max_position_embeddings") or 40)  # a longer text of a ModernBERT must be truncated
    short = [text for (text, *_), (ids, _) in zip(texts[:20], want) if 0 < len(ids) <= longest and text.strip()]
    if folder.kind != "t5":
        comparison.step(comparison.embeddings, folder, tokenizer, short[:6])
    if folder.model_class is GENERATORS.get(folder.kind):
        model = load(folder.model_class, folder.model, torch.float32)
        comparison.step(comparison.generated, folder, model, tokenizer, short[:3])
    for model_class in dict.fromkeys([folder.model_class, MODELS[folder.kind][0]]):
        comparison.step(comparison.saved, folder, model_class, texts, want)
    check_refusals(comparison, folder, batch, config, rng)
    return folder


def compare_and_print(comparison, base, arguments, kinds, turn):
    """Compares one folder and prints its problems. Returns whether it has none."""
    before = len(comparison.problems)
    folder = compare(comparison, base / str(turn), arguments.seed, turn, kinds)
    problems = comparison.problems[before:]
    if problems:
        print(f"folder {turn} ({folder.kind}, {folder.model_class.__name__}), which is repeated by {sys.argv[0]} {arguments.brasa} "
              f"{arguments.library} {arguments.folders} {arguments.seed} {turn} --kinds {arguments.kinds}")
        for problem in problems:
            print("  " + problem.replace("\n", "\n  "))
        print(f"  {folder.keys}", flush=True)
    return not problems


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("brasa")
    parser.add_argument("library")
    parser.add_argument("folders", type=int, nargs="?", default=90)
    parser.add_argument("seed", type=int, nargs="?", default=1)
    parser.add_argument("number", type=int, nargs="?")
    parser.add_argument("--kinds", default=",".join(KINDS))
    return parser.parse_args()


def main():
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)  # faster for small models
    warnings.simplefilter("ignore")
    arguments = parse()
    kinds = {"encoders": ENCODERS, "decoders": DECODERS}.get(arguments.kinds, arguments.kinds.split(","))
    print(f"seed {arguments.seed}")
    comparison = Comparison(os.path.abspath(arguments.brasa), arguments.library)
    turns = range(arguments.folders) if arguments.number is None else [arguments.number]
    base = pathlib.Path(tempfile.mkdtemp())
    good = sum(compare_and_print(comparison, base, arguments, kinds, turn) for turn in turns)
    if arguments.number is None:
        shutil.rmtree(base)
    else:
        print(f"the folder is {base / str(arguments.number)}")
    counts = ", ".join(f"{n} {name}" for name, n in comparison.counts.items())
    print(f"{len(turns)} folders, {len(turns) - good} with problems; compared {counts}; {comparison.close} texts were too close to call")
    for reason, n in comparison.refused.items():
        print(f"{n} steps were refused: {reason}")
    print(f"{len(comparison.unanswered)} errors of transformers", *comparison.unanswered, sep="\n  ")
    sys.exit(0 if good == len(turns) else 1)


if __name__ == "__main__":
    main()
