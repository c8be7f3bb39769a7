/* cli/embedder.c - see embedder.h. */
#include "cli/embedder.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- The model ------------------------------------------------------------------------------- */

/* A tokenizer of another model would give ids that this one has no embedding for, or the wrong
 * ones; a model may have more embeddings than there are tokens. */
static bool check_tokenizer(const embedder *e, const char *dir)
{
    int64_t tokens = br_tokenizer_size(e->tokenizer), rows = e->bert->config.vocab_size;
    if (tokens > rows)
        br_raise(BR_ERROR_FORMAT,
                 "embed: %s: the tokenizer has %" PRId64 " tokens, more than the %" PRId64
                 " of config.json's vocab_size",
                 dir, tokens, rows);
    return tokens <= rows;
}

bool embedder_open(embedder *e, const char *dir, bool cased)
{
    br_auto_model_options options = { .class_name = "BertModel" };
    *e = (embedder){ .tokenizer = cli_open_tokenizer(dir, cased) };
    if (e->tokenizer)
        e->bert = br_auto_model_load(dir, &options, NULL);
    return e->bert && check_tokenizer(e, dir);
}

void embedder_close(embedder *e)
{
    br_free_module(e->bert);
    br_tokenizer_free(e->tokenizer);
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

/* [n, hidden_size]. The division by the number of tokens is left to that by the length. */
static br_tensor *pool(br_tensor *last_hidden_state, br_tensor *attention_mask)
{
    br_tensor *mask = br_unsqueeze(br_to(attention_mask, BR_F32), 1);
    br_tensor *sum = br_select(br_matmul(mask, last_hidden_state), 1, 0);
    br_tensor *squares = br_sum_dim(br_mul(sum, sum), BR_DIMS(-1), true);
    return br_div(sum, br_sqrt(br_clamp(squares, 1e-24, INFINITY)));
}

br_tensor *embedder_run(const embedder *e, const br_token_batch *batch)
{
    br_hf_bert_options o = { .attention_mask = batch->attention_mask,
                             .token_type_ids = batch->type_ids };
    return pool(br_hf_bert_forward(e->bert, batch->ids, &o), batch->attention_mask);
}

static bool check_tokens(const embedder *e, const br_token_batch *batch)
{
    int64_t tokens = br_size(batch->ids, 1), most = e->bert->config.max_position_embeddings;
    if (!br_failed() && tokens > most)
        br_raise(BR_ERROR_ARGUMENT,
                 "embed: a text has %" PRId64 " tokens, more than the model's %" PRId64
                 "; --max-length %" PRId64 " cuts it",
                 tokens, most, most);
    return !br_failed();
}

br_tensor *embedder_embed(const embedder *e, int64_t n, const br_text *texts,
                          const br_encode_options *options)
{
    br_token_batch b = { 0 };
    return br_tokenizer_encode_batch(e->tokenizer, n, texts, NULL, options, &b) &&
                   check_tokens(e, &b)
               ? embedder_run(e, &b)
               : NULL;
}

static int by_length(const void *a, const void *b, void *texts)
{
    int64_t i = *(const int64_t *)a, k = *(const int64_t *)b;
    int64_t x = ((const br_text *)texts)[i].length, y = ((const br_text *)texts)[k].length;
    return x != y ? (x > y) - (x < y) : (i > k) - (i < k);
}

void embedder_sort(int64_t n, const br_text *texts, int64_t *order)
{
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, (size_t)n, sizeof *order, by_length, (void *)texts);
}
