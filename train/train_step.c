/* train/train_step.c - one step of a training run: gradients, update, evaluation and logging. */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

/* With several batches per step, the random numbers of a batch, such as dropout's, depend only on
 * the seed and the batch's number, so that any process could compute any of them. A single batch
 * per step continues with the numbers after those of the batch before, as in PyTorch. */
static void seed_batch(const trainer *t, int64_t batch)
{
    if (t->options.accumulate > 1)
        br_manual_seed(XXH3_64bits_withSeed(&batch, sizeof batch, (uint64_t)t->options.seed));
}

/* Runs a batch. Divides its gradients and losses by the number of batches per step and adds them to
 * the parameters' gradients and to `values`. */
static bool add_batch(trainer *t, int64_t batch, double *values)
{
    double part = 1 / (double)t->options.accumulate;
    seed_batch(t, batch);
    br_scope *scope = br_scope_begin();
    br_scope *forward =
        br_scope_begin(); /* after its end, only the graph keeps the activations alive */
    br_tensor *addends[LOG_MAX_VALUES] = { 0 };
    br_tensor *loss = br_scope_return(forward, t->recipe->loss(t->self, batch, addends));
    values[0] += part * br_item(loss);
    for (int i = 1; i < t->log.n_losses; i++)
        values[i] += part * br_item(addends[i - 1]);
    br_scope_end(forward);
    if (!br_failed() && !isfinite(values[0]))
        br_raise(BR_ERROR_STATE,
                 "the loss of step %" PRId64 " is %g: a smaller learning rate may help",
                 t->step + 1, values[0]);
    br_backward(part < 1 ? br_mul_scalar(loss, part) : loss);
    br_scope_end(scope);
    return !br_failed();
}

/* After the warm-up, the scheduler sets the rate of a plateau schedule. */
static void set_rate(trainer *t)
{
    if (!t->plateau || t->step <= t->options.schedule.warmup)
        br_optim_set_lr(t->optim, -1, schedule_rate(&t->options.schedule, t->step));
    t->rate = br_optim_get_lr(t->optim, 0);
}

bool trainer_step(trainer *t, double *values)
{
    int64_t batches = t->options.accumulate;
    for (int i = 0; i < t->log.n_losses; i++)
        values[i] = 0;
    br_optim_zero_grad(t->optim);
    for (int64_t i = 0; i < batches; i++)
        if (!add_batch(t, t->step * batches + i, values))
            return false;
    if (t->options.clip > 0)
        br_clip_grad_norm_(t->parameters, t->options.clip, 2, true);
    set_rate(t);
    bool ok = br_optim_step(t->optim);
    t->step += ok;
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
    return train_log_add(&t->log, t->step, values, seconds) &&
           event_file_add(&t->events, t->step, n, tags, numbers);
}

bool trainer_is_exhausted(const trainer *t)
{
    int64_t patience = t->recipe->evaluate ? t->options.patience : 0;
    return patience > 0 && t->step % t->options.eval_every == 0 &&
           train_log_since_minimum(&t->log, t->log.n_losses) >= patience;
}

void trainer_evaluate(trainer *t, double *metrics)
{
    for (int i = 0; i < t->log.n_names - t->log.n_losses; i++)
        metrics[i] = NAN;
    if (!t->recipe->evaluate || t->step % t->options.eval_every != 0)
        return;
    br_eval(t->model);
    br_scope *scope = br_no_grad_begin();
    t->recipe->evaluate(t->self, metrics);
    br_scope_end(scope);
    br_train(t->model, true);
    if (t->plateau && t->step > t->options.schedule.warmup)
        br_scheduler_step_metric(t->plateau, metrics[0]);
}
