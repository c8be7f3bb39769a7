/* distributed/data_parallel.h - the structs of data-parallel modules. */
#ifndef BR_DATA_PARALLEL_H
#define BR_DATA_PARALLEL_H

#include "distributed/distributed_internal.h"
#include "distributed/states.h"

#include <xxhash.h>

enum { BR_BUCKET_MAX_PARAMS = BR_DIST_MAX_BITS / 2 }; /* two bits for each in an agreement */

/* A parameter and its place in a bucket. */
typedef struct br_parallel_param {
    struct br_data_parallel *owner;
    br_tensor *param; /* owned */
    const char *name; /* of the list of parameters */
    br_tensor *view;  /* its gradient in the bucket's memory, owned; NULL with `scatter` */
    br_param_state state;
    struct br_bucket *bucket;
    int place;             /* index among the bucket's parameters */
    int64_t arrival;       /* this pass: its place in the order of arrival, or -1 */
    int64_t offset, numel; /* in elements */
    uint64_t hook, accumulated_hook, partial_hook;
    int next_bucket;   /* while buckets are made: the number of its bucket */
    bool has_partial;  /* the first pass knew the greater part of its gradient early */
    bool whole;        /* belongs to one rank's part as a whole */
    bool has_gradient; /* set by the bucket's job: there is one after the pass. With `scatter`, the
                          bucket's `part` holds it. */
} br_parallel_param;

/* A gradient that is sent before it is complete (distributed/early.c). */
typedef struct br_early {
    br_dist_job job; /* corrects the rows that have changed since */
    struct br_bucket *bucket;
    int64_t rows, width;   /* sizes of the gradient: rows of `width` elements */
    XXH128_hash_t *hashes; /* of the rows as this rank has sent them */
    bool sent_by_any;      /* set by the bucket's job: a rank's bucket did */
    int64_t replaced;      /* set by the job: number of rows that it corrected */
    br_tensor *gradient;   /* this rank's complete gradient, contiguous, owned; NULL: none came */
    size_t bytes;          /* of a set of rows, one bit for each */
    uint8_t *changed;      /* such a set for each rank: the rows that differ from what was sent */
    char error[BR_DIST_TEXT];
} br_early;

/* Gradients that are sent together. */
typedef struct br_bucket {
    br_dist_job job;
    struct br_data_parallel *owner;
    br_bucket_state state;
    int number, n_params, waiting; /* waiting: parameters whose gradients have not arrived */
    br_parallel_param **params;
    br_dtype dtype;
    int64_t n;           /* elements, with the gaps between parameters */
    br_dist_part *parts; /* of each rank */
    br_tensor *memory;   /* of the gradients, owned; NULL with `scatter` */
    br_tensor *part;     /* with `scatter`: this rank's part of the gradients, owned */
    char *data;          /* of `memory`, or NULL */
    char *own;           /* this rank's part of the gradients */
    br_tensor *copy;     /* memory for this rank's contribution, owned: with `scatter`, and if
                            `memory` holds gradients of earlier passes; otherwise NULL */
    char *send;          /* what this rank contributes: `data` or the data of `copy` */
    bool alone;          /* its only parameter may be sent early */
    br_early *early;     /* if `alone`, owned; otherwise NULL */
    uint8_t bits[BR_DIST_MAX_BITS / 8]; /* by parameter: arrived; then: `memory` holds a gradient */
    char error[BR_DIST_TEXT];           /* this rank's error, or "" */
    uint64_t flags;
    bool all_joined; /* set by the job */
} br_bucket;

struct br_data_parallel {
    br_dist_group *group;
    br_module *module;
    br_dist_reduction reduction;
    double cap, first_cap; /* MiB */
    br_named_list *list, *buffers;
    int n_params, n_buckets;
    br_parallel_param *params;
    br_bucket *buckets;
    bool sync, in_pass, in_arrival_order;
    bool scatter;                     /* each rank keeps the gradients of its parts only */
    bool fixed;                       /* the buckets and their parts do not change any more */
    struct br_sharded_optim *sharded; /* list of the optimizers */
    int started;                      /* buckets whose jobs this pass has started, in their order */
    int n_arrived;                    /* in this pass */
    int64_t *order;                   /* numbers of the parameters in the order of arrival */
    int active;                       /* a rank that had data in the last pass */
    uint64_t buffer_hook;
};

/* Flags of a bucket's agreement: the rank has no more data; it sends a partial gradient. */
enum { BR_JOINED = 1, BR_PARTIAL = 2 };

/* Cuts the parameters, in the order order[], into buckets. Gradients of the old buckets move. */
bool br__parallel_make_buckets(br_data_parallel *p, const int64_t *order);
void br__parallel_free_buckets(br_data_parallel *p);
/* Returns true if the module is live. Otherwise records an error, unless one is pending. A pending
 * error does not matter: the caller must tell the other ranks of it. */
bool br__parallel_is_usable(const char *op, const br_data_parallel *parallel);
/* The job of a bucket (distributed/bucket.c). */
void br__bucket_run(br_dist_job *job);
/* Frees the bucket's copy. */
void br__bucket_drop_copy(br_bucket *b);
/* Adds elements [from, to) of the ranks whose bit i of the last agreement is set, in the order of
 * the ranks, and divides the sum if the reduction is the mean. received[r * n ..] are rank r's
 * elements. Adds to `sum`, or, if it is NULL, to the first rank's elements. Returns the sum; NULL
 * if no bit is set. */
char *br__bucket_sum(const br_bucket *b, int i, char *sum, char *received, int64_t n, int64_t from,
                     int64_t to);

/* In the functions below, `early` may be NULL, for a bucket that cannot be sent early: they then do
 * nothing.
 *
 * Creates what a bucket with one parameter needs to be sent early. Returns NULL on error. */
br_early *br__early_new(br_bucket *b);
void br__early_free(br_early *early);
/* This rank's partial gradient is in the bucket and will be sent. */
void br__early_sends(br_early *early);
/* Keeps this rank's complete gradient and, if a part of it was sent early, finds the rows that were
 * sent with other values. */
void br__early_complete(br_early *early, br_tensor *grad);
/* Starts the corrections of all buckets that may have been sent early, after all buckets. */
void br__early_start(br_data_parallel *p);
/* Waits for them, and ends the pass for these buckets. Returns false on error. */
bool br__early_wait(br_data_parallel *p);

/* Cuts the buckets into parts of the ranks, so that each rank has about the same number of bytes
 * (distributed/parts.c). */
bool br__parallel_cut(br_data_parallel *p);
/* With `scatter`, creates the memory for this rank's part of the gradients, unless it exists. */
bool br__bucket_make_part(br_bucket *b);
/* Returns the elements [from, from + count) of the parameter that belong to the rank's part. A
 * parameter without elements belongs to rank 0. Returns false if the rank has none of it. */
bool br__parallel_slice(const br_parallel_param *q, int rank, int64_t *from, int64_t *count);
/* Returns these elements of t: t itself, detached, or a 1-d view. Copies t if it is cut and not
 * contiguous. */
br_tensor *br__parallel_slice_of(br_tensor *t, int64_t from, int64_t count);
/* Returns true if the parameter has a gradient. */
bool br__parallel_has_gradient(const br_parallel_param *q);
/* Returns this rank's slice of the parameter's gradient, or NULL, without an error, if there is
 * none. */
br_tensor *br__parallel_gradient(const br_parallel_param *q, int64_t from, int64_t count);

#endif
