/* tests/nn/test_recurrent.c - recurrent layers: first- and second-order gradients, initial states,
 * unbatched inputs, lengths, threads, failed allocations, and errors. test_recorded_layers.c
 * compares their values with PyTorch's. */
#include "tests/memory.h"
#include "tests/ops/values.h"

#include <brasa/nn.h>

TestSuite(recurrent, .init = check_begin, .fini = check_end);

typedef br_rnn *(*make_fn)(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
static const make_fn makers[] = { br_rnn_new, br_lstm_new, br_gru_new };

static br_tensor *random_leaf(int ndim, const int64_t *sizes)
{
    return leaf(br_randn(ndim, sizes, BR_F64));
}

/* Returns all outputs of a layer, concatenated, for the inputs x, h_0 and, for an LSTM, c_0. The
 * remaining inputs are the layer's own parameters. */
static br_tensor *run(br_tensor *const *in, int n, void *context)
{
    br_rnn *self = context;
    bool is_lstm = strcmp(br_module_class(br_base(self)), "LSTM") == 0;
    br_tensor *h, *c, *y = br_rnn_forward(self, in[0], in[1], is_lstm ? in[2] : NULL, &h, &c);
    (void)n;
    y = br_flatten(y, 0, -1);
    h = br_flatten(h, 0, -1);
    return c ? br_cat(BR_INPUTS(y, h, br_flatten(c, 0, -1)), 0) : br_cat(BR_INPUTS(y, h), 0);
}

static void check_gradients(make_fn make, const br_rnn_options *options)
{
    br_scope *scope = br_scope_begin();
    br_rnn *self = make(2, 3, options);
    br_module_to(br_base(self), BR_F64);
    int64_t states = options->num_layers * (options->bidirectional ? 2 : 1);
    enum { PER_DIRECTION = 5, MOST = 3 + 4 * PER_DIRECTION };
    br_tensor *in[MOST] = { random_leaf(BR_SHAPE(3, 2, 2)), random_leaf(BR_SHAPE(states, 2, 3)),
                            random_leaf(BR_SHAPE(states, 2, 3)) };
    int n = make == br_lstm_new ? 3 : 2;
    for (int64_t k = 0; k < PER_DIRECTION * states; k++)
        if (self->weights[k])
            in[n++] = self->weights[k];
    check_gradient(run, self, n, in);
    check_second_gradient(run, self, n, in);
    br_module_free(self);
    br_scope_end(scope);
}

Test(recurrent, gradients)
{
    br_manual_seed(3);
    for (int i = 0; i < 3; i++) {
        check_gradients(makers[i], BR_OPTIONS(br_rnn, .num_layers = 1));
        check_gradients(makers[i],
                        BR_OPTIONS(br_rnn, .num_layers = 2, .bidirectional = true, .bias = false));
    }
}

/* Dropout applies between layers, so a single layer has none and generates no random numbers. */
Test(recurrent, one_layer_has_no_dropout)
{
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < 3; i++) {
        br_manual_seed(5);
        br_rnn *self = makers[i](4, 3, BR_OPTIONS(br_rnn, .num_layers = 1, .dropout = 0.9));
        br_tensor *x = br_randn(BR_SHAPE(5, 2, 4), BR_F32);
        br_rng_state before, after;
        br_get_rng_state(&before);
        br_tensor *trained = br_rnn_forward(self, x, NULL, NULL, NULL, NULL);
        br_get_rng_state(&after);
        br_eval(br_base(self));
        br_tensor *evaluated = br_rnn_forward(self, x, NULL, NULL, NULL, NULL);
        cr_assert(br_equal(br_detach(trained), br_detach(evaluated)));
        cr_assert_arr_eq(&before, &after, sizeof before);
        br_module_free(self);
    }
    br_scope_end(scope);
}

Test(recurrent, unbatched_input)
{
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < 3; i++) {
        br_rnn *self = makers[i](2, 3, BR_OPTIONS(br_rnn, .batch_first = true));
        br_tensor *x = br_randn(BR_SHAPE(4, 2), BR_F32), *h, *c;
        br_tensor *y = br_rnn_forward(self, x, NULL, NULL, &h, &c);
        br_tensor *batched = br_forward(self, br_unsqueeze(x, 0));
        check_shape(y, BR_SHAPE(4, 3));
        check_shape(h, BR_SHAPE(1, 3));
        cr_assert_eq(c != NULL, i == 1);
        cr_assert(br_equal(y, br_squeeze(batched, 0)));
        y = br_rnn_forward(self, x, h, c, NULL, NULL);
        cr_assert(br_equal(y, br_rnn_forward(self, x, h, c, &h, &c)));
        br_module_free(self);
    }
    br_scope_end(scope);
}

/* A sequence of a padded batch gives the same result as on its own, whatever the padding contains.
 */
Test(recurrent, lengths)
{
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < 3; i++) {
        br_rnn *self = makers[i](2, 3, BR_OPTIONS(br_rnn, .num_layers = 2, .bidirectional = true));
        br_tensor *x = br_randn(BR_SHAPE(4, 2, 2), BR_F32), *h, *c, *h1, *c1;
        br_tensor *alone = br_slice(br_slice(x, 1, 1, 2, 1), 0, 0, 2, 1);
        br_fill_(br_slice(br_slice(x, 1, 1, 2, 1), 0, 2, 4, 1), NAN);
        br_tensor *lengths = br_from_i64(BR_SHAPE(2), (int64_t[]){ 4, 2 });
        br_tensor *y = br_rnn_forward_lengths(self, x, lengths, NULL, NULL, &h, &c);
        br_tensor *y1 = br_rnn_forward(self, alone, NULL, NULL, &h1, &c1);
        check_ok();
        br_tensor *mine = br_slice(y, 1, 1, 2, 1);
        cr_assert(br_allclose(br_slice(mine, 0, 0, 2, 1), y1, 1e-6, 1e-6));
        cr_assert(br_allclose(br_slice(h, 1, 1, 2, 1), h1, 1e-6, 1e-6));
        cr_assert(!c || br_allclose(br_slice(c, 1, 1, 2, 1), c1, 1e-6, 1e-6));
        cr_assert_eq(br_item(br_sum(br_abs(br_slice(mine, 0, 2, 4, 1)))), 0);
        br_module_free(self);
    }
    br_scope_end(scope);
}

/* In PyTorch the results are separate, too. */
Test(recurrent, results_share_no_memory)
{
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < 6; i++) {
        br_scope *mode = i < 3 ? br_no_grad_begin() : br_enable_grad_begin();
        br_rnn *self = makers[i % 3](2, 3, NULL);
        br_tensor *x = br_randn(BR_SHAPE(4, 2, 2), BR_F32), *h, *c;
        br_tensor *y = br_rnn_forward(self, x, NULL, NULL, &h, &c);
        br_tensor *before = br_clone(y);
        br_zero_(h);
        if (c)
            br_zero_(c);
        cr_assert(br_equal(y, before));
        br_fill_(y, 1);
        cr_assert_eq(br_item(br_sum(h)), 0);
        check_ok();
        br_module_free(self);
        br_scope_end(mode);
    }
    br_scope_end(scope);
}

Test(recurrent, does_not_depend_on_threads)
{
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < 3; i++) {
        br_rnn *self = makers[i](30, 70, NULL);
        br_tensor *x = leaf(br_randn(BR_SHAPE(3, 130, 30), BR_F32)), *y[2], *dx[2][2];
        for (int k = 0; k < 2; k++) {
            br_set_num_threads(1 + 2 * k);
            y[k] = br_forward(self, x);
            br_tensor *loss = br_sum(br_mul(y[k], y[k]));
            br_grad(1, &loss, BR_INPUTS(x, self->weights[1]), dx[k], NULL);
        }
        check_same_bits(y[0], y[1]);
        check_same_bits(dx[0][0], dx[1][0]);
        check_same_bits(dx[0][1], dx[1][1]);
        br_module_free(self);
    }
    br_scope_end(scope);
}

static bool train_once(void)
{
    br_scope *scope = br_scope_begin();
    br_rnn *self = br_lstm_new(2, 3, BR_OPTIONS(br_rnn, .num_layers = 2, .bidirectional = true));
    br_tensor *y = br_forward(self, br_ones(BR_SHAPE(2, 1, 2), BR_F32));
    if (y)
        br_backward(br_sum(y));
    br_module_free(self);
    br_scope_end(scope);
    return !br_failed();
}

Test(recurrent, every_allocation_may_fail)
{
    fail_in_turn(train_once, "train once");
}

static char warning[256];

static void keep_warning(br_error code, const char *message, void *context)
{
    (void)context;
    if (code == BR_WARNING)
        snprintf(warning, sizeof warning, "%s", message);
}

/* PyTorch warns, too. */
Test(recurrent, dropout_of_a_single_layer)
{
    br_set_error_callback(keep_warning, NULL);
    br_module_free(br_lstm_new(2, 3, BR_OPTIONS(br_rnn, .dropout = 0.5, .num_layers = 2)));
    cr_assert_str_eq(warning, "");
    br_module_free(br_lstm_new(2, 3, BR_OPTIONS(br_rnn, .dropout = 0.5)));
    cr_assert_str_eq(warning, "lstm: dropout is 0.5, but has no effect with num_layers 1: it is "
                              "applied between layers");
    br_set_error_callback(NULL, NULL);
}

Test(recurrent, errors)
{
    br_scope *scope = br_scope_begin();
    br_rnn *gru = br_gru_new(2, 3, NULL);
    br_tensor *x = br_ones(BR_SHAPE(4, 1, 2), BR_F32), *h = br_ones(BR_SHAPE(1, 2, 3), BR_F32);
    check_fails(br_rnn_forward(gru, x, h, NULL, NULL, NULL),
                "gru: h_0 [1, 2, 3] must be [1, 1, 3]");
    check_fails(br_rnn_forward(gru, x, NULL, h, NULL, NULL),
                "c_0 is given, but only an LSTM has a cell state");
    check_fails(br_forward(gru, br_ones(BR_SHAPE(4, 3), BR_F32)),
                "input [4, 3] must have 3 dimensions, or 2 without a batch, the last of size 2");
    check_fails(br_forward(gru, br_ones(BR_SHAPE(0, 1, 2), BR_F32)),
                "input [0, 1, 2] must have a sequence length of at least 1");
    check_fails(br_forward(gru, br_ones(BR_SHAPE(1, 1, 2), BR_F64)), "f64");
    check_fails(br_forward(gru, NULL), "input is NULL");
    br_tensor *lengths = br_from_i64(BR_SHAPE(1), (int64_t[]){ 5 });
    check_fails(br_rnn_forward_lengths(gru, x, lengths, NULL, NULL, NULL, NULL),
                "lengths[0] is 5, must be 1 .. 4");
    br_fill_(lengths, 0);
    check_fails(br_rnn_forward_lengths(gru, x, lengths, NULL, NULL, NULL, NULL),
                "lengths[0] is 0, must be 1 .. 4");
    check_fails(br_rnn_forward_lengths(gru, x, br_to(x, BR_I64), NULL, NULL, NULL, NULL),
                "lengths [4, 1, 2] must be [1]");
    check_fails(br_rnn_forward_lengths(gru, x, h, NULL, NULL, NULL, NULL), "must be i64");
    check_fails(br_rnn_forward_lengths(gru, x, NULL, NULL, NULL, NULL, NULL),
                "gru: lengths is NULL, but it is required");
    br_module_free(gru);
    gru = br_gru_new(2, 0, NULL);
    cr_assert(strstr(br_error_message(), "hidden_size is 0, must be at least 1"));
    br_clear_error();
    check_fails(br_forward(gru, x), "is incomplete: its constructor failed");
    br_module_free(gru);
    gru = br_gru_new(2, 3, BR_OPTIONS(br_rnn, .proj_size = 2));
    cr_assert(strstr(br_error_message(), "proj_size is 2, must be less than hidden_size 3"));
    br_clear_error();
    br_module_free(gru);
    br_rnn *lstm = br_lstm_new(2, 3, BR_OPTIONS(br_rnn, .proj_size = 3));
    cr_assert(strstr(br_error_message(), "proj_size is 3, must be less than hidden_size 3"));
    br_clear_error();
    br_module_free(lstm);
    for (int i = 1; i < 3; i++) {
        br_rnn *self = makers[i](2, 3, BR_OPTIONS(br_rnn, .relu = true));
        cr_assert(strstr(br_error_message(), ": relu is true, but only nn.RNN supports it"));
        br_clear_error();
        br_module_free(self);
    }
    br_scope_end(scope);
}

/* The gradient of the outputs may be any view. */
Test(recurrent, strides_of_the_gradient)
{
    for (int i = 0; i < 3; i++) {
        br_scope *scope = br_scope_begin();
        br_manual_seed(4);
        br_rnn *self = makers[i](2, 3, BR_OPTIONS(br_rnn, .num_layers = 1));
        br_module_to(br_base(self), BR_F64);
        br_tensor *x = random_leaf(BR_SHAPE(4, 2, 2)), *view = br_randn(BR_SHAPE(3, 2, 4), BR_F64);
        view = br_transpose(view, 0, 2);
        br_tensor *gradients[] = { view, br_contiguous(view) }, *dx[2];
        for (int k = 0; k < 2; k++) {
            br_tensor *y = br_rnn_forward(self, x, NULL, NULL, NULL, NULL);
            cr_assert(
                br_grad(1, &y, 1, &x, &dx[k], BR_OPTIONS(br_grad, .gradients = &gradients[k])),
                "%s", br_error_message());
        }
        cr_assert(br_equal(dx[0], dx[1]), "%s", br_module_class(br_base(self)));
        br_module_free(self);
        br_scope_end(scope);
    }
}
