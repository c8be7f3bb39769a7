/* cli/embedder.c - see embedder.h. */
#include "cli/embedder.h"

#include "cli/cli.h"
#include "cli/pretrained.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- The model ------------------------------------------------------------------------------- */

bool embedder_open(embedder *e, const char *dir, bool cased)
{
    *e = (embedder){ .tokenizer = cli_open_tokenizer(dir, cased) };
    e->bert = pretrained_load("embed", dir, "BertModel", e->tokenizer, NULL);
    return e->bert != NULL;
}

void embedder_close(embedder *e)
{
    br_module_free(e->bert);
    br_tokenizer_free(e->tokenizer);
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

/* Returns [n, hidden_size]. The sum over tokens is not divided by their number, because the result
 * is divided by its norm. */
static br_tensor *pool(br_tensor *last_hidden_state, br_tensor *attention_mask)
{
    br_tensor *mask = br_unsqueeze(br_to(attention_mask, BR_F32), 1);
    br_tensor *sum = br_select(br_matmul(mask, last_hidden_state), 1, 0);
    br_tensor *squares = br_sum_dim(br_mul(sum, sum), BR_DIMS(-1), true);
    return br_div(sum, br_sqrt(br_clamp(squares, 1e-24, INFINITY)));
}

br_tensor *embedder_run(const embedder *e, const br_token_batch *batch)
{
    br_hf_bert_options o = *BR_OPTIONS(br_hf_bert, .attention_mask = batch->attention_mask,
                                       .token_type_ids = batch->type_ids);
    return pool(br_hf_bert_forward(e->bert, batch->ids, &o), batch->attention_mask);
}

static bool check_tokens(const embedder *e, const br_token_batch *batch)
{
    int64_t tokens = br_size(batch->ids, 1), max_tokens = e->bert->config.max_position_embeddings;
    if (!br_failed() && tokens > max_tokens)
        br_raise(BR_ERROR_ARGUMENT,
                 "embed: a text has %" PRId64 " tokens, more than the model's limit of %" PRId64
                 "; --max-length %" PRId64 " truncates it",
                 tokens, max_tokens, max_tokens);
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
