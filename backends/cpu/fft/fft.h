/* backends/cpu/fft/fft.h - Fourier transforms by FFTW, a library that is opened when it is first
 * needed. */
#ifndef BR_CPU_FFT_H
#define BR_CPU_FFT_H

#include "backends/fft.h"

/* What FFTW plans once, and computes many times. */
typedef struct br_fft_shape {
    br_fft_kind kind;
    bool forward; /* C2C; the others have the sign that the definition of FFTW gives them */
    br_dtype dtype;
    int64_t n;    /* length of a transform */
    int64_t many; /* transforms at once, whose elements follow each other */
} br_fft_shape;

typedef struct br_fft_plan {
    br_fft_shape shape;
    void *plan;                                    /* of FFTW */
    void (*execute)(void *plan, void *x, void *y); /* C2R overwrites x; any thread may call it */
    int (*alignment_of)(void *address);            /* must be 0 for x and y */
    int slot;                                      /* where it is kept, or -1 */
} br_fft_plan;

/* Gets a plan, for br__fft_plan_end(). Opens FFTW unless it is open. Returns false with an error
 * that names the package if FFTW is missing. */
bool br__fft_plan_begin(const char *op, const br_fft_shape *shape, br_fft_plan *plan);
void br__fft_plan_end(br_fft_plan *plan);

bool br__cpu_fft(const char *op, const br_fft_work *work);

#endif
