/* pretrained/sentence_modules.h - the modules of sentence-transformers that follow the pooling:
 * they map embeddings to embeddings. */
#ifndef BR_SENTENCE_MODULES_H
#define BR_SENTENCE_MODULES_H

#include "pretrained/model_json.h"

#include <brasa/nn.h>

typedef enum br_sentence_kind {
    BR_SENTENCE_NORMALIZE,
    BR_SENTENCE_DENSE,
    BR_SENTENCE_LAYER_NORM,
    BR_SENTENCE_DROPOUT, /* does nothing in evaluation */
    BR_SENTENCE_KINDS,
} br_sentence_kind;

typedef struct br_sentence_module {
    br_sentence_kind kind;
    br_linear *linear;   /* Dense */
    br_linear *residual; /* Dense, if it adds its input and changes the dimension; else NULL */
    bool adds_input;     /* Dense: use_residual */
    br_unary_fn activation;
    br_layer_norm *norm;
} br_sentence_module;

/* Returns the kind with this name of a class, BR_SENTENCE_KINDS without an error if there is none.
 */
br_sentence_kind br__sentence_kind(const char *name);
/* Reads a module from its folder. *dimension is the size of an embedding before it, and becomes the
 * size after it. Returns false with an error on failure; call br__sentence_module_free() in either
 * case. */
bool br__sentence_module_read(br_sentence_module *m, br_sentence_kind kind, const char *folder,
                              int64_t *dimension);
void br__sentence_module_free(br_sentence_module *m);
/* Returns the result for embeddings [n, dimension], in their dtype and on their device. A row of it
 * does not depend on n, to the bit. */
br_tensor *br__sentence_module_run(const br_sentence_module *m, br_tensor *rows);

#endif
