/* models/families.c - the families of models that AutoModel knows. */
#include "models/models_internal.h"

const br_model_family *const br_model_families[] = {
    &zoo_hf_bert_family,
    &zoo_gpt2_family,
    &zoo_t5_family,
    NULL,
};
