/* cli/attention.h - what a pretrained model attends to. */
#ifndef BRASA_CLI_ATTENTION_H
#define BRASA_CLI_ATTENTION_H

#include <brasa/brasa.h>

/* What the model of a folder attends to in one text or two; `cased` as in cli_open_tokenizer().
 * NULL and an error. */
br_attention *attention_of_model(const char *dir, bool cased, int n, char **texts);

#endif
