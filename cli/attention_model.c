/* cli/attention_model.c - runs a pretrained model on texts and records its attention. */
#include "cli/attention.h"
#include "cli/cli.h"
#include "cli/pretrained.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NEW_TOKENS = 64 }; /* maximum number of tokens that a decoder generates */

/* The model and its inputs. */
typedef struct subject {
    const char *dir;
    br_tokenizer *tokenizer;
    const br_model_class *class;
    br_module *model;
    br_token_batch batch;
    br_tensor *decoder_ids; /* NULL unless the model is an encoder-decoder */
} subject;

/* ---- Models ---------------------------------------------------------------------------------- */

static bool check_ids(const subject *s, const br_tensor *ids)
{
    if (ids && br_numel(ids) == 0) {
        br_raise(BR_ERROR_ARGUMENT,
                 "attention: the text has no tokens; give one that is not empty");
        return false;
    }
    return ids && pretrained_check_ids("attention", s->tokenizer, ids, pretrained_rows(s->dir));
}

/* Encodes a text, or two texts as a pair. */
static bool read_texts(subject *s, const br_text *text, const br_text *second)
{
    return br_tokenizer_encode_batch(s->tokenizer, 1, text, second, NULL, &s->batch) &&
           check_ids(s, s->batch.ids);
}

/* Returns the decoder's input: the start token and the greedy output without its last token. */
static br_tensor *write_likeliest(const subject *s)
{
    const br_encoder_decoder *parts = s->class->encoder_decoder;
    br_model_source source = {
        .model = s->model,
        .memory = parts->encode(s->model, &(br_token_batch){ .ids = s->batch.ids }),
    };
    br_language_model lm = s->class->language_model(&source);
    br_generate_options o = *BR_OPTIONS(br_generate, .max_new_tokens = MAX_NEW_TOKENS);
    br_tensor *ids =
        pretrained_ends(s->dir, &o) ? br_generate(&lm, parts->start(s->model, 1), &o) : NULL;
    free((int64_t *)o.eos_token_ids);
    return br_narrow(ids, 1, 0, br_size(ids, 1) - 1);
}

/* The first text is the encoder's input, the second the decoder's output. */
static bool read_source(subject *s, const br_text *text, const br_text *second)
{
    if (!read_texts(s, text, NULL))
        return false;
    br_token_batch output = { 0 };
    if (second && (!br_tokenizer_encode_batch(s->tokenizer, 1, second, NULL, NULL, &output) ||
                   !check_ids(s, output.ids)))
        return false;
    s->decoder_ids =
        second ? s->class->encoder_decoder->shift_right(s->model, output.ids) : write_likeliest(s);
    return !br_failed();
}

/* Runs the model without a mask: one text has no padding. */
static br_tensor *run(const subject *s)
{
    br_model_input input = { .batch = s->batch, .decoder_ids = s->decoder_ids };
    input.batch.attention_mask = NULL;
    return s->class->forward(s->model, &input);
}

/* An encoder-decoder writes its output itself if there is only one text. */
static bool can_show(const br_model_class *class)
{
    return class->shows_attention && class->forward &&
           (!class->encoder_decoder || class->language_model);
}

/* Returns the class of the folder's own architecture if it can show attention, or else `base`. */
static const br_model_class *own_class(const char *dir, const br_model_class *base)
{
    br_auto_config *config = br_auto_config_load(dir);
    const char *type = config ? br_auto_config_model_type(config) : NULL;
    const br_model_family *family = type ? br_model_family_find(type) : NULL;
    bool named = family && br_auto_config_has(config, "architectures") &&
                 br_auto_config_list_size(config, "architectures") > 0;
    const char *name = named ? br_auto_config_list_string(config, "architectures", 0) : NULL;
    for (const br_model_class *c = name ? family->classes : NULL; c && c->name; c++)
        if (strcmp(c->name, name) == 0 && can_show(c))
            base = c;
    br_auto_config_free(config);
    return base;
}

/* ---- The gradient ---------------------------------------------------------------------------- */

/* Returns the position of the token whose logits are the model's answer: the first [MASK] of a
 * masked language model, or the first token; the last of a decoder. */
static int64_t answering_token(const subject *s, int64_t n)
{
    if (s->class->task != BR_TASK_MASKED_LM)
        return n - 1;
    int64_t mask = br_tokenizer_special_id(s->tokenizer, BR_TOKEN_MASK);
    const int64_t *ids = br_data_i64(s->batch.ids);
    for (int64_t i = 0; ids && i < n; i++)
        if (ids[i] == mask)
            return i;
    return 0;
}

/* Returns the number whose gradient is shown: the largest logit of the model's answer. A model
 * without logits has half the squared length of the mean of its last hidden states. */
static br_tensor *answer_of(const subject *s, br_tensor *result)
{
    switch (s->class->task) {
    case BR_TASK_MASKED_LM:
    case BR_TASK_CAUSAL_LM:
    case BR_TASK_SEQ2SEQ_LM:
        return br_max(br_select(result, 1, answering_token(s, br_size(result, 1))));
    case BR_TASK_BASE: {
        br_tensor *mean = br_mean_dim(result, 1, (int64_t[]){ 1 }, false);
        return br_mul_scalar(br_sum(br_mul(mean, mean)), 0.5);
    }
    default:
        return br_max(result);
    }
}

/* Runs the model with gradients on, and adds its attention and the gradient. */
static void add_with_gradient(const subject *s, br_attention *attention)
{
    br_scope *scope = br_enable_grad_begin();
    br_recorder *recorder = br_recorder_begin();
    br_tensor *answer = answer_of(s, run(s));
    br_attention_add_recorded(attention, recorder);
    br_attention_add_gradient(attention, recorder, answer);
    br_recorder_end(recorder);
    br_scope_end(scope);
}

static void add_attention(const subject *s, br_attention *attention)
{
    br_recorder *recorder = br_recorder_begin();
    run(s);
    br_attention_add_recorded(attention, recorder);
    br_recorder_end(recorder);
}

/* Returns true if tokens represent bytes, which are decoded before they are shown. */
static bool has_bytes(const br_tokenizer *tokenizer)
{
    return strcmp(br_tokenizer_model(tokenizer), "BPE") == 0;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

typedef struct tokens {
    int64_t n;
    const char **items;
    char **decoded; /* the items that were decoded, to br_free(); NULL for the others */
} tokens;

/* Returns the text to show for a token. A token that is only part of a character, or has a U+0000,
 * is not decoded. */
static const char *token_of(const br_tokenizer *tokenizer, int64_t id, bool as_text, char **decoded)
{
    int64_t length = 0;
    char *text = as_text ? br_tokenizer_decode_text(tokenizer, 1, &id, false, &length) : NULL;
    if (text && (int64_t)strlen(text) == length && !strstr(text, "\xef\xbf\xbd"))
        return *decoded = text;
    br_free(text);
    return br_tokenizer_token(tokenizer, id);
}

static void free_tokens(tokens *t)
{
    for (int64_t i = 0; t->decoded && i < t->n; i++)
        br_free(t->decoded[i]);
    free(t->decoded);
    free(t->items);
}

static bool read_tokens(tokens *t, const br_tokenizer *tokenizer, br_tensor *ids, bool as_text)
{
    t->n = br_numel(ids);
    t->items = calloc((size_t)t->n, sizeof *t->items);
    t->decoded = calloc((size_t)t->n, sizeof *t->decoded);
    const int64_t *id = br_data_i64(ids);
    if (!t->items || !t->decoded)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the tokens");
    for (int64_t i = 0; !br_failed() && i < t->n; i++)
        t->items[i] = token_of(tokenizer, id[i], as_text, &t->decoded[i]);
    return !br_failed();
}

/* Creates the attention with its tokens and, for a pair, the position of the second text. */
static br_attention *attention_of(const subject *s)
{
    bool byte_level = has_bytes(s->tokenizer);
    tokens t = { 0 }, decoder = { 0 };
    br_attention *attention = NULL;
    if (read_tokens(&t, s->tokenizer, s->batch.ids, byte_level) &&
        (!s->decoder_ids || read_tokens(&decoder, s->tokenizer, s->decoder_ids, byte_level))) {
        int64_t first = t.n - br_item_i64(br_sum(s->batch.type_ids));
        attention =
            br_attention_new(&(br_attention_text){ .n_tokens = t.n,
                                                   .tokens = t.items,
                                                   .n_decoder_tokens = decoder.n,
                                                   .decoder_tokens = decoder.items,
                                                   .sentence_b_start = first < t.n ? first : 0 });
    }
    free_tokens(&t);
    free_tokens(&decoder);
    return attention;
}

/* ---- Several texts --------------------------------------------------------------------------- */

/* Runs the model on one text, or on a pair. */
static br_attention *attend(subject *s, bool gradient, const br_text *text, const br_text *second)
{
    br_scope *scope = br_no_grad_begin();
    s->batch = (br_token_batch){ 0 };
    s->decoder_ids = NULL;
    bool ok = (s->class->encoder_decoder ? read_source : read_texts)(s, text, second);
    br_attention *attention = ok ? attention_of(s) : NULL;
    if (attention)
        (gradient ? add_with_gradient : add_attention)(s, attention);
    br_scope_end(scope);
    return attention;
}

bool attention_add_model(attention_set *set, const char *dir, bool cased, bool gradient,
                         const cli_texts *t)
{
    subject s = { .dir = dir, .class = pretrained_class(dir, can_show, "attention") };
    if (s.class && gradient)
        s.class = own_class(dir, s.class);
    s.tokenizer = s.class ? cli_open_tokenizer(dir, cased) : NULL;
    if (s.tokenizer)
        s.model = pretrained_load(dir, s.class->name, s.tokenizer, NULL);
    for (int64_t i = 0; s.model && i < t->n && !br_failed(); i++) {
        bool pair = t->pairs && t->pairs[i].data;
        br_attention *attention = attend(&s, gradient, &t->items[i], pair ? &t->pairs[i] : NULL);
        if (attention)
            set->items[set->n++] = attention;
    }
    br_module_free(s.model);
    br_tokenizer_free(s.tokenizer);
    return !br_failed();
}

void attention_set_free(attention_set *set)
{
    for (int i = 0; i < set->n; i++)
        br_attention_free(set->items[i]);
}

/* Splits the lines that have a tab. */
static bool split_tabs(cli_texts *t)
{
    t->pairs = calloc((size_t)t->n, sizeof *t->pairs);
    if (!t->pairs) {
        br_raise(BR_ERROR_MEMORY, "attention: cannot allocate memory for the texts");
        return false;
    }
    for (int64_t i = 0; i < t->n; i++) {
        br_text *line = &t->items[i];
        const char *tab = memchr(line->data, '\t', (size_t)line->length);
        if (!tab)
            continue;
        t->pairs[i] = (br_text){ tab + 1, line->data + line->length - (tab + 1) };
        line->length = tab - line->data;
    }
    return true;
}

bool attention_read_texts(cli_texts *t, const char *file, int n, char **arguments)
{
    if (!cli_texts_read(t, file, n, arguments, !file && n == 2))
        return false;
    if (!file)
        return true;
    if (t->n < 1 || t->n > ATTENTION_MOST / 2) {
        br_raise(BR_ERROR_ARGUMENT, "attention: %s has %lld texts, must have 1 .. %d", file,
                 (long long)t->n, ATTENTION_MOST / 2);
        return false;
    }
    return split_tabs(t);
}
