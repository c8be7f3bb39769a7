/* backends/cpu/shape/copy.h - copies between operands with any strides and dtypes. */
#ifndef BR_CPU_COPY_H
#define BR_CPU_COPY_H

#include "backends/cpu/pointwise/for_each.h"

#include <string.h>

/* Copies bytes between places that do not overlap. memcpy() uses "rep movsb" for large copies,
 * which is 12 times as slow (AMD Zen 4) if the destination is 1 .. 31 bytes after the source modulo
 * 4 KiB, as in a roll by a few elements. Such copies are made of parts for which memcpy() does not.
 */
static inline void br__copy_bytes(char *to, const char *from, int64_t n)
{
    enum { PAGE = 4096, NEAR = 32, PART = 1024 };
    const uintptr_t ahead = ((uintptr_t)to - (uintptr_t)from) % PAGE;
    if (ahead > 0 && ahead < NEAR)
        for (; n > PART; n -= PART, to += PART, from += PART)
            memcpy(to, from, PART);
    memcpy(to, from, (size_t)n);
}

/* Copies src, which broadcasts to dst, into dst and converts the dtype. */
void br__cpu_copy(const br_tensor *dst, const br_tensor *src);
/* The backend's entries fill and cat. */
void br__cpu_fill(const br_tensor *t, const void *element);
bool br__cpu_cat(const br_tensor *y, int n, br_tensor *const *tensors, int64_t dim);

/* Returns a loop for br__run_loop() that converts between two different dtypes. Its params are
 * these dtypes: br_dtype[2], `to` first. */
br_loop br__convert_loop(br_dtype to, br_dtype from);

/* Copies src to dst in square tiles if dst is dense along one dimension and src along another, as
 * in a transpose, so that each cache line is read and written once. Returns false, and copies
 * nothing, for other tensors. */
bool br__copy_tiles(const br_tensor *dst, const br_tensor *src);

#endif
