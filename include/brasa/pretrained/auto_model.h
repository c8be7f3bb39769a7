/* brasa/pretrained/auto_model.h - AutoModel: loads a pretrained model from a Hugging Face model
 * folder, and saves a model as such a folder.
 *
 *     br_hf_bert *bert = br_auto_model_load(
 *         "all-MiniLM-L6-v2", BR_OPTIONS(br_auto_model, .class_name = "BertModel"), NULL);
 *
 * The folder contains config.json, and model.safetensors or the shards that
 * model.safetensors.index.json lists. Weights are mapped, not copied: unused ones are not read, and
 * training changes private pages but never the file. Weights are converted, one at a time, only if
 * the model has another dtype than the file. docs/auto_model.md lists which keys are renamed and
 * which files are rejected. */
#ifndef BRASA_PRETRAINED_AUTO_MODEL_H
#define BRASA_PRETRAINED_AUTO_MODEL_H

#include <brasa/io.h>
#include <brasa/nn.h>
#include <brasa/pretrained/auto_config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The dtype that config.json names ("dtype" or "torch_dtype"); without it, the dtype of the first
 * floating-point weight in the files. */
#define BR_DTYPE_AUTO ((br_dtype)15)

typedef struct br_auto_model_options {
    size_t struct_size;
    /* "BertModel", "BertForMaskedLM", ...; NULL: the first of the configuration's architectures, or
     * the base model if it has none. */
    const char *class_name;
    /* The floating-point dtype of the model's weights, in which it computes. As in transformers,
     * the weights of T5's `wo` stay in f32 in a model of f16, which could not represent its
     * results. */
    br_dtype dtype;
    bool copy;               /* read into memory instead of mapping; safe if the file may change */
    bool allow_missing_keys; /* allow any key to be missing, not only those of heads and the pooler
                              */
    const char *adapter;     /* a folder with an adapter, for br_lora_load(); NULL: none */
    /* A JSON object, whose keys replace those of config.json, such as "{\"num_labels\": 3}", as in
     * br_auto_config_load_with(). NULL: none. */
    const char *overrides;
    /* Newly initialize weights whose shape in the files is not the model's, such as those of a head
     * for other labels. If it is false, they are an error. */
    bool ignore_mismatched_sizes;
} br_auto_model_options;
#define br_auto_model_default_fields \
    .struct_size = sizeof(br_auto_model_options), .dtype = BR_DTYPE_AUTO
BR_API br_auto_model_options br_auto_model_defaults(void);

/* The result of loading. Names are joined by ", "; "" if there are none. They come from the file
 * unchanged and may contain anything, so escape them before printing to a terminal. */
typedef struct br_auto_model_report {
    int64_t matched;   /* number of used keys of the files, including renamed ones */
    int64_t converted; /* number of those whose dtype is not the model's */
    int64_t renamed, missing, unexpected, ignored;
    int64_t untied; /* tied by the configuration, but with different values in the files */
    int64_t absent; /* listed by the index, but not in the file that it names */
    /* Number of missing weights of the base model's pooler, on which neither its last hidden state
     * nor the logits of language models depend. */
    int64_t missing_poolers;
    int64_t mismatched;     /* number of those with another shape, for ignore_mismatched_sizes */
    int64_t unknown;        /* unknown keys of config.json, which may change numbers */
    char *converted_names;  /* "pooler.dense.weight from BF16 to F32" */
    char *renamed_names;    /* "bert.pooler.dense.weight as pooler.dense.weight" */
    char *missing_names;    /* weights that were newly initialized by this thread's generator */
    char *mismatched_names; /* "classifier.weight F32 [2, 768] unlike [3, 768]"; also missing */
    char *unexpected_names; /* keys that are in the files, but not in the class */
    char *ignored_names;    /* unneeded keys: of old files, and copies of tied weights */
    char *untied_names;     /* "lm_head.weight unlike transformer.wte.weight" */
    char *unknown_names;
    char *absent_names; /* "cls.seq_relationship.bias in model-00002-of-00002.safetensors" */
} br_auto_model_report;

/* Loads a module of the class named by the options or the folder; br_module_class() returns its
 * name. `dir` may also be a GGUF file: its weights are dequantized, and the model is f32 unless the
 * options name another dtype. With the dtype BR_QUANTIZED, the matrices of Linear and Embedding
 * layers keep the file's blocks, are frozen, and other weights are f32. The module is in evaluation
 * mode, as after from_pretrained(). The caller frees it with br_module_free(), and the report with
 * br_auto_model_report_clear(). Returns NULL and an error that names the file and the key on
 * failure. `options` and `report` may be NULL.
 */
BR_API void *br_auto_model_load(const char *dir, const br_auto_model_options *options,
                                br_auto_model_report *report);
BR_API void br_auto_model_report_clear(br_auto_model_report *report);
/* Makes a module of a class from a configuration, as AutoModel.from_config() does, with new weights
 * from this thread's generator, in f32 and in training mode. `class_name` is as in
 * br_auto_model_options. The caller frees the module with br_module_free(). Returns NULL and an
 * error on failure. */
BR_API void *br_auto_model_new(const br_auto_config *config, const char *class_name);
/* Returns the name of the i-th class that can be loaded, or NULL after the last. */
BR_API const char *br_auto_model_class(int i);

/* Calls `visit` with each of the folder's open weight files: model.safetensors, or the files that
 * model.safetensors.index.json lists. They are closed before the function returns. Returns false
 * and an error if a file cannot be opened, a tensor is in two files, or `visit` returns false. */
BR_API bool br_auto_model_each_file(const char *dir,
                                    bool (*visit)(void *context, const br_safetensors *file),
                                    void *context);

typedef struct br_auto_model_save_options {
    size_t struct_size;
    /* The folder with the model's config.json, usually the one that the model was loaded from.
     * NULL: the folder that is written, which must have one. */
    const char *from;
    const char *overrides; /* replace keys of its config.json, as in br_auto_model_options */
} br_auto_model_save_options;
#define br_auto_model_save_default_fields .struct_size = sizeof(br_auto_model_save_options)
BR_API br_auto_model_save_options br_auto_model_save_defaults(void);

/* Saves a model of one of these classes as a folder that br_auto_model_load() and transformers
 * load, however the model was made:
 *
 *     br_auto_model_save("my-bert", br_base(bert),
 *                        BR_OPTIONS(br_auto_model_save, .from = "bert-base-uncased"));
 *
 * The folder and its parents are created if they are missing. It gets model.safetensors, and copies
 * of the files of `from` that belong to the tokenizer, to generation and to sentence-transformers.
 * It also gets config.json of `from`, with the model's class, dtype, vocab_size, labels and
 * tie_word_embeddings. Every other value must be the model's: a difference that changes shapes or
 * results is an error that names it. Other files stay, except shards of earlier weights. Returns
 * false and an error on failure. A full disk or a failed allocation leaves the old files, and each
 * file is replaced whole. docs/auto_model.md has the details. */
BR_API bool br_auto_model_save(const char *dir, br_module *model,
                               const br_auto_model_save_options *options);

#ifdef __cplusplus
}
#endif
#endif
