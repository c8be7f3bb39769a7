/* ops/recurrent/recurrent.c - recurrent layers: RNN, LSTM, GRU over a whole sequence in one
 * operation.
 *
 * A step consists of the product of the state and the weight, and a kernel for the cell. The
 * gradient processes the steps in reverse. The gradient of the weight is one product over all
 * steps, because the gradients of all gates are contiguous. The operation saves the inputs, the
 * states, the gates after their activation functions, and the cell states of an LSTM. */
#include "ops/recurrent/recurrent_internal.h"

#include "backends/cpu/gemm/gemm.h"
#include "ops/composed_internal.h"

enum { GI, H0, C0, WEIGHT, BIAS, INPUTS }; /* saved under the same numbers */
enum { SAVED_Y = INPUTS, SAVED_KEPT, SAVED_CELLS };

typedef struct settings {
    br_recurrent_kind kind;
    bool reverse;
} settings;

/* The tensors of a call, which are contiguous, and its sizes. */
typedef struct layer {
    settings s;
    int64_t steps, rows, size, gates; /* gates: number of gates * H */
    br_dtype dtype;
    int64_t bytes; /* size of an element */
    const br_tensor *gi, *h0, *c0, *weight, *bias;
    const br_tensor *y, *kept, *cells;
} layer;

static layer layer_of(const settings *s, const br_tensor *gi, const br_tensor *h0,
                      const br_tensor *c0, const br_tensor *weight, const br_tensor *bias)
{
    return (layer){ .s = *s,
                    .steps = gi->sizes[0],
                    .rows = gi->sizes[1],
                    .size = weight->sizes[1],
                    .gates = weight->sizes[0],
                    .dtype = gi->dtype,
                    .bytes = (int64_t)br_dtype_size(gi->dtype),
                    .gi = gi,
                    .h0 = h0,
                    .c0 = c0,
                    .weight = weight,
                    .bias = bias };
}

/* Returns the position of step i in the sequence. */
static int64_t place(const layer *a, int64_t i)
{
    return a->s.reverse ? a->steps - 1 - i : i;
}

/* Returns the rows of a step in a tensor [L, N, width]; NULL if t is NULL. */
static void *at(const layer *a, const br_tensor *t, int64_t step, int64_t width)
{
    return t ? t->data + step * a->rows * width * a->bytes : NULL;
}

/* Returns the state before step i: h from the states, or c from the cells. */
static void *before(const layer *a, const br_tensor *first, const br_tensor *states, int64_t i)
{
    return i == 0 ? (first ? first->data : NULL) : at(a, states, place(a, i - 1), a->size);
}

/* ---- Parallel loop over the rows of a step --------------------------------------------------- */

typedef struct step_job {
    br_recurrent_work all;
    void (*kernel)(const br_recurrent_work *work);
    int64_t bytes, per_task;
} step_job;

static void run_rows(void *context, int64_t task)
{
    const step_job *j = context;
    br_recurrent_work w = j->all;
    int64_t first = task * j->per_task, state = first * w.size * j->bytes;
    int64_t gates = state * br__gates_of(w.kind), kept = state * br__kept_of(w.kind);
    w.rows = w.rows - first < j->per_task ? w.rows - first : j->per_task;
    w.gi = br__offset_pointer(w.gi, gates), w.gh = br__offset_pointer(w.gh, gates);
    w.dgi = br__offset_pointer(w.dgi, gates), w.dgh = br__offset_pointer(w.dgh, gates);
    w.h = br__offset_pointer(w.h, state), w.c = br__offset_pointer(w.c, state);
    w.out = br__offset_pointer(w.out, state), w.c_out = br__offset_pointer(w.c_out, state);
    w.dh = br__offset_pointer(w.dh, state), w.dc = br__offset_pointer(w.dc, state);
    w.kept = br__offset_pointer(w.kept, kept);
    j->kernel(&w);
}

static void run_step(const layer *a, const br_recurrent_work *work, bool gradient)
{
    enum { COST = 16 }; /* cost of an element's functions, in simple operations */
    const br_kernels *kernels = br__kernels_of(a->dtype);
    step_job j = { .all = *work,
                   .kernel = gradient ? kernels->recurrent_step_grad : kernels->recurrent_step,
                   .bytes = a->bytes,
                   .per_task = BR_GRAIN / (COST * a->size + 1) + 1 };
    j.all.kind = a->s.kind;
    j.all.rows = a->rows;
    j.all.size = a->size;
    br__parallel((a->rows + j.per_task - 1) / j.per_task, run_rows, &j);
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* Computes gh = h weight^T + bias. */
static bool gates_of_state(const layer *a, const void *h, const br_tensor *gh)
{
    return br__gemm(&(br_gemm){ .dtype = a->dtype,
                                .m = a->rows,
                                .n = a->gates,
                                .k = a->size,
                                .a = h,
                                .a_row = a->size,
                                .a_col = 1,
                                .b = a->weight->data,
                                .b_row = 1,
                                .b_col = a->size,
                                .c = gh->data,
                                .c_row = a->gates,
                                .bias = a->bias ? a->bias->data : NULL });
}

static void run_forward(const layer *a, const br_tensor *gh)
{
    bool ok = true;
    BR_WORK(2 * a->steps * a->rows * a->gates * a->size, 0);
    BR_TRAFFIC(a->gi, a->weight, a->y, a->kept);
    for (int64_t i = 0; ok && i < a->steps; i++) {
        int64_t t = place(a, i);
        const void *h = before(a, a->h0, a->y, i);
        ok = gates_of_state(a, h, gh);
        if (ok)
            run_step(a,
                     &(br_recurrent_work){ .gi = at(a, a->gi, t, a->gates),
                                           .gh = gh->data,
                                           .h = h,
                                           .c = before(a, a->c0, a->cells, i),
                                           .out = at(a, a->y, t, a->size),
                                           .c_out = at(a, a->cells, t, a->size),
                                           .kept = at(a, a->kept, t, 4 * a->size) },
                     false);
    }
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* Computes the gradients with respect to the gates and to the previous states: dh += dgh weight. */
static void run_backward(const layer *a, const br_tensor *dy, const br_tensor *dh,
                         const br_tensor *dc, const br_tensor *dgi, const br_tensor *dgh)
{
    bool ok = true;
    BR_WORK(2 * a->steps * a->rows * a->gates * a->size, 0);
    BR_TRAFFIC(dy, a->weight, a->y, a->kept, dgi);
    for (int64_t i = a->steps - 1; ok && i >= 0; i--) {
        int64_t t = place(a, i);
        if (dy) {
            br_tensor now = br__window(dy);
            br__window_slice(&now, 0, t, 1, 1);
            now.ndim = 2;
            for (int d = 0; d < 2; d++) {
                now.sizes[d] = dy->sizes[d + 1];
                now.strides[d] = dy->strides[d + 1];
            }
            br__pointwise(BR_POINTWISE(add), 3, (const br_tensor *[]){ dh, dh, &now }, NULL);
        }
        run_step(a,
                 &(br_recurrent_work){ .h = before(a, a->h0, a->y, i),
                                       .c = before(a, a->c0, a->cells, i),
                                       .out = at(a, a->y, t, a->size),
                                       .c_out = at(a, a->cells, t, a->size),
                                       .kept = at(a, a->kept, t, 4 * a->size),
                                       .dh = dh->data,
                                       .dc = dc ? dc->data : NULL,
                                       .dgi = at(a, dgi, t, a->gates),
                                       .dgh = at(a, dgh, t, a->gates) },
                 true);
        ok = br__gemm(&(br_gemm){ .dtype = a->dtype,
                                  .m = a->rows,
                                  .n = a->size,
                                  .k = a->gates,
                                  .a = at(a, dgh, t, a->gates),
                                  .a_row = a->gates,
                                  .a_col = 1,
                                  .b = a->weight->data,
                                  .b_row = a->size,
                                  .b_col = 1,
                                  .c = dh->data,
                                  .c_row = a->size,
                                  .accumulate = a->s.kind == BR_GRU });
    }
}

/* Computes dweight, the sum over steps of dgh^T h. This is one product over all steps, except that
 * the first step, whose previous state is h0, has its own. */
static br_tensor *weight_gradient(const layer *a, const br_tensor *dgh)
{
    br_tensor *dw = br_zeros(BR_SHAPE(a->gates, a->size), dgh->dtype);
    int64_t first = place(a, 0), rest = a->s.reverse ? 0 : 1, states = a->s.reverse ? 1 : 0;
    br_gemm g = { .dtype = a->dtype,
                  .m = a->gates,
                  .n = a->size,
                  .k = a->rows,
                  .a = at(a, dgh, first, a->gates),
                  .a_row = 1,
                  .a_col = a->gates,
                  .b = a->h0->data,
                  .b_row = a->size,
                  .b_col = 1,
                  .c = dw ? dw->data : NULL,
                  .c_row = a->size,
                  .accumulate = true };
    if (!dw || !br__gemm(&g))
        return NULL;
    g.k = (a->steps - 1) * a->rows;
    g.a = at(a, dgh, rest, a->gates);
    g.b = at(a, a->y, states, a->size);
    return g.k == 0 || br__gemm(&g) ? dw : NULL;
}

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
    if (br_failed())
        return;
    layer a = layer_of(br_params(node), in[GI], in[H0], in[C0], in[WEIGHT], in[BIAS]);
    a.y = br_saved(node, SAVED_Y);
    a.kept = br_saved(node, SAVED_KEPT);
    a.cells = br_saved(node, SAVED_CELLS);
    br_tensor *dh = br_zeros_like(in[H0]);
    br_tensor *dc = in[C0] ? own_copy(in[C0], br_output_grad(node, 1)) : NULL;
    br_tensor *dgi = br_empty_like(in[GI]), *dgh = a.s.kind == BR_GRU ? br_empty_like(dgi) : dgi;
    if (br_failed())
        return;
    run_backward(&a, dy, dh, dc, dgi, dgh);
    dx[GI] = dgi;
    dx[H0] = dh;
    dx[C0] = dc;
    if (br_needs_input_grad(node, WEIGHT))
        dx[WEIGHT] = weight_gradient(&a, dgh);
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
    if (br_failed())
        return NULL;
    settings s = { kind, reverse };
    br_tensor *y =
        br__new("recurrent", BR_SHAPE(gi->sizes[0], gi->sizes[1], weight->sizes[1]), gi->dtype);
    br_tensor *last = c0 ? br__new("recurrent", c0->ndim, c0->sizes, c0->dtype) : NULL;
    br_scope *scope = br_scope_begin();
    int64_t wide = br__kept_of(kind) * weight->sizes[1];
    br_tensor *kept =
        wide ? br__new("recurrent", BR_SHAPE(gi->sizes[0], gi->sizes[1], wide), gi->dtype) : NULL;
    br_tensor *cells = c0 && y ? br_empty_like(y) : NULL;
    br_scope *unrecorded = br_no_grad_begin();
    br_tensor *in[] = { gi, h0, c0, weight, bias };
    for (int i = 0; i < INPUTS; i++)
        in[i] = in[i] ? br_contiguous(in[i]) : NULL;
    br_tensor *gh = br__new("recurrent", BR_SHAPE(gi->sizes[1], weight->sizes[0]), gi->dtype);
    if (!br_failed() && y->numel > 0) {
        layer a = layer_of(&s, in[GI], in[H0], in[C0], in[WEIGHT], in[BIAS]);
        a.y = y, a.kept = kept, a.cells = cells;
        run_forward(&a, gh);
        if (last)
            br_copy_(last, br_select(cells, 0, place(&a, a.steps - 1)));
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
