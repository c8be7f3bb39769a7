/* data/auto_tokenizer.c - loads the tokenizer of a Hugging Face model folder. */
#include "tensor/tensor_internal.h"

#include <brasa/data.h>
#include <unistd.h>

static const char op[] = "auto_tokenizer";

/* Returns the path of a file in the folder, or NULL if it does not exist or allocation fails. The
 * caller frees it with br_free(). */
static char *file_of(const char *dir, const char *name)
{
    char *path = br__format("%s/%s", dir, name);
    if (path && access(path, F_OK) == 0)
        return path;
    br_free(path);
    return NULL;
}

static br_tokenizer *from_json(const char *path, const char *dir)
{
    (void)dir;
    return br_tokenizer_from_json(path);
}

static br_tokenizer *from_bpe(const char *path, const char *dir)
{
    char *merges = br__format("%s/merges.txt", dir);
    br_tokenizer *t = merges ? br_tokenizer_from_bpe(path, merges, NULL) : NULL;
    br_free(merges);
    return t;
}

static br_tokenizer *from_sentencepiece(const char *path, const char *dir)
{
    (void)dir;
    return br_tokenizer_from_sentencepiece(path, NULL);
}

static br_tokenizer *from_vocab(const char *path, const char *dir)
{
    (void)dir;
    return br_tokenizer_from_vocab(path, NULL);
}

/* Loads the first of these files that exists. */
static br_tokenizer *from_folder(const char *dir)
{
    static const struct {
        const char *name;
        br_tokenizer *(*make)(const char *path, const char *dir);
    } files[] = { { "tokenizer.json", from_json },
                  { "vocab.json", from_bpe },
                  { "spiece.model", from_sentencepiece },
                  { "vocab.txt", from_vocab } };
    for (size_t i = 0; i < sizeof files / sizeof *files && !br_failed(); i++) {
        char *path = file_of(dir, files[i].name);
        if (!path)
            continue;
        br_tokenizer *t = files[i].make(path, dir);
        br_free(path);
        return t;
    }
    if (!br_failed())
        br__fail(BR_ERROR_IO, op,
                 "%s: there is no tokenizer.json, vocab.json, spiece.model or vocab.txt",
                 br__printable(dir));
    return NULL;
}

br_tokenizer *br_auto_tokenizer_load(const char *dir, const br_tokenizer_options *options)
{
    if (!br__required(op, "dir", dir))
        return NULL;
    if (!options)
        return from_folder(dir);
    char *path = br__format("%s/vocab.txt", dir);
    br_tokenizer *t = path ? br_tokenizer_from_vocab(path, options) : NULL;
    br_free(path);
    return t;
}
