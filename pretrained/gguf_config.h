/* pretrained/gguf_config.h - the metadata of a GGUF file as a config.json. */
#ifndef BR_GGUF_CONFIG_H
#define BR_GGUF_CONFIG_H

#include <brasa/pretrained/family.h>
#include <jansson.h>

/* Returns the object that a config.json of the file's model would have, for json_decref(). Keys of
 * the architecture that its format does not list keep their names: they are unknown keys. Returns
 * NULL and an error that names the file and the key if the file describes no known model. */
json_t *br__gguf_config(const char *path);
/* Returns what undoes the converter's change of a tensor, or NULL without an error if there is
 * none. */
const br_gguf_change *br__gguf_change_of(const br_gguf_format *format, const char *name);

#endif
