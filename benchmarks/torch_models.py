"""The models of `brasa bench models` in PyTorch. They use the classes that generate the golden files,
with the sizes, batches and losses of benchmarks/bench_models.c.

make(name) returns a function that creates the model, and a function that returns the model's loss.
"""
import pathlib
import sys
from types import SimpleNamespace

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"))
# pylint: disable=wrong-import-position
import make_anatomy
import make_architecture
import make_bert
import make_vanilla


def bert():
    config = dict(vocab_size=70, d_model=768, n_layers=6, n_heads=12, d_ff=3072, d_k=64, d_v=64,
                  maxlen=100, n_segments=2, max_pred=7, as_written=False)
    words = 40
    ids = torch.zeros(6, 100, dtype=torch.long)
    segments = torch.zeros_like(ids)
    for b in range(6):
        for s in range(words):
            ids[b, s] = 4 + (b * 31 + s * 7) % 66
            segments[b, s] = int(s >= words // 2)
    tokens = torch.tensor([[4 + (b * 3 + p * 5) % 66 for p in range(7)] for b in range(6)])
    positions = torch.tensor([[1 + 5 * p for p in range(7)] for _ in range(6)])
    following = torch.tensor([b % 2 for b in range(6)])

    def loss(model):
        out = model(ids, segments, positions)
        return (nn.functional.cross_entropy(out["logits_lm"].transpose(1, 2), tokens) +
                nn.functional.cross_entropy(out["logits_clsf"], following))

    return lambda: make_bert.BERT(config), loss


def encoder_decoder():
    config = dict(hidden_size=512, intermediate_size=2048, num_hidden_layers=6, vocab_size=100,
                  max_position_embeddings=512, num_attention_heads=8, num_labels=2,
                  hidden_dropout_prob=0.1, add_attention=True)
    batch, length = 64, 10
    source = torch.tensor([[1 if s == 0 else 1 + (b * 31 + s * 7) % 99 for s in range(length)]
                           for b in range(batch)])
    target, target_y = source[:, :-1], source[:, 1:].flatten()
    source_mask = make_architecture.source_mask_of(source)
    target_mask = make_architecture.create_mask(batch, length - 1)

    def loss(model):
        out = model(source, target, source_mask, target_mask)
        return nn.functional.cross_entropy(out.flatten(0, 1), target_y)

    return lambda: make_architecture.EncoderDecoder(config), loss


def classifier(batch, length):
    config = SimpleNamespace(vocab_size=30522, hidden_size=768, num_hidden_layers=12,
                             num_attention_heads=12, intermediate_size=3072,
                             max_position_embeddings=512, num_labels=2, hidden_dropout_prob=0.1,
                             mask_padding=False, attention_dropout=False, final_norm=False, eps=1e-5)
    ids = torch.tensor([[(b * 7919 + s * 104729) % 30522 for s in range(length)]
                        for b in range(batch)])
    labels = torch.tensor([b % 2 for b in range(batch)])

    def loss(model):
        return nn.functional.cross_entropy(model(ids), labels)

    return lambda: make_anatomy.TransformerForSequenceClassification(config), loss


def transformer():
    config = dict(embed_dim=512, n_heads=8, ff_hid_dim=2048, n_layers=6, max_length=100,
                  src_vocab_size=10000, trg_vocab_size=10000, src_pad_idx=0, trg_pad_idx=0,
                  dropout=0.0)
    batch, length = 16, 32
    src = torch.tensor([[1 + (b * 7919 + s * 104729) % 9999 for s in range(length)]
                        for b in range(batch)])
    trg = torch.tensor([[1 + (b * 6007 + s * 50021) % 9999 for s in range(length)]
                        for b in range(batch)])

    def loss(model):
        return nn.functional.cross_entropy(model(src, trg[:, :-1]).flatten(0, 1),
                                           trg[:, 1:].flatten())

    return lambda: make_vanilla.Transformer(config), loss


def gpt2():
    """GPT-2 from transformers with 124 million parameters, initialized in the order of its parameters."""
    from transformers import GPT2Config, GPT2LMHeadModel  # only this model needs it

    ids = torch.tensor([[(b * 7919 + s * 104729) % 50257 for s in range(64)] for b in range(4)])

    def build():
        model = GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa"))
        torch.manual_seed(0)
        with torch.no_grad():
            for name, p in model.named_parameters():
                if p.dim() == 1:
                    p.fill_(1.0 if "ln_" in name and name.endswith("weight") else 0.0)
                else:
                    p.normal_(0.0, 0.02 / 24 ** 0.5 if name.endswith("c_proj.weight") else 0.02)
        return model

    return build, lambda model: model(ids, labels=ids, use_cache=False).loss


def smollm(lora):
    """Llama from transformers with the sizes of SmolLM2-135M, initialized in the order of its parameters, or with an
    adapter of peft in all layers."""
    from transformers import LlamaConfig, LlamaForCausalLM  # only this model needs it

    ids = torch.tensor([[s * 104729 % 49152 for s in range(512)]])

    def build():
        model = LlamaForCausalLM(LlamaConfig(
            vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
            num_key_value_heads=3, max_position_embeddings=8192, rms_norm_eps=1e-5, tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, attn_implementation="sdpa"))
        torch.manual_seed(0)
        with torch.no_grad():
            for p in model.parameters():
                if p.dim() == 1:
                    p.fill_(1.0)
                else:
                    p.normal_(0.0, 1 / 24)
        if lora:
            from peft import LoraConfig, get_peft_model
            model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
        return model

    return build, lambda model: model(input_ids=ids, labels=ids, use_cache=False).loss


def attention(length, causal):
    """Attention alone, whose three inputs are the parameters."""
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value = (
                nn.Parameter(torch.randn(1, 12, length, 64)) for _ in range(3))

        def forward(self):
            return nn.functional.scaled_dot_product_attention(self.query, self.key, self.value,
                                                              is_causal=causal)

    return Attention, lambda model: model().square().sum()


MODELS = {
    "bert-scratch": bert,
    "encoder-decoder": encoder_decoder,
    "classifier-5": lambda: classifier(1, 5),
    "classifier-128": lambda: classifier(8, 128),
    "transformer": transformer,
    "gpt2": gpt2,
    "smollm": lambda: smollm(False),
    "smollm-lora": lambda: smollm(True),
    "attention-2048": lambda: attention(2048, False),
    "attention-2048-causal": lambda: attention(2048, True),
    "attention-8192": lambda: attention(8192, False),
}


def make(name):
    return MODELS[name]()
