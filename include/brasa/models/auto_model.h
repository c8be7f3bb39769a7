/* brasa/models/auto_model.h - AutoModel: a pretrained model from the folder of a Hugging Face
 * model.
 *
 *     br_hf_bert *bert = br_auto_model_load(
 *         "all-MiniLM-L6-v2", &(br_auto_model_options){ .class_name = "BertModel" }, NULL);
 *
 * The folder has config.json, and model.safetensors or the shards that model.safetensors.index.json
 * lists. Weights are mapped, not copied: what is not used is not read, a trained weight is the
 * process's own, and the file stays as it is; only those of 16 bits are converted to F32.
 * docs/auto_model.md tells what is renamed and refused. */
#ifndef BRASA_MODELS_AUTO_MODEL_H
#define BRASA_MODELS_AUTO_MODEL_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_auto_model_options {
    /* "BertModel", "BertForMaskedLM", ...; NULL: the first of the configuration's architectures, or
     * the base model if there are none. */
    const char *class_name;
    bool copy;        /* read into memory instead of mapping: safe if the file may change */
    bool all_missing; /* any key may be missing, not only those of heads and the pooler */
} br_auto_model_options;

/* What a loading found. Names joined by ", "; "" if none. They are as the file has them, which may
 * be anything: escape them before a terminal sees them. */
typedef struct br_auto_model_report {
    int64_t matched;   /* keys of the files that were used, renamed ones among them */
    int64_t converted; /* of those, from F16 or BF16 to F32 */
    int64_t renamed, missing, unexpected, ignored;
    char *converted_names;  /* "pooler.dense.weight from BF16" */
    char *renamed_names;    /* "bert.pooler.dense.weight as pooler.dense.weight" */
    char *missing_names;    /* weights that have new values, drawn from this thread's generator */
    char *unexpected_names; /* keys of the files that the class has no place for */
    char *ignored_names;    /* keys that old files have and no model needs */
} br_auto_model_report;

/* The module of the class that the options or the folder name: br_module_class() tells which. It is
 * in evaluation mode, as from_pretrained() leaves it; br_free_module() frees it. NULL and an error
 * that names the file and the key if anything is no good. `options` and `report` may be NULL; the
 * caller frees the report with br_auto_model_report_clear(). */
BR_API void *br_auto_model_load(const char *dir, const br_auto_model_options *options,
                                br_auto_model_report *report);
BR_API void br_auto_model_report_clear(br_auto_model_report *report);
/* The name of the i-th class that can be loaded, NULL behind the last. */
BR_API const char *br_auto_model_class(int i);

#ifdef __cplusplus
}
#endif
#endif
