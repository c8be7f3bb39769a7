/* backends/cpu/recurrent/recurrent.c - recurrent layers over a whole sequence.
 *
 * A step consists of the product of the state and the weight, and a kernel for the cell, in
 * parallel over rows. The gradient processes the steps in reverse. The gradient of the weight is
 * one product over all steps, because the gradients of all gates are contiguous. */
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/pointwise/for_each.h"
#include "backends/cpu/recurrent/recurrent_internal.h"
#include "tensor/min_max.h"

/* A call and its sizes. */
typedef struct layer {
    const br_recurrent_tensors *t;
    int64_t steps, rows, size, gates; /* gates: number of gates * H */
    br_dtype dtype;
    int64_t bytes; /* size of an element */
} layer;

static layer layer_of(const br_recurrent_tensors *t)
{
    return (layer){ .t = t,
                    .steps = t->gi->sizes[0],
                    .rows = t->gi->sizes[1],
                    .size = t->weight->sizes[1],
                    .gates = t->weight->sizes[0],
                    .dtype = t->gi->dtype,
                    .bytes = (int64_t)br__dtype_size(t->gi->dtype) };
}

/* Returns the position of step i in the sequence. */
static int64_t place(const layer *a, int64_t i)
{
    return a->t->reverse ? a->steps - 1 - i : i;
}

/* Returns the rows of a step in a tensor [L, N, width]; NULL if t is NULL. */
static void *at(const layer *a, const br_tensor *t, int64_t step, int64_t width)
{
    return t ? t->data + step * a->rows * width * a->bytes : NULL;
}

/* Returns the state before step i: h from the states, or c from the cells. */
static void *before(const layer *a, const br_tensor *first, const br_tensor *states, int64_t i)
{
    return i == 0 ? br__element(first, 0) : at(a, states, place(a, i - 1), a->size);
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
    w.rows = br__min(w.rows - first, j->per_task);
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
    j.all.kind = a->t->kind;
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
                                .b = a->t->weight->data,
                                .b_row = 1,
                                .b_col = a->size,
                                .c = gh->data,
                                .c_row = a->gates,
                                .bias = br__element(a->t->bias, 0) });
}

static bool run_forward(const layer *a, const br_tensor *gh)
{
    const br_recurrent_tensors *t = a->t;
    for (int64_t i = 0; i < a->steps; i++) {
        const int64_t step = place(a, i);
        const void *h = before(a, t->h0, t->y, i);
        if (!gates_of_state(a, h, gh))
            return false;
        run_step(a,
                 &(br_recurrent_work){ .gi = at(a, t->gi, step, a->gates),
                                       .gh = gh->data,
                                       .h = h,
                                       .c = before(a, t->c0, t->cells, i),
                                       .out = at(a, t->y, step, a->size),
                                       .c_out = at(a, t->cells, step, a->size),
                                       .kept = at(a, t->kept, step, 4 * a->size) },
                 false);
    }
    return true;
}

bool br__cpu_recurrent(const br_recurrent_tensors *work)
{
    const layer a = layer_of(work);
    br_scope *scope = br_scope_begin();
    br_tensor *gh = br__new_on_host("recurrent", BR_SHAPE(a.rows, a.gates), a.dtype);
    const bool ok = gh && run_forward(&a, gh);
    br_scope_end(scope);
    return ok;
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* Adds the gradient of a step's state to dh. */
static void add_step(const br_tensor *dh, const br_tensor *dy, int64_t step)
{
    br_tensor now = br__window(dy);
    br__window_slice(&now, 0, step, 1, 1);
    now.ndim = 2;
    for (int d = 0; d < 2; d++) {
        now.sizes[d] = dy->sizes[d + 1];
        now.strides[d] = dy->strides[d + 1];
    }
    br__cpu_pointwise(BR_POINTWISE(add), 3, (const br_tensor *[]){ dh, dh, &now }, NULL);
}

/* Computes the gradients with respect to the gates and to the previous states: dh += dgh weight. */
static bool run_backward(const layer *a)
{
    const br_recurrent_tensors *t = a->t;
    for (int64_t i = a->steps - 1; i >= 0; i--) {
        const int64_t step = place(a, i);
        if (t->dy)
            add_step(t->dh, t->dy, step);
        run_step(a,
                 &(br_recurrent_work){ .h = before(a, t->h0, t->y, i),
                                       .c = before(a, t->c0, t->cells, i),
                                       .out = at(a, t->y, step, a->size),
                                       .c_out = at(a, t->cells, step, a->size),
                                       .kept = at(a, t->kept, step, 4 * a->size),
                                       .dh = t->dh->data,
                                       .dc = br__element(t->dc, 0),
                                       .dgi = at(a, t->dgi, step, a->gates),
                                       .dgh = at(a, t->dgh, step, a->gates) },
                 true);
        if (!br__gemm(&(br_gemm){ .dtype = a->dtype,
                                  .m = a->rows,
                                  .n = a->size,
                                  .k = a->gates,
                                  .a = at(a, t->dgh, step, a->gates),
                                  .a_row = a->gates,
                                  .a_col = 1,
                                  .b = t->weight->data,
                                  .b_row = a->size,
                                  .b_col = 1,
                                  .c = t->dh->data,
                                  .c_row = a->size,
                                  .accumulate = t->kind == BR_GRU }))
            return false;
    }
    return true;
}

/* Computes dweight, the sum over steps of dgh^T h. This is one product over all steps, except that
 * the first step, whose previous state is h0, has its own. */
static bool weight_gradient(const layer *a)
{
    const br_recurrent_tensors *t = a->t;
    const int64_t first = place(a, 0), rest = t->reverse ? 0 : 1, states = t->reverse ? 1 : 0;
    br_gemm g = { .dtype = a->dtype,
                  .m = a->gates,
                  .n = a->size,
                  .k = a->rows,
                  .a = at(a, t->dgh, first, a->gates),
                  .a_row = 1,
                  .a_col = a->gates,
                  .b = t->h0->data,
                  .b_row = a->size,
                  .b_col = 1,
                  .c = t->dweight->data,
                  .c_row = a->size,
                  .accumulate = true };
    if (!br__gemm(&g))
        return false;
    g.k = (a->steps - 1) * a->rows;
    g.a = at(a, t->dgh, rest, a->gates);
    g.b = at(a, t->y, states, a->size);
    return g.k == 0 || br__gemm(&g);
}

bool br__cpu_recurrent_grad(const br_recurrent_tensors *work)
{
    const layer a = layer_of(work);
    return run_backward(&a) && (!work->dweight || weight_gradient(&a));
}
