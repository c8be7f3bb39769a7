/* backends/cpu/fft/rows.h - Fourier transforms of rows, which lie anywhere in memory. */
#ifndef BR_CPU_FFT_ROWS_H
#define BR_CPU_FFT_ROWS_H

#include "backends/cpu/fft/fft.h"

/* Where the rows of x, or of y, are: element i of row r of an outer slice o is at base + o * outer
 * + r * row + i * step. All but the length are in bytes. */
typedef struct br_fft_side {
    char *base;
    int64_t length, element;
    int64_t step, row, outer;
} br_fft_side;

/* Factors of the elements of y: the k-th of row r is multiplied by the power r k of exp(-2 pi i /
 * n), or of its conjugate, where n is the number of elements of all rows. The tables have pairs. */
typedef struct br_fft_twiddles {
    int bits;
    const double *low;  /* the powers 0, 1, .. below 2^bits */
    const double *high; /* the powers that are multiples of 2^bits */
} br_fft_twiddles;

typedef struct br_fft_rows {
    br_fft_kind kind;
    bool forward;
    br_dtype dtype;
    double scale, inner; /* as in br_fft_work */
    int64_t n, outer, rows;
    br_fft_side x, y;
    const br_fft_twiddles *twiddles; /* for C2C with one outer slice whose y has no adjacent
                                        elements; or NULL */
} br_fft_rows;

/* Transforms all rows. Returns false with an error if memory runs out, or if FFTW is missing. */
bool br__fft_rows(const char *op, const br_fft_rows *work);

#endif
