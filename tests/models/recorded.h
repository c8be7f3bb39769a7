/* tests/models/recorded.h - loads models and results recorded from transformers. */
#ifndef BR_TESTS_MODELS_RECORDED_H
#define BR_TESTS_MODELS_RECORDED_H

#include "tests/support.h"

#include <brasa/brasa.h>
#include <stdio.h>
#include <unistd.h>

/* Loads a recorded model as the named class; NULL: the class that it was saved as. */
static inline void *load_recorded(const char *folder, const char *class_name)
{
    br_auto_model_options options = *BR_OPTIONS(br_auto_model, .class_name = class_name);
    void *module = br_auto_model_load(folder, &options, NULL);
    cr_assert(module, "%s", br_error_message());
    return module;
}

static inline br_safetensors *open_recorded(const char *path)
{
    br_safetensors *file = br_safetensors_open(path, NULL);
    cr_assert(file, "%s", br_error_message());
    return file;
}

/* Returns whether tests/models has a folder with a model of that name. */
static inline bool has_recorded(const char *folder)
{
    char path[500];
    snprintf(path, sizeof path, BRASA_TEST_DIR "/models/%s/config.json", folder);
    return access(path, R_OK) == 0;
}

/* Calls check for each family that has models in tests/models/decoders. */
static inline void for_each_decoder(void (*check)(const char *type))
{
    int families = 0;
    for (int i = 0; br_model_families[i]; i++) {
        char folder[100];
        snprintf(folder, sizeof folder, "decoders/%s0", br_model_families[i]->model_type);
        if (!has_recorded(folder))
            continue;
        check(br_model_families[i]->model_type);
        families++;
    }
    cr_assert_geq(families, 10);
}

/* Returns the largest absolute difference; INFINITY if there is a NaN. */
static inline double difference(br_tensor *a, br_tensor *b)
{
    cr_assert(a && b && br_same_shape(a, b), "%s", br_error_message());
    br_scope *scope = br_scope_begin();
    double d = br_item(br_max(br_abs(br_sub(a, b))));
    br_scope_end(scope);
    return isnan(d) ? INFINITY : d;
}

/* Returns a tensor of the file on the default device, in the test's scope. */
static inline br_tensor *recorded_in(const char *path, const char *name)
{
    br_safetensors *file = open_recorded(path);
    br_tensor *t = br_to_device(br_safetensors_get(file, name), br_get_default_device());
    br_safetensors_close(file);
    cr_assert(t, "%s", br_error_message());
    return t;
}

#endif
