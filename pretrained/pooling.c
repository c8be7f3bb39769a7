/* pretrained/pooling.c - see pooling.h. */
#include "pretrained/pooling.h"

#include "tensor/device.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

#include <math.h>
#include <string.h>

/* Writes the weight of each token of a text in the pooled sum. `mask` is 0 for tokens that are not
 * pooled. */
static void set_weights(br_pooling mode, int64_t n, const float *mask, float *weights)
{
    int64_t first = -1, last = -1, count = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        weights[i] = 0;
        if (mask[i] == 0)
            continue;
        first = first < 0 ? i : first;
        last = i;
        count++;
        sum += i + 1;
    }
    if (mode == BR_POOLING_CLS)
        weights[br__max(first, 0)] = 1;
    else if (mode == BR_POOLING_LASTTOKEN && last >= 0)
        weights[last] = 1;
    if (mode == BR_POOLING_CLS || mode == BR_POOLING_LASTTOKEN)
        return;
    for (int64_t i = 0; i <= last; i++)
        if (mask[i] != 0)
            weights[i] =
                (float)(mode == BR_POOLING_MEAN            ? 1 / (double)count
                        : mode == BR_POOLING_MEAN_SQRT_LEN ? 1 / sqrt((double)count)
                                                           : (double)(i + 1) / (double)sum);
}

/* Returns the sums over dimension 1 of states [n, length, d], weighted by weights [n, length], in
 * the dtype of the states, also in a region of mixed precision. */
static br_tensor *weighted_sum(br_tensor *states, br_tensor *weights)
{
    br_scope *scope = br_scope_begin();
    br_autocast_begin(BR_F32);
    weights = br_to(br_to_device(weights, br_device_of(states)), br_dtype_of(states));
    br_tensor *sum = br_select(br_matmul(br_unsqueeze(weights, 1), states), 1, 0);
    br_scope_return(scope, sum);
    br_scope_end(scope);
    return sum;
}

br_tensor *br__pool(br_pooling mode, br_tensor *states, br_tensor *mask)
{
    const br_dtype dtype = br_dtype_of(states);
    if (mode == BR_POOLING_MAX) {
        mask = br_to_device(mask, br_device_of(states));
        br_tensor *hidden = br_unsqueeze(br_eq_scalar(mask, 0), 2);
        return br_max_dim(br_masked_fill(states, hidden, -INFINITY), 1, false, NULL);
    }
    br_tensor *weights = br_zeros_like(mask); /* both are in the host's memory */
    const float *from = br_data_f32(mask);
    float *to = br_data_f32(weights);
    int64_t n = from ? br_size(mask, 0) : 0, length = from ? br_size(mask, 1) : 0;
    for (int64_t i = 0; to && i < n; i++)
        set_weights(mode, length, from + i * length, to + i * length);
    return br_to(weighted_sum(br_to(states, br__computed(dtype)), weights), dtype);
}

static void take_maximum(int64_t n, int64_t size, const float *states, const float *mask,
                         float *out)
{
    for (int64_t k = 0; k < size; k++)
        out[k] = -INFINITY;
    for (int64_t i = 0; i < n; i++, states += size)
        for (int64_t k = 0; mask[i] != 0 && k < size; k++)
            out[k] = states[k] > out[k] || isnan(states[k]) ? states[k] : out[k];
}

void br__pool_text(br_pooling mode, int64_t n, int64_t size, const float *states, const float *mask,
                   float *weights, float *out)
{
    if (mode == BR_POOLING_MAX) {
        take_maximum(n, size, states, mask, out);
        return;
    }
    set_weights(mode, n, mask, weights);
    memset(out, 0, (size_t)size * sizeof *out);
    for (int64_t i = 0; i < n; i++, states += size)
        for (int64_t k = 0; weights[i] != 0 && k < size; k++)
            out[k] += weights[i] * states[k];
}

br_tensor *br__normalize_rows(br_tensor *x)
{
    br_tensor *squares = br_sum_dim(br_mul(x, x), BR_DIMS(-1), true);
    return br_div(x, br_sqrt(br_clamp(squares, 1e-24, INFINITY)));
}
