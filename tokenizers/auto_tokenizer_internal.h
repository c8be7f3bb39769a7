/* tokenizers/auto_tokenizer_internal.h - the parts of loading the tokenizer of a model folder. */
#ifndef BR_AUTO_TOKENIZER_INTERNAL_H
#define BR_AUTO_TOKENIZER_INTERNAL_H

#include "tokenizers/tokenizer_config.h"

typedef struct br_tokenizer_loader {
    br_side_files files;
    const br_auto_tokenizer_options *options;
    const char *file; /* the file that has the vocabulary */
    bool from_json;
    const char *const
        *own_tokens; /* by role, of a class that replaces parts; NULL: another class */
    br_tokenizer *t;
} br_tokenizer_loader;

/* Reads the other files of a class that follows tokenizer.json, for a folder without that file.
 * Sets *exists to whether the folder has them. Returns false if it has not, or with an error. */
bool br__loader_read_class(br_tokenizer_loader *l, bool *exists);
/* Returns whether the files name this class or, if they name none, their model_type has it. */
bool br__class_is(const br_side_files *files, const char *class);
/* Replaces the normalizer, pre-tokenizer and decoder of a tokenizer.json's object by the class's
 * own if transformers does so, and sets own_tokens then. `loader` is a br_tokenizer_loader. */
bool br__class_change_parts(json_t *root, void *loader);
/* Returns the name of such a file of the class; NULL: it needs a tokenizer.json. */
const char *br__class_file(const br_side_files *files);

/* Returns true if the class's keys take precedence over tokenizer.json, as in transformers 5. */
bool br__loader_rebuilds(const br_tokenizer_loader *l);
/* Applies the settings of tokenizer_config.json and the options. */
bool br__loader_apply_settings(const br_tokenizer_loader *l);
/* Sets the unknown token, the tokens around a text, and the padding. Call it when all tokens are in
 * the vocabulary. */
bool br__loader_set_specials(const br_tokenizer_loader *l);

#endif
