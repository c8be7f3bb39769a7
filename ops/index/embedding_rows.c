/* ops/index/embedding_rows.c - rows of an embedding: their largest norm, and gradients that are
 * divided by the number of times that a row was looked up. */
#include "ops/index/embedding_rows.h"

#include "ops/index/index_internal.h"
#include "ops/pointwise/widen.h"

#include <string.h>

/* ---- Norms ----------------------------------------------------------------------------------- */

br_tensor *br_embedding_renorm_(br_tensor *weight, br_tensor *index, double max_norm,
                                double norm_type)
{
    static const char op[] = "embedding_renorm_";
    BR_OP(op);
    BR_IF_CONVERTED(br__is_short_index(index),
                    br_embedding_renorm_(weight, br_to(index, BR_I64), max_norm, norm_type))
    if (!br__floating(op, "weight", weight) || !br__has_dtype(op, "index", index, BR_I64))
        return NULL;
    if (weight->ndim != 2)
        return br_fail(BR_ERROR_SHAPE, op, "weight %s must have two dimensions", br__shape(weight));
    if (!(max_norm >= 0))
        return br_fail(BR_ERROR_ARGUMENT, op, "max_norm is %g, must not be negative", max_norm);
    if (!br__check_index(op, index, weight, 0))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *rows = br_unique(index, NULL, NULL);
    br_tensor *used = br_index_select(weight, 0, rows), *values = used;
    const br_rounding rounding = BR_WIDEN(&values);
    br_tensor *norms = br_norm_dim(values, norm_type, BR_DIMS(1), true);
    br_tensor *scale = br_rdiv_scalar(br_add_scalar(norms, 1e-7), max_norm);
    br_tensor *shorter = br__narrowed(rounding, br_mul(values, scale));
    br_index_copy_(weight, 0, rows, br_where(br_gt_scalar(norms, max_norm), shorter, used));
    br_scope_end(scope);
    if (BR_PROFILING)
        br__thread.events->result(weight);
    return br_failed() ? NULL : weight;
}

/* ---- Gradients by frequency ------------------------------------------------------------------ */

br_tensor *br__over_counts(br_tensor *dy, br_tensor *index)
{
    br_tensor *inverse, *counts;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&dy);
    br_unique(br_flatten(index, 0, -1), &inverse, &counts);
    br_tensor *count = br_reshape(br_index_select(counts, 0, inverse), index->ndim, index->sizes);
    return br__composed(scope, br__narrowed(rounding, br_div(dy, br_unsqueeze(count, -1))));
}

static void by_freq_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *index = br_saved(node, 0);
    if (index)
        dx[0] = br__over_counts(dy, index);
}

static const br_op by_freq_op = { "scale_grad_by_freq", by_freq_backward, false };

br_tensor *br_scale_grad_by_freq(br_tensor *rows, br_tensor *index)
{
    const char *op = by_freq_op.name;
    BR_OP(op);
    BR_IF_CONVERTED(br__is_short_index(index), br_scale_grad_by_freq(rows, br_to(index, BR_I64)))
    if (!br__floating(op, "rows", rows) || !br__has_dtype(op, "index", index, BR_I64) ||
        !br__same_device(op, "rows", rows, "index", index))
        return NULL;
    if (rows->ndim != index->ndim + 1 ||
        memcmp(rows->sizes, index->sizes, (size_t)index->ndim * sizeof *index->sizes) != 0)
        return br_fail(BR_ERROR_SHAPE, op,
                       "rows %s must have the shape of index %s and one more "
                       "dimension",
                       br__shape(rows), br__shape(index));
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br__composed(scope, br_clone(rows));
    br_save(br_record(&by_freq_op, y, BR_INPUTS(rows), NULL, 0), 0, index);
    return br_failed() ? NULL : y;
}
