/* models/t5_internal.h - what T5's files share. */
#ifndef BR_T5_INTERNAL_H
#define BR_T5_INTERNAL_H

#include "models/models_internal.h"

#include <brasa/models/t5.h>

/* A good configuration; or, with an error pending, one with which constructors run to their end
 * without effect. */
br_t5_config br__t5_checked(const br_t5_config *config);
/* Gives a weight its first value, by a br_t5_config. */
bool br__t5_init(const void *config, const char *key, br_tensor *weight);
/* The numbers of the buckets that `n` queries, behind `past` others, see `keys` keys in: i64 [n,
 * keys]. */
br_tensor *br__t5_buckets(const br_t5_config *c, bool is_decoder, int64_t past, int64_t n,
                          int64_t keys);

#endif
