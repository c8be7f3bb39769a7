/* autograd/anomaly.c - anomaly detection: finds the operation that produced the first NaN or
 * infinity.
 *
 * Results are checked when operations record them, and gradients when gradient functions return
 * them. An infinity that an operand already had (in a mask, for example) is not reported. A NaN is
 * always reported, since it is never intended. */
#include "autograd/anomaly.h"

#include <math.h>
#include <string.h>

br_anomaly br_set_detect_anomaly(br_anomaly mode)
{
    br_anomaly before = (br_anomaly)br__tape.anomaly;
    if (mode < BR_ANOMALY_OFF || mode > BR_ANOMALY_NONFINITE)
        br_fail(BR_ERROR_ARGUMENT, "set_detect_anomaly", "mode %d is not a value of br_anomaly",
                (int)mode);
    else
        br__tape.anomaly = (int)mode;
    return before;
}

/* ---- Checking values ------------------------------------------------------------------------- */

unsigned br__anomaly_of(const br_tensor *t)
{
    if (!t || !br_is_floating(t))
        return 0;
    const br_backend *backend = BR_BACKEND("detect_anomaly", t, nonfinite);
    BR_TRAFFIC(t);
    return backend ? backend->nonfinite(t) : 0;
}

/* Returns the bits that the current mode checks for. */
static unsigned detected_kinds(void)
{
    return br__tape.anomaly == BR_ANOMALY_NAN ? BR_HAS_NAN : BR_HAS_NAN | BR_HAS_INFINITY;
}

/* Formats the first anomaly of t as "nan at [0, 2]": the first NaN if `bits` has BR_HAS_NAN, else
 * the first infinity. */
static const char *first_of(const br_tensor *t, unsigned bits, char *buffer, size_t size)
{
    int64_t index[BR_MAX_DIMS] = { 0 };
    for (int64_t i = 0; i < t->numel; i++) {
        double x = br_at(t, t->ndim, index);
        if (bits & BR_HAS_NAN ? isnan(x) : isinf(x)) {
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

/* Returns true if anomalies `new_anomalies` in a result must be reported when its operands had
 * `before`. */
static bool is_new(unsigned new_anomalies, unsigned before)
{
    return new_anomalies & BR_HAS_NAN || (new_anomalies && !before);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Returns true if an infinity was passed to the operation as a scalar, which is intended: masks are
 * filled with it. */
static bool from_scalar_argument(const br_op *op)
{
    const char *by = br__tape.nonfinite_op;
    if (!by || strcmp(by, op->name) != 0)
        return false;
    br__tape.nonfinite_op = NULL;
    return true;
}

bool br__anomaly_forward(const br_op *op, const br_tensor *output, int n_inputs,
                         br_tensor *const *inputs)
{
    char element[128];
    if (!output || br_failed() || br__tape.gradient_node)
        return !br_failed();
    unsigned new_anomalies = br__anomaly_of(output) & detected_kinds(), before = 0;
    bool intended = from_scalar_argument(op);
    if (!new_anomalies || intended)
        return !br_failed();
    int from = -1;
    for (int i = 0; i < n_inputs; i++) {
        unsigned has = inputs[i] == output ? 0 : br__anomaly_of(inputs[i]);
        before |= has;
        from = from < 0 && has & BR_HAS_NAN ? i : from;
    }
    if (!is_new(new_anomalies, before))
        return true;
    first_of(output, new_anomalies, element, sizeof element);
    if (from >= 0)
        br_fail(BR_ERROR_ANOMALY, op->name,
                "the result %s has %s: input %d %s already had a NaN that no earlier operation "
                "produced",
                br__shape(output), element, from, br__shape(inputs[from]));
    else
        br_fail(BR_ERROR_ANOMALY, op->name, "the result %s has %s, and no input has one",
                br__shape(output), element);
    return false;
}

/* ---- Backward -------------------------------------------------------------------------------- */

void br__anomaly_set_location(br_node *node)
{
    const br_node *of = br__tape.gradient_node;
    char path[256];
    if (of)
        node->location =
            br_format("in the gradient of %s, %s", of->op->name, of->location ? of->location : "");
    else if (br__current_module_path(path, sizeof path))
        node->location = br_format("in module %s", path[0] ? path : "(root)");
    else
        node->location = br_strdup("outside of any module");
}

/* Returns the anomalies in the gradients of the outputs. */
static unsigned in_inputs(const br_node *node)
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
        if (!dx[i] || !br_needs_input_grad(node, i))
            continue;
        unsigned new_anomalies = br__anomaly_of(dx[i]) & detected_kinds();
        unsigned before = new_anomalies ? in_inputs(node) : 0;
        if (!is_new(new_anomalies, before))
            continue;
        br_fail(BR_ERROR_ANOMALY, node->op->name,
                "the gradient with respect to input %d %s has %s%s; forward ran %s", i,
                br__shape(dx[i]), first_of(dx[i], new_anomalies, element, sizeof element),
                before & BR_HAS_NAN ? ", which the gradient of the result already had" : "",
                node->location ? node->location : "while anomaly detection was off");
    }
    return !br_failed();
}

bool br__anomaly_sum(const br_tensor *sum, unsigned parts)
{
    char element[128];
    unsigned new_anomalies = br__anomaly_of(sum) & detected_kinds();
    if (!new_anomalies || (new_anomalies & parts) == new_anomalies)
        return !br_failed();
    br_fail(BR_ERROR_ANOMALY, "backward", "a sum of gradients %s has %s, and no summand has one",
            br__shape(sum), first_of(sum, new_anomalies, element, sizeof element));
    return false;
}
