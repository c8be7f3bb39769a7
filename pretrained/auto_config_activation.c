/* pretrained/auto_config_activation.c - reads the name of an activation function. */
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
