/* train/ranks.h - a run by several processes (ranks). Each has the whole model and computes some of
 * the batches of a step. The results are those of one process with the same number of batches per
 * step, to the bit: gradients and losses are summed in the order of the batches. */
#ifndef BRASA_TRAIN_RANKS_H
#define BRASA_TRAIN_RANKS_H

#include <brasa/brasa.h>
#include <brasa/distributed.h>

typedef struct ranks {
    int rank, size;
    br_data_parallel *parallel; /* NULL: there is one rank */
    br_sharded_optim *sharded;  /* NULL: each rank has the whole state of the optimizer */
} ranks;

/* The ZeRO stages: what is divided among the ranks. */
enum { ZERO_NOTHING, ZERO_STATE, ZERO_GRADIENTS };

/* Returns this process's rank and the number of ranks; br_dist_init() was called before if there
 * are several. */
ranks ranks_here(void);
/* Copies rank 0's model to the other ranks, and makes backward sum the gradients of all ranks.
 * `stage` is one of ZERO_...; with ZERO_STATE or more, the state of `optim` moves to the ranks.
 * Does nothing with one rank. All functions below return false with an error on failure. */
bool ranks_begin(ranks *r, br_module *model, br_optim *optim, int64_t stage);
void ranks_end(ranks *r);
/* Tells the other ranks that this one begins a step, counted from 1. If it dies, they name the
 * step. */
void ranks_note_step(const ranks *r, int64_t step);
/* Returns which rank has died or stopped, and in which step, if that is why an error is pending;
 * otherwise NULL. The process must then end with _exit(): MPI would wait for the rank. */
const char *ranks_dead(void);
/* Fails on every rank if `value` differs between the ranks. `what` names it in the message. */
bool ranks_agree(const ranks *r, const char *what, uint64_t value);
/* Fails on every rank if the ranks' kernels, or their units for products in bf16, differ and so
 * round differently. */
bool ranks_round_alike(const ranks *r, bool amp);
/* Stores the n values of each rank in all[rank * n ..]. */
bool ranks_gather(const ranks *r, int64_t n, const double *mine, double *all);
/* Replaces the n values of every rank by rank 0's. */
bool ranks_broadcast(const ranks *r, int64_t n, double *values);

/* These do what the functions of one process do (br_optim_zero_grad() and so on). */
void ranks_zero_grad(const ranks *r, br_optim *optim);
double ranks_clip(const ranks *r, br_named_list *parameters, double max_norm);
bool ranks_step(const ranks *r, br_optim *optim);
/* Saves a checkpoint, which any number of ranks can load. Rank 0 writes it. `model` is the model of
 * c->optim; with a sharded optimizer, c->optim has options only. */
bool ranks_save(const ranks *r, const char *path, const br_checkpoint *c);

#endif
