/* tests/train/test_train_step.c - one step of a training run: its batches, their averaged
 * gradients, and the learning rate of a plateau schedule. */
#include "tests/support.h"
#include "train/trainer.h"

#include <math.h>
#include <string.h>

TestSuite(train_step, .init = check_begin, .fini = check_end);

/* ---- A recipe with one parameter ------------------------------------------------------------- */

/* The loss of batch b is (b + 1)^2 w, so its gradient is (b + 1)^2. */
typedef struct task {
    br_tensor *w;
    int64_t batches[8]; /* the batches requested so far */
    int n_batches;
    double numbers[8]; /* a random number for each of them */
    double metric;
} task;

static double gradient_node(int64_t batch)
{
    return (double)((batch + 1) * (batch + 1));
}

static br_tensor *loss(void *self, int64_t batch, br_tensor **addends)
{
    task *t = self;
    if (t->n_batches < 8) {
        t->numbers[t->n_batches] = br_random_double();
        t->batches[t->n_batches++] = batch;
    }
    addends[0] = br_scalar(gradient_node(batch), BR_F64);
    return br_mul_scalar(t->w, gradient_node(batch));
}

static void evaluate(void *self, double *metrics)
{
    metrics[0] = ((task *)self)->metric;
}

static const recipe with_metric = { .loss = loss, .evaluate = evaluate };
static const recipe without = { .loss = loss };

static task the_task;
static trainer the_trainer;

/* Uses SGD with lr = 1, so that a step subtracts the gradient from w. */
static trainer *begin(const recipe *r, train_options options)
{
    the_task = (task){ .w = br_full(BR_SHAPE(), 0.5, BR_F64) };
    br_retain(br_set_requires_grad(the_task.w, true));
    br_named_tensor parameter = { "w", the_task.w };
    the_trainer = (trainer){
        .recipe = r,
        .self = &the_task,
        .ranks = ranks_here(),
        .options = options,
        .model = br_module_create(sizeof(br_module), "task"),
        .optim = br_sgd_new(&(br_named_list){ 1, &parameter }, BR_OPTIONS(br_sgd, .lr = 1)),
        .log = { .n_names = 2 + (r->evaluate != NULL), .n_losses = 2 },
    };
    cr_assert(the_trainer.optim && the_trainer.model, "%s", br_error_message());
    return &the_trainer;
}

static void end(trainer *t)
{
    br_scheduler_free(t->plateau);
    br_optim_free(t->optim);
    br_module_free(t->model);
    br_release(the_task.w);
}

/* Compares to 14 digits. */
static void check_number(double is, double should)
{
    cr_assert(fabs(is - should) <= 1e-14 * fabs(should), "%.17g, not %.17g", is, should);
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* Step s with n batches uses batches s n .. s n + n - 1; loss and gradient are their means. */
static void check_batches(int64_t accumulate)
{
    trainer *t = begin(&without, (train_options){ .accumulate = accumulate,
                                                  .schedule = { .lr = 1, .warmup = 0 } });
    for (int64_t step = 0; step < 2; step++) {
        double w = br_item(the_task.w), mean = 0, values[LOG_MAX_VALUES];
        the_task.n_batches = 0;
        cr_assert(trainer_step(t, false, values), "%s", br_error_message());
        cr_assert_eq(the_task.n_batches, accumulate);
        for (int64_t i = 0; i < accumulate; i++) {
            cr_assert_eq(the_task.batches[i], step * accumulate + i, "step %d", (int)step);
            mean += gradient_node(step * accumulate + i) / (double)accumulate;
        }
        check_number(values[0], mean * w);
        check_number(values[1], mean);
        check_number(br_item(br_grad_of(the_task.w)), mean);
        check_number(br_item(the_task.w), w - mean);
    }
    cr_assert_eq(t->step, 2);
    end(t);
}

Test(train_step, gradients_of_batches_are_averaged)
{
    for (int64_t accumulate = 1; accumulate <= 4; accumulate++)
        check_batches(accumulate);
}

/* Makes steps from step `first` on, and stores the random numbers that their batches generate. */
static void generate(int64_t accumulate, int64_t seed, int64_t first, int n, double *numbers)
{
    trainer *t = begin(&without, (train_options){ .accumulate = accumulate, .seed = seed });
    double values[LOG_MAX_VALUES];
    for (t->step = first; the_task.n_batches < n;)
        cr_assert(trainer_step(t, false, values), "%s", br_error_message());
    memcpy(numbers, the_task.numbers, (size_t)n * sizeof *numbers);
    end(t);
}

/* With several batches per step, a batch's random numbers depend on the seed and its number only.
 * With one, they are the generator's next numbers. */
Test(train_step, random_numbers_of_batches)
{
    double all[6], later[4], other[6], one[3];
    br_manual_seed(1);
    generate(2, 7, 0, 6, all);
    br_manual_seed(2);
    generate(2, 7, 1, 4, later);
    generate(2, 8, 0, 6, other);
    for (int i = 0; i < 6; i++) {
        cr_assert(i < 2 || all[i] == later[i - 2], "batch %d", i);
        cr_assert(all[i] != other[i], "seed 8, batch %d", i);
        for (int j = 0; j < i; j++)
            cr_assert(all[i] != all[j], "batches %d and %d", i, j);
    }
    br_manual_seed(3);
    generate(1, 7, 0, 3, one);
    br_manual_seed(3);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(one[i], br_random_double(), "number %d", i);
}

/* ---- A plateau ------------------------------------------------------------------------------- */

/* The metric is ignored during the warm-up. After it, each worse metric multiplies the rate, and
 * nothing resets it. */
Test(train_step, a_plateau_begins_after_the_warm_up)
{
    enum { WARMUP = 3 };
    trainer *t =
        begin(&with_metric,
              (train_options){
                  .accumulate = 1,
                  .eval_every = 1,
                  .schedule = { .lr = 8, .warmup = WARMUP, .decay.index = SCHEDULE_PLATEAU } });
    t->plateau =
        br_reduce_lr_on_plateau(t->optim, BR_OPTIONS(br_plateau, .factor = 0.5, .patience = 0));
    double values[LOG_MAX_VALUES], metric;
    for (int64_t step = 1; step <= 8; step++) {
        cr_assert(trainer_step(t, false, values), "%s", br_error_message());
        /* The metric also gets worse during the warm-up. The first one that counts is the minimum.
         */
        the_task.metric = (double)step;
        cr_assert(trainer_evaluate(t, &metric));
        cr_assert_eq(metric, (double)step);
        /* Step WARMUP + 1 is the first with the full rate, and the first whose metric counts. */
        double rate = step <= WARMUP ? 2.0 * (double)step
                                     : ldexp(8, (int)(-fmax(0, (double)(step - WARMUP - 2))));
        cr_assert_eq(t->rate, rate, "step %d: the rate is %g, not %g", (int)step, t->rate, rate);
    }
    end(t);
}
