/* check/cases/op_cases.c - the table of operation cases, and inputs of the kinds that it names. */
#include "check/cases/op_cases.h"

#include <stdlib.h>
#include <string.h>

#define CLONE(t) br_clone(t)

/* Helpers for operations that return several tensors: the array that receives them, one of them,
 * and all of them stacked. */
static br_tensor *parts[768]; /* no default size of bench_letter_sizes() is larger */

static br_tensor *part(int n, int i)
{
    return n > i ? parts[i] : NULL;
}

static br_tensor *joined(int n)
{
    return n > 0 ? br_stack(n, parts, 0) : n == 0 ? br_zeros(BR_SHAPE(0), BR_F64) : NULL;
}

/* Returns x as i64 unless it is bool, for operations on bits. */
static br_tensor *whole(br_tensor *x)
{
    return x && br_dtype_of(x) != BR_BOOL ? br_to(x, BR_I64) : x;
}

/* Returns x three times, along a new last dimension, with different factors. */
static br_tensor *triple(br_tensor *x)
{
    return br_stack(BR_INPUTS(x, br_mul_scalar(x, 2), br_add_scalar(x, 1)), -1);
}

/* Returns x [b, k, m] as a grid [b, k, m, 2] of numbers within -1 .. 1. */
static br_tensor *pairs_of(br_tensor *x)
{
    return br_stack(BR_INPUTS(br_mul_scalar(x, 0.5), br_mul_scalar(x, -0.25)), -1);
}

/* Returns the log softmax of x, or x if it is not floating-point. */
static br_tensor *normalized(br_tensor *x)
{
    return x && br_is_floating(x) ? br_log_softmax(x, -1) : x;
}

/* Returns the size of dimension `length` of x for each index of dimension `items`, as i64. */
static br_tensor *lengths_of(const br_tensor *x, int64_t items, int64_t length)
{
    if (br_ndim(x) < 2)
        return br_zeros(BR_SHAPE(1), BR_I64);
    return br_full(BR_SHAPE(br_size(x, items)), (double)br_size(x, length), BR_I64);
}

/* Returns for each element of x the index of an element in lines twice as long. */
static br_tensor *places_like(br_tensor *x)
{
    const int64_t n = br_ndim(x) > 0 ? br_size(x, -1) : 0;
    br_tensor *line = br_arange(0, (double)(2 * n), 2, BR_I64);
    return x && br_ndim(x) > 0 ? br_expand(line, br_ndim(x), br_sizes(x)) : NULL;
}

/* Returns where two sequences of half of the tokens of x begin. */
static br_tensor *halves(const br_tensor *x)
{
    const int64_t n = x && br_ndim(x) > 0 ? br_size(x, 0) : 0;
    return br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, n / 2, n });
}

/* Return well-conditioned matrices made of x, or x if it has no square matrices of floating-point
 * numbers: regular ones, and symmetric positive definite ones. */
static br_tensor *regular(br_tensor *x)
{
    const int n = x ? br_ndim(x) : 0;
    if (n < 2 || br_size(x, -1) != br_size(x, -2) || !br_is_floating(x))
        return x;
    br_tensor *one = br_new_ones(x, BR_SHAPE(br_size(x, -1)), br_dtype_of(x));
    return br_add(br_mul_scalar(x, 0.25), br_mul_scalar(br_diag_embed(one, 0, -2, -1), 2));
}

static br_tensor *definite(br_tensor *x)
{
    br_tensor *a = regular(x);
    return a == x ? x : br_matmul(a, br_transpose(a, -2, -1));
}

/* Returns a complex tensor with x as the real part. */
static br_tensor *complex_of(br_tensor *x)
{
    br_tensor *imag = br_is_floating(x) ? br_mul_scalar(br_square(x), 0.25) : x;
    return br_stack(BR_INPUTS(x, imag), -1);
}

/* Returns x as the real and the imaginary part of a complex tensor, as a view. */
static br_tensor *both_parts_of(br_tensor *x)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < br_ndim(x); i++)
        sizes[i] = -1;
    sizes[x ? br_ndim(x) : 0] = 2;
    return br_expand(br_unsqueeze(x, -1), br_ndim(x) + 1, sizes);
}

/* Returns x [*, m, n] as matrices whose singular values are far apart, or x like regular(). */
static br_tensor *separated(br_tensor *x)
{
    const int n = x ? br_ndim(x) : 0;
    if (n < 2 || !br_is_floating(x))
        return x;
    const int64_t columns = br_size(x, -1);
    br_tensor *scales = br_arange(1, (double)columns + 1, 1, br_dtype_of(x));
    br_tensor *diagonal = br_mul(br_eye(br_size(x, -2), columns, br_dtype_of(x)), scales);
    return br_add(br_mul_scalar(x, 0.25), br_mul_scalar(diagonal, 2));
}

/* Returns the same with the rows in the opposite order, so that they are exchanged in an LU
 * factorization. */
static br_tensor *flipped(br_tensor *x)
{
    br_tensor *a = separated(x);
    return a == x ? x : br_flip(a, BR_DIMS(-2));
}

/* Returns a symmetric matrix whose eigenvalues are far apart, or x like regular(). */
static br_tensor *symmetric(br_tensor *x)
{
    if (regular(x) == x)
        return x;
    br_tensor *a = separated(x);
    return br_mul_scalar(br_add(a, br_transpose(a, -2, -1)), 0.5);
}

/* Returns x [*, n, n] with twice as many rows, or x like regular(). */
static br_tensor *tall(br_tensor *x)
{
    return regular(x) == x ? x : br_cat(BR_INPUTS(br_mul_scalar(x, 0.5), x), -2);
}

/* Returns matrices whose last row is the sum of the others, or x like regular(). The first matrix
 * of a batch is regular. */
static br_tensor *of_lower_rank(br_tensor *x)
{
    if (regular(x) == x || br_numel(x) == 0)
        return x;
    br_tensor *a = separated(x), *rows = br_narrow(a, -2, 0, br_size(a, -2) - 1);
    br_tensor *y = br_cat(BR_INPUTS(rows, br_sum_dim(rows, BR_DIMS(-2), true)), -2);
    if (br_ndim(x) > 2)
        y = br_cat(BR_INPUTS(br_narrow(a, 0, 0, 1), br_narrow(y, 0, 1, br_size(y, 0) - 1)), 0);
    return y;
}

/* Returns x [b, c, c, b], regular as a matrix. */
static br_tensor *folded(br_tensor *x)
{
    if (!x || br_ndim(x) != 4 || !br_is_floating(x))
        return x;
    const int64_t n = br_size(x, 0) * br_size(x, 1);
    return br_reshape(regular(br_reshape(x, BR_SHAPE(n, n))), br_ndim(x), br_sizes(x));
}

/* Returns the last row as the pivot of each row of x [*, n, n]. */
static br_tensor *last_pivots(const br_tensor *x)
{
    const int n = x ? br_ndim(x) : 0;
    return n < 2 ? NULL : br_full(n - 1, br_sizes(x), (double)br_size(x, -1), BR_I32);
}

/* Replaces a part by its absolute values, since the signs of singular vectors are undefined. */
static void signless(int i)
{
    parts[i] = br_failed() ? NULL : br_abs(parts[i]);
}

/* Returns the first n parts, which are made from the matrices of x, next to each other. Different
 * numbers are added, because the sum of the squares of orthonormal vectors is constant. */
static br_tensor *flat(const br_tensor *x, int n)
{
    if (br_failed())
        return NULL;
    const int batch = br_ndim(x) - 2;
    br_tensor *all[3], *y;
    int count = 0;
    for (int i = 0; i < n; i++)
        if (br_ndim(parts[i]) > batch)
            all[count++] = br_flatten(parts[i], batch, -1);
    y = br_cat(count, all, -1);
    return br_add(y, br_div_scalar(br_arange(0, (double)br_size(y, -1), 1, BR_F64), 8));
}

/* Each row becomes a function ... */
#define CASE(label, expression, ...)                                          \
    static br_tensor *call_##label(br_tensor *const *x, int n, void *context) \
    {                                                                         \
        (void)n;                                                              \
        (void)context;                                                        \
        return expression;                                                    \
    }
#include "check/cases/op_cases.def"
#undef CASE

/* ... and an entry of op_cases[]. */
#define INPUTS(...) .inputs = { __VA_ARGS__ }
#define CASE(label_, expression_, ...) \
    { .label = #label_, .expression = #expression_, .call = call_##label_, __VA_ARGS__ },
const op_case op_cases[] = {
#include "check/cases/op_cases.def"
};
#undef CASE

const int num_op_cases = (int)(sizeof op_cases / sizeof *op_cases);

/* The sizes are small and none is 0 or 1. */
letter_sizes default_letter_sizes(void)
{
    letter_sizes s = { { 0 } };
    s.of['b'] = 2;
    s.of['c'] = 3;
    s.of['n'] = 4;
    s.of['m'] = 5;
    s.of['k'] = 3;
    return s;
}

letter_sizes bench_letter_sizes(const op_case *c)
{
    letter_sizes s = { { 0 } };
    s.of['b'] = 6;
    s.of['c'] = 12;
    s.of['n'] = 600;
    s.of['m'] = 768;
    s.of['k'] = 100;
    for (const char *p = c->bench ? c->bench : ""; *p; p++)
        if (p[1] == '=')
            s.of[(unsigned char)*p & 127] = strtoll(p + 2, NULL, 10);
    return s;
}

bool case_can_run(const op_case *c)
{
    if (!c->lapack && !c->fftw)
        return true;
    br_scope *scope = br_scope_begin();
    bool found = !c->lapack || br_linalg_det(br_ones(BR_SHAPE(1, 1), BR_F64));
    for (br_dtype dtype = BR_F32; c->fftw && dtype <= BR_F64; dtype++)
        found = found && br_fft_rfft(br_ones(BR_SHAPE(1), dtype), 1, 0, BR_FFT_BACKWARD);
    br_clear_error();
    br_scope_end(scope);
    return found;
}

int case_num_inputs(const op_case *c)
{
    int n = 0;
    while (n < MAX_CASE_INPUTS && c->inputs[n].shape)
        n++;
    return n;
}

void case_op_name(const op_case *c, char *buffer, size_t size)
{
    const char *name = strstr(c->expression, "br_") + strlen("br_");
    if (strncmp(name, "f_", 2) == 0)
        name += 2;
    size_t n = strcspn(name, "(");
    if (n > 4 && strncmp(name + n - 4, "_dim", 4) == 0 && strncmp(name, "take_along_dim", n) != 0)
        n -= 4;
    snprintf(buffer, size, "%.*s", (int)n, name);
}

/* Writes the sizes of input i and returns their number. */
static int input_sizes(const op_case *c, int i, const letter_sizes *letters, int64_t *sizes)
{
    int n = 0;
    for (const char *p = c->inputs[i].shape; *p && *p != '<'; p++)
        sizes[n++] = letters->of[(unsigned char)*p & 127];
    return n;
}

bool case_is_real(const op_case *c, int i)
{
    return c->inputs[i].kind != MASK && c->inputs[i].kind != INDEX;
}

static br_tensor *index_input(const op_case *c, int i, const letter_sizes *letters, int ndim,
                              const int64_t *sizes)
{
    const char *limit = strchr(c->inputs[i].shape, '<');
    int64_t bound = letters->of[(unsigned char)limit[1] & 127];
    return br_randint(0, bound > 0 ? bound : 1, ndim, sizes);
}

br_tensor *case_input(const op_case *c, int i, const letter_sizes *letters, br_dtype dtype)
{
    int64_t sizes[BR_MAX_DIMS];
    int ndim = input_sizes(c, i, letters, sizes);
    br_scope *scope = br_no_grad_begin();
    br_tensor *t = NULL;
    switch (c->inputs[i].kind) {
    case MASK:
        t = br_to(br_randint(0, 2, ndim, sizes), BR_BOOL);
        break;
    case INDEX:
        t = index_input(c, i, letters, ndim, sizes);
        break;
    case REAL:
        t = br_uniform_(br_empty(ndim, sizes, BR_F64), -2, 2);
        break;
    case POSITIVE:
        t = br_uniform_(br_empty(ndim, sizes, BR_F64), 0.5, 2);
        break;
    case FRACTION:
        t = br_uniform_(br_empty(ndim, sizes, BR_F64), 0.1, 0.9);
        break;
    case ABOVE_1:
        t = br_uniform_(br_empty(ndim, sizes, BR_F64), 1.5, 3);
        break;
    case SIGN:
        t = br_to(br_sub_scalar(br_mul_scalar(br_randint(0, 2, ndim, sizes), 2), 1), BR_F64);
        break;
    case DISTINCT: /* a random permutation of numbers 0.1 apart, of both signs */
        t = br_empty(ndim, sizes, BR_F64);
        t = br_reshape(br_to(br_randperm(br_numel(t)), BR_F64), ndim, sizes);
        t = br_mul_scalar(br_sub_scalar(t, (double)(br_numel(t) / 2) - 0.5), 0.1);
        break;
    }
    if (case_is_real(c, i) && dtype != br_dtype_of(t))
        t = dtype == BR_I64    ? br_to(br_mul_scalar(t, 3), BR_I64)
            : dtype == BR_BOOL ? br_gt_scalar(t, 0)
                               : br_to(t, dtype);
    br_scope_return(scope, t);
    br_scope_end(scope);
    return t;
}
