/* tests/train/test_train_log.c - the log of a training run: what is kept of an earlier log, the
 * digits of its numbers, the steps since the minimum, and memory that runs out. */
#include "tests/allocations.h"
#include "tests/io/files.h"
#include "train/train_log.h"

#include <brasa/brasa.h>

TestSuite(train_log, .init = files_begin, .fini = files_end);

/* Each allocation of the first line, which makes the lists of values, fails in turn. Without memory
 * for its buffer, the C library writes the file unbuffered, which is no error. */
Test(train_log, memory_runs_out)
{
    bool failed = allocations_can_fail();
    for (int64_t n = 0; failed; n++) {
        train_log log = { .n_names = 1, .n_losses = 1, .names = { "loss" } };
        log.path = files_path("log");
        cr_assert(train_log_open(&log, 0), "%s", br_error_message());
        allocations_begin(n, false);
        bool ok = train_log_add(&log, 1, &(double){ 2 }, 0);
        allocations_end(&failed);
        cr_assert_eq(br_error_code(), ok ? BR_OK : BR_ERROR_MEMORY, "allocation %d: %s", (int)n,
                     br_error_message());
        cr_assert(ok || failed);
        cr_assert_eq(log.count, ok);
        br_clear_error();
        train_log_close(&log);
    }
}

static train_log log_of_losses(void)
{
    train_log log = { .n_names = 1, .n_losses = 1, .names = { "loss" } };
    log.path = files_path("log");
    return log;
}

/* A crash may leave a line without its newline. It is removed, even if it seems to be whole: its
 * last digits may be missing. */
Test(train_log, only_whole_lines_are_kept)
{
    static const char kept[] = "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": 1.5}\n";
    char whole[200];
    snprintf(whole, sizeof whole, "%s{\"step\": 3, \"loss\": 0.5}", kept);
    files_write(files_path("log"), whole, strlen(whole));
    train_log log = log_of_losses();
    cr_assert(train_log_open(&log, 9), "%s", br_error_message());
    cr_assert_eq(log.count, 2);
    cr_assert_eq(log.values[0][1], 1.5);
    train_log_close(&log);
    size_t n;
    char *text = files_read(files_path("log"), &n);
    cr_assert_eq(n, strlen(kept));
    cr_assert_eq(memcmp(text, kept, n), 0);
    free(text);
}

/* A resumed run has the same losses as one that was not interrupted. */
Test(train_log, floats_survive)
{
    train_log log = log_of_losses();
    cr_assert(train_log_open(&log, 0));
    const double values[] = { 1.0F / 3, 0.1F, 16777215, 1e-20F };
    for (int i = 0; i < 4; i++)
        cr_assert(train_log_add(&log, i + 1, &values[i], 0));
    train_log_close(&log);
    log = log_of_losses();
    cr_assert(train_log_open(&log, 4));
    cr_assert_eq(log.count, 4);
    for (int i = 0; i < 4; i++)
        cr_assert_eq((float)log.values[0][i], (float)values[i], "value %d", i);
    train_log_close(&log);
}

Test(train_log, an_equal_loss_is_no_new_minimum)
{
    train_log log = log_of_losses();
    cr_assert(train_log_open(&log, 0));
    static const double losses[] = { 3, 2, 2, 4, 1, NAN, 1 };
    static const int64_t since[] = { 0, 0, 1, 2, 0, 0, 1 };
    for (int i = 0; i < 7; i++) {
        cr_assert(train_log_add(&log, i + 1, &losses[i], 0));
        cr_assert_eq(train_log_since_minimum(&log, 0), since[i], "after %d", i);
    }
    train_log_close(&log);
}

static int occurrences(const char *text, const char *part)
{
    int n = 0;
    while ((text = strstr(text, part))) {
        n++;
        text++;
    }
    return n;
}

/* Losses share a panel, whatever is between them; every other quantity has its own. A loss far
 * below 0.001 is drawn where it is. */
Test(train_log, a_plot_has_a_panel_for_each_quantity)
{
    train_log log = { .n_names = 4,
                      .n_losses = 1,
                      .names = { "loss", "eval_loss", "eval_accuracy", "other_loss" } };
    log.path = files_path("log");
    cr_assert(train_log_open(&log, 0), "%s", br_error_message());
    for (int step = 1; step <= 2; step++)
        cr_assert(train_log_add(&log, step, (double[]){ step, 1e-6 * step, 0.5 * step, step }, 0));
    const char *path = files_path("plot.svg");
    cr_assert(train_log_plot(&log, path, "title", 1, 4), "%s", br_error_message());
    train_log_close(&log);
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    cr_assert_eq(occurrences(text, ">step<"), 1);
    cr_assert_eq(occurrences(text, ">loss<"), 1);
    cr_assert_eq(occurrences(text, ">accuracy (fraction)<"), 1);
    cr_assert_eq(occurrences(text, "<polyline"), 3);
    cr_assert_eq(occurrences(text, ">1e-06<"), 1);
    const char *other = strstr(text, ">other_loss<"), *accuracy = strstr(text, ">eval_accuracy<");
    cr_assert(other && accuracy && other < accuracy, "the losses' panel comes first");
}
