/* ops/recurrent/recurrent.c - recurrent layers: RNN, LSTM, GRU over a whole sequence in one
 * operation.
 *
 * The operation saves the inputs, the states, the cell states of an LSTM, and what the backend
 * keeps of each step: the gates after their activation functions. */
#include "ops/composed_internal.h"
#include "ops/recurrent/recurrent_internal.h"

enum { GI, H0, C0, WEIGHT, BIAS, INPUTS }; /* saved under the same numbers */
enum { SAVED_Y = INPUTS, SAVED_KEPT, SAVED_CELLS };

typedef struct settings {
    br_recurrent_kind kind;
    bool reverse;
} settings;

/* Describes a call. The inputs are contiguous. */
static br_recurrent_tensors work_of(const settings *s, br_tensor *const *in, const br_tensor *y,
                                    const br_tensor *kept, const br_tensor *cells)
{
    return (br_recurrent_tensors){ .kind = s->kind,
                                   .reverse = s->reverse,
                                   .gi = in[GI],
                                   .h0 = in[H0],
                                   .c0 = in[C0],
                                   .weight = in[WEIGHT],
                                   .bias = in[BIAS],
                                   .y = y,
                                   .kept = kept,
                                   .cells = cells };
}

/* Reports the products of all steps to the profile. */
static void count_products(const br_tensor *gi, const br_tensor *weight)
{
    BR_WORK(2 * gi->sizes[0] * gi->sizes[1] * weight->numel, 0);
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* Returns a contiguous copy of t that may be written to; zeros if t is NULL. */
static br_tensor *own_copy(const br_tensor *like, br_tensor *t)
{
    return t ? br_contiguous(br_clone(t)) : br_zeros_like(like);
}

static void fused_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *in[INPUTS];
    for (int i = 0; i < INPUTS; i++) {
        in[i] = br_saved(node, i);
        in[i] = in[i] ? br_contiguous(in[i]) : NULL;
    }
    const br_backend *backend =
        br_failed() ? NULL : BR_BACKEND("recurrent", in[GI], recurrent_grad);
    if (!backend)
        return;
    br_recurrent_tensors work = work_of(br_params(node), in, br_saved(node, SAVED_Y),
                                        br_saved(node, SAVED_KEPT), br_saved(node, SAVED_CELLS));
    br_tensor *dh = br_zeros_like(in[H0]);
    br_tensor *dc = in[C0] ? own_copy(in[C0], br_output_grad(node, 1)) : NULL;
    br_tensor *dgi = br_empty_like(in[GI]), *dgh = work.kind == BR_GRU ? br_empty_like(dgi) : dgi;
    br_tensor *dweight = br_needs_input_grad(node, WEIGHT) ? br_zeros_like(in[WEIGHT]) : NULL;
    if (br_failed())
        return;
    work.dy = dy, work.dh = dh, work.dc = dc;
    work.dgi = dgi, work.dgh = dgh, work.dweight = dweight;
    count_products(in[GI], in[WEIGHT]);
    BR_TRAFFIC(dy, in[WEIGHT], work.y, work.kept, dgi);
    if (!backend->recurrent_grad(&work))
        return;
    dx[GI] = dgi;
    dx[H0] = dh;
    dx[C0] = dc;
    dx[WEIGHT] = dweight;
    if (br_needs_input_grad(node, BIAS))
        dx[BIAS] = br_sum_dim(dgh, BR_DIMS(0, 1), false);
}

/* ---- Composition ----------------------------------------------------------------------------- */

static void compose(br_tensor *const *inputs, const void *params, br_tensor **outputs)
{
    const settings *s = params;
    br_recurrent_steps steps = { .kind = s->kind,
                                 .reverse = s->reverse,
                                 .gi = inputs[GI],
                                 .h = inputs[H0],
                                 .c = inputs[C0],
                                 .weight = inputs[WEIGHT],
                                 .bias = inputs[BIAS] };
    outputs[0] = br__recurrent_steps(&steps);
    outputs[1] = steps.c;
}

static void recurrent_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (!br_grad_enabled()) {
        fused_backward(node, dy, dx);
        return;
    }
    br_tensor *in[INPUTS], *by[] = { dy, br_output_grad(node, 1) };
    for (int i = 0; i < INPUTS; i++)
        in[i] = br_saved(node, i);
    br__composed_backward(node, compose, INPUTS, in, 2, by, br_params(node), sizeof(settings), dx);
}

/* ---- The operation --------------------------------------------------------------------------- */

static const br_op recurrent_op = { .name = "recurrent", .backward = recurrent_backward };

br_tensor *br__recurrent(br_recurrent_kind kind, bool reverse, br_tensor *gi, br_tensor *h0,
                         br_tensor *c0, br_tensor *weight, br_tensor *bias, br_tensor **c_n)
{
    BR_OP(recurrent_op.name);
    const br_backend *backend = br_failed() ? NULL : BR_BACKEND(recurrent_op.name, gi, recurrent);
    if (!backend)
        return NULL;
    settings s = { kind, reverse };
    br_tensor *y = br__new_on("recurrent", gi,
                              BR_SHAPE(gi->sizes[0], gi->sizes[1], weight->sizes[1]), gi->dtype);
    br_tensor *last = c0 ? br__new_on("recurrent", c0, c0->ndim, c0->sizes, c0->dtype) : NULL;
    br_scope *scope = br_scope_begin();
    int64_t wide = br__kept_of(kind) * weight->sizes[1];
    br_tensor *kept = wide ? br__new_on("recurrent", gi, BR_SHAPE(gi->sizes[0], gi->sizes[1], wide),
                                        br__computed(gi->dtype))
                           : NULL;
    br_tensor *cells = c0 && y ? br_empty_like(y) : NULL;
    br_scope *unrecorded = br_no_grad_begin();
    br_tensor *in[] = { gi, h0, c0, weight, bias };
    for (int i = 0; i < INPUTS; i++)
        in[i] = in[i] ? br_contiguous(in[i]) : NULL;
    if (!br_failed() && y->numel > 0) {
        const br_recurrent_tensors work = work_of(&s, in, y, kept, cells);
        count_products(in[GI], in[WEIGHT]);
        BR_TRAFFIC(in[GI], in[WEIGHT], y, kept);
        if (backend->recurrent(&work) && last)
            br_copy_(last, br_select(cells, 0, reverse ? 0 : y->sizes[0] - 1));
    }
    br_scope_end(unrecorded);
    br_node *node = br_record(&recurrent_op, y, BR_INPUTS(gi, h0, c0, weight, bias), &s, sizeof s);
    if (last)
        br_record_output(node, last);
    br_tensor *save[] = { gi, h0, c0, weight, bias, y, kept, cells };
    for (int i = 0; i < 8; i++)
        br_save(node, i, save[i]);
    br_scope_end(scope);
    if (c_n)
        *c_n = br_failed() ? NULL : last;
    return br_failed() ? NULL : y;
}
