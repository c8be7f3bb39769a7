/* pretrained/family.c - the families of models: those of the zoo and the registered ones.
 *
 * Registered families are never removed, so readers need no lock: they see the first `n_added`
 * entries, which do not change. */
#include "nn/names.h"
#include "nn/nn_internal.h"
#include "pretrained/family_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { MAX_ADDED = 256 };

static const char op[] = "register_model_family";
static const br_model_family *added[MAX_ADDED];
static atomic_int n_added;

/* ---- Look-up --------------------------------------------------------------------------------- */

const br_model_family *br_model_family_at(int i)
{
    const br_model_family *const *zoo = br_model_families;
    for (; i > 0 && *zoo; i--)
        zoo++;
    if (*zoo)
        return i == 0 ? *zoo : NULL;
    return i >= 0 && i < atomic_load(&n_added) ? added[i] : NULL;
}

static bool has_type(const br_model_family *family, const char *type)
{
    if (strcmp(family->model_type, type) == 0)
        return true;
    for (const char *const *other = family->other_types; other && *other; other++)
        if (strcmp(*other, type) == 0)
            return true;
    return false;
}

const br_model_family *br__family_of_type(const char *type)
{
    const br_model_family *family = NULL;
    for (int i = 0; type && (family = br_model_family_at(i)) && !has_type(family, type); i++)
        continue;
    return family;
}

const br_model_family *br_model_family_find(const char *model_type)
{
    return br__required("model_family_find", "model_type", model_type)
               ? br__family_of_type(model_type)
               : NULL;
}

const br_model_class *br_model_class_for(const br_model_family *family, br_model_task task)
{
    if (!br__required("model_class_for", "family", family))
        return NULL;
    for (const br_model_class *c = family->classes; c->name; c++)
        if (c->task == task)
            return c;
    return NULL;
}

const br_model_class *br__class_of_name(const char *name, const br_model_family **family)
{
    for (int i = 0; (*family = br_model_family_at(i)); i++)
        for (const br_model_class *c = (*family)->classes; c->name; c++)
            if (strcmp(c->name, name) == 0)
                return c;
    return NULL;
}

const br_model_class *br__first_class(const br_model_family *family,
                                      bool (*fits)(const br_model_class *class))
{
    for (const br_model_class *c = family->classes; c->name; c++)
        if (fits(c))
            return c;
    return NULL;
}

static const char *class_of_type(const char *model_type)
{
    const br_model_family *family = br__family_of_type(model_type);
    return family ? family->tokenizer_class : NULL;
}

const char *(*const br__tokenizer_class_of_type)(const char *model_type) = class_of_type;

/* ---- Names for messages ---------------------------------------------------------------------- */

/* Lists the model_types of the families with a class that `fits` accepts, NULL: of all families. */
static br_named_list *list_types(bool (*fits)(const br_model_class *class))
{
    br_named_list *list = br__named_list_new(false);
    const br_model_family *family;
    bool ok = list != NULL;
    for (int i = 0; ok && (family = br_model_family_at(i)); i++) {
        if (fits && !br__first_class(family, fits))
            continue;
        ok = br__named_list_add(list, family->model_type, NULL);
        for (const char *const *t = family->other_types; ok && t && *t; t++)
            ok = br__named_list_add(list, *t, NULL);
    }
    if (ok)
        return list;
    br_named_list_free(list);
    return NULL;
}

char *br__known_types(const char *given, bool (*fits)(const br_model_class *class))
{
    br_named_list *list = list_types(fits);
    br__text text = { 0 };
    bool ok = list != NULL;
    for (int64_t i = 0; ok && i < list->count; i++)
        ok = br__text_add(&text, "%s\"%s\"", i ? ", " : "", list->items[i].name);
    const char *nearest = ok && given ? br__nearest_name(list, given, true) : NULL;
    if (nearest)
        ok = br__text_add(&text, "; the most similar one is \"%s\"", nearest);
    br_named_list_free(list);
    if (ok)
        return br__text_take(&text);
    br_free(text.data);
    return NULL;
}

/* ---- Registering ----------------------------------------------------------------------------- */

/* Returns the name of the family's first class, which is what users know it by. */
static const char *title(const br_model_family *family)
{
    return family->classes[0].name;
}

static bool refuse(const br_model_family *family, const char *what)
{
    const char *type = family->model_type;
    br_fail(BR_ERROR_ARGUMENT, op, "%s%s%s%s", type ? "the family \"" : "", type ? type : "",
            type ? "\": " : "", what);
    return false;
}

static bool check_fields(const br_model_family *family)
{
    if (!family->model_type || !*family->model_type)
        return refuse(family, "model_type is missing: it must be the model_type of config.json");
    if (!family->classes || !title(family))
        return refuse(family, "classes is empty: its first entry must be the base model");
    for (const br_model_class *c = family->classes; c->name; c++)
        if (!c->make)
            return refuse(family, "a class has no make(), which must make the module");
    return family->init ||
           refuse(family, "init is NULL: it must initialize weights that files do not have");
}

static bool check_type(const br_model_family *family, const char *type)
{
    const br_model_family *other = br__family_of_type(type);
    if (other)
        br_fail(BR_ERROR_ARGUMENT, op,
                "model_type \"%s\" of the family of %s belongs to the family of %s already",
                br_printable(type), title(family), title(other));
    return !other;
}

/* Checks that the family shares no model_type and no class with another family. */
static bool check_names(const br_model_family *family)
{
    bool ok = check_type(family, family->model_type);
    for (const char *const *t = family->other_types; ok && t && *t; t++)
        ok = check_type(family, *t);
    const br_model_family *other;
    for (const br_model_class *c = family->classes; ok && c->name; c++) {
        if (!br__class_of_name(c->name, &other))
            continue;
        br_fail(BR_ERROR_ARGUMENT, op,
                "the class %s of the family \"%s\" belongs to the family \"%s\" already", c->name,
                family->model_type, other->model_type);
        return false;
    }
    return ok;
}

static bool is_known(const br_model_family *family)
{
    const br_model_family *known = NULL;
    for (int i = 0; (known = br_model_family_at(i)) && known != family; i++)
        continue;
    return known == family;
}

static bool add(const br_model_family *family)
{
    int n = atomic_load(&n_added);
    if (is_known(family))
        return true;
    if (!check_names(family))
        return false;
    if (n == MAX_ADDED)
        return refuse(family, "256 families are registered already, which is the maximum");
    added[n] = family;
    atomic_store(&n_added, n + 1);
    return true;
}

bool br_register_model_family(const br_model_family *family)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    if (!br__required(op, "family", family) || !check_fields(family))
        return false;
    pthread_mutex_lock(&mutex);
    bool ok = add(family);
    pthread_mutex_unlock(&mutex);
    return ok;
}
