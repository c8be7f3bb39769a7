/* backends/cpu/linalg/linalg.c - factorizations and systems of equations, by LAPACK or, for small
 * matrices, by lanes.h. The matrices of a batch are shared among threads; each matrix is the work
 * of one. */
#include "backends/cpu/linalg/linalg.h"
#include "backends/cpu/kernels.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

#include <float.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>

/* The memory of a routine: `lwork` numbers, and integers. */
typedef struct scratch {
    void *work;
    int lwork;
    int *iwork;
    int liwork;
} scratch;

typedef struct job {
    const br_lapack *lapack;
    const br_linalg_work *w;
    int64_t size;  /* of an element, in bytes */
    int64_t tasks; /* task t has the matrices t, t + tasks, .. */
    scratch first; /* of task 0; that of task t begins t * scratch_bytes later */
    int64_t scratch_bytes;
} job;

/* Returns the elements of matrix i in a batch of contiguous matrices; NULL for NULL. */
static void *matrix_of(const job *j, const br_tensor *t, int64_t i)
{
    return t ? t->data + i * (t->numel / j->w->batch) * (int64_t)br__dtype_size(t->dtype) : NULL;
}

/* Calls the routine for matrix i. Returns its info. */
static int run_matrix(const job *j, int64_t i, const scratch *s)
{
    static const float one_f32 = 1;
    static const double one_f64 = 1;
    const br_lapack *lapack = j->lapack;
    const br_linalg_work *w = j->w;
    const int m = (int)w->m, n = (int)w->n, k = (int)w->k, ldb = br__max(m, n);
    const int count = w->values ? (int)(w->values->numel / w->batch) : 0;
    const bool is_f32 = j->size == sizeof one_f32;
    const float rcond_f32 = (float)w->rcond;
    const void *rcond = is_f32 ? (const void *)&rcond_f32 : &w->rcond;
    void *a = matrix_of(j, w->a, i), *b = matrix_of(j, w->b, i);
    void *values = matrix_of(j, w->values, i);
    void *u = matrix_of(j, w->u, i), *vt = matrix_of(j, w->vt, i);
    int *pivots = matrix_of(j, w->pivots, i);
    int info = 0, rank = 0;
    switch (w->routine) {
    case BR_LINALG_LU:
    case BR_LINALG_SOLVE:
        lapack->getrf(&m, &n, a, &m, pivots, &info);
        if (w->routine == BR_LINALG_SOLVE && info == 0)
            lapack->getrs("N", &n, &k, a, &n, pivots, b, &n, &(int){ 0 }, 1);
        break;
    case BR_LINALG_CHOLESKY:
        lapack->potrf("L", &n, a, &n, &info, 1);
        break;
    case BR_LINALG_TRIANGULAR_SOLVE:
        lapack->trsm("L", w->upper ? "U" : "L", "N", w->unit ? "U" : "N", &n, &k,
                     is_f32 ? (const void *)&one_f32 : &one_f64, a, &n, b, &n, 1, 1, 1, 1);
        break;
    case BR_LINALG_QR:
        lapack->geqrf(&m, &n, a, &m, values, s->work, &s->lwork, &info);
        break;
    case BR_LINALG_QR_Q:
        lapack->orgqr(&m, &n, &count, a, &m, values, s->work, &s->lwork, &info);
        break;
    case BR_LINALG_EIGEN:
        lapack->syevd(w->vectors ? "V" : "N", w->upper ? "U" : "L", &n, a, &n, values, s->work,
                      &s->lwork, s->iwork, &s->liwork, &info, 1, 1);
        break;
    case BR_LINALG_SVD: {
        /* "S" are min(m, n) vectors; "A" gives the same if u is not larger, but takes longer. */
        const int ldvt = w->vt ? (int)(w->vt->numel / w->batch / n) : 1;
        const bool all = w->u && (ldvt > count || w->u->numel / w->batch / m > count);
        lapack->gesdd(!w->u ? "N"
                      : all ? "A"
                            : "S",
                      &m, &n, a, &m, values, u, &m, vt, &ldvt, s->work, &s->lwork, s->iwork, &info,
                      1);
        break;
    }
    case BR_LINALG_GELS:
        lapack->gels("N", &m, &n, &k, a, &m, b, &ldb, s->work, &s->lwork, &info, 1);
        break;
    case BR_LINALG_GELSY:
        for (int c = 0; c < s->liwork; c++)
            s->iwork[c] = 0; /* any column may come first */
        lapack->gelsy(&m, &n, &k, a, &m, b, &ldb, s->iwork, rcond, &rank, s->work, &s->lwork,
                      &info);
        break;
    case BR_LINALG_GELSD:
        lapack->gelsd(&m, &n, &k, a, &m, b, &ldb, values, rcond, &rank, s->work, &s->lwork,
                      s->iwork, &info);
        break;
    case BR_LINALG_GELSS:
        lapack->gelss(&m, &n, &k, a, &m, b, &ldb, values, rcond, &rank, s->work, &s->lwork, &info);
        break;
    }
    if (w->rank && s->lwork >= 0)
        *(int64_t *)matrix_of(j, w->rank, i) = rank;
    return info;
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    const int64_t distance = task * j->scratch_bytes;
    scratch s = j->first;
    s.work = br__offset_pointer(s.work, distance);
    s.iwork = br__offset_pointer(s.iwork, distance);
    for (int64_t i = task; i < j->w->batch; i += j->tasks) {
        const int info = run_matrix(j, i, &s);
        if (j->w->info)
            *(int64_t *)matrix_of(j, j->w->info, i) = info;
    }
}

/* Stores how much memory the routine needs. Fails if it is more than LAPACK, whose integers have 32
 * bits, can address. */
static bool measure(const char *op, job *j)
{
    const br_linalg_work *w = j->w;
    const double smaller = (double)br__min(w->m, w->n);
    double least = 1; /* without terms of lower order: LAPACK's own sum could overflow */
    union {
        float f32;
        double f64;
    } work = { .f64 = 0 };
    int iwork[8] = { 0 };
    scratch *s = &j->first;
    if (w->routine < BR_LINALG_QR)
        return true;
    if (w->routine == BR_LINALG_SVD)
        least = (w->u ? 4 : 1) * smaller * smaller;
    else if (w->routine == BR_LINALG_EIGEN)
        least = (w->vectors ? 2 : 0) * smaller * smaller;
    *s = (scratch){ &work, -1, iwork, -1 };
    if (least < INT_MAX)
        run_matrix(j, 0, s);
    const double asked = j->size == sizeof(float) ? (double)work.f32 * (1 + FLT_EPSILON) : work.f64;
    if (least >= INT_MAX || asked >= INT_MAX || asked < 0)
        return br_fail(BR_ERROR_SHAPE, op,
                       "a matrix with %" PRId64 " rows and %" PRId64 " columns is too large: "
                       "LAPACK would need memory for more than %d numbers",
                       w->m, w->n, INT_MAX);
    s->lwork = br__max((int)ceil(asked), 1);
    s->liwork = w->routine == BR_LINALG_SVD     ? 8 * (int)smaller
                : w->routine == BR_LINALG_GELSY ? (int)w->n
                                                : iwork[0];
    return true;
}

/* Runs the tasks with memory for each. */
static bool run_with_scratch(const char *op, job *j)
{
    const int64_t line = 64, numbers = (j->first.lwork * j->size + line - 1) / line * line;
    br_extent *extent;
    j->scratch_bytes = numbers + (j->first.liwork * (int64_t)sizeof(int) + line - 1) / line * line;
    const size_t bytes = (size_t)(j->tasks * j->scratch_bytes);
    j->first.work = br__block_alloc(op, bytes, &extent);
    if (!j->first.work)
        return false;
    j->first.iwork = br__offset_pointer(j->first.work, numbers);
    br__parallel(j->tasks, run_task, j);
    br__block_free(j->first.work, bytes, extent);
    return true;
}

typedef struct small_job {
    br_small_linalg work;
    const br_kernels *kernels;
    int64_t step; /* task t has the matrices t * step .. t * step + step - 1 */
} small_job;

static void run_small(void *context, int64_t task)
{
    const small_job *j = context;
    const int64_t begin = task * j->step, end = br__min(begin + j->step, j->work.batch);
    j->kernels->small_linalg(&j->work, begin, end);
}

static void *elements(const br_tensor *t)
{
    return t ? t->data : NULL;
}

/* Does the work with `step` matrices in a task. Returns false, and does nothing, unless they are
 * small. */
static bool run_if_small(const br_linalg_work *w, int64_t step)
{
    if (w->routine > BR_LINALG_TRIANGULAR_SOLVE || w->m > BR_LINALG_SMALL || w->n > BR_LINALG_SMALL)
        return false;
    small_job j = { { .routine = w->routine,
                      .batch = w->batch,
                      .m = w->m,
                      .n = w->n,
                      .k = w->k,
                      .a = elements(w->a),
                      .b = elements(w->b),
                      .upper = w->upper,
                      .unit = w->unit,
                      .pivots = elements(w->pivots),
                      .info = elements(w->info) },
                    br__kernels_of(w->a->dtype),
                    (step + 15) / 16 * 16 }; /* whole vectors */
    br__parallel((w->batch + j.step - 1) / j.step, run_small, &j);
    return true;
}

bool br__cpu_linalg(const char *op, const br_linalg_work *work)
{
    job j = { .lapack = br__lapack(op, work->a->dtype),
              .w = work,
              .size = (int64_t)br__dtype_size(work->a->dtype) };
    if (!j.lapack || !measure(op, &j))
        return false;
    /* A matrix of some 20 rows is worth a task. */
    const double products = (double)work->m * (double)work->n * (double)(work->n + work->k);
    const int64_t step = products < BR_GRAIN ? (int64_t)(BR_GRAIN / (products + 1)) + 1 : 1;
    if (run_if_small(work, step))
        return true;
    j.tasks = (work->batch + step - 1) / step;
    if (j.first.lwork > 0) {
        j.tasks = br__min(j.tasks, br_get_num_threads());
        return run_with_scratch(op, &j);
    }
    br__parallel(j.tasks, run_task, &j);
    return true;
}
