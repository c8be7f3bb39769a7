/* cli/attention_model.c - runs a pretrained model and records its attention. */
#include "cli/attention.h"
#include "cli/cli.h"
#include "cli/pretrained.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NEW_TOKENS = 64 }; /* maximum number of tokens that a T5 generates */

/* The model and its inputs. */
typedef struct subject {
    const char *dir;
    br_tokenizer *tokenizer;
    void *model;
    br_token_batch batch;
    br_tensor *decoder_ids; /* NULL unless the model is an encoder-decoder */
} subject;

/* ---- Models ---------------------------------------------------------------------------------- */

static bool check_ids(const subject *s, const br_tensor *ids)
{
    return ids && pretrained_check_ids("attention", s->tokenizer, ids, pretrained_rows(s->dir));
}

/* Encodes one text, or two texts as a pair. */
static bool read_texts(subject *s, int n, char **texts)
{
    br_text text = { texts[0], -1 }, pair = { n > 1 ? texts[1] : "", -1 };
    return br_tokenizer_encode_batch(s->tokenizer, 1, &text, n > 1 ? &pair : NULL, NULL,
                                     &s->batch) &&
           check_ids(s, s->batch.ids);
}

/* Returns the decoder's input: the start token and the greedy output without its last token. */
static br_tensor *write_likeliest(const subject *s)
{
    br_t5 *model = s->model;
    br_t5_source source = { model, br_t5_encode(model, s->batch.ids, NULL), NULL };
    br_language_model lm = br_t5_language_model(&source);
    br_generate_options o = *BR_OPTIONS(br_generate, .max_new_tokens = MAX_NEW_TOKENS);
    br_tensor *ids =
        pretrained_ends(s->dir, &o) ? br_generate(&lm, br_t5_start(model, 1), &o) : NULL;
    free((int64_t *)o.eos_token_ids);
    return br_narrow(ids, 1, 0, br_size(ids, 1) - 1);
}

/* The first text is the encoder's input, the second the decoder's output. */
static bool read_source(subject *s, int n, char **texts)
{
    if (!read_texts(s, 1, texts))
        return false;
    br_tensor *ids = n > 1 ? cli_encode(s->tokenizer, texts[1]) : NULL;
    if (n > 1 && !check_ids(s, ids))
        return false;
    s->decoder_ids = n > 1 ? br_t5_shift_right(s->model, ids) : write_likeliest(s);
    return !br_failed();
}

static void run_bert(const subject *s)
{
    br_hf_bert_forward(s->model, s->batch.ids,
                       BR_OPTIONS(br_hf_bert, .token_type_ids = s->batch.type_ids));
}

static void run_gpt2(const subject *s)
{
    br_gpt2_forward(s->model, s->batch.ids, NULL);
}

static void run_t5(const subject *s)
{
    br_t5_decode(s->model, s->decoder_ids, br_t5_encode(s->model, s->batch.ids, NULL), NULL);
}

static const struct family {
    model_family base;
    bool (*read)(subject *s, int n, char **texts);
    void (*run)(const subject *s);
    bool byte_level; /* tokens represent bytes and are decoded before they are shown */
} families[] = {
    { { "bert", "BertModel" }, read_texts, run_bert, false },
    { { "gpt2", "GPT2Model" }, read_texts, run_gpt2, true },
    { { "t5", "T5ForConditionalGeneration" }, read_source, run_t5, false },
};
enum { N_FAMILIES = sizeof families / sizeof *families };

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
static br_attention *attention_of(const subject *s, bool byte_level)
{
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

br_attention *attention_of_model(const char *dir, bool cased, int n, char **texts)
{
    const struct family *f =
        pretrained_family(dir, families, N_FAMILIES, sizeof *families, "attention");
    subject s = { .dir = dir, .tokenizer = f ? cli_open_tokenizer(dir, cased) : NULL };
    if (s.tokenizer)
        s.model = pretrained_load(dir, f->base.class_name, s.tokenizer, NULL);
    br_attention *attention =
        s.model && f->read(&s, n, texts) ? attention_of(&s, f->byte_level) : NULL;
    br_recorder *recorder = attention ? br_recorder_begin() : NULL;
    if (recorder) {
        f->run(&s);
        br_attention_add_recorded(attention, recorder);
    }
    br_recorder_end(recorder);
    br_module_free(s.model);
    br_tokenizer_free(s.tokenizer);
    return attention;
}
