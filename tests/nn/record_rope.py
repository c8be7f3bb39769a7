#!/usr/bin/env python3
"""Prints rope_values.h: cosines and sines of rotary positions of transformers, in single precision.

    record_rope.py > rope_values.h

Requires torch and transformers from PyPI; written with 5.24.0.
"""
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.utils import logging

DIM, POSITIONS = 8, [0, 1, 37, 5000]
CASES = {
    "plain": dict(rope_type="default", rope_theta=10000.0),
    "linear": dict(rope_type="linear", rope_theta=500.0, factor=3.0),
    "dynamic": dict(rope_type="dynamic", rope_theta=500.0, factor=2.0),
    "yarn": dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=64),
    "yarn_scales": dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=64, beta_fast=8.0,
                        beta_slow=0.5, mscale=1.5, mscale_all_dim=0.5, truncate=False),
    "yarn_factor": dict(rope_type="yarn", rope_theta=500.0, factor=4.0, original_max_position_embeddings=64,
                        attention_factor=1.25),
    "llama3": dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=128),
    "longrope": dict(rope_type="longrope", rope_theta=500.0, factor=4.0, original_max_position_embeddings=256,
                     short_factor=[1.0, 1.5, 2.0, 3.0], long_factor=[1.0, 2.0, 5.0, 9.0]),
}


def main():
    logging.set_verbosity_error()
    print("/* tests/nn/rope_values.h - written by record_rope.py: cosines, then sines, of positions 0, 1, 37 and")
    print(" * 5000 in a text of 5001 tokens. */")
    for name, rope in CASES.items():
        config = LlamaConfig(hidden_size=DIM, num_attention_heads=1, max_position_embeddings=256, rope_parameters=rope)
        cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1), torch.tensor([POSITIONS]))
        values = torch.stack([cos[0, :, :DIM // 2], sin[0, :, :DIM // 2]]).flatten().tolist()
        print(f"static const float {name}_values[] = {{")
        for i in range(0, len(values), 4):
            print("    " + " ".join(f"{v:.9g}{'' if '.' in f'{v:.9g}' or 'e' in f'{v:.9g}' else '.0'}f," for v in values[i:i + 4]))
        print("};")


if __name__ == "__main__":
    main()
