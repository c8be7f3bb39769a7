/* pretrained/sampling.c - the tokens that may be sampled, and sampling, as in transformers 5. */
#include "pretrained/generate_internal.h"
#include "tensor/device.h"

#include <math.h>

/* Returns bool [B, V], true at the `least` likeliest tokens of each row. */
static br_tensor *likeliest(br_tensor *scores, int64_t least)
{
    br_tensor *ids;
    br_topk(scores, least, -1, true, &ids);
    br_tensor *none = br_new_zeros(scores, br_ndim(scores), br_sizes(scores), BR_BOOL);
    return br_scatter(none, 1, ids, br_new_ones(ids, br_ndim(ids), br_sizes(ids), BR_BOOL));
}

/* Returns the scores with -infinity for the tokens that are less than min_p times as likely as the
 * likeliest. */
static br_tensor *drop_unlikely(br_tensor *scores, double min_p, int64_t least)
{
    br_tensor *p = br_softmax(scores, -1);
    br_tensor *threshold = br_mul_scalar(br_topk(p, 1, -1, true, NULL), min_p);
    br_tensor *dropped = br_lt(p, threshold);
    if (least > 1) /* the likeliest is never dropped */
        dropped = br_logical_and(dropped, br_logical_not(likeliest(scores, least)));
    return br_masked_fill(scores, dropped, -INFINITY);
}

/* Returns the scores with -infinity for the tokens that top_k excludes. Tokens as likely as the
 * last of the top_k stay. *n_kept is the number of tokens of a row that stay, or the largest of
 * them. */
static br_tensor *keep_top_k(br_tensor *scores, int64_t k, int64_t *n_kept)
{
    br_tensor *last = br_narrow(br_topk(scores, k, -1, true, NULL), 1, k - 1, 1);
    br_tensor *excluded = br_lt(scores, last);
    br_tensor *counts = br_sum_dim(br_logical_not(excluded), BR_DIMS(-1), false);
    *n_kept = br_item_i64(br_max(counts));
    return br_masked_fill(scores, excluded, -INFINITY);
}

/* Returns the scores with -infinity for the tokens outside of the nucleus, that is the fewest
 * likeliest tokens whose probabilities sum to top_p. As in transformers, the least likely tokens
 * are dropped as long as their sum is at most 1 - top_p. Of equally likely tokens, the first are
 * dropped. Only the n likeliest tokens of a row are not -infinity. */
static br_tensor *keep_nucleus(br_tensor *scores, int64_t n, double top_p, int64_t least)
{
    br_tensor *best, *order;
    br_topk(scores, n, -1, true, &best);
    br_tensor *ids = br_sort(best, -1, false, NULL);
    br_tensor *ascending = br_sort(br_gather(scores, 1, ids), -1, false, &order);
    br_tensor *dropped = br_le_scalar(br_cumsum(br_softmax(ascending, -1), -1), 1 - top_p);
    least = least < n ? least : n;
    br_fill_(br_narrow(dropped, 1, n - least, least), 0);
    br_tensor *none = br_new_zeros(scores, br_ndim(scores), br_sizes(scores), BR_BOOL);
    br_tensor *places = br_gather(ids, 1, order);
    return br_masked_fill(scores, br_scatter(none, 1, places, dropped), -INFINITY);
}

br_tensor *br__truncate_scores(const br_generation *g, br_tensor *scores, int64_t least)
{
    const br_generate_options *o = &g->o;
    int64_t n = br_size(scores, 1), k = o->top_k > least ? o->top_k : least;
    least = least < n ? least : n;
    if (o->top_k > 0 && k < n)
        scores = keep_top_k(scores, k, &n);
    if (o->top_p < 1 && !br_error_pending())
        scores = keep_nucleus(scores, n, o->top_p, least);
    return o->min_p > 0 ? drop_unlikely(scores, o->min_p, least) : scores;
}

br_tensor *br__sample_tokens(br_tensor *scores, int64_t n)
{
    br_tensor *u = br_rand(br_ndim(scores), br_sizes(scores), BR_F64), *places;
    br_tensor *exponential = br_neg(br_log(br_rsub_scalar(u, 1)));
    br_tensor *q = br_to_device(br_to(exponential, br_dtype_of(scores)), br_device_of(scores));
    br_tensor *weights = br_div(br_softmax(scores, -1), q);
    if (n == 1)
        return br_argmax(weights, -1, true);
    br_topk(weights, n, -1, true, &places);
    return places;
}
