/* backends/cpu/reduce/bools.c - reductions of bools: counts, "or" as maximum, "and" as minimum.
 *
 * Elements are bytes of 0 and 1. They are counted in bytes, 255 at a time, so that a vector counts
 * 16 of them. A maximum is the first 1 and a minimum the first 0, which memchr() finds; what
 * follows is not read. */
#include "backends/cpu/hints.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "tensor/min_max.h"

#include <string.h>

enum {
    MOST = 255,    /* bools that are counted in a byte */
    COLUMNS = 256, /* columns that are counted or combined at a time */
};
typedef uint8_t bytes __attribute__((vector_size(16)));
typedef uint8_t bytes_at __attribute__((vector_size(16), aligned(1), may_alias));

/* ---- Sum ------------------------------------------------------------------------------------- */

/* Returns the number of ones among n contiguous elements. */
static int64_t count_run(const char *x, int64_t n)
{
    enum { VECTORS = 4, STEP = VECTORS * sizeof(bytes) };
    int64_t total = 0, i = 0;
    while (n - i >= STEP) {
        const int64_t end = i + br__min((n - i) / STEP, MOST) * STEP;
        bytes count[VECTORS] = { { 0 } };
        for (; i < end; i += STEP) {
            UNROLLED
            for (int k = 0; k < VECTORS; k++)
                count[k] += *(const bytes_at *)(const void *)(x + i + k * (int)sizeof(bytes));
        }
        uint8_t counts[STEP];
        memcpy(counts, count, sizeof counts);
        for (int k = 0; k < STEP; k++)
            total += counts[k];
    }
    for (; i < n; i++)
        total += x[i];
    return total;
}

/* Counts in up to COLUMNS adjacent columns. */
static void count_rows(const br_fold *f, int64_t column, int64_t columns)
{
    for (int64_t i = 0; i < f->rows;) {
        const int64_t end = br__min(f->rows, i + MOST);
        uint8_t count[COLUMNS] = { 0 };
        for (; i < end; i++) {
            const uint8_t *x = (const uint8_t *)f->x + i * f->row_stride + column;
            FOR_EACH(uint8_t, j, columns, count[j] = (uint8_t)(count[j] + x[j]);)
        }
        for (int64_t j = 0; j < columns; j++)
            f->value[column + j].i += count[j];
    }
}

void br__bool_sum(const br_fold *f)
{
    if (f->column_stride == 1 && f->columns > 1) {
        for (int64_t j = 0; j < f->columns; j += COLUMNS)
            count_rows(f, j, br__min(f->columns - j, COLUMNS));
        return;
    }
    for (int64_t j = 0; j < f->columns; j++) {
        const char *x = f->x + j * f->column_stride;
        if (f->row_stride == 1)
            f->value[j].i += count_run(x, f->rows);
        else
            for (int64_t i = 0; i < f->rows; i++)
                f->value[j].i += x[i * f->row_stride];
    }
}

/* ---- Maximum and minimum --------------------------------------------------------------------- */

/* Returns the first row of a column whose element is `wanted`, or -1. */
static int64_t first_row(const br_fold *f, int64_t column, char wanted)
{
    const char *x = f->x + column * f->column_stride;
    if (f->row_stride == 1) {
        const char *found = memchr(x, wanted, (size_t)f->rows);
        return found ? found - x : -1;
    }
    for (int64_t i = 0; i < f->rows; i++)
        if (x[i * f->row_stride] == wanted)
            return i;
    return -1;
}

/* Updates the maximum so far (wanted = 1) or the minimum (0), and its row. The initial value may be
 * beyond both. */
static void find(const br_fold *f, char wanted)
{
    for (int64_t j = 0; f->rows > 0 && j < f->columns; j++) {
        int64_t *value = &f->value[j].i;
        const int64_t row = *value == wanted ? -1 : first_row(f, j, wanted);
        if (row >= 0) {
            *value = wanted;
            f->index[j] = f->first_row + row;
        } else if (*value != 0 && *value != 1) {
            *value = !wanted;
            f->index[j] = f->first_row;
        }
    }
}

/* Updates the values, but not the rows, of up to COLUMNS adjacent columns. */
static void find_in_rows(const br_fold *f, int64_t column, int64_t columns, uint8_t wanted)
{
    uint8_t found[COLUMNS] = { 0 };
    for (int64_t i = 0; i < f->rows; i++) {
        const uint8_t *x = (const uint8_t *)f->x + i * f->row_stride + column;
        FOR_EACH(uint8_t, j, columns, found[j] |= x[j] == wanted;)
    }
    for (int64_t j = 0; j < columns; j++) {
        int64_t *value = &f->value[column + j].i;
        if (found[j])
            *value = wanted;
        else if (*value != 0 && *value != 1)
            *value = !wanted;
    }
}

static void find_values(const br_fold *f, uint8_t wanted)
{
    if (f->column_stride != 1 || f->columns == 1 || f->rows == 0) {
        find(f, (char)wanted);
        return;
    }
    for (int64_t j = 0; j < f->columns; j += COLUMNS)
        find_in_rows(f, j, br__min(f->columns - j, COLUMNS), wanted);
}

void br__bool_max(const br_fold *f)
{
    find_values(f, 1);
}

void br__bool_min(const br_fold *f)
{
    find_values(f, 0);
}

void br__bool_argmax(const br_fold *f)
{
    find(f, 1);
}

void br__bool_argmin(const br_fold *f)
{
    find(f, 0);
}
