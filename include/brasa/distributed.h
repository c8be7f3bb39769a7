/* brasa/distributed.h - training with several processes, on one machine or many, over MPI.
 *
 * Start the program with `mpirun -n N program`. Each of the N processes (ranks) runs the whole
 * program on its own part of the data:
 *
 *     br_dist_init(NULL);
 *     br_data_parallel *parallel = br_data_parallel_new(model, NULL);
 *     ... every br_backward() now averages the gradients of all ranks ...
 *     br_data_parallel_free(parallel);
 *     br_dist_finalize();
 *
 * Results do not depend on timing: sums are computed in the order of the ranks, so they are the
 * same bits on every rank and in every run. A collective function must be called by every rank of
 * its group in the same order. If the ranks disagree, if a rank has a pending error, or if a rank
 * has died or stopped, the function fails on every rank with an error that names the rank. After
 * such a failure no more communication is possible; save what is needed and end the program. */
#ifndef BRASA_DISTRIBUTED_H
#define BRASA_DISTRIBUTED_H

#include <brasa/distributed/comm.h>
#include <brasa/optim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Starting and ending --------------------------------------------------------------------- */

/* A group of ranks. NULL stands for all ranks. */
typedef struct br_dist_group br_dist_group;

typedef struct br_dist_options {
    size_t struct_size;
    double timeout; /* seconds that a call waits for other ranks before it fails; 0: no limit */
    /* Seconds without a sign of life after which a rank counts as stopped, for example because its
     * machine is off; the value of rank 0 counts. Ranks that have died are found at once. 0: signs
     * of life are not sent, and the death of a rank may be found only after `timeout`. */
    double watch_limit;
    /* Communicate in a thread of its own, while the program computes. Otherwise each call
     * communicates in its caller's thread. MPI must have been initialized with
     * MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE, or not at all. */
    bool progress_thread;
    /* A transport to use instead of MPI, which br_dist_finalize() ends; also br_dist_init(), if the
     * ranks cannot be connected. The struct is copied. */
    br_comm *comm;
} br_dist_options;
#define br_dist_default_fields                                                  \
    .struct_size = sizeof(br_dist_options), .timeout = 1800, .watch_limit = 10, \
    .progress_thread = true
BR_API br_dist_options br_dist_defaults(void);

/* Initializes MPI, unless the program has done so, and connects all ranks. A program that was not
 * started by mpirun is the only rank. Fails if the ranks run different versions of the library.
 * Each rank also connects with rank 0 by TCP, to learn of ranks that die or stop. If it cannot,
 * rank 0 raises a warning.
 * Divides the processors that ranks of a machine share among them, unless br_set_num_threads() was
 * called. Does nothing if it was called before. `options` may be NULL. */
BR_API bool br_dist_init(const br_dist_options *options);
/* Waits for the other ranks and ends communication. Finalizes MPI if br_dist_init() initialized it.
 * If an error is pending, tells it to the other ranks instead of waiting for them, and their next
 * calls fail. Groups and data-parallel modules must be freed before. */
BR_API void br_dist_finalize(void);
BR_API bool br_dist_is_initialized(void);
/* Returns the name and version of the library that communicates, such as "Open MPI v4.1.4"; "" if
 * there is only one process. The string lives until br_dist_finalize(). */
BR_API const char *br_dist_library(void);

/* Returns whether a launcher such as mpirun started this process as one of several ranks, which is
 * known before br_dist_init(). Stores this process's rank in *rank unless that is NULL; -1 if the
 * launcher does not tell. */
BR_API bool br_dist_is_launched(int *rank);

/* Return this process's number in the group, counted from 0, and the number of ranks. Without
 * br_dist_init() they are 0 and 1. */
BR_API int br_dist_rank(const br_dist_group *group);
BR_API int br_dist_size(const br_dist_group *group);

/* Splits a group: ranks with the same color, at least 0, form a new group, ordered by `key` and
 * then by their old rank. A rank with a color of -1 gets NULL without an error. Collective. */
BR_API br_dist_group *br_dist_split(br_dist_group *group, int color, int key);
BR_API void br_dist_group_free(br_dist_group *group);

/* ---- Collectives ----------------------------------------------------------------------------- */

/* The functions below accept tensors of any dtype and any strides, and do nothing in a group of one
 * rank. They return false or NULL and set an error on failure. They are not recorded for backward.
 */

typedef enum br_dist_reduction {
    BR_DIST_SUM,  /* in the order of the ranks; not for bool */
    BR_DIST_MEAN, /* the sum divided by the number of ranks; floating-point only */
    BR_DIST_MAX,  /* NaN if any rank has NaN; logical or for bool */
    BR_DIST_MIN,  /* NaN if any rank has NaN; logical and for bool */
} br_dist_reduction;

/* Waits until every rank has called it. */
BR_API bool br_dist_barrier(br_dist_group *group);
/* Copies rank `source`'s t into every other rank's t, in place. */
BR_API bool br_dist_broadcast(br_tensor *t, int source, br_dist_group *group);
/* Replaces t by the reduction of every rank's t. */
BR_API bool br_dist_all_reduce(br_tensor *t, br_dist_reduction reduction, br_dist_group *group);
/* Returns a tensor with one more dimension in front: element r is rank r's t. */
BR_API br_tensor *br_dist_all_gather(br_tensor *t, br_dist_group *group);
/* Reduces t [size, ...], whose first dimension is the number of ranks, and returns element `rank`
 * of the result: what br_dist_all_reduce() and a selection would give, at half the communication.
 */
BR_API br_tensor *br_dist_reduce_scatter(br_tensor *t, br_dist_reduction reduction,
                                         br_dist_group *group);
/* Sends element r of t [size, ...], whose first dimension is the number of ranks, to rank r.
 * Returns a tensor of the same shape: element r is what rank r sent. */
BR_API br_tensor *br_dist_all_to_all(br_tensor *t, br_dist_group *group);
/* Send t to one rank, and receive t from one. The shapes and dtypes must agree; the receiver's call
 * fails if they do not. Messages between two ranks with the same tag (0 .. 32767) arrive in order;
 * those with other tags that arrive first are kept in memory. br_dist_send() may wait until the
 * message is received. Only the two ranks call them. */
BR_API bool br_dist_send(br_tensor *t, int destination, int tag, br_dist_group *group);
BR_API bool br_dist_recv(br_tensor *t, int source, int tag, br_dist_group *group);

/* ---- Progress -------------------------------------------------------------------------------- */

/* Tells the other ranks which step of a training run this rank has begun, counted from 1. Errors
 * about a rank that died or stopped then name its step. */
BR_API void br_dist_set_step(int64_t step);
/* Returns the step of br_dist_set_step(); 0: none. A signal handler may call it. */
BR_API int64_t br_dist_step(void);
/* Returns the name of the function in which a thread of this process waits for another rank, such
 * as "dist_barrier", and stores that rank in *rank unless that is NULL. Returns NULL, without an
 * error, if none waits. A signal handler may call it. */
BR_API const char *br_dist_waits_in(int *rank);

/* ---- Data-parallel modules ------------------------------------------------------------------- */

typedef struct br_data_parallel_options {
    size_t struct_size;
    br_dist_group *group;
    /* BR_DIST_MEAN averages the gradients of the ranks, as PyTorch does. With BR_DIST_SUM one
     * backward pass on N ranks adds to the gradients what N passes, one after the other, would add
     * in one process: the same bits. */
    br_dist_reduction reduction;
    double bucket_cap_mb;       /* gradients are sent in buckets of this many MiB */
    double first_bucket_cap_mb; /* of the bucket that is sent first */
    bool forward_sync_buffers;  /* copy rank 0's buffers to all ranks at each forward pass of the
                                module, in training mode */
    /* Give each rank only its part of the gradients, which a sharded optimizer needs (ZeRO stage
     * 2). The parameters then have no gradients (br_grad_of()): clip them with
     * br_data_parallel_clip_grad_norm_(), and drop them with br_sharded_optim_zero_grad(). All
     * ranks must make the same number of passes. */
    bool scatter;
} br_data_parallel_options;
#define br_data_parallel_default_fields                                         \
    .struct_size = sizeof(br_data_parallel_options), .reduction = BR_DIST_MEAN, \
    .bucket_cap_mb = 25, .first_bucket_cap_mb = 1, .forward_sync_buffers = true
BR_API br_data_parallel_options br_data_parallel_defaults(void);

/* Keeps a module's gradients equal on all ranks, like torch.nn.parallel.DistributedDataParallel.
 * The constructor copies rank 0's parameters and buffers to the other ranks. Afterwards every
 * backward pass that reaches parameters of the module reduces their gradients over the ranks, in
 * buckets, while it still computes other gradients. The gradients are then views of the buckets.
 * Every rank must make the same number of such passes; see br_data_parallel_join(). A parameter
 * that a pass does not reach on any rank keeps its gradient.
 *
 * All parameters must be created before. The module must outlive the object. Collective. */
typedef struct br_data_parallel br_data_parallel;
BR_API br_data_parallel *br_data_parallel_new(br_module *module,
                                              const br_data_parallel_options *options);
BR_API void br_data_parallel_free(br_data_parallel *parallel);
/* Turns the reduction off and on. While it is off, passes add to this rank's own gradients; the
 * first pass after it was turned on again reduces the sums. */
BR_API void br_data_parallel_set_sync(br_data_parallel *parallel, bool sync);
/* Call it when this rank has no more data, while other ranks may still train. Takes part in their
 * reductions without contributing, until all ranks have called it; then copies parameters and
 * buffers from the last rank that had data. A mean is still divided by the number of all ranks. */
BR_API bool br_data_parallel_join(br_data_parallel *parallel);
/* Scales the gradients as br_clip_grad_norm_() does in one process, and returns the same norm.
 * Collective. */
BR_API double br_data_parallel_clip_grad_norm_(br_data_parallel *parallel, double max_norm,
                                               double norm_type, bool error_if_nonfinite);

/* ---- Sharded optimizers ---------------------------------------------------------------------- */

/* An optimizer whose state is split among the ranks (ZeRO stage 1, Rajbhandari et al., 2020; stage
 * 2 with the option `scatter`):
 *
 *     br_optim *optim = br_adamw(model, NULL);
 *     br_sharded_optim *sharded = br_sharded_optim_new(parallel, optim);
 *     ... br_sharded_optim_step(sharded) instead of br_optim_step(optim) ...
 *
 * Each rank keeps the state of about 1/N of the elements and updates them; then the ranks exchange
 * the new parameters. The results have the same bits as those of br_optim_step(). Kinds that are
 * not `elementwise`, such as Muon, keep the state of each parameter on one rank.
 *
 * `optim` gives the kind, the parameters and, at each step, the options of the groups, so that
 * schedulers use it. It holds no state and must not be stepped. */
typedef struct br_sharded_optim br_sharded_optim;
/* Creates a sharded optimizer. The parameters of `optim` must be parameters of the data-parallel
 * module; several optimizers may share them out. State that `optim` has moves into the sharded
 * optimizer. `parallel` and `optim` must outlive it. Create all sharded optimizers before the first
 * step and, with `scatter`, before the first pass. Collective. */
BR_API br_sharded_optim *br_sharded_optim_new(br_data_parallel *parallel, br_optim *optim);
BR_API void br_sharded_optim_free(br_sharded_optim *optim);
/* Drops the gradients of the optimizer's parameters. Every rank must call it. */
BR_API void br_sharded_optim_zero_grad(br_sharded_optim *optim);
/* Updates every parameter that has a gradient. Collective. */
BR_API bool br_sharded_optim_step(br_sharded_optim *optim);
/* Returns the whole state on rank `destination`, and an empty list on the others: the names, shapes
 * and values that br_optim_state_dict() returns in one process. To save an ordinary checkpoint,
 * load it into an optimizer of that rank with br_optim_load_state_dict(). The list owns its
 * tensors; the caller frees it. Collective. */
BR_API br_named_list *br_sharded_optim_state_dict(br_sharded_optim *optim, int destination);
/* Loads a whole state, which every rank must pass; the number of ranks that saved it does not
 * matter. A state that does not match is an error and changes nothing. Collective. */
BR_API bool br_sharded_optim_load_state_dict(br_sharded_optim *optim, const br_named_list *state);

#ifdef __cplusplus
}
#endif
#endif
