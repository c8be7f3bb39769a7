#!/usr/bin/env python3
"""Writes the models and the expected results of tests/models/test_decoders.c.

    record_decoders.py decoders            records all families
    record_decoders.py decoders phi3       records some, and keeps the others

For each family there are three folders with random sizes, options and weights. The results are those of transformers in
double precision, with rotary positions in double precision, too: the last hidden state, the logits, and two numbers for the
gradients of all parameters. The loss is the sum of the logits, times cos(0), cos(1), ...; the numbers are the sum of all
gradients, times cos(0), cos(1), ... within each parameter, and the sum of their squares. Tokens are those of generate().
There are also the logits of two classes, and the
same two numbers of their gradients. For experts there are also the loss of labels with the loss of the routers, the latter alone, and the same two numbers for
the gradients of the loss.
Requires torch and transformers from PyPI; written with 5.23.0.
"""
import importlib
import json
import random
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

BATCH, TOKENS, NEW = 3, 11, 9
FAMILIES = {"llama": ("llama", "Llama", "LlamaModel"), "mistral": ("mistral", "Mistral", "MistralModel"),
            "smollm3": ("smollm3", "SmolLM3", "SmolLM3Model"), "qwen2": ("qwen2", "Qwen2", "Qwen2Model"),
            "qwen3": ("qwen3", "Qwen3", "Qwen3Model"), "gemma2": ("gemma2", "Gemma2", "Gemma2Model"),
            "gemma3_text": ("gemma3", "Gemma3", "Gemma3TextModel"), "phi3": ("phi3", "Phi3", "Phi3Model"),
            "gpt_neox": ("gpt_neox", "GPTNeoX", "GPTNeoXModel"),
            "qwen3_moe": ("qwen3_moe", "Qwen3Moe", "Qwen3MoeModel"),
            "granite": ("granite", "Granite", "GraniteModel")}
ROPES = [
    lambda r: {"rope_type": "default", "rope_theta": r.choice([100.0, 10000.0, 500000.0])},
    lambda r: {"rope_type": "linear", "rope_theta": 1000.0, "factor": r.choice([1.5, 4.0])},
    lambda r: {"rope_type": "dynamic", "rope_theta": 1000.0, "factor": 2.5},
    lambda r: {"rope_type": "yarn", "rope_theta": 100.0, "factor": 3.0, "original_max_position_embeddings": 20,
               "beta_fast": 3.0, "beta_slow": 0.25},
    lambda r: {"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 40,
               "beta_fast": 6.0, "beta_slow": 0.5, "mscale": 1.2, "mscale_all_dim": 0.7, "truncate": False},
    lambda r: {"rope_type": "llama3", "rope_theta": 30.0, "factor": 6.0, "low_freq_factor": 0.5,
               "high_freq_factor": 2.5, "original_max_position_embeddings": 16},
]


class Double:
    """torch, whose single precision is double precision."""
    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def in_double_precision():
    """Makes transformers compute rotary positions in double precision."""
    torch.Tensor.float = lambda self: self.double()
    torch.set_default_dtype(torch.float64)
    transformers.modeling_rope_utils.torch = Double()
    for module, prefix, _ in FAMILIES.values():
        code = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
        code.torch = Double()


def phi_rope(rng, d, i):
    """Returns the rotary positions of the i-th Phi-3: plain, of a text that is long, and of one that gets long."""
    part, pairs = {4: (0.5, 1), 6: (0.7, 2), 8: (0.75, 3)}[d] if i < 2 else (1.0, d // 2)
    made = {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": part}
    if i > 0:
        made |= {"rope_type": "longrope", "short_factor": [round(rng.uniform(1, 2), 3) for _ in range(pairs)],
                 "long_factor": [round(rng.uniform(2, 9), 3) for _ in range(pairs)]}
    if i == 2:
        made["attention_factor"] = 1.3
    return made


def neox_options(rng, i):
    """Returns random settings of the i-th GPT-NeoX."""
    heads, d = rng.choice([1, 3, 5]), [8, 6, 10][i]
    rope = [ROPES[0], ROPES[3], ROPES[2]][i](rng) | {"partial_rotary_factor": [0.25, 0.7, 1.0][i]}
    return dict(vocab_size=rng.randint(18, 26), hidden_size=heads * d, intermediate_size=rng.randint(5, 14),
                num_hidden_layers=rng.randint(2, 4), num_attention_heads=heads, max_position_embeddings=rng.choice([8, 64]),
                layer_norm_eps=10 ** rng.uniform(-8, -3), tie_word_embeddings=i == 1, hidden_act=rng.choice(["gelu", "relu", "silu"]),
                use_parallel_residual=i != 1, attention_bias=i != 2, hidden_dropout=0.1, rope_parameters=rope,
                bos_token_id=1, eos_token_id=2)


def options(rng, family, i):
    """Returns random settings of the i-th model of a family."""
    if family == "gpt_neox":
        return neox_options(rng, i)
    heads, shared = rng.choice([(1, 1), (2, 1), (4, 2), (3, 1), (6, 3), (3, 3)])
    d, layers = rng.choice([4, 6, 8]), rng.randint(2, 4)
    width = heads * rng.randint(2, 5)
    made = dict(vocab_size=rng.randint(18, 26), hidden_size=width, intermediate_size=rng.randint(5, 14),
                num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=shared,
                max_position_embeddings=rng.choice([8, 64]), rms_norm_eps=10 ** rng.uniform(-8, -3),
                tie_word_embeddings=rng.random() < 0.5, pad_token_id=rng.choice([None, 0, 3]),
                bos_token_id=1, eos_token_id=2)
    if family.startswith("gemma"):
        made |= dict(head_dim=d, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=rng.randint(2, 30),
                     attention_bias=rng.random() < 0.3, sliding_window=rng.randint(2, 6),
                     attn_logit_softcapping=rng.choice([None, 1.5]), final_logit_softcapping=rng.choice([None, 2.0]))
    else:
        made |= dict(hidden_act=rng.choice(["silu", "gelu", "relu"]))
    if family in ("llama", "mistral", "qwen3", "qwen3_moe"):
        made["head_dim"] = d
    if family in ("smollm3", "granite", "qwen2", "phi3"):
        made["hidden_size"] = heads * d
    if family in ("llama", "smollm3", "granite"):
        made |= dict(attention_bias=rng.random() < 0.5, mlp_bias=rng.random() < 0.5)
    if family == "granite":
        made |= dict(attention_multiplier=round(rng.uniform(0.1, 1), 3), embedding_multiplier=round(rng.uniform(0.5, 12), 3),
                     residual_multiplier=round(rng.uniform(0.2, 1.5), 3), logits_scaling=round(rng.uniform(0.5, 8), 3))
    if family == "qwen3":
        made["attention_bias"] = rng.random() < 0.5
    if family == "qwen3_moe":
        made |= dict(attention_bias=i == 1, use_sliding_window=i == 1, sliding_window=4, moe_intermediate_size=rng.randint(3, 7),
                     num_experts=[5, 4, 9][i], num_experts_per_tok=[2, 1, 3][i], norm_topk_prob=i != 1, num_hidden_layers=4,
                     decoder_sparse_step=[1, 2, 1][i], mlp_only_layers=[[], [3], [1, 2]][i], output_router_logits=i != 0,
                     router_aux_loss_coef=0.3)
    if family == "mistral":
        made["sliding_window"] = [None, 3, 5][i]
    if family in ("qwen2", "qwen3"):
        made |= dict(use_sliding_window=i > 0, sliding_window=rng.randint(2, 5), max_window_layers=1)
    if family == "smollm3":
        made |= dict(no_rope_layer_interval=2, use_sliding_window=i == 2, sliding_window=4)
        if i == 1:
            made["no_rope_layers"] = [rng.randint(0, 1) for _ in range(layers)]
    if family == "phi3":
        return made | dict(sliding_window=[5, None, None][i], original_max_position_embeddings=[4096, 6, 14][i],
                           resid_pdrop=0.1, rope_parameters=phi_rope(rng, d, i))
    rope = ROPES[(list(FAMILIES).index(family) + 2 * i) % len(ROPES)](rng)
    if family == "gemma3_text":
        made["rope_parameters"] = {"full_attention": rope,
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}
        made["layer_types"] = [["full_attention", "sliding_attention"][(j + i) % 2] for j in range(layers)]
        made["use_bidirectional_attention"] = i == 2
    else:
        made["rope_parameters"] = rope
    return made


def randomize(model, generator):
    """Sets weights so that every part affects the result."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            is_norm = p.dim() == 1 and name.endswith("norm.weight")
            p.copy_(torch.randn(p.shape, generator=generator) * 0.4 + (1.0 if is_norm else 0.0))
            p.copy_(p.float().to(torch.float32))


def old_form(folder):
    """Writes the rotary positions in the form of older files."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    nested = "full_attention" in rope
    if nested:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    config["rope_theta"] = rope.pop("rope_theta")
    is_neox = config["model_type"] == "gpt_neox"
    if is_neox:
        config["rotary_emb_base"] = config.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["rotary_pct" if is_neox else "partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    kind = rope.pop("rope_type")
    rope["rope_type" if nested else "type"] = kind
    if kind != "default":
        config["rope_scaling"] = rope
    path.write_text(json.dumps(config, indent=1))


def by_file(model):
    """Returns the gradients of the parameters as files have them: those of each expert are on their own."""
    for name, p in model.named_parameters():
        if p.grad is None or not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            yield from [] if p.grad is None else [p.grad.flatten()]
            continue
        for expert in p.grad:
            yield from [half.flatten() for half in (expert.chunk(2) if "gate_up" in name else [expert])]


def sums_of(model):
    gradients = list(by_file(model))
    return torch.stack([sum((g * weights_of(len(g))).sum() for g in gradients), sum((g * g).sum() for g in gradients)])


def balanced(model, ids, mask):
    """Returns what a model with experts has beside others."""
    model.zero_grad()
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, 1:][mask[:, :-1] == 0] = -100  # padding, which may see nothing, predicts nothing
    out = model(input_ids=ids, attention_mask=mask, labels=labels, output_router_logits=True)
    out.loss.backward()
    return {"labels": labels, "losses": torch.stack([out.loss, out.aux_loss]).detach(), "loss_gradients": sums_of(model)}


def classified(folder, family):
    """Returns logits of classes with recorded texts that end in padding or begin with it, and numbers of the gradients.
    Without padding there is one text. The weights of the head are cos(0), cos(1), ..."""
    name = FAMILIES[family][2].removesuffix("Model") + "ForSequenceClassification"
    if not hasattr(transformers, name):
        return {}
    more = {"experts_implementation": "eager"} if family == "qwen3_moe" else {}
    model = getattr(transformers, name).from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", **more).eval()
    with torch.no_grad():
        model.score.weight.copy_(weights_of(model.score.weight.numel()).reshape(model.score.weight.shape))
    rng, pad = random.Random(1), model.config.pad_token_id
    ids = torch.tensor([[rng.randrange(4, model.config.vocab_size) for _ in range(TOKENS)] for _ in range(BATCH if pad is not None else 1)])
    mask = torch.ones_like(ids)
    if pad is not None:
        mask[1, :4], mask[2, -2:] = 0, 0
        ids = ids.masked_fill(mask == 0, pad)
    logits = model(input_ids=ids, attention_mask=mask).logits
    (logits.flatten() * weights_of(logits.numel())).sum().backward()
    return {"class_ids": ids, "class_mask": mask, "classes": logits.detach(), "class_gradients": sums_of(model)}


def weights_of(n):
    return torch.cos(torch.arange(n, dtype=torch.float64))


def record(folder, family, generator, rng):
    lm = getattr(transformers, FAMILIES[family][1] + "ForCausalLM")
    more = {"experts_implementation": "eager"} if family == "qwen3_moe" else {}
    model = lm.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", **more).eval()
    vocab = model.config.vocab_size
    ids = torch.tensor([[rng.randrange(4, vocab) for _ in range(TOKENS)] for _ in range(BATCH)])
    mask = torch.ones_like(ids)
    mask[1, :4] = 0  # padding on the left, as for generation
    mask[2, -2:] = 0
    out = model(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    seen = mask.unsqueeze(-1)  # the results of padding, which may see nothing, are arbitrary
    logits = out.logits * seen
    (logits.flatten() * weights_of(logits.numel())).sum().backward()
    result = {"input_ids": ids, "attention_mask": mask, "hidden": (out.hidden_states[-1] * seen).detach(),
              "logits": logits.detach(), "gradients": sums_of(model)}
    if family == "qwen3_moe":
        result |= balanced(model, ids, mask)
    model.config.output_router_logits = False  # transformers cannot generate with it
    first = ids[:2], mask[:2]
    tokens = model.generate(first[0], attention_mask=first[1], max_new_tokens=NEW, do_sample=False, eos_token_id=None,
                            pad_token_id=0)
    return result | {"tokens": tokens}


def main(out, families):
    in_double_precision()
    expected = load_file(out / "expected.safetensors") if families else {}
    for family in families or FAMILIES:
        rng, generator = random.Random(family), torch.Generator().manual_seed(1)
        for i in range(3):
            config = transformers.AutoConfig.for_model(family, **options(rng, family, i))
            model = getattr(transformers, FAMILIES[family][1] + "ForCausalLM")(config)
            randomize(model, generator)
            folder = out / f"{family}{i}"
            model.to(torch.float32).save_pretrained(folder)
            (folder / "generation_config.json").unlink(missing_ok=True)
            if i == 1:
                old_form(folder)
            results = record(folder, family, generator, rng) | (classified(folder, family) if family != "gpt_neox" else {})
            expected |= {f"{family}{i}.{k}": v.contiguous() for k, v in results.items()}
    save_file(expected, out / "expected.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
