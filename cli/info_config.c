/* cli/info_config.c - `brasa info` for a model's configuration: the keys of the file, and the keys
 * with default values. */
#include "cli/info.h"

#include <brasa/pretrained.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* A configuration as JSON objects: the keys of the file, and those with default values. */
typedef struct facts {
    const char *path, *model_type;
    json_t *file, *defaults;
} facts;

/* Takes the ownership of `text`. Returns NULL with an error on failure. */
static json_t *parse(char *text)
{
    json_t *object = text ? json_loads(text, 0, NULL) : NULL;
    if (text && !object)
        br_raise(BR_ERROR_MEMORY, "info: cannot allocate memory for the configuration");
    br_free(text);
    return object;
}

/* ---- Plain output ---------------------------------------------------------------------------- */

static int width_of_keys(json_t *object, int width)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        width = info_widen(width, br_printable(key));
    }
    return width;
}

/* Prints the members, one per line. With 15 digits, 0.1 is printed as 0.1. */
static void print_members(json_t *object, int width)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        if (!text) {
            br_raise(BR_ERROR_MEMORY, "info: cannot allocate memory for the values");
            return;
        }
        printf("  ");
        info_padded(br_printable(key), width);
        printf("  ");
        info_value(text);
        printf("\n");
        free(text);
    }
}

static void print_config(const facts *f)
{
    char size[32];
    printf("%s: configuration, %s%s, %s\n\n", br_printable(f->path),
           f->model_type ? "model type " : "no model type",
           f->model_type ? br_printable(f->model_type) : "",
           info_size((double)info_file_size(f->path), size, sizeof size));
    int width = width_of_keys(f->defaults, width_of_keys(f->file, 0));
    print_members(f->file, width);
    printf("\nBy default\n");
    print_members(f->defaults, width);
}

/* ---- JSON output ----------------------------------------------------------------------------- */

static void print_json(const facts *f, const char *dir)
{
    json_t *object = json_pack("{s:o, s:I, s:s?, s:O, s:O}", "path", info_text_object(f->path),
                               "bytes", (json_int_t)info_file_size(f->path), "model_type",
                               f->model_type, "config", f->file, "defaults", f->defaults);
    if (object && dir)
        info_folder(dir, object);
    if (!object || json_dumpf(object, stdout, JSON_COMPACT) != 0)
        br_raise(BR_ERROR_MEMORY, "info: cannot write the JSON object");
    printf("\n");
    json_decref(object);
}

/* ---------------------------------------------------------------------------------------------- */

void info_config(const char *path, bool json)
{
    br_auto_config *config = br_auto_config_load(path);
    struct stat st;
    const char *dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? path : NULL;
    facts f = { 0 };
    if (config)
        f = (facts){ .path = br_auto_config_path(config),
                     .model_type = br_auto_config_model_type(config),
                     .file = parse(br_auto_config_file_json(config)),
                     .defaults = parse(br_auto_config_default_json(config)) };
    bool ok = f.file && f.defaults;
    if (ok && json)
        print_json(&f, dir);
    else if (ok)
        print_config(&f);
    if (ok && dir && !json)
        info_folder(dir, NULL);
    json_decref(f.file);
    json_decref(f.defaults);
    br_auto_config_free(config);
}
