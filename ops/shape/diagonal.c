/* ops/shape/diagonal.c - diagonals as views or filled, diagonal matrices, the trace, and the
 * indices of triangles. */
#include "autograd/in_place.h"
#include "ops/ops_internal.h"
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>

/* ---- diagonal -------------------------------------------------------------------------------- */

enum { OFFSET, DIM1, DIM2 };

/* Selects elements (i, i + offset) of dim1 and dim2 as one dimension, the last. */
static void narrow_diagonal(br_tensor *w, const int64_t *args)
{
    int dim1 = (int)args[DIM1], dim2 = (int)args[DIM2];
    int64_t row = args[OFFSET] < 0 ? -args[OFFSET] : 0, column = br__max(args[OFFSET], 0);
    int64_t rows = w->sizes[dim1] - row, columns = w->sizes[dim2] - column;
    int64_t length = br__min(rows, columns), stride = w->strides[dim1] + w->strides[dim2];
    br__window_slice(w, dim1, length > 0 ? row : 0, 1, 1);
    br__window_slice(w, dim2, length > 0 ? column : 0, 1, 1);
    br__window_drop(w, br__max(dim1, dim2));
    br__window_drop(w, br__min(dim1, dim2));
    w->sizes[w->ndim] = br__max(length, 0);
    w->strides[w->ndim] = stride;
    w->numel *= w->sizes[w->ndim++];
}

static const br_window_kind diagonal_kind = { { "diagonal", br__window_backward, false },
                                              narrow_diagonal };

/* Makes a dimension of the matrix, which has `ndim` dimensions, not negative. */
static bool wrap(const char *op, const char *name, const br_tensor *x, int ndim, int64_t *dim)
{
    if (*dim < -ndim || *dim >= ndim)
        br_fail(BR_ERROR_INDEX, op, "%s is %" PRId64 ", must be in %d .. %d for x of shape %s",
                name, *dim, -ndim, ndim - 1, br__shape(x));
    else if (*dim < 0)
        *dim += ndim;
    return !br_failed();
}

static bool two_dims(const char *op, const br_tensor *x, int ndim, int64_t *dim1, int64_t *dim2)
{
    if (!wrap(op, "dim1", x, ndim, dim1) || !wrap(op, "dim2", x, ndim, dim2))
        return false;
    if (*dim1 == *dim2)
        br_fail(BR_ERROR_ARGUMENT, op,
                "dim1 and dim2 are both %" PRId64 " for x of shape %s, must differ", *dim1,
                br__shape(x));
    return !br_failed();
}

/* Clamps the offset so that sums with it cannot overflow. Offsets beyond the matrix all give an
 * empty diagonal. */
static int64_t bounded(int64_t offset)
{
    static const int64_t max_value = INT64_MAX / 2;
    return offset > max_value ? max_value : offset < -max_value ? -max_value : offset;
}

br_tensor *br_diagonal(br_tensor *x, int64_t offset, int64_t dim1, int64_t dim2)
{
    BR_OP("diagonal");
    if (!br__required("diagonal", "x", x))
        return NULL;
    if (x->ndim < 2)
        return br_fail(BR_ERROR_SHAPE, "diagonal", "x %s must have at least two dimensions",
                       br__shape(x));
    if (!two_dims("diagonal", x, x->ndim, &dim1, &dim2))
        return NULL;
    return br__view_window(
        x, &(br_window){ .kind = &diagonal_kind, .args = { bounded(offset), dim1, dim2 } });
}

br_tensor *br_diag_embed(br_tensor *x, int64_t offset, int64_t dim1, int64_t dim2)
{
    BR_OP("diag_embed");
    if (!br__wrap_dim_nonscalar("diag_embed", x, &(int64_t){ -1 }))
        return NULL;
    if (x->ndim == BR_MAX_DIMS)
        return br_fail(BR_ERROR_SHAPE, "diag_embed",
                       "x %s already has the maximum number of dimensions", br__shape(x));
    int ndim = x->ndim + 1;
    int64_t sizes[BR_MAX_DIMS];
    int64_t last = x->sizes[x->ndim - 1],
            away = bounded(offset) < 0 ? -bounded(offset) : bounded(offset);
    int64_t size, next = 0;
    if (!two_dims("diag_embed", x, ndim, &dim1, &dim2))
        return NULL;
    if (__builtin_add_overflow(last, away, &size))
        size = INT64_MAX;
    for (int i = 0; i < ndim; i++)
        sizes[i] = i == dim1 || i == dim2 ? size : x->sizes[next++];
    return br__fill_window(
        x, ndim, sizes,
        &(br_window){ .kind = &diagonal_kind, .args = { bounded(offset), dim1, dim2 } });
}

br_tensor *br_diag(br_tensor *x, int64_t diagonal)
{
    BR_OP("diag");
    if (!br__required("diag", "x", x))
        return NULL;
    if (x->ndim != 1 && x->ndim != 2)
        return br_fail(BR_ERROR_SHAPE, "diag", "x %s must have one or two dimensions",
                       br__shape(x));
    if (x->ndim == 1)
        return br__composed(NULL, br_diag_embed(x, diagonal, 0, 1));
    br_scope *scope = br_scope_begin();
    return br__composed(scope, br_clone(br_diagonal(x, diagonal, 0, 1)));
}

br_tensor *br_trace(br_tensor *x)
{
    BR_OP("trace");
    if (!br__required("trace", "x", x))
        return NULL;
    if (x->ndim != 2)
        return br_fail(BR_ERROR_SHAPE, "trace", "x %s must have two dimensions", br__shape(x));
    br_scope *scope = br_scope_begin();
    return br__composed(scope, br_sum(br_diagonal(x, 0, 0, 1)));
}

/* ---- fill_diagonal_ -------------------------------------------------------------------------- */

/* Returns the diagonals of the squares that begin at every (w + 1)-th row of a matrix of w columns,
 * one in each row, and sets *rest to the rows below the last whole one. */
static br_tensor *diagonals_of_squares(br_tensor *a, br_tensor **rest)
{
    const int64_t w = a->sizes[1], squares = a->sizes[0] / (w + 1);
    const int64_t strides[] = { a->strides[0] * (w + 1), a->strides[0] + a->strides[1] };
    *rest = br_slice(a, 0, squares * (w + 1), BR_ALL, 1);
    return br_as_strided(a, BR_SHAPE(squares, w), strides, BR_NONE);
}

/* Returns elements (i, i, ...). */
static br_tensor *equal_indices(br_tensor *a)
{
    int64_t step = 0;
    for (int d = 0; a && d < a->ndim; d++)
        step += a->strides[d];
    const int64_t size = a ? br__min(a->sizes[0], a->sizes[1]) : 0;
    return br_as_strided(a, BR_SHAPE(size), &step, BR_NONE);
}

br_tensor *br_fill_diagonal_(br_tensor *a, double value, bool wrap)
{
    static const char op[] = "fill_diagonal_";
    BR_OP(op);
    if (!br__required(op, "a", a))
        return NULL;
    if (a->ndim < 2)
        return br_fail(BR_ERROR_SHAPE, op, "a %s must have at least two dimensions", br__shape(a));
    for (int d = 1; d < a->ndim && a->ndim > 2; d++)
        if (a->sizes[d] != a->sizes[0])
            return br_fail(BR_ERROR_SHAPE, op,
                           "a %s has more than two dimensions, which must be equal", br__shape(a));
    if (!br__element_operand(op, value, a->dtype, &(br_scalar_operand){ .value.i64 = 0 }) ||
        (!br__shares_elements(a) && !br__can_change(op, "a", a, BR_INPUTS(a))))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *rest = a;
    br_tensor *squares = wrap && a->ndim == 2 ? diagonals_of_squares(a, &rest) : NULL;
    br_tensor *last = equal_indices(rest);
    if (squares && !br_failed())
        br_fill_(squares, value);
    br_fill_(last, value);
    br_scope_end(scope);
    return br__composed(NULL, a);
}

/* ---- Indices of triangles -------------------------------------------------------------------- */

__extension__ typedef __int128 wide;

/* Returns the sum of w, clipped to 0 .. most, over all integers w <= x. */
static wide sum_up_to(wide x, wide max_value)
{
    if (x <= 0)
        return 0;
    return x <= max_value ? x * (x + 1) / 2
                          : max_value * (max_value + 1) / 2 + (x - max_value) * max_value;
}

/* Counts the elements on and below a diagonal: row i has i + offset + 1, clipped to 0 ..
 * columns. */
static wide count_below(int64_t rows, int64_t columns, wide offset)
{
    return sum_up_to(offset + rows, columns) - sum_up_to(offset, columns);
}

/* Computes the columns of row i in the triangle: first .. end - 1. */
static void columns_of(int64_t i, int64_t columns, int64_t offset, bool upper, int64_t *first,
                       int64_t *end)
{
    wide unclamped = (wide)i + offset + !upper;
    int64_t edge = unclamped < 0 ? 0 : unclamped > columns ? columns : (int64_t)unclamped;
    *first = upper ? edge : 0;
    *end = upper ? columns : edge;
}

static br_tensor *triangle_indices(const char *op, int64_t rows, int64_t columns, int64_t offset,
                                   bool upper)
{
    BR_OP(op);
    if (br_failed())
        return NULL;
    if (rows < 0 || columns < 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "row is %" PRId64 " and col is %" PRId64 ", both must be at least 0", rows,
                       columns);
    wide count = upper ? (wide)rows * columns - count_below(rows, columns, (wide)offset - 1)
                       : count_below(rows, columns, offset);
    int64_t n = count < INT64_MAX ? (int64_t)count : INT64_MAX;
    /* Rows without elements are skipped, as there may be very many of them. */
    wide first_row = !upper && offset < 0 ? -(wide)offset : 0;
    wide end_row = upper && (wide)columns - offset < rows ? (wide)columns - offset : rows;
    int64_t *row;
    br_tensor *y = br__new_host_i64(op, BR_SHAPE(2, n), &row);
    if (!y)
        return NULL;
    BR_TRAFFIC(y);
    int64_t *column = row + n;
    for (int64_t i = (int64_t)first_row; n > 0 && i < end_row; i++) {
        int64_t first, end;
        columns_of(i, columns, offset, upper, &first, &end);
        for (int64_t j = first; j < end; j++) {
            *row++ = i;
            *column++ = j;
        }
    }
    return br__placed(op, br__default_backend(), y);
}

br_tensor *br_tril_indices(int64_t row, int64_t col, int64_t offset)
{
    return triangle_indices("tril_indices", row, col, offset, false);
}

br_tensor *br_triu_indices(int64_t row, int64_t col, int64_t offset)
{
    return triangle_indices("triu_indices", row, col, offset, true);
}
