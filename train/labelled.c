/* train/labelled.c - see labelled.h. */
#include "train/labelled.h"
#include "common/text.h"
#include "train/csv.h"
#include "train/json_lines.h"
#include "train/text_rows.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const problem_names[] = {
    [LABELLED_SINGLE] = "one label",
    [LABELLED_MULTI] = "a list of labels",
    [LABELLED_REGRESSION] = "a number that is no integer",
};

/* ---- Storing --------------------------------------------------------------------------------- */

static bool no_memory(void)
{
    br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the examples");
    return false;
}

/* Returns a copy of n bytes, which a NUL follows; NULL with an error on failure. */
static char *copy(const char *text, int64_t n)
{
    char *own = malloc((size_t)n + 1);
    if (!own) {
        no_memory();
        return NULL;
    }
    if (n > 0)
        memcpy(own, text, (size_t)n);
    own[n] = 0;
    return own;
}

/* Appends an empty item, and returns it. */
static labelled_item *add_item(labelled *l)
{
    if (l->count == l->capacity) {
        int64_t capacity = l->capacity ? 2 * l->capacity : 256;
        labelled_item *items = realloc(l->items, (size_t)capacity * sizeof *items);
        if (!items) {
            no_memory();
            return NULL;
        }
        l->items = items;
        l->capacity = capacity;
    }
    l->items[l->count] = (labelled_item){ 0 };
    return &l->items[l->count++];
}

static bool set_texts(labelled_item *item, br_text text, const br_text *pair)
{
    item->text = copy(text.data, text.length);
    item->length = text.length;
    if (pair) {
        item->pair = copy(pair->data, pair->length);
        item->pair_length = pair->length;
    }
    return !br_failed();
}

static bool add_label(labelled_item *item, const char *label, int64_t length)
{
    char **labels = realloc(item->labels, (size_t)(item->n_labels + 1) * sizeof *labels);
    if (!labels)
        return no_memory();
    item->labels = labels;
    labels[item->n_labels] = copy(label, length);
    item->n_labels += labels[item->n_labels] != NULL;
    return !br_failed();
}

/* Checks that a line has what the lines before it have. */
static bool agree(labelled *l, int64_t line, labelled_problem problem, bool has_pair)
{
    bool first = l->count == 1;
    if (l->problem == LABELLED_AUTO)
        l->problem = problem;
    if (l->problem != problem)
        return json_line_refuse(line, "has %s, must have %s%s", problem_names[problem],
                                problem_names[l->problem],
                                first ? " for this problem_type" : ", as the first line");
    if (first)
        l->has_pairs = has_pair;
    return l->has_pairs == has_pair ||
           json_line_refuse(line, "has %s, unlike the first line",
                            has_pair ? "a second text" : "no second text");
}

/* ---- Lines of JSON --------------------------------------------------------------------------- */

/* Adds a label that is a name or an integer. */
static bool add_json_label(labelled_item *item, int64_t line, const json_t *label)
{
    char number[32];
    if (json_is_integer(label)) {
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(label));
        return add_label(item, number, (int64_t)strlen(number));
    }
    if (!json_is_string(label) || json_string_length(label) == 0)
        return json_line_refuse(line, "has a label that is neither a name nor a number");
    return add_label(item, json_string_value(label), (int64_t)json_string_length(label));
}

/* Returns the problem that a label belongs to. An integer may be a label or a value. */
static labelled_problem problem_of(labelled_problem wanted, const json_t *label)
{
    if (json_is_array(label))
        return LABELLED_MULTI;
    bool is_value =
        json_is_real(label) || (json_is_integer(label) && wanted == LABELLED_REGRESSION);
    return is_value ? LABELLED_REGRESSION : LABELLED_SINGLE;
}

static bool add_json_labels(labelled_item *item, int64_t line, labelled_problem problem,
                            const json_t *label)
{
    bool ok = true;
    switch (problem) {
    case LABELLED_REGRESSION:
        item->number = json_number_value(label);
        return true;
    case LABELLED_MULTI:
        for (size_t i = 0; ok && i < json_array_size(label); i++)
            ok = add_json_label(item, line, json_array_get(label, i));
        return ok;
    default:
        return add_json_label(item, line, label);
    }
}

static bool add_json(void *context, int64_t line, const json_t *object)
{
    labelled *l = context;
    const json_t *label = json_object_get(object, "label");
    const json_t *text = json_line_string(line, object, "text");
    bool has_pair = json_object_get(object, "text_pair") != NULL;
    const json_t *pair = has_pair && text ? json_line_string(line, object, "text_pair") : NULL;
    if (!text || br_failed())
        return false;
    label = label ? label : json_object_get(object, "labels");
    if (!label)
        return json_line_refuse(line, "has no \"label\"");
    labelled_problem problem = problem_of(l->problem, label);
    labelled_item *item = add_item(l);
    br_text second = pair ? json_line_text(pair) : (br_text){ 0 };
    return item && set_texts(item, json_line_text(text), pair ? &second : NULL) &&
           agree(l, line, problem, has_pair) && add_json_labels(item, line, problem, label);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* The columns of a CSV file, or -1. */
typedef struct columns {
    int64_t text, pair, label, count;
} columns;

static bool find_columns(const csv *c, columns *at)
{
    at->text = csv_find(c, "text");
    at->pair = csv_find(c, "text_pair");
    at->label = csv_find(c, "label");
    if (at->label < 0)
        at->label = csv_find(c, "labels");
    at->count = c->n;
    if (at->text >= 0 && at->label >= 0)
        return true;
    br_raise(BR_ERROR_FORMAT,
             "the first line of the data must name the columns of a CSV file, with \"text\" and "
             "\"label\", or be a JSON object with them: it has no \"%s\"",
             at->text < 0 ? "text" : "label");
    return false;
}

/* Reads the value of a field, for regression. */
static bool read_number(const br_text *field, double *number)
{
    char text[64];
    int n = field->length < (int64_t)sizeof text ? (int)field->length : 0;
    snprintf(text, sizeof text, "%.*s", n, field->data);
    return text_to_number(text, -HUGE_VAL, HUGE_VAL, number) && isfinite(*number);
}

static bool add_record(labelled *l, const csv *c, const columns *at)
{
    if (c->n != at->count)
        return json_line_refuse(c->line, "has %" PRId64 " fields, must have %" PRId64, c->n,
                                at->count);
    const br_text *label = &c->fields[at->label];
    labelled_problem problem =
        l->problem == LABELLED_REGRESSION ? LABELLED_REGRESSION : LABELLED_SINGLE;
    labelled_item *item = add_item(l);
    if (!item || !set_texts(item, c->fields[at->text], at->pair < 0 ? NULL : &c->fields[at->pair]))
        return false;
    if (!agree(l, c->line, problem, at->pair >= 0))
        return false;
    if (problem == LABELLED_SINGLE)
        return label->length > 0 ? add_label(item, label->data, label->length)
                                 : json_line_refuse(c->line, "has an empty label");
    return read_number(label, &item->number) ||
           json_line_refuse(c->line, "has the label \"%.*s\", must be a number", (int)label->length,
                            label->data);
}

static bool read_csv(labelled *l, const char *data, const char *end)
{
    csv c;
    columns at;
    bool ok = csv_begin(&c, text_rows_separator(data, end), data, (size_t)(end - data));
    ok = ok && (csv_next(&c) || !br_failed()) && find_columns(&c, &at);
    while (ok && csv_next(&c))
        ok = add_record(l, &c, &at);
    csv_end(&c);
    return ok && !br_failed();
}

/* ---- Reading --------------------------------------------------------------------------------- */

bool labelled_read(labelled *l, labelled_problem problem, const char *data, size_t length)
{
    const char *end = data + length, *first = text_first_line(data, end);
    *l = (labelled){ .problem = problem };
    bool ok = text_rows_has_json(first, end) ? json_lines_each(first, end, "", add_json, l)
                                             : read_csv(l, first, end);
    if (ok && l->count == 0)
        br_raise(BR_ERROR_ARGUMENT, "the data has no examples");
    return ok && !br_failed();
}

static void free_item(labelled_item *item)
{
    for (int64_t i = 0; i < item->n_labels; i++)
        free(item->labels[i]);
    free(item->labels);
    free(item->ids);
    free(item->text);
    free(item->pair);
}

void labelled_free(labelled *l)
{
    for (int64_t i = 0; i < l->count; i++)
        free_item(&l->items[i]);
    free(l->items);
    *l = (labelled){ 0 };
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static bool is_integer(const char *text)
{
    int64_t value;
    return text_to_integer(text, INT64_MIN, INT64_MAX, &value);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_value(const void *a, const void *b)
{
    long long x = atoll(*(char *const *)a), y = atoll(*(char *const *)b);
    return (x > y) - (x < y);
}

br_vocab *labelled_names(const labelled *l)
{
    int64_t n = 0, k = 0;
    bool integers = true;
    for (int64_t i = 0; i < l->count; i++)
        n += l->items[i].n_labels;
    char **all = malloc((size_t)(n + 1) * sizeof *all);
    br_vocab *names = all ? br_vocab_new() : NULL;
    if (!all)
        no_memory();
    for (int64_t i = 0; names && i < l->count; i++)
        for (int64_t j = 0; j < l->items[i].n_labels; j++) {
            all[k++] = l->items[i].labels[j];
            integers = integers && is_integer(all[k - 1]);
        }
    if (names && n > 1)
        qsort(all, (size_t)n, sizeof *all, integers ? by_value : by_bytes);
    for (int64_t i = 0; i < k && !br_failed(); i++)
        br_vocab_add(names, all[i], strlen(all[i]));
    free(all);
    if (!br_failed())
        return names;
    br_vocab_free(names);
    return NULL;
}

bool labelled_number(labelled *l, const br_vocab *names)
{
    for (int64_t i = 0; i < l->count; i++) {
        labelled_item *item = &l->items[i];
        item->ids = malloc((size_t)(item->n_labels + 1) * sizeof *item->ids);
        if (!item->ids)
            return no_memory();
        for (int64_t j = 0; j < item->n_labels; j++)
            item->ids[j] = br_vocab_find(names, item->labels[j], strlen(item->labels[j]));
    }
    return true;
}
