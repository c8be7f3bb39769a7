/* backends/cpu/fft/fft.c - Fourier transforms along one dimension, by FFTW.
 *
 * A transform reads one row of x and writes one of y. FFTW computes blocks of rows, with one plan
 * for all blocks. It reads x and writes y where the rows of a block are aligned and follow each
 * other; otherwise rows are copied. How rows form blocks depends on the shapes only, so results do
 * not depend on the number of threads. */
#include "backends/cpu/fft/fft.h"

#include "backends/cpu/hints.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

enum {
    SHORT = 256,      /* a block of shorter rows has about this many elements */
    MOST_ROWS = 64,   /* of a block */
    LINE_ROWS = 8,    /* of a block whose elements are not adjacent: a cache line of elements */
    MOST_TASKS = 64,  /* each has copies of a block */
    COST = 4,         /* of an element of a row, in cheap elements */
    SCRATCH_UNIT = 64 /* alignment of copies, in bytes */
};

/* The rows of x, or of y: element i of row r is at base + start(r) + i * step. */
typedef struct side {
    char *base;
    int64_t length, element; /* elements of a row; bytes of an element */
    int64_t step;            /* bytes from one element to the next */
    int64_t copy;            /* bytes of a task's copy of a block */
} side;

typedef struct job {
    const br_fft_work *w;
    br_fft_plan plan;
    side x, y;
    int64_t many, blocks_of_outer, blocks, blocks_of_task;
    char *copies; /* of all tasks; NULL if no block needs one */
} job;

/* ---- Copies ---------------------------------------------------------------------------------- */

#define COPY_ELEMENTS(bytes)                                          \
    for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) \
        for (int64_t r = 0; r < rows; r++)                            \
    memcpy(to + r * to_row, from + r * from_row, bytes)

/* Copies n elements of each of some rows. */
static void copy_rows(char *to, int64_t to_step, int64_t to_row, const char *from,
                      int64_t from_step, int64_t from_row, int64_t n, int64_t rows, int64_t element)
{
    if (element == to_step && element == from_step)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + r * to_row, from + r * from_row, (size_t)(n * element));
    else if (element == 4)
        COPY_ELEMENTS(4);
    else if (element == 8)
        COPY_ELEMENTS(8);
    else
        COPY_ELEMENTS(16);
}

/* ---- Factors --------------------------------------------------------------------------------- */

/* Define functions for one type of numbers.
 *
 * scale_: multiplies n numbers by a factor.
 * conjugate_: negates the imaginary parts of n complex numbers.
 * prepare_: makes the half of a real sequence with n elements what FFTW transforms: its definition
 * has the sign of the exponent that stands for `forward` being false. */
#define DEFINE_FACTORS(type, name)                                        \
    static void scale_##name(type *y, int64_t n, type factor)             \
    {                                                                     \
        FOR_EACH(type, i, n, y[i] *= factor;)                             \
    }                                                                     \
    static void conjugate_##name(type *y, int64_t n)                      \
    {                                                                     \
        FOR_EACH(type, i, n, y[2 * i + 1] = -y[2 * i + 1];)               \
    }                                                                     \
    static void prepare_##name(type *x, int64_t n, const br_fft_work *w)  \
    {                                                                     \
        const int64_t half = n / 2 + 1, inner = (n - 1) / 2;              \
        if (w->inner != 1)                                                \
            scale_##name(x + 2, 2 * inner, (type)w->inner);               \
        if (w->forward)                                                   \
            conjugate_##name(x, half);                                    \
        x[1] = 0;                                                         \
        if (n % 2 == 0)                                                   \
            x[2 * half - 1] = 0;                                          \
    }                                                                     \
    static void finish_##name(type *y, int64_t n, const br_fft_work *w)   \
    {                                                                     \
        const int64_t numbers = w->kind == BR_FFT_C2C   ? 2 * n           \
                                : w->kind == BR_FFT_R2C ? 2 * (n / 2 + 1) \
                                                        : n;              \
        if (w->scale != 1)                                                \
            scale_##name(y, numbers, (type)w->scale);                     \
        if (w->kind == BR_FFT_R2C && w->inner != 1)                       \
            scale_##name(y + 2, 2 * ((n - 1) / 2), (type)w->inner);       \
        if (w->kind == BR_FFT_R2C && !w->forward)                         \
            conjugate_##name(y, n / 2 + 1);                               \
    }
DEFINE_FACTORS(float, f32)
DEFINE_FACTORS(double, f64)

/* Changes the rows of a block before they are transformed, or after. */
static void prepare(const job *j, char *rows)
{
    const int64_t row = j->x.length * j->x.element;
    for (int64_t r = 0; r < j->many; r++, rows += row)
        if (j->plan.shape.dtype == BR_F64)
            prepare_f64((double *)(void *)rows, j->w->n, j->w);
        else
            prepare_f32((float *)(void *)rows, j->w->n, j->w);
}

static void finish(const job *j, char *rows)
{
    const int64_t row = j->y.length * j->y.element;
    for (int64_t r = 0; r < j->many; r++, rows += row)
        if (j->plan.shape.dtype == BR_F64)
            finish_f64((double *)(void *)rows, j->w->n, j->w);
        else
            finish_f32((float *)(void *)rows, j->w->n, j->w);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Rows first .. first + count - 1 of those that begin in one outer slice. */
typedef struct block {
    int64_t outer, first, count;
} block;

static block find_block(const job *j, int64_t number)
{
    const br_fft_work *w = j->w;
    const int64_t line = w->inner_size > 1 ? w->inner_size : w->outer;
    block b = { number / j->blocks_of_outer, number % j->blocks_of_outer * j->many, 0 };
    b.count = br__min(j->many, line - b.first);
    return b;
}

/* Returns the first element of a block. Without inner dimensions there is one outer slice, whose
 * rows follow each other. */
static char *first_element(const job *j, const side *s, block b)
{
    const int64_t row = j->w->inner_size > 1 ? s->element : s->length * s->element;
    return s->base + b.outer * s->length * s->step + b.first * row;
}

/* Returns whether FFTW can work on the rows where they are. */
static bool in_place(const job *j, const side *s, block b)
{
    return s->step == s->element && b.count == j->many &&
           j->plan.alignment_of(first_element(j, s, b)) == 0;
}

static void run_block(const job *j, block b, char *copies)
{
    const int64_t x_row = j->x.length * j->x.element, y_row = j->y.length * j->y.element;
    const bool lines = j->w->inner_size > 1;
    char *x = first_element(j, &j->x, b), *y = first_element(j, &j->y, b), *given = y;
    if (j->w->kind == BR_FFT_C2R || !in_place(j, &j->x, b)) {
        if (b.count < j->many)
            memset(copies, 0, (size_t)(j->many * x_row));
        copy_rows(copies, j->x.element, x_row, x, j->x.step, lines ? j->x.element : x_row,
                  j->x.length, b.count, j->x.element);
        x = copies;
    }
    if (!in_place(j, &j->y, b))
        y = copies + j->x.copy;
    if (j->w->kind == BR_FFT_C2R)
        prepare(j, x);
    j->plan.execute(j->plan.plan, x, y);
    finish(j, y);
    if (y != given)
        copy_rows(given, j->y.step, lines ? j->y.element : y_row, y, j->y.element, y_row,
                  j->y.length, b.count, j->y.element);
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    const int64_t end = br__min((task + 1) * j->blocks_of_task, j->blocks);
    char *copies = br__offset_pointer(j->copies, task * (j->x.copy + j->y.copy));
    for (int64_t i = task * j->blocks_of_task; i < end; i++)
        run_block(j, find_block(j, i), copies);
}

/* ---- The entry ------------------------------------------------------------------------------- */

static side side_of(const br_fft_work *w, const br_tensor *t, bool real, bool half, int64_t many)
{
    const int64_t number = (int64_t)br__dtype_size(t->dtype);
    side s = { .base = t->data, .length = half ? w->n / 2 + 1 : w->n };
    s.element = real ? number : 2 * number;
    s.step = w->inner_size * s.element;
    s.copy = (many * s.length * s.element + SCRATCH_UNIT - 1) & -SCRATCH_UNIT;
    return s;
}

static int64_t rows_of_block(const br_fft_work *w)
{
    const int64_t rows = br__max(1, br__min(SHORT / w->n, MOST_ROWS));
    return w->inner_size > 1 ? br__max(rows, LINE_ROWS) : rows;
}

/* Returns whether all blocks are transformed without copies. */
static bool no_copies(const job *j)
{
    bool none = j->w->kind != BR_FFT_C2R;
    for (int64_t i = 0; none && i < j->blocks; i++) {
        const block b = find_block(j, i);
        none = in_place(j, &j->x, b) && in_place(j, &j->y, b);
    }
    return none;
}

bool br__cpu_fft(const char *op, const br_fft_work *w)
{
    job j = { .w = w, .many = rows_of_block(w) };
    const br_fft_shape shape = {
        w->kind, w->kind == BR_FFT_C2C && w->forward, w->x->dtype, w->n, j.many,
    };
    if (!br__fft_plan_begin(op, &shape, &j.plan))
        return false;
    j.x = side_of(w, w->x, w->kind == BR_FFT_R2C, w->kind == BR_FFT_C2R, j.many);
    j.y = side_of(w, w->y, w->kind == BR_FFT_C2R, w->kind == BR_FFT_R2C, j.many);
    const bool lines = w->inner_size > 1;
    j.blocks_of_outer = ((lines ? w->inner_size : w->outer) + j.many - 1) / j.many;
    j.blocks = lines ? w->outer * j.blocks_of_outer : j.blocks_of_outer;
    j.blocks_of_task =
        br__max((j.blocks + MOST_TASKS - 1) / MOST_TASKS, BR_GRAIN / (COST * j.many * w->n) + 1);
    const int64_t tasks = (j.blocks + j.blocks_of_task - 1) / j.blocks_of_task;
    br_scope *scope = br_scope_begin();
    bool ok = true;
    if (!no_copies(&j)) {
        br_tensor *copies = br__new_on_host(op, BR_SHAPE(tasks * (j.x.copy + j.y.copy)), BR_U8);
        ok = copies != NULL;
        j.copies = ok ? copies->data : NULL;
    }
    if (ok)
        br__parallel(tasks, run_task, &j);
    br_scope_end(scope);
    br__fft_plan_end(&j.plan);
    return ok;
}
