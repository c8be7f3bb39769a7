"""Makes small random model folders for compare_folders.py: a BERT, a GPT-2 or a T5 with weights, a tokenizer, and side
files whose keys have values other than their defaults."""
import json
import pathlib
import random
import sys
from dataclasses import dataclass

import torch
from transformers import (AutoTokenizer, BertForMaskedLM, BertForNextSentencePrediction, BertForPreTraining,
                          BertForSequenceClassification, BertModel, GPT2LMHeadModel, GPT2Model,
                          T5ForConditionalGeneration, T5Model)
from transformers.activations import ACT2FN

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TESTS / "tokenizers"), str(TESTS / "cli")]
from compare_auto import random_folder, random_text, write  # noqa: E402
from record_config_cases import CLASSES, COMMON, KEYS  # noqa: E402
from record_generation import CHANGED, REFUSED, SAME  # noqa: E402

KINDS = ["bert", "gpt2", "t5"]
MODELS = {"bert": [BertModel, BertForPreTraining, BertForMaskedLM, BertForNextSentencePrediction, BertForSequenceClassification],
          "gpt2": [GPT2Model, GPT2LMHeadModel, GPT2LMHeadModel], "t5": [T5Model, T5ForConditionalGeneration, T5ForConditionalGeneration]}
GENERATORS = {"gpt2": GPT2LMHeadModel, "t5": T5ForConditionalGeneration}
ACTIVATIONS = [name for name in ACT2FN if name not in ("prelu", "xielu")]  # these two have weights
POSITIONS = 140
# Keys of tokenizer_config.json beside those of compare_auto.py, none of which changes ids.
TOKENIZER_KEYS = {
    "model_max_length": lambda rng: rng.randint(6, 60), "padding_side": lambda rng: "left", "truncation_side": lambda rng: "left",
    "clean_up_tokenization_spaces": lambda rng: True, "chat_template": lambda rng: "{{ messages }}", "errors": lambda rng: "ignore",
    "model_input_names": lambda rng: ["input_ids", "attention_mask"], "never_split": lambda rng: ["the"],
    "do_basic_tokenize": lambda rng: False, "name_or_path": lambda rng: "x", "legacy": lambda rng: False, "use_fast": lambda rng: False,
    "verbose": lambda rng: False, "sp_model_kwargs": lambda rng: {"alpha": 0.1}, "trim_offsets": lambda rng: False,
    "special_tokens_map_file": lambda rng: "x.json", "truncation_strategy": lambda rng: "only_first", "stride": lambda rng: 2,
    "pad_to_multiple_of": lambda rng: 8, "pad_token_type_id": lambda rng: 1, "max_length": lambda rng: rng.randint(6, 60),
    "transformers_version": lambda rng: "4.20.0", "processor_class": lambda rng: "XProcessor",
}


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


# ---- The tokenizer --------------------------------------------------------------------------------


def tokenizer_files(rng, kind):
    """Returns the files of a tokenizer. It is of the model's kind, or any if the files name its class."""
    while True:
        made, files = random_folder(rng)
        config = json.loads(files.get("tokenizer_config.json", "{}"))
        if made == kind or "tokenizer_class" in config and rng.random() < 0.2:
            return files, config


def write_tokenizer(rng, folder, hand):
    """Writes a random tokenizer and returns it with a class that config.json must name, if any."""
    while True:
        files, config = tokenizer_files(rng, folder.kind)
        folder.keys["tokenizer_config.json"] = {key: TOKENIZER_KEYS[key](rng) for key in hand}
        config |= folder.keys["tokenizer_config.json"]
        if rng.random() < 0.3:
            config["clean_up_tokenization_spaces"] = True
        moved = config.pop("tokenizer_class", None) if rng.random() < 0.2 else None
        named = {"tokenizer_class": moved} if moved else {}
        files["config.json"] = json.dumps({"model_type": folder.kind, **named})
        files["tokenizer_config.json"] = json.dumps(config)
        write(folder.model, files)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder.model)
        except Exception:  # some random files are contradictory
            continue
        if tokenizer.pad_token or not folder.sentence:  # sentence-transformers always pads
            break
    if not moved and rng.random() < 0.3:  # as the current transformers writes it
        for name in files.keys() - {"config.json"}:
            (folder.model / name).unlink()
        tokenizer.save_pretrained(folder.model)
        tokenizer = AutoTokenizer.from_pretrained(folder.model)
    return tokenizer, named


# ---- The model ------------------------------------------------------------------------------------


def sizes(rng, kind, vocab):
    """Returns the keys that determine the shapes of the weights, and those that must fit them."""
    heads, width, layers = rng.randint(1, 4), rng.choice([3, 4, 8, 10]), rng.randint(1, 3)
    if kind == "bert":
        return dict(vocab_size=vocab, hidden_size=heads * width, num_hidden_layers=layers, num_attention_heads=heads,
                    intermediate_size=rng.randint(5, 70), max_position_embeddings=POSITIONS, type_vocab_size=rng.randint(2, 4),
                    hidden_act=rng.choice(ACTIVATIONS), layer_norm_eps=10 ** rng.uniform(-12, -2), pad_token_id=rng.randrange(vocab))
    if kind == "gpt2":
        return dict(vocab_size=vocab, n_embd=heads * width, n_layer=layers, n_head=heads, n_positions=POSITIONS,
                    n_inner=rng.choice([None, rng.randint(5, 70)]), activation_function=rng.choice(ACTIVATIONS),
                    layer_norm_epsilon=10 ** rng.uniform(-12, -2), eos_token_id=rng.randrange(vocab))
    buckets = rng.choice([4, 6, 8, 32])
    act = rng.choice(ACTIVATIONS)
    return dict(vocab_size=vocab, d_model=rng.randint(2, 20) * 2, d_kv=width, d_ff=rng.randint(5, 70), num_layers=layers,
                num_decoder_layers=rng.randint(1, 3), num_heads=heads, relative_attention_num_buckets=buckets,
                relative_attention_max_distance=rng.randint(buckets + 1, 200), layer_norm_epsilon=10 ** rng.uniform(-12, -2),
                feed_forward_proj=rng.choice([act, "gated-" + act, "gated-gelu", "relu"]), pad_token_id=rng.randrange(vocab),
                eos_token_id=rng.randrange(vocab), decoder_start_token_id=rng.randrange(vocab))


def config_keys(kind):
    """Returns the keys of the table that do not follow from the sizes, with their values."""
    fixed = sizes(random.Random(0), kind, 10).keys() | {"vocab_size", "model_type", "architectures"}
    table = {**COMMON, **KEYS[kind]}
    return {key: value for key, (value, what) in table.items() if what != "refused" and key not in fixed}


def write_config(rng, folder, vocab, hand, named):
    config_class = CLASSES[folder.kind][0]
    chosen = sizes(rng, folder.kind, vocab)
    config_class(**chosen).save_pretrained(folder.model)
    path = folder.model / "config.json"
    config = json.loads(path.read_text())
    if rng.random() < 0.4:  # most keys have their defaults
        config = {key: value for key, value in config.items() if key in chosen or key == "model_type"}
    values = config_keys(folder.kind)
    folder.keys["config.json"] = {key: values[key] for key in hand}
    config |= folder.keys["config.json"] | named
    for other, key in config_class.attribute_map.items():
        if key in config and other not in config and rng.random() < 0.1:
            config[other] = config.pop(key)
    config["architectures"] = [folder.model_class.__name__]
    path.write_text(json.dumps(config))
    return config


def fill(model):
    """Sets weights so large that every part of the model matters."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            norm = p.dim() == 1 and name.endswith("weight")
            embedding = "embeddings.weight" in name or name.endswith(("shared.weight", "wte.weight", "wpe.weight"))
            inputs = p.shape[0 if ".c_" in name else -1]
            p.normal_(float(norm), 1.0 if embedding else 0.2 if p.dim() == 1 else 1.2 * inputs ** -0.5)


def write_weights(rng, folder, config):
    torch.manual_seed(rng.randrange(2**31))
    config_class = CLASSES[folder.kind][0]
    made = config_class.from_pretrained(folder.model)
    made._attn_implementation = "eager"  # the only one with output_attentions
    model = folder.model_class(made)
    fill(model)
    dtype = rng.choice([torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16])
    model.to(dtype).save_pretrained(folder.model, max_shard_size=rng.choice(["10KB", "40KB", "1GB"]))
    (folder.model / "generation_config.json").unlink(missing_ok=True)
    (folder.model / "config.json").write_text(json.dumps(config))


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
    return CHANGED.keys() | {key for key, (value, _) in SAME.items() if value is not None}


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


def pooling(rng, width):
    flags = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
             "weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken"}
    chosen = rng.sample(sorted(flags), rng.choice([1, 1, 1, 2, 3]))
    result = {"word_embedding_dimension": width}
    if rng.random() < 0.5:
        result |= {"pooling_mode_" + flag: mode in chosen for mode, flag in flags.items()}
    else:
        result["pooling_mode"] = chosen[0] if len(chosen) == 1 else chosen
    if rng.random() < 0.5:
        result["include_prompt"] = rng.choice([False, None])
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


def write_sentence(rng, folder, width):
    sub = "" if folder.path == folder.model else folder.model.name
    modules = [(sub, "Transformer"), ("1_Pooling", "Pooling")] + [("2_Normalize", "Normalize")] * (rng.random() < 0.5)
    pooled = pooling(rng, width)
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
    """Returns for each file the keys for which Brasa refuses some values, with such a value."""
    config = {key: value for key, (value, what) in {**COMMON, **KEYS[kind]}.items() if what == "refused" and key != "model_type"}
    return {"config.json": config, "generation_config.json": {key: (value, more) for key, (value, more) in REFUSED.items()}}


def make_folder(path, seed, turn):
    """Makes folder number `turn` of a seed at the path and returns it with its tokenizer and random generator."""
    rng = random.Random(f"{seed} {turn}")
    kind, turn = KINDS[turn % len(KINDS)], turn // len(KINDS)
    sentence = kind == "bert" and rng.random() < 0.7
    inner = path / "0_Transformer" if sentence and rng.random() < 0.3 else path
    path.mkdir(parents=True, exist_ok=True)
    hands = {"tokenizer_config.json": Deck(seed, kind + " tokenizer", TOKENIZER_KEYS).hand(turn),
             "config.json": Deck(seed, kind + " config", config_keys(kind)).hand(turn)}
    folder = Folder(path, inner, kind, rng.choice(MODELS[kind]), {}, sentence)
    tokenizer, named = write_tokenizer(rng, folder, hands["tokenizer_config.json"])
    vocab = len(tokenizer) + rng.choice([0, 0, 1, 17])
    config = write_config(rng, folder, vocab, hands["config.json"], named)
    write_weights(rng, folder, config)
    if kind in GENERATORS:
        write_generation(rng, folder, tokenizer, config, Deck(seed, kind + " generation", generation_keys()).hand(turn))
    elif sentence:
        write_sentence(rng, folder, config["hidden_size"])
    return folder, tokenizer, rng
