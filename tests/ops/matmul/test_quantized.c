/* Operations with quantized weights. Each gives the bits that it gives with the same weight in f32,
 * with each set of kernels and any number of threads. */
#include "backends/cpu/kernels.h"
#include "tests/memory.h"
#include "tests/ops/quantized.h"

#include <brasa/brasa.h>

TestSuite(quantized, .init = check_begin, .fini = check_end);

static const char *const sets[] = { "avx512", "avx2", "baseline" };
enum { SETS = sizeof sets / sizeof *sets };

/* Calls `test` with each set of kernels of this processor. BLIS, which has no fixed order of sums,
 * computes large products of the baseline. */
static void with_each_set(void (*test)(bool by_blis))
{
    for (int k = 0; k < SETS; k++)
        if (br__force_kernels(sets[k]))
            test(strcmp(sets[k], "baseline") == 0);
    br__force_kernels(NULL);
}

static br_tensor *random_like(int64_t rows, int64_t columns)
{
    return br_randn(BR_SHAPE(rows, columns), BR_F32);
}

/* ---- Conversion ------------------------------------------------------------------------------ */

Test(quantized, all_sets_of_kernels_dequantize_alike)
{
    for (int type = 0; type < BR_N_BLOCK_TYPES; type++) {
        br_scope *scope = br_scope_begin();
        br_tensor *w = random_blocks((br_block_type)type, 70, 768), *first = NULL;
        cr_assert_str_eq(br_quantized_type(w), br__block_types[type].name);
        for (int k = 0; k < SETS; k++) {
            if (!br__force_kernels(sets[k]))
                continue;
            br_tensor *y = br_to(w, BR_F32);
            expect_bits(first ? first : y, y, br__block_types[type].name);
            first = y;
        }
        br__force_kernels(NULL);
        expect_bits(br_to(w, BR_BF16), br_to(first, BR_BF16), "bf16");
        expect_bits(br_to(w, BR_F16), br_to(first, BR_F16), "f16");
        expect_bits(br_to(w, BR_F64), br_to(first, BR_F64), "f64");
        cr_expect(br_item(br_sum(br_abs(first))) > 1);
        br_scope_end(scope);
    }
}

/* ---- Linear ---------------------------------------------------------------------------------- */

static void check_linear(br_block_type type, int64_t m, int64_t n, int64_t k, bool by_blis)
{
    char what[100];
    snprintf(what, sizeof what, "%s: %d x %d x %d, %s", br__block_types[type].name, (int)m, (int)n,
             (int)k, br_get_cpu_capability());
    br_scope *scope = br_scope_begin();
    br_tensor *w = random_blocks(type, n, k), *dense = br_to(w, BR_F32);
    br_tensor *x = random_like(m, k), *bias = m % 2 ? br_randn(BR_SHAPE(n), BR_F32) : NULL;
    br_tensor *dy = random_like(m, n), *y[2], *dx[2];
    for (int i = 0; i < 2; i++) {
        br_tensor *leaf = br_set_requires_grad(br_clone(x), true);
        y[i] = br_f_linear(leaf, i ? w : dense, bias);
        br_backward_with(y[i], BR_OPTIONS(br_backward, .gradient = dy));
        dx[i] = br_grad_of(leaf);
    }
    if (by_blis && m * n * k >= 1 << 18) {
        cr_expect(br_allclose(y[0], y[1], 1e-5, 1e-4), "%s", what);
        cr_expect(br_allclose(dx[0], dx[1], 1e-5, 1e-4), "%s: gradient", what);
    } else {
        expect_bits(y[0], y[1], what);
        expect_bits(dx[0], dx[1], what);
    }
    br_scope_end(scope);
}

static void check_types(bool by_blis)
{
    for (int type = 0; type < BR_N_BLOCK_TYPES; type++) {
        check_linear((br_block_type)type, 1, 70, 512, by_blis);
        check_linear((br_block_type)type, 3, 70, 512, by_blis);
        check_linear((br_block_type)type, 40, 70, 512, by_blis);
    }
}

Test(quantized, linear_of_all_types_has_the_bits_of_f32)
{
    with_each_set(check_types);
}

static void check_sizes(bool by_blis)
{
    static const int64_t rows[] = { 1, 2, 5, 6, 12, 13, 16, 65, 300 };
    static const int64_t outs[] = { 1, 5, 32, 33, 65, 305, 700, 2500 };
    static const int64_t ins[] = { 32, 160, 640 };
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < 8; j++)
            for (int l = 0; l < 3; l++)
                check_linear(BR_BLOCK_q5_0, rows[i], outs[j], ins[l], by_blis);
    check_linear(BR_BLOCK_q4_k, 7, 100, 8192, by_blis); /* slabs of the fewest rows */
    check_linear(BR_BLOCK_q4_k, 20, 100, 8192, by_blis);
}

Test(quantized, linear_of_all_sizes_has_the_bits_of_f32)
{
    with_each_set(check_sizes);
}

Test(quantized, linear_does_not_depend_on_the_threads)
{
    br_tensor *w = random_blocks(BR_BLOCK_q4_k, 1000, 512), *first[3] = { NULL };
    int before = br_get_num_threads();
    for (int threads = 1; threads <= 3; threads++) {
        br_set_num_threads(threads);
        for (int i = 0; i < 3; i++) {
            br_manual_seed(1);
            br_tensor *y = br_f_linear(random_like(i == 0 ? 1 : 40 * i, 512), w, NULL);
            expect_bits(first[i] ? first[i] : y, y, "threads");
            first[i] = y;
        }
    }
    br_set_num_threads(before);
}

Test(quantized, linear_of_batches_and_strided_operands)
{
    br_tensor *w = random_blocks(BR_BLOCK_q6_k, 96, 256), *dense = br_to(w, BR_F32);
    br_tensor *x = br_transpose(br_randn(BR_SHAPE(5, 256, 3), BR_F32), 1, 2);
    br_tensor *bias = br_slice(br_randn(BR_SHAPE(192), BR_F32), 0, 0, BR_ALL, 2);
    expect_bits(br_f_linear(x, dense, bias), br_f_linear(x, w, bias), "strides");
    x = br_expand(br_randn(BR_SHAPE(2, 1, 256), BR_F32), BR_SHAPE(4, 2, 30, 256));
    expect_bits(br_f_linear(x, dense, NULL), br_f_linear(x, w, NULL), "batch");
    br_tensor *vector = br_randn(BR_SHAPE(256), BR_F32);
    expect_bits(br_f_linear(vector, dense, NULL), br_f_linear(vector, w, NULL), "vector");
    br_tensor *none = br_empty(BR_SHAPE(0, 256), BR_F32);
    expect_bits(br_f_linear(none, dense, NULL), br_f_linear(none, w, NULL), "no rows");
    br_tensor *no_out = random_blocks(BR_BLOCK_q8_0, 0, 256);
    cr_expect_eq(br_size(br_f_linear(vector, no_out, NULL), 0), 0);
    br_tensor *no_in = random_blocks(BR_BLOCK_q8_0, 3, 0);
    br_tensor *zeros = br_f_linear(br_empty(BR_SHAPE(2, 0), BR_F32), no_in, NULL);
    cr_expect(br_equal(zeros, br_zeros(BR_SHAPE(2, 3), BR_F32)), "%s", br_error_message());
}

Test(quantized, gradients_of_gradients)
{
    br_tensor *w = random_blocks(BR_BLOCK_q4_0, 40, 64), *dense = br_to(w, BR_F32), *second[2];
    br_tensor *x = random_like(3, 64);
    for (int i = 0; i < 2; i++) {
        br_tensor *leaf = br_set_requires_grad(br_clone(x), true), *dx;
        br_tensor *y = br_sum(br_pow_scalar(br_f_linear(leaf, i ? w : dense, NULL), 3));
        br_grad(1, &y, 1, &leaf, &dx, BR_OPTIONS(br_grad, .create_graph = true));
        br_backward(br_sum(br_square(dx)));
        second[i] = br_grad_of(leaf);
    }
    cr_expect(br_allclose(second[0], second[1], 1e-4, 1e-2), "%s", br_error_message());
}

Test(quantized, mixed_precision_computes_in_f32)
{
    br_tensor *w = random_blocks(BR_BLOCK_q5_1, 40, 64), *x = random_like(20, 64);
    br_tensor *half = br_to(x, BR_BF16), *alone = br_f_linear(x, w, NULL);
    br_tensor *of_half = br_f_linear(br_to(half, BR_F32), w, NULL);
    br_scope *scope = br_scope_begin();
    br_autocast_begin(BR_BF16);
    expect_bits(br_f_linear(x, w, NULL), alone, "f32");
    expect_bits(br_f_linear(half, w, NULL), of_half, "bf16");
    br_scope_end(scope);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The weight has 16 MiB in f32; a step may take 3 MiB beside its results. */
Test(quantized, a_product_needs_no_copy_of_the_weight)
{
    enum { OUT = 8192, IN = 512, MOST = 3 << 20 };
    br_tensor *w = random_blocks(BR_BLOCK_q4_k, OUT, IN);
    for (int m = 1; m <= 64; m += 63) {
        br_tensor *x = br_set_requires_grad(random_like(m, IN), true);
        br_reset_peak_bytes();
        int64_t before = br_peak_bytes(), results = 4 * m * (2 * OUT + 3 * IN);
        br_backward(br_sum(br_f_linear(x, w, NULL)));
        cr_assert_not(br_failed(), "%s", br_error_message());
        cr_expect(br_peak_bytes() - before < results + MOST, "%lld bytes for %d rows",
                  (long long)(br_peak_bytes() - before), m);
        br_tensor *target = br_zeros(BR_SHAPE(m), BR_I64);
        br_reset_peak_bytes();
        before = br_peak_bytes();
        br_backward(br_linear_cross_entropy(x, w, target, NULL));
        cr_assert_not(br_failed(), "%s", br_error_message());
        cr_expect(br_peak_bytes() - before < results + MOST, "loss: %lld bytes for %d rows",
                  (long long)(br_peak_bytes() - before), m);
    }
}

/* ---- Other operations ------------------------------------------------------------------------ */

Test(quantized, embedding_has_the_bits_of_f32)
{
    for (int type = 0; type < BR_N_BLOCK_TYPES; type++) {
        br_tensor *w = random_blocks((br_block_type)type, 50, 512), *dense = br_to(w, BR_F32);
        br_tensor *ids = br_randint(0, 50, BR_SHAPE(3, 7)), *t = br_transpose(ids, 0, 1);
        br_tensor *y = br_f_embedding(w, ids, 0);
        cr_expect_not(br_requires_grad(y));
        expect_bits(y, br_f_embedding(dense, ids, 0), "embedding");
        expect_bits(br_f_embedding(w, t, -1), br_f_embedding(dense, t, -1), "strided");
        expect_bits(br_f_embedding(w, br_to(ids, BR_I32), -1), y, "i32");
    }
}

static br_tensor *loss_and_gradient(br_tensor *x, br_tensor *w, br_tensor *target,
                                    const br_linear_cross_entropy_options *o, br_tensor **dx)
{
    br_tensor *leaf = br_set_requires_grad(br_clone(x), true);
    br_tensor *loss = br_linear_cross_entropy(leaf, w, target, o);
    br_backward(br_sum(loss));
    *dx = br_grad_of(leaf);
    return loss;
}

Test(quantized, linear_cross_entropy_has_the_bits_of_f32)
{
    br_tensor *w = random_blocks(BR_BLOCK_q6_k, 700, 256), *dense = br_to(w, BR_F32);
    br_tensor *x = br_mul_scalar(random_like(45, 256), 0.1);
    br_tensor *target = br_randint(0, 700, BR_SHAPE(45)), *bias = br_randn(BR_SHAPE(700), BR_F32);
    br_tensor *weights = br_rand(BR_SHAPE(700), BR_F32), *dx[2], *loss[2];
    for (int k = 0; k < 12; k++) {
        const br_linear_cross_entropy_options *o =
            BR_OPTIONS(br_linear_cross_entropy, .chunked = k % 2 == 0,
                       .batch_chunk_size = k % 2 ? 0 : 20, .reduction = (br_reduction)(k / 2 % 3),
                       .linear_bias = k < 6 ? bias : NULL, .weight = k < 3 ? weights : NULL);
        for (int i = 0; i < 2; i++)
            loss[i] = loss_and_gradient(x, i ? w : dense, target, o, &dx[i]);
        expect_bits(loss[0], loss[1], "loss");
        expect_bits(dx[0], dx[1], "gradient of the loss");
    }
}

/* A frozen weight of bf16 or f16 is widened in the same way. A trained one is copied to f32, and
 * gives the same bits. */
Test(quantized, linear_cross_entropy_of_frozen_halves_needs_no_copy_of_the_weight)
{
    enum { CLASSES = 8192, IN = 512, ROWS = 16, MOST = 3 << 20 };
    static const br_dtype dtypes[] = { BR_BF16, BR_F16 };
    br_tensor *target = br_randint(0, CLASSES, BR_SHAPE(ROWS));
    for (int k = 0; k < 2; k++) {
        br_tensor *w = br_to(br_mul_scalar(random_like(CLASSES, IN), 0.1), dtypes[k]);
        br_tensor *trained = br_set_requires_grad(br_clone(w), true);
        br_tensor *x = br_to(random_like(ROWS, IN), dtypes[k]), *dx[2], *loss[2];
        loss[0] = loss_and_gradient(x, trained, target, NULL, &dx[0]);
        br_reset_peak_bytes();
        int64_t before = br_peak_bytes(), scores = 4 * ROWS * CLASSES;
        loss[1] = loss_and_gradient(x, w, target, NULL, &dx[1]);
        cr_expect(br_peak_bytes() - before < scores + MOST, "%lld bytes",
                  (long long)(br_peak_bytes() - before));
        expect_bits(loss[0], loss[1], br_dtype_name(dtypes[k]));
        expect_bits(dx[0], dx[1], br_dtype_name(dtypes[k]));
    }
}

/* ---- What a quantized tensor is -------------------------------------------------------------- */

Test(quantized, questions_that_it_answers)
{
    br_tensor *w = random_blocks(BR_BLOCK_q4_k, 3, 256), *same = br_detach(w);
    cr_expect_eq(br_ndim(w), 2);
    cr_expect_eq(br_size(w, -1), 256);
    cr_expect_eq(br_numel(w), 768);
    cr_expect_eq(br_dtype_of(same), BR_QUANTIZED);
    cr_expect_str_eq(br_dtype_name(BR_QUANTIZED), "quantized");
    cr_expect_eq(br_dtype_size(BR_QUANTIZED), 0);
    cr_expect(br_shares_storage(w, same));
    cr_expect_str_eq(br_quantized_type(same), "Q4_K");
    cr_expect_null(br_quantized_type(br_zeros(BR_SHAPE(1), BR_F32)));
    cr_expect_not(br_requires_grad(w));
    cr_expect(br_is_leaf(w));
    cr_expect_eq(br_set_requires_grad(w, false), w);
    cr_expect_eq(br_to(w, BR_QUANTIZED), w);
    cr_expect_eq(br_to_device(w, br_device_of(w)), w);
    char *text = br_to_string(w);
    cr_expect_str_eq(text, "tensor(..., size=[3, 256], dtype=Q4_K)");
    br_free(text);
    br_retain(w);
    br_release(w);
    cr_expect_not(br_failed(), "%s", br_error_message());
}

static void expect_refused(const void *result, br_error code, const char *part)
{
    cr_expect_null(result, "%s", part);
    cr_expect_eq(br_error_code(), code, "%s: %s", part, br_error_message());
    cr_expect(strstr(br_error_message(), part), "'%s' lacks '%s'", br_error_message(), part);
    br_clear_error();
}

Test(quantized, refusals)
{
    br_tensor *w = random_blocks(BR_BLOCK_q4_k, 3, 256), *x = random_like(2, 256);
    expect_refused(br_add(w, w), BR_ERROR_DTYPE, "add: a [3, 256] is quantized (Q4_K): only");
    expect_refused(br_add(x, w), BR_ERROR_DTYPE, "b [3, 256] is quantized (Q4_K): only");
    expect_refused(br_matmul(w, br_t(x)), BR_ERROR_DTYPE, "matmul: a [3, 256] is quantized");
    expect_refused(br_reshape(w, BR_SHAPE(-1)), BR_ERROR_DTYPE, "br_to(x, BR_F32) converts it");
    expect_refused(br_data(w), BR_ERROR_DTYPE, "data: t [3, 256] is quantized");
    expect_refused(br_zeros_like(w), BR_ERROR_DTYPE, "is quantized");
    expect_refused(br_copy_(x, w), BR_ERROR_DTYPE, "is quantized");
    expect_refused(br_to(w, BR_I64), BR_ERROR_DTYPE, "must be a floating-point dtype");
    expect_refused(br_to(x, BR_QUANTIZED), BR_ERROR_DTYPE, "");
    expect_refused(br_zeros(BR_SHAPE(2, 256), BR_QUANTIZED), BR_ERROR_DTYPE, "");
    expect_refused(br_set_requires_grad(w, true), BR_ERROR_DTYPE, "train a LoRA adapter");
    expect_refused(br_f_linear(w, w, NULL), BR_ERROR_DTYPE, "x [3, 256] is quantized");
    expect_refused(br_f_linear(br_to(x, BR_F64), w, NULL), BR_ERROR_DTYPE,
                   "x [2, 256] is f64 and weight [3, 256] is quantized (Q4_K): x must be f32");
    expect_refused(br_f_linear(random_like(2, 3), w, NULL), BR_ERROR_SHAPE, "last dimension");
    expect_refused(br_f_linear(x, w, br_zeros(BR_SHAPE(2), BR_F32)), BR_ERROR_SHAPE, "bias");
    expect_refused(br_f_linear(x, w, br_zeros(BR_SHAPE(3), BR_F64)), BR_ERROR_DTYPE, "bias");
    expect_refused(br_f_embedding(w, br_full(BR_SHAPE(1), 3, BR_I64), -1), BR_ERROR_INDEX, "3");
    expect_refused(
        br_linear_cross_entropy(br_to(x, BR_BF16), w, br_zeros(BR_SHAPE(2), BR_I64), NULL),
        BR_ERROR_DTYPE, "input [2, 256] is bf16");
    br_tensor *cube = br__as_quantized(br_zeros(BR_SHAPE(3, 144), BR_U8), BR_BLOCK_q4_k, 3,
                                       (const int64_t[]){ 3, 1, 256 });
    expect_refused(br_f_linear(x, cube, NULL), BR_ERROR_SHAPE, "must be a matrix");
    cr_expect_eq(br_ndim(br_to(cube, BR_F32)), 3);
}

/* AddressSanitizer, too, reports the use of memory that was freed. */
#ifdef __SANITIZE_ADDRESS__
#    define IF_MEMORY_MAY_BE_READ .disabled = true
#else
#    define IF_MEMORY_MAY_BE_READ .disabled = false
#endif

Test(quantized, an_ended_one_is_refused, IF_MEMORY_MAY_BE_READ)
{
    br_scope *scope = br_scope_begin();
    br_tensor *w = random_blocks(BR_BLOCK_q4_k, 3, 256);
    br_scope_end(scope);
    expect_refused(br_to(w, BR_F32), BR_ERROR_STATE, "was freed when its scope ended");
}
