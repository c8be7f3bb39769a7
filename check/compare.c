/* check/compare.c - compares tensors with those of a golden-1 file, and notes the largest excess
 * over the tolerance. */
#include "backends/matmul_precision.h"
#include "check/check_internal.h"

#include <math.h>

static const char op[] = "check";

static void note(br_check *check, const char *name, double excess)
{
    br_check_result *result = check->result;
    if (!*result->where || excess > result->excess) {
        result->excess = excess;
        snprintf(result->where, sizeof result->where, "%s", name);
    }
    if (!(excess <= 1) && !*result->first)
        snprintf(result->first, sizeof result->first, "%s", name);
}

/* Returns the largest |got - want| / (atol + rtol |want|). Equal values count as 0, NaN as
 * infinity. */
static double largest_excess(const double *got, const double *want, int64_t n, double rtol,
                             double atol)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        if (got[i] == want[i])
            continue;
        double excess = fabs(got[i] - want[i]) / (atol + rtol * fabs(want[i]));
        if (!(excess <= largest))
            largest = isnan(excess) ? INFINITY : excess;
    }
    return largest;
}

static double mean_square(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return n > 0 ? sum / (double)n : 0;
}

/* Returns the root mean square of the differences / (atol + rtol times that of `want`). Unlike the
 * largest difference, it stays small if rounding changes which side of 0 a few inputs of a ReLU are
 * on. */
static double mean_excess(const double *got, const double *want, int64_t n, double rtol,
                          double atol)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += got[i] == want[i] ? 0 : (got[i] - want[i]) * (got[i] - want[i]);
    if (sum == 0)
        return 0;
    double excess = sqrt(sum / (double)n) / (atol + rtol * sqrt(mean_square(want, n)));
    return isnan(excess) ? INFINITY : excess;
}

/* Returns whether results have the precision of bf16 or f16. */
static bool is_half(const br_check *check)
{
    return check->mode.amp || (check->mode.converts && br_dtype_size(check->mode.dtype) == 2);
}

/* Floating-point results may have another dtype if the check converts. */
static bool dtypes_agree(const br_check *check, const br_tensor *got, const br_tensor *want)
{
    const bool converts = check->mode.amp || check->mode.converts;
    return br_dtype_of(got) == br_dtype_of(want) ||
           (converts && br_is_floating(got) && br_is_floating(want));
}

/* Integers and booleans must be equal; the tolerance applies to floating-point numbers only. In
 * bf16 and f16 it applies to the root mean square of a tensor's differences. */
static void compare_within(br_check *check, const char *name, br_tensor *got, br_tensor *want,
                           double rtol, double atol)
{
    if (!got || !want)
        return;
    char a[128], b[128];
    if (!br_same_shape(got, want) || !dtypes_agree(check, got, want)) {
        br_fail(BR_ERROR_SHAPE, op, "%s is %s %s in Brasa, but %s %s in the file", name,
                br_dtype_name(br_dtype_of(got)), br_shape_string(got, a, sizeof a),
                br_dtype_name(br_dtype_of(want)), br_shape_string(want, b, sizeof b));
        return;
    }
    br_scope *scope = br_no_grad_begin();
    bool floating = br_is_floating(want);
    got = br_to_device(br_to(got, BR_F64), br_device_of(want)); /* the file's are on the CPU */
    const double *x = br_data_f64(br_contiguous(got));
    const double *y = br_data_f64(br_contiguous(br_to(want, BR_F64)));
    if (x && y)
        note(check, name,
             floating && is_half(check)
                 ? mean_excess(x, y, br_numel(want), rtol, atol)
                 : largest_excess(x, y, br_numel(want), floating ? rtol : 0, floating ? atol : 0));
    br_scope_end(scope);
}

/* Returns the factor of the file's tolerance, which is meant for f32. Rounding the operands of
 * products to bf16 makes errors up to 2^16 times as large as rounding to f32, and splitting them
 * into two bf16 numbers up to 2^8 times; those of large products, which alone are rounded, mostly
 * cancel. */
static double tolerance_factor(void)
{
    const br_matmul_precision precision = br__matmul_precision();
    if (strcmp(br__matmul_unit(precision), "f32") == 0)
        return 1;
    return precision == BR_MATMUL_HIGH ? 16 : 4096;
}

void br__check_compare(br_check *check, const char *name, br_tensor *got)
{
    const json_t *tol = json_object_get(check->tol, name);
    if (tol && !json_is_number(tol))
        br_fail(BR_ERROR_FORMAT, op, "metadata 'tol': '%s' is not a number", name);
    const double factor = is_half(check) ? 4096 : tolerance_factor();
    /* A wrong gradient differs by about its own size; the roundings of all layers by less. */
    const double rtol = is_half(check) ? 0.25 : factor * check->rtol;
    compare_within(check, name, got, br_safetensors_get(check->file, name), rtol,
                   factor * (tol ? json_number_value(tol) : check->atol));
}

void br__check_compare_random(br_check *check, const char *name, br_tensor *got)
{
    char label[256];
    snprintf(label, sizeof label, "%.200s as initialized", name);
    compare_within(check, label, got, br_safetensors_get(check->file, name), 5e-7, 5e-7);
}
