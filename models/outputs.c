/* models/outputs.c - the optional outputs of a forward. */
#include "models/models_internal.h"

void zoo_clear_outputs(zoo_outputs o)
{
    for (int64_t i = 0; o.hidden_states && i <= o.layers; i++)
        o.hidden_states[i] = NULL;
    for (int64_t i = 0; o.attentions && i < o.layers; i++)
        o.attentions[i] = NULL;
}

void zoo_return_outputs(zoo_outputs o)
{
    for (int64_t i = 0; o.hidden_states && i <= o.layers; i++)
        br_scope_return(NULL, o.hidden_states[i]);
    for (int64_t i = 0; o.attentions && i < o.layers; i++)
        br_scope_return(NULL, o.attentions[i]);
}
