/* ops/matmul/addmm_dot.c - products of vectors, and products of matrices added to an input: mv,
 * dot, outer, addmm, addmv, addbmm, baddbmm. outer is composed of an elementwise product, the
 * others of matmul and sums. */
#include "ops/autocast.h"
#include "ops/pointwise/widen.h"

#include <inttypes.h>
#include <math.h>

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_pair(const char *op, const char *a_name, const br_tensor *a, int a_ndim,
                       const char *b_name, const br_tensor *b, int b_ndim)
{
    if (!br__required(op, a_name, a) || !br__required(op, b_name, b) ||
        !br__is_number(op, a_name, a) || !br__compatible(op, a_name, a, b_name, b))
        return false;
    if (a->ndim != a_ndim || b->ndim != b_ndim)
        br_fail(BR_ERROR_SHAPE, op, "%s %s and %s %s must have %d and %d dimensions", a_name,
                br__shape(a), b_name, br__shape(b), a_ndim, b_ndim);
    return !br_failed();
}

static bool check_inner(const char *op, const char *a_name, const br_tensor *a, const char *b_name,
                        const br_tensor *b, int b_dim)
{
    int64_t inner = a->sizes[a->ndim - 1];
    if (inner == b->sizes[b_dim])
        return true;
    br_fail(BR_ERROR_SHAPE, op, "%s %s x %s %s: inner sizes %" PRId64 " and %" PRId64 " differ",
            a_name, br__shape(a), b_name, br__shape(b), inner, b->sizes[b_dim]);
    return false;
}

/* ---- Vectors --------------------------------------------------------------------------------- */

br_tensor *br_mv(br_tensor *a, br_tensor *b)
{
    BR_OP("mv");
    if (!check_pair("mv", "a", a, 2, "b", b, 1) || !check_inner("mv", "a", a, "b", b, 0))
        return NULL;
    return br__composed(NULL, br_matmul(a, b));
}

br_tensor *br_dot(br_tensor *a, br_tensor *b)
{
    BR_OP("dot");
    if (!check_pair("dot", "a", a, 1, "b", b, 1) || !check_inner("dot", "a", a, "b", b, 0))
        return NULL;
    return br__composed(NULL, br_matmul(a, b));
}

br_tensor *br_outer(br_tensor *a, br_tensor *b)
{
    BR_OP("outer");
    if (!br__required("outer", "a", a) || !br__compatible("outer", "a", a, "b", b) ||
        !br__has_kernel("outer", "a", a, BR_POINTWISE(mul)))
        return NULL;
    if (a->ndim != 1 || b->ndim != 1)
        return br_fail(BR_ERROR_SHAPE, "outer", "a %s and b %s must have one dimension each",
                       br__shape(a), br__shape(b));
    br_scope *scope = br_scope_begin();
    return br__composed(scope, br_mul(br_unsqueeze(a, 1), b));
}

/* ---- Products added to an input -------------------------------------------------------------- */

static br_tensor *times(br_tensor *t, double factor)
{
    return factor == 1 ? t : br_mul_scalar(t, factor);
}

/* Returns beta input + alpha product. With beta = 0 the input is ignored, even if it is NaN. For
 * integers, the factors are truncated, as in PyTorch. */
static br_tensor *added(br_tensor *input, br_tensor *product, double beta, double alpha)
{
    if (input && !br_is_floating(input)) {
        beta = trunc(beta);
        alpha = trunc(alpha);
    }
    input = beta == 0 ? br_masked_fill(input, br_new_ones(input, BR_SCALAR, BR_BOOL), 0)
                      : times(input, beta);
    return br_add(input, times(product, alpha));
}

/* Returns true if the input broadcasts to the product of a and b, which it must not enlarge. */
static bool check_input(const char *op, const br_tensor *input, const br_tensor *a,
                        const br_tensor *b, int ndim, const int64_t *sizes)
{
    bool fits = br__compatible(op, "input", input, "the matrix", a) && input->ndim <= ndim;
    for (int i = 1; fits && i <= input->ndim; i++) {
        int64_t size = input->sizes[input->ndim - i];
        fits = size == 1 || size == sizes[ndim - i];
    }
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op, "input %s does not broadcast to %s, the product of %s and %s",
                br__shape(input), br__shape_of(ndim, sizes), br__shape(a), br__shape(b));
    return fits;
}

br_tensor *br_addmm(br_tensor *input, br_tensor *mat1, br_tensor *mat2, double beta, double alpha)
{
    BR_OP("addmm");
    BR_AUTOCAST(br_addmm(LOWER(input), LOWER(mat1), LOWER(mat2), beta, alpha))
    if (!br__required("addmm", "input", input) ||
        !check_pair("addmm", "mat1", mat1, 2, "mat2", mat2, 2) ||
        !check_inner("addmm", "mat1", mat1, "mat2", mat2, 0))
        return NULL;
    int64_t sizes[] = { mat1->sizes[0], mat2->sizes[1] };
    if (!check_input("addmm", input, mat1, mat2, 2, sizes))
        return NULL;
    br_scope *scope = br_scope_begin();
    bool is_bias = input->ndim == 1 && input->sizes[0] == sizes[1] && beta == 1 && alpha == 1;
    if (is_bias)
        return br__composed(scope, br_f_linear(mat1, br_t(mat2), input));
    const br_rounding rounding = BR_WIDEN(&input, &mat1, &mat2);
    return br__composed(scope,
                        br__narrowed(rounding, added(input, br_mm(mat1, mat2), beta, alpha)));
}

br_tensor *br_addmv(br_tensor *input, br_tensor *mat, br_tensor *vec, double beta, double alpha)
{
    BR_OP("addmv");
    if (!br__required("addmv", "input", input) ||
        !check_pair("addmv", "mat", mat, 2, "vec", vec, 1) ||
        !check_inner("addmv", "mat", mat, "vec", vec, 0) ||
        !check_input("addmv", input, mat, vec, 1, mat->sizes))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &mat, &vec);
    return br__composed(scope,
                        br__narrowed(rounding, added(input, br_matmul(mat, vec), beta, alpha)));
}

static bool check_batches(const char *op, const br_tensor *a, const br_tensor *b)
{
    if (!check_pair(op, "batch1", a, 3, "batch2", b, 3) ||
        !check_inner(op, "batch1", a, "batch2", b, 1))
        return false;
    if (a->sizes[0] != b->sizes[0])
        br_fail(BR_ERROR_SHAPE, op,
                "batch1 %s x batch2 %s: batch sizes %" PRId64 " and %" PRId64 " differ",
                br__shape(a), br__shape(b), a->sizes[0], b->sizes[0]);
    return !br_failed();
}

br_tensor *br_baddbmm(br_tensor *input, br_tensor *batch1, br_tensor *batch2, double beta,
                      double alpha)
{
    BR_OP("baddbmm");
    BR_AUTOCAST(br_baddbmm(LOWER(input), LOWER(batch1), LOWER(batch2), beta, alpha))
    if (!br__required("baddbmm", "input", input) || !check_batches("baddbmm", batch1, batch2))
        return NULL;
    int64_t sizes[] = { batch1->sizes[0], batch1->sizes[1], batch2->sizes[2] };
    if (!check_input("baddbmm", input, batch1, batch2, 3, sizes))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &batch1, &batch2);
    return br__composed(scope,
                        br__narrowed(rounding, added(input, br_bmm(batch1, batch2), beta, alpha)));
}

/* The sum over the batch is computed as one product whose inner dimension includes the batch. */
br_tensor *br_addbmm(br_tensor *input, br_tensor *batch1, br_tensor *batch2, double beta,
                     double alpha)
{
    BR_OP("addbmm");
    BR_AUTOCAST(br_addbmm(LOWER(input), LOWER(batch1), LOWER(batch2), beta, alpha))
    if (!br__required("addbmm", "input", input) || !check_batches("addbmm", batch1, batch2))
        return NULL;
    int64_t n = batch1->sizes[1], inner = batch1->sizes[0] * batch1->sizes[2];
    int64_t sizes[] = { n, batch2->sizes[2] };
    if (!check_input("addbmm", input, batch1, batch2, 2, sizes))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &batch1, &batch2);
    br_tensor *rows = br_reshape(br_transpose(batch1, 0, 1), BR_SHAPE(n, inner));
    br_tensor *columns = br_reshape(batch2, BR_SHAPE(inner, sizes[1]));
    return br__composed(scope,
                        br__narrowed(rounding, added(input, br_mm(rows, columns), beta, alpha)));
}
