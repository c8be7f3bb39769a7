"""Writes half_values.h: the bits of 16-bit floats, and of torch's conversions to f32.
Usage: python record_half.py > half_values.h"""
import numpy as np
import torch

# Zeros, subnormal numbers, 1, the largest values, infinities, quiet and signalling NaNs.
CHOSEN = {
    "F16": (torch.float16, (0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3555, 0x3c00, 0x7bff,
                            0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xfdab, 0xffff)),
    "BF16": (torch.bfloat16, (0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080, 0x3eab, 0x3f80, 0x7f7f,
                              0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffab, 0xffff)),
}


def as_f32(dtype):
    """Returns the f32 bits of all 65536 values, converted at once: for single values torch uses another path,
    which loses the payload of a NaN."""
    halves = torch.from_numpy(np.arange(65536, dtype=np.uint16).view(np.int16)).view(dtype)
    return halves.float().view(torch.int32).numpy().view(np.uint32)


def fnv1a(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 % 2**64
    return value


print("/* Made by record_half.py with PyTorch", torch.__version__.split("+")[0] + ". */")
print("#include <stdint.h>\n\nstruct half_value {\n    uint16_t half;\n    uint32_t f32;\n};\n")
for name, (dtype, chosen) in CHOSEN.items():
    all_bits = as_f32(dtype)
    print(f"static const struct half_value {name.lower()}_values[] = {{")
    for half in chosen:
        print(f"    {{ 0x{half:04x}, 0x{int(all_bits[half]):08x} }},")
    print("};")
    print("/* FNV-1a of the F32 of all 65536 values. */")
    print(f"static const uint64_t {name.lower()}_sum = 0x{fnv1a(all_bits.tobytes()):016x};\n")
