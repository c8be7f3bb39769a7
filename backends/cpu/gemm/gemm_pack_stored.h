/* backends/cpu/gemm/gemm_pack_stored.h - packs operands of bf16 or f16 numbers as f32 numbers; part
 * of gemm_stored.c. */
#ifndef BR_KERNELS_GEMM_PACK_STORED_H
#define BR_KERNELS_GEMM_PACK_STORED_H

#include "backends/cpu/gemm/gemm_numbers.h"
#include "backends/cpu/gemm/gemm_pack.h"

/* Numbers of a row or column that are widened together: with the rows of a tile 8 KiB at most. */
enum { RUN = 64 };

/* Copies n numbers, `step` apart, to floats. */
static void widen_run(real *to, int64_t n, const stored_real *from, int64_t step)
{
    int64_t i = 0;
    for (; step == 1 && i + VECTOR <= n; i += VECTOR)
        *(vec_at *)(to + i) = load_numbers(from + i);
    for (; i < n; i++)
        to[i] = widened(from[i * step]);
}

/* Copies `run` numbers, k_step apart, of each of `count` rows or columns, `step` apart, to lines of
 * RUN floats. */
static void widen_lines(real *lines, int64_t count, int64_t run, const stored_real *from,
                        int64_t step, int64_t k_step)
{
    for (int64_t w = 0; w < count; w++)
        widen_run(lines + w * RUN, run, from + w * step, k_step);
}

/* to[p * width + w] = from[p * k_step + w] for w < count, p < k. */
ALWAYS_INLINE void pack_widened_rows(real *to, int width, int64_t count, int64_t k,
                                     const stored_real *from, int64_t k_step)
{
    for (int64_t p = 0; p < k; p++, to += width, from += k_step)
        for (int64_t w = 0; w < count; w += VECTOR) {
            if (count - w >= VECTOR)
                *(vec_at *)(to + w) = load_numbers(from + w);
            else
                store_part(to + w, load_part_of_numbers(from + w, count - w), count - w);
        }
}

/* Packs A [m, k] by tiles, as gemm_pack.h does. */
static void gemm_pack_stored(void *to, int64_t m, int64_t k, const void *a, int64_t a_row,
                             int64_t a_col)
{
    real rows[TILE_ROWS * RUN];
    for (int64_t i = 0; i < m; i += TILE_ROWS) {
        const int64_t count = m - i < TILE_ROWS ? m - i : TILE_ROWS;
        const stored_real *from = (const stored_real *)a + i * a_row;
        real *tile = (real *)to + i * k;
        if (a_row == 1) {
            pack_widened_rows(tile, TILE_ROWS, count, k, from, a_col);
            continue;
        }
        for (int64_t p = 0; p < k; p += RUN) {
            const int64_t run = k - p < RUN ? k - p : RUN;
            widen_lines(rows, count, run, from + p * a_col, a_row, a_col);
            pack(tile + p * TILE_ROWS, TILE_ROWS, count, run, rows, RUN, 1);
        }
    }
}

/* Packs columns of B [k, count] into a panel, as gemm_pack.h does. */
static void pack_panel_stored(real *to, int64_t count, int64_t k, const stored_real *b,
                              int64_t b_row, int64_t b_col)
{
    real columns[TILE_COLUMNS * RUN];
    if (b_col == 1) {
        if (count % VECTOR != 0)
            for (int64_t p = 0; p < k; p++)
                *(vec *)(to + p * TILE_COLUMNS + count / VECTOR * VECTOR) = (vec){ 0 };
        pack_widened_rows(to, TILE_COLUMNS, count, k, b, b_row);
        return;
    }
    for (int64_t p = 0; p < k; p += RUN) {
        const int64_t run = k - p < RUN ? k - p : RUN;
        widen_lines(columns, count, run, b + p * b_row, b_col, b_row);
        pack_panel(to + p * TILE_COLUMNS, count, run, columns, 1, RUN);
    }
}

#endif
