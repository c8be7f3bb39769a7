/* tensor/extents.h - large blocks of storage, for tensor/blocks.c, whose lock is held in every
 * call. */
#ifndef BR_EXTENTS_H
#define BR_EXTENTS_H

#include "tensor/tensor_internal.h"

/* A part of the arena, or of a large block of the allocator's, in use or kept; together they cover
 * it. */
struct br_extent {
    char *data;
    size_t size;               /* whole pages */
    br_extent *before, *after; /* its neighbours there */
    bool kept;
    bool hollow; /* of kept ones: its memory went back to the system */
};

/* The smallest kept extent of at least `size` bytes, cut if it has much more; or NULL. */
br_extent *br__extent_take(size_t size);
/* One at the end of the arena, which grows for it; NULL if there is no arena or no memory. */
br_extent *br__extent_grow(size_t size);
/* One for a block of the allocator's, whose address the caller sets; NULL if there is no memory to
 * note it. */
br_extent *br__extent_new(size_t size);
/* Ends one that br__extent_new() gave and that got no block. */
void br__extent_end(br_extent *extent);
/* Keeps an extent with its free neighbours for reuse, if no more than `limit` bytes are kept then.
 * What is too much goes back to the system: the arena's at once; a whole block of the allocator's
 * is returned, for the caller to deallocate; parts of such a block are kept all the same. */
void *br__extent_give(br_extent *extent, size_t limit);
/* Gives what is kept back, but for parts of the allocator's blocks of which others are in use. */
void br__extents_empty(void);
/* Bytes kept. */
int64_t br__extents_cached(void);

#endif
