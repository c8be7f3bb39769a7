/* pretrained/auto_config_json.c - a configuration's values as JSON text. */
#include "io/json.h"
#include "pretrained/auto_config_internal.h"
#include "tensor/tensor_internal.h"

char *br_auto_config_file_json(const br_auto_config *config)
{
    static const char file_json[] = "auto_config_file_json";
    return br__required(file_json, "config", config)
               ? br__json_text(file_json, config->path, config->file)
               : NULL;
}

char *br_auto_config_default_json(const br_auto_config *config)
{
    static const char default_json[] = "auto_config_default_json";
    return br__required(default_json, "config", config)
               ? br__json_text(default_json, config->path, config->defaults)
               : NULL;
}
