/* ops/composed.c - second-order gradients of fused operations.
 *
 * A fused gradient is computed by kernels, which autograd cannot differentiate. If it must be
 * differentiated again, the composition is run on detached inputs, which are leaves of a separate
 * graph, and differentiated there. The result is recorded as one operation on the inputs and dy.
 * This way no graph is traversed while another traversal of it is in progress. */
#include "ops/composed_internal.h"

#include <string.h>

enum { MAX_VALUES = BR_COMPOSED_INPUTS + BR_COMPOSED_OUTPUTS };

typedef struct plan {
    br_composition compose;
    int n_inputs, n_outputs;
    bool needed[BR_COMPOSED_INPUTS]; /* inputs whose gradients this operation returns */
    _Alignas(16) unsigned char params[BR_COMPOSED_PARAMS];
} plan;

/* Detaches the values and makes floating-point ones require grad; NULL stays NULL. */
static void make_leaves(int n, br_tensor *const *values, br_tensor **leaves)
{
    for (int i = 0; i < n; i++) {
        leaves[i] = values[i] ? br_detach(values[i]) : NULL;
        if (leaves[i] && br_is_floating(leaves[i]))
            br_set_requires_grad(leaves[i], true);
    }
}

/* Runs the composition on the first n_inputs leaves and differentiates it; the other leaves are dy.
 * For each wanted input i, sets dx[i] to its gradient, or to NULL if no output depends on it. */
static void differentiate(const plan *p, br_tensor *const *leaves, bool create_graph,
                          br_tensor **dx)
{
    br_tensor *outputs[BR_COMPOSED_OUTPUTS] = { NULL }, *with[BR_COMPOSED_OUTPUTS];
    br_tensor *by[BR_COMPOSED_INPUTS], *gradients[BR_COMPOSED_OUTPUTS], *found[BR_COMPOSED_INPUTS];
    int n = 0, needed = 0;
    p->compose(leaves, p->params, outputs);
    for (int k = 0; k < p->n_outputs; k++) {
        if (!leaves[p->n_inputs + k] || !outputs[k])
            continue;
        with[n] = outputs[k];
        gradients[n++] = leaves[p->n_inputs + k];
    }
    for (int i = 0; i < p->n_inputs; i++)
        if (p->needed[i])
            by[needed++] = leaves[i];
    if (br_failed() || n == 0 || needed == 0)
        return;
    const br_grad_options *options = BR_OPTIONS(br_grad, .gradients = gradients,
                                                .create_graph = create_graph, .allow_unused = true);
    br_grad(n, with, needed, by, found, options);
    for (int i = 0, k = 0; i < p->n_inputs && !br_failed(); i++)
        dx[i] = p->needed[i] ? found[k++] : NULL;
}

/* Saved values: the inputs, then dy. Output k is the gradient with respect to the k-th wanted
 * input. */
static void again_backward(br_node *node, br_tensor *ddx0, br_tensor **d)
{
    const plan *p = br_params(node);
    br_tensor *values[MAX_VALUES] = { NULL }, *leaves[MAX_VALUES],
              *dx[BR_COMPOSED_INPUTS] = { NULL };
    br_tensor *grads_made[BR_COMPOSED_INPUTS], *gradients[BR_COMPOSED_INPUTS], *by[MAX_VALUES],
        *found[MAX_VALUES];
    int n = p->n_inputs + p->n_outputs, n_made = 0, n_by = 0;
    for (int i = 0; i < n; i++)
        values[i] = br_saved(node, i);
    br_scope *scope = br_enable_grad_begin();
    make_leaves(n, values, leaves);
    differentiate(p, leaves, true, dx);
    for (int i = 0, output = 0; i < p->n_inputs; i++) {
        br_tensor *ddx = !p->needed[i] ? NULL : output == 0 ? ddx0 : br_output_grad(node, output);
        output += p->needed[i];
        if (!ddx || !dx[i] || !br_requires_grad(dx[i]))
            continue;
        grads_made[n_made] = dx[i];
        gradients[n_made++] = ddx;
    }
    for (int i = 0; i < n; i++)
        if (br_needs_input_grad(node, i) && leaves[i])
            by[n_by++] = leaves[i];
    const br_grad_options *options =
        BR_OPTIONS(br_grad, .gradients = gradients, .allow_unused = true);
    if (!br_failed() && n_made > 0 && n_by > 0)
        br_grad(n_made, grads_made, n_by, by, found, options);
    for (int i = 0, k = 0; i < n && n_made > 0 && !br_failed(); i++)
        if (br_needs_input_grad(node, i) && leaves[i])
            d[i] = br_scope_return(scope, found[k++]);
    br_scope_end(scope);
}

static const br_op composed_op = { .name = "composed_backward",
                                   .backward = again_backward,
                                   .first_order_only = true };

/* Records the node with the first wanted gradient as its output, and adds the others as further
 * outputs. */
static void record(const plan *p, br_tensor *const *values, br_tensor **dx)
{
    br_node *recorded = NULL;
    bool first = true;
    for (int i = 0; i < p->n_inputs; i++) {
        if (!p->needed[i])
            continue;
        if (first)
            recorded =
                br_record(&composed_op, dx[i], p->n_inputs + p->n_outputs, values, p, sizeof *p);
        else
            br_record_output(recorded, dx[i]);
        first = false;
    }
    for (int i = 0; i < p->n_inputs + p->n_outputs; i++)
        br_save(recorded, i, values[i]);
}

void br__composed_backward(br_node *node, br_composition compose, int n_inputs,
                           br_tensor *const *inputs, int n_outputs, br_tensor *const *dy,
                           const void *params, size_t params_size, br_tensor **dx)
{
    plan p = { .compose = compose, .n_inputs = n_inputs, .n_outputs = n_outputs };
    br_tensor *values[MAX_VALUES], *leaves[MAX_VALUES];
    memcpy(p.params, params, params_size);
    memcpy(values, inputs, (size_t)n_inputs * sizeof *inputs);
    memcpy(values + n_inputs, dy, (size_t)n_outputs * sizeof *dy);
    br_scope *scope = br_enable_grad_begin();
    make_leaves(n_inputs + n_outputs, values, leaves);
    for (int i = 0; i < n_inputs; i++)
        p.needed[i] = inputs[i] && br_needs_input_grad(node, i);
    differentiate(&p, leaves, false, dx);
    /* Every wanted input needs an output; it is zeros if nothing depends on the input. */
    for (int i = 0; i < n_inputs && !br_failed(); i++)
        if (p.needed[i])
            dx[i] = br_scope_return(scope, dx[i] ? dx[i] : br_zeros_like(inputs[i]));
    br_scope_end(scope);
    if (!br_failed())
        record(&p, values, dx);
}
