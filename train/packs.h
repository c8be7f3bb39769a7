/* train/packs.h - puts short examples together, so that each pack has at most so many tokens. */
#ifndef BRASA_TRAIN_PACKS_H
#define BRASA_TRAIN_PACKS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct packs {
    int64_t count;
    int64_t *ends;    /* where the members of each pack end */
    int64_t *members; /* numbers of examples */
} packs;

/* Packs n examples of 1 .. limit tokens, the longest first, each into the fullest pack that has
 * room for it: "best-fit decreasing". `p` begins as all zero. Returns false with an error if memory
 * runs out. Call packs_free() in either case. */
bool packs_make(packs *p, int64_t n, const int64_t *lengths, int64_t limit);
void packs_free(packs *p);

/* Returns the number of members of pack i, and their numbers in *members. */
int64_t packs_members(const packs *p, int64_t i, const int64_t **members);

#endif
