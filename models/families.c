/* models/families.c - the families of models that AutoModel knows. */
#include "models/models_internal.h"

#define ADDRESS_OF(name) &zoo_##name##_family,
const br_model_family *const br_model_families[] = { ZOO_FAMILIES(ADDRESS_OF) NULL };
