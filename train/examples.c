/* train/examples.c - reads the examples that a language model is fine-tuned on. */
#include "train/examples.h"
#include "common/text.h"
#include "train/json_lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    examples *out;
    const examples_source *source;
    br_chat_template *chat; /* NULL until a line has messages */
    int64_t line;           /* number of the current line */
} reader;

/* ---- Storing --------------------------------------------------------------------------------- */

static bool no_memory(int64_t n)
{
    br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %" PRId64 " tokens", n);
    return false;
}

/* Makes room for n numbers in an array. */
static bool grow(int64_t **items, int64_t n)
{
    int64_t *grown = realloc(*items, (size_t)n * sizeof *grown);
    if (!grown)
        return no_memory(n);
    *items = grown;
    return true;
}

static bool reserve(examples *e, int64_t n)
{
    if (e->count == e->capacity) {
        int64_t capacity = e->capacity ? 2 * e->capacity : 256;
        if (!grow(&e->ends, capacity))
            return false;
        e->capacity = capacity;
    }
    if (e->n_ids + n > e->id_capacity) {
        int64_t capacity = 2 * (e->n_ids + n);
        if (!grow(&e->ids, capacity) || !grow(&e->labels, capacity))
            return false;
        e->id_capacity = capacity;
    }
    return true;
}

/* Adds an example of n tokens, where the loss counts those with counts[i], or all if it is NULL.
 * The first token is never predicted. */
static bool add(reader *r, int64_t n, const int64_t *ids, const bool *counts)
{
    examples *e = r->out;
    int64_t kept = n < r->source->length ? n : r->source->length;
    bool any = false;
    for (int64_t i = 1; i < kept; i++)
        any = any || !counts || counts[i];
    e->cut += kept < n;
    e->dropped += !any;
    if (!any)
        return true;
    if (!reserve(e, kept))
        return false;
    for (int64_t i = 0; i < kept; i++) {
        e->ids[e->n_ids + i] = ids[i];
        e->labels[e->n_ids + i] = !counts || counts[i] ? ids[i] : EXAMPLES_IGNORED;
    }
    e->n_ids += kept;
    e->ends[e->count++] = e->n_ids;
    return true;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* Returns the encoding of a text, whose bytes must be UTF-8. */
static br_encoding *encode(const reader *r, const char *text, size_t length, bool special)
{
    return br_tokenizer_encode(
        r->source->tokenizer, &(br_text){ text, (int64_t)length }, NULL,
        BR_OPTIONS(br_encode, .add_special_tokens = special, .strict_utf8 = true));
}

/* Adds an example of the encoding and, unless it ends with it, the end-of-text token. */
static bool add_ended(reader *r, const br_encoding *e, int64_t n_prompt)
{
    int64_t eos = br_tokenizer_special_id(r->source->tokenizer, BR_TOKEN_EOS), n = e->length;
    int64_t *ids = malloc((size_t)(n + 1) * sizeof *ids);
    bool *counts = malloc((size_t)(n + 1) * sizeof *counts);
    bool ok = (ids && counts) || no_memory(n);
    if (ok) {
        for (int64_t i = 0; i < n; i++)
            ids[i] = e->ids[i];
        if (eos >= 0 && (n == 0 || e->ids[n - 1] != eos))
            ids[n++] = eos;
        for (int64_t i = 0; i < n; i++)
            counts[i] = i >= n_prompt || r->source->all_tokens;
        ok = add(r, n, ids, counts);
    }
    free(ids);
    free(counts);
    return ok;
}

static bool add_text(reader *r, const char *text, size_t length)
{
    br_encoding *e = encode(r, text, length, true);
    bool ok = e && add_ended(r, e, 0);
    br_encoding_free(e);
    return ok;
}

/* Returns the number of ids that both encodings begin with. */
static int64_t common(const br_encoding *a, const br_encoding *b)
{
    int64_t n = 0;
    while (n < a->length && n < b->length && a->ids[n] == b->ids[n])
        n++;
    return n;
}

/* The completion begins at the first token in which the whole text differs from the prompt alone:
 * where prompt and completion meet, the whole text may have other tokens. */
static bool add_completion(reader *r, br_text prompt, br_text completion)
{
    size_t n = (size_t)prompt.length, m = (size_t)completion.length;
    char *text = malloc(n + m + 1);
    if (!text)
        return no_memory((int64_t)(n + m));
    if (n > 0)
        memcpy(text, prompt.data, n);
    if (m > 0)
        memcpy(text + n, completion.data, m);
    text[n + m] = 0;
    br_encoding *before = encode(r, text, n, true), *all = encode(r, text, n + m, true);
    bool ok = before && all && add_ended(r, all, common(before, all));
    br_encoding_free(before);
    br_encoding_free(all);
    free(text);
    return ok;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Returns the text of the first n messages of a line, or what they are with the beginning of the
 * next answer; NULL with an error on failure. The caller frees it with br_free(). */
static char *render(const reader *r, const json_t *line, size_t n, bool answer)
{
    json_t *part = json_copy((json_t *)line), *messages = json_array();
    bool ok = part && messages;
    for (size_t i = 0; ok && i < n; i++)
        ok = json_array_append(messages, json_array_get(json_object_get(line, "messages"), i)) == 0;
    ok = ok && json_object_set(part, "messages", messages) == 0;
    char *variables = ok ? json_dumps(part, JSON_COMPACT) : NULL, *text = NULL;
    if (!variables)
        no_memory((int64_t)n);
    else
        text = br_chat_template_render(
            r->chat, 0, NULL,
            BR_OPTIONS(br_chat, .add_generation_prompt = answer, .variables = variables));
    free(variables);
    json_decref(messages);
    json_decref(part);
    return text;
}

/* Marks the tokens whose text begins in begin .. end-1. */
static void mark(const br_encoding *e, bool *counts, size_t begin, size_t end)
{
    for (int64_t i = 0; i < e->length; i++)
        if (e->bytes[i].begin >= (int64_t)begin && e->bytes[i].begin < (int64_t)end &&
            e->bytes[i].end > e->bytes[i].begin)
            counts[i] = true;
}

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Marks the tokens of the k-th message, which is an answer: what the template writes after the
 * beginning of an answer to the messages before. */
static bool mark_answer(const reader *r, const json_t *line, size_t k, const char *text,
                        const br_encoding *e, bool *counts)
{
    char *before = render(r, line, k, true), *after = render(r, line, k + 1, false);
    bool ok = before && after;
    if (ok && (!begins_with(text, before) || !begins_with(text, after)))
        ok = json_line_refuse(
            r->line,
            "has messages whose text depends on later ones in the chat template, so that "
            "message %zu has no text of its own: set loss_on=all",
            k + 1);
    if (ok)
        mark(e, counts, strlen(before), strlen(after));
    br_free(before);
    br_free(after);
    return ok;
}

static bool is_answer(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

/* Adds a conversation, whose text the template writes with all special tokens. */
static bool add_rendered(reader *r, const json_t *line, const char *text)
{
    const json_t *messages = json_object_get(line, "messages");
    br_encoding *e = encode(r, text, strlen(text), false);
    bool *counts = e ? calloc((size_t)e->length + 1, sizeof *counts) : NULL;
    bool ok = counts != NULL;
    if (e && !counts)
        no_memory(e->length);
    for (size_t k = 0; ok && !r->source->all_tokens && k < json_array_size(messages); k++)
        if (is_answer(json_array_get(messages, k)))
            ok = mark_answer(r, line, k, text, e, counts);
    ok = ok && add(r, e->length, e->ids, r->source->all_tokens ? NULL : counts);
    free(counts);
    br_encoding_free(e);
    return ok;
}

static bool add_messages(reader *r, const json_t *line)
{
    const json_t *messages = json_object_get(line, "messages");
    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return json_line_refuse(r->line, "has \"messages\" that are not a list of messages");
    if (!r->chat)
        r->chat = br_chat_template_load(r->source->folder, NULL, r->source->tokenizer);
    char *text = r->chat ? render(r, line, json_array_size(messages), false) : NULL;
    bool ok = text && add_rendered(r, line, text);
    br_free(text);
    return ok;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static bool add_object(reader *r, const json_t *line)
{
    if (json_object_get(line, "messages"))
        return add_messages(r, line);
    if (json_object_get(line, "prompt") || json_object_get(line, "completion")) {
        const json_t *prompt = json_line_string(r->line, line, "prompt");
        const json_t *completion = prompt ? json_line_string(r->line, line, "completion") : NULL;
        return completion && add_completion(r, json_line_text(prompt), json_line_text(completion));
    }
    if (!json_object_get(line, "text"))
        return json_line_refuse(
            r->line, "must have \"text\", \"prompt\" and \"completion\", or \"messages\"");
    const json_t *text = json_line_string(r->line, line, "text");
    return text && add_text(r, json_string_value(text), json_string_length(text));
}

static bool read_line(void *context, int64_t number, const json_t *line)
{
    reader *r = context;
    r->line = number;
    return add_object(r, line);
}

/* Cuts a text into examples of `length` tokens. */
static bool read_text(reader *r, const char *data, size_t length)
{
    br_encoding *e = encode(r, data, length, true);
    int64_t step = r->source->length;
    bool ok = e != NULL;
    for (int64_t i = 0; ok && i < e->length; i += step)
        ok = add(r, e->length - i < step ? e->length - i : step, e->ids + i, NULL);
    br_encoding_free(e);
    return ok;
}

/* Returns whether the data are lines of JSON. */
static bool has_lines(examples_format format, const char *data, const char *end)
{
    while (data < end && (*data == ' ' || *data == '\t' || *data == '\r' || *data == '\n'))
        data++;
    return format == EXAMPLES_AUTO ? data < end && *data == '{' : format == EXAMPLES_JSONL;
}

bool examples_read(examples *e, const examples_source *source, const char *data, size_t length)
{
    reader r = { .out = e, .source = source };
    const char *end = data + length, *first = text_first_line(data, end);
    *e = (examples){ 0 };
    bool ok = has_lines(source->format, first, end)
                  ? json_lines_each(first, end, "; if the data are a plain text, set format=text",
                                    read_line, &r)
                  : read_text(&r, first, (size_t)(end - first));
    br_chat_template_free(r.chat);
    if (ok && e->count == 0) {
        br_raise(BR_ERROR_ARGUMENT, "the data has no example with a token to predict");
        return false;
    }
    return ok;
}

bool examples_add_completion(examples *e, const examples_source *source, br_text prompt,
                             br_text completion)
{
    return add_completion(&(reader){ .out = e, .source = source }, prompt, completion);
}

void examples_free(examples *e)
{
    free(e->ends);
    free(e->ids);
    free(e->labels);
    *e = (examples){ 0 };
}

/* ---- Examples -------------------------------------------------------------------------------- */

static int64_t start_of(const examples *e, int64_t i)
{
    return i > 0 ? e->ends[i - 1] : 0;
}

int64_t examples_length(const examples *e, int64_t i)
{
    return e->ends[i] - start_of(e, i);
}

const int64_t *examples_ids(const examples *e, int64_t i)
{
    return e->ids + start_of(e, i);
}

const int64_t *examples_labels(const examples *e, int64_t i)
{
    return e->labels + start_of(e, i);
}

int64_t examples_prompt(const examples *e, int64_t i)
{
    const int64_t *labels = examples_labels(e, i);
    int64_t n = 0;
    while (labels[n] == EXAMPLES_IGNORED)
        n++;
    return n;
}
