/* backends/cpu/pointwise/dropout.c - the random bits of dropout, and dropout with them. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/pointwise/for_each.h"
#include "tensor/min_max.h"
#include "tensor/random_internal.h"

/* ---- Bits ------------------------------------------------------------------------------------ */

typedef struct bits_job {
    int64_t n;
    uint64_t key, *bits;
    uint32_t threshold;
} bits_job;

static void run_bits_task(void *context, int64_t i)
{
    const bits_job *j = context;
    const int64_t first = i * BR_GRAIN, rest = j->n - first;
    br__kernels_of(BR_F32)->dropout_bits(br__min(rest, BR_GRAIN), first, j->key, j->threshold,
                                         j->bits + first / 64);
}

void br__cpu_dropout_bits(const br_tensor *t, int64_t n, double p)
{
    uint64_t *bits = (uint64_t *)(void *)t->data;
    bits[(n + 63) / 64] = 0;
    if (br_get_dropout_rng() == BR_DROPOUT_PYTORCH) {
        br__fill_bernoulli(bits, n, 1 - p);
        return;
    }
    bits_job j = { n, br__random_u64(), bits, (uint32_t)(p * 0x1p32) };
    br__parallel((n + BR_GRAIN - 1) / BR_GRAIN, run_bits_task, &j);
}

/* ---- Elements -------------------------------------------------------------------------------- */

typedef struct job {
    br_dropout_work d;
    void (*kernel)(int64_t n, const br_dropout_work *d, const void *x, void *y);
    const char *x;
    char *y;
    int64_t numel, size;
} job;

static void run_task(void *context, int64_t i)
{
    const job *j = context;
    const int64_t first = i * BR_GRAIN, rest = j->numel - first, offset = first * j->size;
    const br_dropout_work d = { j->d.bits + first / 64, j->d.scale };
    j->kernel(br__min(rest, BR_GRAIN), &d, j->x + offset, j->y + offset);
}

void br__cpu_dropout(const br_tensor *y, const br_tensor *x, const br_tensor *bits, double scale)
{
    job j = { .d = { (const uint64_t *)(const void *)bits->data, scale },
              .kernel = br__kernels_of(x->dtype)->dropout,
              .x = x->data,
              .y = y->data,
              .numel = y->numel,
              .size = (int64_t)br__dtype_size(x->dtype) };
    br__parallel((y->numel + BR_GRAIN - 1) / BR_GRAIN, run_task, &j);
}
