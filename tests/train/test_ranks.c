/* tests/train/test_ranks.c - `brasa train` with several ranks: each recipe gives the bits of one
 * process with as many batches per step. The ranks are forked processes. */
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/kernels.h"
#include "tests/cli/program.h"
#include "tests/distributed/sockets.h"
#include "tests/train/rank_runs.h"
#include "train/batches.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(ranks, .init = program_begin, .fini = program_end);

static const run recipes[] = {
    { "bert-scratch", NULL, { "steps=3", "accumulate=12", "clip=0.5" }, .ranks = 1 },
    { "copy-task", NULL, { "steps=3", "accumulate=12", "batch=8", "eval_every=2" }, .ranks = 1 },
    { "vanilla", NULL, { "steps=2", "accumulate=12", "batch=8", "workers=1" }, .ranks = 1 },
    { "classifier", "texts", { "steps=2", "accumulate=12", "batch=4" }, .ranks = 1 },
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

/* Writes texts for the classifier. */
static void write_texts(void)
{
    FILE *file = fopen(in_directory("texts"), "w");
    cr_assert_not_null(file);
    for (int i = 0; i < 200; i++)
        fprintf(file, "%s\t%s %d words\n", i % 2 ? "odd" : "even", i % 2 ? "one" : "two", i % 7);
    fclose(file);
}

static void check_recipe(const run *one)
{
    char out[2][256], stage[32];
    run r = *one;
    if (r.data)
        r.data = in_directory(r.data);
    snprintf(out[0], sizeof out[0], "%s", in_directory("one"));
    cr_assert_eq(train_ranks(&r, out[0]), TRAIN_DONE, "%s", r.recipe);
    for (int n = 2; n <= 4; n++) {
        for (int zero = 0; zero <= 2; zero++) {
            run several = r;
            several.ranks = n;
            int last = 0;
            while (several.settings[last])
                last++;
            snprintf(stage, sizeof stage, "zero_stage=%d", zero);
            several.settings[last] = stage;
            snprintf(out[1], sizeof out[1], "%s/%d.%d", program_directory, n, zero);
            cr_assert_eq(train_ranks(&several, out[1]), TRAIN_DONE, "%s on %d ranks, %s", r.recipe,
                         n, stage);
            check_same(r.recipe, out[0], out[1]);
            check_same_losses(r.recipe, out[0], out[1]);
        }
    }
    program_shell("rm -r $OUT/one $OUT/[234].*");
}

Test(ranks, every_recipe_equals_one_process)
{
    write_texts();
    for (int i = 0; i < RECIPES; i++)
        check_recipe(&recipes[i]);
}

/* ---- Data ------------------------------------------------------------------------------------ */

enum { ITEMS = 7, RANKS = 3 };

static atomic_int reads[ITEMS];

static bool read_item(void *context, int64_t i, br_tensor **fields)
{
    (void)context;
    atomic_fetch_add(&reads[i], 1);
    fields[0] = br_scalar((double)i, BR_I64);
    return fields[0] != NULL;
}

/* Reads this rank's batches of three epochs. In that time each of the three ranks gets each item
 * once, because 7 and 3 have no common divisor. Returns whether it read no others. */
static bool reads_its_own(void)
{
    br_dataset *dataset = br_dataset_new(ITEMS, 1, read_item, NULL, NULL);
    batches b;
    bool ok = batches_open(&b, dataset, 1, false, 2);
    for (int64_t step = br_dist_rank(NULL); ok && step < RANKS * ITEMS; step += RANKS) {
        br_scope *scope = br_scope_begin();
        br_tensor *field;
        ok = batches_get(&b, step, &field);
        br_scope_end(scope);
    }
    for (int i = 0; i < ITEMS; i++)
        ok &= reads[i] == 1;
    batches_close(&b);
    br_dataset_free(dataset);
    return ok;
}

/* Prefetching threads read only the batches of their own rank, across the ends of epochs. */
Test(ranks, a_rank_reads_only_its_own_batches)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        br_manual_seed(5);
        br_comm comm = fork_ranks(RANKS, 1 << 16);
        bool ok = br_dist_init(BR_OPTIONS(br_dist, .comm = &comm)) && reads_its_own();
        br_dist_finalize();
        _exit(!ok || br_failed());
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* A run is resumed by another number of ranks, and with another division of the state. */
Test(ranks, runs_are_resumed_by_any_number_of_ranks)
{
    run r = { "copy-task", NULL, { "steps=4", "accumulate=6" }, .ranks = 1 };
    cr_assert_eq(train_ranks(&r, in_directory("whole")), TRAIN_DONE);
    r = (run){ "copy-task", NULL, { "steps=2", "accumulate=6", "zero_stage=2" }, .ranks = 3 };
    cr_assert_eq(train_ranks(&r, in_directory("part")), TRAIN_DONE);
    r = (run){ "copy-task", NULL, { "steps=3", "zero_stage=1" }, 2, .resume = true };
    cr_assert_eq(train_ranks(&r, in_directory("part")), TRAIN_DONE);
    r = (run){ "copy-task", NULL, { "steps=4" }, 1, .resume = true };
    cr_assert_eq(train_ranks(&r, in_directory("part")), TRAIN_DONE);
    check_same("resumed", in_directory("whole"), in_directory("part"));
    check_same_losses("resumed", in_directory("whole"), in_directory("part"));
}

Test(ranks, parameters_of_bf16)
{
    run r = { "copy-task", NULL, { "steps=2", "accumulate=4", "dtype=bf16" }, .ranks = 1 };
    cr_assert_eq(train_ranks(&r, in_directory("one")), TRAIN_DONE);
    r.ranks = 2;
    cr_assert_eq(train_ranks(&r, in_directory("two")), TRAIN_DONE);
    check_same("bf16", in_directory("one"), in_directory("two"));
    program_shell("rm -r $OUT/one $OUT/two");
    r.settings[3] = "half_update=stochastic";
    cr_assert_eq(train_ranks(&r, in_directory("two")), TRAIN_DONE);
    r.ranks = 1;
    cr_assert_eq(train_ranks(&r, in_directory("one")), TRAIN_DONE);
    check_same("rounded at random", in_directory("one"), in_directory("two"));
}

/* By default a step has one batch for each rank. */
Test(ranks, one_batch_for_each_rank)
{
    run r = { "bert-scratch", NULL, { "steps=2", "accumulate=3" }, .ranks = 1 };
    cr_assert_eq(train_ranks(&r, in_directory("one")), TRAIN_DONE);
    r = (run){ "bert-scratch", NULL, { "steps=2" }, .ranks = 3 };
    cr_assert_eq(train_ranks(&r, in_directory("three")), TRAIN_DONE);
    check_same("default", in_directory("one"), in_directory("three"));
}

static void check_refused(run r, const char *part)
{
    char command[512];
    program_shell("rm -f $OUT/errors");
    cr_assert_neq(train_ranks(&r, in_directory("refused")), TRAIN_DONE);
    snprintf(command, sizeof command,
             "test $(grep -cF '%s' $OUT/errors) = %d || { cat $OUT/errors; false; }", part,
             r.ranks);
    program_shell(command);
}

/* All ranks fail, and say why. */
Test(ranks, ranks_that_do_not_fit_are_refused)
{
    run r = { "bert-scratch", NULL, { "steps=2", "accumulate=3" }, .ranks = 2 };
    check_refused(r, "accumulate is 3, must be a multiple of the number of ranks, 2");
    r = (run){ "copy-task", NULL, { "dtype=bf16", "zero_stage=1" }, .ranks = 2 };
    check_refused(r, "zero_stage is 1, must be 0 with dtype=bf16");
    r = (run){ "bert-scratch", NULL, { "steps=2" }, 3, .fails_on_rank_1 = "seed=5" };
    check_refused(r, "rank 1 has other settings than rank 0");
    r = (run){ "bert-scratch", NULL, { "steps=2" }, 3, .fails_on_rank_2 = "seed=5" };
    check_refused(r, "rank 2 has other settings than rank 0");
    r = (run){ "bert-scratch", NULL, { "steps=2" }, 2, .kernels_on_rank_1 = "baseline" };
    if (strcmp(br_get_cpu_capability(), "baseline") != 0)
        check_refused(r, "rank 1 has another instruction set than rank 0");
    r = (run){ "bert-scratch",
               NULL,
               { "steps=2", "matmul_precision=medium" },
               2,
               .kernels_on_rank_1 = "avx512" };
    if (br__gemm_bf16_kernels(BR_MATMUL_MEDIUM))
        check_refused(r, "rank 1 has another unit for bf16 than rank 0");
}

/* Ranks that do not share a file system may have different checkpoints. */
Test(ranks, ranks_that_have_done_other_steps_are_refused)
{
    run r = { "bert-scratch", NULL, { "steps=2", "accumulate=2" }, .ranks = 1 };
    cr_assert_eq(train_ranks(&r, in_directory("refused")), TRAIN_DONE);
    r = (run){ "bert-scratch", NULL, { "steps=3", "accumulate=2" }, .ranks = 1 };
    cr_assert_eq(train_ranks(&r, in_directory("other")), TRAIN_DONE);
    r = (run){ "bert-scratch",
               NULL,
               { "steps=4", "accumulate=2" },
               2,
               .resume = true,
               .out_on_rank_1 = in_directory("other") };
    check_refused(r, "rank 1 has another number of steps done than rank 0");
}

/* A signal that reaches only one rank stops all of them after the same step. */
Test(ranks, any_rank_can_be_asked_to_stop)
{
    char out[256];
    snprintf(out, sizeof out, "%s", in_directory("stopped"));
    for (int asked = 0; asked < 2; asked++) {
        const run r = { "copy-task",
                        NULL,
                        { "steps=100000", "accumulate=2", "checkpoint_every=1" },
                        .ranks = 2,
                        .asked_to_stop = 1 + asked };
        cr_assert_eq(train_ranks(&r, out), TRAIN_STOPPED, "rank %d", asked);
        program_shell("test $(wc -l <$OUT/stopped/log.jsonl) = 1; rm -r $OUT/stopped");
    }
}

/* ---- Questions without br_dist_init() -------------------------------------------------------- */

Test(ranks, questions_of_a_process_alone)
{
    int number = 7;
    cr_assert(!br_dist_is_launched(&number) && number == -1);
    setenv("PMI_RANK", "3", 1);
    cr_assert(br_dist_is_launched(&number) && number == 3);
    cr_assert(br_dist_is_launched(NULL));
    unsetenv("PMI_RANK");
    cr_assert_null(br_dist_waits_in(&number));
    cr_assert_null(br_dist_waits_in(NULL));
    cr_assert_eq(br_dist_step(), 0);
    br_dist_set_step(5);
    cr_assert_eq(br_dist_step(), 5);
    cr_assert_not(br_failed());
}
