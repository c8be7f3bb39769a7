/* Sinusoidal positions and rotary embeddings: the formulas, offsets, gradients, and refusals. */
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
    check_fails(br_forward(self, values(BR_SHAPE(2, 41, 5), 1, BR_F32)),
                "x [2, 41, 5] must be [N, L, 5] with L at most 40");
    br_free_module(self);
    br_scope_end(scope);
}

/* As complex numbers: (x1 + i x2) e^(i angle). */
Test(positions, rotations)
{
    br_scope *scope = br_scope_begin();
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        br_rotary_embedding *self = br_rotary_embedding_new(6, 20, 0, interleaved);
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
            "x [2, 4, 7, 6] from position 14 on: must be [..., L, 6] and end by position 20");
        br_free_module(self);
    }
    check_fails(br_f_rotary_embedding(br_ones(BR_SHAPE(2, 3), BR_F32), br_ones(BR_SHAPE(1), BR_F32),
                                      br_ones(BR_SHAPE(1), BR_F32), false),
                "rotary_embedding: x [2, 3] must have a last dimension of an even size");
    check_fails(br_f_rotary_embedding(br_ones(BR_SHAPE(2, 4), BR_F32), br_ones(BR_SHAPE(3), BR_F32),
                                      br_ones(BR_SHAPE(2), BR_F32), false),
                "cos [3] does not broadcast to [2, 2]");
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
