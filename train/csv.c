/* train/csv.c - see csv.h. */
#include "train/csv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool csv_begin(csv *c, char separator, const char *text, size_t length)
{
    /* The fields of a record need no more bytes than the text. */
    *c = (csv){ .at = text,
                .end = text + length,
                .separator = separator,
                .next_line = 1,
                .memory = malloc(length + 1) };
    if (!c->memory)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %zu bytes of CSV", length);
    return c->memory != NULL;
}

void csv_end(csv *c)
{
    free(c->memory);
    free(c->fields);
}

static bool refuse(const csv *c, const char *why)
{
    br_raise(BR_ERROR_FORMAT,
             "the record in line %" PRId64 " of the data has a field that begins with a quote, "
             "but %s",
             c->line, why);
    return false;
}

static bool add_field(csv *c, const char *from, const char *to)
{
    if (c->n == c->capacity) {
        int64_t capacity = c->capacity ? 2 * c->capacity : 16;
        br_text *fields = realloc(c->fields, (size_t)capacity * sizeof *fields);
        if (!fields) {
            br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %" PRId64 " fields", capacity);
            return false;
        }
        c->fields = fields;
        c->capacity = capacity;
    }
    c->fields[c->n++] = (br_text){ from, to - from };
    return true;
}

/* Returns true at the end of a record, which is the end of the text or of a line. */
static bool at_end(const csv *c)
{
    return c->at == c->end || *c->at == '\n' ||
           (*c->at == '\r' && c->at + 1 < c->end && c->at[1] == '\n');
}

/* Moves past the end of a line. */
static void end_line(csv *c)
{
    if (c->at < c->end && *c->at == '\r')
        c->at++;
    if (c->at < c->end)
        c->at++;
    c->next_line++;
}

/* Copies a field in quotes, of which the first was read, to *to. */
static bool read_quoted(csv *c, char **to)
{
    for (; c->at < c->end; c->at++) {
        if (*c->at == '"' && (++c->at == c->end || *c->at != '"'))
            return at_end(c) || *c->at == c->separator ||
                   refuse(c, "text follows the quote that ends it");
        c->next_line += *c->at == '\n';
        *(*to)++ = *c->at;
    }
    return refuse(c, "no quote ends it");
}

static bool read_field(csv *c, char **to)
{
    const char *from = *to;
    if (c->at < c->end && *c->at == '"') {
        c->at++;
        if (!read_quoted(c, to))
            return false;
    }
    while (!at_end(c) && *c->at != c->separator)
        *(*to)++ = *c->at++;
    return add_field(c, from, *to);
}

bool csv_next(csv *c)
{
    while (c->at < c->end && at_end(c))
        end_line(c);
    c->n = 0;
    c->line = c->next_line;
    if (c->at == c->end)
        return false;
    char *to = c->memory;
    while (read_field(c, &to)) {
        if (at_end(c)) {
            end_line(c);
            return true;
        }
        c->at++;
    }
    return false;
}

int64_t csv_find(const csv *c, const char *text)
{
    const size_t n = strlen(text);
    for (int64_t i = 0; i < c->n; i++)
        if ((size_t)c->fields[i].length == n && memcmp(c->fields[i].data, text, n) == 0)
            return i;
    return -1;
}
