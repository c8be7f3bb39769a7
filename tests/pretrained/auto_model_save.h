/* tests/pretrained/auto_model_save.h - saves recorded models in the test's folder, with the files
 * of another one. */
#ifndef BR_TESTS_PRETRAINED_AUTO_MODEL_SAVE_H
#define BR_TESTS_PRETRAINED_AUTO_MODEL_SAVE_H

#include "tests/pretrained/auto_model.h"

#include <jansson.h>
#include <sys/stat.h>

#define MODELS BRASA_TEST_DIR "/models/"

static const char pretraining[] = HF_BERT "/pretraining";

/* Saves a module in the test's folder, with the files of the folder `from`. */
static inline bool save_from(void *model, const char *from)
{
    return br_auto_model_save(folder(), model, BR_OPTIONS(br_auto_model_save, .from = from));
}

static inline void check_saved(void *model, const char *from)
{
    cr_assert(save_from(model, from), "%s", br_error_message());
    cr_assert_not(br_failed());
}

/* Loads a folder as the class, or as its own class. */
static inline void *load(const char *dir, const char *class_name)
{
    void *model =
        br_auto_model_load(dir, BR_OPTIONS(br_auto_model, .class_name = class_name), NULL);
    cr_assert(model, "%s", br_error_message());
    return model;
}

/* Checks that both files have the same bytes. */
static inline void check_same_file(const char *a, const char *b)
{
    size_t n, m;
    char *first = files_read(a, &n), *second = files_read(b, &m);
    cr_assert(n == m && memcmp(first, second, n) == 0, "%s differs from %s", a, b);
    free(first);
    free(second);
}

/* Checks that two modules have the same weights, and tie the same ones. */
static inline void check_same_weights(void *a, void *b)
{
    cr_assert_str_eq(br_module_class(a), br_module_class(b));
    br_named_list *x = br_state_dict(a), *y = br_state_dict(b);
    cr_assert_eq(x->count, y->count);
    for (int64_t i = 0; i < x->count; i++) {
        cr_assert_str_eq(x->items[i].name, y->items[i].name);
        cr_assert(br_equal(x->items[i].tensor, y->items[i].tensor), "%s", x->items[i].name);
        for (int64_t k = 0; k < i; k++)
            cr_assert_eq(x->items[i].tensor == x->items[k].tensor,
                         y->items[i].tensor == y->items[k].tensor, "%s", x->items[i].name);
    }
    br_named_list_free(x);
    br_named_list_free(y);
}

static inline json_t *read_json(const char *path)
{
    json_error_t error;
    json_t *value = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    cr_assert(value, "%s: %s", path, error.text);
    return value;
}

/* Writes the file `name` in the folder "source" of the test's folder, and returns the folder. */
static inline const char *write_source(const char *name, const char *text)
{
    static char path[300];
    snprintf(path, sizeof path, "%s", files_path("source"));
    mkdir(path, 0777);
    char file[600];
    snprintf(file, sizeof file, "%s/%s", path, name);
    files_write(file, text, strlen(text));
    return path;
}

/* Writes the source's config.json: a recorded folder's config.json, with the values of `changed`
 * for some keys. */
static inline const char *write_config(const char *base, const char *changed)
{
    char path[300];
    snprintf(path, sizeof path, MODELS "%s/config.json", base);
    json_t *config = read_json(path), *changes = json_loads(changed, 0, NULL);
    cr_assert(changes);
    const char *key;
    json_t *value;
    json_object_foreach(changes, key, value)
    {
        if (json_is_null(value))
            json_object_del(config, key);
        else
            json_object_set(config, key, value);
    }
    char *text = json_dumps(config, 0);
    const char *source = write_source("config.json", text);
    free(text);
    json_decref(config);
    json_decref(changes);
    return source;
}

/* Returns the recorded BERT's configuration. Its strings outlive the file's. */
static inline br_hf_bert_config bert_config(void)
{
    br_auto_config *config = br_auto_config_load(pretraining);
    br_hf_bert_config c = br_hf_bert_config_from(config);
    br_auto_config_free(config);
    c.hidden_act = "gelu";
    return c;
}

#endif
