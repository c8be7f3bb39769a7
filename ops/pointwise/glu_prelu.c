/* ops/pointwise/glu_prelu.c - activations that depend on the dimensions of x: glu halves one, and
 * the weights of prelu belong to channels. */
#include "ops/autocast.h"
#include "ops/ops_internal.h"
#include "ops/pointwise/widen.h"

br_tensor *br_glu(br_tensor *x, int64_t dim)
{
    BR_OP("glu");
    if (!br__floating("glu", "x", x) || !br__wrap_dim("glu", "dim", x, &dim))
        return NULL;
    if (x->ndim == 0 || x->sizes[dim] % 2)
        return br_fail(BR_ERROR_SHAPE, "glu", "x %s: the size of dimension %d must be even",
                       br__shape(x), (int)dim);
    br_scope *scope = br_scope_begin();
    br_tensor *half[2] = { NULL };
    br_split(x, x->sizes[dim] / 2 + (x->sizes[dim] == 0), dim, 2, half);
    return br__composed(scope, br_mul(half[0], br_sigmoid(half[half[1] ? 1 : 0])));
}

/* Elements that a product does not need are set to 0 first, because a gradient of 0 times an
 * infinite x or slope would be NaN. */
static void prelu_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0), *slope = br_saved(node, 1);
    BR_WIDEN(&x, &slope, &dy);
    br_tensor *above = br_gt_scalar(x, 0);
    if (br_needs_input_grad(node, 0))
        dx[0] = br_where(above, dy, br_mul(br_masked_fill(dy, above, 0), slope));
    if (br_needs_input_grad(node, 1))
        dx[1] = br_mul(dy, br_masked_fill(x, above, 0));
}

static const br__function_2 prelu_function = { { "prelu", prelu_backward, false },
                                               BR_POINTWISE(prelu) };

br_tensor *br_f_prelu(br_tensor *x, br_tensor *weight)
{
    BR_OP("prelu");
    BR_AUTOCAST(br_f_prelu(LOWER(x), LOWER(weight)))
    if (!br__floating("prelu", "x", x) || !br__compatible("prelu", "x", x, "weight", weight))
        return NULL;
    int64_t channels = x->ndim > 1 ? x->sizes[1] : 1;
    if (weight->ndim > 1 || (weight->numel != 1 && weight->numel != channels))
        return br_fail(
            BR_ERROR_SHAPE, "prelu",
            "weight %s for x %s: must have one element, or one for each channel (dimension 1 of x)",
            br__shape(weight), br__shape(x));
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++)
        sizes[i] = i == 1 ? weight->numel : 1;
    br_scope *scope = br_scope_begin();
    br_tensor *slope =
        x->ndim > 1 ? br_reshape(weight, x->ndim, sizes) : br_reshape(weight, BR_SCALAR);
    return br__composed(scope, br__apply_function_2(&prelu_function, x, slope));
}
