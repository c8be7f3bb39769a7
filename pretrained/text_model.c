/* pretrained/text_model.c - see text_model.h. */
#include "pretrained/text_model.h"

#include "pretrained/auto_config_internal.h"
#include "pretrained/auto_model_internal.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Models ---------------------------------------------------------------------------------- */

const br_model_class *br__class_that_fits(const char *op, const br_auto_config *config,
                                          bool (*fits)(const br_model_class *class),
                                          const char *what)
{
    const char *type = br_auto_config_model_type(config);
    const br_model_class *class = config->family ? br__first_class(config->family, fits) : NULL;
    char *known = class ? NULL : br__known_types(type, fits);
    if (known)
        br_fail(BR_ERROR_FORMAT, op, "%s: model_type is %s%s%s, but %s supported only for %s",
                br_printable(br_auto_config_path(config)), type ? "\"" : "",
                type ? br_printable(type) : "missing", type ? "\"" : "", what, known);
    br_free(known);
    return class;
}

bool br__read_limits(br_text_limits *limits)
{
    limits->vocab_size = br_auto_config_size(limits->config, "vocab_size");
    limits->max_tokens = br_auto_config_max_tokens(limits->config);
    return !br_failed();
}

/* Checks the ids of text i, whose number of tokens is not more than n. */
static bool check_ids(const char *op, const br_text_limits *limits, int64_t i, int64_t n,
                      const int64_t *ids)
{
    for (int64_t k = 0; k < n; k++) {
        if (ids[k] < limits->vocab_size)
            continue;
        br_fail(BR_ERROR_FORMAT, op,
                "texts[%" PRId64 "] has the token '%s' with id %" PRId64
                ", but vocab_size is only %" PRId64 " in %s",
                i, br_printable(br_tokenizer_token(limits->tokenizer, ids[k])), ids[k],
                limits->vocab_size, br_printable(br_auto_config_path(limits->config)));
        return false;
    }
    return true;
}

static bool check_length(const char *op, const br_text_limits *limits, int64_t i, int64_t n,
                         const int64_t *mask)
{
    int64_t tokens = 0;
    for (int64_t k = 0; k < n; k++)
        tokens += mask[k];
    if (tokens <= limits->max_tokens)
        return true;
    br_fail(BR_ERROR_ARGUMENT, op,
            "texts[%" PRId64 "] has %" PRId64 " tokens, more than the model's limit of %" PRId64
            "; the option %s = %" PRId64 " (brasa %s: --max-length %" PRId64 ") truncates it",
            i, tokens, limits->max_tokens, limits->option, limits->max_tokens, limits->command,
            limits->max_tokens);
    return false;
}

bool br__check_tokens(const char *op, const br_text_limits *limits, const int64_t *order,
                      const br_token_batch *batch)
{
    int64_t n = br_size(batch->ids, 0), length = br_size(batch->ids, 1);
    const int64_t *ids = br_data_i64(batch->ids), *mask = br_data_i64(batch->attention_mask);
    for (int64_t i = 0; ids && mask && i < n; i++)
        if (!check_ids(op, limits, order[i], length, ids + i * length) ||
            !check_length(op, limits, order[i], length, mask + i * length))
            return false;
    return !br_failed();
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static bool check_text(const char *op, const char *name, int64_t i, const br_text *text)
{
    if (text->length < -1)
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s[%" PRId64 "] has length %" PRId64
                ", must be at least 0, or -1 for text that ends with a NUL",
                name, i, text->length);
    else if (!text->data && text->length != 0)
        br_fail(BR_ERROR_ARGUMENT, op, "%s[%" PRId64 "] is NULL, must be text", name, i);
    return !br_failed();
}

br_text *br__copy_texts(const char *op, const char *name, int64_t n, const br_text *texts)
{
    br_text *copy = br_calloc((size_t)n, sizeof *copy);
    for (int64_t i = 0; copy && i < n; i++) {
        if (!check_text(op, name, i, &texts[i])) {
            br_free(copy);
            return NULL;
        }
        const char *data = texts[i].data ? texts[i].data : "";
        int64_t length = texts[i].length;
        copy[i] = (br_text){ data, length == -1 ? (int64_t)strlen(data) : length };
    }
    return copy;
}

br_text *br__chosen_texts(const br_text *texts, const int64_t *order, int64_t n)
{
    br_text *chosen = br_calloc((size_t)n, sizeof *chosen);
    for (int64_t i = 0; chosen && i < n; i++)
        chosen[i] = texts[order[i]];
    return chosen;
}

bool br__check_batches(const br_text_batches *b, const br_text *texts)
{
    if (b->n > 0 && !br__required(b->op, "texts", texts))
        return false;
    if (b->n < 0)
        br_fail(BR_ERROR_ARGUMENT, b->op, "n is %" PRId64 ", must be at least 0", b->n);
    else if (b->batch_size < 1)
        br_fail(BR_ERROR_ARGUMENT, b->op,
                "the option batch_size is %" PRId64 ", must be at least 1", b->batch_size);
    return !br_failed();
}

bool br__run_batches(const br_text_batches *b, bool (*run)(const void *of, int64_t from, int64_t n),
                     const void *of)
{
    int64_t n;
    for (int64_t from = 0; from < b->n; from += n) {
        n = br__min(b->n - from, b->batch_size);
        if (!run(of, from, n))
            return false;
        if (b->on_batch && !b->on_batch(b->context, from + n, b->n))
            return br_fail(BR_ERROR_STATE, b->op,
                           "on_batch returned false after %" PRId64 " of %" PRId64 " texts",
                           from + n, b->n);
    }
    return !br_failed();
}

/* A text and its length with its pair. */
typedef struct sized {
    int64_t index, length;
} sized;

static int by_length(const void *a, const void *b)
{
    const sized *x = a, *y = b;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

int64_t *br__sort_by_length(int64_t n, const br_text *texts, const br_text *pairs)
{
    sized *sorted = br_calloc((size_t)n, sizeof *sorted);
    int64_t *order = sorted ? br_calloc((size_t)n, sizeof *order) : NULL;
    for (int64_t i = 0; order && i < n; i++)
        sorted[i] = (sized){ i, texts[i].length + (pairs ? pairs[i].length : 0) };
    if (order)
        qsort(sorted, (size_t)n, sizeof *sorted, by_length);
    for (int64_t i = 0; order && i < n; i++)
        order[i] = sorted[i].index;
    br_free(sorted);
    return order;
}
