/* tensor/extents.c - large storage blocks: extents of one arena, split and merged.
 *
 * The arena is a reserved range of addresses as large as the machine's memory, or as half of
 * RLIMIT_AS. Its memory is committed as it grows at its end. Free neighbours in this single range
 * are merged, so memory that served many small requests can serve a large one later. Blocks that
 * were allocated separately could not be merged. A request uses the smallest cached extent that is
 * large enough; an extent larger by more than an eighth is split. If the program sets its own
 * allocator, if AddressSanitizer is enabled, or when the arena is full, extents are parts of blocks
 * from the allocator instead. */
#include "tensor/extents.h"
#include "tensor/min_max.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static struct {
    br_extent **by_size; /* cached extents sorted by size; has room for all extents */
    size_t n_cached, n, capacity;
    br_extent *free_structs; /* unused structs, linked by `after` */
    int64_t cached;          /* cached bytes, not counting decommitted extents */
} extents;

/* ---- The arena ------------------------------------------------------------------------------- */

static struct {
    bool tried;
    char *begin, *end; /* NULL without an arena */
    char *top;         /* end of the last extent */
    char *high;        /* end of the memory that was used and not decommitted */
    char *ready;       /* end of the accessible memory (mprotect) */
    br_extent *last;   /* the extent in use that ends at `top` */
} arena;

/* Returns the number of addresses to reserve: as many as there is RAM, or half of the `ulimit -v`
 * budget if that is smaller. */
static size_t how_many_addresses(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (size_t)sysconf(_SC_PHYS_PAGES) * page;
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur / 2 < size)
        size = limit.rlim_cur / 2 / page * page;
    return size;
}

static void reserve_addresses(void)
{
    size_t size = how_many_addresses();
    char *begin = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    arena.tried = true;
    if (begin == MAP_FAILED)
        return;
    arena.end = begin + size;
    begin += -(uintptr_t)begin % BR_HUGE_PAGE;
    arena.begin = arena.top = arena.high = arena.ready = begin;
    madvise(begin, (size_t)(arena.end - begin), MADV_HUGEPAGE); /* only a hint, for speed */
}

/* Extends the arena by `size` bytes; returns false if there is no memory. Memory is made accessible
 * in units of huge pages, which are whole pages on any system. */
static bool lengthen(size_t size)
{
    if (!arena.tried)
        reserve_addresses();
    if (!br__caches_objects() || size > (size_t)(arena.end - arena.top))
        return false;
    char *top = arena.top + size;
    if (top > arena.ready) {
        size_t more = (size_t)(top - arena.ready), rest = (size_t)(arena.end - arena.ready);
        more = (more + BR_HUGE_PAGE - 1) / BR_HUGE_PAGE * BR_HUGE_PAGE;
        more = br__min(more, rest);
        if (mprotect(arena.ready, more, PROT_READ | PROT_WRITE) != 0)
            return false;
        arena.ready += more;
    }
    arena.top = top;
    if (top > arena.high)
        arena.high = top;
    return true;
}

/* Decommits the pages that lie entirely inside the range. */
static void discard(char *data, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = -(uintptr_t)data % page;
    if (size > before)
        madvise(data + before, (size - before) / page * page, MADV_DONTNEED);
}

/* Decommits the memory beyond the last extent. */
static void discard_end(void)
{
    discard(arena.top, (size_t)(arena.ready - arena.top));
    arena.high = arena.top;
}

static bool in_arena(const br_extent *extent)
{
    return extent->data >= arena.begin && extent->data < arena.end;
}

/* ---- Structs of extents ---------------------------------------------------------------------- */

/* Makes room in the array of cached extents for one more. */
static bool reserve(void)
{
    if (extents.n < extents.capacity)
        return true;
    size_t capacity = extents.capacity ? 2 * extents.capacity : 64;
    br_extent **by_size = br__allocate(capacity * sizeof(br_extent *), _Alignof(max_align_t));
    if (!by_size)
        return false;
    if (extents.by_size) {
        memcpy(by_size, extents.by_size, extents.n_cached * sizeof *by_size);
        br__deallocate(extents.by_size);
    }
    extents.by_size = by_size;
    extents.capacity = capacity;
    return true;
}

/* Frees the unused structs, and the array if there are no extents. */
static void end_notes(void)
{
    while (extents.free_structs) {
        br_extent *extent = extents.free_structs;
        extents.free_structs = extent->after;
        br__deallocate(extent);
    }
    if (extents.n == 0 && extents.by_size) {
        br__deallocate(extents.by_size);
        extents.by_size = NULL;
        extents.capacity = 0;
    }
}

static br_extent *new_extent(char *data, size_t size)
{
    br_extent *extent = extents.free_structs;
    if (!reserve() || (!extent && !(extent = br__allocate(sizeof *extent, _Alignof(br_extent)))))
        return NULL;
    if (extent == extents.free_structs)
        extents.free_structs = extent->after;
    *extent = (br_extent){ .data = data, .size = size };
    extents.n++;
    return extent;
}

static void free_struct(br_extent *extent)
{
    extent->after = extents.free_structs;
    extents.free_structs = extent;
    extents.n--;
}

br_extent *br__extent_new(size_t size)
{
    return new_extent(NULL, size);
}

void br__extent_end(br_extent *extent)
{
    free_struct(extent);
    if (extents.n == 0)
        end_notes();
}

/* ---- Cached extents -------------------------------------------------------------------------- */

/* Returns the index of the first cached extent of at least `size` bytes. */
static size_t find_cached(size_t size)
{
    size_t lo = 0, hi = extents.n_cached;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (extents.by_size[mid]->size < size)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void keep(br_extent *extent)
{
    size_t i = find_cached(extent->size);
    memmove(&extents.by_size[i + 1], &extents.by_size[i],
            (extents.n_cached - i) * sizeof(br_extent *));
    extents.by_size[i] = extent;
    extents.n_cached++;
    extents.cached += extent->decommitted ? 0 : (int64_t)extent->size;
    extent->is_cached = true;
}

static void remove_cached(br_extent *extent)
{
    size_t i = find_cached(extent->size);
    while (extents.by_size[i] != extent)
        i++;
    extents.n_cached--;
    memmove(&extents.by_size[i], &extents.by_size[i + 1],
            (extents.n_cached - i) * sizeof(br_extent *));
    extents.cached -= extent->decommitted ? 0 : (int64_t)extent->size;
    extent->is_cached = false;
}

/* Inserts an extent after another, or at the end of the arena. */
static void link_after(br_extent *before, br_extent *extent)
{
    extent->before = before;
    extent->after = before ? before->after : NULL;
    if (extent->after)
        extent->after->before = extent;
    if (before)
        before->after = extent;
    if (arena.last == before)
        arena.last = extent;
}

/* Splits off the part beyond `size` and caches it. If there is no memory for the new struct, the
 * extent stays whole. */
static void cut(br_extent *extent, size_t size)
{
    br_extent *rest = new_extent(extent->data + size, extent->size - size);
    if (!rest)
        return;
    rest->decommitted = extent->decommitted;
    link_after(extent, rest);
    extent->size = size;
    keep(rest);
}

/* Merges the next extent into this one and frees its struct. */
static void join(br_extent *extent)
{
    br_extent *rest = extent->after;
    extent->size += rest->size;
    extent->after = rest->after;
    if (extent->after)
        extent->after->before = extent;
    if (arena.last == rest)
        arena.last = extent;
    free_struct(rest);
}

br_extent *br__extent_reuse(size_t size)
{
    size_t i = find_cached(size);
    if (i == extents.n_cached)
        return NULL;
    br_extent *extent = extents.by_size[i];
    remove_cached(extent);
    if (extent->size > size + size / 8)
        cut(extent, size);
    return extent;
}

br_extent *br__extent_grow(size_t size)
{
    br_extent *extent = new_extent(NULL, size);
    if (extent && !lengthen(size)) {
        br__extent_end(extent);
        return NULL;
    }
    if (extent) {
        extent->data = arena.top - size;
        link_after(arena.last, extent);
    }
    return extent;
}

static bool is_whole_block(const br_extent *extent)
{
    return !extent->before && !extent->after && !in_arena(extent);
}

static void decommit(br_extent *extent)
{
    discard(extent->data, extent->size);
    extent->decommitted = true;
    keep(extent);
}

void *br__extent_release(br_extent *extent, size_t limit)
{
    if (extent->after && extent->after->is_cached) {
        remove_cached(extent->after);
        join(extent);
    }
    if (extent->before && extent->before->is_cached) {
        extent = extent->before;
        remove_cached(extent);
        join(extent);
    }
    extent->decommitted = false;
    bool too_much = (size_t)br__extents_cached() + extent->size > limit;
    void *block = NULL;
    if (extent == arena.last) {
        arena.top = extent->data;
        arena.last = extent->before;
        if (arena.last)
            arena.last->after = NULL;
        br__extent_end(extent);
        if (too_much)
            discard_end();
    } else if (too_much && in_arena(extent))
        decommit(extent);
    else if (too_much && is_whole_block(extent)) {
        block = extent->data;
        br__extent_end(extent);
    } else
        keep(extent);
    return block;
}

void br__extents_empty(void)
{
    size_t n = extents.n_cached;
    extents.n_cached = 0;
    extents.cached = 0;
    for (size_t i = 0; i < n; i++) {
        br_extent *extent = extents.by_size[i];
        if (is_whole_block(extent)) {
            br__deallocate(extent->data);
            free_struct(extent);
        } else if (in_arena(extent) && !extent->decommitted)
            decommit(extent);
        else
            keep(extent);
    }
    discard_end();
    end_notes();
}

int64_t br__extents_cached(void)
{
    return extents.cached + (arena.high - arena.top);
}
