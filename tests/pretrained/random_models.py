"""Makes the configuration and the weights of the random folders of random_folders.py: every class of every model type of
the zoo, with random sizes, and keys of config.json with values other than their defaults."""
import json
import random

import torch
import transformers
from transformers.activations import ACT2FN

from record_config_cases import CLASSES, COMMON, KEYS

HEADS = ["ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
PREFIXES = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert", "distilbert": "DistilBert",
            "electra": "Electra", "albert": "Albert", "mpnet": "MPNet", "modernbert": "ModernBert", "llama": "Llama",
            "mistral": "Mistral", "smollm3": "SmolLM3", "granite": "Granite", "phi3": "Phi3", "qwen2": "Qwen2", "qwen3": "Qwen3", "qwen3_moe": "Qwen3Moe", "gemma2": "Gemma2", "gemma3_text": "Gemma3",
            "gpt_neox": "GPTNeoX"}
MORE = {"bert": ["ForPreTraining", "ForNextSentencePrediction"], "electra": ["ForPreTraining"], "albert": ["ForPreTraining"]}
ENCODERS = list(PREFIXES)[:9]
DECODERS = list(PREFIXES)[9:]
KINDS = ["bert", "gpt2", "t5"] + ENCODERS[1:] + DECODERS
ROBERTAS = ["roberta", "xlm-roberta", "camembert"]


def classes(kind):
    """Returns the classes of transformers that Brasa has, the base model first."""
    if kind == "gpt2":
        names = ["GPT2Model", "GPT2LMHeadModel"]
    elif kind == "t5":
        names = ["T5Model", "T5ForConditionalGeneration"]
    elif kind in ENCODERS:
        names = [PREFIXES[kind] + head for head in ["Model"] + HEADS + MORE.get(kind, [])]
    else:
        base = PREFIXES[kind] + ("Text" if kind == "gemma3_text" else "")
        names = [base + "Model", PREFIXES[kind] + "ForCausalLM"]
        if kind not in ("granite", "gpt_neox"):
            names.append(base + "ForSequenceClassification")
    return [getattr(transformers, name) for name in names]


MODELS = {kind: classes(kind) for kind in KINDS}
GENERATORS = {kind: MODELS[kind][1] for kind in ["gpt2", "t5"] + DECODERS}
ACTIVATIONS = [name for name in ACT2FN if name not in ("prelu", "xielu")]  # these two have weights
POSITIONS = 140
LONGEST = 100  # a RoBERTa's positions begin after the id of padding


def config_class(kind):
    return CLASSES[kind][0] if kind in CLASSES else transformers.CONFIG_MAPPING[kind]


# ---- Sizes ----------------------------------------------------------------------------------------


def rope(rng, d, kinds=("default", "default", "linear", "dynamic", "yarn", "llama3", "longrope")):
    """Returns random rotary positions of one of the types, for d numbers of a head."""
    kind = rng.choice(kinds)
    made = {"rope_type": kind, "rope_theta": round(10 ** rng.uniform(1, 6), 2)}
    if kind != "default":
        made["factor"] = rng.choice([1.5, 2.0, 4.0, 8.0])
    if kind == "longrope":
        made |= {key: [round(rng.uniform(1, 8), 3) for _ in range(d // 2)] for key in ("short_factor", "long_factor")}
        made = {key: value for key, value in made.items() if key != "factor" or rng.random() < 0.5}
        if rng.random() < 0.4:
            made["attention_factor"] = 1.1
    if kind in ("yarn", "llama3", "longrope"):
        made["original_max_position_embeddings"] = rng.choice([8, 16, 40])
    if kind == "llama3":
        made |= {"low_freq_factor": rng.choice([0.5, 1.0]), "high_freq_factor": rng.choice([2.5, 4.0])}
    if kind == "yarn":
        more = {"beta_fast": 3.0, "beta_slow": 0.25, "attention_factor": 0.8, "truncate": False}
        made |= {key: value for key, value in more.items() if rng.random() < 0.4}
        if rng.random() < 0.3:
            made |= {"mscale": 1.2, "mscale_all_dim": 0.7}
    return made


def layer_kinds(rng, layers):
    return [rng.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]


def regular_kinds(every, layers):
    return ["sliding_attention" if i % every else "full_attention" for i in range(layers)]


def bert_sizes(rng, kind, vocab):
    """Returns sizes of BERT and its relatives."""
    heads, layers, act = rng.randint(1, 4), rng.randint(1, 3), rng.choice(ACTIVATIONS)
    width, inner, eps = heads * rng.choice([3, 4, 8, 10]), rng.randint(5, 70), 10 ** rng.uniform(-12, -2)
    if kind == "distilbert":
        return dict(vocab_size=vocab, dim=width, n_layers=layers, n_heads=heads, hidden_dim=inner, activation=act,
                    max_position_embeddings=POSITIONS, pad_token_id=rng.randrange(vocab))
    pad = rng.randrange(POSITIONS - LONGEST - 1) if kind in ROBERTAS else 1 if kind == "mpnet" else rng.randrange(vocab)
    made = dict(vocab_size=vocab, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner,
                max_position_embeddings=POSITIONS, hidden_act=act, layer_norm_eps=eps, pad_token_id=pad)
    if kind != "mpnet":
        made["type_vocab_size"] = 1 if kind in ROBERTAS and rng.random() < 0.5 else rng.randint(2, 4)
    if kind in ("electra", "albert"):
        made["embedding_size"] = rng.choice([width, 5, 12])
    if kind == "albert":
        made |= dict(num_hidden_groups=rng.randint(1, layers), inner_group_num=rng.randint(1, 2))
    return made


def modernbert_sizes(rng, vocab):
    """Returns sizes of a ModernBERT and its kinds of layers, in today's form or in that of older files."""
    layers, every = rng.randint(1, 5), rng.randint(1, 4)
    ids = {f"{name}_token_id": rng.randrange(vocab) for name in ("bos", "eos", "cls", "sep")}
    width, heads = 2 * rng.randint(1, 3) * 6, rng.choice([1, 2, 3])
    made = dict(vocab_size=vocab, hidden_size=width, num_attention_heads=heads,
                num_hidden_layers=layers, intermediate_size=rng.randint(5, 40), hidden_activation=rng.choice(ACTIVATIONS),
                classifier_activation=rng.choice(ACTIVATIONS), norm_eps=10 ** rng.uniform(-9, -2), pad_token_id=rng.randrange(vocab),
                classifier_pooling=rng.choice(["cls", "mean"]), local_attention=rng.randint(2, 40), **ids)
    made |= {key: rng.random() < 0.5 for key in ("attention_bias", "mlp_bias", "norm_bias", "classifier_bias", "decoder_bias")}
    made["layer_types"] = rng.choice([layer_kinds(rng, layers), regular_kinds(every, layers)])
    made["rope_parameters"] = {kind: rope(rng, width // heads) for kind in ("full_attention", "sliding_attention")}
    made["max_position_embeddings"] = rng.choice([20, POSITIONS])
    return made


def neox_sizes(rng, vocab):
    """Returns sizes of a GPT-NeoX."""
    heads, (d, part, turned) = rng.choice([1, 2, 3]), rng.choice([(4, 0.5, 2), (6, 0.7, 4), (8, 0.25, 2), (6, 1.0, 6)])
    kinds = ("default", "default", "linear", "yarn", "llama3", "longrope") + (("dynamic",) if turned > 2 else ())
    return dict(vocab_size=vocab, hidden_size=heads * d, intermediate_size=rng.randint(5, 40), num_hidden_layers=rng.randint(1, 4),
                num_attention_heads=heads, max_position_embeddings=rng.choice([70, POSITIONS]), hidden_act=rng.choice(ACTIVATIONS),
                layer_norm_eps=10 ** rng.uniform(-8, -3), pad_token_id=rng.choice([None, rng.randrange(vocab)]),
                bos_token_id=rng.randrange(vocab), eos_token_id=rng.randrange(vocab), tie_word_embeddings=rng.random() < 0.5,
                use_parallel_residual=rng.random() < 0.5, attention_bias=rng.random() < 0.5,
                rope_parameters=rope(rng, turned, kinds) | {"partial_rotary_factor": part})


def decoder_sizes(rng, kind, vocab):
    """Returns sizes of Llama and its relatives, and of GPT-NeoX."""
    if kind == "gpt_neox":
        return neox_sizes(rng, vocab)
    heads, shared = rng.choice([(1, 1), (2, 1), (4, 2), (3, 1), (6, 3), (3, 3)])
    d, layers = rng.choice([4, 6, 8]), rng.randint(1, 4)
    made = dict(vocab_size=vocab, hidden_size=heads * rng.randint(2, 5), intermediate_size=rng.randint(5, 40), num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=shared, max_position_embeddings=rng.choice([70, POSITIONS]),
                rms_norm_eps=10 ** rng.uniform(-8, -3), pad_token_id=rng.choice([None, rng.randrange(vocab)]),
                bos_token_id=rng.randrange(vocab), eos_token_id=rng.randrange(vocab), rope_parameters=rope(rng, d))
    if kind.startswith("gemma"):
        made |= dict(head_dim=d, hidden_activation=rng.choice(ACTIVATIONS), query_pre_attn_scalar=rng.randint(2, 30),
                     sliding_window=rng.randint(2, 9), layer_types=layer_kinds(rng, layers))
    else:
        made |= dict(hidden_act=rng.choice(ACTIVATIONS), tie_word_embeddings=rng.random() < 0.5)
    if kind in ("llama", "mistral", "qwen3", "qwen3_moe"):
        made["head_dim"] = d
    if kind in ("smollm3", "granite", "qwen2", "phi3"):
        made["hidden_size"] = heads * d
    if kind == "phi3":
        part, turned = rng.choice([(1.0, d), {4: (0.5, 2), 6: (0.7, 4), 8: (0.5, 4)}[d]])
        made |= dict(sliding_window=rng.choice([None, 3, 9]), original_max_position_embeddings=rng.choice([8, 16, 40]),
                     rope_parameters=rope(rng, turned, ("default", "longrope")) | {"partial_rotary_factor": part})
    if kind == "qwen3_moe":
        experts, windows = rng.randint(1, 6), rng.random() < 0.5
        made |= dict(num_local_experts=experts, num_experts_per_tok=rng.randint(1, experts), moe_intermediate_size=rng.randint(2, 20),
                     norm_topk_prob=rng.random() < 0.5, decoder_sparse_step=rng.choice([1, layers]),
                     mlp_only_layers=[i for i in range(layers - 1) if rng.random() < 0.3], use_sliding_window=windows,
                     sliding_window=rng.randint(2, 9) if windows else None)
    if kind == "mistral":
        made["sliding_window"] = rng.choice([None, 3, 9])
    if kind in ("smollm3", "qwen2", "qwen3"):
        windows = rng.random() < 0.6
        made |= dict(use_sliding_window=windows, sliding_window=rng.randint(2, 9) if windows else None,
                     layer_types=layer_kinds(rng, layers) if windows else ["full_attention"] * layers)
    if kind == "smollm3":
        made["no_rope_layers"] = [rng.randint(0, 1) for _ in range(layers)]
    elif kind in ("qwen2", "qwen3"):
        made["max_window_layers"] = rng.randint(0, layers)
    if kind == "gemma3_text":
        made["rope_parameters"] = {"full_attention": rope(rng, d), "sliding_attention": rope(rng, d)}
    return made


def sizes(rng, kind, vocab):
    """Returns the keys that determine the shapes of the weights, and those that must fit them."""
    if kind == "modernbert":
        return modernbert_sizes(rng, vocab)
    if kind in ENCODERS:
        return bert_sizes(rng, kind, vocab)
    if kind in DECODERS:
        return decoder_sizes(rng, kind, vocab)
    heads, width, layers = rng.randint(1, 4), rng.choice([3, 4, 8, 10]), rng.randint(1, 3)
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


# ---- Keys of config.json --------------------------------------------------------------------------


def key_table(kind):
    """Returns the keys of record_config_cases.py with a value and what it does."""
    return {**COMMON, **KEYS["roberta" if kind in ROBERTAS else kind]}


def config_keys(kind):
    """Returns the keys of the table that do not follow from the sizes, with their values."""
    made = {key for i in range(20) for key in sizes(random.Random(i), kind, 10)}
    fixed = made | {"vocab_size", "model_type", "architectures", "_sliding_window_pattern", "no_rope_layer_interval"}
    return {key: value for key, (value, what) in key_table(kind).items() if what != "refused" and key not in fixed}


def in_old_form(rng, kind, config):
    """Writes rotary positions and kinds of layers as older files have them, where they can be written so."""
    ropes = config.get("rope_parameters")
    if kind == "modernbert":
        del config["rope_parameters"]
        config |= {"global_rope_theta": ropes["full_attention"].pop("rope_theta"),
                   "local_rope_theta": ropes["sliding_attention"].pop("rope_theta")}
        kinds = config["layer_types"]
        every = (kinds + ["full_attention"]).index("full_attention", 1)
        if kinds == regular_kinds(every, len(kinds)):
            del config["layer_types"]
            config["global_attn_every_n_layers"] = every
        if ropes["full_attention"]["rope_type"] != "default":
            config["rope_scaling"] = ropes["full_attention"]
    elif ropes and kind in DECODERS:
        del config["rope_parameters"]
        if kind == "gemma3_text":
            config["rope_local_base_freq"] = ropes["sliding_attention"]["rope_theta"]
            ropes = ropes["full_attention"]
        config["rope_theta" if kind != "gpt_neox" else "rotary_emb_base"] = ropes.pop("rope_theta")
        if kind == "gpt_neox":
            config["rotary_pct"] = ropes.pop("partial_rotary_factor")
        ropes[rng.choice(["type", "rope_type"])] = ropes.pop("rope_type")
        if list(ropes.values()) != ["default"]:
            config["rope_scaling"] = ropes


def write_config(rng, folder, vocab, hand, named):
    """Writes config.json. `hand` are keys that get values other than their defaults, `named` a class of tokenizers."""
    cls, kind = config_class(folder.kind), folder.kind
    chosen = sizes(rng, kind, vocab)
    cls(**json.loads(json.dumps(chosen))).save_pretrained(folder.model)  # the class changes nested values in place
    path = folder.model / "config.json"
    config = json.loads(path.read_text())
    if rng.random() < 0.4:  # most keys have their defaults
        config = {key: value for key, value in config.items() if key in chosen or key == "model_type"}
    if rng.random() < 0.3:
        in_old_form(rng, kind, config)
    values = config_keys(kind)
    if folder.model_class.__name__.endswith("QuestionAnswering"):
        hand = [key for key in hand if key not in ("id2label", "label2id")]
    folder.keys["config.json"] = {key: values[key] for key in hand}
    if rng.random() < 0.2 and hand:
        add_null(rng, folder, config, hand)
    config |= folder.keys["config.json"] | named
    for other, key in cls.attribute_map.items():
        if key in config and other not in config and rng.random() < 0.1:
            config[other] = config.pop(key)
    config["architectures"] = [folder.model_class.__name__]
    if rng.random() < 0.3:
        config[rng.choice(["dtype", "torch_dtype"])] = rng.choice(["float32", "float16", "bfloat16", "float64"])
    path.write_text(json.dumps(config))
    return config


def add_null(rng, folder, config, hand):
    """Sets one of the keys to null, if transformers can make a model of it."""
    key = rng.choice(hand)
    path = folder.model / "config.json"
    path.write_text(json.dumps(config | folder.keys["config.json"] | {key: None}))
    try:
        folder.model_class(config_class(folder.kind).from_pretrained(folder.model))
    except Exception:
        return
    folder.keys["config.json"][key] = None


# ---- Weights --------------------------------------------------------------------------------------


def is_norm(name, p):
    return p.dim() == 1 and name.endswith("weight")


def fill(model, adds_1):
    """Sets weights so large that every part of the model matters. Gemma's norms multiply by 1 + weight."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            embedding = "embeddings.weight" in name or name.endswith(("shared.weight", "wte.weight", "wpe.weight", "embed_tokens.weight", "embed_in.weight"))
            inputs = p.shape[0 if ".c_" in name else -1]
            p.normal_(float(is_norm(name, p) and not adds_1), 1.0 if embedding else 0.2 if p.dim() == 1 else 1.2 * inputs ** -0.5)


def rename_old(path):
    """Gives the norms of a BERT the names of the oldest files."""
    from safetensors.torch import load_file, save_file
    tensors = load_file(path)
    save_file({key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): t
               for key, t in tensors.items()}, path, metadata={"format": "pt"})


def write_weights(rng, folder, config):
    torch.manual_seed(rng.randrange(2**31))
    made = config_class(folder.kind).from_pretrained(folder.model)
    made._attn_implementation = "eager"  # the only one with output_attentions
    model = folder.model_class(made)
    fill(model, folder.kind.startswith("gemma"))
    dtype = rng.choice([torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16])
    model.to(dtype).save_pretrained(folder.model, max_shard_size=rng.choice(["10KB", "40KB", "1GB"]))
    (folder.model / "generation_config.json").unlink(missing_ok=True)
    (folder.model / "config.json").write_text(json.dumps(config))
    single = folder.model / "model.safetensors"
    if folder.kind == "bert" and single.exists() and rng.random() < 0.15:
        rename_old(single)
