/* nn/cache.c - the keys and values that attention computed for earlier tokens.
 *
 * Buffers grow by half of the needed size at least, so that appending rarely copies more than the
 * new tokens. */
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

#include <brasa/nn/cache.h>
#include <brasa/ops.h>
#include <inttypes.h>

enum { FIRST_ROOM = 64, MAX_SLOTS = 1 << 16 };

/* Keys and values under one number: [B, heads, room, d]. The first `length` tokens are in use. */
typedef struct slot {
    br_tensor *key, *value;
    int64_t length;
} slot;

struct br_cache {
    slot *slots;
    int64_t n_slots, capacity;
};

static const char op[] = "cache";

br_cache *br_cache_new(void)
{
    return br_failed() ? NULL : BR_NEW(br_cache);
}

void br_cache_free(br_cache *cache)
{
    if (!BR_END("cache_free", cache))
        return;
    for (int64_t i = 0; i < cache->n_slots; i++) {
        br_release(cache->slots[i].key);
        br_release(cache->slots[i].value);
    }
    br_free(cache->slots);
    BR_FREE(cache);
}

int64_t br_cache_length(const br_cache *cache)
{
    return BR_LIVE("cache_length", cache) && cache->n_slots > 0 ? cache->slots[0].length : 0;
}

/* Returns the slot with that number, which is created if it is new, or NULL and an error. */
static slot *find_slot(br_cache *cache, int64_t number)
{
    if (number < 0 || number >= MAX_SLOTS)
        return br_fail(BR_ERROR_INDEX, op, "number is %" PRId64 ", must be 0 .. %d", number,
                       MAX_SLOTS - 1);
    while (cache->n_slots <= number) {
        slot *slots = br__grow(cache->slots, &cache->capacity, cache->n_slots, sizeof *slots);
        if (!slots)
            return NULL;
        cache->slots = slots;
        slots[cache->n_slots++] = (slot){ 0 };
    }
    return &cache->slots[number];
}

/* ---- Appending ------------------------------------------------------------------------------- */

/* Checks that `t` matches the cached tensor in dtype and shape, except for the number of tokens. */
static bool fits(const char *name, const br_tensor *there, const br_tensor *t)
{
    bool same = there->dtype == t->dtype;
    for (int i = 0; i < 4; i++)
        same = same && (i == 2 || there->sizes[i] == t->sizes[i]);
    if (!same)
        br_fail(BR_ERROR_SHAPE, op, "%s %s of %s does not match the cached %s of %s", name,
                br__shape(t), br_dtype_name(t->dtype), br__shape(there),
                br_dtype_name(there->dtype));
    return same;
}

static bool check(const slot *s, const br_tensor *key, const br_tensor *value)
{
    if (!br__required(op, "key", key) || !br__required(op, "value", value))
        return false;
    if (key->ndim != 4 || value->ndim != 4 || key->sizes[2] != value->sizes[2])
        return br_fail(BR_ERROR_SHAPE, op,
                       "key %s and value %s must be [B, heads, n, d] with equal n", br__shape(key),
                       br__shape(value));
    if (br_grad_enabled() && (br_requires_grad(key) || br_requires_grad(value)))
        return br_fail(BR_ERROR_STATE, op,
                       "cannot cache keys or values that require grad: turn grad mode off");
    return !s->key || (fits("key", s->key, key) && fits("value", s->value, value));
}

/* Replaces *buffer, which may be NULL, by one with room for `capacity` tokens, with the other sizes
 * and the dtype of t. Copies the first `length` tokens. */
static bool resize(br_tensor **buffer, const br_tensor *t, int64_t length, int64_t capacity)
{
    br_tensor *larger =
        br_new_empty(t, BR_SHAPE(t->sizes[0], t->sizes[1], capacity, t->sizes[3]), t->dtype);
    if (length > 0)
        br_copy_(br_narrow(larger, 2, 0, length), br_narrow(*buffer, 2, 0, length));
    if (br_failed())
        return false;
    br_release(*buffer);
    *buffer = br_retain(larger);
    return true;
}

static bool reserve(slot *s, const br_tensor *key, const br_tensor *value)
{
    int64_t needed = s->length + key->sizes[2], capacity = s->key ? s->key->sizes[2] : 0;
    if (needed <= capacity && s->value)
        return true;
    int64_t more = needed + needed / 2;
    more = br__max(more, FIRST_ROOM);
    /* Values first, because s->key tells how much room there is. */
    return resize(&s->value, value, s->length, more) && resize(&s->key, key, s->length, more);
}

static bool append(slot *s, const br_tensor *key, const br_tensor *value)
{
    int64_t n = key->sizes[2];
    if (!reserve(s, key, value))
        return false;
    br_copy_(br_narrow(s->key, 2, s->length, n), (br_tensor *)key);
    br_copy_(br_narrow(s->value, 2, s->length, n), (br_tensor *)value);
    if (!br_failed())
        s->length += n;
    return !br_failed();
}

bool br_cache_append(br_cache *cache, int64_t number, br_tensor **key, br_tensor **value)
{
    if (!br__required(op, "cache", cache) || !br__required(op, "key", key) ||
        !br__required(op, "value", value))
        return false;
    slot *s = find_slot(cache, number);
    if (!s || !check(s, *key, *value))
        return false;
    br_scope *scope = br_no_grad_begin();
    append(s, *key, *value);
    br_scope_end(scope);
    return br_cache_get(cache, number, key, value);
}

/* ---- Look-up, cropping and the order of rows ------------------------------------------------- */

bool br_cache_get(const br_cache *cache, int64_t number, br_tensor **key, br_tensor **value)
{
    if (br_failed() || !BR_LIVE("cache_get", cache) || number < 0 || number >= cache->n_slots)
        return false;
    const slot *s = &cache->slots[number];
    if (s->length == 0)
        return false;
    *key = br_narrow(s->key, 2, 0, s->length);
    *value = br_narrow(s->value, 2, 0, s->length);
    return !br_failed();
}

bool br_cache_crop(br_cache *cache, int64_t n, int64_t length)
{
    if (br_failed() || (cache && !BR_LIVE("cache_crop", cache)))
        return false;
    if (!cache || n < 0 || length < 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "cache is %s, n is %" PRId64 ", length is %" PRId64
                       ": cache must not be NULL, n and length must not be negative",
                       cache ? "not NULL" : "NULL", n, length);
    for (int64_t i = 0; i < n && i < cache->n_slots; i++)
        if (cache->slots[i].length > length)
            cache->slots[i].length = length;
    return true;
}

/* Changes the order of the rows of a buffer, whose first `length` tokens are in use. */
static bool reorder(br_tensor *buffer, br_tensor *rows, int64_t length)
{
    br_tensor *used = br_narrow(buffer, 2, 0, length), *now = br_index_select(used, 0, rows);
    if (br__failed())
        return false;
    if (now->sizes[0] != buffer->sizes[0])
        return br_fail(BR_ERROR_SHAPE, op,
                       "rows %s must have one element for each of the %" PRId64 " rows",
                       br__shape(rows), buffer->sizes[0]);
    br_copy_(used, now);
    return !br__failed();
}

bool br_cache_reorder(br_cache *cache, br_tensor *rows)
{
    if (!br__required(op, "cache", cache) || !br__required(op, "rows", rows))
        return false;
    br_scope *scope = br_no_grad_begin();
    for (int64_t i = 0; i < cache->n_slots && !br__failed(); i++) {
        slot *s = &cache->slots[i];
        if (s->length > 0 && reorder(s->key, rows, s->length))
            reorder(s->value, rows, s->length);
    }
    br_scope_end(scope);
    return !br__failed();
}
