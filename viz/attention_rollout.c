/* viz/attention_rollout.c - the attention rollout of Abnar and Zuidema (2020). */
#include "viz/viz_internal.h"

#include <inttypes.h>

static const char op[] = "attention_add_rollout";

/* Returns (W + I) with rows divided by their sums, f64 [n, n], where W is the mean of the layer's
 * weights over its heads. */
static br_tensor *with_identity(const br_map *layer)
{
    const int64_t *sizes = br_sizes(layer->weights);
    int64_t heads = sizes[0], n = sizes[1];
    const float *w = br_data_f32(layer->weights);
    br_tensor *t = br_zeros(BR_SHAPE(n, n), BR_F64);
    double *a = br_data_f64(t);
    for (int64_t i = 0; a && i < n; i++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            for (int64_t h = 0; h < heads; h++)
                a[i * n + j] += (double)w[(h * n + i) * n + j];
            a[i * n + j] = a[i * n + j] / (double)heads + (i == j);
            sum += a[i * n + j];
        }
        for (int64_t j = 0; j < n; j++)
            a[i * n + j] /= sum;
    }
    return t;
}

/* Adds the rollout of the layers of one part. */
static void add_part(br_attention *self, br_attention_part part)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *rollout = NULL;
    int64_t layers = self->n_maps; /* the maps that are added come after them */
    for (int64_t i = 0; i < layers && !br_failed(); i++) {
        const br_map layer = self->maps[i];
        if (layer.part != part || layer.kind != BR_MAP_WEIGHTS)
            continue;
        br_tensor *a = with_identity(&layer);
        rollout = rollout ? br_matmul(a, rollout) : a;
        br__add_map(self, BR_MAP_ROLLOUT, &layer, br_unsqueeze(rollout, 0));
    }
    br_scope_end(scope);
}

bool br_attention_add_rollout(br_attention *self)
{
    if (!br__required(op, "self", self))
        return false;
    if (br__count_maps(self, BR_MAP_ROLLOUT) > 0)
        return br_fail(BR_ERROR_ARGUMENT, op, "the rollout was added before");
    const int64_t before = self->n_maps;
    add_part(self, BR_ATTENTION_SELF);
    add_part(self, BR_ATTENTION_ENCODER);
    add_part(self, BR_ATTENTION_DECODER);
    if (!br_failed() && br__count_maps(self, BR_MAP_ROLLOUT) == 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "no layer of self-attention was added: call br_attention_add() or "
                "br_attention_add_recorded() before");
    if (br_failed())
        br__drop_maps(self, before);
    return !br_failed();
}
