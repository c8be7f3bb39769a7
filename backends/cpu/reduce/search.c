/* backends/cpu/reduce/search.c - binary search for each of many values in sorted sequences. */
#include "backends/cpu/reduce/reduce_internal.h"
#include "tensor/min_max.h"

enum { VALUES_PER_TASK = 2048 };

typedef struct job job;
struct job {
    int64_t (*find)(const job *j, int64_t sequence, int64_t value);
    const void *sorted, *values;
    int64_t *y;
    int64_t count;    /* all values */
    int64_t length;   /* of a sequence */
    int64_t per_line; /* values that are searched in one sequence */
    bool right;
};

/* Defines the search for an element type. It halves the part of the sequence in which the boundary
 * lies. A comparison with NaN is false, so that NaN is beyond all numbers. */
#define FIND(name, type)                                                         \
    static int64_t name(const job *j, int64_t sequence, int64_t value)           \
    {                                                                            \
        const type *line = (const type *)j->sorted + sequence * j->length;       \
        const type v = ((const type *)j->values)[value];                         \
        int64_t first = 0, last = j->length;                                     \
        while (first < last) {                                                   \
            const int64_t middle = first + (last - first) / 2;                   \
            const bool beyond = j->right ? line[middle] > v : line[middle] >= v; \
            first = beyond ? first : middle + 1;                                 \
            last = beyond ? middle : last;                                       \
        }                                                                        \
        return first;                                                            \
    }

FIND(find_f32, float)
FIND(find_f64, double)
FIND(find_i64, int64_t)

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    int64_t first = task * VALUES_PER_TASK, last = br__min(first + VALUES_PER_TASK, j->count);
    for (int64_t i = first; i < last; i++)
        j->y[i] = j->find(j, i / j->per_line, i);
}

void br__cpu_search(const br_tensor *y, const br_tensor *sorted, const br_tensor *values,
                    bool right)
{
    const bool one = sorted->ndim == 1;
    job j = { .find = sorted->dtype == BR_F32   ? find_f32
                      : sorted->dtype == BR_F64 ? find_f64
                                                : find_i64,
              .sorted = sorted->data,
              .values = values->data,
              .y = br__element(y, 0),
              .count = values->numel,
              .length = sorted->sizes[sorted->ndim - 1],
              .per_line = one ? values->numel : values->sizes[values->ndim - 1],
              .right = right };
    br__parallel((j.count + VALUES_PER_TASK - 1) / VALUES_PER_TASK, run_task, &j);
}
