/* nn/parametrizations.c - weight norm and spectral norm. */
#include "nn/nn_internal.h"
#include "tensor/random_internal.h"

#include <inttypes.h>
#include <math.h>

BR_DEFINE_DEFAULTS(br_spectral_norm)

/* Returns a dimension of t as a non-negative index. Returns -1 and sets an error if it is out of
 * range. */
static int64_t dim_of(const char *op, const br_tensor *t, int64_t dim)
{
    if (dim >= -t->ndim && dim < t->ndim)
        return dim < 0 ? dim + t->ndim : dim;
    br_fail(BR_ERROR_INDEX, op, "dim is %" PRId64 ", out of range for the parameter %s", dim,
            br__shape(t));
    return -1;
}

/* ---- Weight norm ----------------------------------------------------------------------------- */

typedef struct weight_norm {
    br_module base;
    int64_t dim; /* -1: norm of the whole tensor */
} weight_norm;

/* Returns the norm of v for each index of `dim`, with v's number of dimensions, or the norm of the
 * whole of v. */
static br_tensor *norms_of(const weight_norm *self, br_tensor *v)
{
    if (!br__required("weight_norm", "v", v))
        return NULL;
    if (self->dim < 0)
        return br_norm(v, 2);
    int64_t dims[BR_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < v->ndim; i++)
        if (i != self->dim)
            dims[n++] = i;
    return n > 0 ? br_norm_dim(v, 2, n, dims, true) : br_abs(v);
}

static br_tensor *run_weight_norm(void *module, br_tensor *const *originals, const void *args)
{
    (void)args;
    weight_norm *self = module;
    br_enter(self);
    br_tensor *g = originals[0], *v = originals[1];
    return br_leave(self, br_mul(v, br_div(g, norms_of(self, v))));
}

static bool invert_weight_norm(void *module, br_tensor *value, br_tensor **originals)
{
    originals[0] = norms_of(module, value);
    originals[1] = value;
    return !br_failed();
}

bool br_weight_norm(br_module *module, const char *name, br_tensor **field, int64_t dim)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *t = br__current_value(module, name);
    bool ok = t && (dim == -1 || (dim = dim_of("weight_norm", t, dim)) >= 0);
    if (ok) {
        weight_norm *self = br_module_create(sizeof(weight_norm), "_WeightNorm");
        self->dim = dim;
        ok = br_register_parametrization(module, name, field, self,
                                         BR_OPTIONS(br_parametrization, .n_originals = 2,
                                                    .forward = run_weight_norm,
                                                    .right_inverse = invert_weight_norm));
    }
    br_scope_end(scope);
    return ok;
}

/* ---- Spectral norm --------------------------------------------------------------------------- */

typedef struct spectral_norm {
    br_module base;
    br_tensor *u, *v; /* approximate singular vectors; NULL if the parameter has one dimension */
    br_spectral_norm_options options;
} spectral_norm;

/* Returns x / max(|x|, eps). */
static br_tensor *unit(const spectral_norm *self, br_tensor *x)
{
    return br_div(x, br_clamp(br_norm(x, 2), self->options.eps, INFINITY));
}

/* Returns a weight as a matrix whose rows are dimension options.dim. */
static br_tensor *as_matrix(const spectral_norm *self, br_tensor *weight)
{
    return br_flatten(br_movedim(weight, BR_DIMS(self->options.dim), BR_DIMS(0)), 1, -1);
}

static void iterate(const spectral_norm *self, br_tensor *matrix, int64_t times)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *turned = br_transpose(matrix, 0, 1);
    for (int64_t i = 0; i < times && !br_failed(); i++) {
        br_scope *one = br_scope_begin();
        br_copy_(self->u, unit(self, br_mv(matrix, self->v)));
        br_copy_(self->v, unit(self, br_mv(turned, self->u)));
        br_scope_end(one);
    }
    br_scope_end(scope);
}

/* The gradient uses copies of the vectors, since the next forward changes them. */
static br_tensor *run_spectral_norm(void *module, br_tensor *weight)
{
    spectral_norm *self = module;
    if (!self->u)
        return unit(self, weight);
    br_tensor *matrix = as_matrix(self, weight);
    if (br_is_training(br_base(self)))
        iterate(self, matrix, self->options.n_power_iterations);
    br_tensor *sigma = br_dot(br_clone(self->u), br_mv(matrix, br_clone(self->v)));
    return br_div(weight, sigma);
}

static br_tensor *random_unit(const spectral_norm *self, const br_tensor *matrix, int64_t n)
{
    br_tensor *t = br_new_empty(matrix, BR_SHAPE(n), br_dtype_of(matrix));
    return unit(self, t ? br__normal_(t, 0, 1) : NULL);
}

static void init_vectors(spectral_norm *self, br_tensor *weight)
{
    br_tensor *matrix = as_matrix(self, weight);
    if (!matrix)
        return;
    br_tensor *u = random_unit(self, matrix, matrix->sizes[0]);
    br_tensor *v = random_unit(self, matrix, matrix->sizes[1]);
    self->u = br_buffer(self, "_u", u);
    self->v = br_buffer(self, "_v", v);
    if (!br_failed())
        iterate(self, matrix, 15);
}

/* Returns the dimension of the module's output channels. */
static int64_t default_dim(const br_module *module)
{
    return strncmp(module->state->class_name, "ConvTranspose", strlen("ConvTranspose")) == 0 ? 1
                                                                                             : 0;
}

static bool good_spectral(br_spectral_norm_options *o, const br_module *module, const br_tensor *t)
{
    const char *op = "spectral_norm";
    if (t->ndim == 0)
        br_fail(BR_ERROR_SHAPE, op, "the parameter has no dimensions");
    else if (o->n_power_iterations < 1)
        br_fail(BR_ERROR_ARGUMENT, op, "n_power_iterations is %" PRId64 ", must be positive",
                o->n_power_iterations);
    else if (!(o->eps >= 0))
        br_fail(BR_ERROR_ARGUMENT, op, "eps is %g, must not be negative", o->eps);
    else
        o->dim = dim_of(op, t, o->dim == BR_NONE ? default_dim(module) : o->dim);
    return !br_failed();
}

bool br_spectral_norm(br_module *module, const char *name, br_tensor **field,
                      const br_spectral_norm_options *options)
{
    br_scope *scope = br_no_grad_begin();
    br_spectral_norm_options o = *BR_OPTIONS_OF("spectral_norm", br_spectral_norm, options);
    br_tensor *t = br__current_value(module, name);
    bool ok = t && br__floating("spectral_norm", name, t) && good_spectral(&o, module, t);
    if (ok) {
        spectral_norm *self =
            br__layer_begin(sizeof(spectral_norm), "_SpectralNorm", run_spectral_norm);
        self->options = o;
        if (t->ndim > 1)
            init_vectors(self, t);
        ok = br_register_parametrization(module, name, field, self, NULL);
    }
    br_scope_end(scope);
    return ok;
}
