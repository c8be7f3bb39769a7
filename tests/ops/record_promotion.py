#!/usr/bin/env python3
"""Records the dtypes of results of operands of different dtypes in PyTorch: torch_promotion.h.

    tests/ops/record_promotion.py >tests/ops/torch_promotion.h
"""
import itertools

import torch

DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.float16, torch.int32, torch.int8,
          torch.uint8]
NUMBERS = [2, 0.5, float("inf")]


def number_of(dtype):
    """Returns the number of the dtype; Brasa has i32 in place of i16."""
    return DTYPES.index(torch.int32 if dtype == torch.int16 else dtype)


def tensor(dtype, dims):
    return torch.ones([3] * dims, dtype=dtype)


def results():
    """Yields the numbers of a's and b's dtypes and dimensions, and of the result's dtype."""
    for a, b in itertools.product(DTYPES, DTYPES):
        for a_dims, b_dims in itertools.product((0, 1), (0, 1)):
            result = torch.result_type(tensor(a, a_dims), tensor(b, b_dims))
            assert (torch.cat([tensor(a, 1), tensor(b, 1)]).dtype == torch.promote_types(a, b))
            yield number_of(a), a_dims, number_of(b), b_dims, number_of(result)


print("/* tests/ops/torch_promotion.h - recorded by record_promotion.py: numbers of dtypes and dims. */")
print("#ifndef BR_TESTS_TORCH_PROMOTION_H\n#define BR_TESTS_TORCH_PROMOTION_H\n\n#include <math.h>\n\n/* clang-format off */")
print("static const struct {\n    unsigned char a, a_dims, b, b_dims, result;\n} promotions[] = {")
rows = [f"{{ {', '.join(map(str, row))} }}" for row in results()]
for i in range(0, len(rows), 5):
    print("    " + ", ".join(rows[i:i + 5]) + ",")
print("};\n\n/* The result of a tensor and a number, and whether it may be stored in a tensor of each dtype. */")
print("static const struct {\n    unsigned char dtype;\n    double number;\n    unsigned char result;\n} scalars[] = {")
for dtype in DTYPES:
    for number in NUMBERS:
        result = number_of(torch.result_type(tensor(dtype, 1), number))
        print(f"    {{ {number_of(dtype)}, {'INFINITY' if number > 2 else number}, {result} }},")
print("};\n\nstatic const char *const castable[] = { /* [from][to] */")
for a in DTYPES:
    print('    "' + "".join(str(int(torch.can_cast(a, b))) for b in DTYPES) + '",')
print("};\n/* clang-format on */\n\n#endif")
