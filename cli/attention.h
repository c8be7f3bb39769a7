/* cli/attention.h - the attention of a pretrained model. */
#ifndef BRASA_CLI_ATTENTION_H
#define BRASA_CLI_ATTENTION_H

#include <brasa/brasa.h>

/* Runs the model of a folder on one or two texts and returns its attention; `cased` as in
 * cli_open_tokenizer(). Returns NULL with an error on failure. */
br_attention *attention_of_model(const char *dir, bool cased, int n, char **texts);

#endif
