/* tokenizers/tokenizer_config.h - the side files of a tokenizer in a model folder:
 * tokenizer_config.json, special_tokens_map.json, added_tokens.json, and the tokenizer class of
 * config.json. */
#ifndef BR_TOKENIZER_CONFIG_H
#define BR_TOKENIZER_CONFIG_H

#include "tokenizers/tokenizer_internal.h"

#include <jansson.h>

/* What a tokenizer class does with the files of a folder. */
typedef enum br_tokenizer_family {
    BR_FAMILY_ANY,    /* no file names a class */
    BR_FAMILY_WORDS,  /* BertTokenizer and the like */
    BR_FAMILY_BYTES,  /* GPT2Tokenizer */
    BR_FAMILY_PIECES, /* T5Tokenizer */
    BR_FAMILY_FILE,   /* follows tokenizer.json */
} br_tokenizer_family;

/* A token that a side file names. The strings belong to the JSON. */
typedef struct br_side_token {
    const char *text, *file, *key;
    int64_t id; /* its id in the file; -1: none */
    int role;   /* br_special_token; -1: none */
    bool special, late, lstrip, rstrip, single_word;
    bool optional; /* not added if the vocabulary lacks it */
    bool object;   /* an object with flags, not a string */
    bool known;    /* was an added token before those of this list were added */
    int order;     /* of special tokens: roles, then other names, then lists */
} br_side_token;

typedef struct br_side_tokens {
    br_side_token *items;
    int64_t count, capacity;
} br_side_tokens;

typedef struct br_side_files {
    const char *dir;
    json_t *config, *map, *added_json, *model; /* NULL: there is no such file */
    br_tokenizer_family family;
    const char *class_name, *class_file, *class_key; /* NULL: no file names a class */
    br_setting do_lower_case, tokenize_chinese_chars, add_prefix_space, add_bos, add_eos;
    br_setting strip_accents;
    bool auto_accents;              /* strip_accents is stated to be null */
    bool splits_special;            /* split_special_tokens */
    bool cleans_up;                 /* clean_up_tokenization_spaces */
    int64_t extra_ids;              /* -1: not stated */
    bool has_decoder;               /* "added_tokens_decoder" exists, which hides two files */
    bool has_extra;                 /* the special tokens without a role are stated */
    bool extra_in_map;              /* only by additional_special_tokens of the map */
    bool stated[BR_TOKEN_MASK + 1]; /* a file states the role's token, or that there is none */
    br_side_tokens added;           /* sorted by id */
    br_side_tokens named;           /* with roles, then other special tokens */
} br_side_files;

/* Reads the files that exist. The caller zeroes *s before and frees it afterwards, also on
 * failure. */
bool br__side_files_read(br_side_files *s, const char *dir,
                         const br_auto_tokenizer_options *options);
void br__side_files_free(br_side_files *s);
/* Fails with "auto_tokenizer: DIR/FILE: ...". Returns false. */
bool br__side_refuse(const br_side_files *s, const char *file, const char *format, ...)
    BR_PRINTF(3, 4);
/* Returns the first token of the list with this text, or NULL. */
br_side_token *br__side_find(const br_side_tokens *list, const char *text);
/* Adds a special token with a role, or with the role -1. */
bool br__side_name(br_side_files *s, const char *text, int role, bool optional);

/* What Brasa does with a key of these files. */
typedef enum br_key_effect {
    BR_KEY_HONOURED,
    BR_KEY_HARMLESS, /* without effect on ids, also in transformers 5 */
    BR_KEY_CHECKED,  /* an error if the value would change ids */
    BR_KEY_UNKNOWN,  /* without effect on ids; a warning */
} br_key_effect;
br_key_effect br__tokenizer_key_effect(const char *key);

bool br__key_ends_with(const char *text, const char *end);
/* Find the family of a tokenizer class, or of a model_type. Return false if it is unknown. */
bool br__tokenizer_class_family(const char *name, br_tokenizer_family *family);
bool br__tokenizer_model_family(const char *type, br_tokenizer_family *family);
/* Returns the tokenizer class of a model_type's family of models, or NULL. pretrained/ defines it.
 */
extern const char *(*const br__tokenizer_class_of_type)(const char *model_type);

#endif
