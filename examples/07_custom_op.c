/* A custom operation: Snake, x + sin^2(a x) / a, an activation for periodic functions (Ziyin,
 * Hartwig and Ueda, 2020). The forward pass is a loop over memory. The gradient with respect to x
 * and to the learned parameter a is composed of operations, so it can be differentiated again; it
 * is checked against finite differences. A network with this activation extrapolates a wave beyond
 * the training data. */
#include <brasa/brasa.h>
#include <math.h>

enum { HIDDEN = 48, STEPS = 1200, POINTS = 256 };

/* dx = 1 + sin(2 a x), da = (x sin(2 a x) - sin^2(a x) / a) / a */
static void snake_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0), *a = br_saved(node, 1), *ax = br_mul(a, x);
    br_tensor *sin2 = br_sin(br_mul_scalar(ax, 2)), *sin1 = br_sin(ax);
    if (br_needs_input_grad(node, 0))
        dx[0] = br_mul(dy, br_add_scalar(sin2, 1));
    if (br_needs_input_grad(node, 1)) {
        br_tensor *square = br_div(br_mul(sin1, sin1), a);
        dx[1] = br_mul(dy, br_div(br_sub(br_mul(x, sin2), square), a));
    }
}

static const br_op snake_op = { .name = "snake", .backward = snake_backward };

/* x is f32 or f64; a has one element and x's dtype. */
static br_tensor *snake(br_tensor *x, br_tensor *a)
{
    br_scope *scope = br_scope_begin(), *unrecorded = br_no_grad_begin();
    br_tensor *in = br_contiguous(x), *y = br_empty_like(in);
    double k = br_item(a);
    for (int64_t i = 0; i < br_numel(y) && !br_failed(); i++) {
        if (br_dtype_of(y) == BR_F64)
            br_data_f64(y)[i] = br_data_f64(in)[i] + pow(sin(k * br_data_f64(in)[i]), 2) / k;
        else
            br_data_f32(y)[i] =
                br_data_f32(in)[i] + powf(sinf((float)k * br_data_f32(in)[i]), 2) / (float)k;
    }
    br_scope_return(scope, y);
    br_scope_end(unrecorded);
    br_node *node = br_record(&snake_op, y, BR_INPUTS(x, a), NULL, 0);
    br_save(node, 0, x);
    br_save(node, 1, a);
    br_scope_end(scope);
    return br_failed() ? NULL : y;
}

static br_tensor *as_function(br_tensor *const *inputs, int n, void *context)
{
    (void)context;
    return n == 2 ? snake(inputs[0], inputs[1]) : NULL;
}

typedef struct net {
    br_module base;
    br_linear *in, *out;
    br_tensor *a;
} net;

static br_tensor *net_forward(net *self, br_tensor *x)
{
    br_enter(self);
    br_tensor *h = snake(br_linear_forward(self->in, x), self->a);
    return br_leave(self, br_linear_forward(self->out, h));
}

static double wave(double x)
{
    return sin(3 * x) + x / 2;
}

static void learn(net *model)
{
    br_tensor *x = br_linspace(-3, 3, POINTS, BR_F32), *y;
    x = br_reshape(x, BR_SHAPE(POINTS, 1));
    y = br_add(br_sin(br_mul_scalar(x, 3)), br_mul_scalar(x, 0.5));
    br_optim *adam = br_adam(br_base(model), BR_OPTIONS(br_adam, .lr = 0.01));
    for (int step = 1; step <= STEPS && !br_failed(); step++) {
        br_scope *scope = br_scope_begin();
        br_tensor *loss = br_mse_loss(net_forward(model, x), y, BR_REDUCTION_MEAN);
        br_optim_zero_grad(adam);
        br_backward(loss);
        br_optim_step(adam);
        if (step % (STEPS / 5) == 0)
            printf("step %4d: loss %.6f\n", step, br_item(loss));
        br_scope_end(scope);
    }
    br_optim_free(adam);
}

int main(void)
{
    br_manual_seed(1);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_randn(BR_SHAPE(3, 2), BR_F64), true);
    br_tensor *a = br_set_requires_grad(br_full(BR_SHAPE(1), 0.7, BR_F64), true);
    bool good = br_gradcheck(as_function, NULL, BR_INPUTS(x, a), NULL);
    printf("gradients and finite differences %s\n", good ? "agree" : "differ");
    net *model = br_module_new(net);
    model->in = br_child(model, "in", br_linear_new(1, HIDDEN, true));
    model->out = br_child(model, "out", br_linear_new(HIDDEN, 1, true));
    model->a = br_parameter(model, "a", br_full(BR_SHAPE(1), 1.5, BR_F32));
    learn(model);
    double worst = 0;
    for (double at = 3.2; at < 4.3; at += 0.2) {
        br_tensor *point = br_full(BR_SHAPE(1, 1), at, BR_F32);
        double got = br_item(net_forward(model, point));
        printf("beyond the training data, at %.1f: %6.3f, expected %6.3f\n", at, got, wave(at));
        worst = fmax(worst, fabs(got - wave(at)));
    }
    br_module_free(model);
    br_scope_end(scope);
    br_thread_cleanup();
    return br_report(stderr) || !good || !(worst < 0.5);
}
