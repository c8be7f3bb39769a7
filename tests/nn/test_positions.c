/* tests/nn/test_positions.c - sinusoidal positional encodings and rotary embeddings: formulas,
 * offsets, gradients, errors, and conversion of their tables. */
#include "tests/ops/values.h"

#include <brasa/nn.h>

TestSuite(positions, .init = check_begin, .fini = check_end);

Test(positions, sines)
{
    br_scope *scope = br_scope_begin();
    br_sinusoidal_positional_encoding *self = br_sinusoidal_positional_encoding_new(5, 40, 0);
    br_tensor *x = values(BR_SHAPE(2, 33, 5), 1, BR_F32);
    br_tensor *y = br_sinusoidal_positional_encoding_forward(self, x);
    for (int p = 0; p < 33; p++)
        for (int i = 0; i < 5; i++) {
            double angle = p / pow(10000, (double)(i / 2 * 2) / 5);
            double want = br_at(x, BR_DIMS(1, p, i)) + (i % 2 ? cos(angle) : sin(angle));
            check_close(br_at(y, BR_DIMS(1, p, i)), want, 5e-7);
        }
    cr_assert(br_forward(self, values(BR_SHAPE(2, 40, 5), 1, BR_F32)), "%s", br_error_message());
    check_fails(br_forward(self, values(BR_SHAPE(2, 41, 5), 1, BR_F32)),
                "x [2, 41, 5] must be [N, L, 5] with L at most 40");
    br_module_free(self);
    br_scope_end(scope);
}

/* In complex numbers, the rotation is (x1 + i x2) e^(i angle). */
Test(positions, rotations)
{
    br_scope *scope = br_scope_begin();
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        br_rotary_embedding *self = br_rotary_embedding_new(6, 20, 10000, interleaved);
        br_tensor *x = values(BR_SHAPE(2, 4, 7, 6), 1, BR_F32);
        br_tensor *y = br_rotary_embedding_forward(self, x, 13);
        for (int p = 0; p < 7; p++)
            for (int i = 0; i < 3; i++) {
                double angle = (p + 13) / pow(10000, i / 3.0);
                int first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : 3 + i;
                double a = br_at(x, BR_DIMS(1, 2, p, first)),
                       b = br_at(x, BR_DIMS(1, 2, p, second));
                check_close(br_at(y, BR_DIMS(1, 2, p, first)), a * cos(angle) - b * sin(angle),
                            2e-6);
                check_close(br_at(y, BR_DIMS(1, 2, p, second)), b * cos(angle) + a * sin(angle),
                            2e-6);
            }
        cr_assert(br_equal(br_forward(self, x), br_rotary_embedding_forward(self, x, 0)));
        check_fails(
            br_rotary_embedding_forward(self, x, 14),
            "x [2, 4, 7, 6] at offset 14: x must be [..., L, 6], and offset + L at most 20");
        br_module_free(self);
    }
    check_fails(br_f_rotary_embedding(br_ones(BR_SHAPE(2, 3), BR_F32), br_ones(BR_SHAPE(1), BR_F32),
                                      br_ones(BR_SHAPE(1), BR_F32), false),
                "rotary_embedding: x [2, 3] must have a last dimension of even size");
    check_fails(br_f_rotary_embedding(br_ones(BR_SHAPE(2, 4), BR_F32), br_ones(BR_SHAPE(3), BR_F32),
                                      br_ones(BR_SHAPE(2), BR_F32), false),
                "cos [3] does not broadcast to [2, 2]");
    br_scope_end(scope);
}

/* Operands of different dtypes are promoted, as by the products and sums of the formula. */
Test(positions, promotes_dtypes)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(br_to(values(BR_SHAPE(2, 3, 4), 1, BR_F32), BR_BF16));
    br_tensor *cos = values(BR_SHAPE(3, 2), 2, BR_F32), *sin = values(BR_SHAPE(3, 2), 3, BR_F64);
    br_tensor *y = br_f_rotary_embedding(x, cos, sin, false);
    cr_assert(br_dtype_of(y) == BR_F64);
    cr_assert(br_equal(y, br_f_rotary_embedding(br_to(x, BR_F64), br_to(cos, BR_F64), sin, false)));
    cr_assert(br_backward(br_sum(y)));
    cr_assert(br_dtype_of(br_grad_of(x)) == BR_BF16);
    check_fails(br_f_rotary_embedding(x, br_zeros(BR_SHAPE(3, 2), BR_I64), sin, false), "cos");
    br_scope_end(scope);
}

static br_tensor *rotary(br_tensor *const *in, int n, void *context)
{
    (void)n;
    return br_f_rotary_embedding(in[0], in[1], in[2], context != NULL);
}

Test(positions, second_gradients)
{
    br_tensor *in[] = { leaf(values(BR_SHAPE(2, 3, 4), 1, BR_F64)),
                        leaf(values(BR_SHAPE(3, 2), 2, BR_F64)),
                        leaf(values(BR_SHAPE(2), 3, BR_F64)) };
    check_second_gradient(rotary, NULL, 3, in);
    check_second_gradient(rotary, in, 3, in);
}

/* ---- Conversion ------------------------------------------------------------------------------ */

/* Returns the largest difference between the tables and values computed in f64. */
static double table_error(const br_rotary_embedding *r, const br_sinusoidal_positional_encoding *s)
{
    double most = 0;
    for (int p = 0; p < 50; p++) {
        for (int i = 0; i < 3; i++) {
            double angle = p / pow(10000, i / 3.0);
            most = fmax(most, fabs(br_at(r->cos, BR_DIMS(p, i)) - cos(angle)));
            most = fmax(most, fabs(br_at(r->sin, BR_DIMS(p, i)) - sin(angle)));
            most = fmax(most, fabs(br_at(s->pe, BR_DIMS(0, p, 2 * i)) - sin(angle)));
            most = fmax(most, fabs(br_at(s->pe, BR_DIMS(0, p, 2 * i + 1)) - cos(angle)));
        }
    }
    return most;
}

Test(positions, tables_have_the_precision_of_their_module)
{
    br_rotary_embedding *r = br_rotary_embedding_new(6, 50, 10000, false);
    br_sinusoidal_positional_encoding *s = br_sinusoidal_positional_encoding_new(6, 50, 0);
    br_sequential *both = br_sequential_new(BR_MODULES(r, s)); /* tables inside a tree */
    for (int round = 0; round < 2; round++) {
        cr_assert_eq(br_dtype_of(r->cos), BR_F32);
        cr_assert_gt(table_error(r, s), 1e-9);
        cr_assert(br_module_to(br_base(both), BR_F64));
        cr_assert_eq(br_dtype_of(r->cos), BR_F64);
        cr_assert_eq(br_dtype_of(s->pe), BR_F64);
        cr_assert(table_error(r, s) <= 4e-14); /* angles (below 50) and frequencies are rounded */
        cr_assert(br_module_to(br_base(both), BR_F32));
    }
    br_module_free(both);
}

Test(positions, changed_tables_are_converted_not_recomputed)
{
    br_sinusoidal_positional_encoding *s = br_sinusoidal_positional_encoding_new(6, 50, 0);
    br_scope *scope = br_no_grad_begin();
    br_tensor *trained = br_randn(BR_SHAPE(1, 50, 6), BR_F32);
    br_copy_(s->pe, trained);
    cr_assert(br_module_to(br_base(s), BR_F64));
    cr_assert(br_equal(s->pe, br_to(trained, BR_F64)));
    br_scope_end(scope);
    br_module_free(s);
}

static br_tensor *thirds(void *self)
{
    (void)self;
    return br_div_scalar(br_arange(0, 4, 1, BR_F64), 3);
}

static br_tensor *no_table(void *self)
{
    (void)self;
    br_raise(BR_ERROR_ARGUMENT, "there is no table");
    return NULL;
}

typedef struct {
    br_module base;
} own;

Test(positions, tables_of_a_custom_module)
{
    own *self = br_module_new(own);
    br_tensor *t = br_module_add_computed_buffer(&self->base, "thirds", thirds, true);
    cr_assert_eq(br_dtype_of(t), BR_F32);
    cr_assert(br_module_to(&self->base, BR_F64));
    cr_assert_eq(br_at(t, BR_DIMS(2)), 2.0 / 3);
    check_fails(br_module_add_computed_buffer(&self->base, "none", NULL, true),
                "add_computed_buffer: compute is NULL");
    check_fails(br_module_add_computed_buffer(&self->base, "none", no_table, true),
                "there is no table");
    br_module_free(&self->base);
}
