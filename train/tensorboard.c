/* train/tensorboard.c - event files of a run. */
#include "train/tensorboard.h"

#include "common/file.h"

#include <glob.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static bool remove_earlier(const char *folder)
{
    glob_t found = { 0 };
    char *pattern = file_pattern(folder, "events.out.tfevents.*");
    if (!pattern)
        return false;
    glob(pattern, 0, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
    free(pattern);
    return true;
}

br_summary_writer *tensorboard_open(const char *folder, int64_t done)
{
    if (done == 0 && !remove_earlier(folder))
        return NULL;
    return br_summary_writer_new(
        folder, BR_OPTIONS(br_summary_writer, .purge_step = done > 0 ? done + 1 : BR_NONE));
}

bool tensorboard_add(br_summary_writer *writer, int64_t step, int n, const char *const *tags,
                     const double *values)
{
    for (int i = 0; i < n; i++)
        if (!isnan(values[i]) && !br_summary_writer_add_scalar(writer, tags[i], values[i], step))
            return false;
    return true;
}

/* Adds the distribution of t, unless no element is in a bin of TensorBoard's histograms. */
static bool add_histogram(br_summary_writer *writer, const char *group, const char *name,
                          br_tensor *t, int64_t step)
{
    char *tag = br_format("%s/%s", group, name);
    br_scope *scope = br_no_grad_begin();
    if (br_item(br_any(br_le_scalar(br_abs(br_detach(t)), 1e20))) != 0)
        br_summary_writer_add_histogram(writer, tag, t, step, NULL);
    br_scope_end(scope);
    br_free(tag);
    return !br_failed();
}

bool tensorboard_add_histograms(br_summary_writer *writer, int64_t step,
                                const br_named_list *parameters)
{
    for (const br_named_tensor *p = NULL; (p = br_named_list_next(parameters, p));) {
        br_tensor *gradient = br_grad_of(p->tensor);
        if (br_requires_grad(p->tensor) &&
            !add_histogram(writer, "parameters", p->name, p->tensor, step))
            return false;
        if (gradient && !add_histogram(writer, "gradients", p->name, gradient, step))
            return false;
    }
    return !br_failed();
}
