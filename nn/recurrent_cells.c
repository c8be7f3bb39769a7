/* nn/recurrent_cells.c - RNNCell, LSTMCell and GRUCell: one step of a recurrent layer. */
#include "nn/nn_internal.h"
#include "ops/recurrent/recurrent_internal.h"

#include <math.h>

/* Returns the name that errors begin with. */
static const char *name_of(const br_rnn_cell *self)
{
    return self->kind == BR_LSTM ? "lstm_cell" : self->kind == BR_GRU ? "gru_cell" : "rnn_cell";
}

/* ---- Construction ---------------------------------------------------------------------------- */

static br_tensor *add_parameter(br_rnn_cell *self, const char *name, int ndim, const int64_t *sizes)
{
    br_tensor *t = br_failed() ? NULL : br__new(name_of(self), ndim, sizes, BR_F32);
    return br_parameter(self, name, t);
}

static void add_parameters(br_rnn_cell *self, bool bias)
{
    int64_t gates = br__gates_of((br_recurrent_kind)self->kind) * self->hidden_size;
    self->weight_ih = add_parameter(self, "weight_ih", BR_SHAPE(gates, self->input_size));
    self->weight_hh = add_parameter(self, "weight_hh", BR_SHAPE(gates, self->hidden_size));
    if (bias) {
        self->bias_ih = add_parameter(self, "bias_ih", BR_SHAPE(gates));
        self->bias_hh = add_parameter(self, "bias_hh", BR_SHAPE(gates));
    }
    double bound = 1 / sqrt((double)self->hidden_size);
    br_tensor *all[] = { self->weight_ih, self->weight_hh, self->bias_ih, self->bias_hh };
    for (int i = 0; i < (bias ? 4 : 2) && !br_failed(); i++)
        br_init_uniform_(all[i], -bound, bound);
}

static br_tensor *run_alone(void *module, br_tensor *x);

static br_rnn_cell *new_cell(const char *class_name, br_recurrent_kind kind, int64_t input_size,
                             int64_t hidden_size, bool bias)
{
    br_rnn_cell *self = br__layer_begin(sizeof *self, class_name, run_alone);
    self->kind = (int)kind;
    self->input_size = input_size;
    self->hidden_size = hidden_size;
    br_scope *scope = br_scope_begin();
    if (br__layer_size(name_of(self), "input_size", input_size, 1) &&
        br__layer_size(name_of(self), "hidden_size", hidden_size, 1))
        add_parameters(self, bias);
    br__layer_end(br_base(self), scope);
    return self;
}

br_rnn_cell *br_rnn_cell_new(int64_t input_size, int64_t hidden_size, bool bias, bool relu)
{
    return new_cell("RNNCell", relu ? BR_RNN_RELU : BR_RNN_TANH, input_size, hidden_size, bias);
}

br_rnn_cell *br_lstm_cell_new(int64_t input_size, int64_t hidden_size, bool bias)
{
    return new_cell("LSTMCell", BR_LSTM, input_size, hidden_size, bias);
}

br_rnn_cell *br_gru_cell_new(int64_t input_size, int64_t hidden_size, bool bias)
{
    return new_cell("GRUCell", BR_GRU, input_size, hidden_size, bias);
}

/* ---- Forward --------------------------------------------------------------------------------- */

static bool check_input(const br_rnn_cell *self, const br_tensor *x)
{
    const char *op = name_of(self);
    if (!br__floating(op, "input", x) ||
        !br__compatible(op, "input", x, "weight_hh", self->weight_hh))
        return false;
    if ((x->ndim != 1 && x->ndim != 2) || x->sizes[x->ndim - 1] != self->input_size)
        br_fail(BR_ERROR_SHAPE, op,
                "input %s must have 2 dimensions, or 1 without a batch, the last of size %lld",
                br__shape(x), (long long)self->input_size);
    return !br_failed();
}

/* Returns a state as [N, H], or zeros if the caller passed none. */
static br_tensor *initial_state(const br_rnn_cell *self, const char *name, br_tensor *state,
                                const br_tensor *x)
{
    int64_t sizes[] = { x->ndim == 2 ? x->sizes[0] : 1, self->hidden_size };
    if (!state)
        return br_new_zeros(x, 2, sizes, x->dtype);
    const char *op = name_of(self);
    if (!br__compatible(op, "input", x, name, state))
        return NULL;
    const int64_t *want = x->ndim == 2 ? sizes : sizes + 1;
    bool fits = state->ndim == x->ndim;
    for (int d = 0; fits && d < state->ndim; d++)
        fits = state->sizes[d] == want[d];
    if (!fits)
        return br_fail(BR_ERROR_SHAPE, op, "%s %s must be %s for input %s", name, br__shape(state),
                       br__shape_of(x->ndim, want), br__shape(x));
    return x->ndim == 2 ? state : br_unsqueeze(state, 0);
}

/* Returns the next state, a tensor of its own, which the caller may change in place. */
static br_tensor *next_state(br_tensor *t, const br_tensor *x)
{
    t = t && br_grad_enabled() ? br_clone(t) : t;
    return t && x->ndim == 1 ? br_squeeze(t, 0) : t;
}

static br_tensor *step(const br_rnn_cell *self, br_tensor *x, br_tensor *h, br_tensor *c,
                       br_tensor **c_next)
{
    if (c && self->kind != BR_LSTM)
        return br_fail(BR_ERROR_ARGUMENT, name_of(self),
                       "c is given, but only an LSTMCell has a cell state");
    if (!check_input(self, x))
        return NULL;
    h = initial_state(self, "h", h, x);
    c = self->kind == BR_LSTM ? initial_state(self, "c", c, x) : NULL;
    br_tensor *batch = x->ndim == 2 ? x : br_unsqueeze(x, 0);
    br_tensor *gi = br_unsqueeze(br_f_linear(batch, self->weight_ih, self->bias_ih), 0);
    if (br_failed())
        return NULL;
    br_tensor *bias = self->bias_hh && br_grad_enabled() ? br_clone(self->bias_hh) : self->bias_hh;
    br_tensor *last_c = NULL;
    br_tensor *y = br__recurrent((br_recurrent_kind)self->kind, false, gi, h, c, self->weight_hh,
                                 bias, &last_c);
    *c_next = next_state(last_c, x);
    return y ? next_state(br_select(y, 0, 0), x) : NULL;
}

static br_tensor *run_alone(void *module, br_tensor *x)
{
    br_tensor *c = NULL;
    return step(module, x, NULL, NULL, &c);
}

br_tensor *br_rnn_cell_forward(br_rnn_cell *self, br_tensor *input, br_tensor *h, br_tensor *c,
                               br_tensor **c_next)
{
    if (c_next)
        *c_next = NULL;
    br_enter_with(self, input);
    br_scope *scope = br__thread.scope; /* the module's; the cell state is moved out of it */
    br_tensor *last_c = NULL, *y = step(self, input, h, c, &last_c);
    if (c_next && last_c && !br_failed())
        *c_next = br_scope_return(scope, last_c);
    return br_leave(self, y);
}
