/* pretrained/sentence_files.h - the files of sentence-transformers in a model folder: how a text is
 * truncated, and how the hidden states of its tokens become one embedding. */
#ifndef BR_SENTENCE_FILES_H
#define BR_SENTENCE_FILES_H

#include "pretrained/prompts.h"
#include "pretrained/sentence_modules.h"

#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/sentence_transformer.h>
#include <jansson.h>

enum {
    BR_MAX_POOLINGS = 16,
    BR_MAX_SENTENCE_MODULES = 16, /* after the pooling */
    BR_MIN_SEQ_LENGTH = 3,        /* two special tokens and one of the text */
};

typedef struct br_sentence_settings {
    char *folder; /* of the model and the tokenizer */
    br_auto_config *config;
    int n_modes;
    br_pooling modes[BR_MAX_POOLINGS]; /* their results are concatenated */
    int n_modules;                     /* that follow the pooling, in this order */
    br_sentence_kind kinds[BR_MAX_SENTENCE_MODULES];
    char *module_folders[BR_MAX_SENTENCE_MODULES];
    br_sentence_module modules[BR_MAX_SENTENCE_MODULES]; /* zeros before they are loaded */
    bool lower_case; /* lower-case the text, whatever the tokenizer does */
    /* Name of the transformer module's file: sentence_bert_config.json or the like. */
    const char *settings_file;
    int64_t max_length; /* truncate texts to this number of tokens; 0: do not truncate */
    bool truncate_left; /* remove tokens from the beginning */
    br_prompts prompts;
    bool include_prompt; /* also pool the prompt's tokens */
} br_sentence_settings;

/* Reads modules.json and the files that belong to it. In a folder without modules.json, the
 * embedding is the normalized mean, and texts are not truncated. Returns false with an error that
 * names the file, the key and the value on failure. Call br__sentence_free() in either case. */
bool br__sentence_read(br_sentence_settings *s, const char *dir,
                       const br_sentence_transformer_options *options);
void br__sentence_free(br_sentence_settings *s);
/* Loads the modules that follow the pooling. *dimension is the size of a pooled embedding, and
 * becomes the size of an embedding. Returns false with an error on failure. */
bool br__sentence_load_modules(br_sentence_settings *s, int64_t *dimension);
/* Runs these modules on pooled embeddings [n, size]. */
br_tensor *br__sentence_run_modules(const br_sentence_settings *s, br_tensor *rows);

#endif
