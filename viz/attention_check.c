/* viz/attention_check.c - checks the arguments of a page or a figure. */
#include "tensor/min_max.h"
#include "viz/viz_internal.h"

#include <inttypes.h>

/* A list with a count of 0 would select nothing, which is an error. */
static bool good_list(const char *op, int view, const char *name, int64_t n, const int64_t *list,
                      int64_t below)
{
    if (n < 0 || (n > 0 && !list) || (n == 0 && list))
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "view %d: %s has %" PRId64 " entries%s; for all, use NULL and 0", view, name,
                       n, list ? "" : " and is NULL");
    for (int64_t i = 0; i < n; i++)
        if (list[i] < 0 || list[i] >= below)
            return br_fail(BR_ERROR_INDEX, op,
                           "view %d: %s contains %" PRId64 ", must be 0 .. %" PRId64, view, name,
                           list[i], below - 1);
    return true;
}

bool br__includes(int64_t n, const int64_t *list, int64_t value)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == value)
            return true;
    return !list;
}

bool br__shows(const br_attention_view *v, const br_map *map)
{
    bool others = v->kind == BR_HEAD_VIEW || v->kind == BR_HEATMAP_VIEW;
    return (others || map->kind == BR_MAP_WEIGHTS) &&
           br__includes(v->n_include_layers, v->include_layers, map->layer);
}

/* Computes the number of layers of the deepest part, and the largest number of heads among the
 * layers that are shown. */
static void count(const br_attention_view *v, int64_t *layers, int64_t *heads)
{
    *layers = *heads = 0;
    for (int64_t i = 0; i < v->attention->n_maps; i++) {
        const br_map *map = &v->attention->maps[i];
        int64_t h = br_size(map->weights, 0);
        *layers = map->layer >= *layers ? map->layer + 1 : *layers;
        *heads = br__shows(v, map) && h > *heads ? h : *heads;
    }
}

static bool good_choice(const char *op, int view, const br_attention_view *v, int64_t layers,
                        int64_t heads)
{
    if (v->layer < 0 || v->layer >= layers ||
        (v->layer > 0 && !br__includes(v->n_include_layers, v->include_layers, v->layer)))
        br_fail(BR_ERROR_INDEX, op,
                "view %d: layer is %" PRId64 ", must be 0 .. %" PRId64 " and one of include_layers",
                view, v->layer, layers - 1);
    else if (v->head < (v->kind == BR_HEATMAP_VIEW ? BR_HEAD_MAX : 0) || v->head >= heads)
        br_fail(BR_ERROR_INDEX, op, "view %d: head is %" PRId64 ", must be 0 .. %" PRId64 "%s",
                view, v->head, heads - 1,
                v->kind == BR_HEATMAP_VIEW ? ", BR_HEAD_MEAN or BR_HEAD_MAX" : "");
    else if (v->display_mode < BR_DISPLAY_AUTO || v->display_mode > BR_DISPLAY_DARK)
        br_fail(BR_ERROR_ARGUMENT, op, "view %d: display_mode is %d, must be a br_display_mode",
                view, (int)v->display_mode);
    for (int64_t i = 0; i < v->attention->n_maps && !br_failed(); i++) {
        const br_map *map = &v->attention->maps[i];
        if (v->kind == BR_NEURON_VIEW && br__shows(v, map) && !map->query)
            br_fail(BR_ERROR_ARGUMENT, op,
                    "view %d: %s has no query and key, but a neuron view requires them", view,
                    br_printable(map->name));
    }
    return !br_failed();
}

static bool good_map(const char *op, int view, const br_attention_view *v)
{
    static const char *const adders[] = { "add", "add_rollout", "add_gradient" };
    if (v->map < BR_MAP_WEIGHTS || v->map > BR_MAP_GRADIENT)
        return br_fail(BR_ERROR_ARGUMENT, op, "view %d: map is %d, must be a br_attention_map",
                       view, (int)v->map);
    if (v->map != BR_MAP_WEIGHTS && v->kind != BR_HEAD_VIEW && v->kind != BR_HEATMAP_VIEW)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "view %d: map is %d, but only head views and heat maps have maps other than "
                       "BR_MAP_WEIGHTS",
                       view, (int)v->map);
    for (int64_t i = 0; i < v->attention->n_maps; i++)
        if (v->attention->maps[i].kind == v->map && br__shows(v, &v->attention->maps[i]))
            return true;
    return br_fail(BR_ERROR_ARGUMENT, op,
                   "view %d: map is %d, but the view includes no layer with it: call "
                   "br_attention_%s()",
                   view, (int)v->map, adders[v->map]);
}

static bool good_view(const char *op, int view, const br_attention_view *v)
{
    if (v->kind < BR_HEAD_VIEW || v->kind > BR_HEATMAP_VIEW)
        return br_fail(BR_ERROR_ARGUMENT, op, "view %d: kind is %d, must be a br_attention_kind",
                       view, (int)v->kind);
    if (!v->attention || v->attention->n_maps == 0)
        return br_fail(BR_ERROR_ARGUMENT, op, "view %d: attention is NULL or has no layers", view);
    int64_t layers, heads;
    count(v, &layers, &heads);
    if (!good_list(op, view, "include_layers", v->n_include_layers, v->include_layers, layers))
        return false;
    return good_list(op, view, "heads", v->n_heads, v->heads, heads) &&
           good_list(op, view, "include_heads", v->n_include_heads, v->include_heads, heads) &&
           good_choice(op, view, v, layers, heads) && good_map(op, view, v);
}

int64_t br__layer_of(const br_attention_view *v)
{
    if (br__includes(v->n_include_layers, v->include_layers, v->layer))
        return v->layer;
    int64_t layer = v->include_layers[0];
    for (int64_t i = 1; i < v->n_include_layers; i++)
        layer = br__min(v->include_layers[i], layer);
    return layer;
}

bool br__good_views(const char *op, int n_views, const br_attention_view *views)
{
    if (br_failed())
        return false;
    if (n_views < 1 || !views)
        return br_fail(BR_ERROR_ARGUMENT, op, "at least one view is required");
    for (int i = 0; i < n_views && !br_failed(); i++)
        good_view(op, i, &views[i]);
    return !br_failed();
}
