/* ops/loss/cross_entropy.c - cross_entropy of class indices, fused; backends/loss.h has the
 * formula. The operation saves the sums of the rows for its gradient. */
#include "ops/autocast.h"
#include "ops/loss/class_loss.h"

enum { INPUT, TARGET, SUMS, WEIGHT }; /* saved values; only the first is an input of the node */

/* ---- Rows of class scores -------------------------------------------------------------------- */

/* Returns input [n, c, d1, ...] contiguous with the classes last. This copies nothing if the memory
 * has that order already, as in a transpose of [n, d1, ..., c]. */
static br_tensor *classes_last(br_tensor *input)
{
    int64_t dims[BR_MAX_DIMS], from = br__class_dim(input);
    for (int i = 0; i < input->ndim; i++)
        dims[i] = i < from ? i : i == input->ndim - 1 ? from : i + 1;
    return br_contiguous(br_permute(input, input->ndim, dims));
}

/* The inverse: returns a view of the same memory as [n, c, d1, ...]. */
static br_tensor *classes_second(br_tensor *rows)
{
    int64_t dims[BR_MAX_DIMS], to = br__class_dim(rows);
    for (int i = 0; i < rows->ndim; i++)
        dims[i] = i < to ? i : i == to ? rows->ndim - 1 : i - 1;
    return br_permute(rows, rows->ndim, dims);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

static void fused_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const br_class_loss *s = br_params(node);
    br_tensor *input = br_saved(node, INPUT), *sums = br_saved(node, SUMS);
    br_tensor *target = br_saved(node, TARGET), *weight = br_saved(node, WEIGHT);
    const br_backend *backend =
        br_failed() ? NULL : BR_BACKEND("cross_entropy", input, cross_entropy_grad);
    br_tensor *rows = backend ? classes_last(input) : NULL;
    br_tensor *drows = rows ? br_empty_like(rows) : NULL;
    dy = br_contiguous(dy);
    if (!drows || !dy)
        return;
    BR_TRAFFIC(drows, rows, target, sums, dy);
    if (backend->cross_entropy_grad(s, &(br_cross_entropy_tensors){ .scores = rows,
                                                                    .target = target,
                                                                    .class_weight = weight,
                                                                    .sums = sums,
                                                                    .dy = dy,
                                                                    .dscores = drows }))
        dx[0] = classes_second(drows);
}

static void composed_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br__class_gradient_composed(br_params(node), br_saved(node, INPUT),
                                        br_saved(node, TARGET), br_saved(node, WEIGHT), dy);
}

static void cross_entropy_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (br_grad_enabled() ? composed_backward : fused_backward)(node, dy, dx);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Returns the loss and, in *sums, the sums of the rows for the gradient. Shapes and dtypes have
 * been checked. */
static br_tensor *forward(br_tensor *input, br_tensor *target, const br_tensor *weight,
                          br_reduction reduction, br_class_loss *s, br_tensor **sums)
{
    const char *op = "cross_entropy";
    const br_backend *backend = BR_BACKEND(op, input, cross_entropy);
    br_tensor *rows = backend ? classes_last(input) : NULL;
    br_tensor *losses = br_new_empty(input, target->ndim, target->sizes, input->dtype);
    *sums = br_new_empty(input, BR_SHAPE(target->numel, BR_CLASS_SUMS),
                         br__computed(br_dtype_of(input)));
    if (br_failed() || !br__good_targets(op, target, input, rows->sizes[rows->ndim - 1], s->ignore))
        return NULL;
    br_tensor *reduced =
        reduction == BR_REDUCTION_NONE ? NULL : br__new_on(op, input, BR_SCALAR, input->dtype);
    if (br_failed())
        return NULL;
    BR_TRAFFIC(rows, target, losses, *sums);
    if (!backend->cross_entropy(s, &(br_cross_entropy_tensors){ .scores = rows,
                                                                .target = target,
                                                                .class_weight = weight,
                                                                .losses = losses,
                                                                .reduced = reduced,
                                                                .sums = *sums }))
        return NULL;
    return reduced ? reduced : losses;
}

static const br_op cross_entropy_op = { .name = "cross_entropy",
                                        .backward = cross_entropy_backward };

br_tensor *br_cross_entropy(br_tensor *input, br_tensor *target,
                            const br_cross_entropy_options *options)
{
    BR_OP("cross_entropy");
    BR_AUTOCAST(br_cross_entropy(RAISE(input), RAISE(target), options))
    BR_IF_BYTE_TARGET(target, br_cross_entropy(input, target, options))
    const br_cross_entropy_options *o = BR_OPTIONS_OF("cross_entropy", br_cross_entropy, options);
    br_class_loss s = { .ignore = o->ignore_index,
                        .mean = o->reduction == BR_REDUCTION_MEAN,
                        .smoothing = o->label_smoothing };
    br_tensor *weight = o->weight;
    if (!br__required("cross_entropy", "input", input) ||
        !br__required("cross_entropy", "target", target) ||
        !br__check_reduction("cross_entropy", o->reduction))
        return NULL;
    if ((br_is_floating(target) && br_is_floating(input)) ||
        (br_grad_enabled() && br_requires_grad(weight)))
        return br__cross_entropy_composed(input, target, o);
    if (!br__check_target_shapes("cross_entropy", input, target) ||
        !br__check_class_options("cross_entropy", input, o))
        return NULL;
    br_scope *scope = br_scope_begin(), *unrecorded = br_no_grad_begin();
    br_tensor *dense = br_contiguous(target), *sums = NULL;
    weight = weight ? br_contiguous(weight) : NULL;
    br_tensor *y = br_failed() ? NULL : forward(input, dense, weight, o->reduction, &s, &sums);
    br_scope_return(unrecorded, sums);
    br_scope_return(unrecorded, dense);
    br_scope_return(unrecorded, weight);
    br_scope_return(unrecorded, y);
    br_scope_end(unrecorded);
    br_node *node = br_record(&cross_entropy_op, y, BR_INPUTS(input), &s, sizeof s);
    br_save(node, INPUT, input);
    br_save(node, TARGET, dense);
    br_save(node, SUMS, sums);
    br_save(node, WEIGHT, weight);
    br_scope_return(scope, y);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}
