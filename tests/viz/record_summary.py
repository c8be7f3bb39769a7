#!/usr/bin/env python3
"""Records the events that PyTorch's SummaryWriter writes for the calls of tests/viz/test_summary_writer.c.

    $BRASA_TORCH_PYTHON tests/viz/record_summary.py >tests/viz/summary_values.h

Requires tensorboard. An event is recorded without its time, and a long one only as its length and CRC32C.
"""
import glob
import os
import struct
import tempfile

import torch
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard._utils import convert_to_HWC


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def events(folder):
    """Yields the events of all files, without the ones that name the format's version."""
    for path in sorted(glob.glob(folder + "/**/events*", recursive=True)):
        with open(path, "rb") as file:
            data = file.read()
        at = 0
        while at < len(data):
            n = struct.unpack_from("<Q", data, at)[0]
            event = data[at + 12:at + 12 + n][9:]
            if b"brain.Event:2" not in event:
                yield event
            at += 16 + n


def calls(writer):
    values = torch.tensor([-2, 0, 0, 0.5, 1, 1, 2**-43, 3])
    writer.add_scalar("loss", 0.5, 1)
    writer.add_scalar("a/b", 0, 0)
    writer.add_scalar("x", float("nan"), 300)
    writer.add_text("note", "**two** wörds", 2)
    writer.add_histogram("h", values, 3)
    writer.add_histogram("i", torch.tensor([5, 7, 7, 250], dtype=torch.uint8), 3)
    writer.add_histogram("inf", torch.tensor([1, float("inf"), 2]), 3)
    writer.add_histogram("n", values, 3, bins=4)
    writer.add_histogram("m", values, 3, max_bins=100)
    writer.add_histogram("k", values, 3, bins=7, max_bins=3)
    writer.add_histogram("one", torch.full((2,), 5.0), 3, bins=2)
    writer.add_hparams({"lr": 0.25}, {"acc": 0.5}, run_name="run")
    writer.add_hparams({"opt": "adam"}, {}, run_name="run2")


def pixels(tensor, formats):
    scale = 1 if tensor.dtype == torch.uint8 else 255
    image = torch.tensor(convert_to_HWC(tensor.numpy(), formats)).float().numpy()
    return (image * scale).clip(0, 255).astype("uint8").tobytes()


def literal(data):
    def character(byte):
        return chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"

    return '"' + "".join(map(character, data)) + '"'


def main():
    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder, purge_step=7)
        calls(writer)
        writer.close()
        recorded = list(events(folder))
        writer.add_embedding(torch.ones(2, 3), ['a "b"', "c"], torch.rand(2, 1, 4, 5), 12, "x/y")
        writer.add_embedding(torch.ones(2, 3))
        writer.close()
        with open(os.path.join(folder, "projector_config.pbtxt"), encoding="utf-8") as file:
            config = file.read()
    print("/* Written by tests/viz/record_summary.py: PyTorch's events, without their times. */")
    print("static const struct {\n    size_t n;\n    uint32_t crc;\n    const char *bytes;\n} recorded[] = {")
    for event in recorded:
        print(f"    {{ {len(event)}, 0x{crc32c(event):08x},")
        print(f"      {literal(event) if len(event) < 120 else 'NULL'} }},")
    print("};")
    print(f"static const char projector_config[] =\n    {literal(config.encode())};")
    image = torch.arange(24).reshape(2, 3, 4) / 23
    grid = torch.arange(9 * 4).reshape(9, 1, 2, 2).byte()
    print(f"static const char hwc_pixels[] = {literal(pixels(image.permute(0, 2, 1), 'HWC'))};")
    print(f"static const char grid_pixels[] = {literal(pixels(grid, 'NCHW'))};")


main()
