/* tests/pretrained/auto_model.h - writes folders as on the Hugging Face Hub with the recorded BERT,
 * and loads them. */
#ifndef BR_TESTS_PRETRAINED_AUTO_MODEL_H
#define BR_TESTS_PRETRAINED_AUTO_MODEL_H

#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/models/hf_bert.h"

/* Returns the test's temporary folder. */
static inline const char *folder(void)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", files_path(""));
    path[strlen(path) - 1] = '\0';
    return path;
}

static inline void copy_config(void)
{
    size_t n;
    char *text = files_read(HF_BERT "/pretraining/config.json", &n);
    files_write(files_path("config.json"), text, n);
    free(text);
}

/* Returns the recorded model's tensors; the caller frees the list. */
static inline br_named_list *recorded_tensors(void)
{
    br_safetensors *file = open_recorded(HF_BERT "/pretraining/model.safetensors");
    br_named_list *list = br_safetensors_all(file);
    br_safetensors_close(file);
    return list;
}

/* Writes tensors from .. end-1 of the list, renamed by `rename` if that is not NULL. */
static inline void save_some(const char *name, const br_named_list *list, int64_t from, int64_t end,
                             void (*rename)(char out[200], const char *key))
{
    static char names[100][200];
    br_named_tensor items[100];
    br_named_list some = { end - from, items };
    for (int64_t i = from; i < end; i++) {
        if (rename)
            rename(names[i], list->items[i].name);
        else
            snprintf(names[i], sizeof names[i], "%s", list->items[i].name);
        items[i - from] = (br_named_tensor){ names[i], list->items[i].tensor };
    }
    cr_assert(br_safetensors_save(files_path(name), &some, 0, NULL), "%s", br_error_message());
}

static inline void save_renamed(void (*rename)(char out[200], const char *key))
{
    copy_config();
    br_named_list *list = recorded_tensors();
    save_some("model.safetensors", list, 0, list->count, rename);
    br_named_list_free(list);
}

static inline void *load_folder(const char *class_name, br_auto_model_report *report)
{
    return br_auto_model_load(folder(), BR_OPTIONS(br_auto_model, .class_name = class_name),
                              report);
}

/* Checks that the pooled output for the recorded inputs is the recorded one. */
static inline void check_pooled(br_hf_bert *bert)
{
    br_scope *scope = br_scope_begin();
    br_safetensors *file = open_recorded(HF_BERT "/expected.safetensors");
    br_tensor *pooled = NULL;
    br_hf_bert_options o = *BR_OPTIONS(
        br_hf_bert, .attention_mask = br_safetensors_get(file, "attention_mask"),
        .token_type_ids = br_safetensors_get(file, "token_type_ids"), .pooler_output = &pooled);
    br_hf_bert_forward(bert, br_safetensors_get(file, "input_ids"), &o);
    double d = difference(pooled, br_safetensors_get(file, "pooler_output"));
    cr_assert(d <= 4e-6, "off by %g", d);
    br_safetensors_close(file);
    br_scope_end(scope);
}

#endif
