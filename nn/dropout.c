/* nn/dropout.c - Dropout of elements and of channels, and alpha dropout. The layers differ only in
 * the operation that they call. */
#include "nn/nn_internal.h"

static br_tensor *run_dropout(void *module, br_tensor *x)
{
    const br_dropout *self = module;
    return self->function(x, self->p, br_is_training(&self->base));
}

static br_dropout *new_dropout(const char *op, const char *class_name, br_dropout_fn function,
                               double p)
{
    br_dropout *self = br__layer_begin(sizeof *self, class_name, run_dropout);
    self->p = p;
    self->function = function;
    if (!(p >= 0 && p <= 1))
        br_fail(BR_ERROR_ARGUMENT, op, "p is %g, must be in 0 .. 1", p);
    br__layer_end(br_base(self), NULL);
    return self;
}

br_dropout *br_dropout_new(double p)
{
    return new_dropout("dropout", "Dropout", br_f_dropout, p);
}

br_dropout *br_dropout1d_new(double p)
{
    return new_dropout("dropout1d", "Dropout1d", br_f_dropout1d, p);
}

br_dropout *br_dropout2d_new(double p)
{
    return new_dropout("dropout2d", "Dropout2d", br_f_dropout2d, p);
}

br_dropout *br_dropout3d_new(double p)
{
    return new_dropout("dropout3d", "Dropout3d", br_f_dropout3d, p);
}

br_dropout *br_alpha_dropout_new(double p)
{
    return new_dropout("alpha_dropout", "AlphaDropout", br_f_alpha_dropout, p);
}

br_dropout *br_feature_alpha_dropout_new(double p)
{
    return new_dropout("feature_alpha_dropout", "FeatureAlphaDropout", br_f_feature_alpha_dropout,
                       p);
}

br_tensor *br_dropout_forward(br_dropout *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}
