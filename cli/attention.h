/* cli/attention.h - the attention of pretrained models for several texts. */
#ifndef BRASA_CLI_ATTENTION_H
#define BRASA_CLI_ATTENTION_H

#include "cli/texts.h"

#include <brasa/brasa.h>

enum { ATTENTION_MOST = 64 }; /* texts times models of a page */

typedef struct attention_set {
    int n;
    br_attention *items[ATTENTION_MOST];
} attention_set;

/* Reads the lines of `file`, each a text or two texts with a tab between them, or, if `file` is
 * NULL, one text or a pair from the n arguments. The data of pairs[i] is NULL if text i has no
 * second text. Returns false with an error on failure; call cli_texts_free() in either case. */
bool attention_read_texts(cli_texts *t, const char *file, int n, char **arguments);
/* Runs the model of a folder on each text and adds its attention; `cased` as in
 * cli_open_tokenizer(). With `gradient`, also adds the gradient of the model's answer, as
 * docs/attention_views.md describes. Returns false with an error on failure. */
bool attention_add_model(attention_set *set, const char *dir, bool cased, bool gradient,
                         const cli_texts *t);
void attention_set_free(attention_set *set);

#endif
