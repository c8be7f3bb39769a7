/* tokenizers/word_cache.c - the caches of words that no call uses. */
#include "tokenizers/word_cache.h"

#include "tensor/tensor_internal.h"

#include <stdatomic.h>

struct br_spare_caches {
    _Atomic(br_word_cache *) caches[BR_SPARE_CACHES]; /* NULL: a free place */
};

br_spare_caches *br__spare_caches_new(void)
{
    return br_calloc(1, sizeof(br_spare_caches));
}

void br__spare_caches_free(br_spare_caches *spare)
{
    for (int i = 0; spare && i < BR_SPARE_CACHES; i++)
        br_free(atomic_load(&spare->caches[i]));
    br_free(spare);
}

br_word_cache *br__word_cache_take(br_spare_caches *spare)
{
    for (int i = 0; i < BR_SPARE_CACHES; i++) {
        br_word_cache *cache = atomic_exchange(&spare->caches[i], NULL);
        if (cache)
            return cache;
    }
    return br_calloc(1, sizeof(br_word_cache));
}

void br__word_cache_give(br_spare_caches *spare, br_word_cache *cache)
{
    for (int i = 0; cache && i < BR_SPARE_CACHES; i++) {
        br_word_cache *none = NULL;
        if (atomic_compare_exchange_strong(&spare->caches[i], &none, cache))
            return;
    }
    br_free(cache);
}
