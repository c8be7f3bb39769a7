/* cli/info_config.c - `brasa info` for a model's configuration: the keys of the file, and the keys
 * with default values. */
#include "cli/info.h"
#include "io/io_internal.h"
#include "pretrained/auto_config_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

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

static void print_config(const br_auto_config *config)
{
    char size[32];
    const char *type = br_auto_config_model_type(config);
    printf("%s: configuration, %s%s, %s\n\n", br_printable(config->path),
           type ? "model type " : "no model type", type ? br_printable(type) : "",
           info_size((double)config->bytes, size, sizeof size));
    int width = width_of_keys(config->defaults, width_of_keys(config->file, 0));
    print_members(config->file, width);
    printf("\nBy default\n");
    print_members(config->defaults, width);
}

/* ---- JSON output ----------------------------------------------------------------------------- */

static void print_json(const br_auto_config *config, const char *dir)
{
    json_t *object =
        json_pack("{s:o, s:I, s:s?, s:O, s:O}", "path", info_text_object(config->path), "bytes",
                  (json_int_t)config->bytes, "model_type", br_auto_config_model_type(config),
                  "config", config->file, "defaults", config->defaults);
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
    if (config && json)
        print_json(config, dir);
    else if (config)
        print_config(config);
    if (config && dir && !json)
        info_folder(dir, NULL);
    br_auto_config_free(config);
}
