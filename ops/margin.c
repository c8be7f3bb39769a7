/* ops/margin.c - losses that ask for a margin between what belongs together and what does not:
 * triplet_margin, margin_ranking, hinge_embedding, cosine_embedding, soft_margin. All are composed
 * of operations that the tape sees. */
#include "ops/loss_internal.h"

#include <math.h>

/* With `swap` the negative's distance is the smaller one of those to anchor and positive. */
br_tensor *br_triplet_margin_loss(br_tensor *anchor, br_tensor *positive, br_tensor *negative,
                                  const br_triplet_options *options, br_reduction reduction)
{
    static const char op[] = "triplet_margin_loss";
    static const br_triplet_options defaults = { .margin = 1, .p = 2, .eps = 1e-6 };
    const br_triplet_options *o = options ? options : &defaults;
    BR_OP(op);
    if (!br__compares(op, "anchor", anchor, "positive", positive) ||
        !br__compares(op, "anchor", anchor, "negative", negative) ||
        !br__compares(op, "positive", positive, "negative", negative))
        return NULL;
    if (anchor->ndim != positive->ndim || anchor->ndim != negative->ndim)
        return br__fail(BR_ERROR_SHAPE, op,
                        "anchor %s, positive %s and negative %s must have as many dimensions",
                        br__shape(anchor), br__shape(positive), br__shape(negative));
    if (!(o->margin > 0))
        return br__fail(BR_ERROR_ARGUMENT, op, "margin is %g, must be larger than 0", o->margin);
    br_scope *scope = br_scope_begin();
    br_tensor *near = br_pairwise_distance(anchor, positive, o->p, o->eps, false);
    br_tensor *far = br_pairwise_distance(anchor, negative, o->p, o->eps, false);
    if (o->swap)
        far = br_minimum(far, br_pairwise_distance(positive, negative, o->p, o->eps, false));
    br_tensor *losses = br_relu(br_add_scalar(br_sub(near, far), o->margin));
    return br__finish_loss(op, scope, losses, reduction);
}

br_tensor *br_margin_ranking_loss(br_tensor *input1, br_tensor *input2, br_tensor *target,
                                  double margin, br_reduction reduction)
{
    static const char op[] = "margin_ranking_loss";
    BR_OP(op);
    if (!br__compares(op, "input1", input1, "input2", input2) ||
        !br__compares(op, "input1", input1, "target", target))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *wrong = br_mul(br_neg(target), br_sub(input1, input2));
    return br__finish_loss(op, scope, br_relu(br_add_scalar(wrong, margin)), reduction);
}

/* x where the target is 1, what is left of the margin where it is -1. */
br_tensor *br_hinge_embedding_loss(br_tensor *input, br_tensor *target, double margin,
                                   br_reduction reduction)
{
    static const char op[] = "hinge_embedding_loss";
    BR_OP(op);
    if (!br__compares(op, "input", input, "target", target))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *zero = br_scalar(0, input->dtype);
    br_tensor *apart = br_relu(br_rsub_scalar(input, margin));
    br_tensor *losses = br_add(br_where(br_ne_scalar(target, 1), apart, zero),
                               br_where(br_ne_scalar(target, -1), input, zero));
    return br__finish_loss(op, scope, losses, reduction);
}

/* As PyTorch has it here: the squared lengths with 1e-12 added. */
static br_tensor *cosine_of(br_tensor *a, br_tensor *b)
{
    br_tensor *dot = br_sum_dim(br_mul(a, b), BR_DIMS(-1), false);
    br_tensor *a_square = br_add_scalar(br_sum_dim(br_mul(a, a), BR_DIMS(-1), false), 1e-12);
    br_tensor *b_square = br_add_scalar(br_sum_dim(br_mul(b, b), BR_DIMS(-1), false), 1e-12);
    return br_div(dot, br_sqrt(br_mul(a_square, b_square)));
}

br_tensor *br_cosine_embedding_loss(br_tensor *input1, br_tensor *input2, br_tensor *target,
                                    double margin, br_reduction reduction)
{
    static const char op[] = "cosine_embedding_loss";
    BR_OP(op);
    if (!br__compares(op, "input1", input1, "input2", input2) ||
        !br__same_dtype(op, "input1", input1, "target", target))
        return NULL;
    bool fits =
        input1->ndim == target->ndim + 1 && input2->ndim == input1->ndim && target->ndim <= 1;
    if (!fits || (target->ndim == 1 && target->sizes[0] != input1->sizes[0]))
        return br__fail(BR_ERROR_SHAPE, op,
                        "input1 %s, input2 %s and target %s: must be [n, d] twice and [n], or [d] "
                        "twice and []",
                        br__shape(input1), br__shape(input2), br__shape(target));
    br_scope *scope = br_scope_begin();
    br_tensor *cosine = cosine_of(input1, input2);
    br_tensor *zero = br_scalar(0, input1->dtype);
    br_tensor *apart = br_relu(br_sub_scalar(cosine, margin));
    br_tensor *losses = br_add(br_where(br_eq_scalar(target, 1), br_rsub_scalar(cosine, 1), zero),
                               br_where(br_eq_scalar(target, -1), apart, zero));
    return br__finish_loss(op, scope, losses, reduction);
}

/* log(1 + exp(-t x)). */
br_tensor *br_soft_margin_loss(br_tensor *input, br_tensor *target, br_reduction reduction)
{
    static const char op[] = "soft_margin_loss";
    BR_OP(op);
    if (!br__compares(op, "input", input, "target", target))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *losses = br_softplus(br_mul(br_neg(target), input), 1, INFINITY);
    return br__finish_loss(op, scope, losses, reduction);
}
