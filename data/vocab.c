/* data/vocab.c - words and their ids: an open-addressing table of ids, hashed by XXH3. */
#include "tensor/tensor_internal.h"

#include <brasa/data.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

typedef struct word {
    char *text; /* `length` bytes and a NUL */
    size_t length;
    uint64_t hash;
} word;

struct br_vocab {
    word *words; /* indexed by id */
    int64_t size, capacity;
    int64_t *table; /* ids, or -1 if free; the size is a power of two, at most half is in use */
    uint64_t mask;
};

enum { FIRST_TABLE = 64 };

static int64_t *new_table(uint64_t places)
{
    int64_t *table = br_malloc(places * sizeof *table);
    for (uint64_t i = 0; table && i < places; i++)
        table[i] = -1;
    return table;
}

br_vocab *br_vocab_new(void)
{
    if (br_failed())
        return NULL;
    br_vocab *vocab = BR_NEW(br_vocab);
    if (vocab && (vocab->table = new_table(FIRST_TABLE))) {
        vocab->mask = FIRST_TABLE - 1;
        return vocab;
    }
    br_vocab_free(vocab);
    return NULL;
}

void br_vocab_free(br_vocab *vocab)
{
    if (!BR_END("vocab_free", vocab))
        return;
    for (int64_t i = 0; i < vocab->size; i++)
        br_free(vocab->words[i].text);
    br_free(vocab->words);
    br_free(vocab->table);
    BR_FREE(vocab);
}

/* Returns the word's place in the table, or the free place where it must be inserted. */
static uint64_t place_of(const br_vocab *vocab, const char *text, size_t length, uint64_t hash)
{
    uint64_t place = hash & vocab->mask;
    for (;; place = (place + 1) & vocab->mask) {
        int64_t id = vocab->table[place];
        if (id < 0)
            return place;
        const word *w = &vocab->words[id];
        if (w->hash == hash && w->length == length && memcmp(w->text, text, length) == 0)
            return place;
    }
}

static bool grow_table(br_vocab *vocab)
{
    uint64_t places = 2 * (vocab->mask + 1);
    int64_t *table = new_table(places);
    if (!table)
        return false;
    for (int64_t id = 0; id < vocab->size; id++) {
        uint64_t place = vocab->words[id].hash & (places - 1);
        while (table[place] >= 0)
            place = (place + 1) & (places - 1);
        table[place] = id;
    }
    br_free(vocab->table);
    vocab->table = table;
    vocab->mask = places - 1;
    return true;
}

static bool reserve(br_vocab *vocab)
{
    word *words =
        br__grow_from(FIRST_TABLE / 2, vocab->words, &vocab->capacity, vocab->size, sizeof *words);
    if (!words)
        return false;
    vocab->words = words;
    return 2 * (uint64_t)(vocab->size + 1) <= vocab->mask + 1 || grow_table(vocab);
}

/* An empty word's pointer may be NULL. */
static const char *bytes_of(const char *text)
{
    return text ? text : "";
}

int64_t br_vocab_add(br_vocab *vocab, const char *text, size_t length)
{
    if (!br__required("vocab_add", "vocab", vocab) ||
        (length > 0 && !br__required("vocab_add", "word", text)))
        return -1;
    int64_t known = br_vocab_find(vocab, text, length);
    if (known >= 0)
        return known;
    char *copy = reserve(vocab) ? br_malloc(length + 1) : NULL;
    if (!copy)
        return -1;
    memcpy(copy, bytes_of(text), length);
    copy[length] = '\0';
    uint64_t hash = XXH3_64bits(copy, length);
    vocab->table[place_of(vocab, copy, length, hash)] = vocab->size;
    vocab->words[vocab->size] = (word){ copy, length, hash };
    return vocab->size++;
}

int64_t br_vocab_find(const br_vocab *vocab, const char *text, size_t length)
{
    if (!BR_LIVE("vocab_find", vocab) || (!text && length > 0))
        return -1;
    text = bytes_of(text);
    return vocab->table[place_of(vocab, text, length, XXH3_64bits(text, length))];
}

const char *br_vocab_word(const br_vocab *vocab, int64_t id)
{
    if (BR_LIVE("vocab_word", vocab) && id >= 0 && id < vocab->size)
        return vocab->words[id].text;
    return br_fail(BR_ERROR_INDEX, "vocab_word",
                   "id %" PRId64 " is out of range for a vocabulary of size %" PRId64, id,
                   br_vocab_size(vocab));
}

int64_t br_vocab_size(const br_vocab *vocab)
{
    return BR_LIVE("vocab_size", vocab) ? vocab->size : 0;
}
