/* tests/ops/attention/test_attention_stored.c - attention of bf16 and f16, whose kernels widen
 * rows. Forward results are those of f32, rounded once. */
#include "tests/same_bits.h"
#include "tests/support.h"

#include <brasa/brasa.h>

static void attention_stored_end(void)
{
    br_set_float32_matmul_precision("highest");
    check_end();
}

TestSuite(attention_stored, .init = check_begin, .fini = attention_stored_end);

enum { QUERY, KEY, VALUE, MASK, INPUTS };
static const br_dtype halves[] = { BR_BF16, BR_F16 };

/* A case: sizes, and how operands lie in memory. */
typedef struct layout {
    int64_t batch, heads, key_heads, queries, keys, width, value_width;
    bool causal, across;  /* across: each row of an operand is a column in memory */
    int64_t mask_queries; /* 1: the rows of the mask broadcast; 0: no mask */
    double dropout_p;     /* 0 or 0.5, whose scale every dtype represents */
} layout;

static const layout layouts[] = {
    { 2, 3, 3, 300, 200, 32, 48, false, false, 0, 0 },
    { 2, 3, 3, 300, 300, 32, 32, true, false, 0, 0 },
    { 1, 4, 2, 140, 70, 16, 24, false, false, 140, 0 },
    { 1, 2, 2, 20, 130, 8, 8, false, true, 1, 0 },
    { 1, 2, 2, 200, 130, 8, 8, false, false, 0, 0.5 },
    { 3, 3, 3, 5, 7, 4, 4, false, true, 5, 0 },
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* Returns numbers of the dtype [batch, heads, rows, columns] as a view of heads that lie side by
 * side, as a model has them, or of columns. */
static br_tensor *operand(const layout *l, int64_t heads, int64_t rows, int64_t columns,
                          br_dtype dtype)
{
    if (l->across)
        return br_transpose(
            br_to(br_randn(BR_SHAPE(l->batch, heads, columns, rows), BR_F32), dtype), 2, 3);
    return br_transpose(br_to(br_randn(BR_SHAPE(l->batch, rows, heads, columns), BR_F32), dtype), 1,
                        2);
}

static void make_inputs(const layout *l, br_dtype dtype, br_tensor **x)
{
    br_manual_seed(3);
    x[QUERY] = operand(l, l->heads, l->queries, l->width, dtype);
    x[KEY] = operand(l, l->key_heads, l->keys, l->width, dtype);
    x[VALUE] = operand(l, l->key_heads, l->keys, l->value_width, dtype);
    x[MASK] = l->mask_queries
                  ? br_to(br_randn(BR_SHAPE(1, l->mask_queries, l->keys), BR_F32), dtype)
                  : NULL;
}

/* The dropped weights depend only on the seed. */
static br_tensor *attend(const layout *l, br_tensor *const *x)
{
    br_manual_seed(4);
    return br_scaled_dot_product_attention(x[QUERY], x[KEY], x[VALUE], x[MASK],
                                           BR_OPTIONS(br_attention, .is_causal = l->causal,
                                                      .enable_gqa = l->heads != l->key_heads,
                                                      .dropout_p = l->dropout_p));
}

/* Computes the gradients of the inputs of a dtype, whose values are those of `dtype`. */
static void gradients(const layout *l, br_dtype dtype, br_dtype computed, br_tensor **grads)
{
    br_tensor *x[INPUTS];
    make_inputs(l, dtype, x);
    for (int i = 0; i < INPUTS; i++)
        if (x[i])
            br_set_requires_grad(x[i] = br_detach(br_to(x[i], computed)), true);
    br_tensor *y = attend(l, x);
    br_tensor *dy = br_to(operand(l, l->heads, l->queries, l->value_width, dtype), computed);
    br_backward_with(y, BR_OPTIONS(br_backward, .gradient = dy));
    for (int i = 0; i < INPUTS; i++)
        grads[i] = x[i] ? br_grad_of(x[i]) : NULL;
    check_ok();
}

/* In bf16 products round their operands, which does not change them, as with "medium". */
static void set_precision(br_dtype dtype)
{
    br_set_float32_matmul_precision(dtype == BR_BF16 ? "medium" : "highest");
}

Test(attention_stored, results_are_those_of_f32_rounded)
{
    for (int i = 0; i < 2 * LAYOUTS; i++) {
        const layout *l = &layouts[i / 2];
        const br_dtype dtype = halves[i % 2];
        br_tensor *x[INPUTS], *wide[INPUTS];
        set_precision(dtype);
        make_inputs(l, dtype, x);
        for (int k = 0; k < INPUTS; k++)
            wide[k] = x[k] ? br_to(x[k], BR_F32) : NULL;
        br_tensor *y = attend(l, x), *want = br_to(attend(l, wide), dtype);
        check_ok();
        cr_assert(same_bits(br_contiguous(y), br_contiguous(want)), "layout %d, %s", i / 2,
                  br_dtype_name(dtype));
    }
}

/* The gradient reads the rounded result, so that a row's correction has an error of half a unit. */
Test(attention_stored, gradients_are_near_those_of_f32)
{
    for (int i = 0; i < 2 * LAYOUTS; i++) {
        const br_dtype dtype = halves[i % 2];
        const double unit = dtype == BR_BF16 ? 0x1p-8 : 0x1p-11;
        br_tensor *got[INPUTS], *want[INPUTS];
        set_precision(dtype);
        gradients(&layouts[i / 2], dtype, dtype, got);
        gradients(&layouts[i / 2], dtype, BR_F32, want);
        for (int k = 0; k < INPUTS; k++) {
            if (!got[k])
                continue;
            br_tensor *difference = br_sub(br_to(got[k], BR_F32), want[k]);
            const double error = br_item(br_max(br_abs(difference)));
            const double most = br_item(br_max(br_abs(want[k])));
            cr_assert(error <= 2 * unit * most, "layout %d, %s, input %d: %g of %g", i / 2,
                      br_dtype_name(dtype), k, error, most);
        }
    }
}

/* With few threads a thread takes whole heads and rounds their gradients itself; with many, threads
 * share a head. */
Test(attention_stored, gradients_do_not_depend_on_threads)
{
    const int threads[] = { 1, 3, 8 };
    for (int i = 0; i < 2 * LAYOUTS; i++) {
        br_tensor *first[INPUTS], *got[INPUTS];
        for (int t = 0; t < 3; t++) {
            br_set_num_threads(threads[t]);
            gradients(&layouts[i / 2], halves[i % 2], halves[i % 2], t ? got : first);
            for (int k = 0; t && k < INPUTS; k++)
                cr_assert(!got[k] || same_bits(br_contiguous(first[k]), br_contiguous(got[k])),
                          "layout %d, %d threads, input %d", i / 2, threads[t], k);
        }
    }
}

/* Attention of long sequences makes no f32 copy of its operands. */
Test(attention_stored, operands_are_not_copied)
{
    br_tensor *x[3];
    br_set_num_threads(1);
    for (int i = 0; i < 3; i++) {
        x[i] = br_to(br_randn(BR_SHAPE(1, 12, 4096, 16), BR_F32), BR_BF16);
        br_set_requires_grad(x[i], true);
    }
    const size_t bytes = 12 * 4096 * 16 * 2;
    br_reset_peak_bytes();
    const int64_t before = br_live_bytes();
    br_tensor *y = br_scaled_dot_product_attention(x[0], x[1], x[2], NULL, NULL);
    br_backward(br_sum(y));
    check_ok();
    /* The result and its gradient, three gradients, the sums, and one head in f32. */
    cr_assert_lt(br_peak_bytes() - before, (int64_t)(8 * bytes), "%g operands",
                 (double)(br_peak_bytes() - before) / (double)bytes);
}
