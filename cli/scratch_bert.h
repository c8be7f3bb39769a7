/* cli/scratch_bert.h - a BERT of `brasa train bert-scratch`, from its checkpoint alone. */
#ifndef BRASA_CLI_SCRATCH_BERT_H
#define BRASA_CLI_SCRATCH_BERT_H

#include <brasa/brasa.h>

typedef struct scratch_bert {
    br_bert *model;
    br_vocab *vocab;
} scratch_bert;

/* False and an error; then, too, scratch_bert_close() is to be called. */
bool scratch_bert_open(scratch_bert *s, const char *checkpoint);
void scratch_bert_close(scratch_bert *s);
/* Logits [n, V] of the n places of [MASK] in the text, in which [SEP] may part two sentences. NULL
 * and an error. */
br_tensor *scratch_bert_fill(const scratch_bert *s, const char *text);

#endif
