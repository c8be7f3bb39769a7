/* tests/train/rank_runs.c - training runs by several forked ranks, and comparisons of two runs. */
#include "tests/train/rank_runs.h"
#include "backends/cpu/kernels.h"
#include "tests/cli/program.h"
#include "tests/distributed/sockets.h"
#include "train/ranks.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *in_directory(const char *name)
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
    train_request request = { .recipe = r->modified ? r->modified : train_find_recipe(r->recipe),
                              .preset = "small",
                              .data = r->data,
                              .out = out,
                              .resume = r->resume,
                              .assignments = assignments };
    for (int i = 0; r->settings[i]; i++)
        assignments[request.n_assignments++] = (assignment){ .value = r->settings[i] };
    if (r->fails_on_rank_1 && br_dist_rank(NULL) == 1)
        assignments[request.n_assignments++] = (assignment){ .value = r->fails_on_rank_1 };
    if (r->fails_on_rank_2 && br_dist_rank(NULL) == 2)
        assignments[request.n_assignments++] = (assignment){ .value = r->fails_on_rank_2 };
    if (r->out_on_rank_1 && br_dist_rank(NULL) == 1)
        request.out = r->out_on_rank_1;
    if (r->kernels_on_rank_1 && br_dist_rank(NULL) == 1)
        cr_assert(br__force_kernels(r->kernels_on_rank_1));
    const volatile sig_atomic_t stop = 1;
    if (r->asked_to_stop == br_dist_rank(NULL) + 1)
        request.stop = &stop;
    int64_t step;
    br_set_num_threads(1);
    train_outcome outcome = train_run(&request, &step);
    int rank = br_dist_rank(NULL), status = ranks_dead() ? RANK_DIED : (int)outcome;
    if (status != RANK_DIED)
        br_dist_finalize();
    FILE *errors = fopen(in_directory("errors"), "a");
    if (errors && br_failed()) {
        setvbuf(errors, NULL, _IOFBF, BUFSIZ); /* one write, so that lines of ranks do not mix */
        fprintf(errors, "rank %d, status %d: ", rank, status);
        br_report(errors);
    }
    if (errors)
        fclose(errors);
    return status;
}

int train_ranks(const run *r, const char *out)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        alarm(300); /* ranks that wait for ever end with this process */
        if (r->ranks > 1) {
            br_comm comm = fork_ranks(r->ranks, 1 << 16);
            br_dist_options options = br_dist_defaults();
            options.comm = &comm;
            if (r->watch_limit > 0)
                options.watch_limit = r->watch_limit;
            if (!br_dist_init(&options))
                _exit(100);
        }
        _exit(train(r, out));
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void check_same(const char *name, const char *a, const char *b)
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

void check_same_losses(const char *name, const char *a, const char *b)
{
    char command[700];
    snprintf(command, sizeof command,
             PROGRAM_LOSSES " %s/log.jsonl >$OUT/x; " PROGRAM_LOSSES
                            " %s/log.jsonl >$OUT/y; cmp $OUT/x $OUT/y || { echo '%s'; false; }",
             a, b, name);
    program_shell(command);
}
