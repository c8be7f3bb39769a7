/* brasa/pretrained/lora_folder.h - LoRA adapters in folders of Hugging Face's peft:
 * adapter_config.json and adapter_model.safetensors.
 *
 *     br_module *model = br_auto_model_load("SmolLM2-135M", NULL, NULL);
 *     br_lora_load("my-adapter", model, NULL);
 *
 * docs/fine_tuning.md shows how to train one. nn/lora.h describes adapters. */
#ifndef BRASA_PRETRAINED_LORA_FOLDER_H
#define BRASA_PRETRAINED_LORA_FOLDER_H

#include <brasa/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_lora_load_options {
    size_t struct_size;
    const char *adapter_name; /* the name that the adapter gets in the model */
    bool is_trainable;        /* its parameters require grad; otherwise they are frozen, too */
} br_lora_load_options;
#define br_lora_load_default_fields \
    .struct_size = sizeof(br_lora_load_options), .adapter_name = "default"
BR_API br_lora_load_options br_lora_load_defaults(void);

/* Adds the adapter of a folder to a model, which is usually from br_auto_model_load(), as peft's
 * PeftModel.from_pretrained() does. The first adapter of the model becomes active. Values of the
 * base model that the file also has, such as trained biases, replace the model's. Returns false and
 * an error, and leaves the model unchanged, if the adapter is not of type LORA, if a key of its
 * configuration changes results in a way that is not supported, if a key of the file is missing or
 * belongs to no layer, or if a shape is not that of the model. `options` may be NULL. */
BR_API bool br_lora_load(const char *dir, br_module *model, const br_lora_load_options *options);

typedef struct br_lora_save_options {
    size_t struct_size;
    const char *adapter_name; /* NULL: the active adapter */
    /* What the configuration says about the base model, which peft reads only in AutoPeftModel and
     * in merges; NULL: null. */
    const char *base_model_name_or_path, *task_type;
} br_lora_save_options;
#define br_lora_save_default_fields .struct_size = sizeof(br_lora_save_options)
BR_API br_lora_save_options br_lora_save_defaults(void);

/* Saves an adapter of the model as a folder that br_lora_load() and peft load. The folder and its
 * parents are created if they are missing. Also saves the biases that the adapter trains, and the
 * modules of modules_to_save. Returns false and an error on failure; a full disk or a failed
 * allocation leaves the old files. `options` may be NULL. */
BR_API bool br_lora_save(const char *dir, br_module *model, const br_lora_save_options *options);

#ifdef __cplusplus
}
#endif
#endif
