/* distributed/data_parallel.h - the structs of data-parallel modules. */
#ifndef BR_DATA_PARALLEL_H
#define BR_DATA_PARALLEL_H

#include "distributed/distributed_internal.h"

enum { BR_BUCKET_MAX_PARAMS = BR_DIST_MAX_BITS / 2 }; /* two bits for each in an agreement */

/* A parameter and its place in a bucket. */
typedef struct br_parallel_param {
    struct br_data_parallel *owner;
    br_tensor *param; /* owned */
    const char *name; /* of the list of parameters */
    br_tensor *view;  /* its gradient in the bucket's memory, owned; NULL with `scatter` */
    struct br_bucket *bucket;
    int place;             /* index among the bucket's parameters */
    int64_t offset, numel; /* in elements */
    uint64_t hook, accumulated_hook;
    int next_bucket;   /* while buckets are made: the number of its bucket */
    bool whole;        /* belongs to one rank's part as a whole */
    bool has_gradient; /* set by the bucket's job: there is one after the pass. With `scatter`, the
                          bucket's `part` holds it. */
    bool unsynced;     /* its gradient includes passes that were not reduced */
    bool arrived;      /* this pass: its gradient was copied into the bucket */
} br_parallel_param;

/* Gradients that are sent together. */
typedef struct br_bucket {
    br_dist_job job;
    struct br_data_parallel *owner;
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
    bool prepared, launched;
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
    int launched;   /* buckets launched in this pass; they are launched in their order */
    int n_arrived;  /* in this pass */
    int64_t *order; /* numbers of the parameters in the order of arrival */
    int active;     /* a rank that had data in the last pass */
    uint64_t buffer_hook;
};

/* A flag of a bucket's agreement: the rank has no more data. */
enum { BR_JOINED = 1 };

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
/* The data-parallel module is freed (distributed/sharded_optim.c). */
void br__sharded_forget(br_data_parallel *p);

#endif
