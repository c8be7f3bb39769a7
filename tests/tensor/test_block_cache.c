/* tests/tensor/test_block_cache.c - freed memory is cached and used again, up to a limit. */
#include "tensor/tensor_internal.h"
#include "tests/support.h"
#include "tests/tensor/allocator.h"

#include <brasa/ops.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(block_cache, .init = check_begin, .fini = check_end);

/* Creates and frees a tensor of the given number of bytes. Returns the address that its elements
 * had. */
static void *place(int64_t bytes)
{
    br_scope *scope = br_scope_begin();
    void *data = br_data(br_empty(BR_SHAPE(bytes), BR_BOOL));
    br_scope_end(scope);
    return data;
}

Test(block_cache, freed_blocks_are_reused)
{
    br_empty_cache();
    const int64_t sizes[] = { 1000, 1025, 5000, 65536, 65537, 1 << 20, 5 << 20 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        cr_assert_eq(place(sizes[i]), place(sizes[i]), "%lld bytes", (long long)sizes[i]);
    cr_assert_gt(br_cached_bytes(), 5 << 20);
    br_empty_cache();
    cr_assert_eq(br_cached_bytes(), 0);

    void *large = place(900000);
    cr_assert_eq(place(820000), large, "a block that is up to an eighth too large is reused");
    cr_assert_eq(br_cached_bytes(), (900000 + 4095) / 4096 * 4096);
    br_empty_cache();
}

enum { MB = 1 << 20 };

/* Returns a tensor of the given size in MB whose bytes are all 1. The caller owns it. */
static br_tensor *filled(int64_t megabytes)
{
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_retain(br_ones(BR_SHAPE(megabytes * MB), BR_BOOL));
    br_scope_end(scope);
    return t;
}

Test(block_cache, adjacent_free_blocks_are_joined_for_a_larger_request)
{
    if (!br__caches_objects())
        cr_skip_test("AddressSanitizer replaces the arena");
    br_empty_cache();
    br_tensor *t[5];
    for (int i = 0; i < 5; i++)
        t[i] = filled(1);
    void *second = br_data(t[1]);
    for (int i = 1; i < 4; i++)
        br_release(t[i]);
    cr_assert_eq(br_cached_bytes(), 3 * MB);
    cr_assert_eq(place(3 * MB), second);
    cr_assert_eq(br_cached_bytes(), 3 * MB);
    void *behind = place(4 * MB);
    cr_assert_gt((char *)behind, (char *)br_data(t[4]), "the free blocks are too small");
    br_release(t[0]);
    br_release(t[4]);
    cr_assert_eq(br_cached_bytes(), (5 + 4) * MB);
    cr_assert_eq(place(9 * MB), (char *)second - MB, "all blocks have been joined");
    br_empty_cache();
    cr_assert_eq(br_cached_bytes(), 0);
}

static bool all_ones(const br_tensor *t)
{
    const char *data = t->data;
    int64_t i = 0;
    while (i < t->numel && data[i] == 1)
        i++;
    return i == t->numel;
}

/* Returns true if the tensor's pages read as zero, as decommitted pages do. */
static bool is_new(const br_tensor *t)
{
    int64_t i = 0;
    while (i < t->numel && t->data[i] == 0)
        i += 4096;
    return i >= t->numel;
}

/* Free memory between blocks in use is decommitted (returned to the system), and can be used again.
 */
Test(block_cache, free_memory_between_blocks_in_use_is_decommitted)
{
    if (!br__caches_objects())
        cr_skip_test("AddressSanitizer replaces the arena");
    br_empty_cache();
    for (int limited = 0; limited < 2; limited++) {
        br_tensor *first = filled(1), *between = filled(6), *last = filled(1);
        char *data = br_data(between);
        if (limited)
            br_set_cache_limit(2 * MB);
        br_release(between);
        cr_assert_eq(br_cached_bytes(), limited ? 0 : 6 * MB);
        br_empty_cache();
        cr_assert_eq(br_cached_bytes(), 0);
        between = br_retain(br_empty(BR_SHAPE(4 * MB), BR_BOOL));
        cr_assert_eq(br_data(between), data);
        cr_assert(is_new(between));
        cr_assert_eq(br_cached_bytes(), 0, "the remaining 2 MB are still decommitted");
        cr_assert(all_ones(first) && all_ones(last));
        br_thread_cleanup();
        br_release(between);
        br_release(first);
        br_release(last);
        cr_assert_eq(br_cached_bytes(), limited ? 0 : 8 * MB);
        br_set_cache_limit(SIZE_MAX);
        br_empty_cache();
        cr_assert_eq(br_cached_bytes(), 0);
        cr_assert(is_new(br_empty(BR_SHAPE(8 * MB), BR_BOOL)),
                  "memory at the end of the arena is decommitted, too");
        br_thread_cleanup();
        br_empty_cache();
    }
}

static void limit_addresses(rlim_t bytes)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = bytes;
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

/* Under RLIMIT_AS the arena reserves half of the allowed addresses. A block that does not fit into
 * the arena is allocated separately. */
Test(block_cache, limited_address_space)
{
    if (!br__caches_objects())
        cr_skip_test("AddressSanitizer reserves its own address space");
    br_empty_cache();
    limit_addresses((rlim_t)2 << 30);
    br_scope *scope = br_scope_begin();
    br_tensor *first = br_empty(BR_SHAPE(600 * MB), BR_BOOL), *next = filled(1);
    br_tensor *beyond = br_empty(BR_SHAPE(600 * MB), BR_BOOL);
    check_ok();
    cr_assert_eq(br_data(next), (char *)br_data(first) + 600 * MB);
    cr_assert_neq(br_data(beyond), (char *)br_data(next) + MB);
    check_fails(br_empty(BR_SHAPE(INT64_C(4) << 30), BR_BOOL), "cannot allocate 4294967296 bytes");
    br_scope_end(scope);
    br_release(next);
    br_empty_cache();
    cr_assert_eq(br_cached_bytes(), 0);
}

/* If the arena cannot be reserved at all, every block is allocated separately. */
Test(block_cache, no_address_space_for_the_arena)
{
    br_empty_cache();
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    cr_assert(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    limit_addresses((rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + 64 * MB);
    br_tensor *t = filled(40), *other = filled(1);
    cr_assert(all_ones(t) && all_ones(other));
    cr_assert_neq(br_data(other), (char *)br_data(t) + 40 * MB);
    check_fails(br_empty(BR_SHAPE(INT64_C(4) << 30), BR_BOOL), "cannot allocate 4294967296 bytes");
    br_release(t);
    cr_assert_eq(br_cached_bytes(), 40 * MB);
    br_empty_cache();
    cr_assert_eq(br_cached_bytes(), 0);
    br_release(other);
}

/* A block that is much larger than the request is split. Its parts serve other requests, and are
 * joined again when they are free. */
Test(block_cache, large_blocks_are_split_and_joined_again)
{
    counter c = { 0 };
    cr_assert(install(&c));
    char *block = place(8 * MB);
    int64_t large = c.large, parts = 0;
    br_scope *scope = br_scope_begin();
    for (; parts < 8; parts++) {
        char *part = br_data(br_full(BR_SHAPE(MB), (double)(parts % 2), BR_BOOL));
        cr_assert_eq(part, block + parts * MB);
        cr_assert_eq(br_cached_bytes(), (7 - parts) * MB);
    }
    br_empty_cache();
    cr_assert_eq(br_cached_bytes(), 0);
    br_scope_end(scope);
    cr_assert_eq(br_cached_bytes(), 8 * MB);
    cr_assert_eq(place(8 * MB), block, "the parts have been joined");
    cr_assert_eq(c.large, large);
    uninstall(&c);
}

Test(block_cache, smaller_sizes_reuse_the_blocks_of_larger_ones)
{
    counter c = { 0 };
    cr_assert(install(&c));
    for (int64_t n = 64; n > 4; n--) {
        br_scope *scope = br_scope_begin();
        for (int i = 0; i < 4; i++)
            br_empty(BR_SHAPE(n, 40000 + 10000 * i), BR_F32);
        br_scope_end(scope);
    }
    cr_assert_eq(c.large, 4);
    cr_assert_leq(br_cached_bytes(), 64 * 4 * (40000 + 50000 + 60000 + 70000) + 4 * 4096);
    uninstall(&c);
}

/* A block is freed only as a whole, so its free parts may exceed the cache limit. */
Test(block_cache, the_cache_limit_frees_only_whole_blocks)
{
    counter c = { 0 };
    cr_assert(install(&c));
    place(1000000);
    br_tensor *first = br_retain(br_empty(BR_SHAPE(300000), BR_BOOL));
    br_tensor *second = br_retain(br_empty(BR_SHAPE(300000), BR_BOOL));
    br_set_cache_limit(0);
    br_thread_cleanup();
    br_release(first);
    cr_assert_gt(br_cached_bytes(), 600000);
    br_release(second);
    cr_assert_eq(br_cached_bytes(), 0);
    br_set_cache_limit(SIZE_MAX);
    uninstall(&c);
}

/* The storage and the tensor object of a small tensor may swap addresses. */
Test(block_cache, small_tensors_reuse_the_same_memory)
{
    if (br__debug)
        cr_skip_test("the debug mode keeps the memory of ended scopes");
    br_empty_cache();
    const int64_t sizes[] = { 0, 1, 64, 65, 300, 960 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const void *first = place(sizes[i]), *second = place(sizes[i]);
        for (int k = 0; k < 3; k++) {
            const void *again = place(sizes[i]);
            cr_assert(again == first || again == second, "%lld bytes", (long long)sizes[i]);
        }
    }
}

static void *make_and_end(void *unused)
{
    (void)unused;
    br_tensor *t = br_retain(br_empty(BR_SHAPE(10), BR_F32));
    br_thread_cleanup();
    return t;
}

/* A thread's tensors are still counted after the thread has ended, and another thread may free
 * them.
 */
Test(block_cache, a_tensor_outlives_its_thread)
{
    int64_t tensors = br_live_tensors(), bytes = br_live_bytes();
    pthread_t thread;
    void *made;
    cr_assert_eq(pthread_create(&thread, NULL, make_and_end, NULL), 0);
    cr_assert_eq(pthread_join(thread, &made), 0);
    cr_assert_not_null(made);
    cr_assert_eq(br_live_tensors(), tensors + 1);
    cr_assert_eq(br_live_bytes(), bytes + 40);
    br_release(made);
    cr_assert_eq(br_live_tensors(), tensors);
    cr_assert_eq(br_live_bytes(), bytes);
}

/* The peak counts small tensors exactly, even after a larger tensor has raised it. */
Test(block_cache, the_peak_counts_small_tensors)
{
    br_scope *scope = br_scope_begin();
    br_reset_peak_bytes();
    int64_t before = br_peak_bytes();
    for (int i = 0; i < 3; i++) {
        br_scope *inner = br_scope_begin();
        br_empty(BR_SHAPE(100), BR_F32);
        br_scope_end(inner);
    }
    cr_assert_eq(br_peak_bytes(), before + 400);
    br_empty(BR_SHAPE(100000), BR_F32);
    br_empty(BR_SHAPE(100), BR_F32);
    cr_assert_eq(br_peak_bytes(), before + 400400);
    br_scope_end(scope);
    cr_assert_eq(br_peak_bytes(), before + 400400);
}

Test(block_cache, many_large_blocks_are_kept)
{
    counter c = { 0 };
    cr_assert(install(&c));
    for (int round = 0; round < 2; round++) {
        br_scope *scope = br_scope_begin();
        int64_t before = c.calls;
        for (int64_t i = 0; i < 300; i++) /* the second round reuses the blocks of the first */
            cr_assert(br_empty(BR_SHAPE(4096 * (17 + (i * 7) % 300)), BR_BOOL));
        int64_t blocks = c.calls - before;
        cr_assert(round == 0 ? blocks >= 300 : blocks < 2 * 300 + 10, "%lld", (long long)blocks);
        br_scope_end(scope);
        cr_assert_eq(br_cached_bytes(), INT64_C(4096) * (17 * 300 + 300 * 299 / 2));
    }
    uninstall(&c);
}

Test(block_cache, size_classes_waste_at_most_a_quarter)
{
    for (size_t bytes = 0; bytes <= 70000; bytes += 1 + bytes / 500) {
        br_extent *extent;
        void *block = br__block_alloc("test", bytes, &extent);
        size_t capacity = br__block_size(bytes, extent);
        cr_assert_geq(capacity, bytes);
        cr_assert(capacity <= 64 || capacity <= bytes + bytes / 4 + 64, "%zu for %zu", capacity,
                  bytes);
        memset(block, 1, bytes);
        br__block_free(block, bytes, extent);
    }
}

Test(block_cache, the_cache_limit_bounds_the_cached_bytes)
{
    br_empty_cache();
    br_set_cache_limit(100000);
    place(80000);
    cr_assert_eq(br_cached_bytes(), 81920);
    br_scope *scope = br_scope_begin();
    br_empty(BR_SHAPE(80000), BR_BOOL);
    br_empty(BR_SHAPE(60000), BR_BOOL);
    br_scope_end(scope); /* the limit has room for only one of them */
    cr_assert_leq(br_cached_bytes(), 100000);
    cr_assert_gt(br_cached_bytes(), 0);
    br_set_cache_limit(0);
    cr_assert_eq(br_cached_bytes(), 0);
    place(80000);
    place(10);
    cr_assert_eq(br_cached_bytes(), 0);
    br_set_cache_limit(SIZE_MAX);
    place(80000);
    cr_assert_eq(br_cached_bytes(), 81920);
    br_empty_cache();
}

/* Allocates and frees many sizes in random order. Blocks must never overlap, and must keep their
 * contents while free blocks are returned to the system. At the end the counters must have their
 * initial values. */
Test(block_cache, random_use_keeps_blocks_apart)
{
    enum { HELD = 200 };
    struct {
        unsigned char *block;
        size_t bytes;
        br_extent *extent;
    } held[HELD] = { { 0 } };
    bool in_arena =
        br__caches_objects(); /* otherwise free parts of larger blocks may stay cached */
    br_manual_seed(12);
    for (int step = 0; step < 20000; step++) {
        uint32_t i = br_random_u32() % HELD;
        for (size_t k = 0; held[i].block && k < held[i].bytes; k += 1 + held[i].bytes / 16)
            cr_assert_eq(held[i].block[k], (unsigned char)i);
        if (held[i].block)
            br__block_free(held[i].block, held[i].bytes, held[i].extent);
        held[i].bytes = (size_t)1 << (br_random_u32() % 19);
        held[i].bytes += br_random_u32() % held[i].bytes;
        held[i].block = br__block_alloc("test", held[i].bytes, &held[i].extent);
        cr_assert(held[i].block && br__block_size(held[i].bytes, held[i].extent) >= held[i].bytes);
        memset(held[i].block, (int)i, held[i].bytes);
        if (step % 1000 == 0)
            br_empty_cache();
        if (step == 10000)
            br_set_cache_limit(8 * MB);
        cr_assert(!in_arena || step % 1000 > 0 || br_cached_bytes() == 0);
        cr_assert(!in_arena || step < 10000 || br_cached_bytes() <= 8 * MB);
    }
    br_set_cache_limit(SIZE_MAX);
    for (int i = 0; i < HELD; i++)
        if (held[i].block)
            br__block_free(held[i].block, held[i].bytes, held[i].extent);
    cr_assert_eq(br_live_bytes(), check_live_bytes);
    br_empty_cache();
    cr_assert_eq(br_cached_bytes(), 0, "all parts have been joined and freed");
}
