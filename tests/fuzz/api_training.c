/* tests/fuzz/api_training.c - actions of the fuzz target api: modules' forwards, modes, hooks,
 * checkpoints and taps, and derivatives of forwards. */
#include "tests/fuzz/api.h"

#include <string.h>

#define ON(i) (a->on[i])

/* ---- Forward --------------------------------------------------------------------------------- */

static void forward(const api_args *a)
{
    api_result(br_forward(api_module(a), a->t[0]));
}

static br_tensor *attend(br_module *module, const api_args *a)
{
    br_tensor *weights = NULL;
    br_multihead_attention_inputs inputs = { .attn_mask = ON(0) ? a->t[2] : NULL,
                                             .is_causal = ON(1),
                                             .weights = ON(2) ? &weights : NULL,
                                             .weights_per_head = ON(3) };
    return br_multihead_attention_forward((br_multihead_attention *)module, a->t[0], a->t[1],
                                          a->t[1], &inputs);
}

static br_tensor *encode(br_module *module, const api_args *a)
{
    return br_transformer_encoder_layer_forward((br_transformer_encoder_layer *)module, a->t[0],
                                                ON(0) ? a->t[1] : NULL, ON(1) ? a->t[2] : NULL,
                                                ON(2));
}

static br_tensor *decode(br_module *module, const api_args *a)
{
    return br_transformer_decoder_layer_forward((br_transformer_decoder_layer *)module, a->t[0],
                                                a->t[1], NULL);
}

static br_tensor *recur(br_module *module, const api_args *a)
{
    br_tensor *h_n = NULL, *c_n = NULL;
    br_tensor *h_0 = ON(0) ? a->t[1] : NULL, *c_0 = ON(1) ? a->t[2] : NULL;
    if (ON(2))
        return br_rnn_forward_lengths((br_rnn *)module, a->t[0], a->t[1], h_0, c_0, &h_n, &c_n);
    return br_rnn_forward((br_rnn *)module, a->t[0], h_0, c_0, &h_n, ON(3) ? &c_n : NULL);
}

static br_tensor *rotate(br_module *module, const api_args *a)
{
    return br_rotary_embedding_forward((br_rotary_embedding *)module, a->t[0], a->n[0]);
}

static br_tensor *loss(br_module *module, const api_args *a)
{
    return br_loss_forward((br_loss *)module, 2, (br_tensor *[]){ a->t[0], a->t[1] });
}

/* Forwards of several tensors, by the module's class. */
static const struct {
    const char *class;
    br_tensor *(*run)(br_module *module, const api_args *a);
} forwards[] = {
    { "MultiheadAttention", attend },
    { "TransformerEncoderLayer", encode },
    { "TransformerDecoderLayer", decode },
    { "RNN", recur },
    { "LSTM", recur },
    { "GRU", recur },
    { "RotaryEmbedding", rotate },
    { "MSELoss", loss },
    { "HuberLoss", loss },
    { "BCELoss", loss },
    { "CrossEntropyLoss", loss },
};

static void forward_of_several(const api_args *a)
{
    br_module *module = api_module(a);
    for (int i = 0; module && i < API_COUNT(forwards); i++)
        if (strcmp(br_module_class(module), forwards[i].class) == 0)
            api_result(forwards[i].run(module, a));
}

/* Forward and backward of the mean, as in a training loop. */
static void train_step(const api_args *a)
{
    br_scope *scope = br_scope_begin();
    br_tensor *y = br_mean(br_forward(api_module(a), a->t[0]));
    bool done = br_backward_with(y, BR_OPTIONS(br_backward, .create_graph = ON(0)));
    br_scope_end(scope);
    api_answer(done);
}

static void set_training(const api_args *a)
{
    br_train(api_module(a), ON(0));
}

static void set_requires_grad(const api_args *a)
{
    br_module_requires_grad(api_module(a), api_glob(a->which[2]), ON(0));
}

static void zero_grad(const api_args *a)
{
    br_zero_grad(api_module(a));
}

static void checkpoint(const api_args *a)
{
    api_answer(br_module_checkpoint(api_module(a), ON(0)));
}

static void report_unused(const api_args *a)
{
    br_unused_report report = { 0 };
    api_answer(br_report_unused(api_module(a), a->t[0], &report));
    br_unused_report_clear(&report);
}

static void skip_init(const api_args *a)
{
    br_skip_init(ON(0));
}

/* ---- Hooks ----------------------------------------------------------------------------------- */

static uint64_t last_hook;

static br_tensor *hook(br_module *module, br_tensor *t, void *context)
{
    if (context)
        br_module_remove_hook(module, last_hook);
    return t && br_numel(t) % 2 ? br_mul_scalar(t, 2) : NULL;
}

static br_tensor *backward_hook(br_module *module, br_tensor *grad_input, br_tensor *grad_output,
                                void *context)
{
    if (context)
        br_module_remove_hook(module, last_hook);
    return grad_input && grad_output ? br_neg(grad_input) : NULL;
}

/* A hook that fails makes the forward or backward fail. */
static br_tensor *failing_hook(br_module *module, br_tensor *t, void *context)
{
    (void)context;
    (void)t;
    return br_fail(BR_ERROR_ARGUMENT, "hook", "%s must not run", br_module_class(module));
}

static void add_hook(const api_args *a)
{
    static uint64_t (*const add[])(br_module *, br_module_hook_fn, void *) = {
        br_module_register_forward_pre_hook,
        br_module_register_forward_hook,
        br_module_register_full_backward_pre_hook,
    };
    void *context = ON(0) ? &last_hook : NULL;
    if (a->which[2] % 4 == 3)
        last_hook = br_module_register_full_backward_hook(api_module(a), backward_hook, context);
    else
        last_hook =
            add[a->which[2] % 4](api_module(a), ON(1) && ON(2) ? failing_hook : hook, context);
    api_answer(last_hook != 0);
}

static void remove_hook(const api_args *a)
{
    br_module_remove_hook(api_module(a), last_hook);
}

/* ---- Taps ------------------------------------------------------------------------------------ */

static br_recorder *recorder;

static void record(const api_args *a)
{
    (void)a;
    if (!recorder)
        recorder = br_recorder_begin();
}

static void stop_recording(const api_args *a)
{
    if (!recorder)
        return;
    int64_t n = br_recorder_count(recorder);
    if (n > 0) {
        int64_t i = a->which[2] % n;
        api_answer(br_recorder_get(recorder, br_recorder_name(recorder, i)) != NULL);
        api_result(br_recorder_tensor(recorder, i));
    }
    br_recorder_end(recorder);
    recorder = NULL;
}

/* ---- Derivatives of a forward ---------------------------------------------------------------- */

static br_tensor *call(br_tensor *const *inputs, int n, void *module)
{
    (void)n;
    return br_forward(module, inputs[0]);
}

static br_tensor *call_to_scalar(br_tensor *const *inputs, int n, void *module)
{
    return br_sum(call(inputs, n, module));
}

static void derive(const api_args *a)
{
    br_tensor *input = a->t[0], *v = a->t[1], *result = NULL;
    br_module *module = api_module(a);
    const br_functional_options *options = BR_OPTIONS(br_functional, .create_graph = ON(0));
    switch (a->which[2] % 5) {
    case 0:
        br_vjp(call, module, 1, &input, v, &result, options);
        break;
    case 1:
        br_jvp(call, module, 1, &input, &v, &result, options);
        break;
    case 2:
        br_jacobian(call, module, 1, &input, &result, options);
        break;
    case 3:
        br_hvp(call_to_scalar, module, 1, &input, &v, &result, options);
        break;
    default:
        br_hessian(call_to_scalar, module, 1, &input, &result, options);
    }
    if (result)
        api_result(result);
    else
        br_clear_error(); /* NULL is also the result for an integer input */
}

/* The context is a place, because backward calls the function again, perhaps after the module there
 * has been replaced or freed. */
static br_tensor *call_place(br_tensor *const *inputs, int n, void *context)
{
    return call(inputs, n, api_root(*(const uint8_t *)context));
}

static void checkpointed_forward(const api_args *a)
{
    static uint8_t places[256];
    uint8_t *at = &places[a->which[0]];
    *at = a->which[0];
    br_tensor *inputs[] = { a->t[0] };
    api_result(br_activation_checkpoint(
        call_place, at, 1, inputs,
        BR_OPTIONS(br_activation_checkpoint, .preserve_rng_state = ON(0))));
}

static const api_action actions[] = {
    forward,
    forward,
    forward_of_several,
    train_step,
    train_step,
    set_training,
    set_requires_grad,
    zero_grad,
    checkpoint,
    report_unused,
    skip_init,
    add_hook,
    remove_hook,
    record,
    stop_recording,
    derive,
    checkpointed_forward,
};

static void free_all(void)
{
    br_recorder_end(recorder);
    recorder = NULL;
    last_hook = 0;
    br_skip_init(false);
}

const api_part api_training = { actions, API_COUNT(actions), free_all };
