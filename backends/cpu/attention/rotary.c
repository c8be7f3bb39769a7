/* backends/cpu/attention/rotary.c - rotation of pairs of elements, for rotary position embeddings
 * (RoPE; Su et al., 2021).
 *
 * (y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin), where cos and sin come from tables. Both elements
 * of a pair are read before y is written, so that y may be x. The two elements of a pair are any
 * number of bytes apart, which serves both adjacent pairs and pairs of halves. The loops are
 * memory-bound, so there is one build for all instruction sets. */
#include "backends/cpu/attention/rotary.h"

#define NUMBER(type, p, offset) (*(type *)(void *)((p) + (offset)))

/* Defines the loop for a type, which is why it is a macro. */
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

const br_loop br__rotate[BR_DTYPES] = { [BR_F32] = rotate_f32, [BR_F64] = rotate_f64 };
