#!/usr/bin/env python3
"""Compares Brasa with transformers and sentence-transformers on random model folders: ids of texts, results of the
model, embeddings, and generated text. Brasa also saves each model, as its class and as the base class, and transformers
must load the same weights, configuration and tokenizer from the saved folder as from the first.

    tests/pretrained/compare_folders.py BRASA LIBRARY [FOLDERS [SEED [NUMBER]]]

BRASA is the command and LIBRARY the shared library. Side files have random keys whose values are not their defaults:
eight folders of a model type have all of them. With NUMBER, only that folder is made, in a new temporary folder that is
kept. The exit status is 1 if anything differs, if Brasa refuses a folder, or if a refusal does not name the file and the
key. Requires torch, transformers, sentence-transformers, sentencepiece and protobuf from PyPI.
"""
import ctypes
import dataclasses
import functools
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
from transformers import AutoConfig, AutoTokenizer, BertModel, GenerationConfig  # noqa: E402
from transformers.models.t5.modeling_t5 import T5LayerNorm  # noqa: E402

from random_folders import GENERATORS, MODELS, POSITIONS, make_folder, random_text, refused_keys  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "ctypes"))
from binding import Binding  # noqa: E402
from compare_auto import got, wanted  # noqa: E402



class Refusal(Exception):
    """An error message of Brasa."""


EPSILON = 2.0 ** -23  # of f32
# Refusals of folders that transformers accepts. These are parts of the messages.
DOCUMENTED = [
    "_config.json: do_lower_case is true, but this is supported only for WordPiece",  # docs/auto_model.md
    ", but with tokenizer.json it gets id ",  # ids that differ from tokenizer.json's: docs/tokenizer.md
]
NO_CHUNKS = {"chunk_size_feed_forward": 0}  # other sizes must divide the length, and do not change results
NO_CACHE = {"use_cache": False}  # transformers' cache is too small for a T5 whose decoder has more layers than its encoder


def documented(refusal):
    return any(part in str(refusal) for part in DOCUMENTED)


# ---- Numbers --------------------------------------------------------------------------------------


def deviation(have, double, others):
    """Returns the largest error of `have` as a multiple of the tolerance; `double` is the result in f64. The tolerance is 8
    times the largest error of `others`, plus 16 roundings of the largest element. `others` are transformers' result in f32
    and, for models that amplify small differences, results in f64 with weights moved by half a rounding. Without these, a
    result in f32 that is accurate by chance would make the tolerance too small."""
    if have.shape != double.shape:
        return float("inf")
    error = max((other.double() - double).abs().max() for other in others)
    allowed = 8 * error + 16 * EPSILON * double.abs().max()
    return ((have.double() - double).abs().max() / allowed).item()


def agrees(have, double, others):
    return deviation(have, double, others) <= 1  # false for NaN


# ---- Brasa's models -------------------------------------------------------------------------------


class Library:
    """Runs models of the shared library."""

    def __init__(self, path):
        self.br = Binding(os.path.abspath(path), os.environ.get("CC", "cc"))

    def tensor(self, t):
        sizes = (ctypes.c_int64 * 2)(*t.shape)
        return self.br.br_from_data(2, sizes, self.br.BR_I64, t.contiguous().data_ptr())

    def result(self, t):
        if not t or self.br.br_failed():
            self.refuse()
        sizes = [self.br.br_size(t, i) for i in range(self.br.br_ndim(t))]
        out = torch.empty(sizes, dtype=torch.float32)
        self.br.br_copy_out(t, out.data_ptr(), 4 * out.numel())
        return out

    def refuse(self):
        message = self.br.br_error_message().decode()
        self.br.br_clear_error()
        raise Refusal(message)

    def options(self, name, **fields):
        options = getattr(self.br, name + "_defaults")()
        for key, value in fields.items():
            setattr(options, key, value)
        return ctypes.byref(options)

    def bert(self, name, model, ids, types, mask):
        br, pooled, second = self.br, (ctypes.c_void_p * 1)(), (ctypes.c_void_p * 1)()
        given = {"attention_mask": mask, "token_type_ids": types}
        if name == "BertModel":
            options = self.options("br_hf_bert", pooler_output=ctypes.addressof(pooled), **given)
            states = br.br_hf_bert_forward(model, ids, options)
            return {"last_hidden_state": states, "pooler_output": pooled[0]}
        options = self.options("br_hf_bert", **given)
        if name == "BertForSequenceClassification":
            return {"logits": br.br_hf_bert_classifier_forward(model, ids, options)}
        br.br_hf_bert_pretraining_forward(model, ids, options, pooled, second)
        names = {"BertForMaskedLM": ["logits", ""], "BertForNextSentencePrediction": ["", "logits"]}
        return dict(zip(names.get(name, ["prediction_logits", "seq_relationship_logits"]), (pooled[0], second[0])))

    def gpt2(self, name, model, ids, types, mask):
        options = self.options("br_gpt2", attention_mask=mask)
        if name == "GPT2Model":
            return {"last_hidden_state": self.br.br_gpt2_forward(model, ids, options)}
        return {"logits": self.br.br_gpt2_lm_forward(model, ids, options)}

    def t5(self, name, model, ids, types, mask):
        br = self.br
        memory = br.br_t5_encode(model, ids, mask)
        hidden = br.br_t5_decode(model, ids, memory, self.options("br_t5", attention_mask=mask))
        out = {"last_hidden_state": hidden} if name == "T5Model" else {"logits": br.br_t5_logits(model, hidden)}
        return {"encoder_last_hidden_state": memory, **out}

    def save(self, folder, name, target):
        """Loads the folder's model as a class and saves it."""
        br, path = self.br, str(folder.model).encode()
        model = br.br_auto_model_load(path, self.options("br_auto_model", class_name=name.encode()), None)
        try:
            if not model or not br.br_auto_model_save(str(target).encode(), model, self.options("br_auto_model_save", **{"from": path})):
                self.refuse()
        finally:
            br.br_module_free(model)

    def results(self, folder, batch):
        """Returns the results of the folder's model by their names in transformers."""
        br, name = self.br, folder.model_class.__name__
        scope = br.br_no_grad_begin()
        model = br.br_auto_model_load(str(folder.model).encode(), None, None)
        try:
            if not model:
                self.refuse()
            if br.br_module_class(model).decode() != name:
                raise Refusal(f"the class is {br.br_module_class(model).decode()} instead of {name}")
            out = getattr(self, folder.kind)(name, model, *map(self.tensor, batch))
            return {key: self.result(t) for key, t in out.items() if key}
        finally:
            br.br_module_free(model)
            br.br_scope_end(scope)


# ---- transformers' models -------------------------------------------------------------------------


def load(model_class, folder):
    return model_class.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", return_dict=True, **NO_CHUNKS).eval()


def load_double(model_class, folder):
    """Returns the model with its weights in f32 converted to f64, and without the parts that compute in f32."""
    model = load(model_class, folder).double()
    for part in model.modules():
        if hasattr(part, "reorder_and_upcast_attn"):
            part.reorder_and_upcast_attn = False
        if isinstance(part, T5LayerNorm):
            part.forward = functools.partial(torch.rms_norm, normalized_shape=part.weight.shape, weight=part.weight, eps=part.variance_epsilon)
    return model


def moved(model, seed):
    """Changes each weight of a model in f64 by half a rounding of f32, up or down."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight *= 1 + EPSILON / 2 * (2 * torch.randint(0, 2, weight.shape, generator=generator) - 1)
    return model


def reference(model, kind, batch):
    ids, types, mask = batch
    more = {"bert": {"token_type_ids": types}, "gpt2": {}, "t5": {"decoder_input_ids": ids, **NO_CACHE}}[kind]
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=mask, return_dict=True, **more)


def make_batch(encodings, vocab, type_vocab):
    """Returns ids, type ids and mask of the encodings, padded on the right."""
    length = max(len(ids) for ids, _ in encodings)

    def padded(rows, fill):
        return torch.tensor([list(row) + [fill] * (length - len(row)) for row in rows])
    return (padded([ids for ids, _ in encodings], 0).clamp(max=vocab - 1), padded([types for _, types in encodings], 0).clamp(max=type_vocab - 1),
            padded([[1] * len(ids) for ids, _ in encodings], 0))


# ---- Comparing ------------------------------------------------------------------------------------


class Comparison:
    def __init__(self, brasa, library):
        self.brasa, self.library = brasa, Library(library)
        self.counts = dict.fromkeys(["ids", "results", "embeddings", "texts", "saved models", "refusals"], 0)
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
            self.counts["refusals"] += documented(error)
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

    def results(self, folder, model, batch):
        double = reference(load_double(folder.model_class, folder.model), folder.kind, batch)
        others = [reference(model, folder.kind, batch)]
        others += [reference(moved(load_double(folder.model_class, folder.model), i), folder.kind, batch) for i in range(2)]
        have = self.library.results(folder, batch)
        for key, value in have.items():
            self.counts["results"] += 1
            want, near = double[key], [other[key] for other in others]
            if want.dim() == 3 and want.shape[:2] == batch[2].shape == value.shape[:2]:  # padding has no defined results
                value, want, *near = (t[batch[2].bool()] for t in (value, want, *near))
            if not agrees(value, want, near):
                self.problem(f"{folder.model_class.__name__}: {key} differs by {deviation(value, want, near):.3g} times what is allowed")

    def saved(self, folder, model_class, texts, want):
        """Saves the folder's model as a class, and compares what transformers loads from both folders."""
        target = folder.path.with_name(folder.path.name + "-" + model_class.__name__)
        self.library.save(folder, model_class.__name__, target)
        self.counts["saved models"] += 1
        (model, info), (first, first_info) = [
            model_class.from_pretrained(path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True) for path in (target, folder.model)]
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            if info[kind]:
                self.problem(f"saved {model_class.__name__}: {kind} {info[kind]}")
        have, expected = model.state_dict(), first.state_dict()
        for key in expected.keys() - set(first_info["missing_keys"]) | have.keys() ^ expected.keys():
            if key not in have or key not in expected or not same_bits(have[key], expected[key]):
                self.problem(f"saved {model_class.__name__}: {key} differs")
        own = folder.path.with_name("own")
        first.save_pretrained(own)
        keys, own_keys = [set(load_file(path / "model.safetensors")) for path in (target, own)]
        if keys != own_keys and not first_info["missing_keys"]:
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
        if folder.sentence and folder.path == folder.model and model_class is BertModel:
            rows = [sentence_embeddings(dataclasses.replace(folder, path=path), None, [text for text, *_ in texts[:3]], torch.float32)
                    for path in (target, folder.path)]
            if not all(map(torch.equal, *rows)):
                self.problem("saved folder of sentence-transformers: other embeddings")

    def embeddings(self, folder, tokenizer, texts):
        lines = self.run("embed", "--dtype", "f32", "--json", "--model", folder.path, "--", *texts).splitlines()
        have = torch.tensor([json.loads(line)["embedding"] for line in lines])
        rows = sentence_embeddings if folder.sentence else mean_embeddings
        single, double = [rows(folder, tokenizer, texts, dtype) for dtype in (torch.float32, torch.float64)]
        self.counts["embeddings"] += len(texts)
        for text, h, s, d in zip(texts, have, single, double):
            if not agrees(h, d, [s]):
                return self.problem(f"embedding of {text!a} differs by {deviation(h, d, [s]):.3g} times what is allowed: "
                                    f"{h[:4].tolist()}\n  expected {d[:4].tolist()}")

    def generated(self, folder, model, tokenizer, prompts):
        for prompt in prompts:
            have = self.run("generate", "--model", folder.model, "--", prompt)
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
            self.counts["refusals"] += 1
            if shown not in str(error) and not documented(error):
                self.problem(f"{shown}, but the error does not name it: {error}")


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()


def sentence_embeddings(folder, tokenizer, texts, dtype):
    model = SentenceTransformer(str(folder.path), device="cpu", local_files_only=True,
                                model_kwargs={"dtype": torch.float32, "attn_implementation": "eager"},
                                config_kwargs=NO_CHUNKS).to(dtype)
    # One text at a time, because texts that are padded on the left have other positions in a batch.
    return [model.encode([text], convert_to_tensor=True)[0] for text in texts]


def mean_embeddings(folder, tokenizer, texts, dtype):
    model = load(BertModel, folder.model).to(dtype)
    rows = []
    for ids, types in encode(tokenizer, [(text,) for text in texts]):
        batch = [torch.tensor([row]) for row in (ids, types, [1] * len(ids))]
        rows.append(torch.nn.functional.normalize(reference(model, "bert", batch)[0][0].mean(0), dim=0))
    return rows


def encode(tokenizer, texts):
    return [(e.ids, e.type_ids) for e in (tokenizer._tokenizer.encode(*text) for text in texts)]


def generated_text(folder, model, tokenizer, prompt):
    """Returns transformers' text as `brasa generate` prints it, and whether rounding cannot change it: no step had two
    tokens whose scores are nearly equal."""
    ids = torch.tensor([encode(tokenizer, [(prompt,)])[0][0]])
    torch.manual_seed(0)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), return_dict_in_generate=True, output_scores=True,
                         prefill_chunk_size=None, **NO_CACHE)
    tokens = out.sequences[0].tolist()
    gaps = [(top[0] - top[1]).item() / (top[0].abs().item() + 1) for top in (scores[0].topk(2).values for scores in out.scores)]

    def decode(ids):
        return tokenizer.decode(ids, skip_special_tokens=True)
    text = decode(tokens)
    if folder.kind == "gpt2":
        text = prompt + text[len(os.path.commonprefix([text, decode(ids[0].tolist())])):]
    return text, min(gaps) > 1e-5


# ---- A folder -------------------------------------------------------------------------------------


def check_refusals(comparison, folder, batch, config, rng):
    """Checks one refused key of each file. This overwrites the files."""
    files = refused_keys(folder.kind)
    path = folder.model / "generation_config.json"
    if path.exists() and folder.model_class in GENERATORS.values():
        key, (value, more) = rng.choice(sorted(files[path.name].items()))
        comparison.refusal(path, key, {**more, key: value}, lambda: comparison.run("generate", "--model", folder.model, "a"))
    key, value = rng.choice(sorted(files["config.json"].items()))
    comparison.refusal(folder.model / "config.json", key, {**config, key: value}, lambda: comparison.library.results(folder, batch))


def compare(comparison, path, seed, turn):
    folder, tokenizer, rng = make_folder(path, seed, turn)
    texts = [(random_text(rng),) for _ in range(20)] + [(random_text(rng), random_text(rng)) for _ in range(4)]
    want = encode(tokenizer, texts)
    comparison.step(comparison.ids, folder, texts, want)
    config = json.loads((folder.model / "config.json").read_text())
    usable = [e for e in want if 0 < len(e[0]) <= POSITIONS]
    batch = make_batch(usable[:3] + usable[-2:], config["vocab_size"], config.get("type_vocab_size", 2))
    model = load(folder.model_class, folder.model)
    comparison.step(comparison.results, folder, model, batch)
    short = [text for (text, *_), (ids, _) in zip(texts[:20], want) if 0 < len(ids) <= 40 and text.strip()]
    if folder.kind == "bert":
        comparison.step(comparison.embeddings, folder, tokenizer, short[:6])
    elif folder.model_class in GENERATORS.values():
        comparison.step(comparison.generated, folder, model, tokenizer, short[:3])
    for model_class in dict.fromkeys([folder.model_class, MODELS[folder.kind][0]]):
        comparison.step(comparison.saved, folder, model_class, texts, want)
    check_refusals(comparison, folder, batch, config, rng)
    return folder


def compare_and_print(comparison, base, count, seed, turn):
    """Compares one folder and prints its problems. Returns whether it has none."""
    before = len(comparison.problems)
    folder = compare(comparison, base / str(turn), seed, turn)
    problems = comparison.problems[before:]
    if problems:
        print(f"folder {turn} ({folder.kind}, {folder.model_class.__name__}), which is repeated by {sys.argv[0]} "
              f"{sys.argv[1]} {sys.argv[2]} {count} {seed} {turn}")
        for problem in problems:
            print("  " + problem.replace("\n", "\n  "))
        print(f"  {folder.keys}", flush=True)
    return not problems


def main():
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)  # faster for small models
    warnings.simplefilter("ignore")
    brasa, library, *rest = sys.argv[1:]
    count, seed, only = [int(x) for x in rest + ["60", "1", "-1"][len(rest):]]
    print(f"seed {seed}")
    comparison = Comparison(os.path.abspath(brasa), library)
    turns = range(count) if only < 0 else [only]
    base = pathlib.Path(tempfile.mkdtemp())
    good = sum(compare_and_print(comparison, base, count, seed, turn) for turn in turns)
    if only < 0:
        shutil.rmtree(base)
    else:
        print(f"the folder is {base / str(only)}")
    counts = ", ".join(f"{n} {name}" for name, n in comparison.counts.items())
    print(f"{len(turns)} folders, {len(turns) - good} with problems; compared {counts}; {comparison.close} texts were too close to call")
    print(f"{len(comparison.unanswered)} errors of transformers", *comparison.unanswered, sep="\n  ")
    sys.exit(0 if good == len(turns) else 1)


if __name__ == "__main__":
    main()
