/* tests/tensor/test_alloc.c - memory: user-supplied allocators, limits, counters, and failed
 * allocations. */
#include "tensor/debug.h"
#include "tensor/tensor_internal.h"
#include "tests/support.h"
#include "tests/tensor/allocator.h"

#include <brasa/nn.h>
#include <brasa/ops.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <pthread.h>

TestSuite(alloc, .init = check_begin, .fini = check_end);

Test(alloc, every_request_goes_to_the_users_allocator)
{
    counter c = { 0 };
    cr_assert(install(&c));
    br_scope *scope = br_scope_begin();
    int64_t before = c.calls;
    br_tensor *t = br_zeros(BR_SHAPE(3 << 20), BR_F32);
    cr_assert_gt(c.calls, before);
    cr_assert_eq((uintptr_t)br_data(t) % (2 << 20), 0, "large blocks are aligned to huge pages");
    cr_assert_eq((uintptr_t)br_data(br_zeros(BR_SHAPE(3), BR_BOOL)) % 64, 0);
    char *text = br_to_string(t);
    br_free(text);
    br_scope_end(scope);
    uninstall(&c);
}

Test(alloc, allocator_cannot_change_while_blocks_are_held)
{
    counter c = { 0 };
    br_tensor *t = br_retain(br_zeros(BR_SHAPE(1), BR_F32));
    check_fails(install(&c), "set_allocator: 1 live tensors would be freed");
    br_thread_cleanup();
    br_release(t);
    br_scope *scope = br_scope_begin();
    check_fails(install(&c), "set_allocator: a scope is open");
    br_scope_end(scope);
    char *text = br_strdup("held");
    check_fails(install(&c), "1 blocks of modules, lists or strings are still allocated");
    br_free(text);
    check_fails(br_set_allocator(&(br_allocator){ .allocate = count_allocate }),
                "set_allocator: allocate and deallocate are both required");
    cr_assert(install(&c));
    uninstall(&c);
}

/* The memory of freed objects that is set aside must go back to its own allocator. */
Test(alloc, allocator_can_change_after_objects_were_freed)
{
    counter c = { 0 };
    br_module_free(br_linear_new(2, 3, true));
    cr_assert(install(&c), "%s", br_error_message());
    br_module_free(br_linear_new(2, 3, true));
    uninstall(&c);
}

/* The debug mode keeps the memory of freed handles, which must go back to their own allocator. */
Test(alloc, allocator_can_change_in_debug_mode)
{
    br__debug_set(true);
    counter c = { 0 };
    br_module_free(br_linear_new(2, 3, true));
    cr_assert(install(&c), "%s", br_error_message());
    br_module_free(br_linear_new(2, 3, true));
    uninstall(&c);
    br__debug_set(false);
}

/* ---- Failure --------------------------------------------------------------------------------- */

/* Uses every part of tensor/ that allocates. Returns true if all of it succeeded. */
static bool use_tensors(void)
{
    br_scope *outer = br_scope_begin(), *inner = br_scope_begin();
    for (int i = 0; i < 300; i++) /* makes the thread's stack of tensors grow */
        br_scalar(i, BR_F32);
    br_scope *inmost = br_scope_begin();
    br_empty(BR_SHAPE(500000), BR_BOOL);
    br_scope_end(inmost);
    br_empty(BR_SHAPE(100000), BR_BOOL); /* reuses part of the block just freed */
    br_tensor *t = br_randn(BR_SHAPE(70, 40), BR_F32);
    br_tensor *turned =
        t ? br__view_of(t, 2, (int64_t[]){ 40, 70 }, (int64_t[]){ 1, 40 }, 0) : NULL;
    br_tensor *part = t ? br__view_of(t, 2, (int64_t[]){ 20, 70 }, (int64_t[]){ 2, 40 }, 0) : NULL;
    float out[20 * 70];
    bool copied = br_copy_out(part, out, sizeof out);
    br_uniform_(part, 0, 1);
    br_normal_(turned, 0, 1);
    char *text = br_to_string(turned);
    br_borrow(BR_SHAPE(20), BR_F32, out, NULL, NULL);
    br_from_f32(BR_SHAPE(20, 70), out);
    br_free(br_format("%d and %s", 7, "eight"));
    br_release(t ? br__alias(t) : NULL);
    br_scope_return(inner, t);
    br_scope_end(inner);
    bool done = copied && text && t && !br_failed();
    br_free(text);
    br_scope_end(outer);
    return done;
}

/* Each allocation fails in turn, first alone and then with all later ones. */
Test(alloc, failed_allocations_are_reported_and_leak_nothing)
{
    for (int all_after = 0; all_after < 2; all_after++) {
        bool done = false;
        for (int64_t k = 1; !done; k++) {
            counter c = { 0 };
            cr_assert(install(&c), "%s", br_error_message());
            c.fail_at = k;
            c.all_after = all_after;
            int64_t live = br_live_tensors(), bytes = br_live_bytes();
            done = use_tensors();
            /* A failed request for a tensor's elements empties the cache and is tried again, so the
             * run may succeed despite a single failure. */
            cr_assert(done || (br_error_code() == BR_ERROR_MEMORY && c.calls >= k),
                      "allocation %lld: %s", (long long)k, br_error_message());
            cr_assert_eq(done, !br_failed());
            br_clear_error();
            cr_assert_eq(br_live_tensors(), live, "allocation %lld leaks a tensor", (long long)k);
            cr_assert_eq(br_live_bytes(), bytes);
            bool tried = c.calls >= k;
            uninstall(&c);
            if (done && tried) /* recovered from this failure: go on to the next */
                done = false;
            cr_assert_lt(k, 100000);
        }
    }
}

Test(alloc, requests_larger_than_memory_fail)
{
    check_fails(br_empty(BR_SHAPE(INT64_C(1) << 55), BR_F64),
                "empty: cannot allocate 288230376151711744 bytes");
    check_fails(br_malloc(SIZE_MAX / 2), "cannot allocate");
    check_fails(br_calloc(SIZE_MAX, 2), "size overflow");
    cr_assert_eq(br_live_bytes(), check_live_bytes);
    cr_assert(br_zeros(BR_SHAPE(2), BR_F32)); /* the program can continue */
}

/* ---- Limits and counters --------------------------------------------------------------------- */

Test(alloc, the_program_can_continue_after_reaching_the_memory_limit)
{
    br_scope *scope = br_scope_begin();
    br_set_memory_limit((size_t)br_live_bytes() + 1000);
    br_tensor *fits = br_zeros(BR_SHAPE(200), BR_F32);
    cr_assert(fits);
    int64_t live = br_live_bytes(), peak = br_peak_bytes();
    check_fails(
        br_zeros(BR_SHAPE(51), BR_F32),
        "zeros: allocating 204 bytes would exceed the memory limit: 800 of 1000 bytes are in use");
    br_zeros(BR_SHAPE(51), BR_F32);
    cr_assert_eq(br_error_code(), BR_ERROR_MEMORY);
    br_clear_error();
    cr_assert_eq(br_live_bytes(), live);
    cr_assert_eq(br_peak_bytes(), peak);
    cr_assert(br_zeros(BR_SHAPE(50), BR_F32));
    br_scope_end(scope);
    cr_assert(br_zeros(BR_SHAPE(250), BR_F32));
    br_set_memory_limit(0);
    cr_assert(br_zeros(BR_SHAPE(10000), BR_F32));
}

Test(alloc, counters_count_storage_but_not_views)
{
    int64_t bytes = br_live_bytes();
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_zeros(BR_SHAPE(1000), BR_F32);
    br__view_of(t, 1, (int64_t[]){ 10 }, (int64_t[]){ 1 }, 0);
    float mine[4];
    br_borrow(BR_SHAPE(4), BR_F32, mine, NULL, NULL); /* borrowed memory is not counted */
    cr_assert_eq(br_live_bytes(), bytes + 4000);
    br_reset_peak_bytes();
    cr_assert_eq(br_peak_bytes(), bytes + 4000);
    br_scope *inner = br_scope_begin();
    br_zeros(BR_SHAPE(500), BR_F64);
    br_scope_end(inner);
    cr_assert_eq(br_live_bytes(), bytes + 4000);
    cr_assert_eq(br_peak_bytes(), bytes + 8000);
    br_scope_end(scope);
    cr_assert_eq(br_live_bytes(), bytes);
    br_reset_peak_bytes();
    cr_assert_eq(br_peak_bytes(), bytes);
}

Test(alloc, a_failed_request_does_not_change_the_peak)
{
    counter c = { 0 };
    cr_assert(install(&c));
    br_scope *scope = br_scope_begin();
    br_zeros(BR_SHAPE(4), BR_F32);
    br_reset_peak_bytes();
    int64_t peak = br_peak_bytes();
    c.fail_at = 1;
    c.all_after = true;
    check_fails(br_zeros(BR_SHAPE(1000), BR_F32), "cannot allocate");
    cr_assert_eq(br_peak_bytes(), peak);
    c.fail_at = 0;
    br_scope_end(scope);
    uninstall(&c);
}

static void *make_in_thread(void *context)
{
    br_scope *scope = br_scope_begin();
    *(br_tensor **)context = br_retain(br_zeros(BR_SHAPE(10), BR_F32));
    br_scope_end(scope);
    return NULL;
}

/* What a thread allocated counts after its end, until another thread frees it. */
Test(alloc, tensors_of_ended_threads_count)
{
    int64_t bytes = br_live_bytes(), tensors = br_live_tensors();
    br_tensor *t = NULL;
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, make_in_thread, &t), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(br_live_tensors(), tensors + 1);
    cr_assert_eq(br_live_bytes(), bytes + 40);
    br_release(t);
    cr_assert_eq(br_live_tensors(), tensors);
    cr_assert_eq(br_live_bytes(), bytes);
}

/* A thread with a tensor. Waits at the barrier when it has made the tensor, and again before it
 * frees the tensor and ends. */
typedef struct holder {
    pthread_t thread;
    pthread_barrier_t barrier;
} holder;

static void *hold(void *context)
{
    holder *h = context;
    br_scope *scope = br_scope_begin();
    br_zeros(BR_SHAPE(10), BR_F32);
    pthread_barrier_wait(&h->barrier);
    pthread_barrier_wait(&h->barrier);
    br_scope_end(scope);
    br_thread_cleanup();
    return NULL;
}

static void hold_begin(holder *h)
{
    pthread_barrier_init(&h->barrier, NULL, 2);
    cr_assert_eq(pthread_create(&h->thread, NULL, hold, h), 0);
    pthread_barrier_wait(&h->barrier);
}

static void hold_end(holder *h)
{
    pthread_barrier_wait(&h->barrier);
    cr_assert_eq(pthread_join(h->thread, NULL), 0);
    pthread_barrier_destroy(&h->barrier);
}

/* A thread that ends does not change the counts of other threads, in whichever order they end. */
Test(alloc, threads_end_in_any_order)
{
    static const int orders[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 0, 2 }, { 1, 2, 0 } };
    const int64_t tensors = br_live_tensors(), bytes = br_live_bytes();
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        holder holders[3];
        for (int i = 0; i < 3; i++)
            hold_begin(&holders[i]);
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(br_live_tensors(), tensors + 3 - i, "order %d, %d ended", (int)k, i);
            cr_assert_eq(br_live_bytes(), bytes + 40 * (3 - i), "order %d, %d ended", (int)k, i);
            hold_end(&holders[orders[k][i]]);
        }
        cr_assert_eq(br_live_tensors(), tensors);
    }
}
