/* tests/tsan/threads.c - a program for the thread sanitizer, which cannot run Criterion's tests.
 * Four threads each look up a code point, so that one of them unpacks the table, and train a model.
 * They share a tensor that they only read, read the memory counters during training, and leave a
 * tensor for the main thread to free. Then a loader prefetches batches, and several threads compute
 * one large product. */
#include "tokenizers/tokenizer_internal.h"

#include <brasa/brasa.h>
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, STEPS = 100 };

typedef struct job {
    pthread_t thread;
    uint64_t seed;
    br_tensor *shared; /* all threads read it */
    br_tensor *made;   /* for the main thread to free */
    bool failed;
} job;

static void step(job *j, br_module *model, br_optim *adam, bool last)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(40, 16), BR_F32), *y = br_matmul(x, j->shared);
    br_tensor *large = br_ones(BR_SHAPE(300, 400), BR_F32); /* shared among workers */
    br_tensor *error = br_sub(br_forward(model, y), br_forward(model, x));
    br_optim_zero_grad(adam);
    br_backward(br_add(br_mean(br_mul(error, error)), br_mean(br_mul(large, large))));
    br_optim_step(adam);
    if (last)
        j->made = br_retain(y);
    br_scope_end(scope);
}

static void *train(void *context)
{
    job *j = context;
    j->failed = br__char_kind(' ') != BR_CHAR_SPACE;
    br_manual_seed(j->seed);
    br_sequential *model = br_sequential_new(
        BR_MODULES(br_linear_new(16, 64, true), br_tanh_new(), br_linear_new(64, 1, true)));
    br_optim *adam = br_adam(br_base(model), NULL);
    for (int i = 0; i < STEPS; i++) {
        step(j, br_base(model), adam, i == STEPS - 1);
        j->failed |= br_live_bytes() <= 0 || br_peak_bytes() <= 0;
        if (j->seed == 0)
            br_reset_peak_bytes();
    }
    br_optim_free(adam);
    br_module_free(model);
    j->failed |= br_report(stderr) != EXIT_SUCCESS;
    br_thread_cleanup();
    return NULL;
}

/* Sums batches that worker threads prefetch. */
static bool prefetch(void)
{
    br_scope *scope = br_scope_begin();
    br_dataset *rows = br_tensor_dataset_new(BR_INPUTS(br_randn(BR_SHAPE(100, 300), BR_F32)));
    br_loader *loader = br_loader_new(
        rows, BR_OPTIONS(br_loader, .batch_size = 8, .shuffle = true, .num_workers = 3));
    double sum = 0;
    for (int epoch = 0; epoch < 3; epoch++) {
        br_loader_begin(loader);
        for (br_tensor *fields[1]; br_loader_next(loader, fields);)
            sum += br_item(br_sum(fields[0]));
    }
    br_loader_begin(loader);
    br_loader_free(loader);
    br_dataset_free(rows);
    br_scope_end(scope);
    return br_report(stderr) == EXIT_SUCCESS && sum == sum;
}

/* Computes products in which threads steal work from each other. */
static bool multiply(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_transpose(br_randn(BR_SHAPE(700, 300), BR_F32), 0, 1);
    br_tensor *b = br_randn(BR_SHAPE(700, 333), BR_F32);
    for (int i = 0; i < STEPS; i++)
        br_mm(a, b);
    br_scope_end(scope);
    return br_report(stderr) == EXIT_SUCCESS;
}

int main(void)
{
    br_set_num_threads(3);
    br_tensor *shared = br_randn(BR_SHAPE(16, 16), BR_F32);
    job jobs[THREADS];
    bool failed = false;
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job){ .seed = (uint64_t)i, .shared = shared };
        if (pthread_create(&jobs[i].thread, NULL, train, &jobs[i]) != 0)
            return EXIT_FAILURE;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(jobs[i].thread, NULL);
        br_release(jobs[i].made);
        failed |= jobs[i].failed;
    }
    failed |= !prefetch() || !multiply();
    br_thread_cleanup();
    failed |= br_live_tensors() != 0 || br_live_bytes() != 0;
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
