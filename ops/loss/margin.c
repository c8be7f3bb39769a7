/* ops/loss/margin.c - losses with a margin: triplet_margin, margin_ranking, hinge_embedding,
 * cosine_embedding; and soft_margin. All are composed of recorded operations. */
#include "ops/autocast.h"
#include "ops/loss/loss_internal.h"
#include "ops/scaling.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_triplet)

/* Returns max(x, 0), whose gradient is 0 where x is NaN, unlike that of relu. */
static br_tensor *positive_part(br_tensor *x)
{
    return br_clamp(x, 0, INFINITY);
}

/* With `swap`, the distance of the negative is the smaller of those to the anchor and to the
 * positive. */
br_tensor *br_triplet_margin_loss(br_tensor *anchor, br_tensor *positive, br_tensor *negative,
                                  const br_triplet_options *options, br_reduction reduction)
{
    static const char op[] = "triplet_margin_loss";
    const br_triplet_options *o = BR_OPTIONS_OF(op, br_triplet, options);
    BR_OP(op);
    BR_AUTOCAST(
        br_triplet_margin_loss(RAISE(anchor), RAISE(positive), RAISE(negative), options, reduction))
    if (!br__check_numbers(op, "anchor", anchor, "positive", positive) ||
        !br__check_numbers(op, "anchor", anchor, "negative", negative) ||
        !br__check_numbers(op, "positive", positive, "negative", negative))
        return NULL;
    if (anchor->ndim != positive->ndim || anchor->ndim != negative->ndim)
        return br_fail(
            BR_ERROR_SHAPE, op,
            "anchor %s, positive %s and negative %s must have the same number of dimensions",
            br__shape(anchor), br__shape(positive), br__shape(negative));
    if (!(o->margin > 0))
        return br_fail(BR_ERROR_ARGUMENT, op, "margin is %g, must be larger than 0", o->margin);
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&anchor, &positive, &negative);
    br_tensor *dist_pos = br_pairwise_distance(anchor, positive, o->p, o->eps, false);
    br_tensor *dist_neg = br_pairwise_distance(anchor, negative, o->p, o->eps, false);
    if (o->swap)
        dist_neg =
            br_minimum(dist_neg, br_pairwise_distance(positive, negative, o->p, o->eps, false));
    br_tensor *losses = positive_part(br_add_scalar(br_sub(dist_pos, dist_neg), o->margin));
    return br__finish_loss(op, scope, rounding, losses, reduction);
}

br_tensor *br_margin_ranking_loss(br_tensor *input1, br_tensor *input2, br_tensor *target,
                                  double margin, br_reduction reduction)
{
    static const char op[] = "margin_ranking_loss";
    BR_OP(op);
    BR_AUTOCAST(
        br_margin_ranking_loss(RAISE(input1), RAISE(input2), RAISE(target), margin, reduction))
    if (!br__check_numbers(op, "input1", input1, "input2", input2) ||
        !br__check_numbers(op, "input1", input1, "target", target))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input1, &input2, &target);
    br_tensor *wrong = br_mul(br_neg(target), br_sub(input1, input2));
    return br__finish_loss(op, scope, rounding,
                           positive_part(br_add_scalar(br__as_floating(wrong), margin)), reduction);
}

/* The loss is the input where the target is 1, and max(margin - input, 0) where it is -1. */
br_tensor *br_hinge_embedding_loss(br_tensor *input, br_tensor *target, double margin,
                                   br_reduction reduction)
{
    static const char op[] = "hinge_embedding_loss";
    BR_OP(op);
    BR_AUTOCAST(br_hinge_embedding_loss(RAISE(input), RAISE(target), margin, reduction))
    if (!br__check_broadcastable(op, "input", input, "target", target))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target);
    br_tensor *zero = br_new_zeros(input, BR_SCALAR, input->dtype);
    br_tensor *apart = positive_part(br_rsub_scalar(input, margin));
    br_tensor *losses = br_add(br_where(br_ne_scalar(target, 1), apart, zero),
                               br_where(br_ne_scalar(target, -1), input, zero));
    return br__finish_loss(op, scope, rounding, losses, reduction);
}

/* A vector divided by a scale, and its squared norm plus 1e-12, divided by the square of the scale.
 * The scale is 1 unless squares of the elements could overflow; for integers it is 1. */
typedef struct scaled_vector {
    br_tensor *x, *square;
} scaled_vector;

static scaled_vector scaled_to_square(br_tensor *x)
{
    const bool may_scale = x && br_is_floating(x);
    br_tensor *scale =
        may_scale ? br__scale_of_large("cosine_embedding_loss", x, 1u << (br_ndim(x) - 1)) : NULL;
    if (scale)
        x = br_div(x, scale);
    br_tensor *square = br__as_floating(br_sum_dim(br_mul(x, x), BR_DIMS(-1), true));
    return (scaled_vector){ x, br_squeeze(br__add_scaled_eps(square, 1e-12, scale), -1) };
}

/* Computes the cosine similarity as PyTorch does for this loss: 1e-12 is added to the squared
 * norms. */
static br_tensor *cosine_of(br_tensor *a, br_tensor *b)
{
    scaled_vector u = scaled_to_square(a), v = scaled_to_square(b);
    br_tensor *dot = br__as_floating(br_sum_dim(br_mul(u.x, v.x), BR_DIMS(-1), false));
    return br_div(dot, br_sqrt(br_mul(u.square, v.square)));
}

br_tensor *br_cosine_embedding_loss(br_tensor *input1, br_tensor *input2, br_tensor *target,
                                    double margin, br_reduction reduction)
{
    static const char op[] = "cosine_embedding_loss";
    BR_OP(op);
    BR_AUTOCAST(
        br_cosine_embedding_loss(RAISE(input1), RAISE(input2), RAISE(target), margin, reduction))
    if (!br__check_numbers(op, "input1", input1, "input2", input2) ||
        !br__compatible(op, "input1", input1, "target", target))
        return NULL;
    bool fits =
        input1->ndim == target->ndim + 1 && input2->ndim == input1->ndim && target->ndim <= 1;
    if (!fits || (target->ndim == 1 && target->sizes[0] != input1->sizes[0]))
        return br_fail(BR_ERROR_SHAPE, op,
                       "input1 %s, input2 %s and target %s: must be [n, d], [n, d] and [n], or "
                       "[d], [d] and []",
                       br__shape(input1), br__shape(input2), br__shape(target));
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input1, &input2, &target);
    br_tensor *cosine = cosine_of(input1, input2);
    br_tensor *zero = cosine ? br_new_zeros(cosine, BR_SCALAR, cosine->dtype) : NULL;
    br_tensor *apart = positive_part(br_sub_scalar(cosine, margin));
    br_tensor *losses = br_add(br_where(br_eq_scalar(target, 1), br_rsub_scalar(cosine, 1), zero),
                               br_where(br_eq_scalar(target, -1), apart, zero));
    return br__finish_loss(op, scope, rounding, losses, reduction);
}

/* The loss is log(1 + exp(-t x)). */
br_tensor *br_soft_margin_loss(br_tensor *input, br_tensor *target, br_reduction reduction)
{
    static const char op[] = "soft_margin_loss";
    BR_OP(op);
    BR_AUTOCAST(br_soft_margin_loss(RAISE(input), RAISE(target), reduction))
    if (!br__check_broadcastable(op, "input", input, "target", target))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&input, &target);
    br_tensor *losses = br_softplus(br_mul(br_neg(target), input), 1, INFINITY);
    return br__finish_loss(op, scope, rounding, losses, reduction);
}
