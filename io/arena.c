/* io/arena.c - an arena for text that is read from files, and the check of UTF-8. */
#include "io/io_internal.h"
#include "tensor/min_max.h"

#include <string.h>
#include <utf8proc.h>

bool br__is_utf8(const char *text, size_t n)
{
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)text;
    for (utf8proc_ssize_t left = (utf8proc_ssize_t)n, length; left > 0; left -= length) {
        utf8proc_int32_t c;
        length = utf8proc_iterate(p, left, &c);
        if (length < 1)
            return false;
        p += length;
    }
    return true;
}

/* ---- Arena ----------------------------------------------------------------------------------- */

struct br_arena_chunk {
    struct br_arena_chunk *next;
    size_t capacity;
    char bytes[];
};

void *br__arena_alloc(br_arena *arena, size_t size)
{
    enum { CHUNK = 1 << 16 };
    if (size > SIZE_MAX - CHUNK)
        return br_fail(BR_ERROR_MEMORY, NULL, "cannot allocate %zu bytes", size);
    size = (size + 7) / 8 * 8;
    if (!arena->chunk || arena->chunk->capacity - arena->used < size) {
        size_t capacity = br__max(size, CHUNK);
        struct br_arena_chunk *chunk = br_malloc(sizeof *chunk + capacity);
        if (!chunk)
            return NULL;
        chunk->next = arena->chunk;
        chunk->capacity = capacity;
        arena->chunk = chunk;
        arena->used = 0;
    }
    void *block = arena->chunk->bytes + arena->used;
    arena->used += size;
    return block;
}

char *br__arena_text(br_arena *arena, const char *text, size_t n)
{
    char *copy = br__arena_alloc(arena, n + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

char *br__arena_join(br_arena *arena, const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    char *joined = br__arena_alloc(arena, n + m + 1);
    if (!joined)
        return NULL;
    memcpy(joined, a, n);
    memcpy(joined + n, b, m + 1);
    return joined;
}

void br__arena_free(br_arena *arena)
{
    while (arena->chunk) {
        struct br_arena_chunk *chunk = arena->chunk;
        arena->chunk = chunk->next;
        br_free(chunk);
    }
    arena->used = 0;
}
