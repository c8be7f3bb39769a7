/* tests/train/test_tensorboard.c - the event files of a run; tests/viz/test_summary_writer.c tests
 * their contents, and tests/train/read_events.py reads them with TensorBoard's own package. */
#include "tests/cli/program.h"
#include "train/tensorboard.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>
#include <string.h>

TestSuite(tensorboard, .init = program_begin, .fini = program_end);

static void write_run(const char *folder, int64_t done)
{
    static const char *const tags[] = { "loss", "x" };
    br_summary_writer *w = tensorboard_open(folder, done);
    cr_assert_not_null(w, "%s", br_error_message());
    cr_assert(tensorboard_add(w, done + 1, 2, tags, (double[]){ 0.5, NAN }));
    cr_assert(tensorboard_add(w, 300, 2, tags, (double[]){ NAN, -2 }));
    br_summary_writer_free(w);
}

/* Returns the event files in the test's folder, sorted by name. */
static glob_t list_files(void)
{
    char pattern[100];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/events.out.tfevents.*", program_directory);
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
    return found;
}

/* Checks that a file contains the bytes of an event after its time, or does not. */
static void check_event(const char *path, const char *event, size_t n, bool is_there)
{
    static char bytes[1 << 20];
    FILE *file = fopen(path, "rb");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    cr_assert_eq(memmem(bytes, size, event, n) != NULL, is_there, "%s", path);
}

Test(tensorboard, runs)
{
    static const char loss[] = "\x2a\x0d\x0a\x0b\x0a\4loss\x15\0\0\0\x3f",
                      start[] = "\x10\x08\x3a\2\x08\1", not_a_number[] = "\1x\x15\0\0\xc0\x7f",
                      x[] = "\x10\xac\2\x2a\x0a\x0a\x08\x0a\1x\x15\0\0\0\xc0";
    write_run(program_directory, 0);
    write_run(program_directory, 0);
    write_run(program_directory, 7);
    glob_t found = list_files();
    cr_assert_eq(found.gl_pathc, 2, "a new run deletes earlier files, a resumed run does not");
    for (size_t i = 0; i < 2; i++) {
        check_event(found.gl_pathv[i], loss, sizeof loss - 1, true);
        check_event(found.gl_pathv[i], x, sizeof x - 1, true);
        check_event(found.gl_pathv[i], not_a_number, sizeof not_a_number - 1, false);
        check_event(found.gl_pathv[i], start, sizeof start - 1, i == 1);
    }
    globfree(&found);
}

Test(tensorboard, a_folder_whose_name_looks_like_a_pattern)
{
    char folder[100];
    snprintf(folder, sizeof folder, "%s/[0-9]*\\b", program_directory);
    program_shell("mkdir \"$OUT/[0-9]*\\b\"");
    write_run(folder, 0);
    write_run(folder, 0);
    program_shell("test \"$(ls \"$OUT/[0-9]*\\b\" | wc -l)\" = 1");
}

Test(tensorboard, histograms_of_every_second_step)
{
    program_check("train copy-task --preset small --steps 5 --histograms 2 --out $OUT/run", 0, "");
    program_check("train copy-task --preset small --steps 5 --out $OUT/none", 0, "");
    program_shell("! grep -aq parameters/ $OUT/none/events*");
    /* Each parameter has two histograms of its values and two of its gradient. */
    program_shell("grep -ao 'parameters/[a-z0-9._]*' $OUT/run/events* | sort >$OUT/values");
    program_shell("grep -ao 'gradients/[a-z0-9._]*' $OUT/run/events* | sed s/gradients/parameters/ "
                  "| sort >$OUT/gradients");
    program_shell("cmp $OUT/values $OUT/gradients");
    program_shell(
        "test $(uniq -c $OUT/values | awk '$1 == 2' | wc -l) = $(sort -u $OUT/values | wc -l)");
    program_shell("test $(wc -l <$OUT/values) -gt 20");
}

Test(tensorboard, a_parameter_that_is_nan_has_no_histogram)
{
    br_scope *scope = br_scope_begin();
    br_named_list *list = br_named_list_new();
    br_tensor *bad = br_full(BR_SHAPE(2), NAN, BR_F32), *good = br_ones(BR_SHAPE(2), BR_F32);
    br_set_requires_grad(bad, true);
    br_set_requires_grad(good, true);
    br_named_list_add(list, "bad", bad);
    br_named_list_add(list, "frozen", br_ones(BR_SHAPE(2), BR_F32));
    br_named_list_add(list, "good", good);
    br_summary_writer *w = tensorboard_open(program_directory, 0);
    cr_assert(tensorboard_add_histograms(w, 1, list), "%s", br_error_message());
    char *path = br_strdup(br_summary_writer_path(w));
    br_summary_writer_free(w);
    check_event(path, "parameters/good", 15, true);
    check_event(path, "parameters/bad", 14, false);
    check_event(path, "frozen", 6, false);
    br_free(path);
    br_named_list_free(list);
    br_scope_end(scope);
}
