/* tests/notebooks/bert_tokenizer.h - a tokenizer for the sentences of the notebooks.
 *
 * The vocabulary of bert-base-uncased is not part of Brasa. This tokenizer has a vocabulary of the
 * same size. The special tokens and the words of the sentences have the same ids; all other tokens
 * are names that occur in no text. */
#ifndef BR_TESTS_NOTEBOOKS_BERT_TOKENIZER_H
#define BR_TESTS_NOTEBOOKS_BERT_TOKENIZER_H

#include "tests/notebooks/cells.h"

#include <stdlib.h>
#include <unistd.h>

static inline const char *bert_token(int64_t id)
{
    static const struct {
        int64_t id;
        const char *token;
    } known[] = {
        { 0, "[PAD]" },      { 100, "[UNK]" },  { 101, "[CLS]" },  { 102, "[SEP]" },
        { 103, "[MASK]" },   { 1037, "a" },     { 2019, "an" },    { 2051, "time" },
        { 2066, "like" },    { 5909, "fruit" }, { 8612, "arrow" }, { 10029, "flies" },
        { 15212, "banana" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].id == id)
            return known[i].token;
    return NULL;
}

static inline br_tokenizer *bert_tokenizer(void)
{
    char path[] = "/tmp/brasa-vocab-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    FILE *file = fdopen(fd, "w");
    for (int64_t id = 0; id < 30522; id++) {
        const char *token = bert_token(id);
        if (token)
            fprintf(file, "%s\n", token);
        else
            fprintf(file, "[unused%lld]\n", (long long)id);
    }
    cr_assert_eq(fclose(file), 0);
    br_tokenizer *tokenizer = br_tokenizer_from_vocab(path, NULL);
    unlink(path);
    cr_assert_not_null(tokenizer, "%s", br_error_message());
    return tokenizer;
}

/* Returns tokenizer(text, return_tensors="pt", add_special_tokens=False).input_ids. */
static inline br_tensor *bert_input_ids(const br_tokenizer *tokenizer, const char *text)
{
    br_token_batch inputs;
    bool ok =
        br_tokenizer_encode_batch(tokenizer, 1, &(br_text){ text, -1 }, NULL,
                                  BR_OPTIONS(br_encode, .add_special_tokens = false), &inputs);
    cr_assert(ok, "%s", br_error_message());
    return inputs.ids;
}

#endif
