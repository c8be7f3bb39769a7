/* backends/cpu/linalg/linalg.c - factorizations and systems of equations, by LAPACK. The matrices
 * of a batch are shared among threads; each matrix is the work of one. */
#include "backends/cpu/linalg/linalg.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

typedef struct job {
    const br_lapack *lapack;
    const br_linalg_work *w;
    int64_t size; /* of an element, in bytes */
    int64_t step; /* matrices of a task */
} job;

static void run_matrix(const job *j, int64_t i)
{
    static const float one_f32 = 1;
    static const double one_f64 = 1;
    const br_linalg_work *w = j->w;
    const int n = (int)w->n, k = (int)w->k;
    void *a = w->a->data + i * w->n * w->n * j->size;
    void *b = w->b ? w->b->data + i * w->n * w->k * j->size : NULL;
    int *pivots = w->pivots ? (int *)(void *)w->pivots->data + i * w->n : NULL;
    int info = 0;
    switch (w->routine) {
    case BR_LINALG_LU:
    case BR_LINALG_SOLVE:
        j->lapack->getrf(&n, &n, a, &n, pivots, &info);
        if (w->routine == BR_LINALG_SOLVE && info == 0)
            j->lapack->getrs("N", &n, &k, a, &n, pivots, b, &n, &(int){ 0 }, 1);
        break;
    case BR_LINALG_CHOLESKY:
        j->lapack->potrf("L", &n, a, &n, &info, 1);
        break;
    case BR_LINALG_TRIANGULAR_SOLVE:
        j->lapack->trsm("L", w->upper ? "U" : "L", "N", w->unit ? "U" : "N", &n, &k,
                        j->size == sizeof one_f32 ? (const void *)&one_f32 : &one_f64, a, &n, b, &n,
                        1, 1, 1, 1);
        break;
    }
    if (w->info)
        ((int64_t *)(void *)w->info->data)[i] = info;
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    const int64_t end = br__min((task + 1) * j->step, j->w->batch);
    for (int64_t i = task * j->step; i < end; i++)
        run_matrix(j, i);
}

bool br__cpu_linalg(const char *op, const br_linalg_work *work)
{
    job j = { .lapack = br__lapack(op, work->a->dtype),
              .w = work,
              .size = (int64_t)br__dtype_size(work->a->dtype) };
    if (!j.lapack)
        return false;
    /* A matrix of some 20 rows is worth a task. */
    const double products = (double)work->n * (double)work->n * (double)(work->n + work->k);
    j.step = products < BR_GRAIN ? (int64_t)(BR_GRAIN / (products + 1)) + 1 : 1;
    br__parallel((work->batch + j.step - 1) / j.step, run_task, &j);
    return true;
}
