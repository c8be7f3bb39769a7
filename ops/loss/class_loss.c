/* ops/loss/class_loss.c - what the losses of classes share: the checks of their targets, and the
 * gradient of cross_entropy and linear_cross_entropy by recorded operations. */
#include "ops/loss/class_loss.h"
#include "ops/index/index_internal.h"

#include <inttypes.h>

bool br__good_targets(const char *op, br_tensor *target, const br_tensor *input, int64_t classes,
                      int64_t ignore)
{
    if (!br__same_device(op, "target", target, "input", input))
        return false;
    const int64_t *t = br__host_i64(target);
    for (int64_t i = 0; t && i < target->numel; i++) {
        if (t[i] == ignore)
            continue;
        if (t[i] < 0 || t[i] >= classes) {
            br_fail(BR_ERROR_INDEX, op,
                    "target %" PRId64 " at position %s is outside 0 .. %" PRId64
                    " and is not ignore_index %" PRId64,
                    t[i], br__position(target, i), classes - 1, ignore);
            return false;
        }
    }
    return !br_failed();
}

bool br__check_target_shapes(const char *op, const br_tensor *input, const br_tensor *target)
{
    if (!br__floating(op, "input", input) || !br__required(op, "target", target))
        return false;
    if (target->dtype != BR_I64) /* u8 has been converted */
        return br_fail(BR_ERROR_DTYPE, op,
                       "target %s is %s, must be i64 or u8 (convert it with br_to())",
                       br__shape(target), br_dtype_name(target->dtype));
    bool fits = input->ndim >= 1 && target->ndim == input->ndim - 1;
    for (int i = 0; fits && i < target->ndim; i++)
        fits = target->sizes[i] == input->sizes[i == 0 ? 0 : i + 1];
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op,
                "input %s and target %s: must be [n, c, d...] and [n, d...], or [c] and []",
                br__shape(input), br__shape(target));
    return fits;
}

bool br__check_targets(const char *op, br_tensor *input, br_tensor *target, int64_t ignore)
{
    if (!br__check_target_shapes(op, input, target))
        return false;
    br_scope *scope = br_scope_begin();
    bool good = br__good_targets(op, target, input, input->sizes[br__class_dim(input)], ignore);
    br_scope_end(scope);
    return good;
}

br_tensor *br__along_classes(br_tensor *weight, const br_tensor *input)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < input->ndim; i++)
        sizes[i] = i == br__class_dim(input) ? -1 : 1;
    return br_reshape(weight, input->ndim, sizes);
}

/* Returns scale b w, which is subtracted from the gradient of every class. */
static br_tensor *spread_over_classes(const br_class_loss *s, br_tensor *scale, br_tensor *weight,
                                      const br_tensor *scores)
{
    double spread = s->smoothing / (double)scores->sizes[br__class_dim(scores)];
    scale = br_mul_scalar(scale, spread);
    return weight ? br_mul(scale, br__along_classes(weight, scores)) : scale;
}

br_tensor *br__class_gradient_composed(const br_class_loss *s, br_tensor *scores, br_tensor *target,
                                       br_tensor *weight, br_tensor *dy)
{
    if (br_failed())
        return NULL;
    int64_t dim = br__class_dim(scores);
    br_tensor *ignored = br__equals_integer(target, s->ignore);
    br_tensor *scale = br_expand_as(dy, target);
    if (s->mean)
        scale = br_div_scalar(scale, s->counted);
    scale = br_unsqueeze(br_masked_fill(scale, ignored, 0), dim);
    br_tensor *index = br_unsqueeze(br_masked_fill(target, ignored, 0), dim);
    br_tensor *own = br_mul_scalar(scale, 1 - s->smoothing);
    if (weight)
        own = br_mul(own, br_take(weight, index));
    double spread = s->smoothing / (double)scores->sizes[dim] * s->weight_sum;
    br_tensor *all = spread > 0 ? br_add(own, br_mul_scalar(scale, spread)) : own;
    br_tensor *onehot = br__index_add(own, index, &(br_index_selection){ (int)dim, false, -1 },
                                      scores->ndim, scores->sizes);
    br_tensor *dx = br_sub(br_mul(br_softmax(scores, dim), all), onehot);
    return spread > 0 ? br_sub(dx, spread_over_classes(s, scale, weight, scores)) : dx;
}
