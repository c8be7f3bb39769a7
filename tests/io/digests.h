/* tests/io/digests.h - digests of what a reader read, for tests that read a file many times. */
#ifndef BR_TESTS_IO_DIGESTS_H
#define BR_TESTS_IO_DIGESTS_H

#include <brasa/nn.h>
#include <string.h>
#include <xxhash.h>

static inline void add(uint64_t *digest, const void *data, size_t n)
{
    *digest = XXH3_64bits_withSeed(data, n, *digest);
}

static inline void add_text(uint64_t *digest, const char *text)
{
    add(digest, text, text ? strlen(text) : 0);
}

static inline bool add_tensor(uint64_t *digest, const br_tensor *t)
{
    static char bytes[1 << 18];
    size_t n = t ? (size_t)br_numel(t) * br_dtype_size(br_dtype_of(t)) : 0;
    if (!t || n > sizeof bytes || !br_copy_out(t, bytes, n))
        return false;
    add(digest, bytes, n);
    return true;
}

static inline bool add_module(uint64_t *digest, br_module *module)
{
    br_named_list *all = br_state_dict(module);
    bool ok = all;
    for (int64_t i = 0; ok && i < all->count; i++) {
        add_text(digest, all->items[i].name);
        ok = add_tensor(digest, all->items[i].tensor);
    }
    br_named_list_free(all);
    return ok;
}

#endif
