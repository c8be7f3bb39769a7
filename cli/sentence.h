/* cli/sentence.h - the files of sentence-transformers in a model folder: how a text is truncated,
 * and how the hidden states of its tokens become one embedding. */
#ifndef BRASA_CLI_SENTENCE_H
#define BRASA_CLI_SENTENCE_H

#include <brasa/brasa.h>

/* How the hidden states of a text's tokens are combined. The order is that of the results in
 * sentence-transformers. */
typedef enum sentence_pooling {
    SENTENCE_CLS,           /* the first token's */
    SENTENCE_MAX,           /* the maximum of each element */
    SENTENCE_MEAN,          /* the mean */
    SENTENCE_MEAN_SQRT_LEN, /* the sum, divided by the square root of the number of tokens */
    SENTENCE_WEIGHTEDMEAN,  /* the mean, weighted by the position, which is 1 for the first token */
    SENTENCE_LASTTOKEN,     /* the last token's */
} sentence_pooling;

enum { SENTENCE_MODES = 6, SENTENCE_MAX_MODES = 16 };

/* The modes' names as values of --pooling. */
extern const char *const sentence_modes[SENTENCE_MODES];
/* Returns the mode of that name, or -1. */
int sentence_mode(const char *name);

/* What the user chose instead of the values in the files. */
typedef struct sentence_options {
    bool cased;          /* as in cli_open_tokenizer() */
    const char *pooling; /* one of sentence_modes; NULL: as in the files */
    int64_t max_length;  /* in tokens; 0: as in the files */
} sentence_options;

typedef struct sentence {
    char *folder; /* of the model and the tokenizer */
    int n_modes;
    sentence_pooling modes[SENTENCE_MAX_MODES]; /* their results are concatenated */
    bool normalize;                             /* to length 1 */
    bool lower_case; /* lower-case the text, whatever the tokenizer does */
    const char
        *settings_file;  /* of the transformer module: sentence_bert_config.json or the like */
    int64_t max_length;  /* truncate texts to this number of tokens; 0: do not truncate */
    bool truncate_left;  /* remove tokens from the beginning */
    char *prompt;        /* precedes each text; NULL: none */
    bool include_prompt; /* also pool the prompt's tokens */
} sentence;

/* Reads modules.json and the files that belong to it. In a folder without modules.json, the
 * embedding is the normalized mean, and texts are not truncated. Returns false with an error that
 * names the file, the key and the value on failure. Call sentence_free() in either case. */
bool sentence_read(sentence *s, const char *dir, const sentence_options *options);
void sentence_free(sentence *s);

#endif
