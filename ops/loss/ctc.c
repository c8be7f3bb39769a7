/* ops/loss/ctc.c - connectionist temporal classification.
 *
 * Between the targets, and before and after them, a blank is allowed: b t1 b t2 b. The sum over all
 * paths through these L = 2 S + 1 states is computed step by step from the logarithms of the
 * probabilities, as a composition. A path that does not exist has IMPOSSIBLE instead of -infinity,
 * whose gradient would be NaN. */
#include "ops/index/index_internal.h"
#include "ops/loss/loss_internal.h"

#include <inttypes.h>
#include <math.h>

#define IMPOSSIBLE (-1e30)

/* The arguments with a batch, in one form. */
typedef struct batch {
    const char *op;
    br_tensor *log_probs;                      /* [T, N, C] */
    br_tensor *input_lengths, *target_lengths; /* i64 [N] */
    br_tensor *states;                         /* i64 [N, L]: the classes of the states */
    int64_t steps, n, classes, longest;
} batch;

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_lengths(const batch *b, const char *name, br_tensor *lengths, int64_t most)
{
    if (!br__same_device(b->op, "log_probs", b->log_probs, name, lengths) ||
        !br__has_dtype(b->op, name, lengths, BR_I64))
        return false;
    if (lengths->ndim > 1 || lengths->numel != b->n) {
        br_fail(BR_ERROR_SHAPE, b->op, "%s %s must have shape [%" PRId64 "] for log_probs %s", name,
                br__shape(lengths), b->n, br__shape(b->log_probs));
        return false;
    }
    const int64_t *length = br__host_i64(lengths);
    for (int64_t i = 0; length && i < b->n; i++)
        if (length[i] < 0 || length[i] > most) {
            br_fail(BR_ERROR_ARGUMENT, b->op,
                    "%s of item %" PRId64 " is %" PRId64 ", must be in 0 .. %" PRId64, name, i,
                    length[i], most);
            return false;
        }
    return !br_failed();
}

/* Sets the classes of the states: blanks at even places, and the targets at odd ones. */
static bool set_states(batch *b, br_tensor *targets, int64_t blank)
{
    const bool joined = targets->ndim < 2 && !(b->n == 1 && targets->ndim == 1);
    const int64_t width = joined ? 0 : targets->sizes[targets->ndim - 1];
    const int64_t *length = br__host_i64(b->target_lengths), *target = br__host_i64(targets);
    int64_t *state = NULL, at = 0;
    for (int64_t i = 0; length && i < b->n; i++)
        b->longest = length[i] > b->longest ? length[i] : b->longest;
    const int64_t states = 2 * b->longest + 1;
    br_tensor *made =
        length && target ? br__new_host_i64(b->op, BR_SHAPE(b->n, states), &state) : NULL;
    for (int64_t i = 0; made && i < b->n; i++) {
        const int64_t from = joined ? at : i * width;
        if (from + length[i] > targets->numel || (!joined && length[i] > width)) {
            br_fail(BR_ERROR_SHAPE, b->op,
                    "targets %s have fewer elements than target_lengths say: item %" PRId64
                    " has %" PRId64,
                    br__shape(targets), i, length[i]);
            return false;
        }
        for (int64_t s = 0; s < states; s++)
            state[i * states + s] = s % 2 == 1 && s / 2 < length[i] ? target[from + s / 2] : blank;
        at += length[i];
    }
    b->states = made ? br__placed(b->op, br__backend_of(b->log_probs), made) : NULL;
    return b->states != NULL;
}

static bool check(batch *b, br_tensor *targets, int64_t blank)
{
    if (!br__same_device(b->op, "log_probs", b->log_probs, "targets", targets) ||
        !br__has_dtype(b->op, "targets", targets, BR_I64))
        return false;
    if (targets->ndim > 2 || (targets->ndim == 2 && targets->sizes[0] != b->n)) {
        br_fail(BR_ERROR_SHAPE, b->op,
                "targets %s for log_probs %s: must be 1-d, or [%" PRId64 ", length]",
                br__shape(targets), br__shape(b->log_probs), b->n);
        return false;
    }
    if (blank < 0 || blank >= b->classes) {
        br_fail(BR_ERROR_ARGUMENT, b->op,
                "blank is %" PRId64 ", must be in 0 .. %" PRId64 " for log_probs %s", blank,
                b->classes - 1, br__shape(b->log_probs));
        return false;
    }
    return check_lengths(b, "input_lengths", b->input_lengths, b->steps) &&
           check_lengths(b, "target_lengths", b->target_lengths, targets->numel) &&
           br__check_index(b->op, targets, b->log_probs, 2) && set_states(b, targets, blank);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

/* Returns alpha moved by a number of states, with IMPOSSIBLE in the first ones. */
static br_tensor *moved(br_tensor *alpha, int64_t by)
{
    return br_narrow(br_pad(alpha, BR_DIMS(by, 0), BR_PAD_CONSTANT, IMPOSSIBLE), 1, 0,
                     br_size(alpha, 1));
}

/* Returns true where a path may skip the state before: between different targets. */
static br_tensor *may_skip(const batch *b, int64_t blank)
{
    br_tensor *before = br_narrow(br_pad(b->states, BR_DIMS(2, 0), BR_PAD_CONSTANT, (double)blank),
                                  1, 0, br_size(b->states, 1));
    br_tensor *place = br_new_arange(b->states, 0, (double)br_size(b->states, 1), 1, BR_I64);
    return br_logical_and(
        br_logical_and(br_ne(b->states, before), br_ne_scalar(b->states, (double)blank)),
        br_ge_scalar(place, 2));
}

/* Returns log of the probability of all paths that end in each state after the last step, [N, L].
 */
static br_tensor *path_sums(const batch *b, int64_t blank)
{
    const int64_t states = br_size(b->states, 1);
    br_tensor *index = br_expand(br_unsqueeze(b->states, 0), BR_SHAPE(b->steps, b->n, states));
    br_tensor *log_probs = br_gather(b->log_probs, 2, index);
    br_tensor *skip = may_skip(b, blank);
    br_tensor *place = br_new_arange(b->states, 0, (double)states, 1, BR_I64);
    br_tensor *alpha =
        br_masked_fill(br_select(log_probs, 0, 0), br_ge_scalar(place, 2), IMPOSSIBLE);
    for (int64_t t = 1; t < b->steps && !br_failed(); t++) {
        br_tensor *skipped = br_masked_fill(moved(alpha, 2), br_logical_not(skip), IMPOSSIBLE);
        br_tensor *ways = br_stack(BR_INPUTS(alpha, moved(alpha, 1), skipped), 0);
        br_tensor *next = br_add(br_logsumexp(ways, BR_DIMS(0), false), br_select(log_probs, 0, t));
        br_tensor *runs = br_unsqueeze(br_gt_scalar(b->input_lengths, (double)t), 1);
        alpha = br_where(runs, br_clamp(next, IMPOSSIBLE, INFINITY), alpha);
    }
    return alpha;
}

/* Returns -log of the probability of the paths that end in the last target or the blank after it.
 */
static br_tensor *losses_of(const batch *b, int64_t blank)
{
    br_tensor *alpha = path_sums(b, blank);
    br_tensor *last = br_mul_scalar(b->target_lengths, 2);
    br_tensor *before = br_clamp(br_sub_scalar(last, 1), 0, (double)(2 * b->longest));
    br_tensor *ends = br_gather(alpha, 1, br_stack(BR_INPUTS(last, before), 1));
    br_tensor *place = br_new_arange(last, 0, 2, 1, BR_I64);
    br_tensor *none =
        br_logical_and(br_unsqueeze(br_eq_scalar(last, 0), 1), br_eq_scalar(place, 1));
    ends = br_masked_fill(ends, none, IMPOSSIBLE);
    return br_neg(br_logsumexp(ends, BR_DIMS(1), false));
}

/* PyTorch's gradient is that with respect to scores of which log_probs is the log softmax: it adds
 * the probabilities. Returns a tensor of zeros, [N], with this gradient. */
static br_tensor *softmax_part(const batch *b)
{
    br_tensor *p = br_exp(b->log_probs);
    br_tensor *step = br_unsqueeze(br_new_arange(b->states, 0, (double)b->steps, 1, BR_I64), 1);
    br_tensor *beyond = br_unsqueeze(br_ge(step, b->input_lengths), 2);
    br_tensor *zero = br_masked_fill(br_sub(p, br_detach(p)), beyond, 0);
    return br_sum_dim(zero, BR_DIMS(0, 2), false);
}

br_tensor *br_ctc_loss(br_tensor *log_probs, br_tensor *targets, br_tensor *input_lengths,
                       br_tensor *target_lengths, int64_t blank, br_reduction reduction,
                       bool zero_infinity)
{
    static const char op[] = "ctc_loss";
    BR_OP(op);
    if (!br__check_reduction(op, reduction) || !br__floating(op, "log_probs", log_probs) ||
        !br__required(op, "targets", targets) ||
        !br__required(op, "input_lengths", input_lengths) ||
        !br__required(op, "target_lengths", target_lengths))
        return NULL;
    if (log_probs->ndim != 3 && log_probs->ndim != 2)
        return br_fail(BR_ERROR_SHAPE, op,
                       "log_probs %s must have 3 dimensions, or 2 without batch",
                       br__shape(log_probs));
    const bool single = log_probs->ndim == 2;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&log_probs);
    batch b = { .op = op,
                .log_probs = single ? br_unsqueeze(log_probs, 1) : log_probs,
                .input_lengths = br_reshape(input_lengths, BR_SHAPE(-1)),
                .target_lengths = br_reshape(target_lengths, BR_SHAPE(-1)) };
    if (br_failed())
        return br__composed(scope, NULL);
    b.steps = b.log_probs->sizes[0];
    b.n = b.log_probs->sizes[1];
    b.classes = b.log_probs->sizes[2];
    if (b.steps == 0 || b.n == 0)
        br_fail(BR_ERROR_SHAPE, op, "log_probs %s must have steps and items", br__shape(log_probs));
    if (br_failed() || !check(&b, targets, blank))
        return br__composed(scope, NULL);
    br_tensor *losses = losses_of(&b, blank);
    br_tensor *infinite = br_gt_scalar(losses, -0.5 * IMPOSSIBLE);
    losses =
        br_masked_fill(br_add(losses, softmax_part(&b)), infinite, zero_infinity ? 0 : INFINITY);
    if (reduction == BR_REDUCTION_MEAN)
        losses = br_div(
            losses, br_to(br_clamp(b.target_lengths, 1, (double)INT32_MAX), br_dtype_of(losses)));
    if (single && reduction == BR_REDUCTION_NONE)
        losses = br_reshape(losses, BR_SCALAR);
    return br__finish_loss(op, scope, rounding, losses, reduction);
}
