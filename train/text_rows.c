/* train/text_rows.c - see text_rows.h. */
#include "train/text_rows.h"
#include "common/text.h"
#include "train/csv.h"
#include "train/json_lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    text_rows *out;
    const char *const *names;
    int n_required;
} reader;

/* ---- Storing --------------------------------------------------------------------------------- */

static bool no_memory(void)
{
    br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the examples");
    return false;
}

static struct text_row *add_row(text_rows *r, int64_t line)
{
    if (r->count == r->capacity) {
        int64_t capacity = r->capacity ? 2 * r->capacity : 256;
        struct text_row *rows = realloc(r->rows, (size_t)capacity * sizeof *rows);
        if (!rows) {
            no_memory();
            return NULL;
        }
        r->rows = rows;
        r->capacity = capacity;
    }
    r->rows[r->count] = (struct text_row){ .line = line };
    return &r->rows[r->count++];
}

static bool set_text(struct text_row *row, int column, const char *text, int64_t length)
{
    char *own = malloc((size_t)length + 1);
    if (!own)
        return no_memory();
    if (length > 0)
        memcpy(own, text, (size_t)length);
    own[length] = 0;
    row->texts[column] = own;
    row->lengths[column] = length;
    return true;
}

/* Checks the texts of the last row. */
static bool check_row(const reader *r)
{
    text_rows *out = r->out;
    const struct text_row *row = &out->rows[out->count - 1];
    for (int k = 0; k < out->n_columns; k++) {
        bool has = row->texts[k] != NULL;
        if (out->count == 1)
            out->has[k] = has;
        if (out->has[k] != has)
            return json_line_refuse(row->line, "has %s \"%s\", unlike the first line",
                                    has ? "a" : "no", r->names[k]);
        if (k < r->n_required && row->lengths[k] == 0)
            return json_line_refuse(row->line, "has an empty \"%s\"", r->names[k]);
    }
    return true;
}

/* ---- Lines of JSON --------------------------------------------------------------------------- */

static bool read_object(void *context, int64_t line, const json_t *object)
{
    const reader *r = context;
    struct text_row *row = add_row(r->out, line);
    for (int k = 0; row && k < r->out->n_columns && !br_failed(); k++) {
        if (k >= r->n_required && !json_object_get(object, r->names[k]))
            continue;
        const json_t *text = json_line_string(line, object, r->names[k]);
        if (text)
            set_text(row, k, json_string_value(text), (int64_t)json_string_length(text));
    }
    return !br_failed() && check_row(r);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

/* Finds the columns in the line of names. */
static bool find_columns(const reader *r, const csv *c, int64_t *at)
{
    for (int k = 0; k < r->out->n_columns; k++) {
        at[k] = csv_find(c, r->names[k]);
        if (at[k] >= 0 || k >= r->n_required)
            continue;
        br_raise(BR_ERROR_FORMAT,
                 "the first line of the data must name the columns of a CSV file, or be a JSON "
                 "object: it has no \"%s\"",
                 r->names[k]);
        return false;
    }
    return true;
}

static bool add_record(const reader *r, const csv *c, int64_t n_fields, const int64_t *at)
{
    if (c->n != n_fields)
        return json_line_refuse(c->line, "has %" PRId64 " fields, must have %" PRId64, c->n,
                                n_fields);
    struct text_row *row = add_row(r->out, c->line);
    for (int k = 0; row && k < r->out->n_columns && !br_failed(); k++)
        if (at[k] >= 0)
            set_text(row, k, c->fields[at[k]].data, c->fields[at[k]].length);
    return !br_failed() && check_row(r);
}

char text_rows_separator(const char *data, const char *end)
{
    const char *line_end = data < end ? memchr(data, '\n', (size_t)(end - data)) : NULL;
    size_t n = (size_t)((line_end ? line_end : end) - data);
    return n > 0 && memchr(data, '\t', n) ? '\t' : ',';
}

static bool read_csv(const reader *r, const char *data, const char *end)
{
    csv c;
    int64_t at[TEXT_ROWS_COLUMNS];
    bool ok = csv_begin(&c, text_rows_separator(data, end), data, (size_t)(end - data));
    ok = ok && (csv_next(&c) || !br_failed()) && find_columns(r, &c, at);
    int64_t n = c.n;
    while (ok && csv_next(&c))
        ok = add_record(r, &c, n, at);
    csv_end(&c);
    return ok && !br_failed();
}

/* ---- Reading --------------------------------------------------------------------------------- */

bool text_rows_has_json(const char *data, const char *end)
{
    while (data < end && (*data == ' ' || *data == '\t' || *data == '\r' || *data == '\n'))
        data++;
    return data < end && *data == '{';
}

bool text_rows_read(text_rows *r, const char *const *names, int n_required, const char *data,
                    size_t length)
{
    const char *end = data + length, *first = text_first_line(data, end);
    reader context = { .out = r, .names = names, .n_required = n_required };
    *r = (text_rows){ 0 };
    while (names[r->n_columns])
        r->n_columns++;
    bool ok = text_rows_has_json(first, end)
                  ? json_lines_each(first, end, "", read_object, &context)
                  : read_csv(&context, first, end);
    if (ok && r->count == 0)
        br_raise(BR_ERROR_ARGUMENT, "the data has no examples");
    return ok && !br_failed();
}

void text_rows_free(text_rows *r)
{
    for (int64_t i = 0; i < r->count; i++)
        for (int k = 0; k < r->n_columns; k++)
            free(r->rows[i].texts[k]);
    free(r->rows);
    *r = (text_rows){ 0 };
}

br_text text_rows_get(const text_rows *r, int64_t row, int column)
{
    return (br_text){ r->rows[row].texts[column], r->rows[row].lengths[column] };
}
