/* tensor/extents.h - large storage blocks, for tensor/blocks.c, which must hold its lock during
 * every call. */
#ifndef BR_EXTENTS_H
#define BR_EXTENTS_H

#include "tensor/tensor_internal.h"

/* A part of the arena, or of a large block from the allocator, in use or cached. Extents cover all
 * of the arena up to its top, and all of each block. */
struct br_extent {
    char *data;
    size_t size;               /* a multiple of the page size */
    br_extent *before, *after; /* adjacent extents */
    bool is_cached;
    bool decommitted; /* cached, but its memory was decommitted */
};

/* Returns the smallest cached extent of at least `size` bytes, split if it is much larger, or
 * NULL. */
br_extent *br__extent_reuse(size_t size);
/* Returns an extent at the end of the arena, which grows. Returns NULL if there is no arena or no
 * memory. */
br_extent *br__extent_grow(size_t size);
/* Returns an extent for a block from the allocator, whose address the caller sets. Returns NULL if
 * there is no memory for the extent's struct. */
br_extent *br__extent_new(size_t size);
/* Frees an extent from br__extent_new() that got no block. */
void br__extent_end(br_extent *extent);
/* Merges an extent with its free neighbours and caches the result, unless more than `limit` bytes
 * would then be cached. In that case, memory of the arena is decommitted, a whole block of the
 * allocator is returned for the caller to deallocate, and a part of such a block is cached
 * anyway. */
void *br__extent_release(br_extent *extent, size_t limit);
/* Frees all cached memory, except parts of the allocator's blocks that are partly in use. */
void br__extents_empty(void);
/* Returns the number of cached bytes. */
int64_t br__extents_cached(void);

#endif
