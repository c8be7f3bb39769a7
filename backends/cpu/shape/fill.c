/* backends/cpu/shape/fill.c - setting all elements to one value. */
#include "backends/cpu/shape/copy.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

enum { LINE = 64, PART = 16384, ZERO_PIECE = 1 << 20 };

static size_t bytes_of(const br_tensor *t)
{
    return (size_t)t->numel * br__dtype_size(t->dtype);
}

static void zero_piece(void *context, int64_t i)
{
    const br_tensor *t = context;
    size_t start = (size_t)i * ZERO_PIECE, rest = bytes_of(t) - start;
    memset(t->data + start, 0, br__min(rest, ZERO_PIECE));
}

/* Clearing memory is limited by its bandwidth, which one thread does not use up. */
static void set_zero(const br_tensor *t)
{
    br__parallel((int64_t)((bytes_of(t) + ZERO_PIECE - 1) / ZERO_PIECE), zero_piece,
                 (void *)(uintptr_t)t);
}

/* Writes one cache line, then copies it, in parts that stay in the cache. */
void br__cpu_fill(const br_tensor *t, const void *element)
{
    static const br_element zero;
    const size_t size = br__dtype_size(t->dtype), bytes = bytes_of(t);
    if (memcmp(element, &zero, size) == 0) {
        set_zero(t);
        return;
    }
    size_t done = 0;
    for (; done < bytes && done < LINE; done += size)
        memcpy(t->data + done, element, size);
    for (size_t n; done < bytes; done += n) {
        n = br__min(done, PART);
        n = br__min(n, bytes - done);
        memcpy(t->data + done, t->data, n);
    }
}
