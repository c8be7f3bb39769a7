/* backends/cpu/fft/rows.c - Fourier transforms of rows, by FFTW.
 *
 * FFTW reads x and writes y where the rows are aligned and their elements adjacent; otherwise
 * blocks of rows are copied. FFTW transforms one row at a time, or several short ones. What is
 * transformed together depends on the shapes only, so results do not depend on the number of
 * threads. */
#include "backends/cpu/fft/rows.h"

#include "backends/cpu/hints.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

enum {
    SHORT = 32,      /* elements of a row that is transformed with others */
    TOGETHER = 256,  /* their elements, about */
    MOST_ROWS = 64,  /* that are transformed together */
    LINE_ROWS = 8,   /* of a block whose elements are not adjacent: a cache line of elements */
    MOST_TASKS = 64, /* each has copies of a block */
    COST = 4,        /* of an element of a row, in cheap elements */
    AHEAD = 16,      /* elements that are prefetched */
    TWIDDLES = 8,    /* factors that are computed at once */
    ALIGNMENT = 64   /* of copies, in bytes */
};

typedef struct job {
    const br_fft_rows *w;
    br_fft_plan plan;
    int64_t many, block; /* rows that are transformed together, and rows of a block */
    int64_t blocks_of_outer, blocks, blocks_of_task;
    int64_t x_stride, y_stride; /* bytes of a row in the copies of a block */
    int64_t x_copy, y_copy;     /* bytes of a task's copies of a block */
    char *copies;               /* of all tasks; NULL if no block needs one */
} job;

/* ---- Copies ---------------------------------------------------------------------------------- */

/* Defines a function that copies n elements of each of some rows. The elements of the rows at one
 * index are adjacent on one side, and indices are far apart there, so that no hardware prefetches
 * them. */
#define DEFINE_COPY(bytes)                                                                 \
    static void copy_##bytes(char *to, int64_t to_step, int64_t to_row, const char *from,  \
                             int64_t from_step, int64_t from_row, int64_t n, int64_t rows) \
    {                                                                                      \
        for (int64_t i = 0; i < n; i++, to += to_step, from += from_step) {                \
            __builtin_prefetch(from + AHEAD * from_step);                                  \
            __builtin_prefetch(to + AHEAD * to_step, 1);                                   \
            for (int64_t r = 0; r < rows; r++)                                             \
                memcpy(to + r * to_row, from + r * from_row, bytes);                       \
        }                                                                                  \
    }
DEFINE_COPY(4)
DEFINE_COPY(8)
DEFINE_COPY(16)

static void copy_rows(char *to, int64_t to_step, int64_t to_row, const char *from,
                      int64_t from_step, int64_t from_row, int64_t n, int64_t rows, int64_t element)
{
    if (element == to_step && element == from_step)
        for (int64_t r = 0; r < rows; r++)
            memcpy(to + r * to_row, from + r * from_row, (size_t)(n * element));
    else
        (element == 4   ? copy_4
         : element == 8 ? copy_8
                        : copy_16)(to, to_step, to_row, from, from_step, from_row, n, rows);
}

/* ---- Factors --------------------------------------------------------------------------------- */

/* Sets *real and *imag to a power, whose exponent is less than the number of all elements. */
static void twiddle(const br_fft_twiddles *t, int64_t power, double *real, double *imag)
{
    const double *low = t->low + 2 * (power & ((1 << t->bits) - 1));
    const double *high = t->high + 2 * (power >> t->bits);
    *real = low[0] * high[0] - low[1] * high[1];
    *imag = low[0] * high[1] + low[1] * high[0];
}

/* Define functions for one type of numbers.
 *
 * scale_: multiplies n numbers by a factor.
 * conjugate_: negates the imaginary parts of n complex numbers.
 * prepare_: makes the half of a real sequence with n elements what FFTW transforms: its definition
 * has the sign of the exponent that stands for `forward` being false.
 * twist_: multiplies row r by its twiddles.
 * finish_: applies all factors to row r of y. */
#define DEFINE_FACTORS(type, name)                                                       \
    static void scale_##name(type *y, int64_t n, type factor)                            \
    {                                                                                    \
        FOR_EACH(type, i, n, y[i] *= factor;)                                            \
    }                                                                                    \
    static void conjugate_##name(type *y, int64_t n)                                     \
    {                                                                                    \
        FOR_EACH(type, i, n, y[2 * i + 1] = -y[2 * i + 1];)                              \
    }                                                                                    \
    static void prepare_##name(type *x, const br_fft_rows *w)                            \
    {                                                                                    \
        const int64_t half = w->n / 2 + 1, inner = (w->n - 1) / 2;                       \
        if (w->inner != 1)                                                               \
            scale_##name(x + 2, 2 * inner, (type)w->inner);                              \
        if (w->forward)                                                                  \
            conjugate_##name(x, half);                                                   \
        x[1] = 0;                                                                        \
        if (w->n % 2 == 0)                                                               \
            x[2 * half - 1] = 0;                                                         \
    }                                                                                    \
    static void twist_##name(type *y, int64_t n, int64_t row, const br_fft_twiddles *t)  \
    {                                                                                    \
        type first_real[TWIDDLES], first_imag[TWIDDLES], real[TWIDDLES], imag[TWIDDLES]; \
        double a, b;                                                                     \
        for (int64_t i = 0; i < TWIDDLES; i++) {                                         \
            twiddle(t, i *row, &a, &b);                                                  \
            first_real[i] = (type)a;                                                     \
            first_imag[i] = (type)b;                                                     \
        }                                                                                \
        for (int64_t k = 0; k < n; k += TWIDDLES, y += 2 * TWIDDLES) {                   \
            twiddle(t, k *row, &a, &b);                                                  \
            for (int64_t i = 0; i < TWIDDLES; i++) {                                     \
                real[i] = (type)a * first_real[i] - (type)b * first_imag[i];             \
                imag[i] = (type)a * first_imag[i] + (type)b * first_real[i];             \
            }                                                                            \
            const int64_t count = br__min(TWIDDLES, n - k);                              \
            for (int64_t i = 0; i < count; i++) {                                        \
                const type re = y[2 * i], im = y[2 * i + 1];                             \
                y[2 * i] = re * real[i] - im * imag[i];                                  \
                y[2 * i + 1] = re * imag[i] + im * real[i];                              \
            }                                                                            \
        }                                                                                \
    }                                                                                    \
    static void finish_##name(type *y, int64_t row, const br_fft_rows *w)                \
    {                                                                                    \
        const int64_t n = w->n;                                                          \
        const int64_t numbers = w->kind == BR_FFT_C2C   ? 2 * n                          \
                                : w->kind == BR_FFT_R2C ? 2 * (n / 2 + 1)                \
                                                        : n;                             \
        if (w->scale != 1)                                                               \
            scale_##name(y, numbers, (type)w->scale);                                    \
        if (w->kind == BR_FFT_R2C && w->inner != 1)                                      \
            scale_##name(y + 2, 2 * ((n - 1) / 2), (type)w->inner);                      \
        if (w->kind == BR_FFT_R2C && !w->forward)                                        \
            conjugate_##name(y, n / 2 + 1);                                              \
        if (w->twiddles)                                                                 \
            twist_##name(y, n, row, w->twiddles);                                        \
    }
DEFINE_FACTORS(float, f32)
DEFINE_FACTORS(double, f64)

/* Change a row before it is transformed, or after. */
static void prepare(const br_fft_rows *w, char *x)
{
    if (w->dtype == BR_F64)
        prepare_f64((double *)(void *)x, w);
    else
        prepare_f32((float *)(void *)x, w);
}

static void finish(const br_fft_rows *w, int64_t row, char *y)
{
    if (w->dtype == BR_F64)
        finish_f64((double *)(void *)y, row, w);
    else
        finish_f32((float *)(void *)y, row, w);
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Rows first .. first + count - 1 of an outer slice. */
typedef struct block {
    int64_t outer, first, count;
} block;

static block find_block(const job *j, int64_t number)
{
    block b = { number / j->blocks_of_outer, number % j->blocks_of_outer * j->block, 0 };
    b.count = br__min(j->block, j->w->rows - b.first);
    return b;
}

static char *first_element(const br_fft_side *s, block b)
{
    return s->base + b.outer * s->outer + b.first * s->row;
}

/* Returns whether FFTW can work on the rows where they are. */
static bool in_place(const job *j, const br_fft_side *s, block b)
{
    bool yes = s->step == s->element;
    if (j->many > 1)
        yes = yes && s->row == s->length * s->element && b.count == j->many;
    for (int64_t r = 0; yes && r < b.count; r += j->many)
        yes = j->plan.alignment_of(first_element(s, b) + r * s->row) == 0;
    return yes;
}

static void run_block(const job *j, block b, char *copies)
{
    const br_fft_side *from = &j->w->x, *to = &j->w->y;
    char *x = first_element(from, b), *y = first_element(to, b), *given = y;
    int64_t x_stride = from->row, y_stride = to->row;
    if (j->w->kind == BR_FFT_C2R || !in_place(j, from, b)) {
        if (b.count < j->many)
            memset(copies, 0, (size_t)j->x_copy);
        copy_rows(copies, from->element, j->x_stride, x, from->step, from->row, from->length,
                  b.count, from->element);
        x = copies;
        x_stride = j->x_stride;
    }
    if (!in_place(j, to, b)) {
        y = copies + j->x_copy;
        y_stride = j->y_stride;
    }
    for (int64_t r = 0; r < b.count; r += j->many) {
        for (int64_t i = r; j->w->kind == BR_FFT_C2R && i < r + j->many; i++)
            prepare(j->w, x + i * x_stride);
        j->plan.execute(j->plan.plan, x + r * x_stride, y + r * y_stride);
        for (int64_t i = r; i < r + j->many; i++)
            finish(j->w, b.first + i, y + i * y_stride);
    }
    if (y != given)
        copy_rows(given, to->step, to->row, y, to->element, y_stride, to->length, b.count,
                  to->element);
}

static void run_task(void *context, int64_t task)
{
    const job *j = context;
    const int64_t end = br__min((task + 1) * j->blocks_of_task, j->blocks);
    char *copies = br__offset_pointer(j->copies, task * (j->x_copy + j->y_copy));
    for (int64_t i = task * j->blocks_of_task; i < end; i++)
        run_block(j, find_block(j, i), copies);
}

/* ---- All rows -------------------------------------------------------------------------------- */

/* Returns the bytes of a row in copies. FFTW aligns each row that it transforms alone; rows that it
 * transforms together follow each other. */
static int64_t stride_of(const job *j, const br_fft_side *s)
{
    const int64_t bytes = s->length * s->element;
    return j->many > 1 ? bytes : (bytes + ALIGNMENT - 1) & -ALIGNMENT;
}

static int64_t copy_of(const job *j, int64_t stride)
{
    return (j->block * stride + ALIGNMENT - 1) & -ALIGNMENT;
}

static int64_t rows_together(int64_t n)
{
    int64_t rows = 1;
    while (n <= SHORT && rows < MOST_ROWS && 2 * rows * n <= TOGETHER)
        rows *= 2;
    return rows;
}

/* Returns whether all blocks are transformed without copies. */
static bool no_copies(const job *j)
{
    bool none = j->w->kind != BR_FFT_C2R;
    for (int64_t i = 0; none && i < j->blocks; i++) {
        const block b = find_block(j, i);
        none = in_place(j, &j->w->x, b) && in_place(j, &j->w->y, b);
    }
    return none;
}

bool br__fft_rows(const char *op, const br_fft_rows *w)
{
    job j = { .w = w, .many = rows_together(w->n) };
    const bool lines = w->x.step != w->x.element || w->y.step != w->y.element;
    j.block = lines ? br__max(j.many, LINE_ROWS) : j.many;
    const br_fft_shape shape = {
        w->kind, w->kind == BR_FFT_C2C && w->forward, w->dtype, w->n, j.many,
    };
    if (!br__fft_plan_begin(op, &shape, &j.plan))
        return false;
    j.x_stride = stride_of(&j, &w->x);
    j.y_stride = stride_of(&j, &w->y);
    j.x_copy = copy_of(&j, j.x_stride);
    j.y_copy = copy_of(&j, j.y_stride);
    j.blocks_of_outer = (w->rows + j.block - 1) / j.block;
    j.blocks = w->outer * j.blocks_of_outer;
    j.blocks_of_task =
        br__max((j.blocks + MOST_TASKS - 1) / MOST_TASKS, BR_GRAIN / (COST * j.block * w->n) + 1);
    const int64_t tasks = (j.blocks + j.blocks_of_task - 1) / j.blocks_of_task;
    br_scope *scope = br_scope_begin();
    bool ok = true;
    if (!no_copies(&j)) {
        br_tensor *copies = br__new_on_host(op, BR_SHAPE(tasks * (j.x_copy + j.y_copy)), BR_U8);
        ok = copies != NULL;
        j.copies = ok ? copies->data : NULL;
    }
    if (ok)
        br__parallel(tasks, run_task, &j);
    br_scope_end(scope);
    br__fft_plan_end(&j.plan);
    return ok;
}
