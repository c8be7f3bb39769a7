/* nn/positions.c - positional encodings: added sinusoids, and rotary embeddings. The tables are
 * computed in f64, and computed again when the module is converted. */
#include "nn/nn_internal.h"

#include <math.h>

/* Returns angles [length, pairs]: position / base^(2 i / size) for pair i. */
static br_tensor *angles(int64_t length, int64_t size, double base)
{
    br_tensor *i = br_arange(0, (double)((size + 1) / 2), 1, BR_F64);
    br_tensor *rate = br_exp(br_mul_scalar(i, -2 * log(base) / (double)size));
    br_tensor *position = br_arange(0, (double)length, 1, BR_F64);
    return br_mul(br_unsqueeze(position, 1), rate);
}

static bool good_table(const char *op, int64_t length, int64_t size)
{
    return br__layer_size(op, "max_len", length, 1) && br__layer_size(op, "size", size, 1);
}

/* ---- Sinusoids ------------------------------------------------------------------------------- */

/* Returns a table [1, length, size] with the sine of pair i in column 2 i and its cosine in column
 * 2 i + 1. */
static br_tensor *sines(void *module)
{
    const br_sinusoidal_positional_encoding *self = module;
    br_tensor *a = angles(self->max_len, self->d_model, 10000);
    br_tensor *table = br_stack(BR_INPUTS(br_sin(a), br_cos(a)), -1);
    table = br_narrow(br_flatten(table, 1, 2), 1, 0, self->d_model);
    return br_unsqueeze(table, 0);
}

static br_tensor *run_sines(void *module, br_tensor *x)
{
    const br_sinusoidal_positional_encoding *self = module;
    const br_tensor *pe = self->pe;
    int64_t length = x && x->ndim == 3 ? x->sizes[1] : -1;
    if (x && (length < 0 || length > pe->sizes[1] || x->sizes[2] != pe->sizes[2]))
        return br_fail(BR_ERROR_SHAPE, "positional_encoding",
                       "x %s must be [N, L, %lld] with L at most %lld", br__shape(x),
                       (long long)pe->sizes[2], (long long)pe->sizes[1]);
    x = br_add(x, br_narrow(self->pe, 1, 0, length));
    return br_dropout_forward(self->dropout, x);
}

br_sinusoidal_positional_encoding *br_sinusoidal_positional_encoding_new(int64_t d_model,
                                                                         int64_t max_len,
                                                                         double dropout)
{
    br_sinusoidal_positional_encoding *self =
        br__layer_begin(sizeof *self, "SinusoidalPositionalEncoding", run_sines);
    self->d_model = d_model;
    self->max_len = max_len;
    br_scope *scope = br_no_grad_begin();
    if (good_table("positional_encoding", max_len, d_model))
        self->pe = br_module_add_computed_buffer(br_base(self), "pe", sines, true);
    self->dropout = br_child(self, "dropout", br_dropout_new(dropout));
    br__layer_end(br_base(self), scope);
    return self;
}

br_tensor *br_sinusoidal_positional_encoding_forward(br_sinusoidal_positional_encoding *self,
                                                     br_tensor *x)
{
    return BR_LAYER_FORWARD(self, x);
}

/* ---- Rotary embeddings ----------------------------------------------------------------------- */

static br_tensor *rotate(const br_rotary_embedding *self, br_tensor *x, int64_t offset)
{
    if (!br__required("rotary_embedding", "x", x))
        return NULL;
    int64_t length = br_ndim(x) >= 2 ? br_size(x, -2) : -1, capacity = br_size(self->cos, 0);
    if (length < 0 || offset < 0 || offset > capacity - length)
        return br_fail(BR_ERROR_SHAPE, "rotary_embedding",
                       "x %s at offset %lld: x must be [..., L, %lld], and offset + L at most %lld",
                       br__shape(x), (long long)offset, (long long)(2 * br_size(self->cos, 1)),
                       (long long)capacity);
    return br_f_rotary_embedding(x, br_narrow(self->cos, 0, offset, length),
                                 br_narrow(self->sin, 0, offset, length), self->interleaved);
}

static br_tensor *cosines_of_angles(void *module)
{
    const br_rotary_embedding *self = module;
    return br_cos(angles(self->max_len, self->dim, self->theta));
}

static br_tensor *sines_of_angles(void *module)
{
    const br_rotary_embedding *self = module;
    return br_sin(angles(self->max_len, self->dim, self->theta));
}

static br_tensor *run_rotary(void *module, br_tensor *x)
{
    return rotate(module, x, 0);
}

br_rotary_embedding *br_rotary_embedding_new(int64_t dim, int64_t max_len, double base,
                                             bool interleaved)
{
    const char *op = "rotary_embedding";
    br_rotary_embedding *self = br__layer_begin(sizeof *self, "RotaryEmbedding", run_rotary);
    self->interleaved = interleaved;
    self->dim = dim;
    self->max_len = max_len;
    self->theta = base;
    br_scope *scope = br_no_grad_begin();
    if (good_table(op, max_len, dim) && (dim % 2 != 0 || !(self->theta > 0)))
        br_fail(BR_ERROR_ARGUMENT, op,
                "dim is %lld and base is %g: dim must be even and base positive", (long long)dim,
                base);
    if (!br_failed()) {
        self->cos = br_module_add_computed_buffer(br_base(self), "cos", cosines_of_angles, false);
        self->sin = br_module_add_computed_buffer(br_base(self), "sin", sines_of_angles, false);
    }
    br__layer_end(br_base(self), scope);
    return self;
}

br_tensor *br_rotary_embedding_forward(br_rotary_embedding *self, br_tensor *x, int64_t offset)
{
    br_enter_with(self, x);
    return br_leave(self, rotate(self, x, offset));
}
