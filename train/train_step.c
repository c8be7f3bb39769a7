/* train/train_step.c - one step of a training run: gradients, update, evaluation and logging. */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* With several batches per step, the random numbers of a batch, such as dropout's, depend only on
 * the seed and the batch's number, so that any rank could compute any of them. A single batch per
 * step continues with the numbers after those of the batch before, as in PyTorch. */
static void seed_batch(const trainer *t, int64_t batch)
{
    if (t->options.accumulate > 1)
        br_manual_seed(XXH3_64bits_withSeed(&batch, sizeof batch, (uint64_t)t->options.seed));
}

/* So that all ranks round in the same way: each has run other batches of the step. */
static void seed_update(const trainer *t)
{
    if (t->options.half_update.index == HALF_STOCHASTIC)
        seed_batch(t, -1 - t->step);
}

static const br_dtype amp_dtypes[] = { [AMP_OFF] = BR_F32, [AMP_BF16] = BR_BF16 };

/* Runs a batch, whose loss is one term of the step's mean. Adds its gradients to the parameters'
 * gradients, and to those of the other ranks. Stores its losses in `values`. */
static bool add_batch(trainer *t, int64_t batch, double *values)
{
    double part = 1 / (double)t->options.accumulate;
    seed_batch(t, batch);
    br_scope *scope = br_scope_begin();
    br_scope *forward =
        br_scope_begin(); /* after its end, only the graph keeps the activations alive */
    br_tensor *addends[LOG_MAX_VALUES] = { 0 };
    br_autocast *cast = br_autocast_begin(amp_dtypes[t->options.amp.index]);
    br_tensor *loss = br_scope_return(forward, t->recipe->loss(t->self, batch, addends));
    br_autocast_end(cast);
    values[0] = br_item(loss);
    for (int i = 1; i < t->log.n_losses; i++)
        values[i] = br_item(addends[i - 1]);
    br_scope_end(forward);
    if (!br_failed() && !isfinite(values[0]))
        br_raise(BR_ERROR_STATE,
                 "the loss of step %" PRId64 " is %g: a smaller learning rate may help",
                 t->step + 1, values[0]);
    br_backward(part < 1 ? br_mul_scalar(loss, part) : loss);
    br_scope_end(scope);
    return !br_failed();
}

/* Runs this rank's batches of the step. Of N ranks, rank r has the batches r, r + N, ...: backward
 * sums the gradients of one batch of each rank, in the order of the ranks, and adds the sum to that
 * of the batches before. Stores the batches' losses in `losses`. */
static bool add_batches(trainer *t, double *losses)
{
    const ranks *r = &t->ranks;
    for (int64_t i = r->rank; i < t->options.accumulate; i += r->size, losses += t->log.n_losses)
        if (!add_batch(t, t->step * t->options.accumulate + i, losses))
            return false;
    return true;
}

/* Averages the losses of all batches in their order. Each rank has n values in `all`: its batches'
 * losses, and a last one that is not 0 if it was asked to stop. */
static void average_losses(trainer *t, int64_t n, const double *all, double *values)
{
    const int64_t n_losses = t->log.n_losses;
    const double part = 1 / (double)t->options.accumulate;
    for (int i = 0; i < n_losses; i++)
        values[i] = 0;
    for (int64_t first = 0; first + n_losses < n; first += n_losses)
        for (int k = 0; k < t->ranks.size; k++)
            for (int i = 0; i < n_losses; i++)
                values[i] += part * all[k * n + first + i];
    for (int k = 0; k < t->ranks.size; k++)
        t->stopped |= all[(k + 1) * n - 1] != 0;
}

/* Runs the batches of the step, and stores the averages of their losses. */
static bool run_batches(trainer *t, bool stop, double *values)
{
    const int64_t n = t->options.accumulate / t->ranks.size * t->log.n_losses + 1;
    double *mine = calloc((size_t)(n * (t->ranks.size + 1)), sizeof *mine), *all = mine + n;
    if (!mine) {
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the losses of a step");
        return false;
    }
    mine[n - 1] = stop;
    bool ok = add_batches(t, mine) && ranks_gather(&t->ranks, n, mine, all);
    if (ok)
        average_losses(t, n, all, values);
    free(mine);
    return ok;
}

/* After the warm-up, the scheduler sets the rate of a plateau schedule. */
static void set_rate(trainer *t)
{
    if (!t->plateau || t->step <= t->options.schedule.warmup)
        br_optim_set_lr(t->optim, -1, schedule_rate(&t->options.schedule, t->step));
    t->rate = br_optim_get_lr(t->optim, 0);
}

bool trainer_step(trainer *t, bool stop, double *values)
{
    ranks_note_step(&t->ranks, t->step + 1);
    ranks_zero_grad(&t->ranks, t->optim);
    if (!run_batches(t, stop, values))
        return false;
    if (t->options.clip > 0)
        ranks_clip(&t->ranks, t->parameters, t->options.clip);
    set_rate(t);
    seed_update(t);
    bool ok = ranks_step(&t->ranks, t->optim);
    t->step += ok;
    /* So that a checkpoint has the same generator for any number of ranks. */
    seed_batch(t, t->step * t->options.accumulate);
    return ok;
}

bool trainer_record(trainer *t, const double *values, double seconds)
{
    const char *tags[LOG_MAX_VALUES + 2];
    double numbers[LOG_MAX_VALUES + 2];
    int n = t->log.n_names;
    memcpy(tags, t->log.names, (size_t)n * sizeof *tags);
    memcpy(numbers, values, (size_t)n * sizeof *numbers);
    tags[n] = "lr";
    numbers[n++] = t->rate;
    tags[n] = "seconds";
    numbers[n++] = seconds;
    int64_t every = t->options.histograms;
    return train_log_add(&t->log, t->step, values, seconds) &&
           tensorboard_add(t->events, t->step, n, tags, numbers) &&
           (every == 0 || t->step % every != 0 ||
            tensorboard_add_histograms(t->events, t->step, t->parameters));
}

bool trainer_is_evaluated(const trainer *t)
{
    return t->recipe->evaluate && t->step % t->options.eval_every == 0;
}

bool trainer_is_exhausted(const trainer *t)
{
    int64_t patience = t->options.patience;
    return patience > 0 && trainer_is_evaluated(t) &&
           train_log_since_minimum(&t->log, t->log.n_losses) >= patience;
}

bool trainer_evaluate(trainer *t, double *metrics)
{
    int n = t->log.n_names - t->log.n_losses;
    for (int i = 0; i < n; i++)
        metrics[i] = NAN;
    if (!trainer_is_evaluated(t))
        return !br_failed();
    if (t->ranks.rank == 0) {
        br_eval(t->model);
        br_scope *scope = br_no_grad_begin();
        t->recipe->evaluate(t->self, metrics);
        br_scope_end(scope);
        br_train(t->model, true);
    }
    if (!ranks_broadcast(&t->ranks, n, metrics))
        return false;
    if (t->plateau && t->step > t->options.schedule.warmup)
        br_scheduler_step_metric(t->plateau, metrics[0]);
    return !br_failed();
}
