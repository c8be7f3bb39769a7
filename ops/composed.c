/* ops/composed.c - second-order gradients of fused operations.
 *
 * A fused gradient is made of kernels that the tape does not see. Where it is to be differentiated
 * again, the composition is run on copies of the inputs that are leaves of a graph of their own,
 * and differentiated there; the result is recorded as one operation of inputs and dy. So no graph
 * is walked while a walk of it is under way. */
#include "ops/composed_internal.h"

#include <string.h>

enum { MOST = BR_COMPOSED_INPUTS + BR_COMPOSED_OUTPUTS };

typedef struct plan {
    br_composition compose;
    int n_inputs, n_outputs;
    bool wanted[BR_COMPOSED_INPUTS]; /* their gradients are this operation's outputs */
    _Alignas(16) unsigned char params[BR_COMPOSED_PARAMS];
} plan;

/* Values without a history that ask for gradients; NULL stays NULL. */
static void make_leaves(int n, br_tensor *const *values, br_tensor **leaves)
{
    for (int i = 0; i < n; i++) {
        leaves[i] = values[i] ? br_detach(values[i]) : NULL;
        if (leaves[i] && br_is_floating(leaves[i]))
            br_set_requires_grad(leaves[i], true);
    }
}

/* The gradients of the composition of leaves[0 ..], into those of dx[] that are wanted; dy follows
 * the inputs. Those that nothing depends on are NULL. */
static void differentiate(const plan *p, br_tensor *const *leaves, bool create_graph,
                          br_tensor **dx)
{
    br_tensor *outputs[BR_COMPOSED_OUTPUTS] = { NULL }, *with[BR_COMPOSED_OUTPUTS];
    br_tensor *by[BR_COMPOSED_INPUTS], *gradients[BR_COMPOSED_OUTPUTS], *found[BR_COMPOSED_INPUTS];
    int n = 0, wanted = 0;
    p->compose(leaves, p->params, outputs);
    for (int k = 0; k < p->n_outputs; k++) {
        if (!leaves[p->n_inputs + k] || !outputs[k])
            continue;
        with[n] = outputs[k];
        gradients[n++] = leaves[p->n_inputs + k];
    }
    for (int i = 0; i < p->n_inputs; i++)
        if (p->wanted[i])
            by[wanted++] = leaves[i];
    if (br_failed() || n == 0 || wanted == 0)
        return;
    br_grad_options options = { .gradients = gradients,
                                .create_graph = create_graph,
                                .allow_unused = true };
    br_grad(n, with, wanted, by, found, &options);
    for (int i = 0, k = 0; i < p->n_inputs && !br_failed(); i++)
        dx[i] = p->wanted[i] ? found[k++] : NULL;
}

/* Saved: the inputs, then dy. Output k is the gradient by the k-th wanted input. */
static void again_backward(br_node *node, br_tensor *ddx0, br_tensor **d)
{
    const plan *p = br_params(node);
    br_tensor *values[MOST] = { NULL }, *leaves[MOST], *dx[BR_COMPOSED_INPUTS] = { NULL };
    br_tensor *made[BR_COMPOSED_INPUTS], *gradients[BR_COMPOSED_INPUTS], *by[MOST], *found[MOST];
    int n = p->n_inputs + p->n_outputs, n_made = 0, n_by = 0;
    for (int i = 0; i < n; i++)
        values[i] = br_saved(node, i);
    br_scope *scope = br_enable_grad_begin();
    make_leaves(n, values, leaves);
    differentiate(p, leaves, true, dx);
    for (int i = 0, output = 0; i < p->n_inputs; i++) {
        br_tensor *ddx = !p->wanted[i] ? NULL : output == 0 ? ddx0 : br_output_grad(node, output);
        output += p->wanted[i];
        if (!ddx || !dx[i] || !br_requires_grad(dx[i]))
            continue;
        made[n_made] = dx[i];
        gradients[n_made++] = ddx;
    }
    for (int i = 0; i < n; i++)
        if (br_wants(node, i) && leaves[i])
            by[n_by++] = leaves[i];
    br_grad_options options = { .gradients = gradients, .allow_unused = true };
    if (!br_failed() && n_made > 0 && n_by > 0)
        br_grad(n_made, made, n_by, by, found, &options);
    for (int i = 0, k = 0; i < n && n_made > 0 && !br_failed(); i++)
        if (br_wants(node, i) && leaves[i])
            d[i] = br_scope_return(scope, found[k++]);
    br_scope_end(scope);
}

static const br_op composed_op = { .name = "composed_backward",
                                   .backward = again_backward,
                                   .first_order_only = true };

/* The first output becomes the node's, the others are added to it. */
static void record(const plan *p, br_tensor *const *values, br_tensor **dx)
{
    br_node *recorded = NULL;
    bool first = true;
    for (int i = 0; i < p->n_inputs; i++) {
        if (!p->wanted[i])
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
    br_tensor *values[MOST], *leaves[MOST];
    memcpy(p.params, params, params_size);
    memcpy(values, inputs, (size_t)n_inputs * sizeof *inputs);
    memcpy(values + n_inputs, dy, (size_t)n_outputs * sizeof *dy);
    br_scope *scope = br_enable_grad_begin();
    make_leaves(n_inputs + n_outputs, values, leaves);
    for (int i = 0; i < n_inputs; i++)
        p.wanted[i] = inputs[i] && br_wants(node, i);
    differentiate(&p, leaves, false, dx);
    /* Each wanted input has its output, if only of zeros. */
    for (int i = 0; i < n_inputs && !br_failed(); i++)
        if (p.wanted[i])
            dx[i] = br_scope_return(scope, dx[i] ? dx[i] : br_zeros_like(inputs[i]));
    br_scope_end(scope);
    if (!br_failed())
        record(&p, values, dx);
}
