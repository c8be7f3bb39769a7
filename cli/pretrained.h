/* cli/pretrained.h - what commands ask of a pretrained model's folder besides its weights. */
#ifndef BRASA_CLI_PRETRAINED_H
#define BRASA_CLI_PRETRAINED_H

#include <brasa/brasa.h>

/* A kind of model that a command can work with; the command's own struct begins with it. */
typedef struct model_family {
    const char *model_type; /* of config.json */
    const char *class_name; /* what is loaded */
} model_family;

/* The folder's of n families, each a struct of `size` bytes; NULL and an error, which says
 * that they cannot be `what`. */
const void *pretrained_family(const char *dir, const void *families, int n, size_t size,
                              const char *what);
/* Sets what ends a text by the configuration; eos_token_ids is memory to free(). */
bool pretrained_ends(const char *dir, br_generate_options *o);

#endif
