/* tests/notebooks/bert.h - values that cells of notebook 003 pass to later cells: text, batches, a
 * trained model. */
#ifndef BR_TESTS_NOTEBOOKS_BERT_H
#define BR_TESTS_NOTEBOOKS_BERT_H

#include "tests/notebooks/bert_text.h"
#include "tests/notebooks/cells.h"

enum { PAD, CLS, SEP, MASK, FIRST_WORD };
enum { BATCH_SIZE = 6, MAXLEN = 100, SMALL_MAXLEN = 32, MAX_PRED = 7, VOCAB_SIZE = 70 };

/* ---- Text and sizes -------------------------------------------------------------------------- */

/* Returns the contents of the text file, which are valid until the next call. */
static inline const char *read_text(void)
{
    static char text[4096];
    FILE *file = fopen(BRASA_TEST_DIR "/../data/frases.txt", "rb");
    cr_assert_not_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = 0;
    return text;
}

static inline br_bert_corpus *notebook_corpus(void)
{
    const char *text = read_text();
    br_bert_corpus *corpus = br_bert_corpus_new_with_words(text, strlen(text), N_WORDS, word_list);
    cr_assert_not_null(corpus, "%s", br_error_message());
    return corpus;
}

/* Returns the configuration of the variant as written, with the notebook's sizes. */
static inline br_bert_config notebook_config(void)
{
    br_bert_config config = br_bert_notebook_config();
    config.as_written = true;
    return config;
}

/* Returns the configuration of a model that is small enough to test its parts and to train it. */
static inline br_bert_config small_config(bool as_written)
{
    br_bert_config config = br_bert_notebook_config();
    config.as_written = as_written;
    config.d_model = 48;
    config.n_layers = 2;
    config.n_heads = 4;
    config.d_ff = 96;
    config.d_k = config.d_v = 12;
    config.maxlen = SMALL_MAXLEN;
    return config;
}

/* Returns the result of make_batch() after random.seed(seed), padded to maxlen. */
static inline br_bert_batch make_batch_of(uint64_t seed, int64_t maxlen)
{
    br_bert_config config = br_bert_notebook_config();
    config.maxlen = maxlen;
    br_bert_corpus *corpus = notebook_corpus();
    br_python_random *random = br_python_random_new(seed);
    br_bert_batch batch;
    cr_assert(br_bert_make_batch(corpus, &config, BATCH_SIZE, random, &batch), "%s",
              br_error_message());
    br_python_random_free(random);
    br_bert_corpus_free(corpus);
    return batch;
}

static inline br_bert_batch make_batch(uint64_t seed)
{
    return make_batch_of(seed, MAXLEN);
}

static inline br_tensor *row_of(br_tensor *t, int64_t i)
{
    return br_narrow(t, 0, i, 1);
}

/* Returns a batch that consists of the first pair. */
static inline br_bert_batch first_pair(const br_bert_batch *b)
{
    return (br_bert_batch){ row_of(b->input_ids, 0), row_of(b->segment_ids, 0),
                            row_of(b->masked_tokens, 0), row_of(b->masked_pos, 0),
                            row_of(b->is_next, 0) };
}

static inline int64_t length_of(const int64_t *tokens)
{
    int64_t n = 0;
    while (tokens[n] != PAD)
        n++;
    return n;
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* Returns the index of the sentence whose tokens, followed by [SEP], begin at ids; -1 if there is
 * none. */
static inline int64_t find_sentence(const int64_t *ids)
{
    for (int64_t i = 0; i < N_SENTENCES; i++) {
        int64_t n = length_of(token_list[i]);
        if (memcmp(ids, token_list[i], (size_t)n * sizeof *ids) == 0 && ids[n] == SEP)
            return i;
    }
    return -1;
}

/* Restores the masked words of one row in ids; returns their number. */
static inline int64_t unmask(const br_bert_batch *b, int64_t row, int64_t *ids)
{
    const int64_t *pos = br_data_i64(b->masked_pos) + row * MAX_PRED,
                  *tokens = br_data_i64(b->masked_tokens) + row * MAX_PRED;
    int64_t n = 0;
    for (; n < MAX_PRED && pos[n] != 0; n++)
        ids[pos[n]] = tokens[n];
    for (int64_t i = n; i < MAX_PRED; i++)
        cr_assert(pos[i] == 0 && tokens[i] == 0, "slots that are not used are padded with 0");
    return n;
}

/* Checks that a row is [CLS] a [SEP] b [SEP] and padding; b and its [SEP] must have segment 1. */
static inline void check_pair(const br_bert_batch *batch, int64_t row)
{
    int64_t ids[MAXLEN];
    memcpy(ids, br_data_i64(batch->input_ids) + row * MAXLEN, sizeof ids);
    int64_t n_pred = unmask(batch, row, ids);
    int64_t a = find_sentence(ids + 1);
    cr_assert(ids[0] == CLS && a >= 0);
    int64_t begin = 1 + length_of(token_list[a]) + 1, b = find_sentence(ids + begin);
    cr_assert_geq(b, 0);
    int64_t end = begin + length_of(token_list[b]) + 1;
    cr_assert_eq(n_pred, (int64_t)nearbyint((double)end * 0.15));
    const int64_t *segments = br_data_i64(batch->segment_ids) + row * MAXLEN;
    for (int64_t i = 0; i < MAXLEN; i++) {
        cr_assert_eq(segments[i], i >= begin && i < end);
        cr_assert(i < end || ids[i] == PAD);
    }
    cr_assert_eq(br_data_i64(batch->is_next)[row], a + 1 == b);
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Trains for one epoch; returns the loss before the update. */
static inline double train_epoch(br_bert *model, br_optim *optimizer, const br_bert_batch *b)
{
    br_scope *scope = br_scope_begin();
    br_tensor *logits_clsf, *loss_lm, *loss_clsf;
    br_optim_zero_grad(optimizer);
    br_tensor *logits_lm =
        br_bert_forward(model, b->input_ids, b->segment_ids, b->masked_pos, &logits_clsf);
    br_tensor *loss =
        br_bert_loss(logits_lm, logits_clsf, b->masked_tokens, b->is_next, &loss_lm, &loss_clsf);
    cr_assert_eq(br_item(loss), br_item(br_add(loss_lm, loss_clsf)), "%s", br_error_message());
    br_backward(loss);
    br_optim_step(optimizer);
    double value = br_item(loss);
    br_scope_end(scope);
    return value;
}

/* Returns a small model that was trained on the batch. *first and *last are the means of the first
 * five and of the last five losses. */
static inline br_bert *train(bool as_written, int epochs, const br_bert_batch *batch, double *first,
                             double *last)
{
    br_bert_config config = small_config(as_written);
    br_set_num_threads(1); /* with so little work, more threads would wait for each other */
    br_manual_seed(1);
    br_bert *model = br_bert_new(&config);
    br_optim *optimizer = br_adam(br_base(model), BR_OPTIONS(br_adam, .lr = 0.001));
    *first = *last = 0;
    for (int epoch = 0; epoch < epochs; epoch++) {
        double loss = train_epoch(model, optimizer, batch);
        *first += epoch < 5 ? loss / 5 : 0;
        *last += epoch >= epochs - 5 ? loss / 5 : 0;
    }
    br_optim_free(optimizer);
    return model;
}

#endif
