/* brasa/nn/cache.h - the keys and values of earlier tokens, for attention that generates token by
 * token; part of brasa/nn.h. */
#ifndef BRASA_NN_CACHE_H
#define BRASA_NN_CACHE_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A key-value cache: the keys and values [B, heads, length, d] that each attention computed for
 * earlier tokens. Each attention has its own number in the cache. */
typedef struct br_cache br_cache;
/* Creates a cache. Returns NULL on error. */
BR_API br_cache *br_cache_new(void);
BR_API void br_cache_free(br_cache *cache);
/* Returns the number of cached tokens, which is that under number 0. Returns 0 if `cache` is NULL.
 */
BR_API int64_t br_cache_length(const br_cache *cache);
/* Appends key and value [B, heads, n, d] to those under a number, and replaces *key and *value by
 * views of all of them, which are valid until the next call. Fails if key or value requires grad in
 * grad mode. After an error the cache may have only part of a pass's keys: use br_cache_crop() or
 * free it. */
BR_API bool br_cache_append(br_cache *cache, int64_t number, br_tensor **key, br_tensor **value);
/* Sets *key and *value to the cached tensors under a number. Returns false without an error if
 * there are none. */
BR_API bool br_cache_get(const br_cache *cache, int64_t number, br_tensor **key, br_tensor **value);
/* Removes all but the first `length` tokens under the numbers 0 .. n-1. */
BR_API bool br_cache_crop(br_cache *cache, int64_t n, int64_t length);
/* Replaces row i of all cached tensors by the row rows[i], i64 [B]: beam search continues other
 * rows than before. */
BR_API bool br_cache_reorder(br_cache *cache, br_tensor *rows);

#ifdef __cplusplus
}
#endif

#endif
