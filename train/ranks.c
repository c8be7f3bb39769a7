/* train/ranks.c - a run by several processes: sums over the ranks, and what rank 0 does alone. */
#include "train/ranks.h"
#include "backends/matmul_precision.h"
#include "distributed/watch.h"

#include <string.h>
#include <xxhash.h>

ranks ranks_here(void)
{
    return (ranks){ .rank = br_dist_rank(NULL), .size = br_dist_size(NULL) };
}

bool ranks_begin(ranks *r, br_module *model, br_optim *optim, int64_t stage)
{
    if (r->size == 1)
        return true;
    r->parallel = br_data_parallel_new(model, BR_OPTIONS(br_data_parallel, .reduction = BR_DIST_SUM,
                                                         .scatter = stage >= ZERO_GRADIENTS));
    if (r->parallel && stage >= ZERO_STATE)
        r->sharded = br_sharded_optim_new(r->parallel, optim);
    return !br_failed();
}

void ranks_end(ranks *r)
{
    br_sharded_optim_free(r->sharded);
    br_data_parallel_free(r->parallel);
    r->sharded = NULL;
    r->parallel = NULL;
}

/* ---- Ranks that die -------------------------------------------------------------------------- */

void ranks_note_step(const ranks *r, int64_t step)
{
    if (r->size > 1)
        br_dist_set_step(step);
}

const char *ranks_dead(void)
{
    const char *dead = br__dist_dead();
    return dead && br_failed() && strstr(br_error_message(), dead) ? dead : NULL;
}

/* ---- Values of all ranks --------------------------------------------------------------------- */

bool ranks_gather(const ranks *r, int64_t n, const double *mine, double *all)
{
    if (r->size == 1) {
        memcpy(all, mine, (size_t)n * sizeof *mine);
        return !br_failed();
    }
    br_scope *scope = br_scope_begin();
    br_tensor *gathered = br_dist_all_gather(br_from_data(BR_DIMS(n), BR_F64, mine), NULL);
    if (gathered)
        memcpy(all, br_data(gathered), (size_t)(r->size * n) * sizeof *all);
    br_scope_end(scope);
    return !br_failed();
}

bool ranks_broadcast(const ranks *r, int64_t n, double *values)
{
    if (r->size == 1)
        return !br_failed();
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_from_data(BR_DIMS(n), BR_F64, values);
    if (br_dist_broadcast(t, 0, NULL))
        memcpy(values, br_data(t), (size_t)n * sizeof *values);
    br_scope_end(scope);
    return !br_failed();
}

bool ranks_agree(const ranks *r, const char *what, uint64_t value)
{
    if (r->size == 1)
        return !br_failed();
    br_scope *scope = br_scope_begin();
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    br_tensor *all = br_dist_all_gather(br_from_data(BR_DIMS(1), BR_I64, &bits), NULL);
    const int64_t *values = all ? br_data_i64(all) : NULL;
    for (int i = 1; values && i < r->size && !br_failed(); i++)
        if (values[i] != values[0])
            br_raise(BR_ERROR_ARGUMENT,
                     "rank %d has %s than rank 0: all ranks must run the same program with the "
                     "same command line, files and instruction set",
                     i, what);
    br_scope_end(scope);
    return !br_failed();
}

bool ranks_round_alike(const ranks *r, bool amp)
{
    const br_matmul_precision precision = amp ? BR_MATMUL_MEDIUM : br__matmul_precision();
    const char *cpu = br_get_cpu_capability(), *unit = br__matmul_unit(precision);
    return ranks_agree(r, "another instruction set", XXH3_64bits(cpu, strlen(cpu))) &&
           ranks_agree(r, "another unit for bf16", XXH3_64bits(unit, strlen(unit)));
}

/* ---- Steps ----------------------------------------------------------------------------------- */

void ranks_zero_grad(const ranks *r, br_optim *optim)
{
    if (r->sharded)
        br_sharded_optim_zero_grad(r->sharded);
    else
        br_optim_zero_grad(optim);
}

double ranks_clip(const ranks *r, br_named_list *parameters, double max_norm)
{
    return r->parallel ? br_data_parallel_clip_grad_norm_(r->parallel, max_norm, 2, true)
                       : br_clip_grad_norm_(parameters, max_norm, 2, true);
}

bool ranks_step(const ranks *r, br_optim *optim)
{
    return r->sharded ? br_sharded_optim_step(r->sharded) : br_optim_step(optim);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* Saves the checkpoint with the state of the sharded optimizer, which rank 0 has collected. */
static bool save_with(const char *path, const br_checkpoint *c, const br_named_list *state)
{
    br_checkpoint whole = *c;
    whole.optim = br_adam(c->model, BR_OPTIONS(br_adam, .lr = br_optim_get_lr(c->optim, 0)));
    bool ok = whole.optim && br_optim_load_state_dict(whole.optim, state) &&
              br_checkpoint_save(path, &whole);
    br_optim_free(whole.optim);
    return ok;
}

bool ranks_save(const ranks *r, const char *path, const br_checkpoint *c)
{
    br_named_list *state = r->sharded ? br_sharded_optim_state_dict(r->sharded, 0) : NULL;
    bool ok = !br_failed();
    if (ok && r->rank == 0)
        ok = r->sharded ? save_with(path, c, state) : br_checkpoint_save(path, c);
    br_named_list_free(state);
    return ok;
}
