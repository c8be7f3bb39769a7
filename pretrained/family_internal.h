/* pretrained/family_internal.h - look-up in the families of models, without checks of arguments.
 */
#ifndef BR_FAMILY_INTERNAL_H
#define BR_FAMILY_INTERNAL_H

#include "tokenizers/tokenizer_config.h"
#include <brasa/pretrained/family.h>

/* Returns the family with this model_type, or NULL without an error. `type` may be NULL. */
const br_model_family *br__family_of_type(const char *type);
/* Returns the class of that name and its family, or NULL without an error. */
const br_model_class *br__class_of_name(const char *name, const br_model_family **family);
/* Returns the family's first class that `fits` accepts, or NULL without an error. */
const br_model_class *br__first_class(const br_model_family *family,
                                      bool (*fits)(const br_model_class *class));
/* Returns a list of the model_types of the families with a class that `fits` accepts (NULL: of all
 * families), for a message:
 * "\"bert\", \"gpt2\"", followed by the one that is similar to `given`, if `given` is not NULL and
 * there is one. The caller frees the text with br_free(). Returns NULL and an error if allocation
 * fails. */
char *br__known_types(const char *given, bool (*fits)(const br_model_class *class));

#endif
