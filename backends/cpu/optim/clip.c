/* backends/cpu/optim/clip.c - norms of many tensors, and pointwise changes of many tensors, each in
 * one parallel loop.
 *
 * Each piece of elements has its own partial result, and the partial results of a tensor are added
 * in order, so that its norm does not depend on the number of threads. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/optim/optim_internal.h"
#include "backends/cpu/optim/spans.h"
#include "backends/cpu/pointwise/widened.h"
#include "tensor/min_max.h"

static void set_sizes(int64_t n, const br_tensor *const *tensors, br_loop_span *spans)
{
    for (int64_t i = 0; i < n; i++)
        spans[i].numel = tensors[i]->numel;
}

/* ---- Norms ----------------------------------------------------------------------------------- */

typedef struct norms {
    const br_tensor *const *tensors;
    br_vector_norm norm;
    double *partial; /* the total of each piece */
} norms;

/* Returns the sum of the squares, or the largest absolute value, of elements of any dtype. */
static double common_total(double order, br_dtype dtype, int64_t count, const char *values)
{
    enum { PART = 1024 };
    const br_kernels *kernels = br__kernels_of(br__computed(dtype));
    double (*const total_of)(int64_t n, const void *values) =
        order == 2 ? kernels->sum_squares : kernels->max_abs;
    if (!br__is_stored(dtype))
        return total_of(count, values);
    const int64_t size = (int64_t)br__dtype_size(dtype);
    double total = 0;
    for (int64_t i = 0; i < count; i += PART) {
        br_element wide[PART];
        const int64_t part = br__min(count - i, PART);
        br__widen(dtype, wide, part, values + i * size, size);
        br__norm_fold(order, &total, total_of(part, wide));
    }
    return total;
}

static void fold_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const norms *w = context;
    const double order = w->norm.order;
    const br_tensor *t = w->tensors[item];
    const char *values = br__element(t, from);
    if (w->norm.unit == 1 && (order == 2 || order == (double)INFINITY)) {
        w->partial[piece] = common_total(order, t->dtype, count, values);
        return;
    }
    const int64_t size = (int64_t)br__dtype_size(t->dtype);
    double total = br__norm_neutral(order);
    for (int64_t i = 0; i < count; i++) {
        double x = br__get(t->dtype, values + i * size);
        br__norm_fold(order, &total, br__norm_term(order, x / w->norm.unit));
    }
    w->partial[piece] = total;
}

/* Returns the norm of the tensor that has the span. */
static double norm_of(const norms *w, const br_loop_span *span)
{
    const double *partial = w->partial + span->start / BR_GRAIN;
    double total = br__norm_neutral(w->norm.order);
    for (int64_t i = 0; i < br__pieces_of_span(span); i++)
        br__norm_fold(w->norm.order, &total, partial[i]);
    return br__norm_root(w->norm.order, total);
}

bool br__cpu_norms(const char *op, int64_t n, const br_tensor *const *tensors, br_loop_span *spans,
                   br_vector_norm norm, double *results)
{
    (void)op;
    set_sizes(n, tensors, spans);
    const int64_t n_pieces = br__layout_separate_spans(n, spans);
    norms w = { tensors, norm, br_malloc((size_t)n_pieces * sizeof(double)) };
    if (!w.partial)
        return false;
    br__for_each_span(n, spans, fold_piece, &w);
    for (int64_t i = 0; i < n; i++)
        results[i] = norm_of(&w, &spans[i]);
    br_free(w.partial);
    return true;
}

/* ---- Changes --------------------------------------------------------------------------------- */

typedef struct change {
    const br_tensor *const *tensors;
    br_pointwise kernel;
    const double *scalar;
    const void *params;
} change;

static void change_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const change *w = context;
    const br_tensor *t = w->tensors[item];
    const int64_t size = (int64_t)br__dtype_size(t->dtype);
    char *values = br__element(t, from);
    br_element scalar;
    const br_dtype computed = br__computed(t->dtype);
    const br_loop loop = br__kernels_of(computed)->pointwise[w->kernel];
    char *const operands[] = { values, values, (char *)&scalar };
    (void)piece;
    if (w->scalar)
        br__put(computed, &scalar, *w->scalar);
    if (br__is_stored(t->dtype))
        br__run_widened(count, operands, (int64_t[]){ size, size, 0 },
                        &(br_widened_loop){ .loop = loop,
                                            .params = w->params,
                                            .n = w->scalar ? 3 : 2,
                                            .dtypes = { t->dtype, t->dtype, computed } });
    else
        loop(count, operands, (int64_t[]){ size, size, 0 }, w->params);
}

void br__cpu_pointwise_each(br_pointwise kernel, int64_t n, const br_tensor *const *tensors,
                            br_loop_span *spans, const double *scalar, const void *params)
{
    change w = { tensors, kernel, scalar, params };
    set_sizes(n, tensors, spans);
    br__layout_spans(n, spans);
    br__for_each_span(n, spans, change_piece, &w);
}
