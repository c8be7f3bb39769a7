/* train/scratch_bert.h - loads a BERT from a checkpoint of `brasa train bert-scratch`. */
#ifndef BRASA_TRAIN_SCRATCH_BERT_H
#define BRASA_TRAIN_SCRATCH_BERT_H

#include <brasa/brasa.h>

typedef struct scratch_bert {
    br_bert *model;
    br_vocab *vocab;
} scratch_bert;

/* Opens a checkpoint and converts the model to `dtype`; BR_DTYPE_AUTO leaves it in the dtype of the
 * run. Returns false with an error on failure. Call scratch_bert_close() in either case. */
bool scratch_bert_open(scratch_bert *s, const char *checkpoint, br_dtype dtype);
void scratch_bert_close(scratch_bert *s);
/* Returns the logits [n, V] of the n masks in the text. [SEP] in the text may separate two
 * sentences. Returns NULL with an error on failure. */
br_tensor *scratch_bert_fill(const scratch_bert *s, const char *text);

#endif
