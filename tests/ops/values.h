/* tests/ops/values.h - tensors with known values, and assertions about values. */
#ifndef BR_TESTS_VALUES_H
#define BR_TESTS_VALUES_H

#include "backends/cpu/kernels.h"
#include "tests/support.h"

#include <brasa/ops.h>

/* Returns 0, 1, 2, ... in the given shape. */
static inline br_tensor *iota(int ndim, const int64_t *sizes, br_dtype dtype)
{
    br_tensor *t = br_empty(ndim, sizes, BR_F64);
    double *p = br_data_f64(t);
    for (int64_t i = 0; i < br_numel(t); i++)
        p[i] = (double)i;
    return br_to(t, dtype);
}

/* Returns ((37 i + 11 seed) mod 101 - 50) / 17 for element i. The scripts that record PyTorch's
 * numbers use the same inputs. */
static inline br_tensor *values(int ndim, const int64_t *sizes, int64_t seed, br_dtype dtype)
{
    br_tensor *t = br_empty(ndim, sizes, BR_F64);
    double *p = br_data_f64(t);
    for (int64_t i = 0; i < br_numel(t); i++)
        p[i] = (double)((i * 37 + seed * 11) % 101 - 50) / 17;
    return br_to(t, dtype);
}

static inline br_tensor *leaf(br_tensor *t)
{
    return br_set_requires_grad(t, true);
}

/* Asserts that t has n elements and that they are within tolerance of those of want, in order. */
static inline void check_values(const br_tensor *t, int64_t n, const double *want, double tolerance)
{
    check_ok();
    cr_assert_eq(br_numel(t), n, "%lld elements, expected %lld", (long long)br_numel(t),
                 (long long)n);
    br_tensor *got = br_to((br_tensor *)t, BR_F64);
    double *values = malloc((size_t)n * sizeof *values + 1);
    br_copy_out(got, values, (size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        bool same = values[i] == want[i] || (isnan(values[i]) && isnan(want[i]));
        cr_assert(same || fabs(values[i] - want[i]) <= tolerance,
                  "element %lld is %.17g, expected %.17g", (long long)i, values[i], want[i]);
    }
    free(values);
}

/* check_values() with literal values and no tolerance. */
#define check_equals(t, ...)                                                                       \
    check_values(t, sizeof((double[]){ __VA_ARGS__ }) / sizeof(double), (double[]){ __VA_ARGS__ }, \
                 0)

/* check_values() with an array. */
#define check_table(t, table, tolerance) \
    check_values(t, sizeof(table) / sizeof *(table), table, tolerance)

static inline void check_shape(const br_tensor *t, int ndim, const int64_t *sizes)
{
    check_ok();
    cr_assert_eq(br_ndim(t), ndim, "%d dimensions, expected %d", br_ndim(t), ndim);
    for (int i = 0; i < ndim; i++)
        cr_assert_eq(br_sizes(t)[i], sizes[i], "size %d is %lld, expected %lld", i,
                     (long long)br_sizes(t)[i], (long long)sizes[i]);
}

/* Asserts that both are contiguous and equal in shape, dtype and every bit. */
static inline void check_same_bits(const br_tensor *a, const br_tensor *b)
{
    check_ok();
    cr_assert(br_same_shape(a, b) && br_dtype_of(a) == br_dtype_of(b));
    cr_assert(br_is_contiguous(a) && br_is_contiguous(b));
    size_t bytes = (size_t)br_numel(a) * br_dtype_size(br_dtype_of(a));
    cr_assert(memcmp(br_data(a), br_data(b), bytes) == 0, "bits differ");
}

/* Runs the checks with the kernels of every instruction set that this processor supports. */
static inline void with_every_variant(void (*checks)(void))
{
    static const char *const names[] = { "baseline", "avx2", "avx512" };
    int variants = 0;
    for (int i = 0; i < 3; i++) {
        if (!br__force_kernels(names[i]))
            continue;
        checks();
        variants++;
    }
    br__force_kernels(NULL);
    cr_assert(variants > 0);
}

/* Asserts that the elements, including zeros and NaN, have the signs '+' or '-'; '?' matches both.
 */
static inline void check_signs(const br_tensor *t, const char *want)
{
    br_scope *scope = br_no_grad_begin();
    const br_tensor *wide = br_contiguous(br_to((br_tensor *)t, BR_F64));
    check_ok();
    cr_assert_eq((size_t)br_numel(wide), strlen(want));
    for (int64_t i = 0; want[i]; i++)
        if (want[i] != '?')
            cr_assert_eq(signbit(br_data_f64(wide)[i]) ? '-' : '+', want[i], "element %lld of %s",
                         (long long)i, want);
    br_scope_end(scope);
}

/* Checks the gradient of f with respect to the inputs, all of which must require grad. */
static inline void check_gradient(br_function f, void *context, int n, br_tensor *const *inputs)
{
    cr_assert(br_gradcheck(f, context, n, inputs, TIGHTLY), "%s", br_error_message());
}

enum { MOST_DIFFERENTIATED = 24 };

/* The context of differentiate(), which returns the gradient of sum(f(inputs)^3) with respect to
 * all inputs, concatenated into one tensor. */
typedef struct differentiated {
    br_function f;
    void *context;
} differentiated;

static inline br_tensor *differentiate(br_tensor *const *inputs, int n, void *context)
{
    const differentiated *d = context;
    /* br_gradcheck() evaluates differences without grad. */
    br_scope *scope = br_enable_grad_begin();
    br_tensor *y = br_sum(br_pow_scalar(d->f(inputs, n, d->context), 3)),
              *dx[MOST_DIFFERENTIATED] = { NULL };
    br_grad(1, &y, n, inputs, dx, BR_OPTIONS(br_grad, .create_graph = true));
    for (int i = 0; i < n; i++)
        dx[i] = br_flatten(dx[i], 0, -1);
    br_tensor *all = br_scope_return(scope, br_cat(n, dx, 0));
    br_scope_end(scope);
    return all;
}

/* Checks the second-order gradient of f. */
static inline void check_second_gradient(br_function f, void *context, int n,
                                         br_tensor *const *inputs)
{
    check_gradient(differentiate, &(differentiated){ f, context }, n, inputs);
}

#endif
