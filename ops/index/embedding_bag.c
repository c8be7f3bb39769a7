/* ops/index/embedding_bag.c - sums, means and largest elements of bags of rows. */
#include "ops/index/index_internal.h"
#include "ops/pointwise/widen.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_embedding_bag)

static bool check_options(const char *op, const br_tensor *weight, const br_tensor *index,
                          const br_embedding_bag_options *o)
{
    const br_tensor *w = o->per_sample_weights;
    if (o->mode < BR_BAG_SUM || o->mode > BR_BAG_MAX) {
        br_fail(BR_ERROR_ARGUMENT, op, "mode is %d, must be a br_bag_mode", (int)o->mode);
        return false;
    }
    if (o->padding_idx < -1 || o->padding_idx >= weight->sizes[0])
        br_fail(BR_ERROR_INDEX, op, "padding_idx is %" PRId64 ", must be -1 or a row of weight %s",
                o->padding_idx, br__shape(weight));
    else if (!(o->max_norm >= 0))
        br_fail(BR_ERROR_ARGUMENT, op, "max_norm is %g, must be positive, or 0 for none",
                o->max_norm);
    else if (o->scale_grad_by_freq && o->mode == BR_BAG_MAX)
        br_fail(BR_ERROR_ARGUMENT, op, "scale_grad_by_freq is not for the mode BR_BAG_MAX");
    else if (w && br__compatible(op, "weight", weight, "per_sample_weights", w) &&
             o->mode != BR_BAG_SUM)
        br_fail(BR_ERROR_ARGUMENT, op, "per_sample_weights are only for the mode BR_BAG_SUM");
    else if (w && !br_failed() && !br__same_shape(w, index))
        br_fail(BR_ERROR_SHAPE, op, "per_sample_weights %s must have the shape of index %s",
                br__shape(w), br__shape(index));
    return !br_failed();
}

static bool check_shapes(const char *op, const br_tensor *weight, const br_tensor *index,
                         const br_tensor *offsets, bool include_last)
{
    if (weight->ndim != 2)
        br_fail(BR_ERROR_SHAPE, op, "weight %s must have 2 dimensions", br__shape(weight));
    else if (offsets ? index->ndim != 1 || offsets->ndim != 1 : index->ndim != 2)
        br_fail(BR_ERROR_SHAPE, op,
                "index %s and offsets %s: must be [bags, length] and NULL, or [n] and [bags]",
                br__shape(index), offsets ? br__shape(offsets) : "NULL");
    else if (include_last && (!offsets || offsets->sizes[0] < 1))
        br_fail(BR_ERROR_ARGUMENT, op, "include_last_offset is true, but there are no offsets");
    return !br_failed();
}

/* Checks that the offsets begin with 0, do not decrease and are at most n. */
static bool check_offsets(const char *op, br_tensor *offsets, int64_t n)
{
    const int64_t *offset = br__host_i64(offsets);
    int64_t before = 0;
    for (int64_t i = 0; offset && i < offsets->numel; i++) {
        if (offset[i] < before || offset[i] > n || (i == 0 && offset[i] != 0)) {
            br_fail(BR_ERROR_INDEX, op,
                    "offsets: element %" PRId64 " is %" PRId64 ", must be in %" PRId64
                    " .. %" PRId64,
                    i, offset[i], before, i == 0 ? 0 : n);
            return false;
        }
        before = offset[i];
    }
    return !br_failed();
}

/* Returns the number of the bag of each index, i64 [n]. */
static br_tensor *bags_of(br_tensor *index, br_tensor *offsets, int64_t bags)
{
    const int64_t n = br_numel(index);
    if (!offsets) {
        br_tensor *number = br_new_arange(index, 0, (double)bags, 1, BR_I64);
        return br_flatten(br_expand(br_unsqueeze(number, 1), BR_SHAPE(bags, br_size(index, 1))), 0,
                          -1);
    }
    br_tensor *place = br_new_arange(index, 0, (double)n, 1, BR_I64);
    br_tensor *first = br_narrow(offsets, 0, 0, bags);
    return br_sub_scalar(br_searchsorted(first, place, true, NULL), 1);
}

/* Returns how many indices, other than those of padding, are in each bag, at least 1. */
static br_tensor *counts_of(br_tensor *kept, br_tensor *bag, int64_t bags, br_dtype dtype)
{
    br_tensor *zeros = br_new_zeros(kept, BR_SHAPE(bags), dtype);
    br_tensor *count = br_index_add(zeros, 0, bag, br_to(kept, dtype), 1);
    return br_unsqueeze(br_clamp(count, 1, (double)(INT64_C(1) << 53)), 1);
}

/* The rows [n, d] of index [n], which are in the given bags; `kept` is false for padding. */
static br_tensor *reduced(br_tensor *rows, br_tensor *bag, br_tensor *kept, int64_t bags,
                          br_bag_mode mode)
{
    const int64_t d = br_size(rows, 1);
    br_tensor *zeros = br_new_zeros(rows, BR_SHAPE(bags, d), br_dtype_of(rows));
    if (mode == BR_BAG_MAX) {
        br_tensor *chosen = br_flatten(br_nonzero(kept), 0, -1);
        rows = br_index_select(rows, 0, chosen);
        bag = br_index_select(bag, 0, chosen);
        br_tensor *index = br_expand(br_unsqueeze(bag, 1), BR_SHAPE(br_numel(bag), d));
        return br_scatter_reduce(zeros, 0, br_contiguous(index), rows, BR_SCATTER_AMAX, false);
    }
    rows = br_masked_fill(rows, br_unsqueeze(br_logical_not(kept), 1), 0);
    br_tensor *sum = br_index_add(zeros, 0, bag, rows, 1);
    return mode == BR_BAG_SUM ? sum : br_div(sum, counts_of(kept, bag, bags, br_dtype_of(sum)));
}

/* Does the same for bags of equal length without padding, which need no index of bags. */
static br_tensor *reduced_evenly(br_tensor *rows, int64_t bags, br_bag_mode mode)
{
    const int64_t length = br_size(rows, 0) / bags, d = br_size(rows, 1);
    if (length == 1)
        return rows;
    br_tensor *parts = br_reshape(rows, BR_SHAPE(bags, length, d));
    return mode == BR_BAG_SUM ? br_sum_dim(parts, BR_DIMS(1), false)
                              : br_mean_dim(parts, BR_DIMS(1), false);
}

br_tensor *br_f_embedding_bag(br_tensor *weight, br_tensor *index, br_tensor *offsets,
                              const br_embedding_bag_options *options)
{
    static const char op[] = "embedding_bag";
    const br_embedding_bag_options *o = BR_OPTIONS_OF(op, br_embedding_bag, options);
    BR_OP(op);
    if (!br__floating(op, "weight", weight) ||
        !br__same_device(op, "weight", weight, "index", index) ||
        (offsets && !br__same_device(op, "weight", weight, "offsets", offsets)))
        return NULL;
    br_scope *scope = br_scope_begin();
    if (br__is_whole(index))
        index = br_to(index, BR_I64);
    if (offsets && br__is_whole(offsets))
        offsets = br_to(offsets, BR_I64);
    if (br_failed() || !br__has_dtype(op, "index", index, BR_I64) ||
        (offsets && !br__has_dtype(op, "offsets", offsets, BR_I64)) ||
        !check_shapes(op, weight, index, offsets, o->include_last_offset) ||
        !check_options(op, weight, index, o) || !br__check_index(op, index, weight, 0) ||
        (offsets && !check_offsets(op, offsets, index->numel)))
        return br__composed(scope, NULL);
    if (o->max_norm > 0)
        br_embedding_renorm_(weight, index, o->max_norm, o->norm_type);
    const int64_t bags = offsets ? offsets->sizes[0] - o->include_last_offset : index->sizes[0];
    br_tensor *samples = o->per_sample_weights;
    const br_rounding rounding = BR_WIDEN(&weight, &samples);
    br_tensor *line = br_flatten(index, 0, -1);
    br_tensor *rows = br_index_select(weight, 0, line);
    if (o->scale_grad_by_freq)
        rows = br_scale_grad_by_freq(rows, line);
    if (samples)
        rows = br_mul(rows, br_unsqueeze(br_flatten(samples, 0, -1), 1));
    const bool even = !offsets && o->padding_idx < 0 && o->mode != BR_BAG_MAX && index->numel > 0;
    br_tensor *y = NULL;
    if (rows)
        y = even ? reduced_evenly(rows, bags, o->mode)
                 : reduced(rows, bags_of(index, offsets, bags),
                           br_ne_scalar(line, (double)o->padding_idx), bags, o->mode);
    return br__composed(scope, br__narrowed(rounding, y));
}
