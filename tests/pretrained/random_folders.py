"""Makes small random model folders for compare_folders.py: a model of any type of the zoo with weights, a tokenizer, and
side files whose keys have values other than their defaults."""
import json
import pathlib
import random
from dataclasses import dataclass

import torch

from random_tokenizers import TOKENIZER_KEYS, write_tokenizer  # first: it adds the folders of other scripts to the path
from compare_auto import random_text
from record_generation import CHANGED, REFUSED, SAME

from random_models import ENCODERS, GENERATORS, KINDS, MODELS, config_keys, key_table, write_config, write_weights


class Deck:
    """Shuffles the keys of a file and gives each folder the next few, so that TURNS folders together have all of them.
    The keys of a folder depend only on the seed and the folder's number."""
    TURNS = 8

    def __init__(self, seed, name, keys):
        self.keys = sorted(keys)
        random.Random(f"{seed} {name}").shuffle(self.keys)

    def hand(self, turn, n=None):
        n = n or -(-len(self.keys) // self.TURNS)
        return [self.keys[(turn * n + i) % len(self.keys)] for i in range(min(n, len(self.keys)))]


@dataclass
class Folder:
    path: pathlib.Path   # what `brasa embed` gets
    model: pathlib.Path  # the folder with config.json: `path`, or a folder in it
    kind: str
    model_class: type
    keys: dict           # for each file, the folder's keys
    sentence: bool       # it has the files of sentence-transformers


# ---- generation_config.json -----------------------------------------------------------------------


def suppressed(rng, tokenizer, vocab):
    """Returns a few ids, or all except a few that include punctuation, whose decoded text depends on what is before it."""
    few = {rng.randrange(vocab) for _ in range(rng.randint(1, 20))}
    marks = {i for t, i in tokenizer.get_vocab().items() if t in (".", ",", "!", "'", "\u2581", "s", "the")}
    return sorted(few if rng.random() < 0.4 else set(range(vocab)) - few - marks)


def generation_value(rng, key, tokenizer, vocab):
    ids = [rng.randrange(vocab) for _ in range(rng.randint(1, 40))]
    return {
        "max_length": lambda: rng.randint(45, 60), "max_new_tokens": lambda: rng.randint(1, 20), "min_length": lambda: rng.randint(1, 50),
        "min_new_tokens": lambda: rng.randint(1, 20), "do_sample": lambda: True, "temperature": lambda: round(rng.uniform(0.3, 3), 2),
        "top_k": lambda: rng.randint(1, 60), "top_p": lambda: round(rng.uniform(0.1, 0.99), 2), "min_p": lambda: round(rng.uniform(0.01, 0.5), 2),
        "repetition_penalty": lambda: round(rng.uniform(0.7, 3), 2), "no_repeat_ngram_size": lambda: rng.randint(1, 4),
        "suppress_tokens": lambda: suppressed(rng, tokenizer, vocab), "eos_token_id": lambda: rng.choice([ids[0], ids]),
        "decoder_start_token_id": lambda: ids[0], "bos_token_id": lambda: ids[0],
        "pad_token_id": lambda: ids[0],
    }.get(key, lambda: SAME[key][0])()


def generation_keys():
    """Returns the keys that are written. generate() refuses stop_strings without a tokenizer, which it is not given."""
    return CHANGED.keys() - {"stop_strings"} | {key for key, (value, _) in SAME.items() if value is not None}


def write_generation(rng, folder, tokenizer, config, hand):
    """Writes the keys to generation_config.json, or those that old versions put there to config.json."""
    vocab = config["vocab_size"]
    keys = {key: generation_value(rng, key, tokenizer, vocab) for key in hand}
    if not keys.keys() & {"max_length", "max_new_tokens"}:
        keys["max_new_tokens"] = 16
    if rng.random() < 0.3:
        keys["suppress_tokens"] = suppressed(rng, tokenizer, vocab)
    if rng.random() < 0.4:
        keys["do_sample"] = True
    if keys.get("do_sample"):  # then Brasa refuses the keys that are in both tables
        keys = {key: value for key, value in keys.items() if key not in REFUSED}
    if rng.random() < 0.25:
        old = {key: value for key, value in keys.items() if key in CHANGED and key not in config}
        folder.keys["config.json"] |= old
        (folder.model / "config.json").write_text(json.dumps(config | old))
        return
    if folder.kind == "t5" and not keys.keys() & {"decoder_start_token_id", "bos_token_id"}:
        keys["decoder_start_token_id"] = config["decoder_start_token_id"]
    folder.keys["generation_config.json"] = keys
    (folder.model / "generation_config.json").write_text(json.dumps(keys))


# ---- The files of sentence-transformers -----------------------------------------------------------


def pooling(rng, width, may_exclude):
    flags = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
             "weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken"}
    chosen = rng.sample(sorted(flags), rng.choice([1, 1, 1, 2, 3]))
    result = {"word_embedding_dimension": width}
    if rng.random() < 0.5:
        result |= {"pooling_mode_" + flag: mode in chosen for mode, flag in flags.items()}
    else:
        result["pooling_mode"] = chosen[0] if len(chosen) == 1 else chosen
    if rng.random() < 0.5:
        excluded = rng.choice([False, None])
        result["include_prompt"] = excluded if may_exclude else True
    return result


def write_heads(rng, folder, size):
    """Writes modules that map embeddings of a size to others, and returns their paths and types."""
    from sentence_transformers.sentence_transformer import modules as kinds
    written = []
    for i in range(rng.choice([0, 0, 1, 2, 3])):
        kind = rng.choice(["Dense", "Dense", "LayerNorm", "Dropout", "Normalize"])
        if kind == "Dense":
            out = rng.choice([size, 3, 17])
            activation = getattr(torch.nn, rng.choice(["Tanh", "Identity", "ReLU", "GELU", "SiLU", "Sigmoid"]))()
            module = kinds.Dense(size, out, bias=rng.random() < 0.7, activation_function=activation,
                                 use_residual=rng.random() < 0.3)
            size = out
        else:
            module = {"LayerNorm": lambda: kinds.LayerNorm(size), "Dropout": lambda: kinds.Dropout(0.3),
                      "Normalize": kinds.Normalize}[kind]()
        with torch.no_grad():
            for weight in module.parameters():
                weight.copy_(torch.tensor([rng.gauss(0, 0.5) for _ in range(weight.numel())]).reshape(weight.shape))
        path = f"{i + 3}_{kind}"
        (folder.path / path).mkdir()
        module.save(str(folder.path / path))
        written.append((path, kind))
    return written


def write_sentence(rng, folder, width, tokenizer):
    # docs/auto_model.md: a last token is no part of a prompt if it is special, even if no file names it.
    last = tokenizer._tokenizer.encode("a").ids[-1:]
    added = tokenizer.added_tokens_decoder
    may_exclude = all(i in tokenizer.all_special_ids or i not in added or not added[i].special for i in last)
    sub = "" if folder.path == folder.model else folder.model.name
    modules = [(sub, "Transformer"), ("1_Pooling", "Pooling")] + [("2_Normalize", "Normalize")] * (rng.random() < 0.5)
    pooled = pooling(rng, width, may_exclude)
    size = width * (len(pooled["pooling_mode"]) if isinstance(pooled.get("pooling_mode"), list)
                    else max(1, sum(v is True for k, v in pooled.items() if k.startswith("pooling_mode_"))))
    modules += write_heads(rng, folder, size)
    files = {"modules.json": [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + name}
                              for i, (path, name) in enumerate(modules)],
             "1_Pooling/config.json": pooled}
    limits = {"max_seq_length": rng.randint(5, 60), "do_lower_case": True}
    chosen = {key: value for key, value in limits.items() if rng.random() < 0.4}
    if chosen or rng.random() < 0.3:
        kin = rng.choice(["bert", "bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"])
        files[(sub + "/" if sub else "") + f"sentence_{kin}_config.json"] = chosen
        if kin != "bert" and rng.random() < 0.3:
            files[(sub + "/" if sub else "") + "sentence_bert_config.json"] = {}
    if rng.random() < 0.5:
        files["config_sentence_transformers.json"] = {
            "prompts": {"query": rng.choice(["the re ", None]), "q": random_text(rng)[:8]}, "default_prompt_name": rng.choice(["query", "q", None]),
            "similarity_fn_name": "dot", "__version__": {"sentence_transformers": "2.2.0"}}
    for name, content in files.items():
        path = folder.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(content))
        folder.keys[name] = content


# ---- A folder -------------------------------------------------------------------------------------


def refused_keys(kind):
    """Returns for each file the keys for which Brasa refuses some values, with such a value. Those that are refused only
    beside lists of layers, which may fit here, are left out."""
    by_list = ("model_type", "num_hidden_layers", "use_sliding_window")
    config = {key: value for key, (value, what) in key_table(kind).items() if what == "refused" and key not in by_list}
    return {"config.json": config, "generation_config.json": {key: (value, more) for key, (value, more) in REFUSED.items()}}


def make_folder(path, seed, turn, kinds=KINDS):
    """Makes folder number `turn` of a seed at the path and returns it with its tokenizer and random generator. The model
    types take turns."""
    rng = random.Random(f"{seed} {turn}")
    kind, turn = kinds[turn % len(kinds)], turn // len(kinds)
    model_class = MODELS[kind][turn % len(MODELS[kind])]
    sentence = kind != "t5" and rng.random() < (0.7 if kind in ENCODERS else 0.3)
    inner = path / "0_Transformer" if sentence and rng.random() < 0.3 else path
    path.mkdir(parents=True, exist_ok=True)
    hands = {"tokenizer_config.json": Deck(seed, kind + " tokenizer", TOKENIZER_KEYS).hand(turn),
             "config.json": Deck(seed, kind + " config", config_keys(kind)).hand(turn)}
    folder = Folder(path, inner, kind, model_class, {}, sentence)
    tokenizer, named = write_tokenizer(rng, folder, hands["tokenizer_config.json"])
    vocab = len(tokenizer) + rng.choice([0, 0, 1, 17])
    config = write_config(rng, folder, vocab, hands["config.json"], named)
    write_weights(rng, folder, config)
    if kind in GENERATORS:
        write_generation(rng, folder, tokenizer, config, Deck(seed, kind + " generation", generation_keys()).hand(turn))
    if sentence:
        write_sentence(rng, folder, config.get("hidden_size", config.get("dim", config.get("n_embd"))), tokenizer)
    return folder, tokenizer, rng
