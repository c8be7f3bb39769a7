/* nn/lora_match.c - finds the layers that get an adapter by the names in its options. */
#include "nn/lora_internal.h"
#include "nn/match.h"
#include "nn/names.h"

#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char op[] = "lora_add";
static const char all_linear[] = "all-linear";

/* ---- Names ----------------------------------------------------------------------------------- */

bool br__lora_name_matches(const char *name, const char *path)
{
    size_t n = strlen(name), m = strlen(path);
    if (strpbrk(name, "*?["))
        return fnmatch(name, path, 0) == 0;
    return n > 0 && n <= m && strcmp(path + m - n, name) == 0 && (n == m || path[m - n - 1] == '.');
}

static bool any_matches(int64_t n, const char *const *names, const char *path)
{
    bool found = false;
    for (int64_t i = 0; i < n && !found; i++)
        found = br__lora_name_matches(names[i], path);
    return found;
}

bool br__lora_is_saved(const br_lora_options *o, const char *path)
{
    char part[1024];
    for (size_t n = 1; n <= strlen(path) && n < sizeof part; n++) {
        if (path[n] != '.' && path[n] != '\0')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        if (any_matches(o->n_modules_to_save, o->modules_to_save, part))
            return true;
    }
    return false;
}

/* Returns the number of the layer in the path, as peft does: the first component that is a number
 * and has at least two components before it and one behind. Returns -1 if there is none. */
static int64_t layer_number(const char *path)
{
    int before = 0;
    for (const char *part = path, *dot; (dot = strchr(part, '.')); part = dot + 1, before++)
        if (before >= 2 && isdigit((unsigned char)*part) &&
            strspn(part, "0123456789") == (size_t)(dot - part))
            return strtoll(part, NULL, 10);
    return -1;
}

static bool is_chosen_layer(const br_lora_options *o, const char *path)
{
    int64_t number = o->n_layers_to_transform > 0 ? layer_number(path) : -1;
    bool chosen = o->n_layers_to_transform == 0;
    for (int64_t i = 0; i < o->n_layers_to_transform && !chosen; i++)
        chosen = o->layers_to_transform[i] == number;
    return chosen;
}

/* Returns true if the path is that of a layer that computes logits of tokens, by the names of
 * transformers, or of a child of the model that computes logits of classes. */
static bool is_head(const char *path)
{
    static const char *const ends[] = { "lm_head", "lm_head.decoder", "predictions.decoder",
                                        "generator_lm_head", "vocab_projector" };
    static const char *const paths[] = { "decoder", "classifier", "score" };
    bool found = false;
    for (size_t i = 0; i < sizeof ends / sizeof *ends && !found; i++)
        found = br__lora_name_matches(ends[i], path);
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !found; i++)
        found = strcmp(paths[i], path) == 0;
    return found;
}

static bool is_linear(const br_module_state *state)
{
    const br_lora_kind *kind = br__lora_kind(state);
    return kind && kind->family == BR_LORA_LINEAR;
}

/* ---- Targets --------------------------------------------------------------------------------- */

bool br__lora_target_add(br_lora_targets *targets, br_module_state *layer, const char *path,
                         int64_t r, double alpha)
{
    br_lora_target *items =
        br__grow(targets->items, &targets->capacity, targets->count, sizeof *items);
    if (!items)
        return false;
    targets->items = items;
    char *copy = br_strdup(path);
    if (copy)
        items[targets->count++] = (br_lora_target){ layer, copy, r, alpha };
    return copy != NULL;
}

void br__lora_targets_free(br_lora_targets *targets)
{
    for (int64_t i = 0; i < targets->count; i++)
        br_free(targets->items[i].path);
    br_free(targets->items);
    *targets = (br_lora_targets){ 0 };
}

/* ---- The walk -------------------------------------------------------------------------------- */

typedef struct search {
    const br_lora_options *options;
    br_lora_targets *targets;
    bool *matched; /* for each name of target_modules: it matches a module */
    br__text path;
} search;

static double pattern_value(int64_t n, const br_lora_pattern *patterns, const char *path,
                            double otherwise)
{
    for (int64_t i = 0; i < n; i++)
        if (br__lora_name_matches(patterns[i].name, path))
            return patterns[i].value;
    return otherwise;
}

/* Returns true if the module is named, and notes which names match. */
static bool is_named(search *s, const br_module_state *state)
{
    const br_lora_options *o = s->options;
    bool named = false;
    for (int64_t i = 0; i < o->n_target_modules; i++) {
        bool all = strcmp(o->target_modules[i], all_linear) == 0;
        if (all ? is_linear(state) && !is_head(s->path.data)
                : br__lora_name_matches(o->target_modules[i], s->path.data))
            named = s->matched[i] = true;
    }
    return named;
}

static bool visit(search *s, br_module_state *state)
{
    const br_lora_options *o = s->options;
    const char *path = s->path.data;
    if (!is_named(s, state) || any_matches(o->n_exclude_modules, o->exclude_modules, path) ||
        br__lora_is_saved(o, path) || !is_chosen_layer(o, path))
        return true;
    int64_t r = (int64_t)pattern_value(o->n_rank_pattern, o->rank_pattern, path, (double)o->r);
    double alpha = pattern_value(o->n_alpha_pattern, o->alpha_pattern, path, o->lora_alpha);
    return br__lora_fits(state, path, r, o) &&
           br__lora_target_add(s->targets, state, path, r, alpha);
}

static bool walk(search *s, br_module_state *state)
{
    size_t length = s->path.length;
    for (int64_t i = 0; i < state->n_children; i++) {
        br_module_state *child = state->children[i];
        if (br__lora_holds_parameters(child))
            continue;
        if (!br__text_add(&s->path, "%s%s", length > 0 ? "." : "", child->name) ||
            !visit(s, child) || !walk(s, child))
            return false;
        br__text_truncate(&s->path, length);
    }
    return true;
}

/* ---- Names that match nothing ---------------------------------------------------------------- */

typedef struct nearest {
    const char *given;
    const char *names[4]; /* the last components of layers' paths, the most similar first */
    int distances[4], count;
} nearest;

static void note_name(nearest *n, const char *name)
{
    int distance = br__edit_distance(n->given, strlen(n->given), name, strlen(name)), at = n->count;
    for (int i = 0; i < n->count; i++)
        if (strcmp(n->names[i], name) == 0)
            return;
    while (at > 0 && n->distances[at - 1] > distance)
        at--;
    if (at == 4)
        return;
    for (int i = n->count < 4 ? n->count++ : 3; i > at; i--) {
        n->names[i] = n->names[i - 1];
        n->distances[i] = n->distances[i - 1];
    }
    n->names[at] = name;
    n->distances[at] = distance;
}

static void note_layers(nearest *n, const br_module_state *state)
{
    for (int64_t i = 0; i < state->n_children; i++) {
        const br_module_state *child = state->children[i];
        if (br__lora_holds_parameters(child))
            continue;
        if (br__lora_kind(child))
            note_name(n, child->name);
        note_layers(n, child);
    }
}

static void refuse_name(const br_module *model, const char *name)
{
    nearest n = { .given = name };
    note_layers(&n, model->state);
    br__names names = { 0 };
    for (int i = 0; i < n.count; i++)
        br__names_add(&names, n.names[i]);
    int64_t count;
    char *list;
    br__names_take(&names, &count, &list);
    if (!br_failed())
        br_fail(BR_ERROR_ARGUMENT, op, "target_modules: no module of %s matches '%s'%s%s",
                br_module_class(model), br_printable(name),
                count > 0 ? "; the most similar layers are " : ", which has no layers", list);
    br_free(list);
}

static bool check_found(const br_module *model, const search *s)
{
    const br_lora_options *o = s->options;
    for (int64_t i = 0; i < o->n_target_modules && !br_failed(); i++)
        if (!s->matched[i])
            refuse_name(model, o->target_modules[i]);
    if (!br_failed() && s->targets->count == 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "no layer of %s is left: target_modules match only those that exclude_modules, "
                "modules_to_save or layers_to_transform leave out",
                br_module_class(model));
    return !br_failed();
}

static bool find(br_module *model, const br_lora_options *o, br_lora_targets *targets, bool all)
{
    search s = { .options = o, .targets = targets };
    s.matched = br_calloc((size_t)o->n_target_modules + 1, sizeof *s.matched);
    bool ok = s.matched && walk(&s, model->state) && (!all || check_found(model, &s));
    br_free(s.matched);
    br_free(s.path.data);
    return ok;
}

bool br__lora_find(br_module *model, const br_lora_options *o, br_lora_targets *targets)
{
    return find(model, o, targets, true);
}

bool br__lora_find_some(br_module *model, const br_lora_options *o, br_lora_targets *targets)
{
    return find(model, o, targets, false);
}
