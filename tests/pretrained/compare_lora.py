#!/usr/bin/env python3
"""Compares adapters of Brasa with those of Hugging Face's peft on the small models of tests/models.

    tests/pretrained/compare_lora.py LIBRARY [ADAPTERS [SEED [NUMBER]]]

LIBRARY is the shared library. Each adapter has random settings and layers. peft saves it with random values, and Brasa
loads it: the logits must be equal. Brasa saves it again, and peft must compute the same logits from that folder. A result
may differ from the exact one by 8 times the error of peft, plus rounding. With NUMBER, only that adapter is made. The exit status is 1 if anything differs. Requires torch, transformers, peft and
safetensors from PyPI; written with peft 0.21.
"""
import os
import pathlib
import random
import sys
import tempfile
import warnings

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
os.environ["TQDM_DISABLE"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402
from peft import LoraConfig, PeftModel, get_peft_model  # noqa: E402

from folder_models import Library, Refusal  # noqa: E402

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
LAYERS = (torch.nn.Linear, torch.nn.Embedding, transformers.pytorch_utils.Conv1D)
EPSILON = 1e-5  # of f32 results, relative to the largest


def folders():
    found = sorted(MODELS.glob("encoders/*/")) + sorted(MODELS.glob("decoders/*/"))
    return found + [MODELS / "gpt2/lm"] + sorted(MODELS.glob("t5/*/"))


def load(folder):
    config = transformers.AutoConfig.from_pretrained(folder)
    encodes, both = folder.parent.name == "encoders", folder.parent.name == "t5"
    kind = "MaskedLM" if encodes else "Seq2SeqLM" if both else "CausalLM"
    model = getattr(transformers, "AutoModelFor" + kind).from_pretrained(folder, dtype=torch.float32)
    return config.model_type, model.eval()


def tied(model):
    """Returns the names of modules that share a weight, which peft treats in ways of its own."""
    owners = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        owners.setdefault(id(p), []).append(name.rpartition(".")[0])
    return {name for names in owners.values() if len(names) > 1 for name in names}


def settings(rng, model):
    """Returns random arguments of LoraConfig that fit the model."""
    shared = tied(model)
    names = [n for n, m in model.named_modules() if isinstance(m, LAYERS) and n not in shared]
    chosen = rng.sample(names, rng.randint(1, min(4, len(names))))
    targets = [n if rng.random() < 0.3 else n.rpartition(".")[2] for n in chosen]
    options = dict(r=rng.randint(1, 3), lora_alpha=rng.choice([1, 4, 5]), lora_dropout=rng.choice([0.0, 0.1]),
                   use_rslora=rng.random() < 0.3, use_dora=rng.random() < 0.4,
                   bias=rng.choice(["none", "none", "all", "lora_only"]))
    reached = [n for n in names if any(n == t or n.endswith("." + t) for t in targets)]
    if any(n in shared or not isinstance(m, LAYERS) for n, m in model.named_modules()
           if any(n == t or n.endswith("." + t) for t in targets)):
        targets = chosen
    if rng.random() < 0.2:
        targets = "|".join(t.replace(".", r"\.") for t in chosen)
    if rng.random() < 0.3:
        options["rank_pattern"] = {rng.choice(reached): rng.randint(1, 4)}
    if rng.random() < 0.3:
        options["alpha_pattern"] = {rng.choice(reached): rng.randint(1, 9)}
    return dict(options, target_modules=targets)


def randomize(model, generator):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "magnitude" in name:
                p.mul_(1 + 0.2 * torch.rand(p.shape, generator=generator))
            elif p.requires_grad:
                p.add_(0.3 * torch.randn(p.shape, generator=generator))


def logits_of(model, kind, batch):
    ids, _, mask = batch
    given = dict(input_ids=ids, attention_mask=mask)
    if kind == "t5":
        given["decoder_input_ids"] = ids
    with torch.no_grad():
        return model(**given).logits


class Brasa(Library):
    def adapted(self, folder, kind, name, adapter, batch, saved):
        """Returns the logits with the adapter, and saves it to the folder `saved`."""
        br, scope = self.br, self.br.br_no_grad_begin()
        options = self.options("br_auto_model", class_name=name.encode(), dtype=br.BR_F32)
        model = br.br_auto_model_load(str(folder).encode(), options, None)
        try:
            if not model or not br.br_lora_load(str(adapter).encode(), model, None):
                self.refuse()
            logits = self.result(self.run(kind, name, model, batch)["logits"])
            if not br.br_lora_save(str(saved).encode(), model, None):
                self.refuse()
            return logits
        finally:
            br.br_module_free(model)
            br.br_scope_end(scope)


def compare(brasa, folder, seed, number):
    """Returns what differs, or None."""
    rng, generator = random.Random(f"{seed} {number}"), torch.Generator().manual_seed(number)
    torch.manual_seed(number)
    kind, model = load(folder)
    options = settings(rng, model)
    ids = torch.randint(3, model.config.vocab_size, (2, 5), generator=generator)
    batch = ids, torch.zeros_like(ids), torch.ones_like(ids)
    with tempfile.TemporaryDirectory() as temporary:
        first, second = pathlib.Path(temporary, "peft"), pathlib.Path(temporary, "brasa")
        tuned = get_peft_model(model, LoraConfig(**options)).eval()
        randomize(tuned, generator)
        tuned.save_pretrained(first)
        want = logits_of(tuned, kind, batch)
        exact = logits_of(tuned.double(), kind, batch)
        allowed = 8 * (want - exact).abs().max() + EPSILON * (1 + exact.abs().max())
        try:
            have = brasa.adapted(folder, kind, type(model).__name__, first, batch, second)
        except Refusal as error:
            return f"{options}: refused: {error}"
        if not (have - exact).abs().max() <= allowed:
            return f"{options}: logits differ by {(have - exact).abs().max():g}"
        again = logits_of(PeftModel.from_pretrained(load(folder)[1], second).eval(), kind, batch)
        if not (again - exact).abs().max() <= allowed:
            return f"{options}: peft's logits of Brasa's folder differ by {(again - exact).abs().max():g}"
    return None


def main():
    brasa = Brasa(sys.argv[1])
    count, seed = (int(a) for a in (sys.argv[2:4] + ["60", "1"][len(sys.argv) - 2:])[:2])
    chosen = [int(sys.argv[4])] if len(sys.argv) > 4 else range(count)
    warnings.filterwarnings("ignore")
    all_folders, differing = folders(), 0
    for number in chosen:
        folder = all_folders[number % len(all_folders)]
        problem = compare(brasa, folder, seed, number)
        if problem:
            differing += 1
            print(f"{number} {folder.parent.name}/{folder.name}: {problem}")
    print(f"{len(chosen)} adapters, {differing} differ")
    return differing > 0


if __name__ == "__main__":
    sys.exit(main())
