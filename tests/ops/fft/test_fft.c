/* tests/ops/fft/test_fft.c - Fourier transforms against their definition, views of complex tensors,
 * messages, and a missing FFTW. The gradients are tested by the rows of op_cases.def, and PyTorch's
 * numbers by those of torch_cases.def. */
#include "tests/ops/cases.h"
#include "tests/same_bits.h"

#include <pthread.h>

TestSuite(fft, .init = check_begin, .fini = check_end);

static void skip_without_fftw(void)
{
    if (!case_can_run(&(op_case){ .fftw = true }))
        cr_skip_test("FFTW is missing: install libfftw3-single3 and libfftw3-double3");
}

/* Returns the transform of complex x [rows, n, 2], in f64, by matrices of cosines and sines. */
static br_tensor *by_definition(br_tensor *x, bool forward)
{
    const int64_t n = br_size(x, 1);
    br_tensor *cosines = br_empty(BR_SHAPE(n, n), BR_F64), *sines = br_empty_like(cosines);
    for (int64_t j = 0; j < n; j++)
        for (int64_t k = 0; k < n; k++) {
            const double angle = 2 * M_PI * (double)(j * k % n) / (double)n;
            br_data_f64(cosines)[j * n + k] = cos(angle);
            br_data_f64(sines)[j * n + k] = forward ? -sin(angle) : sin(angle);
        }
    br_tensor *real = br_to(br_real(x), BR_F64), *imag = br_to(br_imag(x), BR_F64);
    return br_complex(br_sub(br_matmul(real, cosines), br_matmul(imag, sines)),
                      br_add(br_matmul(real, sines), br_matmul(imag, cosines)));
}

/* Returns the whole spectrum of the half [rows, n / 2 + 1, 2] of a real sequence. */
static br_tensor *whole(br_tensor *half, int64_t n)
{
    const int64_t inner = (n - 1) / 2, size = br_size(half, 1);
    br_tensor *real = br_real(half), *imag = br_clone(br_imag(half));
    br_fill_(br_narrow(imag, 1, 0, 1), 0);
    if (n % 2 == 0)
        br_fill_(br_narrow(imag, 1, size - 1, 1), 0);
    br_tensor *re = br_flip(br_narrow(real, 1, 1, inner), BR_DIMS(1));
    br_tensor *im = br_neg(br_flip(br_narrow(imag, 1, 1, inner), BR_DIMS(1)));
    return br_complex(br_cat(BR_INPUTS(real, re), 1), br_cat(BR_INPUTS(imag, im), 1));
}

static void expect_near(br_tensor *got, br_tensor *want, double tolerance, const char *what,
                        int64_t n)
{
    const char *dtype = br_dtype_name(br_dtype_of(got));
    cr_expect(br_allclose(br_to(got, BR_F64), want, 0, tolerance), "%s of %d in %s: %s", what,
              (int)n, dtype, br_error_message());
    br_clear_error();
}

/* The sizes are even, odd, prime and 1; rows fill blocks, or begin one. They are transformed where
 * they are, as part of a larger tensor, whose elements may have any alignment, and along a
 * dimension that is not the last. An error grows like the logarithm of n, for numbers of size
 * sqrt(n). */
static void check_size(int64_t n, int64_t rows, br_dtype dtype)
{
    const double unit = dtype == BR_F64 ? 0x1p-53 : 0x1p-24;
    const double tolerance = 16 * unit * sqrt((double)n) * log2(2 + (double)n);
    br_tensor *x = br_randn(BR_SHAPE(rows, n, 2), dtype), *real = br_real(x);
    br_tensor *half = br_narrow(br_randn(BR_SHAPE(rows, n, 2), dtype), 1, 0, n / 2 + 1);
    for (int forward = 0; forward < 2; forward++) {
        br_tensor *want = by_definition(x, forward);
        br_tensor *(*c2c)(br_tensor *, int64_t, int64_t, br_fft_norm) =
            forward ? br_fft_fft : br_fft_ifft;
        const br_fft_norm none = forward ? BR_FFT_BACKWARD : BR_FFT_FORWARD;
        expect_near(c2c(x, BR_NONE, -1, none), want, tolerance, "a transform", n);
        br_tensor *columns = br_contiguous(br_transpose(x, 0, 1));
        expect_near(br_transpose(c2c(columns, BR_NONE, 0, none), 0, 1), want, tolerance,
                    "a transform of columns", n);
        br_tensor *odd = br_narrow(br_cat(BR_INPUTS(br_narrow(x, 0, 0, 1), x), 0), 0, 1, rows);
        expect_near(c2c(odd, BR_NONE, -1, none), want, tolerance, "a transform of a part", n);
        want = br_narrow(by_definition(br_complex(real, NULL), forward), 1, 0, n / 2 + 1);
        expect_near((forward ? br_fft_rfft : br_fft_ihfft)(real, BR_NONE, -1, none), want,
                    tolerance, "a real transform", n);
        want = br_real(by_definition(whole(half, n), forward));
        expect_near((forward ? br_fft_hfft : br_fft_irfft)(half, n, -1, none), want, tolerance,
                    "a transform to real numbers", n);
        columns = br_contiguous(br_transpose(half, 0, 1));
        expect_near(br_transpose((forward ? br_fft_hfft : br_fft_irfft)(columns, n, 0, none), 0, 1),
                    want, tolerance, "a transform of columns to real numbers", n);
    }
}

Test(fft, transforms_by_definition)
{
    skip_without_fftw();
    static const int64_t sizes[] = { 1,  2,  3,  4,  5,  6,   7,   8,   12,  13,  16, 27,
                                     31, 60, 64, 97, 99, 128, 200, 255, 256, 400, 509 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int64_t rows = 1; rows < 80; rows = 3 * rows + 2)
            for (int dtype = BR_F32; dtype <= BR_F64; dtype++) {
                br_scope *scope = br_scope_begin();
                check_size(sizes[i], rows, (br_dtype)dtype);
                br_scope_end(scope);
            }
}

/* Returns the error of the transform of impulses 1, 2 and 3 in the last of three rows. */
static double error_of_impulses(int64_t n, br_dtype dtype, bool forward)
{
    const int64_t at[] = { 1, n / 3, n - 2 };
    br_tensor *x = br_zeros(BR_SHAPE(3, n, 2), BR_F64);
    for (int i = 0; i < 3; i++)
        br_data_f64(x)[(2 * n + at[i]) * 2] += i + 1;
    br_tensor *y = br_to(
        (forward ? br_fft_fft : br_fft_ifft)(br_to(x, dtype), BR_NONE, -1, BR_FFT_ORTHO), BR_F64);
    cr_assert(y, "%s", br_error_message());
    double worst = 0;
    for (int64_t k = 0; k < n; k++) {
        double real = 0, imag = 0;
        for (int i = 0; i < 3; i++) {
            const double angle = 2 * M_PI * (double)(at[i] * k % n) / (double)n;
            real += (i + 1) * cos(angle);
            imag += (i + 1) * (forward ? -sin(angle) : sin(angle));
        }
        const double *got = br_data_f64(y) + (2 * n + k) * 2, scale = sqrt((double)n);
        worst = fmax(worst, hypot(got[0] * scale - real, got[1] * scale - imag));
    }
    return worst;
}

/* Rows that are matrices of different numbers of rows and columns, even and odd, and long ones that
 * are none. */
Test(fft, long_rows)
{
    skip_without_fftw();
    static const int64_t sizes[] = { 65536, 131 * 503, 127 * 521, 2 * 32771, 98304, 99225 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int forward = 0; forward < 2; forward++) {
            br_scope *scope = br_scope_begin();
            /* Numbers up to 6 pass some 20 additions, or sums of 500 for prime factors. */
            const double f32 = error_of_impulses(sizes[i], BR_F32, forward);
            const double f64 = error_of_impulses(sizes[i], BR_F64, forward);
            cr_expect(f32 < 128 * 0x1p-24 && f64 < 128 * 0x1p-53,
                      "%d elements: %g in f32, %g in f64", (int)sizes[i], f32, f64);
            br_scope_end(scope);
        }
}

/* More sizes than there is room for plans, and the first ones again. */
Test(fft, plans_are_made_again)
{
    skip_without_fftw();
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(150, 2), BR_F64), *first[150];
    for (int64_t n = 1; n < 150; n++)
        first[n] = br_fft_fft(x, n, -1, BR_FFT_BACKWARD);
    for (int64_t n = 1; n < 150; n++)
        cr_expect(same_bits(br_fft_fft(x, n, -1, BR_FFT_BACKWARD), first[n]), "%d", (int)n);
    check_ok();
    br_scope_end(scope);
}

static void *transform_sizes(void *result)
{
    *(bool *)result = true;
    for (int64_t n = 1; n < 150; n++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = br_ones(BR_SHAPE(n), BR_F32);
        br_tensor *back =
            br_fft_irfft(br_fft_rfft(x, BR_NONE, -1, BR_FFT_ORTHO), n, -1, BR_FFT_ORTHO);
        *(bool *)result &= br_allclose(back, x, 0, 1e-5);
        br_scope_end(scope);
    }
    br_thread_cleanup();
    return NULL;
}

Test(fft, several_threads_plan)
{
    skip_without_fftw();
    pthread_t threads[4];
    bool ok[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, transform_sizes, &ok[i]), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        cr_expect(ok[i], "thread %d", i);
    }
}

Test(fft, imaginary_parts_without_a_meaning_are_ignored)
{
    skip_without_fftw();
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f64(BR_SHAPE(3, 2), (double[]){ 1, NAN, 2, 3, 4, INFINITY });
    br_tensor *y = br_fft_irfft(x, BR_NONE, -1, BR_FFT_FORWARD);
    cr_expect(br_equal(y, br_from_f64(BR_SHAPE(4), (double[]){ 9, -9, 1, 3 })));
    br_scope_end(scope);
}

Test(fft, parts_are_views)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f32(BR_SHAPE(2, 2), (float[]){ 1, 2, 3, 4 });
    cr_expect(br_shares_storage(br_real(x), x) && br_shares_storage(br_imag(x), x));
    br_fill_(br_imag(x), 5);
    cr_expect(br_equal(x, br_from_f32(BR_SHAPE(2, 2), (float[]){ 1, 5, 3, 5 })));
    br_scope_end(scope);
}

/* A single complex number has no dimension to transform: the result is a copy. */
Test(fft, transform_of_no_dimension)
{
    skip_without_fftw();
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f64(BR_SHAPE(2), (double[]){ 3, -1 });
    br_tensor *y = br_fft_fftn(x, 0, NULL, 0, NULL, BR_FFT_ORTHO);
    cr_expect(br_equal(y, x) && !br_shares_storage(y, x), "%s", br_error_message());
    br_scope_end(scope);
}

/* The absolute value has no gradient at 0. PyTorch's gradients of both orders are 0 there. */
Test(fft, gradients_of_the_absolute_value_of_0)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_zeros(BR_SHAPE(3, 2), BR_F64), true);
    br_tensor *y = br_sum(br_complex_abs(x)), *first = NULL, *second = NULL;
    cr_assert(br_grad(1, &y, 1, &x, &first, BR_OPTIONS(br_grad, .create_graph = true)));
    br_tensor *sum = br_sum(first);
    cr_assert(br_grad(1, &sum, 1, &x, &second, NULL), "%s", br_error_message());
    cr_expect(br_equal(first, br_zeros_like(x)) && br_equal(second, br_zeros_like(x)));
    br_scope_end(scope);
}

/* A signal comes back. */
Test(fft, istft_inverts_stft)
{
    skip_without_fftw();
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(2, 3000), BR_F64), *window = br_hann_window(400, true, BR_F64);
    br_tensor *y = br_stft(
        x, 512, BR_OPTIONS(br_stft, .hop_length = 160, .win_length = 400, .window = window));
    br_tensor *back = br_istft(y, 512,
                               BR_OPTIONS(br_istft, .hop_length = 160, .win_length = 400,
                                          .window = window, .length = 3000));
    cr_expect(br_allclose(back, x, 0, 1e-12), "%s", br_error_message());
    /* The default hop is a quarter of n_fft, also with a shorter window. */
    y = br_stft(br_ones(BR_SHAPE(16), BR_F64), 8, BR_OPTIONS(br_stft, .win_length = 4));
    cr_expect_eq(br_size(y, 1), 9, "%s", br_error_message());
    br_scope_end(scope);
}

Test(fft, errors)
{
    skip_without_fftw();
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(3, 4, 2), BR_F64), *real = br_ones(BR_SHAPE(8), BR_F64);
    check_fails(br_fft_fft(real, BR_NONE, -1, BR_FFT_BACKWARD),
                "fft_fft: x [8] must be complex, with a last dimension of size 2: br_complex()");
    check_fails(br_fft_fft(x, 0, -1, BR_FFT_BACKWARD), "fft_fft: n is 0, must be in 1 .. ");
    check_fails(br_fft_fft(x, BR_NONE, 2, BR_FFT_BACKWARD),
                "fft_fft: dim is 2, must be in -2 .. 1 for x [3, 4, 2], whose last dimension is "
                "not counted");
    check_fails(br_fft_rfft(real, BR_NONE, -1, (br_fft_norm)7), "norm is 7");
    check_fails(br_fft_rfft(br_to(real, BR_F16), BR_NONE, -1, BR_FFT_BACKWARD),
                "must be f32 or f64: convert it by br_to()");
    check_fails(br_fft_irfft(br_ones(BR_SHAPE(1, 2), BR_F64), BR_NONE, -1, BR_FFT_BACKWARD),
                "fft_irfft: dimension 0 of x [1, 2] is transformed with 0 elements, must have 1");
    check_fails(br_fft_fftn(x, BR_SHAPE(2, 0), 0, NULL, BR_FFT_BACKWARD), "s[1] is 0");
    check_fails(br_fft_fftn(x, 0, NULL, BR_DIMS(1, -1), BR_FFT_BACKWARD),
                "dims name dimension 1 of x [3, 4, 2] twice");
    check_fails(br_fft_rfftn(real, BR_SHAPE(2), BR_DIMS(0, 1), BR_FFT_BACKWARD),
                "s has 1 sizes and dims 2 dimensions: must be equal");
    check_fails(br_stft(real, 4, BR_OPTIONS(br_stft, .hop_length = 0)),
                "stft: hop_length is 0, must be in 1 .. ");
    check_fails(br_stft(real, 4, BR_OPTIONS(br_stft, .window = real)),
                "stft: window [8] must be [4], which is win_length");
    check_fails(br_stft(real, 4, BR_OPTIONS(br_stft, .onesided = 2)), "onesided is 2");
    br_tensor *spectra = br_ones(BR_SHAPE(3, 5, 2), BR_F64);
    check_fails(br_istft(spectra, 4, BR_OPTIONS(br_istft, .window = br_zeros(BR_SHAPE(4), BR_F64))),
                "istft: the squares of the windows add up to 0 at a sample, must not be 0");
    check_fails(br_istft(spectra, 6, NULL),
                "x [3, 5, 2] has 3 frequencies, must have 4 for n_fft 6 and onesided 1");
    check_fails(br_istft(spectra, 4, BR_OPTIONS(br_istft, .length = 0)), "length is 0");
    br_scope_end(scope);
}

/* The library of each dtype is opened by the first call of this process. */
Test(fft, missing_library)
{
    setenv("BRASA_FFTW", "/nowhere/libfftw3.so", 1);
    setenv("BRASA_FFTW_SINGLE", "libm.so.6", 1);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(4), BR_F64);
    check_fails_with(br_fft_rfft(x, BR_NONE, -1, BR_FFT_BACKWARD), BR_ERROR_IO,
                     "install the Debian package libfftw3-double3, or set BRASA_FFTW");
    check_fails_with(br_fft_rfft(br_to(x, BR_F32), BR_NONE, -1, BR_FFT_BACKWARD), BR_ERROR_IO,
                     "has no function fftwf_plan_many_dft: install the Debian package "
                     "libfftw3-single3, or set BRASA_FFTW_SINGLE");
    br_scope_end(scope);
}
