/* backends/fft.h - work of discrete Fourier transforms along one dimension. */
#ifndef BR_BACKEND_FFT_H
#define BR_BACKEND_FFT_H

#include <brasa/tensor.h>

/* Complex numbers are pairs of real ones. `half` stands for the n / 2 + 1 complex numbers
 * y[0 .. n / 2] of a spectrum in which y[n - k] is the conjugate of y[k]. */
typedef enum br_fft_kind {
    BR_FFT_C2C, /* complex to complex */
    BR_FFT_R2C, /* real to half */
    BR_FFT_C2R, /* half to real; ignores the imaginary parts of x[0] and, for even n, x[n / 2] */
} br_fft_kind;

/* y[k] = scale sum_j x[j] exp(-2 pi i j k / n), or with the conjugate of the exponential unless
 * `forward`. The sum of C2R is over all n elements of the spectrum.
 *
 * `inner` multiplies the elements of a half, y (R2C) or x (C2R), that stand for two elements of the
 * spectrum. Gradients need it: the gradient of R2C is C2R with inner / 2, and the gradient of C2R
 * is R2C with 2 inner, both with the opposite `forward`.
 *
 * The tensors are contiguous and not empty, of one dtype, f32 or f64, and of the shape [outer,
 * length, inner_size], or [outer, length, inner_size, 2] for complex numbers. `length` is n, or n /
 * 2 + 1 for a half. */
typedef struct br_fft_work {
    br_fft_kind kind;
    bool forward;
    double scale, inner;
    int64_t n, outer, inner_size;
    const br_tensor *y, *x;
} br_fft_work;

#endif
