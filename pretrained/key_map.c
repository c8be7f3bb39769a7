/* pretrained/key_map.c - the keys of files and the names of a module's weights: see br_key_map. */
#include "nn/nn_internal.h"
#include "pretrained/auto_model_internal.h"

#include <string.h>

/* Returns the first place of `part` in the name at which it consists of whole components, or NULL.
 */
static const char *find_part(const char *name, const char *part)
{
    size_t n = strlen(part);
    for (const char *at = name; (at = strstr(at, part)); at++)
        if ((at == name || at[-1] == '.') && (at[n] == '\0' || at[n] == '.'))
            return at;
    return NULL;
}

/* Replaces a part of the name, which br_free() frees. Returns NULL on error, or if `name` is NULL.
 */
static char *replace(char *name, const char *from, const char *to)
{
    const char *at = name ? find_part(name, from) : NULL;
    if (!at)
        return name;
    char *changed = br_format("%.*s%s%s", (int)(at - name), name, to, at + strlen(from));
    br_free(name);
    return changed;
}

static int64_t count_renames(const br_key_rename *renames)
{
    int64_t n = 0;
    while (renames && renames[n].file)
        n++;
    return n;
}

char *br__key_to_name(const br_key_map *map, const char *key)
{
    const br_key_rename *renames = map->renames;
    char *name = br_strdup(key);
    for (int64_t i = 0; i < count_renames(renames); i++)
        name = replace(name, renames[i].file, renames[i].module);
    return name;
}

/* Returns the key under which files have a name. The renames are undone in the reverse order. */
static char *name_to_key(const br_key_map *map, bool no_prefix, const char *name)
{
    const br_key_rename *renames = map->renames;
    bool drops = no_prefix && map->prefix && br__begins_with(name, map->prefix);
    char *key = br_strdup(drops ? name + strlen(map->prefix) : name);
    for (int64_t i = count_renames(renames) - 1; i >= 0; i--)
        if (!renames[i].is_old)
            key = replace(key, renames[i].module, renames[i].file);
    return key;
}

br_named_list *br__file_keys(const br_key_map *map, bool no_prefix, const br_named_list *own)
{
    br_named_list *list = br__named_list_new(false);
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < own->count; i++) {
        char *key = name_to_key(map, no_prefix, own->items[i].name);
        ok = key && br__named_list_add(list, key, own->items[i].tensor);
        br_free(key);
    }
    if (ok)
        return list;
    br_named_list_free(list);
    return NULL;
}

/* ---- Lists of a family ----------------------------------------------------------------------- */

bool br__begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

int br__before_end(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && n < INT32_MAX && strcmp(text + n - m, end) == 0 ? (int)(n - m) : -1;
}

static bool ends_with_one(const char *const *ends, const char *text)
{
    for (; ends && *ends; ends++)
        if (br__before_end(text, *ends) >= 0)
            return true;
    return false;
}

bool br__is_ignored(const br_key_map *map, const char *key)
{
    return ends_with_one(map->ignored, key);
}

bool br__is_transposed(const br_key_map *map, const br_named_tensor *own)
{
    return own->tensor->ndim == 2 && ends_with_one(map->transposed, own->name);
}

const char *br__prefix(const br_model_family *family)
{
    return family->keys.prefix ? family->keys.prefix : "";
}

bool br__is_pooler(const br_model_family *family, const char *name)
{
    const char *prefix = br__prefix(family), *pooler = family->pooler;
    if (!pooler)
        return false;
    return br__begins_with(name, pooler) ||
           (br__begins_with(name, prefix) && br__begins_with(name + strlen(prefix), pooler));
}

bool br__is_kept_in_f32(const br_model_family *family, const char *name)
{
    for (const char *const *part = family->kept_in_f32; part && *part; part++)
        if (find_part(name, *part))
            return true;
    return false;
}

bool br__is_head(const br_model_family *family, const char *name)
{
    for (const char *const *head = family->heads; head && *head; head++)
        if (br__begins_with(name, *head))
            return true;
    return false;
}
