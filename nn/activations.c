/* nn/activations.c - modules that apply a function to one tensor: activations, softmax, and
 * reshaping between the layers of a Sequential. A macro defines the body and the constructor. */
#include "nn/nn_internal.h"

#include <inttypes.h>
#include <math.h>

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

/* Defines br_NAME_new(), whose module applies br_NAME(). */
#define PLAIN(name, class_name)                                    \
    static br_tensor *run_##name(br_tensor *x, const double *args) \
    {                                                              \
        (void)args;                                                \
        return br_##name(x);                                       \
    }                                                              \
    br_activation *br_##name##_new(void)                           \
    {                                                              \
        return new_activation(class_name, run_##name, NULL, 0, 0); \
    }

/* The same, for an activation that br_NAME_() computes in place. */
#define IN_PLACE(name, class_name)                                            \
    static br_tensor *run_##name(br_tensor *x, const double *args)            \
    {                                                                         \
        (void)args;                                                           \
        return br_##name(x);                                                  \
    }                                                                         \
    static br_tensor *name##_in_place(br_tensor *x, const double *args)       \
    {                                                                         \
        (void)args;                                                           \
        return br_##name##_(x);                                               \
    }                                                                         \
    br_activation *br_##name##_new(void)                                      \
    {                                                                         \
        return new_activation(class_name, run_##name, name##_in_place, 0, 0); \
    }

IN_PLACE(relu, "ReLU")
IN_PLACE(tanh, "Tanh")
IN_PLACE(sigmoid, "Sigmoid")
IN_PLACE(silu, "SiLU")
PLAIN(relu6, "ReLU6")
PLAIN(hardsigmoid, "Hardsigmoid")
PLAIN(hardswish, "Hardswish")
PLAIN(selu, "SELU")
PLAIN(mish, "Mish")
PLAIN(softsign, "Softsign")
PLAIN(tanhshrink, "Tanhshrink")
PLAIN(logsigmoid, "LogSigmoid")

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

/* Define br_NAME_new(), whose module applies br_NAME() with one or two arguments of a type. */
#define WITH_ONE(name, class_name, type, first)                                \
    static br_tensor *run_##name(br_tensor *x, const double *args)             \
    {                                                                          \
        return br_##name(x, (type)args[0]);                                    \
    }                                                                          \
    br_activation *br_##name##_new(type first)                                 \
    {                                                                          \
        return new_activation(class_name, run_##name, NULL, (double)first, 0); \
    }

#define WITH_TWO(name, class_name, type, first, second)                                     \
    static br_tensor *run_##name(br_tensor *x, const double *args)                          \
    {                                                                                       \
        return br_##name(x, (type)args[0], (type)args[1]);                                  \
    }                                                                                       \
    br_activation *br_##name##_new(type first, type second)                                 \
    {                                                                                       \
        return new_activation(class_name, run_##name, NULL, (double)first, (double)second); \
    }

WITH_ONE(leaky_relu, "LeakyReLU", double, negative_slope)
WITH_ONE(elu, "ELU", double, alpha)
WITH_ONE(celu, "CELU", double, alpha)
WITH_ONE(hardshrink, "Hardshrink", double, lambda)
WITH_ONE(softshrink, "Softshrink", double, lambda)
WITH_TWO(softplus, "Softplus", double, beta, threshold)
WITH_TWO(hardtanh, "Hardtanh", double, min, max)
WITH_TWO(threshold, "Threshold", double, threshold, value)
WITH_ONE(softmax, "Softmax", int64_t, dim)
WITH_ONE(log_softmax, "LogSoftmax", int64_t, dim)
WITH_ONE(softmin, "Softmin", int64_t, dim)
WITH_ONE(glu, "GLU", int64_t, dim)
WITH_TWO(flatten, "Flatten", int64_t, start_dim, end_dim)
WITH_ONE(pixel_shuffle, "PixelShuffle", int64_t, upscale_factor)
WITH_ONE(pixel_unshuffle, "PixelUnshuffle", int64_t, downscale_factor)

/* ---- RReLU ----------------------------------------------------------------------------------- */

static br_tensor *run_rrelu(void *module, br_tensor *x)
{
    const br_rrelu *self = module;
    return br_f_rrelu(x, self->lower, self->upper, br_is_training(&self->base));
}

br_rrelu *br_rrelu_new(double lower, double upper)
{
    br_rrelu *self = br__layer_begin(sizeof *self, "RReLU", run_rrelu);
    self->lower = lower;
    self->upper = upper;
    if (!(lower <= upper && isfinite(lower) && isfinite(upper)))
        br_fail(BR_ERROR_ARGUMENT, "rrelu",
                "lower is %g and upper is %g, must be finite, and lower at most upper", lower,
                upper);
    br__layer_end(br_base(self), NULL);
    return self;
}

br_tensor *br_rrelu_forward(br_rrelu *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- Unflatten ------------------------------------------------------------------------------- */

static br_tensor *run_unflatten(void *module, br_tensor *x)
{
    const br_unflattening *self = module;
    const int64_t least = self->dim < 0 ? -self->dim : self->dim + 1;
    if (br__required("unflatten", "x", x) && x->ndim < least)
        return br_fail(BR_ERROR_SHAPE, "unflatten", "x %s has no dimension %" PRId64, br__shape(x),
                       self->dim);
    return br_unflatten(x, self->dim, self->ndim, self->sizes);
}

br_unflattening *br_unflatten_new(int64_t dim, int ndim, const int64_t *sizes)
{
    br_unflattening *self = br__layer_begin(sizeof *self, "Unflatten", run_unflatten);
    self->dim = dim;
    if (ndim < 1 || ndim > BR_MAX_DIMS || !sizes)
        br_fail(BR_ERROR_ARGUMENT, "unflatten", "sizes has %d numbers, must have 1 .. %d",
                sizes ? ndim : 0, (int)BR_MAX_DIMS);
    for (int i = 0; !br_failed() && i < ndim; i++) {
        self->ndim = ndim;
        self->sizes[i] = sizes[i];
    }
    br__layer_end(br_base(self), NULL);
    return self;
}

br_tensor *br_unflattening_forward(br_unflattening *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- PReLU ----------------------------------------------------------------------------------- */

static br_tensor *run_prelu(void *module, br_tensor *x)
{
    const br_prelu *self = module;
    return br_f_prelu(x, self->weight);
}

br_prelu *br_prelu_new(int64_t num_parameters, double init)
{
    br_prelu *self = br__layer_begin(sizeof *self, "PReLU", run_prelu);
    self->num_parameters = num_parameters;
    br_scope *scope = br_scope_begin();
    br_tensor *w = NULL;
    if (br__layer_size("prelu", "num_parameters", num_parameters, 1))
        w = br_full(BR_SHAPE(num_parameters), init, BR_F32);
    self->weight = br_parameter(self, "weight", w);
    br__layer_end(br_base(self), scope);
    return self;
}

br_tensor *br_prelu_forward(br_prelu *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}
