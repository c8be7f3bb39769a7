/* cli/attention.h - the attention of a pretrained model. */
#ifndef BRASA_CLI_ATTENTION_H
#define BRASA_CLI_ATTENTION_H

#include <brasa/brasa.h>

/* Runs the model of a folder on one or two texts and returns its attention; `cased` as in
 * cli_open_tokenizer(). With `gradient`, also adds the gradient of the model's answer, as
 * docs/attention_views.md describes. Returns NULL with an error on failure. */
br_attention *attention_of_model(const char *dir, bool cased, bool gradient, int n, char **texts);

#endif
