/* brasa/ops/fft.h - complex numbers and Fourier transforms; part of brasa/ops.h. Implemented in
 * ops/fft/.
 *
 * There is no complex dtype. A complex tensor is a floating-point tensor whose last dimension has
 * the size 2: the real and the imaginary part, as torch.view_as_real() returns them. Below,
 * "complex [3, 4]" is a tensor of the shape [3, 4, 2]. Dimensions in arguments count without that
 * last dimension: -1 is the last dimension of the complex tensor. Gradients are taken
 * with respect to the real and the imaginary part, as PyTorch's are through torch.view_as_real().
 *
 * Transforms take f32 and f64. FFTW computes them, a library that is opened by the first call:
 * libfftw3f.so.3 for f32 and libfftw3.so.3 for f64, of the Debian packages libfftw3-single3 and
 * libfftw3-double3, or the files that the environment variables BRASA_FFTW_SINGLE and BRASA_FFTW
 * name. Without them, the transforms fail with BR_ERROR_IO. FFTW is under the GNU General Public
 * License, version 2 or later; Brasa is not linked with it. */
#ifndef BRASA_OPS_FFT_H
#define BRASA_OPS_FFT_H

#include <brasa/ops/shape.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Complex numbers (ops/fft/complex.c) ----------------------------------------------------- */

/* Returns the complex tensor of two real ones of one dtype, which broadcast. `imag` may be NULL: it
 * is then 0. */
BR_API br_tensor *br_complex(br_tensor *real, br_tensor *imag);
/* Returns abs (cos(angle) + i sin(angle)), a complex tensor. Both have one dtype, and broadcast. */
BR_API br_tensor *br_polar(br_tensor *abs, br_tensor *angle);
/* Return the real or the imaginary part of a complex tensor, as a view. */
BR_API br_tensor *br_real(br_tensor *x);
BR_API br_tensor *br_imag(br_tensor *x);
/* Return torch.abs(), torch.angle(), torch.conj() and torch.mul() of complex tensors. The gradient
 * of the absolute value and of the angle of 0 is 0. Factors broadcast. */
BR_API br_tensor *br_complex_abs(br_tensor *x);
BR_API br_tensor *br_complex_angle(br_tensor *x);
BR_API br_tensor *br_complex_conj(br_tensor *x);
BR_API br_tensor *br_complex_mul(br_tensor *a, br_tensor *b);

/* ---- Fourier transforms of one dimension (ops/fft/fft.c) ------------------------------------- */

/* Where a transform of n elements is divided, and by what. */
typedef enum br_fft_norm {
    BR_FFT_BACKWARD, /* PyTorch's default: inverse transforms by n */
    BR_FFT_ORTHO,    /* all transforms by the square root of n */
    BR_FFT_FORWARD,  /* forward transforms by n */
} br_fft_norm;

/* These transform one dimension of x, which is cropped to its first n elements, or padded with
 * zeros to n elements, before. n may be BR_NONE, PyTorch's default: the size of the dimension.
 * PyTorch's default of dim is -1. n must be at least 1.
 *
 * br_fft_fft(): y[k] = sum_j x[j] exp(-2 pi i j k / n), of a complex x; a real one is made complex
 * by br_complex(x, NULL). br_fft_ifft() is its inverse. */
BR_API br_tensor *br_fft_fft(br_tensor *x, int64_t n, int64_t dim, br_fft_norm norm);
BR_API br_tensor *br_fft_ifft(br_tensor *x, int64_t n, int64_t dim, br_fft_norm norm);
/* Returns elements 0 .. n / 2 of the transform of a real x; the others are their conjugates. */
BR_API br_tensor *br_fft_rfft(br_tensor *x, int64_t n, int64_t dim, br_fft_norm norm);
/* The inverse: x has elements 0 .. n / 2 of the transform of n real numbers, which are returned.
 * Without n, their number is 2 (size - 1). The imaginary parts of element 0 and, for even n, of
 * element n / 2 are ignored. */
BR_API br_tensor *br_fft_irfft(br_tensor *x, int64_t n, int64_t dim, br_fft_norm norm);
/* Returns the transform, which is real, of a complex signal whose element n - j is the conjugate of
 * element j. x has its elements 0 .. n / 2; n has the same default as in
 * br_fft_irfft(). */
BR_API br_tensor *br_fft_hfft(br_tensor *x, int64_t n, int64_t dim, br_fft_norm norm);
/* The inverse: returns elements 0 .. n / 2 of the inverse transform of a real x. */
BR_API br_tensor *br_fft_ihfft(br_tensor *x, int64_t n, int64_t dim, br_fft_norm norm);

/* ---- Fourier transforms of several dimensions (ops/fft/fft.c) -------------------------------- */

/* These transform several dimensions. s has the number of elements for each of them, to which x is
 * cropped or padded with zeros; -1 keeps the size. Either list may be empty (0, NULL), as None in
 * PyTorch: without s, sizes stay; without dims, the last dimensions are transformed, as many as s
 * has, or, without s, all dimensions. Functions with a 2 then transform the last two dimensions.
 * `norm` counts the elements of all these dimensions.
 *
 * A real transform has half of the last dimension in dims; the default size of this dimension in
 * br_fft_irfftn() and br_fft_hfftn() is 2 (size - 1). */
BR_API br_tensor *br_fft_fftn(br_tensor *x, int ns, const int64_t *s, int ndims,
                              const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_ifftn(br_tensor *x, int ns, const int64_t *s, int ndims,
                               const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_rfftn(br_tensor *x, int ns, const int64_t *s, int ndims,
                               const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_irfftn(br_tensor *x, int ns, const int64_t *s, int ndims,
                                const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_hfftn(br_tensor *x, int ns, const int64_t *s, int ndims,
                               const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_ihfftn(br_tensor *x, int ns, const int64_t *s, int ndims,
                                const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_fft2(br_tensor *x, int ns, const int64_t *s, int ndims,
                              const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_ifft2(br_tensor *x, int ns, const int64_t *s, int ndims,
                               const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_rfft2(br_tensor *x, int ns, const int64_t *s, int ndims,
                               const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_irfft2(br_tensor *x, int ns, const int64_t *s, int ndims,
                                const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_hfft2(br_tensor *x, int ns, const int64_t *s, int ndims,
                               const int64_t *dims, br_fft_norm norm);
BR_API br_tensor *br_fft_ihfft2(br_tensor *x, int ns, const int64_t *s, int ndims,
                                const int64_t *dims, br_fft_norm norm);

/* ---- Frequencies (ops/fft/frequencies.c) ----------------------------------------------------- */

/* Return the frequencies of the elements of br_fft_fft() and br_fft_rfft() for a signal with n
 * samples at a distance of d (PyTorch's default is 1): [n], 0, 1, .., -2, -1, or [n / 2 + 1], 0, 1,
 * .., n / 2, divided by n d. The dtype is a floating-point one. */
BR_API br_tensor *br_fft_fftfreq(int64_t n, double d, br_dtype dtype);
BR_API br_tensor *br_fft_rfftfreq(int64_t n, double d, br_dtype dtype);
/* Moves the frequency 0 from the begin of dimensions to their middle, and back. Without dims (0,
 * NULL), all dimensions are shifted. x may have any dtype. If it is complex, say so: dims then
 * count without the last dimension, which is not shifted. */
BR_API br_tensor *br_fft_fftshift(br_tensor *x, bool is_complex, int ndims, const int64_t *dims);
BR_API br_tensor *br_fft_ifftshift(br_tensor *x, bool is_complex, int ndims, const int64_t *dims);

/* ---- Transforms of short parts of signals (ops/fft/stft.c) ----------------------------------- */

typedef struct br_stft_options {
    size_t struct_size;
    int64_t hop_length; /* distance of frames; BR_NONE: n_fft / 4 */
    int64_t win_length; /* BR_NONE: n_fft. A shorter window is padded with zeros on both sides */
    br_tensor *window;  /* [win_length], or complex; NULL: ones */
    bool center; /* frame t has its center at sample t hop_length; x is padded by n_fft / 2 on
                    both sides */
    br_pad_mode pad_mode;
    bool normalized;      /* divide by the square root of n_fft */
    int64_t onesided;     /* 1: return frequencies 0 .. n_fft / 2, which a real x and a real window
                             need; 0: all. BR_NONE: 1 if x and the window are real */
    bool align_to_window; /* without `center`: the first frame begins where its window does */
    bool complex_input;   /* x is complex */
} br_stft_options;
#define br_stft_default_fields                                                            \
    .struct_size = sizeof(br_stft_options), .hop_length = BR_NONE, .win_length = BR_NONE, \
    .center = true, .pad_mode = BR_PAD_REFLECT, .onesided = BR_NONE
BR_API br_stft_options br_stft_defaults(void);
/* Returns the transforms of frames of n_fft samples of x [L] or [B, L], each multiplied by the
 * window: complex [N, T] or [B, N, T], with N frequencies and T frames.
 * The result is a view whose memory has frames before frequencies. */
BR_API br_tensor *br_stft(br_tensor *x, int64_t n_fft, const br_stft_options *options);

typedef struct br_istft_options {
    size_t struct_size;
    int64_t hop_length, win_length; /* as in br_stft(); hop_length is at most win_length */
    br_tensor *window;
    bool center, normalized;
    int64_t onesided;    /* as in br_stft(); BR_NONE: 1 unless x has n_fft frequencies */
    int64_t length;      /* samples to return; BR_NONE: those between the first and the last center,
                            or all without `center` */
    bool return_complex; /* the signal is complex; onesided must be 0 */
} br_istft_options;
#define br_istft_default_fields                                                            \
    .struct_size = sizeof(br_istft_options), .hop_length = BR_NONE, .win_length = BR_NONE, \
    .center = true, .onesided = BR_NONE, .length = BR_NONE
BR_API br_istft_options br_istft_defaults(void);
/* Returns the signal [L] or [B, L] of complex x [N, T] or [B, N, T], which br_stft() returned: of
 * all signals that whose transforms are closest to x (D. W. Griffin and J. S. Lim, "Signal
 * estimation from modified short-time Fourier transform", 1984). Samples after the last frame are
 * 0. Fails if a sample is outside of all windows, or if all windows are 0 there. */
BR_API br_tensor *br_istft(br_tensor *x, int64_t n_fft, const br_istft_options *options);

#ifdef __cplusplus
}
#endif

#endif
