/* pretrained/pipeline_tag_batch.c - tags of many texts: their parts, and the batches in which the
 * model reads them. */
#include "pretrained/pipeline_tags.h"

#include "nn/nn_internal.h"
#include "pretrained/text_pack.h"
#include "tensor/device.h"
#include "tensor/host.h"
#include "tensor/min_max.h"
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>

BR_DEFINE_DEFAULTS(br_tag)

static const char op[] = "pipeline_tag";

/* ---- Options --------------------------------------------------------------------------------- */

static bool check_options(const br_tag_options *o)
{
    if (o->aggregation < BR_AGGREGATE_NONE || o->aggregation > BR_AGGREGATE_MAX)
        br_fail(BR_ERROR_ARGUMENT, op,
                "the option aggregation is %d, must be one of br_aggregation", (int)o->aggregation);
    else if (o->max_length < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "the option max_length is %" PRId64 ", must be at least 0",
                o->max_length);
    else if (o->stride < -1)
        br_fail(BR_ERROR_ARGUMENT, op, "the option stride is %" PRId64 ", must be at least -1",
                o->stride);
    else if (o->stride >= 0 && o->aggregation == BR_AGGREGATE_NONE)
        br_fail(BR_ERROR_ARGUMENT, op,
                "the option stride is %" PRId64 ", but parts of a text need an aggregation other "
                "than BR_AGGREGATE_NONE",
                o->stride);
    return !br_failed() && br__required(op, "ignored_label", o->ignored_label);
}

/* ---- Parts of texts -------------------------------------------------------------------------- */

/* A call of br_pipeline_tag() or br_pipeline_tag_batch(). */
typedef struct tagging {
    const br_pipeline *self;
    const br_tag_options *o;
    br_text *texts; /* with their lengths */
    int64_t *order; /* indices of the texts, sorted by length */
    br_entities **entities;
} tagging;

/* A text of a batch, or a part of it. */
typedef struct row {
    int64_t text;
    const br_encoding *encoding;
    br_entity_list *list;
} row;

/* The texts of a batch, and their parts. */
typedef struct tagged_batch {
    const tagging *t;
    int64_t n_texts, n_rows;
    br_encoding **encodings;
    br_entity_list *lists;
    row *rows;
    const row *at; /* the first row that the model reads now */
} tagged_batch;

static br_encoding *encode(const tagging *t, int64_t text)
{
    const br_tag_options *o = t->o;
    int64_t limit = t->self->limits.max_tokens, most = o->max_length;
    if (most == 0 || most > limit)
        most = limit;
    if (o->stride >= most)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "the option stride is %" PRId64 ", must be less than the %" PRId64
                       " tokens of a part",
                       o->stride, most);
    return br_tokenizer_encode(
        t->self->tokenizer, &t->texts[text], NULL,
        BR_OPTIONS(br_encode, .max_length = most, .stride = o->stride > 0 ? o->stride : 0));
}

static int64_t count_parts(const tagging *t, const br_encoding *e)
{
    return t->o->stride >= 0 ? 1 + e->n_overflow : 1;
}

/* Encodes the texts order[0] .. order[n - 1]. */
static bool encode_texts(tagged_batch *b, const int64_t *order)
{
    const size_t n = (size_t)b->n_texts;
    b->encodings = br_calloc(n, sizeof *b->encodings);
    b->lists = b->encodings ? br_calloc(n, sizeof *b->lists) : NULL;
    for (int64_t i = 0; b->lists && i < b->n_texts; i++) {
        b->encodings[i] = encode(b->t, order[i]);
        b->lists[i].entities = b->t->entities[order[i]];
        if (!b->encodings[i])
            return false;
        b->n_rows += count_parts(b->t, b->encodings[i]);
    }
    return b->lists;
}

/* Lists the parts of the texts. */
static bool list_rows(tagged_batch *b, const int64_t *order)
{
    row *to = b->rows = br_calloc((size_t)b->n_rows, sizeof *b->rows);
    for (int64_t i = 0; to && i < b->n_texts; i++) {
        const br_encoding *e = b->encodings[i];
        for (int64_t k = 0; k < count_parts(b->t, e); k++)
            *to++ = (row){ order[i], k ? &e->overflow[k - 1] : e, &b->lists[i] };
    }
    return b->rows;
}

static void free_batch(tagged_batch *b)
{
    for (int64_t i = 0; b->encodings && i < b->n_texts; i++)
        br_encoding_free(b->encodings[i]);
    br_free(b->encodings);
    br_free(b->lists);
    br_free(b->rows);
}

/* ---- Running the model ----------------------------------------------------------------------- */

/* Adds the entities of a row, of which `probabilities` has the tokens [tokens, labels]. */
static bool tag_row(const tagging *t, const row *r, const float *probabilities)
{
    const br_tagged_part part = { t->self, t->o, t->texts[r->text], r->encoding, probabilities };
    return br__tag_part(&part, r->list);
}

static const float *probabilities_of(br_tensor *logits)
{
    br_tensor *all = br_contiguous(br_softmax(br_to(br__on_host(op, logits), BR_F32), -1));
    return br_failed() ? NULL : br_data_f32(all);
}

static bool tag_pack(const void *of, const br_text_pack *pack)
{
    const tagged_batch *b = of;
    const br_pipeline *self = b->t->self;
    const float *all = probabilities_of(self->class->forward(self->module, &pack->input));
    for (int64_t i = 0; all && i < pack->n; i++)
        if (!tag_row(b->t, &b->at[pack->from + i], all + pack->starts[i] * self->n_labels))
            return false;
    return all;
}

/* Runs the model on n padded rows. */
static bool tag_padded(const tagged_batch *b, int64_t n, const br_token_batch *batch)
{
    const br_pipeline *self = b->t->self;
    const int64_t length = br_size(batch->ids, 1);
    const float *all = probabilities_of(br__pipeline_logits(op, self, batch));
    for (int64_t i = 0; all && i < n; i++)
        if (!tag_row(b->t, &b->at[i], all + i * length * self->n_labels))
            return false;
    return all;
}

static int64_t longest_of(const row *rows, int64_t n)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < n; i++)
        longest = br__max(longest, rows[i].encoding->length);
    return longest;
}

/* Returns ids, types and mask [n, length] of n rows, padded at their ends. */
static bool make_batch(const tagging *t, const row *rows, int64_t n, int64_t length,
                       br_token_batch *batch)
{
    int64_t *ids, *types, *mask;
    batch->ids = br__new_host_i64(op, BR_SHAPE(n, length), &ids);
    batch->type_ids = br__new_host_i64(op, BR_SHAPE(n, length), &types);
    batch->attention_mask = br__new_host_i64(op, BR_SHAPE(n, length), &mask);
    const int64_t padding = br__max(t->self->tokenizer->padding, 0);
    for (int64_t i = 0; !br_failed() && i < n; i++) {
        const br_encoding *e = rows[i].encoding;
        for (int64_t k = 0; k < length; k++) {
            const bool is_token = k < e->length;
            *ids++ = is_token ? e->ids[k] : padding;
            *types++ = is_token ? e->type_ids[k] : 0;
            *mask++ = is_token ? e->attention_mask[k] : 0;
        }
    }
    return !br_failed();
}

/* Checks the tokens of the rows, and names the text of one that has none. */
static bool check_rows(const tagging *t, const row *rows, int64_t n, const br_token_batch *batch)
{
    int64_t *order = br_calloc((size_t)n, sizeof *order);
    for (int64_t i = 0; order && i < n; i++)
        order[i] = rows[i].text;
    const bool ok = order && br__check_tokens(op, &t->self->limits, order, batch);
    br_free(order);
    return ok;
}

/* Tags n rows, which the model reads together. */
static bool tag_rows(tagged_batch *b, int64_t n)
{
    const br_pipeline *self = b->t->self;
    const int64_t length = longest_of(b->at, n);
    br_token_batch batch = { 0 };
    br_scope *scope = br_scope_begin();
    bool ok = length == 0 ||
              (make_batch(b->t, b->at, n, length, &batch) && check_rows(b->t, b->at, n, &batch));
    if (ok && length > 0)
        ok = br__packs(self->config, &batch)
                 ? br__run_packs(op, &batch, br_module_device(self->module), tag_pack, b)
                 : tag_padded(b, n, &batch);
    br_scope_end(scope);
    return ok && !br_failed();
}

static bool tag_all_rows(tagged_batch *b)
{
    int64_t n;
    b->at = b->rows;
    for (int64_t left = b->n_rows; left > 0; left -= n, b->at += n) {
        n = br__min(left, b->t->o->batch_size);
        if (!tag_rows(b, n))
            return false;
    }
    return true;
}

/* Tags the texts order[from] .. order[from + n - 1]. */
static bool tag_texts(const void *of, int64_t from, int64_t n)
{
    const tagging *t = of;
    const int64_t *order = t->order + from;
    tagged_batch b = { .t = t, .n_texts = n };
    const bool ok = encode_texts(&b, order) && list_rows(&b, order) && tag_all_rows(&b);
    for (int64_t i = 0; ok && i < n; i++)
        if (count_parts(t, b.encodings[i]) > 1)
            br__keep_best_entities(t->entities[order[i]]);
    free_batch(&b);
    return ok;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static bool new_entities(const tagging *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(t->entities[i] = br_calloc(1, sizeof **t->entities)))
            return false;
    return true;
}

static void end_entities(const tagging *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        br_entities_free(t->entities[i]);
        t->entities[i] = NULL;
    }
}

/* Tags n texts, whose entities are NULL. */
static bool tag(br_pipeline *self, const br_text_batches *batches, const char *name,
                const br_text *texts, const br_tag_options *o, br_entities **entities)
{
    const int64_t n = batches->n;
    tagging t = { .self = self, .o = o, .entities = entities };
    br_scope *scope = br_no_grad_begin();
    t.texts = br__copy_texts(op, name, n, texts);
    t.order = t.texts ? br__sort_by_length(n, t.texts, NULL) : NULL;
    const bool ok = t.order && new_entities(&t, n) && br__run_batches(batches, tag_texts, &t);
    if (!ok)
        end_entities(&t, n);
    br_free(t.texts);
    br_free(t.order);
    br_scope_end(scope);
    return ok;
}

br_entities *br_pipeline_tag(br_pipeline *self, const br_text *text, const br_tag_options *options)
{
    const br_tag_options *o = BR_OPTIONS_OF(op, br_tag, options);
    const br_text_batches batches = { op, 1, o->batch_size, NULL, NULL };
    br_entities *entities = NULL;
    if (br__pipeline_begin(op, self, BR_TASK_TOKEN_CLASSIFICATION) &&
        br__required(op, "text", text) && check_options(o) && br__check_batches(&batches, text))
        tag(self, &batches, "text", text, o, &entities);
    return entities;
}

bool br_pipeline_tag_batch(br_pipeline *self, int64_t n, const br_text *texts,
                           const br_tag_options *options, br_entities **entities)
{
    const br_tag_options *o = BR_OPTIONS_OF(op, br_tag, options);
    const br_text_batches batches = { op, n, o->batch_size, o->on_batch, o->context };
    for (int64_t i = 0; entities && i < n; i++)
        entities[i] = NULL;
    if (!br__pipeline_begin(op, self, BR_TASK_TOKEN_CLASSIFICATION) || !check_options(o) ||
        !br__check_batches(&batches, texts) || (n > 0 && !br__required(op, "entities", entities)))
        return false;
    return tag(self, &batches, "texts", texts, o, entities);
}
