/* tests/ops/matmul/test_matmul_stored.c - products of bf16 and f16 tensors, which are read in
 * place: their bits are those of the same product of widened operands with the same strides,
 * rounded once, for all kernels. */
#include "backends/cpu/gemm/matmul_internal.h"
#include "backends/matmul_precision.h"
#include "tests/ops/matmul/bf16_units.h"
#include "tests/same_bits.h"
#include "tests/support.h"

#include <brasa/brasa.h>

static void stored_end(void)
{
    next_unit(UNITS);
    check_end();
}

TestSuite(matmul_stored, .init = check_begin, .fini = stored_end);

/* ---- Kernels --------------------------------------------------------------------------------- */

static const char *const capabilities[] = { "baseline", "avx2", "avx512", "avx512_bf16", "amx" };
enum { CAPABILITIES = sizeof capabilities / sizeof *capabilities };

/* Uses the kernels of that capability, or AMX in emulation after the last one. Returns false if
 * they cannot be used here. */
static bool use_kernels(int which)
{
    if (which == CAPABILITIES)
        return use_unit(UNIT_AMX_EMULATED);
    br__force_bf16_kernels(NULL, NULL);
    return br__force_kernels(capabilities[which]);
}

static const char *kernels_name(int which)
{
    return which == CAPABILITIES ? "emulated AMX" : capabilities[which];
}

/* ---- Operands -------------------------------------------------------------------------------- */

typedef enum view { DENSE, TRANSPOSED, STRIDED, SHIFTED, VIEWS } view;

/* Returns a view of [rows, columns] elements of a matrix from tensor_for(). */
static br_tensor *view_of(br_tensor *t, view how)
{
    switch (how) {
    case TRANSPOSED:
        return br_transpose(t, -1, -2);
    case STRIDED:
        return br_slice(t, -1, 1, br_size(t, -1), 3);
    case SHIFTED: /* elements that are not aligned to 4 bytes */
        return br_slice(t, -1, 1, br_size(t, -1) - 2, 1);
    default:
        return t;
    }
}

/* Returns random elements for a view. */
static br_tensor *tensor_for(int64_t batch, int64_t rows, int64_t columns, view how, br_dtype dtype)
{
    const int64_t r = how == TRANSPOSED ? columns : rows;
    const int64_t c = how == TRANSPOSED ? rows
                      : how == STRIDED  ? 3 * columns + 1
                      : how == SHIFTED  ? columns + 3
                                        : columns;
    return br_to(batch > 0 ? br_randn(BR_SHAPE(batch, r, c), BR_F32)
                           : br_randn(BR_SHAPE(r, c), BR_F32),
                 dtype);
}

typedef struct product {
    int64_t m, n, k, batch; /* batch 0: two matrices; otherwise b has no batch */
    view of_a, of_b;
    bool bias, accumulate;
} product;

/* Returns the result: C has the dtype, or that of the computation if `widens`. */
static br_tensor *compute(const product *p, br_tensor *a, br_tensor *b, br_tensor *bias,
                          br_tensor *c)
{
    const br_tensor *x = view_of(a, p->of_a), *y = view_of(b, p->of_b);
    br_tensor *result = br_clone(c);
    cr_assert(x && y && result, "%s", br_error_message());
    cr_assert(br__cpu_matmul(&(br_matmul_tensors){
        .a = x, .b = y, .bias = p->bias ? bias : NULL, .c = result, .accumulate = p->accumulate }));
    return result;
}

/* BLIS computes large products of the baseline, unless they are of a storage dtype. */
static bool uses_blis(const product *p)
{
    return strcmp(br_get_cpu_capability(), "baseline") == 0 && p->m * p->n * p->k >= 1 << 18;
}

static void check_same(const product *p, br_dtype dtype, const char *name)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *a = tensor_for(p->batch, p->m, p->k, p->of_a, dtype);
    br_tensor *b = tensor_for(0, p->k, p->n, p->of_b, dtype);
    br_tensor *bias = br_to(br_randn(BR_SHAPE(p->n), BR_F32), dtype);
    br_tensor *c = br_to(p->batch > 0 ? br_randn(BR_SHAPE(p->batch, p->m, p->n), BR_F32)
                                      : br_randn(BR_SHAPE(p->m, p->n), BR_F32),
                         dtype);
    br_tensor *got = compute(p, a, b, bias, c);
    const bool before = br__round_to_bf16(dtype == BR_BF16);
    br_tensor *wide =
        compute(p, br_to(a, BR_F32), br_to(b, BR_F32), br_to(bias, BR_F32), br_to(c, BR_F32));
    br__round_to_bf16(before);
    const bool same = uses_blis(p) ? br_allclose(br_to(got, BR_F32), wide, 0x1p-8, 1e-2)
                                   : same_bits(got, br_to(wide, dtype));
    cr_assert(same, "%s, %s: m %lld n %lld k %lld batch %lld views %d %d bias %d accumulate %d",
              name, br_dtype_name(dtype), (long long)p->m, (long long)p->n, (long long)p->k,
              (long long)p->batch, (int)p->of_a, (int)p->of_b, p->bias, p->accumulate);
    br_scope_end(scope);
}

/* ---- Bits ------------------------------------------------------------------------------------ */

/* Sizes for all kinds of products: one row, few rows, few columns, dot products with more rows or
 * columns than a part of C has, several k-blocks, blocks of A, and parts of C. */
static const product sizes[] = {
    { .m = 1, .n = 1, .k = 5 },      { .m = 1, .n = 70, .k = 33 },
    { .m = 1, .n = 1100, .k = 700 }, { .m = 4, .n = 9, .k = 50 },
    { .m = 5, .n = 200, .k = 100 },  { .m = 7, .n = 33, .k = 61 },
    { .m = 12, .n = 300, .k = 800 }, { .m = 70, .n = 12, .k = 800 },
    { .m = 6, .n = 1100, .k = 304 }, { .m = 40, .n = 50, .k = 1300 },
    { .m = 700, .n = 40, .k = 650 }, { .m = 33, .n = 65, .k = 305 },
    { .m = 13, .n = 1, .k = 300 },   { .m = 1, .n = 5000, .k = 80 },
    { .m = 4200, .n = 6, .k = 100 }, { .m = 2, .n = 2100, .k = 90 },
    { .m = 5, .n = 7, .k = 0 },      { .m = 3, .n = 40, .k = 1 },
};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_views(br_dtype dtype)
{
    for (int which = 0; which <= CAPABILITIES; which++) {
        if (!use_kernels(which))
            continue;
        br_manual_seed(which);
        for (int i = 0; i < SIZES * VIEWS * VIEWS; i++) {
            product p = sizes[i / VIEWS / VIEWS];
            p.of_a = (view)(i / VIEWS % VIEWS);
            p.of_b = (view)(i % VIEWS);
            p.bias = i % 3 == 1;
            p.accumulate = i % 3 == 2;
            check_same(&p, dtype, kernels_name(which));
        }
    }
}

Test(matmul_stored, bits_of_bf16)
{
    check_views(BR_BF16);
}

Test(matmul_stored, bits_of_f16)
{
    check_views(BR_F16);
}

Test(matmul_stored, batches)
{
    for (int which = 0; which <= CAPABILITIES; which++)
        for (int how = 0; how < VIEWS * VIEWS && use_kernels(which); how++) {
            product p = { .m = 17, .n = 35, .k = 70, .batch = 6 };
            p.of_a = (view)(how / VIEWS);
            p.of_b = (view)(how % VIEWS);
            check_same(&p, BR_BF16, kernels_name(which));
            p.m = 1;
            check_same(&p, BR_F16, kernels_name(which));
        }
}

/* A contiguous dot product that threads share. */
Test(matmul_stored, long_dot_products)
{
    for (int which = 0; which < CAPABILITIES; which++) {
        if (!use_kernels(which))
            continue;
        br_scope *scope = br_no_grad_begin();
        br_tensor *a = br_to(br_randn(BR_SHAPE(100003), BR_F32), BR_BF16);
        br_tensor *b = br_to(br_randn(BR_SHAPE(100003), BR_F32), BR_BF16);
        br_tensor *wide = br_matmul(br_to(a, BR_F32), br_to(b, BR_F32));
        cr_assert(same_bits(br_matmul(a, b), br_to(wide, BR_BF16)), "%s", capabilities[which]);
        br_scope_end(scope);
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

Test(matmul_stored, results_do_not_depend_on_the_number_of_threads)
{
    for (int i = 0; i < 2 * SIZES; i++) {
        br_scope *scope = br_no_grad_begin();
        product p = sizes[i / 2];
        p.of_b = i % 2 ? TRANSPOSED : DENSE;
        p.accumulate = true;
        br_tensor *a = tensor_for(0, p.m, p.k, p.of_a, BR_BF16);
        br_tensor *b = tensor_for(0, p.k, p.n, p.of_b, BR_BF16);
        br_tensor *c = br_to(br_randn(BR_SHAPE(p.m, p.n), BR_F32), BR_BF16), *results[3];
        for (int threads = 1; threads <= 3; threads++) {
            br_set_num_threads(threads);
            results[threads - 1] = compute(&p, a, b, NULL, c);
            cr_assert(same_bits(results[0], results[threads - 1]), "%lld %lld %lld, %d threads",
                      (long long)p.m, (long long)p.n, (long long)p.k, threads);
        }
        br_scope_end(scope);
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Infinite and NaN elements stay what they are, and a sum that f32 holds but the dtype does not
 * becomes infinite. */
Test(matmul_stored, special_values)
{
    for (int which = 0; which <= CAPABILITIES; which++) {
        if (!use_kernels(which))
            continue;
        br_scope *scope = br_no_grad_begin();
        br_tensor *a = br_zeros(BR_SHAPE(16, 64), BR_F32), *b = br_ones(BR_SHAPE(64, 64), BR_F32);
        br_data_f32(a)[3 * 64 + 7] = INFINITY;
        br_data_f32(a)[4 * 64 + 8] = NAN;
        br_data_f32(a)[5 * 64 + 9] = 60000;
        br_data_f32(a)[5 * 64 + 10] = 60000;
        for (int i = 0; i < 2; i++) {
            const br_dtype dtype = i ? BR_F16 : BR_BF16;
            br_tensor *c = br_to(br_mm(br_to(a, dtype), br_to(b, dtype)), BR_F32);
            cr_assert_eq(br_at(c, BR_DIMS(2, 63)), 0);
            cr_assert_eq(br_at(c, BR_DIMS(3, 63)), (double)INFINITY, "%s", kernels_name(which));
            cr_assert(isnan(br_at(c, BR_DIMS(4, 0))), "%s", kernels_name(which));
            cr_assert_eq(isinf(br_at(c, BR_DIMS(5, 0))), dtype == BR_F16);
        }
        br_scope_end(scope);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* A product allocates its result, the sums of a part of it and packed rows, but no copy of an
 * operand. */
Test(matmul_stored, operands_are_not_copied)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *w = br_zeros(BR_SHAPE(2048, 512), BR_BF16);
    for (int64_t rows = 1; rows <= 64; rows *= 4) {
        br_tensor *x = br_zeros(BR_SHAPE(rows, 512), BR_BF16);
        const int64_t before = br_live_bytes();
        br_reset_peak_bytes();
        br_tensor *y = br_matmul(x, br_transpose(w, 0, 1));
        cr_assert_not_null(y, "%s", br_error_message());
        const int64_t peak = br_peak_bytes() - before, result = br_numel(y) * 2;
        const int64_t copy = br_numel(w) * (int64_t)sizeof(float);
        cr_assert(peak >= result && peak <= result + copy / 4, "%lld rows: %lld bytes",
                  (long long)rows, (long long)peak);
    }
    br_scope_end(scope);
}
