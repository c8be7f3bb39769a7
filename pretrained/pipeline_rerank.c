/* pretrained/pipeline_rerank.c - cross-encoders: how well texts fit a query, as
 * sentence-transformers' CrossEncoder computes it. */
#include "pretrained/pipeline_internal.h"

#include "nn/nn_internal.h"
#include "pretrained/model_json.h"
#include "pretrained/prompts.h"
#include "tensor/min_max.h"

#include <inttypes.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_rerank)

static const char op[] = "pipeline_rerank";

/* ---- The folder's files ---------------------------------------------------------------------- */

/* Returns the folder of config.json, which the caller frees. */
static char *folder_of(const br_pipeline *self)
{
    const char *path = br_auto_config_path(self->config), *slash = strrchr(path, '/');
    return slash ? br_format("%.*s", (int)(slash - path), path) : br_format(".");
}

/* Sets *scores to those of an activation, which files name by the path of its class in PyTorch. */
static bool read_activation(const br_model_json *f, const char *key, const json_t *value,
                            br_scores *scores)
{
    const char *name = json_string_value(value), *dot = name ? strrchr(name, '.') : NULL;
    if (!value || json_is_null(value))
        return true;
    if (dot && strcmp(dot, ".Sigmoid") == 0)
        *scores = BR_SCORES_SIGMOID;
    else if (dot && strcmp(dot, ".Identity") == 0)
        *scores = BR_SCORES_LOGITS;
    else
        return br__model_json_refuse_value(
            f, key, value,
            "torch.nn.Sigmoid or torch.nn.Identity; the option scores (brasa rerank: --scores S) "
            "overrides it");
    return true;
}

/* Reads the activation from config.json, where older versions of sentence-transformers store it
 * under the second key. */
static bool read_config(const char *folder, br_scores *scores)
{
    static const char old[] = "sbert_ce_default_activation_function";
    br_model_json f;
    bool ok = br__model_json_open(op, &f, folder, "config.json", JSON_OBJECT, true);
    const json_t *own = ok ? json_object_get(f.value, "sentence_transformers") : NULL;
    const json_t *value = json_object_get(own, "activation_fn");
    ok = ok && (value ? read_activation(&f, "sentence_transformers.activation_fn", value, scores)
                      : read_activation(&f, old, json_object_get(f.value, old), scores));
    br__model_json_close(&f);
    return ok;
}

/* Reads the activation from the file that has priority, then from config.json. */
static bool read_scores(const char *folder, br_scores *scores)
{
    br_model_json f;
    bool ok =
        br__model_json_open(op, &f, folder, "config_sentence_transformers.json", JSON_OBJECT,
                            false) &&
        read_activation(&f, "activation_fn", json_object_get(f.value, "activation_fn"), scores);
    br__model_json_close(&f);
    if (ok && *scores == BR_SCORES_AUTO)
        ok = read_config(folder, scores);
    if (*scores == BR_SCORES_AUTO)
        *scores = BR_SCORES_SIGMOID;
    return ok;
}

/* Lowers *length to the value of the key, if the file has a positive one. */
static bool lower_to(const char *folder, const char *name, const char *key, int64_t *length,
                     bool *found)
{
    br_model_json f;
    const bool ok = br__model_json_open_any(op, &f, folder, name, false);
    const double value = ok && f.value ? json_number_value(json_object_get(f.value, key)) : 0;
    *found = value >= 1;
    if (value >= 1 && value < (double)*length)
        *length = (int64_t)value;
    br__model_json_close(&f);
    return ok;
}

/* Sets *length to the number of tokens to which pairs are truncated. */
static bool read_length(const br_pipeline *self, const char *folder, int64_t *length)
{
    bool found = false;
    *length = self->limits.max_tokens;
    return lower_to(folder, "sentence_bert_config.json", "max_seq_length", length, &found) &&
           (found || lower_to(folder, "tokenizer_config.json", "model_max_length", length, &found));
}

/* Reads the prompts. sentence-transformers does so only in a folder with modules.json. */
static bool read_prompts(const char *folder, br_prompts *prompts)
{
    br_model_json f;
    const bool ok = br__model_json_open_any(op, &f, folder, "modules.json", false);
    const bool has_modules = f.value;
    br__model_json_close(&f);
    if (has_modules)
        return br__prompts_read(prompts, op, folder, false);
    *prompts = (br_prompts){ .op = op, .folder = br_strdup(folder) };
    return ok && prompts->folder;
}

/* Replaces what the options leave to the folder's files. Sets *query to the query behind the
 * prompt, whose memory is in *memory for br_free(). */
static bool read_files(const br_pipeline *self, br_rerank_options *o, br_text *query, char **memory)
{
    char *folder = folder_of(self);
    int64_t length = o->max_length;
    br_prompts prompts = { 0 };
    const char *prompt = "";
    const bool ok = folder && (o->max_length > 0 || read_length(self, folder, &length)) &&
                    (o->scores != BR_SCORES_AUTO || read_scores(folder, &o->scores)) &&
                    read_prompts(folder, &prompts) &&
                    br__prompts_choose(&prompts, o->prompt, o->prompt_name, &prompt);
    o->max_length = length;
    *memory = ok ? br__add_prompt(prompt, 1, query) : NULL;
    br__prompts_free(&prompts);
    br_free(folder);
    return *memory;
}

/* ---- Scores ---------------------------------------------------------------------------------- */

static bool check(const br_pipeline *self, const br_text *query, const br_rerank_options *o)
{
    if (!br__required(op, "query", query))
        return false;
    if (self->n_labels != 1)
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s: the model has %" PRId64
                " labels, must have 1 to rank texts; br_pipeline_classify() (brasa classify "
                "--pair) gives the scores of all labels",
                br_printable(br_auto_config_path(self->config)), self->n_labels);
    else if (o->scores == BR_SCORES_SOFTMAX)
        br_fail(BR_ERROR_ARGUMENT, op,
                "the option scores is BR_SCORES_SOFTMAX, which is 1 for a single label; must be "
                "BR_SCORES_AUTO, BR_SCORES_SIGMOID or BR_SCORES_LOGITS");
    return !br_failed();
}

/* Returns the query n times, for br_free(). */
static br_text *repeated(const br_text *query, int64_t n)
{
    br_text *all = br_calloc((size_t)n, sizeof *all);
    for (int64_t i = 0; all && i < n; i++)
        all[i] = *query;
    return all;
}

/* Scores the texts with the query behind the prompt. */
static br_tensor *score(br_pipeline *self, const br_text *query, int64_t n, const br_text *texts,
                        const br_rerank_options *o)
{
    br_scope *scope = br_scope_begin();
    br_text *queries = repeated(query, n);
    br_tensor *scores = NULL;
    if (queries)
        scores = br_pipeline_classify(self, n, queries, texts,
                                      BR_OPTIONS(br_classify, .batch_size = o->batch_size,
                                                 .max_length = o->max_length, .scores = o->scores,
                                                 .on_batch = o->on_batch, .context = o->context));
    br_free(queries);
    scores = br_scope_return(scope, br_reshape(scores, BR_SHAPE(n)));
    br_scope_end(scope);
    return br_failed() ? NULL : scores;
}

br_tensor *br_pipeline_rerank(br_pipeline *self, const br_text *query, int64_t n,
                              const br_text *texts, const br_rerank_options *options)
{
    br_rerank_options o = *BR_OPTIONS_OF(op, br_rerank, options);
    const br_text_batches batches = { .op = op, .n = n, .batch_size = o.batch_size };
    if (!br__pipeline_begin(op, self, BR_TASK_SEQUENCE_CLASSIFICATION) || !check(self, query, &o) ||
        !br__check_batches(&batches, texts))
        return NULL;
    char *memory = NULL;
    br_text *whole = br__copy_texts(op, "query", 1, query);
    const bool ok = whole && read_files(self, &o, whole, &memory);
    br_tensor *scores = ok ? score(self, whole, n, texts, &o) : NULL;
    br_free(memory);
    br_free(whole);
    return scores;
}
