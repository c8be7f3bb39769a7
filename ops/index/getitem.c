/* ops/index/getitem.c - getitem: indexing by the text between Python's brackets. It is composed of
 * views and of indexing by tensors. */
#include "ops/index/index_internal.h"
#include "ops/pointwise/widen.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 2 * BR_MAX_DIMS };

typedef struct item {
    enum { NUMBER, SLICE, TENSOR, NEW, REST } kind;
    int64_t start, end, step; /* for a number, start is its value */
    br_tensor *index;
} item;

/* ---- Parsing --------------------------------------------------------------------------------- */

typedef struct reader {
    const char *text, *at;
    int used, n;
    br_tensor *const *indices;
} reader;

static bool wrong(const reader *r, const char *rule)
{
    br_fail(BR_ERROR_ARGUMENT, "getitem", "items \"%s\", position %d: %s", r->text,
            (int)(r->at - r->text), rule);
    return false;
}

static bool skip(reader *r, const char *word)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
    size_t n = strlen(word);
    bool found = strncmp(r->at, word, n) == 0;
    r->at += found ? n : 0;
    return found;
}

/* Parses a number; returns false and consumes nothing but spaces if there is none. */
static bool number(reader *r, int64_t *value)
{
    char *end;
    skip(r, "");
    if (!isdigit((unsigned char)*r->at) && *r->at != '-')
        return false;
    int64_t read = strtoll(r->at, &end, 10);
    if (end == r->at)
        return false;
    r->at = end;
    *value = read;
    return true;
}

static bool read_item(reader *r, item *to)
{
    *to = (item){ .kind = SLICE, .end = BR_ALL, .step = 1 };
    if (skip(r, "...")) {
        to->kind = REST;
    } else if (skip(r, "None")) {
        to->kind = NEW;
    } else if (skip(r, "?")) {
        if (r->used == r->n)
            return wrong(r, "no tensor was given for this ?");
        to->kind = TENSOR;
        to->index = r->indices[r->used++];
    } else {
        bool one = number(r, &to->start);
        if (!skip(r, ":")) {
            to->kind = NUMBER;
            return one || wrong(r, "expected a number, start:end:step, ?, ... or None");
        }
        number(r, &to->end);
        if (skip(r, ":"))
            number(r, &to->step);
    }
    return true;
}

static bool good_index(const br_tensor *index)
{
    if (!br__required("getitem", "an index", index))
        return false;
    if (index->dtype != BR_I64 && index->dtype != BR_BOOL && !br__is_short_index(index))
        br_fail(BR_ERROR_DTYPE, "getitem", "an index is %s, must be i64, i32 or bool",
                br_dtype_name(index->dtype));
    return !br_failed();
}

/* Parses and counts all items. */
static bool read_items(reader *r, item *items, int *n)
{
    *n = 0;
    do {
        if (*n == MAX_ITEMS)
            return wrong(r, "too many items");
        if (!read_item(r, &items[*n]))
            return false;
        if (items[*n].kind == TENSOR && !good_index(items[*n].index))
            return false;
        ++*n;
    } while (skip(r, ","));
    skip(r, "");
    if (*r->at)
        return wrong(r, "expected a comma or the end of the text");
    return r->used == r->n || wrong(r, "more tensors were given than there are ? in the items");
}

/* ---- Indexing -------------------------------------------------------------------------------- */

/* Returns how many dimensions of x an item consumes. */
static int dims_of(const item *i)
{
    bool mask = i->kind == TENSOR && i->index->dtype == BR_BOOL;
    return i->kind == REST || i->kind == NEW ? 0 : mask ? i->index->ndim : 1;
}

/* Returns how many dimensions "..." stands for; -1 with an error if the items do not fit x. */
static int rest_of(const char *text, const br_tensor *x, int n, const item *items)
{
    int dims = 0, rests = 0;
    for (int i = 0; i < n; i++) {
        dims += dims_of(&items[i]);
        rests += items[i].kind == REST;
    }
    if (rests <= 1 && dims <= x->ndim)
        return x->ndim - dims;
    br_fail(BR_ERROR_INDEX, "getitem",
            "items \"%s\" for x %s: ... may occur once, and the items must not index more "
            "dimensions than x has",
            text, br__shape(x));
    return -1;
}

/* Checks a number or a slice of dimension dim of x, which is the result so far. */
static bool good_item(const item *t, const br_tensor *x, int dim)
{
    const int64_t size = t->kind == NUMBER ? x->sizes[dim] : 0;
    if (t->kind == NUMBER && (t->start < -size || t->start >= size))
        br_fail(BR_ERROR_INDEX, "getitem",
                "index %" PRId64 " is out of range for dimension %d of x %s", t->start, dim,
                br__shape(x));
    if (t->kind == SLICE && t->step < 1)
        br_fail(BR_ERROR_ARGUMENT, "getitem", "step is %" PRId64 ", must be at least 1", t->step);
    return !br_failed();
}

static br_tensor *get_item(br_tensor *x, int n, const item *items, int rest)
{
    br_tensor *indices[MAX_ITEMS + BR_MAX_DIMS] = { NULL };
    /* dim is a dimension of the result so far, places counts the entries of `indices`, and last is
     * the end of those in use. */
    int dim = 0, places = 0, last = 0;
    for (int i = 0; i < n && x && good_item(&items[i], x, dim); i++) {
        const item *t = &items[i];
        int passed = t->kind == REST ? rest : t->kind == NUMBER ? 0 : 1;
        if (t->kind == NUMBER)
            x = br_select(x, dim, t->start);
        else if (t->kind == SLICE)
            x = br_slice(x, dim, t->start, t->end, t->step);
        else if (t->kind == NEW)
            x = br_unsqueeze(x, dim);
        else if (t->kind == TENSOR)
            indices[places] = t->index, last = places + 1;
        dim += t->kind == TENSOR ? dims_of(t) : passed;
        places += passed;
    }
    return last > 0 ? br__index("getitem", x, last, indices) : x;
}

br_tensor *br_getitem(br_tensor *x, const char *items, int n, br_tensor *const *indices)
{
    BR_OP("getitem");
    item list[MAX_ITEMS];
    reader r = { items, items, 0, n, indices };
    if (!br__required("getitem", "x", x))
        return NULL;
    if (!items || n < 0 || (n > 0 && !indices))
        return br_fail(BR_ERROR_ARGUMENT, "getitem",
                       "items must not be NULL, and indices must be a list of n = %d tensors", n);
    int count, rest = read_items(&r, list, &count) ? rest_of(items, x, count, list) : -1;
    if (rest < 0)
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *y = get_item(x, count, list, rest);
    return br__composed(scope, y == x ? br_expand(x, x->ndim, x->sizes) : y);
}
