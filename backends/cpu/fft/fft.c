/* backends/cpu/fft/fft.c - Fourier transforms along one dimension.
 *
 * A transform reads one row of x and writes one of y. A long row is transformed as a matrix of n1
 * rows and n2 columns (D. H. Bailey, "FFTs in external or hierarchical memory", 1990): its columns
 * are transformed and multiplied by factors, and then its rows are transformed and stored as
 * columns. So the parts stay in the caches, and are shared among threads. */
#include "backends/cpu/fft/rows.h"

#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

#include <math.h>

enum { LONG = 1 << 16, LEAST_ROWS = 128 };

/* ---- Long rows ------------------------------------------------------------------------------- */

/* Returns the number of rows n1 of the matrix for a row of n elements, a divisor of n that is at
 * most its root; 0 if the row is not to be divided. */
static int64_t matrix_rows(int64_t n)
{
    int64_t rows = n < LONG ? 0 : (int64_t)sqrt((double)n);
    while (rows >= LEAST_ROWS && n % rows != 0)
        rows--;
    return rows >= LEAST_ROWS ? rows : 0;
}

/* Fills a table with the powers 0, step, 2 step, .. of exp(-2 pi i / n), or their conjugates. */
static void fill_powers(double *table, int64_t count, int64_t step, int64_t n, bool forward)
{
    for (int64_t i = 0; i < count; i++) {
        const double angle = 2 * M_PI * (double)(i * step % n) / (double)n;
        table[2 * i] = cos(angle);
        table[2 * i + 1] = forward ? -sin(angle) : sin(angle);
    }
}

/* Transforms one row of n = n1 n2 elements. `between` has as many. */
static bool transform_matrix(const char *op, const br_fft_rows *row, int64_t n1, char *between,
                             const br_fft_twiddles *twiddles)
{
    const int64_t n2 = row->n / n1, size = row->x.element;
    br_fft_rows columns = *row, rows = *row;
    columns.scale = 1;
    columns.twiddles = twiddles;
    columns.n = rows.rows = n1;
    columns.rows = rows.n = n2;
    columns.x = (br_fft_side){ row->x.base, n1, size, n2 * size, size, 0 };
    columns.y = (br_fft_side){ between, n1, size, n2 * size, size, 0 };
    rows.x = (br_fft_side){ between, n2, size, size, n2 * size, 0 };
    rows.y = (br_fft_side){ row->y.base, n2, size, n1 * size, size, 0 };
    return br__fft_rows(op, &columns) && br__fft_rows(op, &rows);
}

/* Transforms adjacent rows, each of which is a matrix. */
static bool transform_long(const char *op, const br_fft_rows *w, int64_t n1)
{
    br_fft_twiddles t = { 0 };
    while (w->n >> 2 * t.bits > 0)
        t.bits++;
    const int64_t few = INT64_C(1) << t.bits, many = (w->n >> t.bits) + 1;
    br_scope *scope = br_scope_begin();
    br_tensor *low = br__new_on_host(op, BR_SHAPE(few, 2), BR_F64);
    br_tensor *high = br__new_on_host(op, BR_SHAPE(many, 2), BR_F64);
    br_tensor *between = br__new_on_host(op, BR_SHAPE(w->n, 2), w->dtype);
    bool ok = !br__failed();
    if (ok) {
        fill_powers((double *)(void *)low->data, few, 1, w->n, w->forward);
        fill_powers((double *)(void *)high->data, many, few, w->n, w->forward);
        t.low = (double *)(void *)low->data;
        t.high = (double *)(void *)high->data;
    }
    br_fft_rows row = *w;
    row.rows = 1;
    for (int64_t r = 0; ok && r < w->rows; r++) {
        row.x.base = w->x.base + r * w->x.row;
        row.y.base = w->y.base + r * w->y.row;
        ok = transform_matrix(op, &row, n1, between->data, &t);
    }
    br_scope_end(scope);
    return ok;
}

/* ---- The entry ------------------------------------------------------------------------------- */

/* Without inner dimensions, the outer slices have one row each, and count as rows of one slice. */
static br_fft_side side_of(const br_fft_work *w, const br_tensor *t, bool real, bool half)
{
    const int64_t number = (int64_t)br__dtype_size(t->dtype);
    br_fft_side s = { .base = t->data, .length = half ? w->n / 2 + 1 : w->n };
    s.element = real ? number : 2 * number;
    s.step = w->inner_size * s.element;
    s.row = w->inner_size > 1 ? s.element : s.length * s.element;
    s.outer = s.length * s.step;
    return s;
}

bool br__cpu_fft(const char *op, const br_fft_work *w)
{
    br_fft_rows rows = {
        w->kind,
        w->forward,
        w->x->dtype,
        w->scale,
        w->inner,
        w->n,
        w->outer,
        w->inner_size,
        side_of(w, w->x, w->kind == BR_FFT_R2C, w->kind == BR_FFT_C2R),
        side_of(w, w->y, w->kind == BR_FFT_C2R, w->kind == BR_FFT_R2C),
        NULL,
    };
    if (w->inner_size == 1) {
        rows.rows = w->outer;
        rows.outer = 1;
    }
    const int64_t n1 = w->kind == BR_FFT_C2C && w->inner_size == 1 ? matrix_rows(w->n) : 0;
    return n1 > 0 ? transform_long(op, &rows, n1) : br__fft_rows(op, &rows);
}
