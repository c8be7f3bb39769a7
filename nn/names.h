/* nn/names.h - similar names, for messages about names and patterns that match nothing. */
#ifndef BR_NN_NAMES_H
#define BR_NN_NAMES_H

#include <brasa/nn/named_list.h>

/* Returns the number of letters to insert, remove, replace or swap with their neighbour that turns
 * a into b (optimal string alignment), or INT_MAX if a text has more than BR_LONGEST_NAME letters.
 * A '*' in a stands for any letters. */
enum { BR_LONGEST_NAME = 96 };
int br__edit_distance(const char *a, size_t n, const char *b, size_t m);
/* Returns the most similar name in the list, or NULL if the list is empty. If `near` is set, the
 * distance must be at most a third of the letters of `given`, and at least 1. */
const char *br__nearest_name(const br_named_list *list, const char *given, bool near);

#endif
