/* backends/cpu/reduce/sort_lines.c - sorts the lines along a dimension, and rows. */
#include "backends/cpu/reduce/reduce_internal.h"
#include "backends/cpu/reduce/sort.h"
#include "tensor/min_max.h"

/* ---- Lines ----------------------------------------------------------------------------------- */

typedef struct job {
    const br_sort_type *type;
    br_order o;
    const char *x;
    int64_t *out;
    int64_t n, after, lines, lines_per_task, size;
    br_sort_entry *entries; /* two lines for each task */
} job;

/* Returns the index of the median, the lower of the middle two, or of the first NaN. */
static int64_t median_of(const br_sort_type *type, const br_sort_entry *sorted, int64_t n)
{
    int64_t i = (n - 1) / 2;
    if (type->nan && sorted[n - 1].key == type->nan)
        for (i = n - 1; i > 0 && sorted[i - 1].key == type->nan;)
            i--;
    return sorted[i].index;
}

static void sort_line(const job *j, int64_t line, br_sort_entry *entries)
{
    int64_t block = line / j->after, column = line % j->after;
    const char *x = j->x + (block * j->n * j->after + column) * j->size;
    int64_t *out = j->out + block * j->o.count * j->after + column;
    j->type->keys(j->n, x, j->after * j->size, entries);
    const br_sort_entry *sorted = entries;
    if (!j->o.median && j->o.count <= j->n / 8)
        br__sort_first(j->n, entries, j->o.count, j->o.descending);
    else
        sorted = br__sort(j->n, entries, entries + j->n, j->type->bytes, j->o.descending);
    if (j->o.median)
        *out = median_of(j->type, sorted, j->n);
    for (int64_t i = 0; !j->o.median && i < j->o.count; i++)
        out[i * j->after] = sorted[i].index;
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    int64_t first = task * j->lines_per_task, last = first + j->lines_per_task;
    for (int64_t line = first; line < last && line < j->lines; line++)
        sort_line(j, line, j->entries + task * 2 * j->n);
}

bool br__cpu_sort(const char *op, const br_tensor *out, const br_tensor *x, const br_order *o)
{
    enum { MAX_TASKS = 64 };
    job j = { .type = &br__sort_types[x->dtype],
              .o = *o,
              .x = x->data,
              .out = (int64_t *)(void *)out->data,
              .n = x->sizes[o->dim],
              .after = 1,
              .size = (int64_t)br__dtype_size(x->dtype) };
    for (int i = (int)o->dim + 1; i < x->ndim; i++)
        j.after *= x->sizes[i];
    j.lines = x->numel / j.n;
    /* Sorting costs many simple operations per element. */
    int64_t worth = x->numel / (BR_GRAIN / 8) + 1;
    int64_t tasks = br__min(worth, MAX_TASKS);
    j.lines_per_task = (j.lines + tasks - 1) / tasks;
    tasks = (j.lines + j.lines_per_task - 1) / j.lines_per_task;
    br_extent *extent;
    size_t bytes = (size_t)(tasks * 2 * j.n) * sizeof *j.entries;
    j.entries = br__block_alloc(op, bytes, &extent);
    if (!j.entries)
        return false;
    br__parallel(tasks, run_task, &j);
    br__block_free(j.entries, bytes, extent);
    return true;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

bool br__cpu_sort_rows(const char *op, const br_tensor *order, const br_tensor *rows)
{
    br_extent *key_extent, *spare_extent;
    const size_t n = (size_t)order->numel, key_bytes = (size_t)rows->numel * sizeof(br_sort_entry);
    const size_t spare_bytes = n * sizeof(int64_t);
    br_sort_entry *keys = br__block_alloc(op, key_bytes, &key_extent);
    if (!keys)
        return false;
    int64_t *spare = br__block_alloc(op, spare_bytes, &spare_extent);
    if (spare) {
        br__sort_types[rows->dtype].keys(rows->numel, rows->data,
                                         (int64_t)br__dtype_size(rows->dtype), keys);
        br__sort_rows(rows->sizes[0], rows->sizes[1], keys, (int64_t *)(void *)order->data, spare);
        br__block_free(spare, spare_bytes, spare_extent);
    }
    br__block_free(keys, key_bytes, key_extent);
    return spare != NULL;
}
