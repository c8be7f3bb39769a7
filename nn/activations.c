/* nn/activations.c - modules that apply a function to one tensor: activations, softmax, and
 * reshaping between the layers of a Sequential. Each has a body and a constructor. */
#include "nn/nn_internal.h"

static br_tensor *run(void *module, br_tensor *x)
{
    const br_activation *self = module;
    const br_scope *scope = br__thread.scope; /* the scope of this forward; x is in the outer one */
    if (self->inplace && self->inplace_function && scope && br__may_overwrite(scope->outer, x))
        return self->inplace_function(x, self->args);
    return self->function(x, self->args);
}

static br_activation *new_activation(const char *class_name, br_activation_fn function,
                                     br_activation_fn inplace_function, double first, double second)
{
    br_activation *self = br__layer_begin(sizeof *self, class_name, run);
    self->function = function;
    self->inplace_function = inplace_function;
    self->args[0] = first;
    self->args[1] = second;
    return self;
}

br_tensor *br_activation_forward(br_activation *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- Without arguments ----------------------------------------------------------------------- */

static br_tensor *relu(br_tensor *x, const double *args)
{
    (void)args;
    return br_relu(x);
}

static br_tensor *relu_in_place(br_tensor *x, const double *args)
{
    (void)args;
    return br_relu_(x);
}

br_activation *br_relu_new(void)
{
    return new_activation("ReLU", relu, relu_in_place, 0, 0);
}

static br_tensor *tanh_of(br_tensor *x, const double *args)
{
    (void)args;
    return br_tanh(x);
}

static br_tensor *tanh_in_place(br_tensor *x, const double *args)
{
    (void)args;
    return br_tanh_(x);
}

br_activation *br_tanh_new(void)
{
    return new_activation("Tanh", tanh_of, tanh_in_place, 0, 0);
}

static br_tensor *sigmoid(br_tensor *x, const double *args)
{
    (void)args;
    return br_sigmoid(x);
}

static br_tensor *sigmoid_in_place(br_tensor *x, const double *args)
{
    (void)args;
    return br_sigmoid_(x);
}

br_activation *br_sigmoid_new(void)
{
    return new_activation("Sigmoid", sigmoid, sigmoid_in_place, 0, 0);
}

static br_tensor *silu(br_tensor *x, const double *args)
{
    (void)args;
    return br_silu(x);
}

static br_tensor *silu_in_place(br_tensor *x, const double *args)
{
    (void)args;
    return br_silu_(x);
}

br_activation *br_silu_new(void)
{
    return new_activation("SiLU", silu, silu_in_place, 0, 0);
}

static br_tensor *identity(br_tensor *x, const double *args)
{
    (void)args;
    return br__required("identity", "x", x) ? x : NULL;
}

br_activation *br_identity_new(void)
{
    return new_activation("Identity", identity, NULL, 0, 0);
}

/* ---- With arguments -------------------------------------------------------------------------- */

static br_tensor *gelu(br_tensor *x, const double *args)
{
    return br_gelu(x, (br_gelu_approximate)args[0]);
}

static br_tensor *gelu_in_place(br_tensor *x, const double *args)
{
    return br_gelu_(x, (br_gelu_approximate)args[0]);
}

br_activation *br_gelu_new(br_gelu_approximate approximate)
{
    return new_activation("GELU", gelu, gelu_in_place, approximate, 0);
}

static br_tensor *leaky_relu(br_tensor *x, const double *args)
{
    return br_leaky_relu(x, args[0]);
}

br_activation *br_leaky_relu_new(double negative_slope)
{
    return new_activation("LeakyReLU", leaky_relu, NULL, negative_slope, 0);
}

static br_tensor *elu(br_tensor *x, const double *args)
{
    return br_elu(x, args[0]);
}

br_activation *br_elu_new(double alpha)
{
    return new_activation("ELU", elu, NULL, alpha, 0);
}

static br_tensor *softplus(br_tensor *x, const double *args)
{
    return br_softplus(x, args[0], args[1]);
}

br_activation *br_softplus_new(double beta, double threshold)
{
    return new_activation("Softplus", softplus, NULL, beta, threshold);
}

static br_tensor *softmax(br_tensor *x, const double *args)
{
    return br_softmax(x, (int64_t)args[0]);
}

br_activation *br_softmax_new(int64_t dim)
{
    return new_activation("Softmax", softmax, NULL, (double)dim, 0);
}

static br_tensor *log_softmax(br_tensor *x, const double *args)
{
    return br_log_softmax(x, (int64_t)args[0]);
}

br_activation *br_log_softmax_new(int64_t dim)
{
    return new_activation("LogSoftmax", log_softmax, NULL, (double)dim, 0);
}

static br_tensor *flatten(br_tensor *x, const double *args)
{
    return br_flatten(x, (int64_t)args[0], (int64_t)args[1]);
}

br_activation *br_flatten_new(int64_t start_dim, int64_t end_dim)
{
    return new_activation("Flatten", flatten, NULL, (double)start_dim, (double)end_dim);
}
