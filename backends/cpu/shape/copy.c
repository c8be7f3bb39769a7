/* backends/cpu/shape/copy.c - copies between operands with any strides and dtypes. */
#include "backends/cpu/shape/copy.h"
#include "backends/cpu/hints.h"
#include "tensor/min_max.h"

#include <string.h>

/* Dimensions so short that a loop over one costs more than its copies. */
enum { FEW = 8 };

/* The last dimension of a copy, if it has a few elements: their number, and strides in bytes. */
typedef struct few {
    int64_t count, to_step, from_step;
} few;

/* Defines copy_reversed_type(to, from, n): to[i] = from[-i] for i < n. It reads forwards, which is
 * faster than to write forwards. */
#define COPY_REVERSED(type)                                                 \
    static void copy_reversed_##type(type *to, const type *from, int64_t n) \
    {                                                                       \
        enum { PER_VECTOR = VECTOR_BYTES / sizeof(type) };                  \
        const int64_t whole = n & -(int64_t)PER_VECTOR;                     \
        to += n - 1;                                                        \
        from -= n - 1;                                                      \
        FOUR_AT_ONCE                                                        \
        for (int64_t i = 0; i < whole; i += PER_VECTOR) {                   \
            INDEPENDENT                                                     \
            for (int k = 0; k < PER_VECTOR; k++)                            \
                to[-i - k] = from[i + k];                                   \
        }                                                                   \
        for (int64_t i = whole; i < n; i++)                                 \
            to[-i] = from[i];                                               \
    }
COPY_REVERSED(uint8_t)
COPY_REVERSED(uint16_t)
COPY_REVERSED(uint32_t)
COPY_REVERSED(uint64_t)

/* Defines the loop `name` for elements of a type, and name##_few, which copies `few` elements for
 * each of n, for a block of these at a time: the inner loop is then the longer one, and the block
 * stays in the L1 cache. */
#define COPY_LOOP(name, type)                                                                  \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)       \
    {                                                                                          \
        enum { SIZE = sizeof(type) };                                                          \
        char *to = data[0];                                                                    \
        const char *from = data[1];                                                            \
        const int64_t to_step = s[0], from_step = s[1];                                        \
        (void)params;                                                                          \
        if (to_step == SIZE && from_step == SIZE) {                                            \
            br__copy_bytes(to, from, n *SIZE);                                                 \
        } else if (to_step == SIZE && from_step == -SIZE) {                                    \
            copy_reversed_##type((type *)(void *)to, (const type *)(const void *)from, n);     \
        } else if (to_step == SIZE && from_step == 0) {                                        \
            const type x = *(const type *)(const void *)from;                                  \
            FOR_EACH(type, i, n, ((type *)(void *)to)[i] = x;)                                 \
        } else {                                                                               \
            for (int64_t i = 0; i < n; i++)                                                    \
                *(type *)(void *)(to + i * to_step) =                                          \
                    *(const type *)(const void *)(from + i * from_step);                       \
        }                                                                                      \
    }                                                                                          \
    static void name##_few(int64_t n, char *const *data, const int64_t *s, const void *params) \
    {                                                                                          \
        enum { BLOCK = 512 };                                                                  \
        const few *f = params;                                                                 \
        for (int64_t i = 0; i < n; i += BLOCK)                                                 \
            for (int64_t k = 0; k < f->count; k++)                                             \
                name(br__min(n - i, BLOCK),                                                    \
                     (char *[]){ data[0] + i * s[0] + k * f->to_step,                          \
                                 data[1] + i * s[1] + k * f->from_step },                      \
                     s, NULL);                                                                 \
    }
COPY_LOOP(copy_1, uint8_t)
COPY_LOOP(copy_2, uint16_t)
COPY_LOOP(copy_4, uint32_t)
COPY_LOOP(copy_8, uint64_t)

/* Copies elements of one size if the last dimension has a few elements and the one before it more.
 * Returns false, and copies nothing, for other tensors. */
static bool copy_few(const br_tensor *dst, const br_tensor *src)
{
    static const br_loop by_size[] = {
        [1] = copy_1_few, [2] = copy_2_few, [4] = copy_4_few, [8] = copy_8_few
    };
    const int64_t size = (int64_t)br__dtype_size(dst->dtype);
    int last = dst->ndim - 1;
    while (last > 0 && dst->sizes[last] == 1)
        last--;
    if (last < 1 || dst->numel == 0 || dst->ndim != src->ndim || dst->sizes[last] > FEW ||
        dst->sizes[last - 1] <= dst->sizes[last] ||
        memcmp(dst->sizes, src->sizes, (size_t)dst->ndim * sizeof *dst->sizes) != 0)
        return false;
    const few f = { dst->sizes[last], dst->strides[last] * size, src->strides[last] * size };
    br_tensor to = br__window(dst), from = br__window(src);
    br__window_slice(&to, last, 0, 1, 1);
    br__window_slice(&from, last, 0, 1, 1);
    BR_WORK(0, 2 * size * dst->numel);
    br__run_strided_loop(2, (const br_tensor *[]){ &to, &from }, by_size[size], &f,
                         BR_GRAIN / f.count);
    return true;
}

void br__cpu_copy(const br_tensor *dst, const br_tensor *src)
{
    const bool both = dst->contiguous && src->contiguous, same = dst->dtype == src->dtype;
    if (!both && (br__copy_tiles(dst, src) || (same && copy_few(dst, src))))
        return;
    static const br_loop by_size[] = { [1] = copy_1, [2] = copy_2, [4] = copy_4, [8] = copy_8 };
    br_loop loop =
        same ? by_size[br__dtype_size(dst->dtype)] : br__convert_loop(dst->dtype, src->dtype);
    br__for_each(2, (const br_tensor *[]){ dst, src }, loop,
                 (br_dtype[]){ dst->dtype, src->dtype });
}
