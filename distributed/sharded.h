/* distributed/sharded.h - the structs of sharded optimizers. */
#ifndef BR_SHARDED_H
#define BR_SHARDED_H

#include "distributed/data_parallel.h"

/* A parameter of a sharded optimizer. */
typedef struct br_shard_param {
    br_parallel_param *q;
    const char *name; /* in the optimizer */
    int group;
    int64_t from, count; /* this rank's elements */
    br_tensor *slice;    /* of them, owned; NULL: this rank has none */
    bool has_gradient;   /* in this step */
} br_shard_param;

struct br_sharded_optim {
    struct br_sharded_optim *next; /* of the same module */
    br_data_parallel *parallel;    /* NULL: it was freed */
    br_optim *optim;               /* of whole parameters, the caller's */
    const br_optim_kind *kind;
    br_optim *local;      /* of the slices; NULL before the first use, and for one rank */
    br_named_list *names; /* of the parameters */
    int n_params;
    br_shard_param *params;
};

/* Returns true if there is one rank: then the optimizer has no slices. */
static inline bool br__sharded_is_alone(const br_sharded_optim *s)
{
    return br_dist_size(s->parallel->group) == 1;
}
/* Checks the arguments of a function and creates this rank's slices. Errors are left pending, so
 * that the caller tells the other ranks of them. Returns false, when there is nobody to tell, if
 * `optim` is NULL or its module was freed. */
bool br__sharded_begin(const char *op, br_sharded_optim *optim);
void br__sharded_drop_slices(br_sharded_optim *s);
/* Returns an optimizer of the slices without state. */
br_optim *br__sharded_make_local(const br_sharded_optim *s);
/* Returns true if the list has a state of one of the parameters. */
bool br__sharded_has_state(const br_sharded_optim *s, const br_named_list *state);
/* Tells the other ranks of a pending error. Returns false on all ranks if one of them has one, or
 * if they have different numbers of states. */
bool br__sharded_agree(const char *op, const br_sharded_optim *s, int64_t n_states);
/* Returns a note that compares the function and the kind of the optimizer. */
br_dist_note br__sharded_note(const char *op, const br_sharded_optim *s);

#endif
