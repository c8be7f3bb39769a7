/* models/bert_data.c - the notebook's text and batches.
 *
 * Random choices use the same calls of Python's random in the same order as the notebook, so the
 * same seed gives the same batch. */

#include <brasa/models/bert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { PAD, CLS, SEP, MASK, N_SPECIAL };
static const char *const special_words[N_SPECIAL] = { "[PAD]", "[CLS]", "[SEP]", "[MASK]" };

/* ---- Cleaning -------------------------------------------------------------------------------- */

/* Returns re.sub("[.,!?\\-]", "", text.lower()), or NULL on error. */
static char *clean(const char *text, size_t length)
{
    /* A capital of 2 bytes has a lower case of at most 3 bytes. */
    char *out = length < SIZE_MAX / 2 ? br_malloc(length / 2 * 3 + 2) : NULL;
    size_t n = 0;
    for (size_t i = 0; out && i < length;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                                  (utf8proc_ssize_t)(length - i), &c);
        if (bytes < 1 || c == 0) {
            br_free(out);
            return br_fail(BR_ERROR_FORMAT, "bert_corpus", "byte %zu of the text is %s", i,
                           bytes < 1 ? "not UTF-8" : "NUL");
        }
        if (c >= 128 || !strchr(".,!?-", (int)c))
            n += (size_t)utf8proc_encode_char(utf8proc_tolower(c), (utf8proc_uint8_t *)out + n);
        i += (size_t)bytes;
    }
    if (out)
        out[n] = 0;
    return out;
}

/* Returns true for the white space at which Python's str.split() splits. */
static bool is_space(utf8proc_int32_t c)
{
    const utf8proc_property_t *p = utf8proc_get_property(c);
    return p->category == UTF8PROC_CATEGORY_ZS || p->bidi_class == UTF8PROC_BIDI_CLASS_WS ||
           p->bidi_class == UTF8PROC_BIDI_CLASS_B || p->bidi_class == UTF8PROC_BIDI_CLASS_S;
}

typedef struct word {
    const char *text;
    size_t length;
} word;

/* Reads the next word at *cursor and advances *cursor past it. Returns false at the end. */
static bool next_word(const char **cursor, word *w)
{
    const char *p = *cursor;
    *w = (word){ 0 };
    while (*p) {
        utf8proc_int32_t c;
        utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)p, -1, &c);
        if (!is_space(c)) {
            if (!w->text)
                w->text = p;
            w->length += (size_t)bytes;
        } else if (w->text) {
            break;
        }
        p += bytes;
    }
    *cursor = p;
    return w->text != NULL;
}

static int64_t count_words(const char *sentence)
{
    int64_t n = 0;
    word w;
    while (next_word(&sentence, &w))
        n++;
    return n;
}

/* ---- Corpus ---------------------------------------------------------------------------------- */

/* Splits the text into lines. Lines without a word are not sentences. */
static bool split_sentences(br_bert_corpus *corpus, char *text)
{
    size_t lines = 1;
    for (const char *p = text; *p; p++)
        lines += *p == '\n';
    corpus->sentences = br_calloc(lines, sizeof *corpus->sentences);
    corpus->lengths = br_calloc(lines, sizeof *corpus->lengths);
    corpus->tokens = br_calloc(lines, sizeof *corpus->tokens);
    if (!corpus->sentences || !corpus->lengths || !corpus->tokens)
        return false;
    for (char *line = text, *rest = text; rest; line = rest) {
        rest = strchr(line, '\n');
        if (rest)
            *rest++ = 0;
        int64_t words = count_words(line);
        if (words == 0)
            continue;
        char *sentence = br_strdup(line);
        if (!sentence)
            return false;
        corpus->lengths[corpus->n_sentences] = words;
        corpus->sentences[corpus->n_sentences++] = sentence;
    }
    return true;
}

static int by_bytes(const void *a, const void *b)
{
    const word *x = a, *y = b;
    size_t n = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->text, y->text, n);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

static bool add_special_words(br_bert_corpus *corpus)
{
    corpus->vocab = br_vocab_new();
    for (int i = 0; i < N_SPECIAL; i++)
        br_vocab_add(corpus->vocab, special_words[i], strlen(special_words[i]));
    return !br_error_pending();
}

/* Adds the text's words to the vocabulary, sorted by their bytes. */
static bool add_sorted_words(br_bert_corpus *corpus)
{
    int64_t total = 0;
    for (int64_t i = 0; i < corpus->n_sentences; i++)
        total += corpus->lengths[i];
    word *words = br_calloc((size_t)total, sizeof *words);
    if (!words)
        return false;
    word *w = words;
    for (int64_t i = 0; i < corpus->n_sentences; i++)
        for (const char *p = corpus->sentences[i]; w < words + total && next_word(&p, w);)
            w++;
    qsort(words, (size_t)total, sizeof *words, by_bytes);
    for (int64_t i = 0; i < total && !br_error_pending(); i++)
        br_vocab_add(corpus->vocab, words[i].text, words[i].length);
    br_free(words);
    return !br_error_pending();
}

static bool add_given_words(br_bert_corpus *corpus, int64_t n_words, const char *const *words)
{
    for (int64_t i = 0; i < n_words && !br_error_pending(); i++) {
        if (!words[i])
            br_fail(BR_ERROR_ARGUMENT, "bert_corpus", "word %" PRId64 " is NULL", i);
        else if (br_vocab_find(corpus->vocab, words[i], strlen(words[i])) >= 0)
            br_fail(BR_ERROR_ARGUMENT, "bert_corpus",
                    "word %" PRId64 ", '%s', is a duplicate: words must differ from each other and "
                    "from the special words",
                    i, words[i]);
        else
            br_vocab_add(corpus->vocab, words[i], strlen(words[i]));
    }
    return !br_error_pending();
}

static bool make_tokens(br_bert_corpus *corpus)
{
    for (int64_t i = 0; i < corpus->n_sentences; i++) {
        int64_t *tokens = br_calloc((size_t)corpus->lengths[i], sizeof *tokens);
        corpus->tokens[i] = tokens;
        if (!tokens)
            return false;
        word w;
        for (const char *p = corpus->sentences[i]; next_word(&p, &w); tokens++) {
            *tokens = br_vocab_find(corpus->vocab, w.text, w.length);
            if (*tokens < 0)
                return br_fail(BR_ERROR_ARGUMENT, "bert_corpus",
                               "sentence %" PRId64
                               " contains '%.*s', which is not one of the words",
                               i, (int)w.length, w.text);
        }
    }
    return true;
}

/* Returns a corpus with its sentences and the special words, or NULL on error. */
static br_bert_corpus *read_text(const char *text, size_t length)
{
    if (!br_require("bert_corpus", "text", text))
        return NULL;
    br_bert_corpus *corpus = br_calloc(1, sizeof *corpus);
    char *cleaned = corpus ? clean(text, length) : NULL;
    bool ok = cleaned && split_sentences(corpus, cleaned) && add_special_words(corpus);
    br_free(cleaned);
    if (ok)
        return corpus;
    br_bert_corpus_free(corpus);
    return NULL;
}

br_bert_corpus *br_bert_corpus_new(const char *text, size_t length)
{
    br_bert_corpus *corpus = read_text(text, length);
    if (corpus && add_sorted_words(corpus) && make_tokens(corpus))
        return corpus;
    br_bert_corpus_free(corpus);
    return NULL;
}

br_bert_corpus *br_bert_corpus_new_with_words(const char *text, size_t length, int64_t n_words,
                                              const char *const *words)
{
    br_bert_corpus *corpus = read_text(text, length);
    if (corpus && !words && n_words > 0)
        br_fail(BR_ERROR_ARGUMENT, "bert_corpus", "words is NULL, but n_words is %" PRId64,
                n_words);
    if (!br_error_pending() && corpus && add_given_words(corpus, n_words, words) &&
        make_tokens(corpus))
        return corpus;
    br_bert_corpus_free(corpus);
    return NULL;
}

void br_bert_corpus_free(br_bert_corpus *corpus)
{
    if (!corpus)
        return;
    for (int64_t i = 0; i < corpus->n_sentences; i++) {
        br_free(corpus->sentences[i]);
        br_free(corpus->tokens ? corpus->tokens[i] : NULL);
    }
    br_free(corpus->sentences);
    br_free(corpus->tokens);
    br_free(corpus->lengths);
    br_vocab_free(corpus->vocab);
    br_free(corpus);
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* One row of each tensor of a batch, initialized to zero. */
typedef struct row {
    int64_t *input_ids, *segment_ids, *masked_tokens, *masked_pos;
} row;

/* Writes [CLS] a [SEP] b [SEP], with segment 1 from b on, and returns the length. */
static int64_t write_pair(const br_bert_corpus *corpus, int64_t a, int64_t b, const row *out)
{
    int64_t n = 0, n_a = corpus->lengths[a], n_b = corpus->lengths[b];
    out->input_ids[n++] = CLS;
    memcpy(out->input_ids + n, corpus->tokens[a], (size_t)n_a * sizeof(int64_t));
    n += n_a;
    out->input_ids[n++] = SEP;
    for (int64_t i = 0; i < n_b + 1; i++)
        out->segment_ids[n + i] = 1;
    memcpy(out->input_ids + n, corpus->tokens[b], (size_t)n_b * sizeof(int64_t));
    n += n_b;
    out->input_ids[n++] = SEP;
    return n;
}

/* Selects 15 % of the positions. Of their words, 80 % are replaced by [MASK] and 10 % by a random
 * word. `candidates` has room for `length` positions. */
static void mask_words(const br_bert_corpus *corpus, int64_t max_pred, int64_t length,
                       br_python_random *random, int64_t *candidates, const row *out)
{
    int64_t *input_ids = out->input_ids, n = 0;
    int64_t n_pred = (int64_t)nearbyint((double)length * 0.15); /* half to even, like round() */
    if (n_pred < 1)
        n_pred = 1;
    if (n_pred > max_pred)
        n_pred = max_pred;
    for (int64_t i = 0; i < length; i++)
        if (input_ids[i] != CLS && input_ids[i] != SEP)
            candidates[n++] = i;
    br_python_random_shuffle(random, n, candidates);
    for (int64_t i = 0; i < n && i < n_pred; i++) {
        int64_t pos = candidates[i];
        out->masked_pos[i] = pos;
        out->masked_tokens[i] = input_ids[pos];
        if (br_python_random_random(random) < 0.8)
            input_ids[pos] = MASK;
        else if (br_python_random_random(random) < 0.5)
            input_ids[pos] = br_python_random_randint(random, 0, br_vocab_size(corpus->vocab) - 1);
    }
}

static bool good_request(const br_bert_corpus *corpus, const br_bert_config *config,
                         int64_t batch_size, const br_python_random *random)
{
    const char *op = "bert_make_batch";
    if (br_error_pending())
        return false;
    int64_t longest = 0;
    for (int64_t i = 1; corpus && i < corpus->n_sentences; i++)
        if (corpus->lengths[i] > corpus->lengths[longest])
            longest = i;
    if (!corpus || !config || !random)
        br_fail(BR_ERROR_ARGUMENT, op, "corpus, config and random are required");
    else if (batch_size < 2 || batch_size % 2 != 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "batch_size is %" PRId64 ", must be even and at least 2: half of the pairs are "
                "consecutive sentences, half are not",
                batch_size);
    else if (corpus->n_sentences < 2)
        br_fail(BR_ERROR_ARGUMENT, op, "the text has %" PRId64 " sentences, must have at least 2",
                corpus->n_sentences);
    else if (br_vocab_size(corpus->vocab) > config->vocab_size)
        br_fail(BR_ERROR_ARGUMENT, op,
                "the text has %" PRId64 " words, but vocab_size is only %" PRId64,
                br_vocab_size(corpus->vocab), config->vocab_size);
    else if (config->max_pred < 1)
        br_fail(BR_ERROR_ARGUMENT, op, "max_pred is %" PRId64 ", must be at least 1",
                config->max_pred);
    else if (2 * corpus->lengths[longest] + 3 > config->maxlen)
        br_fail(BR_ERROR_ARGUMENT, op,
                "a pair of sentence %" PRId64 " with itself has %" PRId64
                " tokens, but maxlen is only %" PRId64,
                longest, 2 * corpus->lengths[longest] + 3, config->maxlen);
    return !br_error_pending();
}

/* The elements of a br_bert_batch. */
typedef struct batch_values {
    int64_t *input_ids, *segment_ids, *masked_tokens, *masked_pos, *is_next;
} batch_values;

/* Makes zeros. Returns false with an error if memory runs out; the caller frees the arrays. */
static bool make_values(batch_values *v, int64_t batch_size, const br_bert_config *config)
{
    const size_t rows = (size_t)batch_size, ids = (size_t)config->maxlen * sizeof(int64_t);
    const size_t masked = (size_t)config->max_pred * sizeof(int64_t);
    v->input_ids = br_calloc(rows, ids);
    v->segment_ids = br_calloc(rows, ids);
    v->masked_tokens = br_calloc(rows, masked);
    v->masked_pos = br_calloc(rows, masked);
    v->is_next = br_calloc(rows, sizeof(int64_t));
    return !br_error_pending();
}

static void free_values(const batch_values *v)
{
    br_free(v->input_ids);
    br_free(v->segment_ids);
    br_free(v->masked_tokens);
    br_free(v->masked_pos);
    br_free(v->is_next);
}

static bool make_tensors(br_bert_batch *batch, const batch_values *v, int64_t batch_size,
                         const br_bert_config *config)
{
    batch->input_ids = br_from_i64(BR_SHAPE(batch_size, config->maxlen), v->input_ids);
    batch->segment_ids = br_from_i64(BR_SHAPE(batch_size, config->maxlen), v->segment_ids);
    batch->masked_tokens = br_from_i64(BR_SHAPE(batch_size, config->max_pred), v->masked_tokens);
    batch->masked_pos = br_from_i64(BR_SHAPE(batch_size, config->max_pred), v->masked_pos);
    batch->is_next = br_from_i64(BR_SHAPE(batch_size), v->is_next);
    return !br_error_pending();
}

static row row_of(const batch_values *v, const br_bert_config *config, int64_t i)
{
    return (row){
        v->input_ids + i * config->maxlen,
        v->segment_ids + i * config->maxlen,
        v->masked_tokens + i * config->max_pred,
        v->masked_pos + i * config->max_pred,
    };
}

static void clear_row(const row *r, const br_bert_config *config)
{
    memset(r->input_ids, 0, (size_t)config->maxlen * sizeof(int64_t));
    memset(r->segment_ids, 0, (size_t)config->maxlen * sizeof(int64_t));
    memset(r->masked_tokens, 0, (size_t)config->max_pred * sizeof(int64_t));
    memset(r->masked_pos, 0, (size_t)config->max_pred * sizeof(int64_t));
}

/* Generates random pairs until both halves are full. A pair whose half is already full is dropped
 * after its masks were generated, as in the notebook. */
static void sample_pairs(const br_bert_corpus *corpus, const br_bert_config *config,
                         int64_t batch_size, br_python_random *random, int64_t *candidates,
                         const batch_values *values)
{
    int64_t half = batch_size / 2, positive = 0, negative = 0;
    while (positive != half || negative != half) {
        row out = row_of(values, config, positive + negative);
        int64_t a = br_python_random_randrange(random, corpus->n_sentences),
                b = br_python_random_randrange(random, corpus->n_sentences);
        int64_t length = write_pair(corpus, a, b, &out);
        mask_words(corpus, config->max_pred, length, random, candidates, &out);
        bool is_next = a + 1 == b;
        if ((is_next ? positive : negative) == half) {
            clear_row(&out, config);
            continue;
        }
        values->is_next[positive + negative] = is_next;
        positive += is_next;
        negative += !is_next;
    }
}

bool br_bert_make_batch(const br_bert_corpus *corpus, const br_bert_config *config,
                        int64_t batch_size, br_python_random *random, br_bert_batch *batch)
{
    if (!good_request(corpus, config, batch_size, random))
        return false;
    int64_t *candidates = br_calloc((size_t)config->maxlen, sizeof *candidates);
    batch_values values = { 0 };
    bool ok = candidates && make_values(&values, batch_size, config);
    if (ok)
        sample_pairs(corpus, config, batch_size, random, candidates, &values);
    ok = ok && make_tensors(batch, &values, batch_size, config);
    free_values(&values);
    br_free(candidates);
    return ok;
}
