/* tests/distributed/main.c - runs the tests of distributed/ on several ranks:
 *
 *     brasa_distributed --forked N        forks the ranks; no MPI is needed
 *     mpirun -n N brasa_distributed
 *
 * Rank 0 prints a line for each test and the counts. The exit status is 0 if no check failed on any
 * rank. A further argument is for tests/distributed/run: with `die` and `exit`, one rank ends
 * early; with `late`, one does not come to a collective; with `uneven`, one has no data for a
 * sharded optimizer; with `sent`, one fails in backward after it has sent a gradient; with
 * `crossed`, two ranks use two groups in different orders; with `callers`, there is neither a
 * progress thread nor a time limit; with `unwatched` and --forked, one rank cannot connect to the
 * watch, and dies; with `machines` and --forked, one rank has another host name, and dies. */
#include "tests/distributed/sockets.h"
#include "tests/distributed/test.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

int rank, size;
static int failures;

bool check_that(bool condition, const char *text, const char *file, int line)
{
    if (condition)
        return true;
    failures++;
    fprintf(stderr, "%s:%d: rank %d: failed: %s%s%s\n", file, line, rank, text,
            br_failed() ? "; " : "", br_failed() ? br_error_message() : "");
    return false;
}

void check_error(bool succeeded, const char *part, const char *file, int line)
{
    if (check_that(!succeeded, "the call fails", file, line) && !strstr(br_error_message(), part)) {
        failures++;
        fprintf(stderr, "%s:%d: rank %d: message \"%s\" lacks \"%s\"\n", file, line, rank,
                br_error_message(), part);
    }
    br_clear_error();
}

typedef struct test {
    const char *name;
    void (*run)(void);
} test;

#define TEST(name)         \
    {                      \
#        name, test_##name \
    }
static const test tests[] = {
    TEST(groups),
    TEST(broadcast),
    TEST(reductions),
    TEST(reduction_order),
    TEST(gather_and_scatter),
    TEST(all_to_all),
    TEST(send_and_receive),
    TEST(messages_by_tag),
    TEST(disagreements),
    TEST(disagreements_of_every_function),
    TEST(errors_of_other_ranks),
    TEST(signals),
    TEST(arguments),
    TEST(versions),
    TEST(answers_of_strangers),
    TEST(greetings_of_strangers),
    TEST(passes_equal_one_process),
    TEST(mean),
    TEST(sync_can_be_turned_off),
    TEST(unused_parameters),
    TEST(dtypes_in_buckets),
    TEST(gradients_are_views_of_buckets),
    TEST(buffers),
    TEST(join),
    TEST(different_modules),
    TEST(training_reaches_the_same_parameters),
    TEST(every_move_of_a_parameter),
    TEST(every_move_of_a_bucket),
    TEST(buckets_are_sent_during_backward),
    TEST(profile_shows_the_wait),
    TEST(tied_weights_are_sent_early),
    TEST(early_gradients_and_accumulation),
    TEST(early_gradients_that_hooks_change),
    TEST(early_gradients_of_some_ranks),
    TEST(sharded_equals_one_process),
    TEST(scattered_equals_one_process),
    TEST(groups_and_schedulers),
    TEST(checkpoints_and_other_numbers_of_ranks),
    TEST(memory_is_shared_out),
    TEST(whole_parameters_are_shared_out),
    TEST(sharded_arguments),
    TEST(parameters_of_sharded_optimizers),
    TEST(states_that_do_not_match),
    TEST(kinds_that_are_not_elementwise),
    TEST(ranks_that_differ_in_a_step),
    TEST(ranks_of_a_group_in_messages),
    TEST(order_of_freeing),
    TEST(scattered_gradients),
};

/* Runs a test on all ranks. Returns the number of failures on all of them. */
static int64_t run(const test *t)
{
    int64_t live = br_live_tensors();
    failures = 0;
    br_scope *scope = br_scope_begin();
    t->run();
    if (br_failed())
        check_that(false, "no error is pending", t->name, 0);
    br_clear_error();
    br_scope_end(scope);
    check_that(br_live_tensors() == live, "no tensor leaked", t->name, 0);
    scope = br_scope_begin();
    br_tensor *sum = br_scalar(failures, BR_I64);
    if (!br_dist_all_reduce(sum, BR_DIST_SUM, NULL)) {
        fprintf(stderr, "rank %d: after %s: %s\n", rank, t->name, br_error_message());
        exit(1);
    }
    int64_t n = br_item_i64(sum);
    br_scope_end(scope);
    return n;
}

/* One rank ends while the others wait for it. */
static int end_early(bool die)
{
    br_dist_barrier(NULL);
    if (rank == size - 1 && die)
        kill(getpid(), SIGKILL);
    if (rank == size - 1)
        return 3;
    br_tensor *t = br_ones(BR_SHAPE(100000), BR_F32);
    br_dist_all_reduce(t, BR_DIST_SUM, NULL);
    return br_report(stderr);
}

/* One rank begins a collective after the other ranks' time limit. They then begin another
 * collective. */
static int come_late(void)
{
    br_dist_barrier(NULL);
    if (rank == size - 1)
        sleep(2);
    br_dist_barrier(NULL);
    int status = br_report(stderr);
    br_clear_error();
    br_dist_barrier(NULL);
    br_report(stderr);
    return status;
}

/* The last rank uses two groups in another order than the others. */
static int cross_groups(void)
{
    br_dist_group *first = br_dist_split(NULL, 0, 0), *second = br_dist_split(NULL, 0, 0);
    br_dist_barrier(rank == size - 1 ? second : first);
    br_dist_barrier(rank == size - 1 ? first : second);
    br_dist_group_free(first);
    br_dist_group_free(second);
    return br_report(stderr);
}

/* The last rank has no data. */
static int join_early(void)
{
    br_linear *model = br_linear_new(2, 2, true);
    br_data_parallel *parallel = br_data_parallel_new(br_base(model), NULL);
    br_optim *optim = br_adam(br_base(model), NULL);
    br_sharded_optim *sharded = br_sharded_optim_new(parallel, optim);
    if (rank == size - 1)
        br_data_parallel_join(parallel);
    else
        br_backward(br_sum(br_linear_forward(model, br_ones(BR_SHAPE(1, 2), BR_F32))));
    br_sharded_optim_free(sharded);
    br_optim_free(optim);
    br_data_parallel_free(parallel);
    br_module_free(model);
    return br_report(stderr);
}

static void print_warning(br_error code, const char *message, void *unused)
{
    (void)unused;
    if (code == BR_WARNING)
        fprintf(stderr, "rank %d: warning: %s\n", br_dist_rank(NULL), message);
}

/* Leaves the process no file descriptor for a further socket. */
static void use_up_descriptors(void)
{
    rlim_t next = (rlim_t)dup(0);
    close((int)next);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){ next, next });
}

/* As if this rank ran on another machine. Says so and exits if that is not permitted. */
static void change_machine(void)
{
    static const char name[] = "elsewhere";
    if (unshare(CLONE_NEWUTS) != 0 || sethostname(name, sizeof name - 1) != 0) {
        fprintf(stderr, "cannot change the host name\n");
        _exit(1);
    }
}

int main(int argc, char **argv)
{
    enum { MAX_BYTES = 5000 }; /* small, so that messages are cut */
    bool forked = argc > 2 && strcmp(argv[1], "--forked") == 0;
    br_comm comm = { 0 };
    if (forked)
        comm = fork_ranks(atoi(argv[2]), MAX_BYTES);
    const char *mode = argc > (forked ? 3 : 1) ? argv[forked ? 3 : 1] : "";
    br_dist_options options = br_dist_defaults();
    options.comm = forked ? &comm : NULL;
    options.progress_thread = strcmp(mode, "callers") != 0;
    if (strcmp(mode, "late") == 0)
        options.timeout = 0.5;
    else if (!options.progress_thread)
        options.timeout = 0; /* no limit */
    br_set_error_callback(print_warning, NULL);
    if (strcmp(mode, "unwatched") == 0 && comm.rank == comm.size - 1)
        use_up_descriptors();
    if (strcmp(mode, "machines") == 0 && comm.rank == comm.size - 1)
        change_machine();
    if (!br_dist_init(&options))
        return br_report(stderr);
    rank = br_dist_rank(NULL);
    size = br_dist_size(NULL);
    if (strcmp(mode, "uneven") == 0)
        return join_early();
    if (strcmp(mode, "sent") == 0)
        return fail_after_sending();
    if (strcmp(mode, "late") == 0)
        return come_late();
    if (strcmp(mode, "crossed") == 0)
        return cross_groups();
    if (strcmp(mode, "die") == 0 || strcmp(mode, "unwatched") == 0 ||
        strcmp(mode, "machines") == 0 || strcmp(mode, "exit") == 0)
        return end_early(strcmp(mode, "exit") != 0);
    int passed = 0, failed = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        int64_t n = run(&tests[i]);
        passed += n == 0;
        failed += n != 0;
        if (rank == 0 && n > 0)
            printf("FAILED  %s\n", tests[i].name);
    }
    if (rank == 0)
        printf("%d passed, %d failed: %d ranks, %s\n", passed, failed, size, br_dist_library());
    br_dist_finalize();
    return failed != 0;
}
