/* tests/pretrained/sentence_model.h - writes folders of sentence-transformers with the recorded
 * BERT, and embeds texts with them. */
#ifndef BR_TESTS_PRETRAINED_SENTENCE_MODEL_H
#define BR_TESTS_PRETRAINED_SENTENCE_MODEL_H

#include "tests/pretrained/auto_model.h"

#include <brasa/pretrained.h>

#include <sys/stat.h>

#define MODULE(path, type)                       \
    "{\"idx\":0,\"name\":\"0\",\"path\":\"" path \
    "\",\"type\":\"sentence_transformers.models." type "\"}"
#define TRANSFORMER MODULE("", "Transformer")
#define POOLING     MODULE("1_Pooling", "Pooling")
#define MODULES     "[" TRANSFORMER "," POOLING "]"

#define TEXT(text) ((br_text){ (text), -1 })

/* Options of a call, or NULL for the defaults. */
#define LOAD(...)   BR_OPTIONS(br_sentence_transformer, __VA_ARGS__)
#define ENCODE(...) BR_OPTIONS(br_sentence_encode, __VA_ARGS__)

/* Writes a file of the folder. */
static inline void write_file(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

/* Writes the vocabulary of n tokens: four special ones, "a", "aa", ... */
static inline void write_vocab(int n)
{
    char text[2048] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n", *end = text + strlen(text);
    for (int i = 4; i < n; i++) {
        memset(end, 'a', (size_t)i - 3);
        end += i - 3;
        *end++ = '\n';
    }
    *end = '\0';
    write_file("vocab.txt", text);
}

/* Writes the recorded model and a vocabulary of its 40 tokens. */
static inline void make_model(void)
{
    size_t n;
    copy_config();
    char *weights = files_read(HF_BERT "/pretraining/model.safetensors", &n);
    files_write(files_path("model.safetensors"), weights, n);
    free(weights);
    write_vocab(40);
}

static inline void make_sentence_model(const char *modules, const char *pooling)
{
    make_model();
    cr_assert_eq(mkdir(files_path("1_Pooling"), 0777), 0);
    cr_assert_eq(mkdir(files_path("2_Normalize"), 0777), 0);
    write_file("modules.json", modules);
    write_file("1_Pooling/config.json", pooling);
}

static inline br_sentence_transformer *open_model(const br_sentence_transformer_options *options)
{
    return br_sentence_transformer_load(folder(), options, NULL);
}

/* Returns the embeddings of n texts by the folder's model. */
static inline br_tensor *embed(const br_sentence_transformer_options *options, int64_t n,
                               const br_text *texts)
{
    br_sentence_transformer *model = open_model(options);
    cr_assert(model, "%s", br_error_message());
    br_tensor *rows = br_sentence_transformer_encode(model, n, texts, NULL);
    br_sentence_transformer_free(model);
    return rows;
}

#endif
