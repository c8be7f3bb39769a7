/* ops/recurrent/recurrent_steps.c - a recurrent layer composed of operations, step by step. It
 * serves to test the fused version, computes its second-order gradients, and supports what the
 * fused version does not: projected states and sequences of different lengths. */
#include "ops/recurrent/recurrent_internal.h"

/* Returns gate k. */
static br_tensor *gate(br_tensor *gates, int64_t size, int64_t k)
{
    return br_narrow(gates, -1, k * size, size);
}

static br_tensor *lstm_step(br_tensor *gates, int64_t size, br_tensor **c)
{
    br_tensor *i = br_sigmoid(gate(gates, size, 0)), *f = br_sigmoid(gate(gates, size, 1));
    br_tensor *g = br_tanh(gate(gates, size, 2)), *o = br_sigmoid(gate(gates, size, 3));
    *c = br_add(br_mul(f, *c), br_mul(i, g));
    return br_mul(o, br_tanh(*c));
}

static br_tensor *gru_step(br_tensor *gi, br_tensor *gh, int64_t size, br_tensor *h)
{
    br_tensor *r = br_sigmoid(br_add(gate(gi, size, 0), gate(gh, size, 0)));
    br_tensor *z = br_sigmoid(br_add(gate(gi, size, 1), gate(gh, size, 1)));
    br_tensor *m = br_tanh(br_add(gate(gi, size, 2), br_mul(r, gate(gh, size, 2))));
    return br_add(m, br_mul(z, br_sub(h, m)));
}

/* Returns the state after a step from s->h. For an LSTM the new cell state is written to *c. */
static br_tensor *step_from(const br_recurrent_steps *s, br_tensor *gi, br_tensor **c)
{
    br_tensor *gh = br_f_linear(s->h, s->weight, s->bias);
    int64_t size = br_size(gh, -1) / br__gates_of(s->kind);
    if (s->kind == BR_GRU)
        return gru_step(gi, gh, size, s->h);
    if (s->kind == BR_LSTM) {
        br_tensor *h = lstm_step(br_add(gi, gh), size, c);
        return s->projection ? br_f_linear(h, s->projection, NULL) : h;
    }
    return s->kind == BR_RNN_RELU ? br_relu(br_add(gi, gh)) : br_tanh(br_add(gi, gh));
}

/* Returns the results of step t and updates the states. Sequences without this step keep their
 * state. */
static br_tensor *step(br_recurrent_steps *s, int64_t t)
{
    br_tensor *c = s->c, *h = step_from(s, br_select(s->gi, 0, t), &c), *row = h;
    if (s->valid) {
        br_tensor *valid = br_select(s->valid, 0, t);
        row = br_masked_fill(h, br_logical_not(valid), 0);
        h = br_where(valid, h, s->h);
        c = c ? br_where(valid, c, s->c) : NULL;
    }
    s->h = h;
    s->c = c;
    return row;
}

br_tensor *br__recurrent_steps(br_recurrent_steps *s)
{
    int64_t n = br_size(s->gi, 0);
    br_tensor **rows = br_failed() ? NULL : br_calloc((size_t)n, sizeof *rows);
    if (!rows)
        return NULL;
    for (int64_t i = 0; i < n && !br_failed(); i++) {
        int64_t t = s->reverse ? n - 1 - i : i;
        rows[t] = step(s, t);
    }
    br_tensor *y = br_failed() ? NULL : br_stack((int)n, rows, 0);
    br_free(rows);
    return y;
}
