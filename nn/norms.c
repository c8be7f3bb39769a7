/* nn/norms.c - LayerNorm, RMSNorm, BatchNorm, GroupNorm and InstanceNorm. */
#include "nn/nn_internal.h"

#include <math.h>

BR_DEFINE_DEFAULTS(br_layer_norm)
BR_DEFINE_DEFAULTS(br_rms_norm)
BR_DEFINE_DEFAULTS(br_batch_norm)
BR_DEFINE_DEFAULTS(br_group_norm)
BR_DEFINE_DEFAULTS(br_instance_norm)

/* Registers a weight [n] of ones and a bias [n] of zeros; NULL for one that is absent. */
static void add_affine(br_module *module, int64_t n, bool with_weight, bool with_bias,
                       br_tensor **weight, br_tensor **bias)
{
    bool good = !br_failed();
    *weight = br_module_add_parameter(module, "weight",
                                      good && with_weight ? br_ones(BR_SHAPE(n), BR_F32) : NULL);
    *bias = br_module_add_parameter(module, "bias",
                                    good && with_bias ? br_zeros(BR_SHAPE(n), BR_F32) : NULL);
}

/* Registers the buffers of running statistics: means of 0, variances of 1, and no batches. */
static void add_statistics(br_module *module, int64_t n, br_tensor **mean, br_tensor **var,
                           br_tensor **batches)
{
    if (br_failed())
        return;
    *mean = br_module_add_buffer(module, "running_mean", br_zeros(BR_SHAPE(n), BR_F32), true);
    *var = br_module_add_buffer(module, "running_var", br_ones(BR_SHAPE(n), BR_F32), true);
    *batches =
        br_module_add_buffer(module, "num_batches_tracked", br_zeros(BR_SCALAR, BR_I64), true);
}

static void check_eps(const char *op, double eps)
{
    if (!(eps >= 0))
        br_fail(BR_ERROR_ARGUMENT, op, "eps is %g, must be at least 0", eps);
}

/* ---- LayerNorm ------------------------------------------------------------------------------- */

static br_tensor *run_layer_norm(void *module, br_tensor *x)
{
    const br_layer_norm *self = module;
    return br_f_layer_norm(x, self->ndim, self->normalized_shape, self->weight, self->bias,
                           self->eps);
}

/* Checks and copies the normalized shape of a norm. Returns false and sets an error if it is
 * invalid. */
static bool norm_shape(const char *op, int ndim, const int64_t *sizes, int *own_ndim,
                       int64_t *own_sizes)
{
    if (ndim < 1 || ndim > BR_MAX_DIMS || !sizes) {
        br_fail(BR_ERROR_ARGUMENT, op, "normalized_shape has %d dimensions, must have 1 .. %d",
                sizes ? ndim : 0, (int)BR_MAX_DIMS);
        return false;
    }
    *own_ndim = ndim;
    for (int i = 0; i < ndim; i++)
        own_sizes[i] = sizes[i];
    for (int i = 0; i < ndim && !br_failed(); i++)
        br__layer_size(op, "normalized_size", sizes[i], 0);
    return !br_failed();
}

br_layer_norm *br_layer_norm_shape_new(int ndim, const int64_t *normalized_shape,
                                       const br_layer_norm_options *options)
{
    const br_layer_norm_options o = *BR_OPTIONS_OF("layer_norm", br_layer_norm, options);
    br_layer_norm *self = br__layer_begin(sizeof *self, "LayerNorm", run_layer_norm);
    self->eps = o.eps;
    br_scope *scope = br_scope_begin();
    if (!(o.eps >= 0))
        br_fail(BR_ERROR_ARGUMENT, "layer_norm", "eps is %g, must be at least 0", o.eps);
    br_tensor *w = NULL, *b = NULL;
    if (norm_shape("layer_norm", ndim, normalized_shape, &self->ndim, self->normalized_shape) &&
        o.elementwise_affine) {
        w = br_ones(ndim, normalized_shape, BR_F32);
        b = o.bias ? br_zeros(ndim, normalized_shape, BR_F32) : NULL;
    }
    self->weight = br_parameter(self, "weight", w);
    self->bias = br_parameter(self, "bias", b);
    br__layer_end(br_base(self), scope);
    return self;
}

br_layer_norm *br_layer_norm_new(int64_t normalized_size, const br_layer_norm_options *options)
{
    return br_layer_norm_shape_new(BR_SHAPE(normalized_size), options);
}

br_tensor *br_layer_norm_forward(br_layer_norm *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- RMSNorm --------------------------------------------------------------------------------- */

static br_tensor *run_rms_norm(void *module, br_tensor *x)
{
    const br_rms_norm *self = module;
    return br_f_rms_norm(x, self->ndim, self->normalized_shape, self->weight, self->eps);
}

br_rms_norm *br_rms_norm_shape_new(int ndim, const int64_t *normalized_shape,
                                   const br_rms_norm_options *options)
{
    const br_rms_norm_options o = *BR_OPTIONS_OF("rms_norm", br_rms_norm, options);
    br_rms_norm *self = br__layer_begin(sizeof *self, "RMSNorm", run_rms_norm);
    self->eps = o.eps;
    br_scope *scope = br_scope_begin();
    if (!isnan(o.eps))
        check_eps("rms_norm", o.eps);
    br_tensor *w = NULL;
    if (norm_shape("rms_norm", ndim, normalized_shape, &self->ndim, self->normalized_shape) &&
        o.elementwise_affine)
        w = br_ones(ndim, normalized_shape, BR_F32);
    self->weight = br_parameter(self, "weight", w);
    br__layer_end(br_base(self), scope);
    return self;
}

br_rms_norm *br_rms_norm_new(int64_t normalized_size, const br_rms_norm_options *options)
{
    return br_rms_norm_shape_new(BR_SHAPE(normalized_size), options);
}

br_tensor *br_rms_norm_forward(br_rms_norm *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- BatchNorm ------------------------------------------------------------------------------- */

/* Returns the momentum for the statistics of the next batch. */
static double next_momentum(const br_batch_norm *self)
{
    return self->options.cumulative ? 1 / (1 + br_item(self->num_batches_tracked))
                                    : self->options.momentum;
}

static void count_batch(const br_batch_norm *self)
{
    br_scope *scope = br_no_grad_begin();
    br_add_scalar_(self->num_batches_tracked, 1);
    br_scope_end(scope);
}

static br_tensor *run_batch_norm(void *module, br_tensor *x)
{
    const br_batch_norm *self = module;
    if (!br__required("batch_norm", "x", x))
        return NULL;
    int ndim = br_ndim(x);
    if (ndim < self->min_dims || ndim > self->max_dims)
        return br_fail(BR_ERROR_SHAPE, "batch_norm", "x %s must have %d%s dimensions for %s",
                       br__shape(x), self->max_dims, self->min_dims == 2 ? " or 2" : "",
                       br_module_class(&self->base));
    bool training = br_is_training(&self->base), tracked = self->running_mean != NULL;
    double momentum = training && tracked ? next_momentum(self) : 0;
    br_tensor *y = br_f_batch_norm(x, self->running_mean, self->running_var, self->weight,
                                   self->bias, training || !tracked, momentum, self->options.eps);
    if (y && training && tracked) /* a batch that fails does not count */
        count_batch(self);
    return br_failed() ? NULL : y;
}

static br_batch_norm *new_batch_norm(const char *class_name, int min_dims, int max_dims,
                                     int64_t num_features, const br_batch_norm_options *options)
{
    br_batch_norm *self = br__layer_begin(sizeof *self, class_name, run_batch_norm);
    self->options = *BR_OPTIONS_OF("batch_norm", br_batch_norm, options);
    self->num_features = num_features;
    self->min_dims = min_dims;
    self->max_dims = max_dims;
    br_scope *scope = br_scope_begin();
    check_eps("batch_norm", self->options.eps);
    br__layer_size("batch_norm", "num_features", num_features, 0);
    bool affine = self->options.affine;
    add_affine(br_base(self), num_features, affine, affine && self->options.bias, &self->weight,
               &self->bias);
    if (self->options.track_running_stats)
        add_statistics(br_base(self), num_features, &self->running_mean, &self->running_var,
                       &self->num_batches_tracked);
    br__layer_end(br_base(self), scope);
    return self;
}

br_batch_norm *br_batch_norm1d_new(int64_t num_features, const br_batch_norm_options *options)
{
    return new_batch_norm("BatchNorm1d", 2, 3, num_features, options);
}

br_batch_norm *br_batch_norm2d_new(int64_t num_features, const br_batch_norm_options *options)
{
    return new_batch_norm("BatchNorm2d", 4, 4, num_features, options);
}

br_batch_norm *br_batch_norm3d_new(int64_t num_features, const br_batch_norm_options *options)
{
    return new_batch_norm("BatchNorm3d", 5, 5, num_features, options);
}

br_tensor *br_batch_norm_forward(br_batch_norm *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- GroupNorm ------------------------------------------------------------------------------- */

static br_tensor *run_group_norm(void *module, br_tensor *x)
{
    const br_group_norm *self = module;
    return br_f_group_norm(x, self->num_groups, self->weight, self->bias, self->eps);
}

br_group_norm *br_group_norm_new(int64_t num_groups, int64_t num_channels,
                                 const br_group_norm_options *options)
{
    const br_group_norm_options o = *BR_OPTIONS_OF("group_norm", br_group_norm, options);
    br_group_norm *self = br__layer_begin(sizeof *self, "GroupNorm", run_group_norm);
    self->num_groups = num_groups;
    self->num_channels = num_channels;
    self->eps = o.eps;
    br_scope *scope = br_scope_begin();
    check_eps("group_norm", o.eps);
    if (br__layer_size("group_norm", "num_groups", num_groups, 1) &&
        br__layer_size("group_norm", "num_channels", num_channels, 0) &&
        num_channels % num_groups != 0)
        br_fail(BR_ERROR_ARGUMENT, "group_norm",
                "num_channels %lld must be a multiple of num_groups %lld", (long long)num_channels,
                (long long)num_groups);
    add_affine(br_base(self), num_channels, o.affine, o.affine, &self->weight, &self->bias);
    br__layer_end(br_base(self), scope);
    return self;
}

br_tensor *br_group_norm_forward(br_group_norm *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- InstanceNorm ---------------------------------------------------------------------------- */

static br_tensor *run_instance_norm(void *module, br_tensor *x)
{
    const br_instance_norm *self = module;
    if (!br__required("instance_norm", "x", x))
        return NULL;
    int ndim = br_ndim(x);
    if (ndim != self->dims + 1 && ndim != self->dims + 2)
        return br_fail(BR_ERROR_SHAPE, "instance_norm",
                       "x %s must have %d dimensions, or %d without a batch, for %s", br__shape(x),
                       self->dims + 2, self->dims + 1, br_module_class(&self->base));
    bool batched = ndim == self->dims + 2;
    bool of_input = br_is_training(&self->base) || !self->running_mean;
    br_tensor *y = br_f_instance_norm(batched ? x : br_unsqueeze(x, 0), self->running_mean,
                                      self->running_var, self->weight, self->bias, of_input,
                                      self->options.momentum, self->options.eps);
    return batched || !y ? y : br_squeeze(y, 0);
}

static br_instance_norm *new_instance_norm(const char *class_name, int dims, int64_t num_features,
                                           const br_instance_norm_options *options)
{
    br_instance_norm *self = br__layer_begin(sizeof *self, class_name, run_instance_norm);
    self->options = *BR_OPTIONS_OF("instance_norm", br_instance_norm, options);
    self->num_features = num_features;
    self->dims = dims;
    br_scope *scope = br_scope_begin();
    check_eps("instance_norm", self->options.eps);
    br__layer_size("instance_norm", "num_features", num_features, 0);
    bool affine = self->options.affine;
    add_affine(br_base(self), num_features, affine, affine, &self->weight, &self->bias);
    if (self->options.track_running_stats)
        add_statistics(br_base(self), num_features, &self->running_mean, &self->running_var,
                       &self->num_batches_tracked);
    br__layer_end(br_base(self), scope);
    return self;
}

br_instance_norm *br_instance_norm1d_new(int64_t num_features,
                                         const br_instance_norm_options *options)
{
    return new_instance_norm("InstanceNorm1d", 1, num_features, options);
}

br_instance_norm *br_instance_norm2d_new(int64_t num_features,
                                         const br_instance_norm_options *options)
{
    return new_instance_norm("InstanceNorm2d", 2, num_features, options);
}

br_instance_norm *br_instance_norm3d_new(int64_t num_features,
                                         const br_instance_norm_options *options)
{
    return new_instance_norm("InstanceNorm3d", 3, num_features, options);
}

br_tensor *br_instance_norm_forward(br_instance_norm *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- LocalResponseNorm ----------------------------------------------------------------------- */

static br_tensor *run_local_response_norm(void *module, br_tensor *x)
{
    const br_local_response_norm *self = module;
    return br_f_local_response_norm(x, self->size, self->alpha, self->beta, self->k);
}

br_local_response_norm *br_local_response_norm_new(int64_t size, double alpha, double beta,
                                                   double k)
{
    br_local_response_norm *self =
        br__layer_begin(sizeof *self, "LocalResponseNorm", run_local_response_norm);
    self->size = size;
    self->alpha = alpha;
    self->beta = beta;
    self->k = k;
    br__layer_size("local_response_norm", "size", size, 1);
    br__layer_end(br_base(self), NULL);
    return self;
}

br_tensor *br_local_response_norm_forward(br_local_response_norm *self, br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}
