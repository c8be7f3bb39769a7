/* ops/loss/linear_cross_entropy.c - cross entropy of the scores of a linear layer, which can be
 * computed for a chunk of the rows at a time.
 *
 * The scores of n rows and their gradient have n x classes elements each: in a language model, far
 * more than anything else. So a chunk's scores are overwritten by their gradient, which is
 * multiplied into the gradients of the operands, and the next chunk uses the same memory. If the
 * losses are reduced, forward does all this, since it needs only a factor that backward can apply
 * afterwards: the node saves the gradients, and nothing is computed twice. Without a reduction each
 * row has a factor of its own, so backward computes the scores again. */
#include "autograd/tape.h"
#include "ops/autocast.h"
#include "ops/loss/class_loss.h"
#include "ops/quantized.h"
#include "tensor/min_max.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_linear_cross_entropy)

static const char op[] = "linear_cross_entropy";

enum {
    /* Elements of a chunk's scores if the caller does not choose the number of rows. Chunks of at
     * least MIN_ROWS rows cost little: each reads the weight and adds to its gradient once, and
     * products do that once for every few hundred rows anyway. */
    CHUNK_ELEMENTS = 1 << 26,
    MIN_ROWS = 256,
    /* The same for a quantized weight, which takes little memory, so that scores should, too. It is
     * read, and has no gradient that would be added up. */
    QUANTIZED_ELEMENTS = 1 << 24,
    QUANTIZED_ROWS = 64,
};

enum { INPUT, WEIGHT, BIAS, N_INPUTS };                /* inputs of the node, and saved values */
enum { TARGET = N_INPUTS, CLASS_WEIGHT, DERIVATIVES }; /* saved values, the last for each input */

typedef struct settings {
    br_class_loss loss;
    br_reduction reduction;
    int64_t chunk; /* rows */
} settings;

/* Operands, or their gradients; NULL: none. input [n, in_features], weight [classes, in_features],
 * bias [classes]. */
typedef struct operands {
    br_tensor *of[N_INPUTS];
} operands;

/* ---- The work -------------------------------------------------------------------------------- */

static br_linear_cross_entropy_tensors work_of(const operands *o, const br_tensor *target,
                                               const br_tensor *class_weight,
                                               const operands *gradients, int64_t chunk)
{
    br_tensor *const *d = gradients->of;
    return (br_linear_cross_entropy_tensors){ .chunk = chunk,
                                              .input = o->of[INPUT],
                                              .weight = o->of[WEIGHT],
                                              .bias = o->of[BIAS],
                                              .target = target,
                                              .class_weight = class_weight,
                                              .dinput = d[INPUT],
                                              .dweight = d[WEIGHT],
                                              .dbias = d[BIAS] };
}

/* Reports the work to the profiler. Scores are written once and read once. Their gradient is
 * computed in their place, and read once for each operand. */
static void count_work(const br_linear_cross_entropy_tensors *w)
{
    const int64_t scores = w->target->numel * w->weight->sizes[0];
    const int input = w->dinput != NULL, weight = w->dweight != NULL, bias = w->dbias != NULL;
    const int passes = w->dy ? 4 + input + weight + bias : 2;
    br__thread.events->work(2 * scores * w->weight->sizes[1] * (1 + input + weight),
                            scores * passes * (int64_t)br__dtype_size(w->input->dtype));
    BR_TRAFFIC(w->input, w->weight, w->bias, w->target, w->losses, w->dinput, w->dweight, w->dbias);
}

/* Returns memory for the gradient with respect to operand i. */
static br_tensor *new_gradient(const operands *o, int i)
{
    return br__new_like(op, o->of[i], o->of[i]->dtype);
}

static int64_t chunk_rows(const br_linear_cross_entropy_options *o, int64_t rows,
                          const br_tensor *weight)
{
    if (o->batch_chunk_size > 0)
        return br__min(o->batch_chunk_size, rows);
    const bool quantized = br__is_quantized(weight);
    const int64_t classes = weight->sizes[0];
    int64_t most = classes > 0 ? (quantized ? QUANTIZED_ELEMENTS : CHUNK_ELEMENTS) / classes : rows;
    most = br__max(most, quantized ? QUANTIZED_ROWS : MIN_ROWS);
    int64_t chunks = (rows + most - 1) / most;
    return chunks > 0 ? (rows + chunks - 1) / chunks : 0;
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* Multiplies the gradients that forward computed by that of the loss, which is 1 if the pass begins
 * here. */
static void scaled_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const bool is_one = br_item(dy) == 1;
    for (int i = 0; i < N_INPUTS; i++) {
        br_tensor *d = br_needs_input_grad(node, i) ? br__take_saved(node, DERIVATIVES + i) : NULL;
        if (!d)
            continue;
        if (!br_may_overwrite(d))
            dx[i] = br_mul(d, dy);
        else
            dx[i] = is_one ? d : br_mul_(d, dy);
    }
}

/* Computes losses and gradients again, now that dy is known. */
static void chunked_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const settings *s = br_params(node);
    br_tensor *target = br_saved(node, TARGET), *class_weight = br_saved(node, CLASS_WEIGHT);
    operands o = { { br_saved(node, INPUT), br_saved(node, WEIGHT), br_saved(node, BIAS) } };
    operands gradients = { 0 };
    dy = br_contiguous(dy);
    const br_backend *backend = br_failed() ? NULL : BR_BACKEND(op, dy, linear_cross_entropy);
    if (!backend)
        return;
    for (int i = 0; i < N_INPUTS; i++)
        if (br_needs_input_grad(node, i))
            gradients.of[i] = new_gradient(&o, i);
    br_tensor *losses = br_empty_like(dy);
    if (br_failed())
        return;
    br_linear_cross_entropy_tensors work = work_of(&o, target, class_weight, &gradients, s->chunk);
    work.losses = losses;
    work.dy = dy;
    if (BR_PROFILING)
        count_work(&work);
    br_class_loss loss = s->loss;
    if (backend->linear_cross_entropy(op, &loss, &work))
        for (int i = 0; i < N_INPUTS; i++)
            dx[i] = gradients.of[i];
}

/* Computes the gradients by recorded operations, from all scores at once. */
static void composed_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const settings *s = br_params(node);
    br_tensor *x = br_saved(node, INPUT), *weight = br__dequantized(br_saved(node, WEIGHT));
    br_tensor *scores = br_f_linear(x, weight, br_saved(node, BIAS));
    br_tensor *dscores = br__class_gradient_composed(&s->loss, scores, br_saved(node, TARGET),
                                                     br_saved(node, CLASS_WEIGHT), dy);
    if (br_needs_input_grad(node, INPUT))
        dx[INPUT] = br_matmul(dscores, weight);
    if (br_needs_input_grad(node, WEIGHT))
        dx[WEIGHT] = br_matmul(br_t(dscores), x);
    if (br_needs_input_grad(node, BIAS))
        dx[BIAS] = br_sum_dim(dscores, BR_DIMS(0), false);
}

static void backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const settings *s = br_params(node);
    if (br_grad_enabled())
        composed_backward(node, dy, dx);
    else if (s->reduction == BR_REDUCTION_NONE)
        chunked_backward(node, dy, dx);
    else
        scaled_backward(node, dy, dx);
}

static const br_op linear_cross_entropy_op = { .name = op, .backward = backward };

/* ---- Forward --------------------------------------------------------------------------------- */

/* Creates the gradients that forward computes: those of operands that require grad, if the losses
 * are reduced. */
static operands new_gradients(const operands *o, br_reduction reduction)
{
    operands gradients = { 0 };
    if (br_grad_enabled() && reduction != BR_REDUCTION_NONE)
        for (int i = 0; i < N_INPUTS; i++)
            if (o->of[i] && br_requires_grad(o->of[i]))
                gradients.of[i] = new_gradient(o, i);
    return gradients;
}

/* Returns the loss and sets s->loss to what its gradient needs. */
static br_tensor *forward(const operands *o, br_tensor *target, const br_tensor *class_weight,
                          settings *s, const operands *gradients)
{
    const br_dtype dtype = o->of[INPUT]->dtype;
    const br_backend *backend = BR_BACKEND(op, o->of[INPUT], linear_cross_entropy);
    if (!backend ||
        !br__good_targets(op, target, o->of[INPUT], br_size(o->of[WEIGHT], 0), s->loss.ignore))
        return NULL;
    br_linear_cross_entropy_tensors work = work_of(o, target, class_weight, gradients, s->chunk);
    work.rounds_to = br_autocast_dtype();
    br_tensor *losses = br__new_on(op, o->of[INPUT], 1, target->sizes, dtype);
    work.losses = losses;
    br_tensor *reduced =
        s->reduction == BR_REDUCTION_NONE ? NULL : br__new_on(op, o->of[INPUT], BR_SCALAR, dtype);
    work.reduced = reduced;
    if (work.dinput || work.dweight || work.dbias)
        work.dy = br_new_ones(losses, BR_SCALAR, dtype);
    if (br_failed())
        return NULL;
    if (BR_PROFILING)
        count_work(&work);
    if (!backend->linear_cross_entropy(op, &s->loss, &work))
        return NULL;
    return reduced ? reduced : losses;
}

/* The loss in chunks, for an input of two dimensions. */
static br_tensor *in_chunks(br_tensor *input, br_tensor *weight, br_tensor *target,
                            const br_linear_cross_entropy_options *options)
{
    settings s = { { .ignore = options->ignore_index,
                     .mean = options->reduction == BR_REDUCTION_MEAN,
                     .smoothing = options->label_smoothing },
                   options->reduction,
                   chunk_rows(options, br_size(target, 0), weight) };
    const operands o = { { input, weight, options->linear_bias } };
    br_tensor *dense = br_contiguous(target);
    br_tensor *class_weight = options->weight ? br_contiguous(options->weight) : NULL;
    operands gradients = new_gradients(&o, s.reduction);
    br_tensor *y = br_failed() ? NULL : forward(&o, dense, class_weight, &s, &gradients);
    br_node *node = br_record(&linear_cross_entropy_op, y, N_INPUTS, o.of, &s, sizeof s);
    for (int i = 0; i < N_INPUTS; i++) {
        br_save(node, i, o.of[i]);
        br_save(node, DERIVATIVES + i, gradients.of[i]);
    }
    br_save(node, TARGET, dense);
    br_save(node, CLASS_WEIGHT, class_weight);
    return y;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_bias(const br_tensor *input, const br_tensor *weight, const br_tensor *bias)
{
    if (!bias)
        return true;
    if (!br__compatible(op, "input", input, "linear_bias", bias))
        return false;
    bool fits = bias->ndim == weight->ndim - 1;
    for (int i = 0; fits && i < bias->ndim; i++)
        fits = bias->sizes[i] == weight->sizes[i];
    if (!fits)
        br_fail(BR_ERROR_SHAPE, op,
                "linear_bias %s must have the sizes of linear_weight %s without the last",
                br__shape(bias), br__shape(weight));
    return fits;
}

static bool check_operands(const br_tensor *input, const br_tensor *weight, const br_tensor *bias)
{
    if (!br__floating(op, "input", input) ||
        !br__fits_weight(op, "input", input, "linear_weight", weight))
        return false;
    if (input->ndim != 1 && input->ndim != 2) {
        br_fail(BR_ERROR_SHAPE, op,
                "input %s must be [in_features] or [n, in_features]: flatten the other dimensions, "
                "and those of the target",
                br__shape(input));
        return false;
    }
    if (weight->ndim < 2 || (weight->ndim > 2 && input->ndim == 1) ||
        weight->sizes[weight->ndim - 1] != input->sizes[input->ndim - 1]) {
        br_fail(BR_ERROR_SHAPE, op,
                "linear_weight %s for input %s must be [classes, in_features], or, if the input "
                "has two dimensions, [classes, d..., in_features]",
                br__shape(weight), br__shape(input));
        return false;
    }
    return check_bias(input, weight, bias);
}

/* The sizes of the scores: [n, classes, d...], or [classes] for an input of one dimension. */
typedef struct shape {
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
} shape;

static shape scores_shape(const br_tensor *input, const br_tensor *weight)
{
    shape s = { .ndim = 0 };
    if (input->ndim == 2)
        s.sizes[s.ndim++] = input->sizes[0];
    for (int i = 0; i < weight->ndim - 1; i++)
        s.sizes[s.ndim++] = weight->sizes[i];
    return s;
}

/* Returns whether the target has the sizes of the scores, without those of the classes if it holds
 * classes. */
static bool target_fits(const br_tensor *target, const shape *scores, bool has_classes)
{
    const int class_dim = scores->ndim == 1 ? 0 : 1;
    if (target->ndim != scores->ndim - has_classes)
        return false;
    for (int i = 0; i < target->ndim; i++)
        if (target->sizes[i] != scores->sizes[has_classes && i >= class_dim ? i + 1 : i])
            return false;
    return true;
}

static bool check_target(const br_tensor *input, const br_tensor *weight, const br_tensor *target)
{
    const shape scores = scores_shape(input, weight);
    const bool probabilities = br_is_floating(target);
    if (probabilities ? !br__compatible(op, "input", input, "target", target)
                      : !br__has_dtype(op, "target", target, BR_I64))
        return false;
    if (target_fits(target, &scores, !probabilities))
        return true;
    br_fail(BR_ERROR_SHAPE, op, "target %s for input %s and linear_weight %s must be %s",
            br__shape(target), br__shape(input), br__shape(weight),
            probabilities
                ? "[n, classes, d...], or [classes] for an input of one dimension, because "
                  "it holds probabilities; convert classes with br_to(target, BR_I64)"
                : "[n, d...], or [] for an input of one dimension, because it holds "
                  "classes");
    return false;
}

static bool check_options(const br_tensor *weight, const br_tensor *target,
                          const br_linear_cross_entropy_options *o)
{
    const br_tensor *of_classes = o->weight;
    if (br_is_floating(target) &&
        o->ignore_index != br_linear_cross_entropy_defaults().ignore_index)
        br_fail(BR_ERROR_ARGUMENT, op,
                "ignore_index is %" PRId64
                ", but the target holds probabilities, of which none can "
                "be ignored: leave ignore_index out",
                o->ignore_index);
    else if (o->batch_chunk_size < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "batch_chunk_size is %" PRId64 ", must be at least 0",
                o->batch_chunk_size);
    else if (o->batch_chunk_size > 0 && !o->chunked)
        br_fail(BR_ERROR_ARGUMENT, op,
                "batch_chunk_size is %" PRId64 ", but chunked is false: set both",
                o->batch_chunk_size);
    else if (of_classes && br__fits_weight(op, "weight", of_classes, "linear_weight", weight) &&
             (of_classes->ndim != 1 || of_classes->sizes[0] != weight->sizes[0]))
        br_fail(BR_ERROR_SHAPE, op,
                "weight %s for linear_weight %s: must have one element for each class",
                br__shape(of_classes), br__shape(weight));
    return !br_failed() && br__check_reduction(op, o->reduction) &&
           br__check_label_smoothing(op, o->label_smoothing);
}

/* ---- linear_cross_entropy -------------------------------------------------------------------- */

/* The loss from all scores at once. */
static br_tensor *at_once(br_tensor *input, br_tensor *weight, br_tensor *target,
                          const br_linear_cross_entropy_options *o)
{
    const shape want = scores_shape(input, weight);
    br_tensor *matrix = weight->ndim == 2 ? weight : br_flatten(weight, 0, -2);
    br_tensor *bias = o->linear_bias ? br_flatten(o->linear_bias, 0, -1) : NULL;
    br_tensor *scores = br_reshape(br_f_linear(input, matrix, bias), want.ndim, want.sizes);
    if (br_failed() ||
        (!br_is_floating(target) && !br__check_targets(op, scores, target, o->ignore_index)))
        return NULL;
    return br_cross_entropy(scores, target,
                            BR_OPTIONS(br_cross_entropy, .reduction = o->reduction,
                                       .ignore_index = o->ignore_index, .weight = o->weight,
                                       .label_smoothing = o->label_smoothing));
}

/* The same for an input of one dimension in chunks: it is one row. */
static br_tensor *of_one_row(br_tensor *input, br_tensor *weight, br_tensor *target,
                             const br_linear_cross_entropy_options *o)
{
    br_tensor *y = in_chunks(br_unsqueeze(input, 0), weight, br_unsqueeze(target, 0), o);
    return o->reduction == BR_REDUCTION_NONE ? br_squeeze(y, 0) : y;
}

/* Returns whether the variant in chunks can compute this loss. */
static bool has_chunks(const br_tensor *weight, const br_tensor *target,
                       const br_linear_cross_entropy_options *o)
{
    return o->chunked && weight->ndim == 2 && !br_is_floating(target) &&
           !(br_grad_enabled() && br_requires_grad(o->weight));
}

static br_tensor *loss_of(br_tensor *input, br_tensor *linear_weight, br_tensor *target,
                          const br_linear_cross_entropy_options *o)
{
    if (!br__required(op, "input", input) ||
        !br__required_any(op, "linear_weight", linear_weight) ||
        !br__required(op, "target", target) ||
        !check_operands(input, linear_weight, o->linear_bias) ||
        !check_target(input, linear_weight, target) || !check_options(linear_weight, target, o))
        return NULL;
    br_tensor *(*variant)(br_tensor * input, br_tensor * weight, br_tensor * target,
                          const br_linear_cross_entropy_options *o) =
        !has_chunks(linear_weight, target, o) ? at_once
        : input->ndim == 1                    ? of_one_row
                                              : in_chunks;
    return variant(input, linear_weight, target, o);
}

/* In a region of mixed precision, the products round their operands, and all else is f32: chunks of
 * scores take little memory. */
br_tensor *br_linear_cross_entropy(br_tensor *input, br_tensor *linear_weight, br_tensor *target,
                                   const br_linear_cross_entropy_options *options)
{
    BR_OP(op);
    BR_IF_BYTE_TARGET(target, br_linear_cross_entropy(input, linear_weight, target, options))
    br_linear_cross_entropy_options o = *BR_OPTIONS_OF(op, br_linear_cross_entropy, options);
    br_scope *scope = br_scope_begin();
    if (br__casts(br__thread.autocast)) {
        input = br__raised(input);
        linear_weight = br__raised(linear_weight);
        o.linear_bias = br__raised(o.linear_bias);
    }
    return br__composed(scope, loss_of(input, linear_weight, target, &o));
}
