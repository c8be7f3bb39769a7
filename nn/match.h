/* nn/match.h - which name of a source belongs to which name of a module. State dicts, weight files
 * and AutoModel are loaded through it.
 *
 * The module's names are those of br_state_dict(), in which a tied tensor has several names. Names
 * of the source may differ from them: the caller finds the module's name. */
#ifndef BR_MATCH_H
#define BR_MATCH_H

#include "nn/nn_internal.h"

typedef struct br__match {
    const br_named_list *own; /* the module's names; owned by the caller */
    int64_t *by_name;         /* indices of `own`, sorted by name */
    int64_t *source_of;       /* for each name of the module: index in the source, or -1 */
    int64_t n_source;
    int64_t *own_of; /* for each name of the source: index in `own`, or -1 */
} br__match;

/* Finds the module's name for name k of the source: sets *own to its index, or to -1 if there is
 * none. Returns false and an error on failure. */
typedef bool (*br__match_fn)(void *context, const br__match *m, int64_t k, int64_t *own);

/* Matches every name of the source. If several belong to one name of the module, source_of has the
 * first. Returns false and an error on failure. Call br__match_end() in either case. */
bool br__match_begin(br__match *m, const br_named_list *own, int64_t n_source, br__match_fn find,
                     void *context);
void br__match_end(br__match *m);
/* Returns the index of a name of the module, or -1. */
int64_t br__match_find(const br__match *m, const char *name);
/* Returns true if the module takes a value from name k of the source. */
bool br__match_uses(const br__match *m, int64_t k);

/* ---- Tied tensors ---------------------------------------------------------------------------- */

/* Returns the index in the source of a tensor under any of its names, or -1. */
int64_t br__match_source(const br__match *m, const br_tensor *own);
/* Returns the first name of the module before name i that has the same tensor and a source, or -1.
 */
int64_t br__match_tie(const br__match *m, int64_t i);
/* Gives each name without a source the source of a tied name. */
void br__match_share_ties(br__match *m);

/* ---- Reports --------------------------------------------------------------------------------- */

/* Names, joined by ", ". */
typedef struct br__names {
    int64_t count;
    br__text text;
} br__names;

/* Appends a name. More text about it can be appended to names->text. */
bool br__names_add(br__names *names, const char *name);
/* Moves the number of names and their text, which is NULL if allocation failed. The caller frees
 * the text with br_free(). */
void br__names_take(br__names *names, int64_t *count, char **text);

#endif
