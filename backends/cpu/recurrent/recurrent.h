/* backends/cpu/recurrent/recurrent.h - one step of recurrent cells, and its gradient; part of
 * variant.c.
 *
 * The cells are the Elman RNN (1990), the LSTM (Hochreiter and Schmidhuber, 1997) with forget gates
 * (Gers, Schmidhuber and Cummins, 2000), and the GRU (Cho et al., 2014) in PyTorch's version, whose
 * reset gate multiplies U h + b rather than h. The products of all gates are given: gi = W x + b
 * by nn/recurrent.c, and gh = U h + b by recurrent.c. A step handles one row of the batch at a
 * time: it adds gi and gh, applies the activations with the pointwise loops, and combines the gates
 * in one loop. A row's result depends on no other row. For the gradient, a step saves its gates
 * after their activations and, for a GRU, the term that the reset gate multiplies. */
#ifndef BR_KERNELS_RECURRENT_H
#define BR_KERNELS_RECURRENT_H

#include "backends/cpu/pointwise/pointwise.h"
#include "backends/cpu/recurrent/recurrent_kernels.h"

#include <string.h>

/* ---- Steps ----------------------------------------------------------------------------------- */

/* apply_to() applies activations with the pointwise loops. */

static __attribute__((noinline)) void add_parts(int64_t n, const real *restrict gi,
                                                const real *restrict gh, real *restrict sum)
{
    FOR_EACH(real, k, n, sum[k] = gi[k] + gh[k];)
}

/* h = tanh or ReLU of gi + gh */
static void rnn_row(bool relu, int64_t n, const real *gi, const real *gh, real *out)
{
    add_parts(n, gi, gh, out);
    apply_to(out, n, relu ? relu_loop : tanh_loop);
}

/* c = f c' + i g, h = o tanh c; the gates are stored in the order i, f, g, o */
static void lstm_row(int64_t n, const real *gi, const real *gh, const real *restrict c,
                     real *restrict gates, real *restrict c_out, real *restrict out)
{
    add_parts(4 * n, gi, gh, gates);
    apply_to(gates, 2 * n, sigmoid_loop);
    apply_to(gates + 2 * n, n, tanh_loop);
    apply_to(gates + 3 * n, n, sigmoid_loop);
    FOR_EACH(real, k, n, out[k] = c_out[k] = gates[n + k] * c[k] + gates[k] * gates[2 * n + k];)
    apply_to(out, n, tanh_loop);
    FOR_EACH(real, k, n, out[k] *= gates[3 * n + k];)
}

/* h = (1 - z) m + z h', m = tanh(gi_m + r gh_m); the gates are stored in the order r, z, m, then
 * gh_m */
static void gru_row(int64_t n, const real *gi, const real *gh, const real *restrict h,
                    real *restrict gates, real *restrict out)
{
    real *restrict z = gates + n, *restrict m = gates + 2 * n, *restrict q = gates + 3 * n;
    add_parts(2 * n, gi, gh, gates);
    apply_to(gates, 2 * n, sigmoid_loop);
    memcpy(q, gh + 2 * n, (size_t)n * sizeof *q);
    FOR_EACH(real, k, n, m[k] = gi[2 * n + k] + gates[k] * gh[2 * n + k];)
    apply_to(m, n, tanh_loop);
    FOR_EACH(real, k, n, out[k] = (1 - z[k]) * m[k] + z[k] * h[k];)
}

/* Computes the new state of all rows. */
static void recurrent_step(const br_recurrent_work *w)
{
    const int64_t n = w->size, gates = br__gates_of(w->kind) * n, kept = br__kept_of(w->kind) * n;
    for (int64_t row = 0; row < w->rows; row++) {
        const real *gi = (const real *)w->gi + row * gates, *h = (const real *)w->h + row * n;
        const real *gh = (const real *)w->gh + row * gates, *c = (const real *)w->c + row * n;
        real *out = (real *)w->out + row * n, *keep = (real *)w->kept + row * kept;
        if (w->kind == BR_LSTM)
            lstm_row(n, gi, gh, c, keep, (real *)w->c_out + row * n, out);
        else if (w->kind == BR_GRU)
            gru_row(n, gi, gh, h, keep, out);
        else
            rnn_row(w->kind == BR_RNN_RELU, n, gi, gh, out);
    }
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* The derivative of tanh is 1 - h^2, and that of ReLU is 1 where h > 0. */
static void rnn_row_grad(bool relu, int64_t n, const real *restrict h, const real *restrict dh,
                         real *restrict dgi)
{
    if (relu)
        FOR_EACH(real, k, n, dgi[k] = h[k] > 0 ? dh[k] : 0;)
    else
        FOR_EACH(real, k, n, dgi[k] = dh[k] * (1 - h[k] * h[k]);)
}

/* With t = tanh c and d = dc + dh o (1 - t^2): di = d g, df = d c', dg = d i, do = dh t, dc' = d f,
 * where each gate's gradient is multiplied by the derivative of its activation: s (1 - s) for a
 * sigmoid, 1 - s^2 for tanh. */
static void lstm_row_grad(int64_t n, const real *restrict gates, const real *restrict c_before,
                          const real *c, const real *restrict dh, real *restrict dc,
                          real *restrict dgi)
{
    real *restrict of_c = dgi + 3 * n; /* tanh c, until it is overwritten by the gradient of o */
    memcpy(of_c, c, (size_t)n * sizeof *c);
    apply_to(of_c, n, tanh_loop);
    FOR_EACH(real, k, n, {
        real i = gates[k], f = gates[n + k], g = gates[2 * n + k], o = gates[3 * n + k];
        real t = of_c[k], d = dc[k] + dh[k] * o * (1 - t * t);
        dgi[k] = d * g * i * (1 - i);
        dgi[n + k] = d * c_before[k] * f * (1 - f);
        dgi[2 * n + k] = d * i * (1 - g * g);
        of_c[k] = dh[k] * t * o * (1 - o);
        dc[k] = d * f;
    })
}

/* dm = dh (1 - z), dz = dh (h' - m), dr = dm gh_m, dh' = dh z without the part through gh. Each
 * gate's gradient is multiplied by the derivative of its activation; dr uses dm after that. */
static void gru_row_grad(int64_t n, const real *restrict gates, const real *restrict h_before,
                         real *restrict dh, real *restrict dgi, real *restrict dgh)
{
    FOR_EACH(real, k, n, {
        real r = gates[k], z = gates[n + k], m = gates[2 * n + k], q = gates[3 * n + k];
        real dm = dh[k] * (1 - z) * (1 - m * m), dr = dm * q * r * (1 - r);
        real dz = dh[k] * (h_before[k] - m) * z * (1 - z);
        dgi[k] = dgh[k] = dr;
        dgi[n + k] = dgh[n + k] = dz;
        dgi[2 * n + k] = dm;
        dgh[2 * n + k] = dm * r;
        dh[k] *= z;
    })
}

/* Computes the gradients with respect to the gates and the previous state of all rows. */
static void recurrent_step_grad(const br_recurrent_work *w)
{
    const int64_t n = w->size, gates = br__gates_of(w->kind) * n, kept = br__kept_of(w->kind) * n;
    for (int64_t row = 0; row < w->rows; row++) {
        const real *h = (const real *)w->h + row * n, *c = (const real *)w->c + row * n;
        const real *keep = (const real *)w->kept + row * kept;
        real *dh = (real *)w->dh + row * n, *dgi = (real *)w->dgi + row * gates;
        if (w->kind == BR_LSTM)
            lstm_row_grad(n, keep, c, (const real *)w->c_out + row * n, dh, (real *)w->dc + row * n,
                          dgi);
        else if (w->kind == BR_GRU)
            gru_row_grad(n, keep, h, dh, dgi, (real *)w->dgh + row * gates);
        else
            rnn_row_grad(w->kind == BR_RNN_RELU, n, (const real *)w->out + row * n, dh, dgi);
    }
}

#endif
