/* ops/fft/complex.c - complex tensors, whose last dimension has the real and the imaginary part. */
#include "ops/autocast.h"
#include "ops/fft/fft_internal.h"
#include "ops/pointwise/widen.h"
#include "ops/shape/view_internal.h"

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Returns the complex tensor of two parts with one dtype, which broadcast. */
static br_tensor *joined(br_tensor *real, br_tensor *imag)
{
    br_tensor *parts[2];
    return br_broadcast_tensors(2, (br_tensor *[]){ real, imag }, parts) == 2
               ? br_stack(2, parts, -1)
               : NULL;
}

static bool check_parts(const char *op, const char *names[2], const br_tensor *a,
                        const br_tensor *b)
{
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (!br__floating(op, names[0], a) || !br__compatible(op, names[0], a, names[1], b) ||
        !br__broadcast_named(op, names[0], a, names[1], b, &ndim, sizes))
        return false;
    if (ndim == BR_MAX_DIMS)
        br_fail(BR_ERROR_SHAPE, op, "%s %s and %s %s must have at most %d dimensions", names[0],
                br__shape(a), names[1], br__shape(b), BR_MAX_DIMS - 1);
    return !br_failed();
}

br_tensor *br_complex(br_tensor *real, br_tensor *imag)
{
    static const char op[] = "complex", *names[] = { "real", "imag" };
    BR_OP(op);
    if (!check_parts(op, names, real, imag ? imag : real))
        return NULL;
    br_scope *scope = br_scope_begin();
    if (imag)
        return br__composed(scope, joined(real, imag));
    return br__composed(scope, br_pad(br_unsqueeze(real, -1), BR_DIMS(0, 1), BR_PAD_CONSTANT, 0));
}

br_tensor *br_polar(br_tensor *abs, br_tensor *angle)
{
    static const char op[] = "polar", *names[] = { "abs", "angle" };
    BR_OP(op);
    BR_AUTOCAST(br_polar(RAISE(abs), RAISE(angle)))
    if (!check_parts(op, names, abs, angle))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_rounding rounding = BR_WIDEN(&abs, &angle);
    br_tensor *y = br_stack(BR_INPUTS(br_mul(abs, br_cos(angle)), br_mul(abs, br_sin(angle))), -1);
    return br__composed(scope, br__narrowed(rounding, y));
}

br_tensor *br_real(br_tensor *x)
{
    BR_OP("real");
    return br__is_complex("real", "x", x) ? br__composed(NULL, br_select(x, -1, 0)) : NULL;
}

br_tensor *br_imag(br_tensor *x)
{
    BR_OP("imag");
    return br__is_complex("imag", "x", x) ? br__composed(NULL, br_select(x, -1, 1)) : NULL;
}

/* ---- abs ------------------------------------------------------------------------------------- */

/* dx = dy x / |x|, and 0 where x is 0. */
static void abs_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *x = br_saved(node, 0), *y = br_unsqueeze(br_saved(node, 1), -1);
    BR_WIDEN(&dy, &x, &y);
    br_tensor *zero = br_eq_scalar(y, 0);
    br_tensor *direction = br_div(x, br_masked_fill(y, zero, 1));
    dx[0] = br_masked_fill(br_mul(br_unsqueeze(dy, -1), direction), zero, 0);
}

static const br_op abs_op = { "complex_abs", abs_backward, false };

br_tensor *br_complex_abs(br_tensor *x)
{
    static const char op[] = "complex_abs";
    BR_OP(op);
    if (!br__is_complex(op, "x", x))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_scope_return(scope, br_hypot(br_select(x, -1, 0), br_select(x, -1, 1)));
    br_scope_end(scope);
    br_node *node = br_record(&abs_op, y, BR_INPUTS(x), NULL, 0);
    br_save(node, 0, x);
    br_save(node, 1, y);
    return br_failed() ? NULL : y;
}

br_tensor *br_complex_angle(br_tensor *x)
{
    BR_OP("complex_angle");
    if (!br__is_complex("complex_angle", "x", x))
        return NULL;
    br_scope *scope = br_scope_begin();
    return br__composed(scope, br_atan2(br_select(x, -1, 1), br_select(x, -1, 0)));
}

/* ---- conj and products ----------------------------------------------------------------------- */

static void conj_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = br_complex_conj(dy);
}

static const br_op conj_op = { "complex_conj", conj_backward, false };

br_tensor *br_complex_conj(br_tensor *x)
{
    static const char op[] = "complex_conj";
    BR_OP(op);
    if (!br__is_complex(op, "x", x))
        return NULL;
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_scope_return(scope, br_clone(x));
    br_scope_end(scope);
    if (!y)
        return NULL;
    br_tensor imag = br__window(y);
    br__window_slice(&imag, y->ndim - 1, 1, 1, 1);
    br__pointwise(BR_POINTWISE(neg), 2, (const br_tensor *[]){ &imag, &imag }, NULL);
    return br__recorded(&conj_op, y, x, NULL, 0);
}

/* A product rotates and stretches each element of a by one of b, as rotary embeddings do by a
 * cosine and a sine. */
br_tensor *br_complex_mul(br_tensor *a, br_tensor *b)
{
    static const char op[] = "complex_mul";
    BR_OP(op);
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    if (!br__is_complex(op, "a", a) || !br__is_complex(op, "b", b) ||
        !br__compatible(op, "a", a, "b", b) ||
        !br__broadcast_named(op, "a", a, "b", b, &ndim, sizes))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *real = br_narrow(b, -1, 0, 1), *imag = br_narrow(b, -1, 1, 1);
    return br__composed(scope, br_f_rotary_embedding(br_expand(a, ndim, sizes), real, imag, true));
}
