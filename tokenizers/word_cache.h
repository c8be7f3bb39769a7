/* tokenizers/word_cache.h - ids of short words that were met before. A text repeats most of its
 * words, and a look-up takes less time than tokenizing a word.
 *
 * A word's ids must depend on its bytes alone: a reader looks up only words that no other part of
 * the text can change. So the cache does not change results. Its size is fixed; of words that share
 * a slot, the newest one stays. A cache belongs to one call at a time: the tokenizer keeps the
 * caches that no call uses, and the next calls find them filled. */
#ifndef BR_WORD_CACHE_H
#define BR_WORD_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
    BR_LONGEST_CACHED = 32, /* in bytes */
    BR_KEY_PARTS = BR_LONGEST_CACHED / sizeof(uint64_t),
    BR_CACHED_IDS = 7,
    BR_CACHE_BITS = 14, /* of a slot's index: a cache has 1 MiB */
    BR_SPARE_CACHES = 16,
};

/* A word: its bytes, followed by zeros. */
typedef struct br_word_key {
    uint64_t parts[BR_KEY_PARTS];
    uint16_t length;
} br_word_key;

/* A word and its ids; one cache line. The length of an empty slot is 0, which no word has. */
typedef struct br_cached_word {
    uint64_t parts[BR_KEY_PARTS];
    int32_t ids[BR_CACHED_IDS];
    uint16_t length, n;
} br_cached_word;

typedef struct br_word_cache {
    br_cached_word slots[1 << BR_CACHE_BITS];
} br_word_cache;

typedef struct br_spare_caches br_spare_caches;

/* Returns NULL if allocation fails. */
br_spare_caches *br__spare_caches_new(void);
void br__spare_caches_free(br_spare_caches *spare); /* NULL is ignored */
/* Returns a cache that no other call uses until br__word_cache_give(), or NULL and an error if
 * allocation fails. Threads may share `spare`. */
br_word_cache *br__word_cache_take(br_spare_caches *spare);
void br__word_cache_give(br_spare_caches *spare, br_word_cache *cache); /* NULL is ignored */

/* Returns the key of a word of 1 .. BR_LONGEST_CACHED bytes in memory that ends at `end`. */
static inline br_word_key br__word_key(const char *word, size_t length, const char *end)
{
    /* From masks[BR_LONGEST_CACHED - n] on, there are n bytes 255, then zeros. */
    static const uint8_t masks[2 * BR_LONGEST_CACHED] = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
    };
    br_word_key key = { .length = (uint16_t)length }, mask;
    if (end - word < BR_LONGEST_CACHED) {
        memcpy(key.parts, word, length);
        return key;
    }
    /* Copies of a constant size are much faster. */
    memcpy(key.parts, word, sizeof key.parts);
    memcpy(mask.parts, masks + BR_LONGEST_CACHED - length, sizeof mask.parts);
    for (int i = 0; i < BR_KEY_PARTS; i++)
        key.parts[i] &= mask.parts[i];
    return key;
}

/* Returns whether the slot has the ids of the word with this key. */
static inline bool br__word_is(const br_cached_word *slot, const br_word_key *key)
{
    const uint64_t *x = slot->parts, *y = key->parts;
    return slot->length == key->length &&
           ((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3])) == 0;
}

/* Returns the only slot that may have the key. */
static inline br_cached_word *br__word_slot(br_word_cache *cache, const br_word_key *key)
{
    const uint64_t odd = 0x9e3779b97f4a7c15, other = 0xc2b2ae3d27d4eb4f;
    const uint64_t *part = key->parts;
    uint64_t hash = (part[0] ^ part[2] * other) * odd + (part[1] ^ part[3] * odd) * other;
    hash = (hash ^ hash >> 32) * odd;
    return &cache->slots[hash >> (64 - BR_CACHE_BITS)];
}

#endif
