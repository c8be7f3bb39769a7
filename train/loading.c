/* train/loading.c - see loading.h. */
#include "train/loading.h"

void loading_warn(FILE *out, const char *dir, const br_auto_model_report *report)
{
    if (report->unknown > 0)
        fprintf(out,
                "brasa: warning: %s%s: results may differ from those of transformers, "
                "because these keys are unknown: %s\n",
                dir, br_gguf_is_file(dir) ? "" : "/config.json",
                br_printable(report->unknown_names));
    if (report->untied > 0)
        fprintf(out,
                "brasa: warning: %s: config.json ties weights that have different values in the "
                "files; both values are kept: %s\n",
                dir, br_printable(report->untied_names));
    if (report->absent > 0)
        fprintf(out,
                "brasa: warning: %s/model.safetensors.index.json lists keys in files that do not "
                "have them: %s\n",
                dir, br_printable(report->absent_names));
    if (report->missing > report->missing_poolers) /* no command uses the pooler */
        fprintf(out,
                "brasa: warning: %s: the files do not have these weights, which have random values "
                "now: %s\n",
                dir, br_printable(report->missing_names));
}
