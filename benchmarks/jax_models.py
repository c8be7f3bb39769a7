"""Three models of `brasa bench models` in JAX, each as one function that is compiled as a whole: the
BERT of notebook 003, the EncoderDecoder of notebook 004, and GPT-2, with the batches of torch_models.py
and PyTorch's initial weights.

make(name) returns the weights, and a function that computes the loss from weights.
train_step(name, loss) returns a compiled step with Adam, or AdamW for gpt2, that updates its state in
place.
"""
import multiprocessing

import jax
import jax.numpy as jnp
import numpy as np

ADAM = dict(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8)
WEIGHT_DECAY = {"gpt2": 1e-2}


# ---- Layers: w is the dictionary of weights, whose keys begin with `name` ------------------------

def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def norm(w, name, x, eps=1e-5):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + eps) * w[name + ".weight"] + w[name + ".bias"]


def attend(q, k, v, heads, hidden, value):
    """Computes attention. Keys where `hidden` is true are masked: their score is `value`."""
    q, k, v = (x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    out = jax.nn.softmax(jnp.where(hidden, value, scores), -1) @ v
    return out.swapaxes(1, 2).reshape(out.shape[0], out.shape[2], -1)


def cross_entropy(logits, targets):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits, -1), targets[..., None], -1)
    return -chosen.mean()


# ---- Notebook 003 --------------------------------------------------------------------------------

def bert():
    b, s, p = np.arange(6)[:, None], np.arange(40), np.arange(7)
    ids = np.zeros((6, 100), np.int32)
    segments = np.zeros_like(ids)
    ids[:, :40] = 4 + (b * 31 + s * 7) % 66
    segments[:, :40] = s >= 20
    tokens, positions = 4 + (b * 3 + p * 5) % 66, np.broadcast_to(1 + 5 * p, (6, 7))
    following = np.arange(6) % 2
    hidden = (ids == 0)[:, None, None, :]

    def gelu(x):
        return jax.nn.gelu(x, approximate=False)

    def loss(w):
        x = (w["embedding.tok_embed.weight"][ids] + w["embedding.pos_embed.weight"] +
             w["embedding.seg_embed.weight"][segments])
        x = norm(w, "embedding.norm", x)
        for i in range(6):
            a, f = f"layers.{i}.enc_self_attn.", f"layers.{i}.pos_ffn."
            q, k, v = (linear(w, a + m, x) for m in ("W_Q", "W_K", "W_V"))
            x = norm(w, a + "norm", linear(w, a + "linear", attend(q, k, v, 12, hidden, -1e9)) + x)
            x = norm(w, f"layers.{i}.norm", x + linear(w, f + "fc2", gelu(linear(w, f + "fc1", x))))
        pair = linear(w, "classifier", jnp.tanh(linear(w, "fc", x[:, 0])))
        masked = jnp.take_along_axis(x, positions[..., None], 1)
        masked = norm(w, "norm", gelu(linear(w, "linear", masked)))
        words = masked @ w["embedding.tok_embed.weight"].T + w["decoder_bias"]
        return cross_entropy(words, tokens) + cross_entropy(pair, following)

    return loss


# ---- Notebook 004 --------------------------------------------------------------------------------

def encoder_decoder():
    b, s = np.arange(64)[:, None], np.arange(10)
    source = np.where(s == 0, 1, 1 + (b * 31 + s * 7) % 99)
    target, target_y = source[:, :-1], source[:, 1:]
    padding = (source == 0)[:, None, None, :]
    future = ~np.tri(9, dtype=bool)

    def attention(w, name, x, memory, hidden):
        q, k, v = (linear(w, name + part, of)
                   for part, of in ((".q", x), (".k", memory), (".v", memory)))
        return linear(w, name + ".output_linear", attend(q, k, v, 8, hidden, -jnp.inf))

    def feed_forward(w, name, x):
        return linear(w, name + ".linear_2", jax.nn.relu(linear(w, name + ".linear_1", x)))

    def embed(w, name, ids):
        x = (w[name + ".token_embeddings.weight"][ids] +
             w[name + ".position_embeddings.weight"][:ids.shape[1]])
        return norm(w, name + ".layer_norm", x, 1e-12)

    def loss(w):
        x = embed(w, "encoder.embeddings", source)
        for i in range(6):
            layer = f"encoder.layers.{i}."
            h = norm(w, layer + "layer_norm_1", x)
            h = norm(w, layer + "layer_norm_2", x + attention(w, layer + "attention", h, h, False))
            x = h + feed_forward(w, layer + "feed_forward", h)
        y = embed(w, "decoder.embeddings", target)
        for i in range(6):
            layer = f"decoder.layers.{i}."
            h = norm(w, layer + "layer_norm_1", y)
            h = norm(w, layer + "layer_norm_2", y + attention(w, layer + "attn_1", h, h, future))
            y = h + attention(w, layer + "attn_2", h, x, padding)
            h = norm(w, layer + "layer_norm_3", y)
            y = h + feed_forward(w, layer + "feed_forward", h)
        return cross_entropy(linear(w, "fc", y), target_y)

    return loss


# ---- GPT-2 ---------------------------------------------------------------------------------------

def gpt2():
    ids = (np.arange(4)[:, None] * 7919 + np.arange(64) * 104729) % 50257
    future = ~np.tri(64, dtype=bool)

    def product(w, name, x):
        return x @ w[name + ".weight"] + w[name + ".bias"]  # [in, out]

    def loss(w):
        w = {name.removeprefix("transformer."): x for name, x in w.items()}
        x = w["wte.weight"][ids] + w["wpe.weight"][:64]
        for i in range(12):
            h = f"h.{i}."
            q, k, v = jnp.split(product(w, h + "attn.c_attn", norm(w, h + "ln_1", x)), 3, -1)
            x = x + product(w, h + "attn.c_proj", attend(q, k, v, 12, future, -jnp.inf))
            inner = product(w, h + "mlp.c_fc", norm(w, h + "ln_2", x))
            x = x + product(w, h + "mlp.c_proj", jax.nn.gelu(inner, approximate=True))
        logits = norm(w, "ln_f", x) @ w["wte.weight"].T
        return cross_entropy(logits[:, :-1], ids[:, 1:])

    return loss


MODELS = {"bert-scratch": bert, "encoder-decoder": encoder_decoder, "gpt2": gpt2}


# ---- Training ------------------------------------------------------------------------------------

def torch_weights(name):
    # pylint: disable=import-outside-toplevel
    import torch
    import torch_models
    torch.manual_seed(0)
    return {key: p.detach().numpy() for key, p in torch_models.make(name)[0]().named_parameters()}


def make(name):
    # In a separate process, so that PyTorch's memory is not counted as JAX's.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        weights = pool.apply(torch_weights, (name,))
    return {key: jnp.array(w) for key, w in weights.items()}, MODELS[name]()


def train_step(name, loss):
    keep = 1 - ADAM["lr"] * WEIGHT_DECAY.get(name, 0)

    def step(weights, first, second, t):
        value, gradients = jax.value_and_grad(loss)(weights)
        mean = jax.tree.map(lambda m, g: ADAM["beta1"] * m + (1 - ADAM["beta1"]) * g, first, gradients)
        square = jax.tree.map(lambda v, g: ADAM["beta2"] * v + (1 - ADAM["beta2"]) * g * g, second,
                              gradients)
        size = ADAM["lr"] / (1 - ADAM["beta1"] ** t)
        root = jnp.sqrt(1 - ADAM["beta2"] ** t)
        weights = jax.tree.map(lambda w, m, v: keep * w - size * m / (jnp.sqrt(v) / root + ADAM["eps"]),
                               weights, mean, square)
        return value, weights, mean, square

    return jax.jit(step, donate_argnums=(0, 1, 2))
