/* cli/pretrained.h - loads pretrained models for the commands. */
#ifndef BRASA_CLI_PRETRAINED_H
#define BRASA_CLI_PRETRAINED_H

#include <brasa/brasa.h>

/* Returns CLI_CONTINUE if `dir`, the value of `what` (such as "--model"), is a folder or a GGUF
 * file. Otherwise prints what is wrong and how to get a model folder, and returns the exit status.
 */
int pretrained_check_folder(const char *what, const char *dir);
/* Returns CLI_CONTINUE if --model is a folder, and if there is either a --file or arguments that
 * are texts. Otherwise prints what is wrong, and returns the exit status. */
int pretrained_check_arguments(const char *model, const char *file, int n_texts);
/* Loads a pipeline in the dtype of --dtype. Warns in the same way as pretrained_load(). Returns
 * NULL with an error on failure. */
br_pipeline *pretrained_pipeline(const char *dir, br_model_task task, br_pipeline_options *options);
/* Returns the first class of the folder's family that `fits`. Returns NULL with an error that names
 * `command` and the model_types that it supports if there is none. */
const br_model_class *pretrained_class(const char *dir, bool (*fits)(const br_model_class *class),
                                       const char *command);
/* Loads the folder's model as the named class. Returns NULL with an error if loading fails. Warns
 * on stderr if the tokenizer (may be NULL) has more tokens than the model's vocabulary, or if the
 * results may differ from those of transformers. `report` may be NULL; otherwise the caller frees
 * it with br_auto_model_report_clear(). */
void *pretrained_load(const char *dir, const char *class_name, const br_tokenizer *tokenizer,
                      br_auto_model_report *report);
/* Warns in the same way about a model that was loaded with this report. Returns false with an error
 * if the folder's config.json cannot be read. */
bool pretrained_warn(const char *dir, const br_tokenizer *tokenizer,
                     const br_auto_model_report *report);
/* Returns vocab_size of the folder's config.json; 0 with an error on failure. */
int64_t pretrained_rows(const char *dir);
/* Checks that all ids of a text are below `rows`. Otherwise the error names the token. */
bool pretrained_check_ids(const char *command, const br_tokenizer *tokenizer, const br_tensor *ids,
                          int64_t rows);
/* Sets o's end-of-text ids from the configuration. The caller frees eos_token_ids. */
bool pretrained_ends(const char *dir, br_generate_options *o);

#endif
