/* backends/cpu/norm/softmax.c - softmax and log softmax in parallel over rows. Rows of a storage
 * dtype are widened block by block. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/norm/norm_internal.h"
#include "backends/cpu/pointwise/widened.h"
#include "tensor/min_max.h"

/* The sizes of a contiguous tensor before, along and after the dimension. */
typedef struct split {
    int64_t before, n, after;
} split;

static split split_at(const br_tensor *t, int64_t dim)
{
    split s = { 1, t->ndim > 0 ? t->sizes[dim] : 1, 1 };
    for (int i = 0; i < t->ndim; i++)
        *(i < dim ? &s.before : &s.after) *= i == dim ? 1 : t->sizes[i];
    return s;
}

typedef struct job {
    split s;
    void (*kernel)(const br_softmax_work *work);
    bool log_of;
    br_dtype dtype;
    const char *x, *dy; /* dy may be x */
    char *out;
    int64_t size;
    int64_t tiles;          /* tiles of at most BR_SOFTMAX_TILE adjacent rows */
    int64_t units_per_task; /* rows, or tiles */
} job;

static void run_kernel(const job *j, int64_t first, int64_t rows)
{
    int64_t offset = first * j->size;
    br_softmax_work work = { j->s.n,        rows,           j->s.after,     j->log_of,
                             j->x + offset, j->dy + offset, j->out + offset };
    j->kernel(&work);
}

bool br__cpu_softmax_widens(const br_tensor *x, int64_t dim)
{
    const split s = split_at(x, dim);
    return s.after == 1 && br__rows_fit(s.n);
}

/* Does the same for contiguous rows of a storage dtype. */
static __attribute__((noinline)) void run_widened(const job *j, int64_t first, int64_t rows)
{
    float x[BR_LONGEST_ROW], dy[BR_LONGEST_ROW], out[BR_LONGEST_ROW];
    const int64_t n = j->s.n, block = br__rows_of_block(n);
    for (int64_t i = 0; i < rows; i += block) {
        const int64_t count = br__min(rows - i, block), offset = (first + i * n) * j->size;
        const bool has_dy = j->dy != j->x;
        br__widen(j->dtype, x, count * n, j->x + offset, j->size);
        if (has_dy)
            br__widen(j->dtype, dy, count * n, j->dy + offset, j->size);
        j->kernel(&(br_softmax_work){ n, count, 1, j->log_of, x, has_dy ? dy : x, out });
        br__narrow(j->dtype, j->out + offset, j->size, out, count * n);
    }
}

/* Task i processes its units: whole rows, or tiles of adjacent rows. */
static void run_task(void *context, int64_t i)
{
    const job *j = context;
    int64_t first = i * j->units_per_task, last = first + j->units_per_task;
    if (j->s.after == 1) {
        last = br__min(last, j->s.before);
        if (br__is_stored(j->dtype))
            run_widened(j, first * j->s.n, last - first);
        else
            run_kernel(j, first * j->s.n, last - first);
        return;
    }
    for (int64_t unit = first; unit < last && unit < j->s.before * j->tiles; unit++) {
        int64_t column = unit % j->tiles * BR_SOFTMAX_TILE, rest = j->s.after - column;
        run_kernel(j, unit / j->tiles * j->s.n * j->s.after + column,
                   rest < BR_SOFTMAX_TILE ? rest : BR_SOFTMAX_TILE);
    }
}

static void run(job *j)
{
    enum { GRAIN = BR_GRAIN / 4 }; /* an exponential costs several simple operations */
    bool along = j->s.after == 1;
    j->tiles = (j->s.after + BR_SOFTMAX_TILE - 1) / BR_SOFTMAX_TILE;
    int64_t units = along ? j->s.before : j->s.before * j->tiles;
    j->units_per_task =
        br__piece_size(units, GRAIN / (along ? j->s.n : j->s.n * BR_SOFTMAX_TILE) + 1, 1);
    br__parallel((units + j->units_per_task - 1) / j->units_per_task, run_task, j);
}

static job job_of(const br_tensor *out, const br_tensor *x, const br_tensor *dy, int64_t dim,
                  bool log_of)
{
    return (job){ .s = split_at(x, dim),
                  .log_of = log_of,
                  .dtype = x->dtype,
                  .x = x->data,
                  .dy = dy->data,
                  .out = out->data,
                  .size = (int64_t)br__dtype_size(x->dtype) };
}

void br__cpu_softmax(const br_tensor *y, const br_tensor *x, int64_t dim, bool log_of)
{
    job j = job_of(y, x, x, dim, log_of);
    j.kernel = br__kernels_of(br__computed(x->dtype))->softmax;
    run(&j);
}

void br__cpu_softmax_grad(const br_tensor *dx, const br_tensor *y, const br_tensor *dy, int64_t dim,
                          bool log_of)
{
    job j = job_of(dx, y, dy, dim, log_of);
    j.kernel = br__kernels_of(br__computed(y->dtype))->softmax_grad;
    run(&j);
}
