/* pretrained/text_pack.h - packed batches: texts that follow each other without padding. */
#ifndef BR_TEXT_PACK_H
#define BR_TEXT_PACK_H

#include "pretrained/text_model.h"

/* The texts from .. from + n - 1 of a batch, on the device of a model. */
typedef struct br_text_pack {
    br_model_input input;
    int64_t from, n;
    const int64_t *starts; /* n + 1: text i has tokens starts[i] .. starts[i + 1] - 1 */
} br_text_pack;

/* Returns true if the model takes the batch without its padding: its family packs, no recorder
 * needs a row for each text, and no text is empty. */
bool br__packs(const br_auto_config *config, const br_token_batch *batch);
/* Calls run() with one pack after another, each of which has whole texts and a limited number of
 * tokens. Returns false with an error if that fails. */
bool br__run_packs(const char *op, const br_token_batch *batch, br_device device,
                   bool (*run)(const void *of, const br_text_pack *pack), const void *of);

#endif
