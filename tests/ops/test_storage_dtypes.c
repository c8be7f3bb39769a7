/* tests/ops/test_storage_dtypes.c - every operation with operands of storage dtypes, against the
 * same operation with the same numbers in f64 or i64. */
#include "tensor/dtype.h"
#include "tests/ops/cases.h"

#include <math.h>

TestSuite(storage_dtypes, .init = check_begin, .fini = check_end);

/* ---- Floats ---------------------------------------------------------------------------------- */

/* Operations round once, which costs half a unit in the last place, also if they are composed of
 * several. The unit is that of the largest number of a tensor. */
enum { UNITS = 1 };

static double unit_of(br_dtype dtype)
{
    return dtype == BR_BF16 ? 0x1p-7 : 0x1p-10;
}

static void expect_close(br_tensor *got, br_tensor *want, br_dtype dtype, double units,
                         const op_case *c, const char *what)
{
    const double largest = br_numel(want) > 0 ? br_item(br_max(br_abs(want))) : 0;
    const double tolerance = units * unit_of(dtype) * fmax(largest, unit_of(dtype));
    cr_expect(br_allclose(br_to(got, BR_F64), want, 0, tolerance), "%s of %s, %s, %s", c->label,
              br_dtype_name(dtype), what, br_error_message());
    br_clear_error();
}

/* Compares the gradients of a weighted sum of the results. */
static void expect_same_gradients(const op_case *c, br_dtype dtype, br_tensor *got, br_tensor *want,
                                  br_tensor **x, br_tensor **wide, double units)
{
    br_tensor *weights = br_sub_scalar(br_rand(br_ndim(want), br_sizes(want), BR_F64), 0.5);
    weights = br_to(br_to(weights, dtype), BR_F64);
    br_backward(br_sum(br_mul(want, weights)));
    br_backward(br_sum(br_mul(br_to(got, BR_F64), weights)));
    cr_assert_not(br_failed(), "%s of %s: %s", c->label, br_dtype_name(dtype), br_error_message());
    for (int i = 0; i < case_num_inputs(c); i++) {
        br_tensor *expected = wide[i] ? br_grad_of(wide[i]) : NULL;
        if (!expected)
            continue;
        cr_assert(br_grad_of(x[i]), "%s of %s has no gradient", c->label, br_dtype_name(dtype));
        cr_expect_eq(br_dtype_of(br_grad_of(x[i])), dtype, "%s: gradient in %s", c->label,
                     br_dtype_name(br_dtype_of(br_grad_of(x[i]))));
        expect_close(br_grad_of(x[i]), expected, dtype, 2 * units, c, "gradient");
    }
}

static void check_floats(const op_case *c, br_dtype dtype)
{
    const letter_sizes letters = default_letter_sizes();
    br_tensor *x[MAX_CASE_INPUTS], *wide[MAX_CASE_INPUTS] = { NULL };
    const int n = make_inputs(c, &letters, BR_F64, x);
    for (int i = 0; i < n; i++) {
        x[i] = x[i] && br_is_floating(x[i]) ? br_to(x[i], dtype) : x[i];
        wide[i] = x[i] && br_is_floating(x[i]) ? br_to(x[i], BR_F64) : x[i];
    }
    require_gradients(c, x);
    require_gradients(c, wide);
    br_tensor *want = call(c, wide), *got = call(c, x);
    cr_assert(got && want, "%s of %s: %s", c->label, br_dtype_name(dtype), br_error_message());
    if (!br_is_floating(want)) {
        cr_expect(br_equal(got, want), "%s of %s", c->label, br_dtype_name(dtype));
        return;
    }
    if (strncmp(c->label, "to", 2) != 0)
        cr_expect_eq(br_dtype_of(got), dtype, "%s: result in %s", c->label,
                     br_dtype_name(br_dtype_of(got)));
    /* Numbers on the other side of a tie are rounded to another number. */
    if (strcmp(c->label, "round_decimals") != 0 && !c->drawn)
        expect_close(got, br_detach(want), dtype, UNITS, c, "result");
    if (!c->no_gradient && !c->drawn)
        expect_same_gradients(c, dtype, got, want, x, wide, UNITS);
}

static bool has_real_input(const op_case *c)
{
    bool real = false;
    for (int i = 0; i < case_num_inputs(c); i++)
        real |= case_is_real(c, i);
    return real;
}

static bool takes_half(const op_case *c)
{
    return !c->lapack && !c->fftw;
}

Test(storage_dtypes, results_and_gradients_of_floats)
{
    static const br_dtype dtypes[] = { BR_BF16, BR_F16 };
    for_each_case(c)
    {
        for (int d = 0; has_real_input(c) && takes_half(c) && d < 2; d++) {
            br_scope *scope = br_scope_begin();
            check_floats(c, dtypes[d]);
            br_scope_end(scope);
        }
    }
}

/* ---- Integers -------------------------------------------------------------------------------- */

static void check_integers(const op_case *c, br_dtype dtype)
{
    const letter_sizes letters = default_letter_sizes();
    br_tensor *x[MAX_CASE_INPUTS], *wide[MAX_CASE_INPUTS] = { NULL };
    const int n = make_inputs(c, &letters, BR_I64, x);
    for (int i = 0; i < n; i++)
        if (x[i] && case_is_real(c, i)) {
            x[i] = br_to(x[i], dtype);
            wide[i] = br_to(x[i], BR_I64);
        } else {
            wide[i] = x[i];
        }
    br_tensor *want = call(c, wide), *got = want ? call(c, x) : NULL;
    if (!want) { /* some numbers are no integers, such as 0 as a divisor */
        br_clear_error();
        return;
    }
    cr_assert(got, "%s of %s: %s", c->label, br_dtype_name(dtype), br_error_message());
    const br_dtype kind = br_dtype_of(want);
    const bool same = br_dtype_of(got) == kind || (kind == BR_I64 && br_dtype_of(got) == dtype);
    const bool is_u8 = kind == BR_BOOL && br_dtype_of(got) == BR_U8; /* all and any */
    cr_expect(same || is_u8, "%s of %s is %s", c->label, br_dtype_name(dtype),
              br_dtype_name(br_dtype_of(got)));
    cr_expect(br_equal(got, br_to(want, br_dtype_of(got))), "%s of %s", c->label,
              br_dtype_name(dtype));
}

/* Results that do not fit wrap around. */
Test(storage_dtypes, results_of_integers)
{
    int compared = 0;
    for_each_case(c)
    {
        for (br_dtype d = 0; has_real_input(c) && (c->takes & TAKES_I64) && d < BR_DTYPES; d++) {
            if (!br__is_kind(d, BR_KIND_INTEGER) || !br__is_stored(d))
                continue;
            br_scope *scope = br_scope_begin();
            check_integers(c, d);
            compared++;
            br_scope_end(scope);
        }
    }
    cr_assert_gt(compared, 300);
}

/* A norm of a bf16 tensor may have f32 parameters, as in PyTorch; their gradients are f32. */
Test(storage_dtypes, norms_with_parameters_of_the_computed_dtype)
{
    br_tensor *x = br_to(br_uniform_(br_empty(BR_SHAPE(2, 4, 3), BR_F32), -2, 2), BR_BF16);
    br_tensor *w = br_set_requires_grad(br_full(BR_SHAPE(3), 1 + 0x1p-10, BR_F32), true);
    br_tensor *c = br_set_requires_grad(br_full(BR_SHAPE(4), 1 + 0x1p-10, BR_F32), true);
    br_tensor *rows = br_f_layer_norm(x, 1, (int64_t[]){ 3 }, w, w, 1e-5);
    br_tensor *channels = br_f_group_norm(x, 2, c, c, 1e-5);
    br_tensor *wide = br_f_layer_norm(br_to(x, BR_F32), 1, (int64_t[]){ 3 }, w, w, 1e-5);
    check_ok();
    cr_assert_eq(br_dtype_of(rows), BR_BF16);
    cr_assert_eq(br_dtype_of(channels), BR_BF16);
    cr_assert(br_equal(rows, br_to(wide, BR_BF16)));
    br_backward(br_add(br_sum(rows), br_sum(channels)));
    check_ok();
    cr_assert(br_dtype_of(br_grad_of(w)) == BR_F32 && br_dtype_of(br_grad_of(c)) == BR_F32);
    check_fails(br_f_layer_norm(x, 1, (int64_t[]){ 3 }, br_to(w, BR_F64), NULL, 1e-5),
                "layer_norm: x [2, 4, 3] is bf16 and weight [3] is f64: dtypes must be equal");
}
