/* tests/train/test_ranks.c - `brasa train` with several ranks: each recipe gives the bits of one
 * process with as many batches per step. The ranks are forked processes. */
#include "tests/cli/program.h"
#include "tests/distributed/sockets.h"
#include "train/train.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(ranks, .init = program_begin, .fini = program_end);

enum { MAX_ASSIGNMENTS = 12 };

typedef struct run {
    const char *recipe, *data;
    const char *settings[MAX_ASSIGNMENTS]; /* "KEY=VALUE", ends with NULL */
    int ranks;                             /* 1: one process, without a transport */
    bool resume;
    const char *fails_on_rank_1; /* a setting that only rank 1 has; NULL: none */
} run;

static const char *in_directory(const char *name)
{
    static char path[4][256];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", program_directory, name);
    return path[next];
}

/* Trains as one rank, and returns its exit status. Errors go to $OUT/errors. */
static int train(const run *r, const char *out)
{
    assignment assignments[MAX_ASSIGNMENTS];
    train_request request = { .recipe = train_find_recipe(r->recipe),
                              .preset = "small",
                              .data = r->data,
                              .out = out,
                              .resume = r->resume,
                              .assignments = assignments };
    for (int i = 0; r->settings[i]; i++)
        assignments[request.n_assignments++] = (assignment){ .value = r->settings[i] };
    if (r->fails_on_rank_1 && br_dist_rank(NULL) == 1)
        assignments[request.n_assignments++] = (assignment){ .value = r->fails_on_rank_1 };
    int64_t step;
    br_set_num_threads(1);
    train_outcome outcome = train_run(&request, &step);
    br_dist_finalize();
    FILE *errors = fopen(in_directory("errors"), "a");
    if (errors && br_failed()) {
        br_report(errors);
        fclose(errors);
    }
    return outcome;
}

/* Trains in processes of their own; returns the exit status of the first that failed, or 0. */
static int train_ranks(const run *r, const char *out)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (r->ranks > 1) {
            br_comm comm = fork_ranks(r->ranks, 1 << 16);
            if (!br_dist_init(BR_OPTIONS(br_dist, .comm = &comm)))
                _exit(100);
        }
        _exit(train(r, out));
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Checks that the tensors of two checkpoints have the same bits, and so do the generators. */
static void check_same(const char *name, const char *a, const char *b)
{
    char path[2][300];
    snprintf(path[0], sizeof path[0], "%s/checkpoint.safetensors", a);
    snprintf(path[1], sizeof path[1], "%s/checkpoint.safetensors", b);
    br_scope *scope = br_scope_begin();
    br_safetensors *files[2];
    br_named_list *lists[2];
    for (int i = 0; i < 2; i++) {
        files[i] = br_safetensors_open(path[i], NULL);
        lists[i] = br_safetensors_all(files[i]);
    }
    cr_assert(lists[0] && lists[1], "%s: %s", name, br_error_message());
    cr_assert_eq(lists[0]->count, lists[1]->count, "%s", name);
    for (const br_named_tensor *p = NULL; (p = br_named_list_next(lists[0], p));) {
        br_tensor *other = br_named_list_get(lists[1], p->name);
        cr_assert(other && br_numel(other) == br_numel(p->tensor), "%s: %s", name, p->name);
        size_t bytes = (size_t)br_numel(other) * br_dtype_size(br_dtype_of(other));
        cr_assert(memcmp(br_data(other), br_data(p->tensor), bytes) == 0, "%s: %s differs", name,
                  p->name);
    }
    static const char *const keys[] = { "brasa.step", "brasa.rng" };
    for (int i = 0; i < 2; i++)
        cr_assert_str_eq(br_safetensors_metadata(files[0], keys[i]),
                         br_safetensors_metadata(files[1], keys[i]), "%s: %s", name, keys[i]);
    for (int i = 0; i < 2; i++) {
        br_named_list_free(lists[i]);
        br_safetensors_close(files[i]);
    }
    br_scope_end(scope);
    br_thread_cleanup();
}

/* Checks that both runs logged the same losses, at the same steps. */
static void check_same_losses(const char *name, const char *a, const char *b)
{
    char command[700];
    snprintf(command, sizeof command,
             PROGRAM_LOSSES " %s/log.jsonl >$OUT/x; " PROGRAM_LOSSES
                            " %s/log.jsonl >$OUT/y; cmp $OUT/x $OUT/y || { echo '%s'; false; }",
             a, b, name);
    program_shell(command);
}

static const run recipes[] = {
    { "bert-scratch", NULL, { "steps=3", "accumulate=12", "clip=0.5" }, 1, false, NULL },
    { "copy-task", NULL, { "steps=3", "accumulate=12", "eval_every=2" }, 1, false, NULL },
    { "vanilla", NULL, { "steps=2", "accumulate=12", "workers=1" }, 1, false, NULL },
    { "classifier", "texts", { "steps=2", "accumulate=12", "batch=4" }, 1, false, NULL },
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

/* A run is resumed by another number of ranks, and with another division of the state. */
Test(ranks, runs_are_resumed_by_any_number_of_ranks)
{
    run r = { "copy-task", NULL, { "steps=4", "accumulate=6" }, 1, false, NULL };
    cr_assert_eq(train_ranks(&r, in_directory("whole")), TRAIN_DONE);
    r = (run){ "copy-task", NULL, { "steps=2", "accumulate=6", "zero_stage=2" }, 3, false, NULL };
    cr_assert_eq(train_ranks(&r, in_directory("part")), TRAIN_DONE);
    r = (run){ "copy-task", NULL, { "steps=3", "zero_stage=1" }, 2, true, NULL };
    cr_assert_eq(train_ranks(&r, in_directory("part")), TRAIN_DONE);
    r = (run){ "copy-task", NULL, { "steps=4" }, 1, true, NULL };
    cr_assert_eq(train_ranks(&r, in_directory("part")), TRAIN_DONE);
    check_same("resumed", in_directory("whole"), in_directory("part"));
    check_same_losses("resumed", in_directory("whole"), in_directory("part"));
}

/* By default a step has one batch for each rank. */
Test(ranks, one_batch_for_each_rank)
{
    run r = { "bert-scratch", NULL, { "steps=2", "accumulate=3" }, 1, false, NULL };
    cr_assert_eq(train_ranks(&r, in_directory("one")), TRAIN_DONE);
    r = (run){ "bert-scratch", NULL, { "steps=2" }, 3, false, NULL };
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
    run r = { "bert-scratch", NULL, { "steps=2", "accumulate=3" }, 2, false, NULL };
    check_refused(r, "accumulate is 3, must be a multiple of the number of ranks, 2");
    r = (run){ "bert-scratch", NULL, { "steps=2" }, 3, false, "seed=5" };
    check_refused(r, "rank 1 has other settings than rank 0");
}
