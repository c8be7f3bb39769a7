/* train/progress.c - the text that a run shows after each step. */
#include "train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void trainer_report_progress(const trainer *t, const train_request *request, const double *values,
                             evaluation *latest)
{
    char text[160] = "";
    for (int i = t->log.n_losses > 1; i < t->log.n_names; i++) {
        double *metric = i < t->log.n_losses ? NULL : &latest->metrics[i - t->log.n_losses];
        if (metric && !isnan(values[i])) {
            *metric = values[i];
            latest->step = t->step;
        }
        double value = metric ? *metric : values[i];
        size_t n = strlen(text);
        if (!isnan(value))
            snprintf(text + n, sizeof text - n, "%s%s %.4f", n ? "  " : "", t->log.names[i], value);
    }
    size_t n = strlen(text);
    if (latest->step > 0 && latest->step != t->step)
        snprintf(text + n, sizeof text - n, " (step %" PRId64 ")", latest->step);
    n = strlen(text);
    if (latest->tokens_per_second > 0)
        snprintf(text + n, sizeof text - n, "  %.0f tokens/s", latest->tokens_per_second);
    if (request->progress)
        request->progress(request->context, t->step, text);
}
