/* pretrained/lora_folder_internal.h - peft's folders: lora_config.c has adapter_config.json,
 * lora_load.c and lora_save.c have the weights. */
#ifndef BR_LORA_FOLDER_INTERNAL_H
#define BR_LORA_FOLDER_INTERNAL_H

#include "nn/lora_internal.h"
#include "pretrained/auto_model_internal.h"
#include "pretrained/model_json.h"

#include <brasa/pretrained/lora_folder.h>

/* Begins every key of adapter_model.safetensors. */
#define BR_LORA_KEY_PREFIX "base_model.model."

/* What adapter_config.json says. */
typedef struct br_lora_config {
    br_model_json file;
    br_lora_options options; /* points into the file, and to memory of the config */
    bool lists_targets;      /* target_modules is a list of names; a regular expression otherwise */
} br_lora_config;

/* Reads the file of a folder. Refuses what Brasa does not compute as peft does. Call
 * br__lora_config_close() in any case. */
bool br__lora_config_read(br_lora_config *c, const char *op, const char *dir);
void br__lora_config_close(br_lora_config *c);
/* Returns the text of adapter_config.json for an adapter of the model. The caller frees it with
 * br_free(). Returns NULL and an error if allocation fails. */
char *br__lora_config_text(const char *op, br_module *model, const br_lora_adapter *adapter,
                           const br_lora_save_options *save);
/* Returns the names that files have for the model's modules; empty if they are the same. */
br_key_map br__lora_key_map(const br_module *model);
/* Returns the path that files have for a path of the model. The caller frees it with br_free().
 * Returns NULL and an error if allocation fails. */
char *br__lora_file_path(const br_module *model, const char *path);

#endif
