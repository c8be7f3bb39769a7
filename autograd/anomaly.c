/* autograd/anomaly.c - the search for the operation that made the first NaN or infinity.
 *
 * Results are looked at where operations record them, gradients where the tape gets them from an
 * operation. What came in with an operand is not of the operation's making: an infinity in a mask
 * may go where it likes, but a NaN is told even so, as it never ends well. */
#include "autograd/anomaly.h"

#include <math.h>
#include <string.h>

enum { NANS = 1, INFINITIES = 2 };

br_anomaly br_set_detect_anomaly(br_anomaly mode)
{
    br_anomaly before = (br_anomaly)br__thread.anomaly;
    if (mode < BR_ANOMALY_OFF || mode > BR_ANOMALY_NONFINITE)
        br__fail(BR_ERROR_ARGUMENT, "set_detect_anomaly", "mode %d is none of br_anomaly",
                 (int)mode);
    else
        br__thread.anomaly = (int)mode;
    return before;
}

/* ---- Looking at values ----------------------------------------------------------------------- */

typedef struct finding {
    atomic_uint bits;
} finding;

static void find_f32(int64_t n, char *const *data, const int64_t *strides, const void *params)
{
    unsigned nans = 0, infinities = 0;
    for (int64_t k = 0; k < n; k++) {
        float x = *(const float *)(const void *)(data[0] + k * strides[0]);
        nans |= isnan(x) != 0;
        infinities |= isinf(x) != 0;
    }
    if (nans | infinities)
        atomic_fetch_or(&((finding *)(uintptr_t)params)->bits,
                        (nans ? NANS : 0) | (infinities ? INFINITIES : 0));
}

static void find_f64(int64_t n, char *const *data, const int64_t *strides, const void *params)
{
    unsigned nans = 0, infinities = 0;
    for (int64_t k = 0; k < n; k++) {
        double x = *(const double *)(const void *)(data[0] + k * strides[0]);
        nans |= isnan(x) != 0;
        infinities |= isinf(x) != 0;
    }
    if (nans | infinities)
        atomic_fetch_or(&((finding *)(uintptr_t)params)->bits,
                        (nans ? NANS : 0) | (infinities ? INFINITIES : 0));
}

unsigned br__anomaly_of(const br_tensor *t)
{
    finding found = { 0 };
    if (t && br_is_floating(t))
        br__for_each(1, &t, t->dtype == BR_F32 ? find_f32 : find_f64, &found);
    return atomic_load(&found.bits);
}

/* What the mode looks for. */
static unsigned wanted(void)
{
    return br__thread.anomaly == BR_ANOMALY_NAN ? NANS : NANS | INFINITIES;
}

/* "nan at [0, 2]": the first of t, a NaN if `bits` has any. */
static const char *first_of(const br_tensor *t, unsigned bits, char *buffer, size_t size)
{
    int64_t index[BR_MAX_DIMS] = { 0 };
    for (int64_t i = 0; i < t->numel; i++) {
        double x = br_at(t, t->ndim, index);
        if (bits & NANS ? isnan(x) : isinf(x)) {
            snprintf(buffer, size, "%s at %s",
                     isnan(x) ? "nan"
                     : x > 0  ? "inf"
                              : "-inf",
                     br__shape_of(t->ndim, index));
            return buffer;
        }
        for (int d = t->ndim - 1; d >= 0 && ++index[d] == t->sizes[d]; d--)
            index[d] = 0;
    }
    return "";
}

/* Whether `made` is to be told, where the operands had `before`. */
static bool is_new(unsigned made, unsigned before)
{
    return made & NANS || (made && !before);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* An infinity that was given as a scalar is wanted: masks are filled so. */
static bool was_given(const br_op *op)
{
    const char *by = br__thread.given;
    if (!by || strcmp(by, op->name) != 0)
        return false;
    br__thread.given = NULL;
    return true;
}

bool br__anomaly_forward(const br_op *op, const br_tensor *output, int n_inputs,
                         br_tensor *const *inputs)
{
    char element[128];
    if (!output || br_failed() || br__thread.gradient_of)
        return !br_failed();
    unsigned made = br__anomaly_of(output) & wanted(), before = 0;
    if (!made || was_given(op))
        return true;
    int from = -1;
    for (int i = 0; i < n_inputs; i++) {
        unsigned has = inputs[i] == output ? 0 : br__anomaly_of(inputs[i]);
        before |= has;
        from = from < 0 && has & NANS ? i : from;
    }
    if (!is_new(made, before))
        return true;
    first_of(output, made, element, sizeof element);
    if (from >= 0)
        br__fail(BR_ERROR_ANOMALY, op->name,
                 "the result %s has %s: input %d %s came with NaN, which no operation before made",
                 br__shape(output), element, from, br__shape(inputs[from]));
    else
        br__fail(BR_ERROR_ANOMALY, op->name, "the result %s has %s, and no input has one",
                 br__shape(output), element);
    return false;
}

/* ---- Backward -------------------------------------------------------------------------------- */

void br__anomaly_place(br_node *node)
{
    const br_node *of = br__thread.gradient_of;
    char path[256];
    if (of)
        node->where =
            br__format("the gradient of %s, %s", of->op->name, of->where ? of->where : "");
    else if (br__where(path, sizeof path))
        node->where = br__format("module %s", path[0] ? path : "at the root");
    else
        node->where = br__strdup("outside of modules");
}

/* What the gradients by the outputs have. */
static unsigned came_in(const br_node *node)
{
    unsigned bits = 0;
    for (int i = 0; i < node->n_outputs; i++)
        bits |= br__anomaly_of(node->outputs[i].grad);
    return bits;
}

bool br__anomaly_backward(const br_node *node, br_tensor *const *dx)
{
    char element[128];
    for (int i = 0; i < node->n_inputs && !br_failed(); i++) {
        if (!dx[i] || !br_wants(node, i))
            continue;
        unsigned made = br__anomaly_of(dx[i]) & wanted();
        unsigned before = made ? came_in(node) : 0;
        if (!is_new(made, before))
            continue;
        br__fail(BR_ERROR_ANOMALY, node->op->name,
                 "the gradient by input %d %s has %s%s; forward ran %s", i, br__shape(dx[i]),
                 first_of(dx[i], made, element, sizeof element),
                 before & NANS ? ", which came with the gradient by the result" : "",
                 node->where ? node->where : "while anomalies were not looked for");
    }
    return !br_failed();
}

bool br__anomaly_sum(const br_tensor *sum, unsigned parts)
{
    char element[128];
    unsigned made = br__anomaly_of(sum) & wanted();
    if (!made || (made & parts) == made)
        return true;
    br__fail(BR_ERROR_ANOMALY, "backward", "a sum of gradients %s has %s, and no part has one",
             br__shape(sum), first_of(sum, made, element, sizeof element));
    return false;
}
