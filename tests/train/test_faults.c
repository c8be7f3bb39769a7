/* tests/train/test_faults.c - training with several ranks, one of which fails: the others name it
 * and the step, none waits for ever, the last checkpoint is whole, and the resumed run equals one
 * without the failure. The ranks are forked processes. A changed recipe makes the rank fail at the
 * beginning of a step, so nothing depends on timing. */
#include "cli/stop_signal.h"
#include "distributed/watch.h"
#include "tests/cli/program.h"
#include "tests/train/rank_runs.h"

#include <brasa/distributed.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(faults, .init = program_begin, .fini = program_end);

enum { RANKS = 3, ACCUMULATE = 6, CHECKPOINT_EVERY = 2 };
static const char accumulate[] = "accumulate=6", every[] = "checkpoint_every=2",
                  steps[] = "steps=8", few[] = "batch=4";

typedef struct fault {
    const char *name;
    void (*happens)(void);
    int rank;
    int64_t step;
    const char *zero_stage;
    int status;          /* of the other ranks */
    const char *message; /* of the other ranks: a regular expression */
    double watch_limit;
} fault;

static const fault *planted;

static br_tensor *failing_loss(void *self, int64_t batch, br_tensor **addends)
{
    if (br_dist_rank(NULL) == planted->rank && batch / ACCUMULATE + 1 == planted->step)
        planted->happens();
    return br_failed() ? NULL : recipe_copy_task.loss(self, batch, addends);
}

static void is_killed(void)
{
    kill(getpid(), SIGKILL);
}

static void is_stopped(void)
{
    kill(getpid(), SIGSTOP);
}

static void exits_with_0(void)
{
    exit(0);
}

static void exits_with_1(void)
{
    exit(1);
}

static void ends_at_once(void)
{
    _exit(0);
}

static void has_an_error(void)
{
    br_raise(BR_ERROR_STATE, "the planted error");
}

/* From now on, files cannot grow beyond 16 KiB, as on a full disk. The log is smaller. */
static void has_a_full_disk(void)
{
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 1 << 14, 1 << 14 });
}

#define DIED(rank, step) "rank " #rank " \\(host .+, process [0-9]+\\) has died in step " #step "$"

static const fault faults[] = {
    { "kill in step 3", is_killed, 2, 3, "zero_stage=0", RANK_DIED, .message = DIED(2, 3) },
    { "kill in step 7", is_killed, 1, 7, "zero_stage=2", RANK_DIED, .message = DIED(1, 7) },
    { "kill of rank 0", is_killed, 0, 5, "zero_stage=1", RANK_DIED, .message = DIED(0, 5) },
    { "_exit(0)", ends_at_once, 1, 3, "zero_stage=0", RANK_DIED, .message = DIED(1, 3) },
    { "exit(1)", exits_with_1, 2, 3, "zero_stage=1", TRAIN_FAILED,
      .message = "rank 2 failed in step 3: the program ended without br_dist_finalize" },
    { "exit(0)", exits_with_0, 0, 3, "zero_stage=0", TRAIN_FAILED,
      .message = "rank 0 failed in step 3: the program ended without br_dist_finalize" },
    { "error in forward", has_an_error, 1, 3, "zero_stage=2", TRAIN_FAILED,
      .message = "rank 1 failed in step 3: .*the planted error" },
    { "stop", is_stopped, 2, 3, "zero_stage=0", RANK_DIED,
      .message = "rank 2 \\(host .+, process [0-9]+\\) has given no sign of life for 1 seconds, "
                 "last in step "
                 "3",
      .watch_limit = 1 },
    { "stop of rank 0", is_stopped, 0, 3, "zero_stage=0", RANK_DIED,
      .message = "rank 0 \\(host .+, process [0-9]+\\) has given no sign of life for 1 seconds, "
                 "last in step "
                 "3",
      .watch_limit = 1 },
    { "full disk", has_a_full_disk, 0, 3, "zero_stage=1", TRAIN_FAILED,
      .message = "rank 0 failed in step 4: .*checkpoint.safetensors" },
};
enum { FAULTS = sizeof faults / sizeof *faults };

/* Checks the lines that the other ranks wrote. */
static void check_messages(const fault *f)
{
    char command[512];
    snprintf(command, sizeof command,
             "test $(grep -cE '^rank [^%d], status %d: .*%s' $OUT/errors) = %d || "
             "{ echo '%s:'; cat $OUT/errors; false; }",
             f->rank, f->status, f->message, RANKS - 1, f->name);
    program_shell(command);
}

/* Checks that the checkpoint is whole, and of the right step. */
static void check_checkpoint(const fault *f, const char *out)
{
    char path[300], step[32];
    int64_t saved = (f->step - 1) / CHECKPOINT_EVERY * CHECKPOINT_EVERY;
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", out);
    snprintf(step, sizeof step, "%lld", (long long)(saved));
    br_safetensors *file = br_safetensors_open(path, NULL);
    cr_assert(file && br_checkpoint_verify(file), "%s: %s", f->name, br_error_message());
    cr_assert_str_eq(br_safetensors_metadata(file, "brasa.step"), step, "%s", f->name);
    br_safetensors_close(file);
}

/* Resumes a copy of the failed run with this number of ranks. */
static void check_resumed(const fault *f, int ranks)
{
    run r = { "copy-task", NULL, { steps }, ranks, .resume = true };
    program_shell("rm -rf $OUT/resumed && cp -r $OUT/failed $OUT/resumed");
    cr_assert_eq(train_ranks(&r, in_directory("resumed")), TRAIN_DONE, "%s: resumed by %d", f->name,
                 ranks);
    check_same(f->name, in_directory("whole"), in_directory("resumed"));
    check_same_losses(f->name, in_directory("whole"), in_directory("resumed"));
}

static void check_fault(const fault *f)
{
    recipe modified = recipe_copy_task;
    modified.loss = failing_loss;
    planted = f;
    run r = { "copy-task",
              NULL,
              { steps, accumulate, few, every, f->zero_stage },
              RANKS,
              .modified = &modified,
              .watch_limit = f->watch_limit };
    program_shell("rm -rf $OUT/errors $OUT/failed");
    cr_assert_neq(train_ranks(&r, in_directory("failed")), 0, "%s", f->name);
    check_messages(f);
    check_checkpoint(f, in_directory("failed"));
    check_resumed(f, RANKS);
    check_resumed(f, 2);
}

Test(faults, the_others_name_the_rank_and_the_run_can_be_resumed)
{
    run r = { "copy-task", NULL, { steps, accumulate, few }, .ranks = 1 };
    cr_assert_eq(train_ranks(&r, in_directory("whole")), TRAIN_DONE);
    for (int i = 0; i < FAULTS; i++)
        check_fault(&faults[i]);
}

/* ---- Signals --------------------------------------------------------------------------------- */

static const volatile sig_atomic_t *stop_signal;

/* Signals this process twice while its main thread waits for rank 2. */
static void *terminate(void *unused)
{
    for (int times = 0, rank = -1; times < 2; usleep(1000))
        if (br_dist_waits_in(&rank) && rank == 2 && times == (*stop_signal != 0)) {
            kill(getpid(), SIGTERM);
            times++;
        }
    return unused;
}

/* Lets rank 1 receive the signals, with its last words in $OUT/words. */
static void begin_to_terminate(void)
{
    sigset_t all, before;
    pthread_t thread;
    dup2(open(in_directory("words"), O_WRONLY | O_CREAT | O_TRUNC, 0666), STDERR_FILENO);
    stop_signal = cli_catch_stop_signals();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, terminate, NULL) != 0)
        _exit(1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* From step 3 on, rank 2 makes no call until rank 1 is dead, as in an endless loop. */
static br_tensor *endless_loss(void *self, int64_t batch, br_tensor **addends)
{
    if (batch / ACCUMULATE + 1 == 3 && br_dist_rank(NULL) == 1 && !stop_signal)
        begin_to_terminate();
    while (batch / ACCUMULATE + 1 == 3 && br_dist_rank(NULL) == 2 && !br__dist_dead())
        usleep(1000);
    return recipe_copy_task.loss(self, batch, addends);
}

/* A rank that waits for ever says so when it receives SIGTERM. The others name it when a second one
 * has ended it. */
Test(faults, a_rank_that_waits_is_ended_by_a_signal)
{
    static const fault f = { "SIGTERM", NULL, 1, 3, NULL, RANK_DIED, DIED(1, 3), 0 };
    recipe modified = recipe_copy_task;
    modified.loss = endless_loss;
    run r = { "copy-task", NULL, { steps, accumulate, few, every }, RANKS, .modified = &modified };
    cr_assert_neq(train_ranks(&r, in_directory("failed")), 0);
    check_messages(&f);
    check_checkpoint(&f, in_directory("failed"));
    program_shell("grep -qE '^brasa train: rank 1 has received SIGTERM in step 3 while it waits in "
                  "[a-z_]+ for rank 2; ' $OUT/words");
    program_shell("grep -qE '^brasa train: rank 1 is ended by SIGTERM in step 3 while it waits in "
                  "[a-z_]+ for rank 2$' $OUT/words");
}
