/* A long training run allocates memory in its first two steps, and none after that. */
#include "tensor/handles.h"
#include "tests/support.h"

#include <brasa/brasa.h>
#include <malloc.h>

TestSuite(steady, .init = check_begin, .fini = check_end);

typedef struct run {
    br_architecture_encoder_decoder *model;
    br_optim *adam;
    br_tensor *source, *target, *target_y, *source_mask, *target_mask;
} run;

static void begin(run *r, int64_t batch)
{
    br_architecture_config config = { .hidden_size = 32,
                                      .intermediate_size = 64,
                                      .num_hidden_layers = 2,
                                      .num_attention_heads = 4,
                                      .vocab_size = 20,
                                      .max_position_embeddings = 10,
                                      .hidden_dropout_prob = 0.1,
                                      .add_attention = true };
    br_manual_seed(1);
    r->model = br_architecture_encoder_decoder_new(&config);
    r->adam = br_adam(br_base(r->model), NULL);
    r->source = br_randint(1, 20, BR_SHAPE(batch, 10));
    r->target = br_narrow(r->source, 1, 0, 9);
    r->target_y = br_flatten(br_narrow(r->source, 1, 1, 9), 0, 1);
    r->source_mask = br_architecture_source_mask(r->source);
    r->target_mask = br_architecture_create_mask(batch, 9);
}

static void step(run *r)
{
    br_scope *scope = br_scope_begin();
    br_optim_zero_grad(r->adam);
    br_tensor *logits = br_architecture_encoder_decoder_forward(r->model, r->source, r->target,
                                                                r->source_mask, r->target_mask);
    br_backward(br_cross_entropy(br_flatten(logits, 0, 1), r->target_y, NULL));
    br_optim_step(r->adam);
    br_scope_end(scope);
}

static void end(run *r)
{
    br_optim_free(r->adam);
    br_module_free(r->model);
}

static int64_t requests;

static void *count_and_allocate(void *context, size_t size, size_t alignment)
{
    (void)context;
    void *block = NULL;
    requests +=
        alignment >= 64; /* storage; with a custom allocator, other objects are not cached */
    return posix_memalign(&block, alignment < 16 ? 16 : alignment, size) == 0 ? block : NULL;
}

static void deallocate(void *context, void *block)
{
    (void)context;
    free(block);
}

Test(steady, after_two_steps_no_storage_is_allocated)
{
    br_allocator counting = { count_and_allocate, deallocate, NULL };
    cr_assert(br_set_allocator(&counting), "%s", br_error_message());
    br_scope *scope = br_scope_begin();
    run r;
    begin(&r, 8);
    step(&r);
    step(&r);
    requests = 0;
    for (int i = 0; i < 10; i++)
        step(&r);
    cr_assert_eq(requests, 0, "%d requests in ten steps", (int)requests);
    end(&r);
    br_scope_end(scope);
    check_ok();
    cr_assert(br_set_allocator(NULL));
}

/* The same for large blocks, which come from the system: live and cached bytes stay the same. */
Test(steady, after_two_steps_memory_does_not_change)
{
    br_scope *scope = br_scope_begin();
    run r;
    begin(&r, 400);
    step(&r);
    step(&r);
    int64_t live = br_live_bytes(), kept = br_cached_bytes();
    cr_assert_gt(kept, 8 << 20);
    for (int i = 0; i < 10; i++)
        step(&r);
    check_ok();
    cr_assert_eq(br_cached_bytes(), kept);
    cr_assert_eq(br_live_bytes(), live);
    end(&r);
    br_scope_end(scope);
}

/* Returns the bytes allocated by the C library in all threads. */
static size_t bytes_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

Test(steady, memory_does_not_grow_in_a_thousand_steps)
{
    if (br__debug)
        cr_skip_test("the debug mode keeps the memory of ended tensors");
    br_scope *scope = br_scope_begin();
    run r;
    begin(&r, 8);
    step(&r);
    step(&r);
    int64_t tensors = br_live_tensors(), peak = br_peak_bytes();
    int64_t kept = br_cached_bytes();
    size_t bytes = bytes_in_use();
    for (int i = 0; i < 1000; i++)
        step(&r);
    check_ok();
    cr_assert_eq(br_live_tensors(), tensors);
    cr_assert_eq(br_peak_bytes(), peak);
    cr_assert_eq(br_cached_bytes(), kept);
    cr_assert_leq(bytes_in_use(), bytes, "%zu bytes more", bytes_in_use() - bytes);
    end(&r);
    br_scope_end(scope);
}
