/* backends/cpu/optim/update.c - the updates of a step in one parallel loop. An element's update
 * depends on no other element, so the pieces may be cut anywhere. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/optim/optim_internal.h"
#include "backends/cpu/optim/spans.h"
#include "backends/cpu/pointwise/widened.h"
#include "tensor/min_max.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { PARAM, GRAD, STATE, TENSORS = STATE + BR_UPDATE_STATES };

static void list_tensors(const br_update *u, const br_tensor **tensors)
{
    tensors[PARAM] = u->param;
    tensors[GRAD] = u->grad;
    for (int i = 0; i < BR_UPDATE_STATES; i++)
        tensors[STATE + i] = u->state[i];
}

/* Updates `count` elements of the parameter and its states, which are at these addresses. */
static void run_rule(const br_update *u, br_dtype dtype, void *const *at, int64_t from,
                     int64_t count)
{
    if (u->rule == BR_UPDATE_HOST)
        u->args.host.update(u->args.host.work, from, count);
    else
        br__kernels_of(dtype)->update[u->rule](count, at[PARAM], at[GRAD], at + STATE, &u->args);
}

/* ---- Stochastic rounding --------------------------------------------------------------------- */

/* Returns 32 random bits, a function of the arguments: the finalizer of MurmurHash3 by Appleby. */
static uint32_t random_bits(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + i * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 33) * 0xff51afd7ed558ccd;
    z = (z ^ z >> 33) * 0xc4ceb9fe1a85ec53;
    return (uint32_t)(z >> 32);
}

/* Returns x rounded up or down to a multiple of `unit`, which is larger than |x|. */
static float zero_or_unit(float x, float unit, uint32_t random)
{
    return ldexpf((float)random, -32) < fabsf(x) / unit ? copysignf(unit, x) : copysignf(0, x);
}

/* Rounds f32 numbers to numbers of a dtype with fewer bits. The bits that the dtype does not have
 * are a fraction of its unit in the last place; adding a random fraction and dropping the bits
 * rounds away from zero with that probability. */
static void round_at_random(br_dtype dtype, float *x, int64_t n, uint64_t seed, int64_t first)
{
    enum { DIGITS = FLT_MANT_DIG, BIAS = FLT_MAX_EXP - 1 };
    const int digits = br__dtypes[dtype].digits, least = br__dtypes[dtype].min_exponent;
    const float unit = ldexpf(1, least - digits + 1); /* the smallest positive number */
    for (int64_t i = 0; i < n; i++) {
        const uint32_t random = random_bits(seed, (uint64_t)(first + i));
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        const int exponent = (int)(bits >> (DIGITS - 1) & 0xff) - BIAS;
        if (exponent > BIAS) /* infinity or NaN */
            continue;
        if (fabsf(x[i]) < unit) {
            x[i] = zero_or_unit(x[i], unit, random);
            continue;
        }
        /* A denormal number of the dtype has fewer digits. */
        const int missing = br__max(least - br__max(exponent, 1 - BIAS), 0);
        const uint32_t fraction = (UINT32_C(1) << (DIGITS - digits + missing)) - 1;
        bits = (bits + (random & fraction)) & ~fraction;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* ---- Updates --------------------------------------------------------------------------------- */

/* Updates elements from .. from + count - 1 in blocks, in buffers that stay in the L1 cache. Each
 * tensor may have a storage dtype of its own. */
static void update_widened(const br_update *u, int64_t from, int64_t count)
{
    enum { PART = 512 };
    const br_tensor *tensors[TENSORS];
    list_tensors(u, tensors);
    for (int64_t i = from; i < from + count; i += PART) {
        const int64_t n = br__min(from + count - i, PART);
        _Alignas(64) float buffer[TENSORS][PART];
        void *at[TENSORS];
        for (int k = 0; k < TENSORS; k++) {
            const br_tensor *t = tensors[k];
            at[k] = t ? br__element(t, i) : NULL;
            if (!t || !br__is_stored(t->dtype))
                continue;
            br__widen(t->dtype, buffer[k], n, at[k], (int64_t)br__dtype_size(t->dtype));
            at[k] = buffer[k];
        }
        run_rule(u, br__computed(u->param->dtype), at, i, n);
        for (int k = 0; k < TENSORS; k++) {
            if (k == GRAD || at[k] != buffer[k])
                continue;
            const br_dtype dtype = tensors[k]->dtype;
            if (u->stochastic)
                round_at_random(dtype, buffer[k], n, u->seed * TENSORS + (uint64_t)k, i);
            br__narrow(dtype, br__element(tensors[k], i), (int64_t)br__dtype_size(dtype), buffer[k],
                       n);
        }
    }
}

/* Updates elements from .. from + count - 1. */
static void update_part(const br_update *u, int64_t from, int64_t count)
{
    if (br__is_stored(u->grad->dtype) && u->rule != BR_UPDATE_HOST) {
        update_widened(u, from, count);
        return;
    }
    const br_tensor *tensors[TENSORS];
    void *at[TENSORS];
    list_tensors(u, tensors);
    for (int k = 0; k < TENSORS; k++)
        at[k] = tensors[k] ? br__element(tensors[k], from) : NULL;
    run_rule(u, u->param->dtype, at, from, count);
}

static void update_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const br_update *updates = context;
    (void)piece;
    update_part(&updates[item], from, count);
}

bool br__cpu_has_update(br_update_rule rule)
{
    (void)rule;
    return true;
}

void br__cpu_update(int64_t n, const br_update *updates, br_loop_span *spans)
{
    for (int64_t i = 0; i < n; i++)
        spans[i].numel = updates[i].param->numel;
    br__layout_spans(n, spans);
    br__for_each_span(n, spans, update_piece, (void *)(uintptr_t)updates);
}
