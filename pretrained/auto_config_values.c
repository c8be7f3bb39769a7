/* pretrained/auto_config_values.c - values that follow from several keys or from the family: the
 * activation function, the number of tokens. */
#include "nn/nn_internal.h"
#include "pretrained/auto_config_internal.h"

#include <string.h>

const char *br_auto_config_activation(const br_auto_config *config, const char *key, bool *gated)
{
    static const char prefix[] = "gated-";
    const char *value = br_auto_config_string(config, key), *name = value;
    bool has_prefix = value && gated && strncmp(value, prefix, strlen(prefix)) == 0;
    if (has_prefix)
        name += strlen(prefix);
    const char *found = br__activation_name(name);
    char text[BR_REASON];
    if (name && !found)
        br__fail_file(BR_ERROR_FORMAT, "auto_config", br_auto_config_path(config),
                      "%s is \"%s\", %s", key, br_printable(value),
                      br__activation_reason(name, gated != NULL, text));
    if (gated)
        *gated = has_prefix;
    return found;
}

int64_t br_auto_config_max_tokens(const br_auto_config *config)
{
    if (!BR_LIVE("auto_config_max_tokens", config) || !config->family)
        return INT32_MAX;
    if (config->family->max_tokens)
        return config->family->max_tokens(config);
    bool limited = br_auto_config_has(config, "max_position_embeddings");
    return limited ? br_auto_config_size(config, "max_position_embeddings") : INT32_MAX;
}
