/* nn/recurrent.c - RNN, LSTM and GRU: layers of recurrent cells in one or two directions.
 *
 * For each direction of a layer, the input's part of the gates is computed by one matrix product
 * over the whole sequence. The rest is one operation (ops/recurrent/recurrent.c), or is computed
 * one step at a time if states are projected or sequences have different lengths. */
#include "nn/nn_internal.h"
#include "ops/recurrent/recurrent_internal.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_rnn)

enum { WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH, WEIGHT_HR, PER_DIRECTION };

static int64_t directions(const br_rnn *self)
{
    return self->options.bidirectional ? 2 : 1;
}

/* Returns the size of the states. */
static int64_t state_size(const br_rnn *self)
{
    return self->options.proj_size > 0 ? self->options.proj_size : self->hidden_size;
}

/* Returns the name that errors begin with. */
static const char *name_of(const br_rnn *self)
{
    return self->kind == BR_LSTM ? "lstm" : self->kind == BR_GRU ? "gru" : "rnn";
}

/* Returns the parameters of one direction of a layer; biases and weight_hr may be NULL. */
static br_tensor **parameters(const br_rnn *self, int64_t layer, int64_t direction)
{
    return self->weights + (layer * directions(self) + direction) * PER_DIRECTION;
}

/* ---- Construction ---------------------------------------------------------------------------- */

static void free_weights(void *self)
{
    br_free(((br_rnn *)self)->weights);
}

/* Registers a parameter under PyTorch's name, with initial values from U(+-1 / sqrt(hidden_size)).
 */
static br_tensor *add_parameter(br_rnn *self, const char *kind, int64_t layer, int64_t direction,
                                int ndim, const int64_t *sizes)
{
    char name[64];
    snprintf(name, sizeof name, "%s_l%lld%s", kind, (long long)layer, direction ? "_reverse" : "");
    br_tensor *t = br_failed() ? NULL : br__new(name_of(self), ndim, sizes, BR_F32);
    t = br_parameter(self, name, t);
    double bound = 1 / sqrt((double)self->hidden_size);
    if (t)
        br_init_uniform_(t, -bound, bound);
    return t;
}

static void add_direction(br_rnn *self, int64_t layer, int64_t direction)
{
    br_tensor **p = parameters(self, layer, direction);
    int64_t gates = br__gates_of((br_recurrent_kind)self->kind) * self->hidden_size;
    int64_t state = state_size(self), in = layer == 0 ? self->input_size : state * directions(self);
    p[WEIGHT_IH] = add_parameter(self, "weight_ih", layer, direction, BR_SHAPE(gates, in));
    p[WEIGHT_HH] = add_parameter(self, "weight_hh", layer, direction, BR_SHAPE(gates, state));
    if (self->options.bias) {
        p[BIAS_IH] = add_parameter(self, "bias_ih", layer, direction, BR_SHAPE(gates));
        p[BIAS_HH] = add_parameter(self, "bias_hh", layer, direction, BR_SHAPE(gates));
    }
    if (self->options.proj_size > 0)
        p[WEIGHT_HR] =
            add_parameter(self, "weight_hr", layer, direction, BR_SHAPE(state, self->hidden_size));
}

static bool good_options(const br_rnn *self)
{
    const char *op = name_of(self);
    if (!br__layer_size(op, "input_size", self->input_size, 1) ||
        !br__layer_size(op, "hidden_size", self->hidden_size, 1) ||
        !br__layer_size(op, "num_layers", self->options.num_layers, 1))
        return false;
    double dropout = self->options.dropout;
    if (!(dropout >= 0 && dropout <= 1))
        br_fail(BR_ERROR_ARGUMENT, op, "dropout is %g, must be in 0 .. 1", dropout);
    else if (dropout > 0 && self->options.num_layers == 1)
        br_raise(BR_WARNING,
                 "%s: dropout is %g, but has no effect with num_layers 1: it is applied between "
                 "layers",
                 op, dropout);
    int64_t projected = self->options.proj_size;
    if (projected != 0 &&
        (self->kind != BR_LSTM || projected < 0 || projected >= self->hidden_size))
        br_fail(BR_ERROR_ARGUMENT, op,
                "proj_size is %" PRId64 ", must be less than hidden_size %" PRId64
                ", and only an LSTM supports it",
                projected, self->hidden_size);
    if (self->options.relu && (self->kind == BR_LSTM || self->kind == BR_GRU))
        br_fail(BR_ERROR_ARGUMENT, op, "relu is true, but only nn.RNN supports it");
    return !br_failed();
}

static br_tensor *run_alone(void *module, br_tensor *x);

static br_rnn *new_rnn(const char *class_name, br_recurrent_kind kind, int64_t input_size,
                       int64_t hidden_size, const br_rnn_options *options)
{
    br_rnn *self = br__layer_begin(sizeof *self, class_name, run_alone);
    self->kind = (int)kind;
    self->options = *BR_OPTIONS_OF(name_of(self), br_rnn, options);
    self->input_size = input_size;
    self->hidden_size = hidden_size;
    br_scope *scope = br_scope_begin();
    int64_t layers = self->options.num_layers, both = directions(self);
    if (good_options(self))
        self->weights = br_calloc((size_t)(layers * both * PER_DIRECTION), sizeof(br_tensor *));
    if (self->weights)
        br_module_set_destroy(br_base(self), free_weights);
    for (int64_t i = 0; self->weights && i < layers * both; i++)
        add_direction(self, i / both, i % both);
    br__layer_end(br_base(self), scope);
    return self;
}

br_rnn *br_rnn_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options)
{
    bool relu = BR_OPTIONS_OF("rnn", br_rnn, options)->relu;
    return new_rnn("RNN", relu ? BR_RNN_RELU : BR_RNN_TANH, input_size, hidden_size, options);
}

br_rnn *br_lstm_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options)
{
    return new_rnn("LSTM", BR_LSTM, input_size, hidden_size, options);
}

br_rnn *br_gru_new(int64_t input_size, int64_t hidden_size, const br_rnn_options *options)
{
    return new_rnn("GRU", BR_GRU, input_size, hidden_size, options);
}

/* ---- Forward --------------------------------------------------------------------------------- */

static bool check_input(const br_rnn *self, const br_tensor *x)
{
    const char *op = name_of(self);
    if (!br__floating(op, "input", x) ||
        !br__compatible(op, "input", x, "weight_hh_l0", self->weights[WEIGHT_HH]))
        return false;
    if ((x->ndim != 2 && x->ndim != 3) || x->sizes[x->ndim - 1] != self->input_size) {
        br_fail(BR_ERROR_SHAPE, op,
                "input %s must have 3 dimensions, or 2 without a batch, the last of size %lld",
                br__shape(x), (long long)self->input_size);
        return false;
    }
    int length = x->ndim == 3 && self->options.batch_first ? 1 : 0;
    if (x->sizes[length] == 0)
        br_fail(BR_ERROR_SHAPE, op, "input %s must have a sequence length of at least 1",
                br__shape(x));
    return !br_failed();
}

/* Returns a state as [layers * directions, N, H], or zeros if the caller passed none. `batched` is
 * true if the state has the dimension N. */
static br_tensor *initial_state(const br_rnn *self, const char *name, br_tensor *state,
                                int64_t size, const br_tensor *x, bool batched)
{
    int64_t sizes[] = { self->options.num_layers * directions(self), x->sizes[1], size };
    if (!state)
        return br_new_zeros(x, 3, sizes, x->dtype);
    if (!br__compatible(name_of(self), "input", x, name, state))
        return NULL;
    int64_t unbatched[] = { sizes[0], sizes[2] };
    const int64_t *want = batched ? sizes : unbatched;
    bool fits = br_ndim(state) == (batched ? 3 : 2);
    for (int d = 0; fits && d < br_ndim(state); d++)
        fits = state->sizes[d] == want[d];
    if (!fits)
        return br_fail(BR_ERROR_SHAPE, name_of(self), "%s %s must be %s", name, br__shape(state),
                       br__shape_of(batched ? 3 : 2, want));
    return batched ? state : br_unsqueeze(state, 1);
}

/* The data of one forward over [L, N, H]. */
typedef struct run {
    br_tensor *x, *h0, *c0; /* h0, c0: initial states of all layers */
    br_tensor *h_n, *c_n;   /* last states so far, [layer * directions, N, H]; NULL at first */
    br_tensor *valid; /* bool [L, N, 1], false after a sequence's end; NULL: all have length L */
} run;

/* The result shares no memory with the states of the sequence, so that either may be changed. */
static br_tensor *appended(br_tensor *all, br_tensor *state)
{
    br_tensor *row = br_unsqueeze(state, 0);
    return all ? br_cat(BR_INPUTS(all, row), 0) : br_clone(row);
}

/* Returns a copy of t in grad mode, for values that PyTorch allows to be changed before backward.
 * The copy is recorded, so gradients reach t. */
static br_tensor *unshared(br_tensor *t)
{
    return t && br_grad_enabled() ? br_clone(t) : t;
}

static br_tensor *run_direction(const br_rnn *self, run *r, int64_t layer, int64_t direction)
{
    br_tensor **p = parameters(self, layer, direction), *c_n = NULL, *h_n, *y;
    int64_t i = layer * directions(self) + direction;
    br_recurrent_kind kind = (br_recurrent_kind)self->kind;
    br_tensor *gi = br_f_linear(r->x, p[WEIGHT_IH], p[BIAS_IH]), *h0 = br_select(r->h0, 0, i);
    br_tensor *c0 = r->c0 ? br_select(r->c0, 0, i) : NULL;
    if (r->valid || p[WEIGHT_HR]) {
        br_recurrent_steps s = { kind,         direction == 1, gi,           h0,      c0,
                                 p[WEIGHT_HH], p[BIAS_HH],     p[WEIGHT_HR], r->valid };
        y = br__recurrent_steps(&s);
        h_n = s.h;
        c_n = s.c;
    } else {
        y = br__recurrent(kind, direction == 1, gi, h0, c0, p[WEIGHT_HH], unshared(p[BIAS_HH]),
                          &c_n);
        h_n = br_select(y, 0, direction == 1 ? 0 : -1);
        if (layer == self->options.num_layers - 1 && !self->options.bidirectional &&
            br_requires_grad(y))
            y = unshared(y);
    }
    r->h_n = appended(r->h_n, h_n);
    if (c_n)
        r->c_n = appended(r->c_n, c_n);
    return y;
}

static void run_layer(const br_rnn *self, run *r, int64_t layer)
{
    double dropout = self->options.dropout;
    if (layer > 0 && dropout > 0)
        r->x = br_f_dropout(r->x, dropout, br_is_training(&self->base));
    br_tensor *y = run_direction(self, r, layer, 0);
    if (self->options.bidirectional)
        y = br_cat(BR_INPUTS(y, run_direction(self, r, layer, 1)), -1);
    r->x = y;
}

/* Converts x to [L, N, ...], or back. */
static br_tensor *turned(const br_rnn *self, br_tensor *x)
{
    return self->options.batch_first ? br_transpose(x, 0, 1) : x;
}

/* Returns a bool tensor [L, N, 1] that is true within these lengths. */
static br_tensor *where_valid(const char *op, const run *r, br_tensor *lengths)
{
    if (!lengths)
        return NULL;
    int64_t steps = r->x->sizes[0], n = r->x->sizes[1];
    if (!br__has_dtype(op, "lengths", lengths, BR_I64))
        return NULL;
    if (lengths->ndim != 1 || lengths->sizes[0] != n)
        return br_fail(BR_ERROR_SHAPE, op,
                       "lengths %s must be [%" PRId64 "], one for each sequence of the batch",
                       br__shape(lengths), n);
    for (int64_t i = 0; i < n; i++) {
        int64_t length = (int64_t)br_at(lengths, 1, &i);
        if (length < 1 || length > steps)
            return br_fail(BR_ERROR_ARGUMENT, op,
                           "lengths[%" PRId64 "] is %" PRId64 ", must be 1 .. %" PRId64, i, length,
                           steps);
    }
    br_tensor *step =
        br_reshape(br_new_arange(lengths, 0, (double)steps, 1, BR_I64), BR_SHAPE(-1, 1));
    return br_unsqueeze(br_lt(step, lengths), 2);
}

static br_tensor *forward(const br_rnn *self, br_tensor *x, br_tensor *lengths, run *r)
{
    if (!check_input(self, x))
        return NULL;
    bool batched = br_ndim(x) == 3;
    r->x = batched ? turned(self, x) : br_unsqueeze(x, 1);
    if (!r->x)
        return NULL;
    r->valid = where_valid(name_of(self), r, lengths);
    r->h0 = initial_state(self, "h_0", r->h0, state_size(self), r->x, batched);
    if (self->kind == BR_LSTM)
        r->c0 = initial_state(self, "c_0", r->c0, self->hidden_size, r->x, batched);
    for (int64_t layer = 0; layer < self->options.num_layers && !br_failed(); layer++)
        run_layer(self, r, layer);
    if (br_failed())
        return NULL;
    if (!batched) {
        r->h_n = br_squeeze(r->h_n, 1);
        r->c_n = r->c_n ? br_squeeze(r->c_n, 1) : NULL;
        return br_squeeze(r->x, 1);
    }
    return turned(self, r->x);
}

static br_tensor *run_alone(void *module, br_tensor *x)
{
    run r = { .x = NULL };
    return forward(module, x, NULL, &r);
}

/* `lengths` must be given if `padded` is true. */
static br_tensor *run_rnn(const char *function, br_rnn *self, br_tensor *input, bool padded,
                          br_tensor *lengths, br_tensor *h_0, br_tensor *c_0, br_tensor **h_n,
                          br_tensor **c_n)
{
    if (h_n)
        *h_n = NULL;
    if (c_n)
        *c_n = NULL;
    if (!br_module_enter_from(function, self ? br_base(self) : NULL, &input))
        return NULL;
    run r = { .h0 = h_0, .c0 = c_0 };
    br_tensor *y = NULL;
    if (c_0 && self->kind != BR_LSTM)
        br_fail(BR_ERROR_ARGUMENT, name_of(self),
                "c_0 is given, but only an LSTM has a cell state");
    else if (!padded || br__required(name_of(self), "lengths", lengths))
        y = forward(self, input, lengths, &r);
    br_scope *scope = br__thread.scope; /* the module's; results are moved out of it */
    if (h_n && !br_failed())
        *h_n = br_scope_return(scope, r.h_n);
    if (c_n && !br_failed())
        *c_n = br_scope_return(scope, r.c_n);
    return br_leave(self, y);
}

br_tensor *br_rnn_forward(br_rnn *self, br_tensor *input, br_tensor *h_0, br_tensor *c_0,
                          br_tensor **h_n, br_tensor **c_n)
{
    return run_rnn(__func__, self, input, false, NULL, h_0, c_0, h_n, c_n);
}

br_tensor *br_rnn_forward_lengths(br_rnn *self, br_tensor *input, br_tensor *lengths,
                                  br_tensor *h_0, br_tensor *c_0, br_tensor **h_n, br_tensor **c_n)
{
    return run_rnn(__func__, self, input, true, lengths, h_0, c_0, h_n, c_n);
}
