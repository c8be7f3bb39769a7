/* backends/cpu/gemm/gemm_operands.h - what the micro-kernels of all units share: prefetching, the
 * destination of their sums, and operands whose elements are listed; part of variant.c, gemm_bf16.c
 * and gemm_amx.c. */
#ifndef BR_KERNELS_GEMM_OPERANDS_H
#define BR_KERNELS_GEMM_OPERANDS_H

#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/vector.h"

/* ---- Prefetching ----------------------------------------------------------------------------- */

/* Runs of memory that are prefetched line by line. */
typedef struct prefetch {
    const char *at, *end; /* in the current run */
    int64_t bytes, step, runs;
} prefetch;

/* Prefetches the next `lines` lines of the current run. `lines` is a constant after inlining. */
ALWAYS_INLINE void prefetch_lines(prefetch *p, int lines)
{
    if (p->runs == 0)
        return;
    UNROLLED
    for (int i = 0; i < lines; i++)
        __builtin_prefetch(p->at + 64 * i, 0, 2);
    p->at += 64 * lines;
    if (p->at >= p->end) {
        p->end += p->step;
        p->at = p->end - p->bytes;
        p->runs--;
    }
}

/* Returns a prefetch of runs first .. end - 1. */
static prefetch prefetch_runs(const br_strided_rows *r, int64_t first, int64_t end)
{
    if (first >= end)
        return (prefetch){ .runs = 0 };
    const char *at = r->at + first * r->step;
    return (prefetch){
        .at = at, .end = at + r->bytes, .bytes = r->bytes, .step = r->step, .runs = end - first
    };
}

/* Returns a prefetch of the memory that is read to pack a panel of B, whose elements have `size`
 * bytes. */
static prefetch prefetch_panel(const br_gemm_block *g, const void *b, int64_t columns, int64_t size)
{
    const bool by_rows = g->b_col == 1;
    const br_strided_rows panel = { .at = b,
                                    .bytes = (by_rows ? columns : g->k) * size,
                                    .step = (by_rows ? g->b_row : g->b_col) * size };
    return prefetch_runs(&panel, 0, columns > 0 && by_rows ? g->k : columns);
}

/* ---- Columns of C ---------------------------------------------------------------------------- */

/* The destination of a tile's sums. `columns` is a multiple of VECTOR or, with masks, any number.
 */
typedef struct tile_out {
    real *c;
    int64_t c_row, columns;
    const real *bias; /* of the tile's first column, or NULL */
    bool accumulate;
} tile_out;

/* Returns the bias from column j on, or NULL. */
static inline const real *bias_from(const br_gemm_block *g, int64_t j)
{
    return g->bias ? (const real *)g->bias + j : NULL;
}

/* Returns the first column of the next panel: j, or, if several threads share the block, the first
 * column that no thread has taken. */
static int64_t claim_panel(const br_gemm_block *g, int64_t j)
{
    return g->next_column
               ? atomic_fetch_add_explicit(g->next_column, TILE_COLUMNS, memory_order_relaxed)
               : j;
}

/* ---- Listed elements ------------------------------------------------------------------------- */

/* Runs of at most VECTOR listed columns that are adjacent in B: run r begins at from[r] in B and at
 * column at[r] of the panel. */
typedef struct column_runs {
    int64_t count, from[TILE_COLUMNS], at[TILE_COLUMNS];
} column_runs;

static void find_runs(column_runs *runs, int64_t count, const int64_t *columns)
{
    int64_t n = 0;
    for (int64_t w = 0; w < count; w++)
        if (n == 0 || w - runs->at[n - 1] == VECTOR || columns[w] != columns[w - 1] + 1) {
            runs->from[n] = columns[w];
            runs->at[n++] = w;
        }
    runs->count = n;
}

/* Packs the listed rows of B, and `count` columns in runs, into a panel. Runs are copied as whole
 * vectors. Excess elements are overwritten by the next columns or the next row, so the panel needs
 * room for one more vector at its end. */
static void pack_runs(real *to, int64_t count, int64_t k, const real *b, const int64_t *rows,
                      const column_runs *runs)
{
    const int64_t last = (count - 1) / VECTOR * VECTOR;
    for (int64_t p = 0; p < k && count < TILE_COLUMNS; p++)
        *(vec *)(to + p * TILE_COLUMNS + last) = (vec){ 0 };
    for (int64_t p = 0; p < k; p++, to += TILE_COLUMNS) {
        const real *row = b + rows[p];
        *(vec_at *)(to + runs->at[0]) = *(const vec_at *)(row + runs->from[0]);
        for (int64_t r = 1; r < runs->count; r++)
            *(vec_at *)(to + runs->at[r]) = *(const vec_at *)(row + runs->from[r]);
    }
}

/* Stores a tile of sums to the listed columns of C. */
static void put_listed(const tile_out *out, int64_t rows, const real *sums, const int64_t *columns)
{
    for (int64_t i = 0; i < rows; i++, sums += TILE_COLUMNS) {
        real *c = out->c + i * out->c_row;
        if (out->accumulate) {
            INDEPENDENT
            for (int64_t j = 0; j < out->columns; j++)
                c[columns[j]] += sums[j];
        } else {
            INDEPENDENT
            for (int64_t j = 0; j < out->columns; j++)
                c[columns[j]] = sums[j];
        }
    }
}

#endif
