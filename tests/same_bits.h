/* tests/same_bits.h - compares tensors bit by bit, where a tolerance would hide a difference. */
#ifndef BR_TESTS_SAME_BITS_H
#define BR_TESTS_SAME_BITS_H

#include <brasa/brasa.h>
#include <string.h>

/* Returns true if both tensors have the same shape, dtype and bits, NaN included, or if both are
 * NULL. */
static inline bool same_bits(const br_tensor *a, const br_tensor *b)
{
    if (!a || !b)
        return a == b;
    if (!br_same_shape(a, b) || br_dtype_of(a) != br_dtype_of(b))
        return false;
    br_scope *scope = br_no_grad_begin();
    const br_device cpu = { BR_CPU, 0 };
    br_tensor *x = br_to_device(br_contiguous((br_tensor *)a), cpu);
    br_tensor *y = br_to_device(br_contiguous((br_tensor *)b), cpu);
    size_t bytes = (size_t)br_numel(a) * br_dtype_size(br_dtype_of(a));
    bool same = x && y && memcmp(br_data(x), br_data(y), bytes) == 0;
    br_scope_end(scope);
    return same;
}

#endif
