/* backends/cpu/attention/rotary.c - rotation of pairs of elements, for rotary position embeddings
 * (RoPE; Su et al., 2021).
 *
 * (y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin), where cos and sin come from tables. Both elements
 * of a pair are read before y is written, so that y may be x. The two elements of a pair are any
 * number of bytes apart, which serves both adjacent pairs and pairs of halves. The loops are
 * memory-bound, so there is one build for all instruction sets. */
#include "backends/cpu/attention/attention_internal.h"
#include "backends/cpu/pointwise/for_each.h"

#define NUMBER(type, p, offset) (*(type *)(void *)((p) + (offset)))

/* Defines a loop over (y, x, cos, sin), where y and x are the first elements of pairs. params are
 * two int64_t: the bytes from the first to the second element in y and in x. */
#define ROTATE_LOOP(name, type)                                                          \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params) \
    {                                                                                    \
        const int64_t y_second = ((const int64_t *)params)[0];                           \
        const int64_t x_second = ((const int64_t *)params)[1];                           \
        for (int64_t i = 0; i < n; i++) {                                                \
            const type a = NUMBER(const type, data[1], i *s[1]);                         \
            const type b = NUMBER(const type, data[1], i *s[1] + x_second);              \
            const type c = NUMBER(const type, data[2], i *s[2]);                         \
            const type d = NUMBER(const type, data[3], i *s[3]);                         \
            NUMBER(type, data[0], i *s[0]) = a * c - b * d;                              \
            NUMBER(type, data[0], i *s[0] + y_second) = b * c + a * d;                   \
        }                                                                                \
    }
ROTATE_LOOP(rotate_f32, float)
ROTATE_LOOP(rotate_f64, double)

static const br_loop rotate[BR_DTYPES] = { [BR_F32] = rotate_f32, [BR_F64] = rotate_f64 };

/* Returns a header of the pairs' first elements: the first half of the last dimension, or every
 * second element if interleaved. */
static br_tensor first_of_pairs(const br_tensor *t, bool interleaved)
{
    int last = t->ndim - 1;
    br_tensor w = br__window(t);
    br__window_slice(&w, last, 0, t->sizes[last] / 2, interleaved ? 2 : 1);
    return w;
}

static int64_t to_second(const br_tensor *t, bool interleaved)
{
    int last = t->ndim - 1;
    return t->strides[last] * (interleaved ? 1 : t->sizes[last] / 2) *
           (int64_t)br__dtype_size(t->dtype);
}

void br__cpu_rotate(const br_tensor *y, const br_tensor *x, const br_tensor *cos,
                    const br_tensor *sin, bool interleaved)
{
    const br_tensor to = first_of_pairs(y, interleaved), from = first_of_pairs(x, interleaved);
    const int64_t seconds[] = { to_second(y, interleaved), to_second(x, interleaved) };
    br__run_loop(4, (const br_tensor *[]){ &to, &from, cos, sin }, rotate[x->dtype], seconds);
}
