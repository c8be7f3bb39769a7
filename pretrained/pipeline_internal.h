/* pretrained/pipeline_internal.h - the parts of a pipeline. */
#ifndef BR_PIPELINE_INTERNAL_H
#define BR_PIPELINE_INTERNAL_H

#include "pretrained/text_model.h"

#include <brasa/pretrained/pipeline.h>

struct br_pipeline {
    br_auto_config *config;
    const br_model_class *class;
    br_tokenizer *tokenizer;
    br_module *module;
    br_text_limits limits;
    int64_t n_labels;
    char **labels;
    br_scores scores; /* what BR_SCORES_AUTO means */
};

/* Checks that the pipeline is not NULL and was loaded for the task, and puts its module into
 * evaluation mode. Returns false and an error otherwise. */
bool br__pipeline_begin(const char *op, br_pipeline *self, br_model_task task);
/* Returns the logits of a batch as f32 in the host's memory. */
br_tensor *br__pipeline_logits(const char *op, const br_pipeline *self,
                               const br_token_batch *batch);

#endif
