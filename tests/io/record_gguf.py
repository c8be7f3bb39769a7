"""Writes recorded.gguf: random blocks of each quantized type with the f32 values that the package `gguf` dequantizes
them to, tensors of the other types, and metadata of every type.
Usage: python record_gguf.py"""
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFValueType as V

# The type, the rows, and the byte offsets of the f16 scales in a block.
BLOCKS = [(T.Q4_0, 3, [0]), (T.Q4_1, 3, [0, 2]), (T.Q5_0, 3, [0]), (T.Q5_1, 3, [0, 2]), (T.Q8_0, 3, [0]),
          (T.Q2_K, 1, [80, 82]), (T.Q3_K, 1, [108]), (T.Q4_K, 1, [0, 2]), (T.Q5_K, 1, [0, 2]), (T.Q6_K, 2, [208])]
# The first block's scales: normal numbers; the later blocks have a negative and a subnormal number.
SCALES = [0.0371, -1.625, 1e-6]

random = np.random.default_rng(0)


def blocks(kind, rows, offsets):
    """Returns one random block for each row, with finite scales."""
    data = random.integers(0, 256, (rows, gguf.GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    for row in range(rows):
        for i, offset in enumerate(offsets):
            scale = np.float16(SCALES[row] * (1 + i / 3))
            data[row, offset:offset + 2] = np.frombuffer(scale.tobytes(), dtype=np.uint8)
    return data


def write(path):
    writer = gguf.GGUFWriter(path, "test")
    for kind, value in {V.UINT8: 200, V.INT8: -100, V.UINT16: 60000, V.INT16: -30000, V.UINT32: 4000000000,
                        V.INT32: -2000000000, V.UINT64: 2**63 - 1, V.INT64: -2**63, V.FLOAT32: 0.1, V.FLOAT64: 0.1,
                        V.BOOL: True, V.STRING: "olá\0!"}.items():
        writer.add_key_value(f"value.{kind.name.lower()}", value, kind)
    writer.add_key_value("value.large", 2**63, V.UINT64)
    writer.add_array("list.int32", [1, -2, 3])
    writer.add_array("list.float32", [0.5, -0.25])
    writer.add_array("list.bool", [True, False])
    writer.add_array("list.string", ["", "a", "olá"])
    for kind, rows, offsets in BLOCKS:
        data = blocks(kind, rows, offsets)
        writer.add_tensor(kind.name.lower(), data, raw_dtype=kind)
        writer.add_tensor(kind.name.lower() + ".f32", gguf.dequantize(data, kind))
    for kind in (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64):
        values = np.arange(-3, 3).reshape(1, 3, 2).astype(kind)
        writer.add_tensor(np.dtype(kind).name, values)
    halves = gguf.quantize(np.arange(-3, 3, dtype=np.float32).reshape(3, 2), T.BF16)
    writer.add_tensor("bfloat16", halves, raw_dtype=T.BF16)
    writer.add_tensor("iq4_nl", random.integers(0, 256, (1, 18), dtype=np.uint8), raw_dtype=T.IQ4_NL)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


write(pathlib.Path(__file__).with_name("recorded.gguf"))
