/* tests/ops/quantized.h - quantized tensors of random blocks, for tests. */
#ifndef BR_TESTS_OPS_QUANTIZED_H
#define BR_TESTS_OPS_QUANTIZED_H

#include "tensor/tensor_internal.h"
#include "tests/support.h"

#include <brasa/ops.h>

/* The bytes of the f16 scales of a block; -1: there is only one. */
static const int f16_scales[BR_N_BLOCK_TYPES][2] = {
    [BR_BLOCK_q4_0] = { 0, -1 },   [BR_BLOCK_q4_1] = { 0, 2 },  [BR_BLOCK_q5_0] = { 0, -1 },
    [BR_BLOCK_q5_1] = { 0, 2 },    [BR_BLOCK_q8_0] = { 0, -1 }, [BR_BLOCK_q2_k] = { 80, 82 },
    [BR_BLOCK_q3_k] = { 108, -1 }, [BR_BLOCK_q4_k] = { 0, 2 },  [BR_BLOCK_q5_k] = { 0, 2 },
    [BR_BLOCK_q6_k] = { 208, -1 },
};

/* Returns a quantized matrix. Scales are between 2^-7 and 2^-5, of either sign. */
static inline br_tensor *random_blocks(br_block_type type, int64_t rows, int64_t columns)
{
    const br_block_info *info = &br__block_types[type];
    const int64_t bytes = br__row_bytes(info, columns);
    br_tensor *t = br_to(br_randint(0, 256, BR_SHAPE(rows, bytes)), BR_U8);
    unsigned char *at = br_data(t);
    cr_assert(at || rows * bytes == 0, "%s", br_error_message());
    for (int64_t i = 0; i < rows * bytes; i += info->bytes)
        for (int k = 0; k < 2 && f16_scales[type][k] >= 0; k++) {
            unsigned char *high = at + i + f16_scales[type][k] + 1;
            *high = (unsigned char)((*high & 0x87) | 0x20);
        }
    return br__as_quantized(t, type, 2, (const int64_t[]){ rows, columns });
}

/* Fails unless two tensors have the same bits. */
static inline void expect_bits(br_tensor *a, br_tensor *b, const char *what)
{
    cr_assert(a && b, "%s: %s", what, br_error_message());
    cr_assert(br_same_shape(a, b) && br_dtype_of(a) == br_dtype_of(b), "%s: shapes %s", what,
              br_shape_text(a));
    a = br_contiguous(a);
    b = br_contiguous(b);
    cr_expect(memcmp(br_data(a), br_data(b), br__tensor_bytes(a)) == 0, "%s: bits differ", what);
}

#endif
