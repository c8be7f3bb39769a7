/* tests/ops/norm/test_stored_rows.c - softmax, norms and cross entropy of rows of bf16 and f16,
 * which are widened block by block: their bits are those of the same operation in f32, rounded
 * once. */
#include "backends/cpu/norm/norm_internal.h"
#include "tests/same_bits.h"
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(stored_rows, .init = check_begin, .fini = check_end);

/* Lengths of rows: several in a block, in whole and partial blocks, one in a block, and rows that
 * are too long for blocks. */
static const int64_t lengths[] = { 1, 5, 16, 100, 1024, 2047, 2049, 16384, 16385 };
enum { LENGTHS = sizeof lengths / sizeof *lengths };
static const br_dtype dtypes[] = { BR_BF16, BR_F16 };

static br_tensor *random_rows(int64_t n, br_dtype dtype)
{
    const int64_t rows = n > 2048 ? 3 : 5000 / n + 3;
    return br_to(br_mul_scalar(br_randn(BR_SHAPE(rows, n), BR_F32), 3), dtype);
}

static void check_bits(br_tensor *got, br_tensor *wide, br_dtype dtype, int64_t n, const char *what)
{
    cr_assert(got && wide, "%s", br_error_message());
    cr_assert(same_bits(got, br_to(wide, dtype)), "%s of %s, %lld elements", what,
              br_dtype_name(dtype), (long long)n);
}

/* Runs the check for each dtype and length. */
static void for_all(void (*check)(int64_t n, br_dtype dtype))
{
    for (int i = 0; i < 2 * LENGTHS; i++) {
        br_scope *scope = br_scope_begin();
        check(lengths[i / 2], dtypes[i % 2]);
        br_scope_end(scope);
    }
}

static void check_softmax(int64_t n, br_dtype dtype)
{
    br_tensor *x = random_rows(n, dtype), *dy = random_rows(n, dtype);
    br_tensor *wide = br_to(x, BR_F32), *wide_dy = br_to(dy, BR_F32);
    check_bits(br_softmax(x, -1), br_softmax(wide, -1), dtype, n, "softmax");
    check_bits(br_softmax(x, 0), br_softmax(wide, 0), dtype, n, "softmax along columns");
    check_bits(br_log_softmax(x, -1), br_log_softmax(wide, -1), dtype, n, "log_softmax");
    for (int log_of = 0; log_of < 2 && n <= 16384; log_of++) {
        br_tensor *dx = br_zeros(BR_SHAPE(br_size(x, 0), n), dtype);
        br_tensor *wide_dx = br_zeros(BR_SHAPE(br_size(x, 0), n), BR_F32);
        cr_assert(br__cpu_softmax_widens(x, 1));
        br__cpu_softmax_grad(dx, x, dy, 1, log_of);
        br__cpu_softmax_grad(wide_dx, wide, wide_dy, 1, log_of);
        check_bits(dx, wide_dx, dtype, n, "gradient of softmax");
    }
}

Test(stored_rows, softmax)
{
    for_all(check_softmax);
}

/* Returns a leaf with the elements of t in a dtype. */
static br_tensor *leaf(br_tensor *t, br_dtype dtype)
{
    return br_set_requires_grad(br_clone(br_to(br_detach(t), dtype)), true);
}

static void check_norm(int64_t n, br_dtype dtype)
{
    for (int rms = 0; rms < 2; rms++) {
        br_tensor *x = leaf(random_rows(n, dtype), dtype), *wide = leaf(x, BR_F32);
        br_tensor *weight = leaf(br_randn(BR_SHAPE(n), BR_F32), dtype);
        br_tensor *wide_weight = leaf(weight, BR_F32);
        br_tensor *dy = random_rows(n, dtype);
        br_tensor *y, *wide_y;
        if (rms) {
            y = br_f_rms_norm(x, BR_SHAPE(n), weight, 1e-5);
            wide_y = br_f_rms_norm(wide, BR_SHAPE(n), wide_weight, 1e-5);
        } else {
            y = br_f_layer_norm(x, BR_SHAPE(n), weight, NULL, 1e-5);
            wide_y = br_f_layer_norm(wide, BR_SHAPE(n), wide_weight, NULL, 1e-5);
        }
        check_bits(y, wide_y, dtype, n, rms ? "rms_norm" : "layer_norm");
        br_backward(br_sum(br_mul(y, dy)));
        br_backward(br_sum(br_mul(wide_y, br_to(dy, BR_F32))));
        check_bits(br_grad_of(x), br_grad_of(wide), dtype, n, "gradient of a norm");
        const double largest = br_item(br_max(br_abs(br_grad_of(wide_weight))));
        cr_assert(br_allclose(br_to(br_grad_of(weight), BR_F32), br_grad_of(wide_weight), 0,
                              largest * 0x1p-8));
    }
}

Test(stored_rows, norms)
{
    for_all(check_norm);
}

static void check_cross_entropy(int64_t n, br_dtype dtype)
{
    br_tensor *x = leaf(random_rows(n, dtype), dtype), *wide = leaf(x, BR_F32);
    br_tensor *target = br_zeros(BR_SHAPE(br_size(x, 0)), BR_I64);
    for (int64_t i = 0; i < br_numel(target); i++)
        br_data_i64(target)[i] = i % 3 == 2 ? -100 : i * 7 % n;
    br_tensor *loss = br_cross_entropy(x, target, NULL),
              *wide_loss = br_cross_entropy(wide, target, NULL);
    check_bits(loss, wide_loss, dtype, n, "cross_entropy");
    br_backward(loss);
    br_backward(wide_loss);
    check_bits(br_grad_of(x), br_grad_of(wide), dtype, n, "gradient of cross_entropy");
}

Test(stored_rows, cross_entropy)
{
    for_all(check_cross_entropy);
}

/* Rows need no memory but the result. */
Test(stored_rows, operands_are_not_copied)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *x = br_zeros(BR_SHAPE(512, 1024), BR_BF16), *w = br_ones(BR_SHAPE(1024), BR_BF16);
    const int64_t bytes = br_numel(x) * 2;
    int64_t before = br_live_bytes();
    br_reset_peak_bytes();
    cr_assert(br_softmax(x, -1));
    cr_assert(br_peak_bytes() - before < bytes + bytes / 8);
    before = br_live_bytes();
    br_reset_peak_bytes();
    cr_assert(br_f_layer_norm(x, BR_SHAPE(1024), w, w, 1e-5));
    cr_assert(br_peak_bytes() - before < bytes + bytes / 8);
    br_scope_end(scope);
}
