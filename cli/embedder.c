/* cli/embedder.c - see embedder.h. */
#include "cli/embedder.h"

#include "cli/cli.h"
#include "cli/pretrained.h"
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- The model ------------------------------------------------------------------------------- */

/* Opens the tokenizer, and makes it lower-case texts if the folder's files require it. */
static bool open_tokenizer(embedder *e, bool cased)
{
    e->tokenizer = cli_open_tokenizer(e->sentence.folder, cased);
    if (!e->tokenizer || cased || !e->sentence.lower_case)
        return e->tokenizer != NULL;
    e->tokenizer->lowercase = true;
    if (e->tokenizer->kind == &br__word_pieces)
        br__tokenizer_finish_added(e->tokenizer); /* added tokens are lower-cased, too */
    else
        br_raise(BR_ERROR_ARGUMENT,
                 "embed: %s/%s: do_lower_case is true, but this is supported only for WordPiece "
                 "tokenizers",
                 br_printable(e->sentence.folder), e->sentence.settings_file);
    return !br_failed();
}

/* Sets the number of tokens of the prompt: all except a special token at its end. */
static bool count_prompt(embedder *e)
{
    if (!e->sentence.prompt || e->sentence.include_prompt)
        return true;
    br_encode_options o = *BR_OPTIONS(br_encode, .max_length = e->sentence.max_length);
    br_encoding *prompt =
        br_tokenizer_encode(e->tokenizer, &(br_text){ e->sentence.prompt, -1 }, NULL, &o);
    int64_t n = prompt ? prompt->length : 0;
    e->prompt_tokens = n > 0 && br__is_special(e->tokenizer, prompt->ids[n - 1]) ? n - 1 : n;
    br_encoding_free(prompt);
    return !br_failed();
}

bool embedder_open(embedder *e, const char *dir, const sentence_options *options)
{
    *e = (embedder){ 0 };
    if (!sentence_read(&e->sentence, dir, options) || !open_tokenizer(e, options->cased) ||
        !count_prompt(e))
        return false;
    e->bert = pretrained_load(e->sentence.folder, "BertModel", e->tokenizer, NULL);
    return e->bert != NULL;
}

void embedder_close(embedder *e)
{
    br_module_free(e->bert);
    br_tokenizer_free(e->tokenizer);
    sentence_free(&e->sentence);
}

int64_t embedder_size(const embedder *e)
{
    return e->sentence.n_modes * e->bert->config.hidden_size;
}

/* ---- Pooling --------------------------------------------------------------------------------- */

/* Writes the weight of each token of a text in the pooled sum. `mask` is 0 for tokens that are not
 * pooled. */
static void set_weights(sentence_pooling mode, int64_t n, const float *mask, float *weights)
{
    int64_t first = -1, last = -1, count = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        weights[i] = 0;
        if (mask[i] == 0)
            continue;
        first = first < 0 ? i : first;
        last = i;
        count++;
        sum += i + 1;
    }
    if (mode == SENTENCE_CLS)
        weights[first < 0 ? 0 : first] = 1;
    else if (mode == SENTENCE_LASTTOKEN && last >= 0)
        weights[last] = 1;
    if (mode == SENTENCE_CLS || mode == SENTENCE_LASTTOKEN)
        return;
    for (int64_t i = 0; i <= last; i++)
        if (mask[i] != 0)
            weights[i] = (float)(mode == SENTENCE_MEAN            ? 1 / (double)count
                                 : mode == SENTENCE_MEAN_SQRT_LEN ? 1 / sqrt((double)count)
                                                                  : (double)(i + 1) / (double)sum);
}

/* Returns [n, hidden_size] for states [n, length, hidden_size] and a mask f32 [n, length]. */
static br_tensor *pool(sentence_pooling mode, br_tensor *states, br_tensor *mask)
{
    if (mode == SENTENCE_MAX) {
        br_tensor *hidden = br_unsqueeze(br_eq_scalar(mask, 0), 2);
        return br_max_dim(br_masked_fill(states, hidden, -INFINITY), 1, false, NULL);
    }
    br_tensor *weights = br_zeros_like(mask);
    const float *from = br_data_f32(mask);
    float *to = br_data_f32(weights);
    int64_t n = from ? br_size(mask, 0) : 0, length = from ? br_size(mask, 1) : 0;
    for (int64_t i = 0; to && i < n; i++)
        set_weights(mode, length, from + i * length, to + i * length);
    return br_select(br_matmul(br_unsqueeze(weights, 1), states), 1, 0);
}

/* Returns the mask f32 [n, length] of the tokens that are pooled. */
static br_tensor *pooled_tokens(const embedder *e, br_tensor *attention_mask)
{
    br_tensor *mask = br_to(attention_mask, BR_F32);
    int64_t length = br_size(mask, 1), prompt = e->prompt_tokens;
    if (br_failed() || prompt == 0)
        return mask;
    br_tensor *after = br_ones(BR_SHAPE(length), BR_F32);
    float *values = br_data_f32(after);
    for (int64_t i = 0; values && i < length && i < prompt; i++)
        values[i] = 0;
    return br_mul(mask, after);
}

br_tensor *embedder_normalize(br_tensor *x)
{
    br_tensor *squares = br_sum_dim(br_mul(x, x), BR_DIMS(-1), true);
    return br_div(x, br_sqrt(br_clamp(squares, 1e-24, INFINITY)));
}

br_tensor *embedder_run(const embedder *e, const br_token_batch *batch)
{
    br_hf_bert_options o = *BR_OPTIONS(br_hf_bert, .attention_mask = batch->attention_mask,
                                       .token_type_ids = batch->type_ids);
    br_tensor *states = br_hf_bert_forward(e->bert, batch->ids, &o);
    br_tensor *mask = pooled_tokens(e, batch->attention_mask), *parts[SENTENCE_MAX_MODES];
    for (int i = 0; i < e->sentence.n_modes; i++)
        parts[i] = pool(e->sentence.modes[i], states, mask);
    br_tensor *all = br_cat(e->sentence.n_modes, parts, 1);
    return e->sentence.normalize ? embedder_normalize(all) : all;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static bool check_tokens(const embedder *e, const br_token_batch *batch)
{
    if (!pretrained_check_ids("embed", e->tokenizer, batch->ids, e->bert->config.vocab_size))
        return false;
    int64_t tokens = br_size(batch->ids, 1), max_tokens = e->bert->config.max_position_embeddings;
    if (!br_failed() && tokens > max_tokens)
        br_raise(BR_ERROR_ARGUMENT,
                 "embed: a text has %" PRId64 " tokens, more than the model's limit of %" PRId64
                 "; --max-length %" PRId64 " truncates it",
                 tokens, max_tokens, max_tokens);
    return !br_failed();
}

/* Returns n texts that begin with the prompt. The caller frees the array and (*memory). */
static br_text *add_prompt(const char *prompt, int64_t n, const br_text *texts, char **memory)
{
    size_t length = strlen(prompt), total = 1;
    for (int64_t i = 0; i < n; i++)
        total += length + (size_t)texts[i].length;
    br_text *result = malloc((size_t)n * sizeof *result);
    char *end = *memory = malloc(total);
    if (!result || !end)
        br_raise(BR_ERROR_MEMORY, "embed: cannot allocate memory for the texts");
    for (int64_t i = 0; i < n && !br_failed(); i++) {
        result[i] = (br_text){ end, (int64_t)length + texts[i].length };
        end = mempcpy(mempcpy(end, prompt, length), texts[i].data, (size_t)texts[i].length);
    }
    return result;
}

br_tensor *embedder_embed(const embedder *e, int64_t n, const br_text *texts)
{
    br_token_batch b = { 0 };
    br_encode_options o = *BR_OPTIONS(br_encode, .max_length = e->sentence.max_length,
                                      .truncate_left = e->sentence.truncate_left);
    char *memory = NULL;
    br_text *prompted =
        e->sentence.prompt ? add_prompt(e->sentence.prompt, n, texts, &memory) : NULL;
    bool ok = !br_failed() &&
              br_tokenizer_encode_batch(e->tokenizer, n, prompted ? prompted : texts, NULL, &o, &b);
    free(prompted);
    free(memory);
    return ok && check_tokens(e, &b) ? embedder_run(e, &b) : NULL;
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
