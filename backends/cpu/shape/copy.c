/* backends/cpu/shape/copy.c - copies between operands with any strides and dtypes. */
#include "backends/cpu/shape/copy.h"

#include <string.h>

#define COPY_LOOP(name, type)                                                            \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params) \
    {                                                                                    \
        enum { SIZE = sizeof(type) };                                                    \
        (void)params;                                                                    \
        if (s[0] == SIZE && s[1] == SIZE) {                                              \
            memcpy(data[0], data[1], (size_t)n *SIZE);                                   \
            return;                                                                      \
        }                                                                                \
        for (int64_t i = 0; i < n; i++)                                                  \
            *(type *)(void *)(data[0] + i * s[0]) =                                      \
                *(const type *)(const void *)(data[1] + i * s[1]);                       \
    }
COPY_LOOP(copy_1, uint8_t)
COPY_LOOP(copy_2, uint16_t)
COPY_LOOP(copy_4, uint32_t)
COPY_LOOP(copy_8, uint64_t)

void br__cpu_copy(const br_tensor *dst, const br_tensor *src)
{
    if (!(dst->contiguous && src->contiguous) && br__copy_tiles(dst, src))
        return;
    static const br_loop by_size[] = { [1] = copy_1, [2] = copy_2, [4] = copy_4, [8] = copy_8 };
    br_loop loop = dst->dtype == src->dtype ? by_size[br__dtype_size(dst->dtype)]
                                            : br__convert_loop(dst->dtype, src->dtype);
    br__for_each(2, (const br_tensor *[]){ dst, src }, loop,
                 (br_dtype[]){ dst->dtype, src->dtype });
}
