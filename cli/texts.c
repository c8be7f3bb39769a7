/* cli/texts.c - see texts.h. */
#include "cli/texts.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

static bool allocate(cli_texts *t, int64_t n, bool are_pairs)
{
    t->items = malloc((size_t)n * sizeof *t->items);
    t->pairs = t->items && are_pairs ? malloc((size_t)n * sizeof *t->pairs) : NULL;
    if (t->items && (t->pairs || !are_pairs))
        return true;
    br_raise(BR_ERROR_MEMORY, "%s: cannot allocate memory for the texts", cli_command);
    return false;
}

/* Splits a line at its tab. */
static bool split_pair(br_text *line, br_text *second, int64_t number)
{
    const char *tab = memchr(line->data, '\t', (size_t)line->length);
    if (!tab) {
        br_raise(BR_ERROR_FORMAT,
                 "%s: line %" PRId64 " has no tab, which must be between the texts of a pair",
                 cli_command, number);
        return false;
    }
    *second = (br_text){ tab + 1, line->data + line->length - (tab + 1) };
    line->length = tab - line->data;
    return true;
}

static bool split_lines(cli_texts *t, size_t length, bool are_pairs)
{
    const char *end = t->memory + length;
    int64_t lines = 1;
    for (const char *p = t->memory; p < end; p++)
        lines += *p == '\n';
    if (!allocate(t, lines, are_pairs))
        return false;
    const char *at = text_first_line(t->memory, end);
    for (; text_next_line(&at, end, '\n', &t->items[t->n]); t->n++)
        if (are_pairs && !split_pair(&t->items[t->n], &t->pairs[t->n], t->n + 1))
            return false;
    return true;
}

static br_text argument(const char *text)
{
    return (br_text){ text, (int64_t)strlen(text) };
}

static bool read_arguments(cli_texts *t, int n, char **arguments, bool are_pairs)
{
    int each = are_pairs ? 2 : 1;
    if (!allocate(t, n / each, are_pairs))
        return false;
    for (int i = 0; i + each <= n; i += each) {
        if (are_pairs)
            t->pairs[t->n] = argument(arguments[i + 1]);
        t->items[t->n++] = argument(arguments[i]);
    }
    return true;
}

bool cli_texts_read(cli_texts *t, const char *file, int n, char **arguments, bool are_pairs)
{
    *t = (cli_texts){ 0 };
    if (!file)
        return read_arguments(t, n, arguments, are_pairs);
    size_t length = 0;
    t->memory = file_read(file, &length);
    return t->memory && split_lines(t, length, are_pairs);
}

void cli_texts_free(cli_texts *t)
{
    free(t->items);
    free(t->pairs);
    free(t->memory);
}

bool cli_texts_print_json(const br_text *text, int64_t i)
{
    json_t *value = json_stringn(text->data, (size_t)text->length);
    if (!value) {
        br_raise(BR_ERROR_FORMAT, "%s: text %" PRId64 " is not UTF-8", cli_command, i + 1);
        return false;
    }
    json_dumpf(value, stdout, JSON_ENCODE_ANY);
    json_decref(value);
    return true;
}
