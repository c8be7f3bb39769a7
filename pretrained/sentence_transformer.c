/* pretrained/sentence_transformer.c - sentence embeddings: the model of a folder, and its settings
 * (sentence_files.h). */
#include "nn/nn_internal.h"
#include "pretrained/auto_config_internal.h"
#include "pretrained/auto_model_internal.h"
#include "pretrained/pooling.h"
#include "pretrained/sentence_files.h"
#include "pretrained/text_pack.h"
#include "tensor/device.h"
#include "tensor/min_max.h"
#include "tokenizers/tokenizer_internal.h"

#include <brasa/pretrained.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_sentence_transformer)
BR_DEFINE_DEFAULTS(br_sentence_encode)

static const char op[] = "sentence_transformer";

struct br_sentence_transformer {
    br_sentence_settings settings;
    br_tokenizer *tokenizer;
    const br_model_class *class;
    br_module *module;
    int64_t pooled, dimension; /* sizes of a pooled embedding, and after the modules that follow */
    br_text_limits limits;
};

/* ---- Loading --------------------------------------------------------------------------------- */

static bool check_options(const br_sentence_transformer_options *o)
{
    if (o->pooling < BR_POOLING_AUTO || o->pooling > BR_POOLING_LASTTOKEN)
        br_fail(BR_ERROR_ARGUMENT, op, "the option pooling is %d, must be one of br_pooling",
                (int)o->pooling);
    else if (o->max_seq_length != 0 &&
             (o->max_seq_length < BR_MIN_SEQ_LENGTH || o->max_seq_length > INT32_MAX))
        br_fail(BR_ERROR_ARGUMENT, op,
                "the option max_seq_length is %" PRId64
                ", must be 3 .. 2147483647, or 0 for what the files say",
                o->max_seq_length);
    else if (o->do_lower_case < BR_SETTING_AUTO || o->do_lower_case > BR_SETTING_ON)
        br_fail(BR_ERROR_ARGUMENT, op, "do_lower_case is %d, must be one of br_setting",
                (int)o->do_lower_case);
    return !br_failed();
}

static bool embeds_sentences(const br_model_class *class)
{
    return class->embeds_sentences && class->forward;
}

static bool find_class(br_sentence_transformer *self)
{
    self->class =
        br__class_that_fits(op, self->settings.config, embeds_sentences, "sentence embeddings are");
    return self->class;
}

static bool read_sizes(br_sentence_transformer *self)
{
    const br_auto_config *config = self->settings.config;
    self->pooled = self->settings.n_modes * br_auto_config_size(config, "hidden_size");
    self->dimension = self->pooled;
    self->limits =
        (br_text_limits){ .config = config, .option = "max_seq_length", .command = "embed" };
    return br__read_limits(&self->limits);
}

/* Opens the tokenizer, and makes it lower-case texts if the option or the folder's files require
 * it. */
static bool open_tokenizer(br_sentence_transformer *self, br_setting lower_case)
{
    const br_sentence_settings *s = &self->settings;
    br_setting off = lower_case == BR_SETTING_OFF ? BR_SETTING_OFF : BR_SETTING_AUTO;
    br_tokenizer *t = self->tokenizer =
        br_auto_tokenizer_load(s->folder, BR_OPTIONS(br_auto_tokenizer, .do_lower_case = off));
    self->limits.tokenizer = t;
    bool option = lower_case == BR_SETTING_ON;
    if (!t || !(option || (s->lower_case && lower_case == BR_SETTING_AUTO)))
        return t;
    if (t->kind == &br__word_pieces) {
        t->lowercase = true;
        br__tokenizer_finish_added(t); /* added tokens are lower-cased, too */
    } else {
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s%s%s: do_lower_case is true, but this is supported only for WordPiece "
                "tokenizers",
                br_printable(s->folder), option ? "" : "/", option ? "" : s->settings_file);
    }
    return !br_failed();
}

static bool load(br_sentence_transformer *self, const char *dir,
                 const br_sentence_transformer_options *o, br_auto_model_report *report)
{
    if (!br__sentence_read(&self->settings, dir, o) || !find_class(self) || !read_sizes(self) ||
        !open_tokenizer(self, o->do_lower_case) ||
        !br__sentence_load_modules(&self->settings, &self->dimension))
        return false;
    const br_auto_model_options *options = BR_OPTIONS(
        br_auto_model, .class_name = self->class->name, .dtype = o->dtype, .adapter = o->adapter);
    self->module = br_auto_model_load(self->settings.folder, options, report);
    return self->module;
}

br_sentence_transformer *br_sentence_transformer_load(
    const char *dir, const br_sentence_transformer_options *options, br_auto_model_report *report)
{
    if (report)
        *report = (br_auto_model_report){ 0 };
    const br_sentence_transformer_options *o = BR_OPTIONS_OF(op, br_sentence_transformer, options);
    if (!br__required(op, "dir", dir) || !check_options(o))
        return NULL;
    br_sentence_transformer *self = BR_NEW(br_sentence_transformer);
    if (self && load(self, dir, o, report))
        return self;
    br_sentence_transformer_free(self);
    return NULL;
}

void br_sentence_transformer_free(br_sentence_transformer *self)
{
    if (!BR_END("sentence_transformer_free", self))
        return;
    br_module_free(self->module);
    br_tokenizer_free(self->tokenizer);
    br__sentence_free(&self->settings);
    BR_FREE(self);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

int64_t br_sentence_transformer_dimension(const br_sentence_transformer *self)
{
    return br__required("sentence_transformer_dimension", "self", self) ? self->dimension : 0;
}

int64_t br_sentence_transformer_max_seq_length(const br_sentence_transformer *self)
{
    if (!br__required("sentence_transformer_max_seq_length", "self", self))
        return 0;
    int64_t own = self->settings.max_length, most = self->limits.max_tokens;
    return own > 0 ? br__min(own, most) : most;
}

const char *br_sentence_transformer_folder(const br_sentence_transformer *self)
{
    return br__required("sentence_transformer_folder", "self", self) ? self->settings.folder : NULL;
}

const br_tokenizer *br_sentence_transformer_tokenizer(const br_sentence_transformer *self)
{
    return br__required("sentence_transformer_tokenizer", "self", self) ? self->tokenizer : NULL;
}

br_module *br_sentence_transformer_module(const br_sentence_transformer *self)
{
    return br__required("sentence_transformer_module", "self", self) ? self->module : NULL;
}

/* ---- Batches of ids -------------------------------------------------------------------------- */

/* Returns the mask f32 [n, length] of the tokens that are pooled: attention_mask without the first
 * `prompt` tokens. */
static br_tensor *pooled_tokens(br_tensor *attention_mask, int64_t prompt)
{
    br_tensor *mask = br_to(br__on_host(op, attention_mask), BR_F32);
    int64_t length = br_size(mask, 1);
    if (br_failed() || prompt == 0)
        return mask;
    br_tensor *after = br_new_ones(mask, BR_SHAPE(length), BR_F32);
    float *values = br_data_f32(after);
    for (int64_t i = 0; values && i < length && i < prompt; i++)
        values[i] = 0;
    return br_mul(mask, after);
}

/* Writes the embedding of a text with n tokens, of which the first `prompt` are not pooled. `space`
 * has room for 2 n numbers. */
static void pool_text(const br_sentence_settings *s, int64_t n, int64_t size, const float *states,
                      int64_t prompt, float *space, float *out)
{
    float *mask = space + n;
    for (int64_t i = 0; i < n; i++)
        mask[i] = i < prompt ? 0 : 1;
    for (int i = 0; i < s->n_modes; i++)
        br__pool_text(s->modes[i], n, size, states, mask, space, out + i * size);
}

/* Returns the pooled embeddings [pack->n, pooled] of the texts of a pack, in the host's memory, for
 * the states [1, tokens, size] of their tokens. */
static br_tensor *pool_pack(const br_sentence_transformer *self, const br_text_pack *pack,
                            br_tensor *states, int64_t prompt)
{
    const int64_t *starts = pack->starts, size = br_failed() ? 0 : br_size(states, 2);
    states = br_contiguous(br_to(br__on_host(op, states), BR_F32));
    br_tensor *rows = br__new_on_host(op, BR_SHAPE(pack->n, self->pooled), BR_F32);
    br_tensor *space = br__new_on_host(op, BR_SHAPE(2, starts[pack->n]), BR_F32);
    if (br_failed())
        return NULL;
    const float *from = br_data_f32(states);
    float *to = br_data_f32(rows), *memory = br_data_f32(space);
    for (int64_t i = 0; i < pack->n; i++, to += self->pooled)
        pool_text(&self->settings, starts[i + 1] - starts[i], size, from + starts[i] * size, prompt,
                  memory, to);
    return rows;
}

/* Returns the embeddings [n, dimension]. The first `prompt` tokens are not pooled. */
static br_tensor *embed(const br_sentence_transformer *self, const br_token_batch *batch,
                        int64_t prompt)
{
    const br_sentence_settings *s = &self->settings;
    const br_device device = br_module_device(self->module);
    br_model_input input = { .batch = { .ids = br_to_device(batch->ids, device),
                                        .attention_mask =
                                            br_to_device(batch->attention_mask, device) } };
    if (batch->type_ids)
        input.batch.type_ids = br_to_device(batch->type_ids, device);
    br_tensor *states = self->class->forward(self->module, &input);
    br_tensor *mask = pooled_tokens(batch->attention_mask, prompt), *parts[BR_MAX_POOLINGS];
    for (int i = 0; i < s->n_modes; i++)
        parts[i] = br__pool(s->modes[i], states, mask);
    return br__sentence_run_modules(s, br_cat(s->n_modes, parts, 1));
}

static bool check_batch(const char *operation, const br_token_batch *batch)
{
    if (!br__required(operation, "batch", batch) ||
        !br__required(operation, "batch->ids", batch->ids) ||
        !br__required(operation, "batch->attention_mask", batch->attention_mask))
        return false;
    const br_tensor *ids = batch->ids, *mask = batch->attention_mask;
    if (br_ndim(ids) != 2 || !br_same_shape(ids, mask))
        br_fail(BR_ERROR_SHAPE, operation,
                "batch->ids %s and batch->attention_mask %s must have the same shape [n, length]",
                br__shape(ids), br__shape(mask));
    return !br_failed();
}

br_tensor *br_sentence_transformer_forward(br_sentence_transformer *self,
                                           const br_token_batch *batch)
{
    const char *operation = "sentence_transformer_forward";
    if (!br__required(operation, "self", self) || !check_batch(operation, batch))
        return NULL;
    br_scope *scope = br_scope_begin();
    br_tensor *rows = br_scope_return(scope, embed(self, batch, 0));
    br_scope_end(scope);
    return rows;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* A call of br_sentence_transformer_encode(). */
typedef struct encoding {
    const br_sentence_transformer *self;
    const br_sentence_encode_options *o;
    const char *prompt;    /* "": none */
    int64_t prompt_tokens; /* number of the first tokens that are not pooled */
    int64_t n, dimension;  /* of the embeddings that are kept */
    br_text *texts;        /* with their lengths */
    int64_t *order;        /* indices of the texts, sorted by length */
    br_tensor *rows;
} encoding;

static bool choose_prompt(encoding *e)
{
    return br__prompts_choose(&e->self->settings.prompts, e->o->prompt, e->o->prompt_name,
                              &e->prompt);
}

/* Sets the number of tokens of the prompt: all except a special token at its end. */
static bool count_prompt(encoding *e)
{
    const br_tokenizer *t = e->self->tokenizer;
    if (!*e->prompt || e->self->settings.include_prompt)
        return true;
    br_encode_options o = *BR_OPTIONS(br_encode, .max_length = e->self->settings.max_length);
    br_encoding *prompt = br_tokenizer_encode(t, &(br_text){ e->prompt, -1 }, NULL, &o);
    int64_t n = prompt ? prompt->length : 0;
    e->prompt_tokens = n > 0 && br__is_special(t, prompt->ids[n - 1]) ? n - 1 : n;
    br_encoding_free(prompt);
    return prompt;
}

/* Encodes the n texts order[0] .. order[n - 1] with the prompt. */
static bool tokenize(const encoding *e, const int64_t *order, int64_t n, br_token_batch *batch)
{
    const br_sentence_settings *s = &e->self->settings;
    br_encode_options o =
        *BR_OPTIONS(br_encode, .max_length = s->max_length, .truncate_left = s->truncate_left);
    br_text *texts = br__chosen_texts(e->texts, order, n);
    char *memory = texts && *e->prompt ? br__add_prompt(e->prompt, n, texts) : NULL;
    bool ok =
        !br_failed() && br_tokenizer_encode_batch(e->self->tokenizer, n, texts, NULL, &o, batch);
    br_free(memory);
    br_free(texts);
    return ok;
}

/* Stores the embeddings of the texts order[0] .. order[n - 1]. */
static bool store_rows(const encoding *e, const int64_t *order, int64_t n, br_tensor *rows)
{
    if (rows && e->dimension < e->self->dimension)
        rows = br_narrow(rows, 1, 0, e->dimension);
    if (rows && e->o->normalize_embeddings)
        rows = br__normalize_rows(rows);
    for (int64_t i = 0; rows && i < n; i++)
        br_copy_(br_select(e->rows, 0, order[i]), br_select(rows, 0, i));
    return !br_failed();
}

/* A batch of an encoding. */
typedef struct encoded_batch {
    const encoding *e;
    const int64_t *order;
} encoded_batch;

/* Embeds the texts of a pack. */
static bool encode_pack(const void *of, const br_text_pack *pack)
{
    const encoded_batch *b = of;
    const br_sentence_transformer *self = b->e->self;
    br_tensor *states = self->class->forward(self->module, &pack->input);
    br_tensor *rows = pool_pack(self, pack, states, b->e->prompt_tokens);
    rows = br__sentence_run_modules(&self->settings, rows);
    return store_rows(b->e, b->order + pack->from, pack->n, rows);
}

/* Embeds the texts order[from] .. order[from + n - 1] into their rows. */
static bool encode_batch(const void *of, int64_t from, int64_t n)
{
    const encoding *e = of;
    const br_sentence_transformer *self = e->self;
    const int64_t *order = e->order + from;
    br_scope *scope = br_scope_begin();
    br_token_batch batch = { 0 };
    const bool ok =
        tokenize(e, order, n, &batch) && br__check_tokens(op, &self->limits, order, &batch);
    if (ok && br__packs(self->settings.config, &batch))
        br__run_packs(op, &batch, br_module_device(self->module), encode_pack,
                      &(encoded_batch){ e, order });
    else if (ok)
        store_rows(e, order, n, embed(self, &batch, e->prompt_tokens));
    br_scope_end(scope);
    return !br_failed();
}

static bool check_truncation(const br_sentence_encode_options *o)
{
    if (o->truncate_dim < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "the option truncate_dim is %" PRId64 ", must be at least 0",
                o->truncate_dim);
    return !br_failed();
}

br_tensor *br_sentence_transformer_encode(br_sentence_transformer *self, int64_t n,
                                          const br_text *texts,
                                          const br_sentence_encode_options *options)
{
    const br_sentence_encode_options *o = BR_OPTIONS_OF(op, br_sentence_encode, options);
    const br_text_batches batches = { op, n, o->batch_size, o->on_batch, o->context };
    if (!br__required(op, "self", self) || !br__check_batches(&batches, texts) ||
        !check_truncation(o))
        return NULL;
    if (br_is_training(self->module))
        br_eval(self->module);
    br_scope *scope = br_no_grad_begin();
    encoding e = { .self = self, .o = o, .n = n, .dimension = self->dimension };
    if (o->truncate_dim > 0)
        e.dimension = br__min(o->truncate_dim, self->dimension);
    e.rows = br__new_on_host(op, BR_SHAPE(n, e.dimension), BR_F32);
    e.texts = e.rows ? br__copy_texts(op, "texts", n, texts) : NULL;
    e.order = e.texts ? br__sort_by_length(n, e.texts, NULL) : NULL;
    bool ok = e.order && choose_prompt(&e) && count_prompt(&e) &&
              br__run_batches(&batches, encode_batch, &e);
    br_tensor *rows = ok ? br_scope_return(scope, e.rows) : NULL;
    br_free(e.texts);
    br_free(e.order);
    br_scope_end(scope);
    return rows;
}
