/* ops/fft/stft.c - short-time Fourier transforms of signals, and back. Compositions of operations:
 * frames are views of the signal, or are added to it. */
#include "ops/autocast.h"
#include "ops/fft/fft_internal.h"
#include "ops/shape/view_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <limits.h>

BR_DEFINE_DEFAULTS(br_stft)
BR_DEFINE_DEFAULTS(br_istft)

/* The frames of both functions. */
typedef struct frames {
    const char *op;
    int64_t n_fft, hop_length, win_length;
    br_tensor *window; /* padded to n_fft elements; NULL: ones */
    bool window_is_complex;
    bool onesided;
    br_fft_norm norm;
} frames;

/* ---- Arguments ------------------------------------------------------------------------------- */

static bool check_number(const char *op, const char *name, int64_t number, int64_t most)
{
    if (number < 1 || number > most)
        br_fail(BR_ERROR_ARGUMENT, op, "%s is %" PRId64 ", must be in 1 .. %" PRId64, name, number,
                most);
    return !br_failed();
}

/* Checks the window [win_length] of a signal like x, and pads it with zeros. */
static bool read_window(frames *f, const br_tensor *x, br_tensor *window)
{
    if (!window && f->win_length == f->n_fft)
        return true;
    if (!window)
        window = br_new_ones(x, BR_SHAPE(f->win_length), x->dtype);
    if (!br__floating(f->op, "window", window) || !br__same_device(f->op, "x", x, "window", window))
        return false;
    f->window_is_complex = window->ndim == 2 && window->sizes[1] == 2;
    if ((window->ndim != 1 && !f->window_is_complex) || window->sizes[0] != f->win_length) {
        br_fail(BR_ERROR_SHAPE, f->op,
                "window %s must be [%" PRId64 "], which is win_length, or complex, [%" PRId64
                ", 2]",
                br__shape(window), f->win_length, f->win_length);
        return false;
    }
    if (f->window_is_complex && window->dtype != x->dtype)
        br_fail(BR_ERROR_DTYPE, f->op, "the complex window has dtype %s, x %s: must be equal",
                br_dtype_name(window->dtype), br_dtype_name(x->dtype));
    if (br_failed())
        return false;
    const int64_t left = (f->n_fft - f->win_length) / 2, right = f->n_fft - f->win_length - left;
    f->window = f->win_length == f->n_fft ? window
                : f->window_is_complex
                    ? br_pad(window, BR_DIMS(0, 0, left, right), BR_PAD_CONSTANT, 0)
                    : br_pad(window, BR_DIMS(left, right), BR_PAD_CONSTANT, 0);
    return !br_failed();
}

/* Sets the numbers of *f, in which n_fft and the options are given. A onesided transform has
 * conjugates of its frequencies, so nothing of it may be complex. */
static bool read_frames(frames *f, const br_tensor *x, br_tensor *window, int64_t onesided,
                        bool default_onesided, bool complex_signal)
{
    f->hop_length = f->hop_length == BR_NONE ? f->n_fft / 4 : f->hop_length;
    f->win_length = f->win_length == BR_NONE ? f->n_fft : f->win_length;
    if (!check_number(f->op, "n_fft", f->n_fft, INT_MAX) ||
        !check_number(f->op, "hop_length", f->hop_length, INT_MAX) ||
        !check_number(f->op, "win_length", f->win_length, f->n_fft) || !read_window(f, x, window))
        return false;
    if (onesided != 0 && onesided != 1 && onesided != BR_NONE) {
        br_fail(BR_ERROR_ARGUMENT, f->op, "onesided is %" PRId64 ", must be 0, 1 or BR_NONE",
                onesided);
        return false;
    }
    f->onesided = onesided == BR_NONE ? default_onesided : onesided == 1;
    const bool is_complex = complex_signal || f->window_is_complex;
    if (onesided == BR_NONE && is_complex)
        f->onesided = false;
    if (f->onesided && is_complex)
        br_fail(BR_ERROR_ARGUMENT, f->op,
                "onesided is 1, but the %s is complex: set it to 0, or to BR_NONE",
                complex_signal ? "signal" : "window");
    return !br_failed();
}

/* Adds a batch of one signal. */
static br_tensor *with_batch(br_tensor *x, bool has_batch)
{
    return has_batch ? x : br_unsqueeze(x, 0);
}

/* Returns frames [B, T, n_fft] or complex [B, T, n_fft, 2], times the window. */
static br_tensor *windowed(const frames *f, br_tensor *x, bool is_complex)
{
    if (!f->window)
        return x;
    if (!is_complex)
        return br_mul(x, f->window);
    return f->window_is_complex ? br_complex_mul(x, f->window)
                                : br_mul(x, br_unsqueeze(f->window, -1));
}

/* ---- stft ------------------------------------------------------------------------------------ */

/* Pads the signals [B, L] or complex [B, L, 2] on both sides. */
static br_tensor *padded(br_tensor *x, bool is_complex, int64_t left, int64_t right,
                         br_pad_mode mode)
{
    return is_complex ? br_pad(x, BR_DIMS(0, 0, left, right), mode, 0)
                      : br_pad(x, BR_DIMS(left, right), mode, 0);
}

/* Returns the frames of the signals, times the window, complex if the signal or the window is. */
static br_tensor *cut(const frames *f, br_tensor *x, bool is_complex)
{
    if (is_complex)
        return windowed(f, br_transpose(br_unfold(x, 1, f->n_fft, f->hop_length), -1, -2), true);
    br_tensor *y = br_unfold(x, 1, f->n_fft, f->hop_length);
    return f->window_is_complex ? windowed(f, br_complex(y, NULL), true) : windowed(f, y, false);
}

static bool check_signal(const char *op, const br_tensor *x, const br_stft_options *o)
{
    if (!br__f32_or_f64(op, "x", x) || (o->complex_input && !br__is_complex(op, "x", x)))
        return false;
    const int ndim = o->complex_input ? x->ndim - 1 : x->ndim;
    if (ndim != 1 && ndim != 2)
        br_fail(BR_ERROR_SHAPE, op, "x %s must be %s", br__shape(x),
                o->complex_input ? "[L, 2] or [B, L, 2]" : "[L] or [B, L]");
    else if (o->center && o->align_to_window)
        br_fail(BR_ERROR_ARGUMENT, op,
                "align_to_window is true, but so is center: set one of "
                "them to false");
    return !br_failed();
}

br_tensor *br_stft(br_tensor *x, int64_t n_fft, const br_stft_options *options)
{
    static const char op[] = "stft";
    const br_stft_options *o = BR_OPTIONS_OF(op, br_stft, options);
    BR_OP(op);
    BR_AUTOCAST(br_stft(RAISE(x), n_fft, o))
    frames f = { op,   n_fft, o->hop_length, o->win_length,
                 NULL, false, false,         o->normalized ? BR_FFT_ORTHO : BR_FFT_BACKWARD };
    br_scope *scope = br_scope_begin();
    if (!check_signal(op, x, o) ||
        !read_frames(&f, x, o->window, o->onesided, true, o->complex_input))
        return br__composed(scope, NULL);
    const bool has_batch = x->ndim == (o->complex_input ? 3 : 2);
    br_tensor *y = with_batch(x, has_batch);
    if (o->center)
        y = padded(y, o->complex_input, n_fft / 2, n_fft / 2, o->pad_mode);
    else if (o->align_to_window)
        y = padded(y, o->complex_input, (n_fft - f.win_length) / 2,
                   n_fft - f.win_length - (n_fft - f.win_length) / 2, BR_PAD_CONSTANT);
    if (y && y->sizes[1] < n_fft)
        br_fail(BR_ERROR_SHAPE, op,
                "x %s, with its padding, has %" PRId64 " samples, but a frame n_fft, %" PRId64,
                br__shape(x), y->sizes[1], n_fft);
    if (br_failed())
        return br__composed(scope, NULL);
    const bool is_complex = o->complex_input || f.window_is_complex;
    y = cut(&f, y, o->complex_input);
    y = f.onesided ? br_fft_rfft(y, BR_NONE, -1, f.norm)
                   : br_fft_fft(is_complex ? y : br_complex(y, NULL), BR_NONE, -1, f.norm);
    y = br_transpose(y, 1, 2);
    return br__composed(scope, has_batch ? y : br_squeeze_dims(y, BR_DIMS(0)));
}

/* ---- istft ----------------------------------------------------------------------------------- */

/* Adds frames [B, T, n_fft] or complex [B, T, n_fft, 2], which are a hop apart. */
static br_tensor *added(const frames *f, br_tensor *y, bool is_complex)
{
    if (br_failed())
        return NULL;
    const int64_t length = f->n_fft + f->hop_length * (y->sizes[1] - 1);
    if (is_complex)
        y = br_transpose(y, -1, -2);
    return br__fold(y, 1, length, f->n_fft, f->hop_length);
}

/* Returns the sum of the squares of the windows of n frames: [1, L] or complex [1, L, 2]. */
static br_tensor *envelope(const frames *f, const br_tensor *x, int64_t n)
{
    br_tensor *w = f->window ? f->window : br_new_ones(x, BR_SHAPE(f->n_fft), x->dtype);
    if (f->window_is_complex)
        return added(f, br_expand(br_complex_mul(w, w), BR_SHAPE(1, n, f->n_fft, 2)), true);
    return added(f, br_expand(br_square(w), BR_SHAPE(1, n, f->n_fft)), false);
}

/* Divides the signals by the sum of the squares of the windows. */
static br_tensor *divided(const frames *f, br_tensor *y, br_tensor *by, bool is_complex)
{
    br_tensor *size = f->window_is_complex ? br_complex_abs(by) : br_abs(by);
    const double least = size ? br_item(br_min(size)) : 0;
    if (br_failed())
        return NULL;
    if (!(least >= 1e-11))
        return br_fail(BR_ERROR_ARGUMENT, f->op,
                       "the squares of the windows add up to %g at a sample, must not be 0 "
                       "(nonzero overlap add): choose a smaller hop_length, a window without "
                       "zeros, or center, or return fewer samples by length",
                       least);
    if (f->window_is_complex)
        return br_div(br_complex_mul(y, br_complex_conj(by)), br_unsqueeze(br_square(size), -1));
    return br_div(y, is_complex ? br_unsqueeze(by, -1) : by);
}

/* Returns the samples from `start` to `end`; those behind the last frame are 0. */
static br_tensor *samples(const frames *f, br_tensor *y, br_tensor *by, int64_t start, int64_t end,
                          bool is_complex)
{
    const int64_t length = br_failed() ? 0 : y->sizes[1], known = br__min(end, length);
    if (br_failed())
        return NULL;
    if (start >= known)
        return br_fail(BR_ERROR_SHAPE, f->op,
                       "no samples are left: the frames have %" PRId64 " samples, of which %" PRId64
                       " .. %" PRId64 " are wanted",
                       length, start, end);
    y = divided(f, br_narrow(y, 1, start, known - start), br_narrow(by, 1, start, known - start),
                is_complex);
    return end > known ? padded(y, is_complex, 0, end - known, BR_PAD_CONSTANT) : y;
}

static bool check_spectra(const frames *f, const br_tensor *x, const br_istft_options *o)
{
    const int64_t frequencies = x->sizes[x->ndim - 3];
    const int64_t expected = f->onesided ? f->n_fft / 2 + 1 : f->n_fft;
    if (frequencies != expected)
        br_fail(BR_ERROR_SHAPE, f->op,
                "x %s has %" PRId64 " frequencies, must have %" PRId64 " for n_fft %" PRId64
                " and onesided %d",
                br__shape(x), frequencies, expected, f->n_fft, f->onesided);
    else if (f->hop_length > f->win_length)
        br_fail(BR_ERROR_ARGUMENT, f->op,
                "hop_length is %" PRId64 ", must be at most win_length, which is %" PRId64,
                f->hop_length, f->win_length);
    else if (f->window_is_complex && !o->return_complex)
        br_fail(BR_ERROR_ARGUMENT, f->op,
                "the window is complex: set return_complex, or make it real by br_real()");
    else if (o->length != BR_NONE && (o->length < 1 || o->length > INT64_MAX - f->n_fft))
        br_fail(BR_ERROR_ARGUMENT, f->op, "length is %" PRId64 ", must be at least 1, or BR_NONE",
                o->length);
    return !br_failed();
}

br_tensor *br_istft(br_tensor *x, int64_t n_fft, const br_istft_options *options)
{
    static const char op[] = "istft";
    const br_istft_options *o = BR_OPTIONS_OF(op, br_istft, options);
    BR_OP(op);
    BR_AUTOCAST(br_istft(RAISE(x), n_fft, o))
    if (!br__f32_or_f64(op, "x", x) || !br__is_complex(op, "x", x))
        return NULL;
    if ((x->ndim != 3 && x->ndim != 4) || x->numel == 0)
        return br_fail(BR_ERROR_SHAPE, op, "x %s must be [N, T, 2] or [B, N, T, 2], without a 0",
                       br__shape(x));
    frames f = { op,   n_fft, o->hop_length, o->win_length,
                 NULL, false, false,         o->normalized ? BR_FFT_ORTHO : BR_FFT_BACKWARD };
    br_scope *scope = br_scope_begin();
    if (!read_frames(&f, x, o->window, o->onesided, x->sizes[x->ndim - 3] != n_fft,
                     o->return_complex) ||
        !check_spectra(&f, x, o))
        return br__composed(scope, NULL);
    const bool has_batch = x->ndim == 4;
    const int64_t n = x->sizes[x->ndim - 2];
    br_tensor *y = br_transpose(with_batch(x, has_batch), 1, 2); /* [B, T, N, 2] */
    y = o->return_complex ? br_fft_ifft(y, BR_NONE, -1, f.norm)
                          : br_fft_irfft(y, n_fft, -1, f.norm);
    y = added(&f, windowed(&f, y, o->return_complex), o->return_complex);
    const int64_t start = o->center ? n_fft / 2 : 0;
    const int64_t all = n_fft + f.hop_length * (n - 1);
    const int64_t end = o->length != BR_NONE ? start + o->length : all - start;
    y = samples(&f, y, envelope(&f, x, n), start, end, o->return_complex);
    return br__composed(scope, has_batch ? y : br_squeeze_dims(y, BR_DIMS(0)));
}
