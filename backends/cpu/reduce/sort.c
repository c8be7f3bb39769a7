/* backends/cpu/reduce/sort.c - stable radix sort, in time linear in the number of elements.
 *
 * Elements are first mapped to unsigned integers in the same order, paired with their indices. An
 * LSD radix sort (Knuth, The Art of Computer Programming, vol. 3, section 5.2.5) then distributes
 * the pairs by one byte of the keys after another, from the lowest to the highest: it counts how
 * often each value of the byte occurs, turns the counts into starting places, and copies each pair
 * to its place. Each pass is stable, so after the last one the pairs are sorted by the whole key,
 * and equal elements keep their order. Bytes that all keys share are skipped; short lines use
 * insertion sort. Rows of keys are sorted by a bottom-up merge sort, since their keys are long and
 * rarely read to the end. */
#include "backends/cpu/reduce/sort.h"
#include "tensor/half.h"
#include "tensor/min_max.h"

#include <string.h>

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Defines name_keys(), which maps n elements of a type to entries; a macro because of the type. */
#define KEYS(name, type, key)                                                                 \
    static void name##_keys(int64_t n, const char *x, int64_t stride, br_sort_entry *to)      \
    {                                                                                         \
        for (int64_t i = 0; i < n; i++)                                                       \
            to[i] = (br_sort_entry){ key(*(const type *)(const void *)(x + i * stride)), i }; \
    }

/* Positive floats are in the order of their bits; the sign bit is set to put them above negative
 * ones. The bit patterns of negative floats are in reverse order, so they are inverted. Adding 0
 * turns -0 into 0. */
static inline uint64_t f32_key(float x)
{
    uint32_t bits;
    x += 0;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT32_MAX : bits >> 31 ? (uint32_t)~bits : bits | 0x80000000u;
}

static inline uint64_t f64_key(double x)
{
    uint64_t bits;
    x += 0;
    memcpy(&bits, &x, sizeof bits);
    return x != x ? UINT64_MAX : bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static inline uint64_t i64_key(int64_t x)
{
    return (uint64_t)x ^ (uint64_t)1 << 63;
}

static inline uint64_t own_key(uint8_t x)
{
    return x;
}

static inline uint64_t bf16_key(uint16_t x)
{
    return f32_key(br__from_bf16(x));
}

static inline uint64_t f16_key(uint16_t x)
{
    return f32_key(br__from_f16(x));
}

KEYS(f32, float, f32_key)
KEYS(f64, double, f64_key)
KEYS(i64, int64_t, i64_key)
KEYS(bool, uint8_t, own_key)
KEYS(bf16, uint16_t, bf16_key)
KEYS(f16, uint16_t, f16_key)

/* The distance from the smallest number. */
#define STORED_KEYS(NAME, dtype, torch, min, max)   \
    static inline uint64_t dtype##_key(torch##_t x) \
    {                                               \
        return (uint64_t)((int64_t)x - (min));      \
    }                                               \
    KEYS(dtype, torch##_t, dtype##_key)
BR_STORED_INTEGERS(STORED_KEYS)

#define STORED_TYPE(NAME, dtype, torch, min, max) \
    [BR_##NAME] = { dtype##_keys, sizeof(torch##_t), 0 },
/* clang-format off */
const br_sort_type br__sort_types[BR_DTYPES] = {
    [BR_F32] = { f32_keys, 4, UINT32_MAX },
    [BR_F64] = { f64_keys, 8, UINT64_MAX },
    [BR_I64] = { i64_keys, 8, 0 },
    [BR_BOOL] = { bool_keys, 1, 0 },
    [BR_BF16] = { bf16_keys, 4, UINT32_MAX },
    [BR_F16] = { f16_keys, 4, UINT32_MAX },
    BR_STORED_INTEGERS(STORED_TYPE)
};
/* clang-format on */

/* ---- Sorting --------------------------------------------------------------------------------- */

/* For up to INSERTION_SORT_MAX elements, clearing and adding up RADIX counts for each byte would
 * take longer than insertion sort. */
enum { INSERTION_SORT_MAX = 48, RADIX = 256 };

static void insertion_sort(int64_t n, br_sort_entry *e)
{
    for (int64_t i = 1; i < n; i++) {
        br_sort_entry entry = e[i];
        int64_t k = i;
        for (; k > 0 && e[k - 1].key > entry.key; k--)
            e[k] = e[k - 1];
        e[k] = entry;
    }
}

/* Distributes the entries by one byte of their keys. Returns false, and does nothing, if that byte
 * is the same in all keys. */
static bool distribute(int64_t n, const br_sort_entry *from, br_sort_entry *to, int shift)
{
    int64_t place[RADIX] = { 0 }, start = 0;
    for (int64_t i = 0; i < n; i++)
        place[from[i].key >> shift & (RADIX - 1)]++;
    if (place[from[0].key >> shift & (RADIX - 1)] == n)
        return false;
    for (int r = 0; r < RADIX; r++) {
        int64_t count = place[r];
        place[r] = start;
        start += count;
    }
    for (int64_t i = 0; i < n; i++)
        to[place[from[i].key >> shift & (RADIX - 1)]++] = from[i];
    return true;
}

br_sort_entry *br__sort(int64_t n, br_sort_entry *entries, br_sort_entry *spare, int bytes,
                        bool descending)
{
    for (int64_t i = 0; descending && i < n; i++)
        entries[i].key = ~entries[i].key;
    if (n <= INSERTION_SORT_MAX) {
        insertion_sort(n, entries);
        return entries;
    }
    for (int shift = 0; shift < 8 * bytes; shift += 8) {
        if (!distribute(n, entries, spare, shift))
            continue;
        br_sort_entry *sorted = spare;
        spare = entries;
        entries = sorted;
    }
    return entries;
}

/* ---- The first entries ----------------------------------------------------------------------- */

/* Returns whether a comes after b in the order of keys and, for equal keys, of indices. */
static bool is_after(const br_sort_entry *a, const br_sort_entry *b)
{
    return a->key != b->key ? a->key > b->key : a->index > b->index;
}

/* Restores the heap of n entries, whose root is the last one in the order, below entry i. */
static void sink(int64_t n, br_sort_entry *heap, int64_t i)
{
    const br_sort_entry sinking = heap[i];
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && is_after(&heap[child + 1], &heap[child]))
            child++;
        if (!is_after(&heap[child], &sinking))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = sinking;
}

/* Most entries are only compared with the root of the heap, the last one of those kept so far. */
void br__sort_first(int64_t n, br_sort_entry *entries, int64_t count, bool descending)
{
    for (int64_t i = 0; descending && i < n; i++)
        entries[i].key = ~entries[i].key;
    for (int64_t i = count / 2 - 1; i >= 0; i--)
        sink(count, entries, i);
    for (int64_t i = count; i < n; i++)
        if (is_after(&entries[0], &entries[i])) {
            entries[0] = entries[i];
            sink(count, entries, 0);
        }
    for (int64_t last = count - 1; last > 0; last--) {
        const br_sort_entry root = entries[0];
        entries[0] = entries[last];
        entries[last] = root;
        sink(last, entries, 0);
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Returns whether row a is before row b in lexicographic order. */
static bool is_before(const br_sort_entry *a, const br_sort_entry *b, int64_t width)
{
    int64_t i = 0;
    while (i < width && a[i].key == b[i].key)
        i++;
    return i < width && a[i].key < b[i].key;
}

/* Merges the sorted halves from[0 .. half - 1] and from[half .. n - 1]. */
static void merge(int64_t n, int64_t half, int64_t width, const br_sort_entry *keys,
                  const int64_t *from, int64_t *to)
{
    int64_t a = 0, b = half;
    for (int64_t i = 0; i < n; i++) {
        bool second = a == half ||
                      (b < n && is_before(keys + from[b] * width, keys + from[a] * width, width));
        to[i] = from[second ? b++ : a++];
    }
}

void br__sort_rows(int64_t n, int64_t width, const br_sort_entry *keys, int64_t *order,
                   int64_t *spare)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t half = 1; half < n; half *= 2) {
        for (int64_t first = 0; first < n; first += 2 * half) {
            int64_t rest = n - first, some = br__min(rest, 2 * half);
            merge(some, br__min(some, half), width, keys, order + first, spare + first);
        }
        memcpy(order, spare, (size_t)n * sizeof *order);
    }
}
