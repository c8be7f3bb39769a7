/* tensor/extents.c - large blocks of storage: extents of one arena, cut and joined again.
 *
 * The arena is a range of addresses as large as the machine's memory, or as half of RLIMIT_AS,
 * whose memory comes from the system as it grows at its end. In one range all free neighbours join,
 * so what served many small requests serves a large one later; blocks that the system hands out one
 * by one serve only what is smaller than they are. A request takes the smallest kept extent that is
 * large enough; one that exceeds it by more than an eighth is cut. Where a program has an allocator
 * of its own, for the address sanitizer, and beyond the arena's end, extents are parts of the
 * allocator's blocks. */
#include "tensor/extents.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static struct {
    br_extent **kept; /* by size, ascending; has room for all extents there are */
    size_t n_kept, n, room;
    br_extent *spare; /* structs to be used again, chained by `after` */
    int64_t cached;   /* bytes kept, hollow ones aside */
} extents;

/* ---- The arena ------------------------------------------------------------------------------- */

static struct {
    bool tried;
    char *begin, *end; /* NULL while there is none */
    char *top;         /* extents reach to here */
    char *high;        /* what was used, and has not gone back, to here */
    char *ready;       /* memory may be used to here */
    br_extent *last;   /* the one that ends at `top`, in use */
} arena;

/* As many as there is memory; of few, as `ulimit -v` has it, half are left to all else. */
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
    madvise(begin, (size_t)(arena.end - begin), MADV_HUGEPAGE); /* a wish: it is for speed */
}

/* Makes the arena longer; false without memory. Huge pages at a time, which are whole pages of any
 * system's. */
static bool lengthen(size_t size)
{
    if (!arena.tried)
        reserve_addresses();
    if (!br__keeps_objects() || size > (size_t)(arena.end - arena.top))
        return false;
    char *top = arena.top + size;
    if (top > arena.ready) {
        size_t more = (size_t)(top - arena.ready), rest = (size_t)(arena.end - arena.ready);
        more = (more + BR_HUGE_PAGE - 1) / BR_HUGE_PAGE * BR_HUGE_PAGE;
        more = more < rest ? more : rest;
        if (mprotect(arena.ready, more, PROT_READ | PROT_WRITE) != 0)
            return false;
        arena.ready += more;
    }
    arena.top = top;
    if (top > arena.high)
        arena.high = top;
    return true;
}

/* Gives memory back, but for pages that reach beyond it. */
static void discard(char *data, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = -(uintptr_t)data % page;
    if (size > before)
        madvise(data + before, (size - before) / page * page, MADV_DONTNEED);
}

/* The same of what lies beyond the last extent. */
static void discard_end(void)
{
    discard(arena.top, (size_t)(arena.ready - arena.top));
    arena.high = arena.top;
}

static bool in_arena(const br_extent *extent)
{
    return extent->data >= arena.begin && extent->data < arena.end;
}

/* ---- Notes of extents ------------------------------------------------------------------------ */

/* Makes room among the kept for one more extent. */
static bool make_room(void)
{
    if (extents.n < extents.room)
        return true;
    size_t room = extents.room ? 2 * extents.room : 64;
    br_extent **kept = br__allocate(room * sizeof(br_extent *), _Alignof(max_align_t));
    if (!kept)
        return false;
    if (extents.kept) {
        memcpy(kept, extents.kept, extents.n_kept * sizeof *kept);
        br__deallocate(extents.kept);
    }
    extents.kept = kept;
    extents.room = room;
    return true;
}

/* Gives back what notes extents, as far as there are none. */
static void end_notes(void)
{
    while (extents.spare) {
        br_extent *extent = extents.spare;
        extents.spare = extent->after;
        br__deallocate(extent);
    }
    if (extents.n == 0 && extents.kept) {
        br__deallocate(extents.kept);
        extents.kept = NULL;
        extents.room = 0;
    }
}

static br_extent *new_extent(char *data, size_t size)
{
    br_extent *extent = extents.spare;
    if (!make_room() || (!extent && !(extent = br__allocate(sizeof *extent, _Alignof(br_extent)))))
        return NULL;
    if (extent == extents.spare)
        extents.spare = extent->after;
    *extent = (br_extent){ .data = data, .size = size };
    extents.n++;
    return extent;
}

static void spare(br_extent *extent)
{
    extent->after = extents.spare;
    extents.spare = extent;
    extents.n--;
}

br_extent *br__extent_new(size_t size)
{
    return new_extent(NULL, size);
}

void br__extent_end(br_extent *extent)
{
    spare(extent);
    if (extents.n == 0)
        end_notes();
}

/* ---- Kept extents ---------------------------------------------------------------------------- */

/* The place of the first kept extent of at least `size` bytes. */
static size_t find_kept(size_t size)
{
    size_t lo = 0, hi = extents.n_kept;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (extents.kept[mid]->size < size)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void keep(br_extent *extent)
{
    size_t i = find_kept(extent->size);
    memmove(&extents.kept[i + 1], &extents.kept[i], (extents.n_kept - i) * sizeof(br_extent *));
    extents.kept[i] = extent;
    extents.n_kept++;
    extents.cached += extent->hollow ? 0 : (int64_t)extent->size;
    extent->kept = true;
}

static void unkeep(br_extent *extent)
{
    size_t i = find_kept(extent->size);
    while (extents.kept[i] != extent)
        i++;
    extents.n_kept--;
    memmove(&extents.kept[i], &extents.kept[i + 1], (extents.n_kept - i) * sizeof(br_extent *));
    extents.cached -= extent->hollow ? 0 : (int64_t)extent->size;
    extent->kept = false;
}

/* Puts an extent behind another, or at the end of the arena. */
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

/* Cuts what exceeds `size` off and keeps it; without memory to note that the extent stays whole. */
static void cut(br_extent *extent, size_t size)
{
    br_extent *rest = new_extent(extent->data + size, extent->size - size);
    if (!rest)
        return;
    rest->hollow = extent->hollow;
    link_after(extent, rest);
    extent->size = size;
    keep(rest);
}

/* Joins an extent with the one behind it, which ends. */
static void join(br_extent *extent)
{
    br_extent *rest = extent->after;
    extent->size += rest->size;
    extent->after = rest->after;
    if (extent->after)
        extent->after->before = extent;
    if (arena.last == rest)
        arena.last = extent;
    spare(rest);
}

br_extent *br__extent_take(size_t size)
{
    size_t i = find_kept(size);
    if (i == extents.n_kept)
        return NULL;
    br_extent *extent = extents.kept[i];
    unkeep(extent);
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

static void hollow_out(br_extent *extent)
{
    discard(extent->data, extent->size);
    extent->hollow = true;
    keep(extent);
}

void *br__extent_give(br_extent *extent, size_t limit)
{
    if (extent->after && extent->after->kept) {
        unkeep(extent->after);
        join(extent);
    }
    if (extent->before && extent->before->kept) {
        extent = extent->before;
        unkeep(extent);
        join(extent);
    }
    extent->hollow = false;
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
        hollow_out(extent);
    else if (too_much && is_whole_block(extent)) {
        block = extent->data;
        br__extent_end(extent);
    } else
        keep(extent);
    return block;
}

void br__extents_empty(void)
{
    size_t n = extents.n_kept;
    extents.n_kept = 0;
    extents.cached = 0;
    for (size_t i = 0; i < n; i++) {
        br_extent *extent = extents.kept[i];
        if (is_whole_block(extent)) {
            br__deallocate(extent->data);
            spare(extent);
        } else if (in_arena(extent) && !extent->hollow)
            hollow_out(extent);
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
