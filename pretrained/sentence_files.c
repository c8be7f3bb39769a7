/* pretrained/sentence_files.c - see sentence_files.h. Meanings and defaults are those of
 * sentence-transformers 6. */
#include "pretrained/sentence_files.h"

#include "pretrained/model_json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char op[] = "sentence_transformer";

/* Ends of messages about a value that an option replaces. */
#define OVERRIDES_POOLING "the option pooling (brasa embed: --pooling MODE) overrides it"
#define OVERRIDES_LENGTH  "the option max_seq_length (brasa embed: --max-length N) overrides it"

/* ---- The pooling module ---------------------------------------------------------------------- */

#define MODES \
    "\"cls\", \"max\", \"mean\", \"mean_sqrt_len_tokens\", \"weightedmean\", \"lasttoken\""

/* Values of pooling_mode, and the flags of files that were written before version 6. */
static const struct {
    const char *name, *flag;
} mode_keys[] = {
    [BR_POOLING_CLS] = { "cls", "pooling_mode_cls_token" },
    [BR_POOLING_MAX] = { "max", "pooling_mode_max_tokens" },
    [BR_POOLING_MEAN] = { "mean", "pooling_mode_mean_tokens" },
    [BR_POOLING_MEAN_SQRT_LEN] = { "mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens" },
    [BR_POOLING_WEIGHTEDMEAN] = { "weightedmean", "pooling_mode_weightedmean_tokens" },
    [BR_POOLING_LASTTOKEN] = { "lasttoken", "pooling_mode_lasttoken" },
};

static bool add_mode(br_sentence_settings *s, const br_model_json *f, const json_t *value)
{
    const char *name = json_string_value(value);
    for (br_pooling i = BR_POOLING_CLS; name && i <= BR_POOLING_LASTTOKEN; i++) {
        if (strcmp(mode_keys[i].name, name) != 0)
            continue;
        if (s->n_modes == BR_MAX_POOLINGS)
            return br__model_json_refuse(f, "pooling_mode has more than %d modes", BR_MAX_POOLINGS);
        s->modes[s->n_modes++] = i;
        return true;
    }
    return br__model_json_refuse_value(f, "pooling_mode", value,
                                       "one of " MODES ", or a list of them; " OVERRIDES_POOLING);
}

/* Reads pooling_mode, which is a mode or a list of modes. */
static bool read_modes(br_sentence_settings *s, const br_model_json *f, const json_t *value)
{
    if (!json_is_array(value))
        return add_mode(s, f, value);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!add_mode(s, f, json_array_get(value, i)))
            return false;
    return s->n_modes > 0 ||
           br__model_json_refuse(f, "pooling_mode is an empty list, must be one of " MODES
                                    ", or a list of them; " OVERRIDES_POOLING);
}

/* Refuses a flag of a mode that does not exist. */
static bool check_flags(const br_model_json *f)
{
    const char *key;
    json_t *value;
    json_object_foreach(f->value, key, value)
    {
        bool known = strncmp(key, "pooling_mode_", strlen("pooling_mode_")) != 0;
        for (br_pooling i = BR_POOLING_CLS; i <= BR_POOLING_LASTTOKEN; i++)
            known |= strcmp(key, mode_keys[i].flag) == 0;
        if (!known && !json_is_false(value))
            return br__model_json_refuse(f, "%s is not a known pooling mode; " OVERRIDES_POOLING,
                                         br_printable(key));
    }
    return true;
}

static bool read_flags(br_sentence_settings *s, const br_model_json *f)
{
    if (!check_flags(f))
        return false;
    for (br_pooling i = BR_POOLING_CLS; i <= BR_POOLING_LASTTOKEN; i++) {
        bool on = false;
        if (!br__model_json_flag(f, mode_keys[i].flag, &on))
            return false;
        if (on)
            s->modes[s->n_modes++] = i;
    }
    if (s->n_modes == 0)
        s->modes[s->n_modes++] = BR_POOLING_MEAN;
    return true;
}

/* Checks that the size of a token's hidden state, if both files have it, is the model's. */
static bool check_size(const br_model_json *f, const char *key, const br_auto_config *config)
{
    json_t *value = json_object_get(f->value, key);
    if (!value || !br_auto_config_has(config, "hidden_size"))
        return true;
    if (!json_is_integer(value))
        return br__model_json_refuse_value(f, key, value, "an integer");
    int64_t size = br_auto_config_size(config, "hidden_size");
    return !br_failed() &&
           (json_integer_value(value) == size ||
            br__model_json_refuse(
                f, "%s is %" JSON_INTEGER_FORMAT ", but hidden_size is %" PRId64 " in %s", key,
                json_integer_value(value), size, br_printable(br_auto_config_path(config))));
}

static bool read_pooling(br_sentence_settings *s, const char *folder,
                         const br_sentence_transformer_options *o)
{
    br_model_json f;
    bool ok = br__model_json_open(op, &f, folder, "config.json", JSON_OBJECT,
                                  o->pooling == BR_POOLING_AUTO);
    ok = ok && check_size(&f, "word_embedding_dimension", s->config) &&
         check_size(&f, "embedding_dimension", s->config) &&
         br__model_json_flag(&f, "include_prompt", &s->include_prompt);
    if (json_is_null(json_object_get(f.value, "include_prompt")))
        s->include_prompt = false;
    if (ok && o->pooling == BR_POOLING_AUTO) {
        json_t *mode = json_object_get(f.value, "pooling_mode");
        ok = mode ? read_modes(s, &f, mode) : read_flags(s, &f);
    }
    br__model_json_close(&f);
    return ok;
}

/* ---- The transformer module ------------------------------------------------------------------ */

/* Sets max_length to the smaller of the model's number of positions and the tokenizer's
 * model_max_length. */
static bool read_tokenizer_limit(br_sentence_settings *s, const br_model_json *tokenizer)
{
    double limit = INT32_MAX;
    if (br_auto_config_has(s->config, "max_position_embeddings"))
        limit = (double)br_auto_config_size(s->config, "max_position_embeddings");
    json_t *value = br__model_json_get(tokenizer, "model_max_length");
    if (br_failed())
        return false;
    double most = value ? json_number_value(value) : limit; /* such as 1e30 */
    if (!(most >= BR_MIN_SEQ_LENGTH) || most != floor(most))
        return br__model_json_refuse_value(tokenizer, "model_max_length", value,
                                           "an integer of at least 3; " OVERRIDES_LENGTH);
    limit = fmin(limit, most);
    s->max_length = (int64_t)limit;
    return true;
}

static bool read_length(br_sentence_settings *s, const br_model_json *f,
                        const br_model_json *tokenizer)
{
    json_t *value = br__model_json_get(f, "max_seq_length");
    if (!value)
        return read_tokenizer_limit(s, tokenizer);
    s->max_length = json_integer_value(value);
    return (s->max_length >= BR_MIN_SEQ_LENGTH && s->max_length <= INT32_MAX) ||
           br__model_json_refuse_value(f, "max_seq_length", value,
                                       "an integer in 3 .. 2147483647; " OVERRIDES_LENGTH);
}

/* Reads truncation_side: the side on which texts are truncated. */
static bool read_truncation(br_sentence_settings *s, const br_model_json *tokenizer)
{
    json_t *value = br__model_json_get(tokenizer, "truncation_side");
    const char *side = value ? json_string_value(value) : "right";
    s->truncate_left = side && strcmp(side, "left") == 0;
    return s->truncate_left || (side && strcmp(side, "right") == 0) ||
           br__model_json_refuse_value(tokenizer, "truncation_side", value,
                                       "\"left\" or \"right\"");
}

/* Opens the file of the transformer module: the first of its possible names whose object is not
 * empty. Such a file may also contain null. Call br__model_json_close() in any case. */
static bool open_transformer_file(br_sentence_settings *s, br_model_json *f)
{
    static const char *const names[] = {
        "sentence_bert_config.json",       "sentence_roberta_config.json",
        "sentence_distilbert_config.json", "sentence_camembert_config.json",
        "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
        "sentence_xlnet_config.json",
    };
    *f = (br_model_json){ 0 };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        br__model_json_close(f);
        if (!br__model_json_open_any(op, f, s->folder, names[i], false))
            return false;
        if (!f->value || json_is_null(f->value))
            continue;
        if (!br__model_json_check_type(f, JSON_OBJECT))
            return false;
        s->settings_file = names[i];
        if (json_object_size(f->value) > 0)
            break;
    }
    return true;
}

static bool read_transformer(br_sentence_settings *s, const br_sentence_transformer_options *o)
{
    br_model_json f, tokenizer = { 0 };
    bool ok =
        open_transformer_file(s, &f) && br__model_json_flag(&f, "do_lower_case", &s->lower_case) &&
        br__model_json_open(op, &tokenizer, s->folder, "tokenizer_config.json", JSON_OBJECT,
                            false) &&
        (o->max_seq_length > 0 || read_length(s, &f, &tokenizer)) && read_truncation(s, &tokenizer);
    br__model_json_close(&tokenizer);
    br__model_json_close(&f);
    return ok;
}

/* ---- modules.json ---------------------------------------------------------------------------- */

/* The modules before those that map embeddings to embeddings. */
typedef enum module { TRANSFORMER, POOLING, MODULES } module;

/* Returns the folder of module i, which the caller frees; NULL with an error on failure. */
static char *module_folder(const br_model_json *f, size_t i, const char *dir, const char *path)
{
    bool up = false;
    for (const char *p = path; *p && !up; p += strcspn(p, "/"), p += *p == '/')
        up = strncmp(p, "..", 2) == 0 && (p[2] == '/' || !p[2]);
    if (up || *path == '/') {
        br__model_json_refuse(
            f, "the path of module %zu is \"%s\", must be a folder in the model's folder", i,
            br_printable(path));
        return NULL;
    }
    return *path ? br_format("%s/%s", dir, path) : br_format("%s", dir);
}

/* Returns the name of the class of module i; NULL with an error if it is not supported. */
static const char *class_name(const br_model_json *f, size_t i, const char *type)
{
    static const char package[] = "sentence_transformers.";
    const char *dot = strrchr(type, '.'), *name = dot ? dot + 1 : "";
    bool known = strcmp(name, "Transformer") == 0 || strcmp(name, "Pooling") == 0 ||
                 br__sentence_kind(name) < BR_SENTENCE_KINDS;
    if (known && strncmp(type, package, strlen(package)) == 0)
        return name;
    br__model_json_refuse(f,
                          "module %zu is %s, but only Transformer, Pooling, Normalize, Dense, "
                          "LayerNorm and Dropout of sentence_transformers are supported",
                          i, br_printable(type));
    return NULL;
}

/* Adds a module that follows the pooling. Takes the folder. */
static bool add_module(br_sentence_settings *s, const br_model_json *f, br_sentence_kind kind,
                       char *folder)
{
    if (s->n_modules == BR_MAX_SENTENCE_MODULES) {
        br_free(folder);
        return br__model_json_refuse(f, "more than %d modules follow the pooling",
                                     BR_MAX_SENTENCE_MODULES);
    }
    s->kinds[s->n_modules] = kind;
    s->module_folders[s->n_modules++] = folder;
    return folder;
}

/* Stores the folder of module i, and checks its type and its place in the list. */
static bool read_module(br_sentence_settings *s, const br_model_json *f, size_t i, const char *dir,
                        char *folders[MODULES])
{
    const json_t *entry = json_array_get(f->value, i);
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *path = json_string_value(json_object_get(entry, "path"));
    if (!type || !path)
        return br__model_json_refuse(f, "module %zu must have a type and a path, which are strings",
                                     i);
    const char *name = class_name(f, i, type);
    if (!name)
        return false;
    const bool is_first = strcmp(name, "Transformer") == 0, pools = strcmp(name, "Pooling") == 0;
    if (is_first ? folders[TRANSFORMER] != NULL || i > 0
                 : !folders[TRANSFORMER] || (pools && (folders[POOLING] || s->n_modules > 0)))
        return br__model_json_refuse(
            f, "module %zu is %s, but the order must be Transformer, Pooling, others", i,
            br_printable(type));
    char *folder = module_folder(f, i, dir, path);
    if (!is_first && !pools)
        return add_module(s, f, br__sentence_kind(name), folder);
    folders[is_first ? TRANSFORMER : POOLING] = folder;
    return folder;
}

static bool read_list(br_sentence_settings *s, const br_model_json *f, const char *dir,
                      const br_sentence_transformer_options *o, char *folders[MODULES])
{
    for (size_t i = 0; i < json_array_size(f->value); i++)
        if (!read_module(s, f, i, dir, folders))
            return false;
    if (!folders[TRANSFORMER])
        return br__model_json_refuse(f, "the list has no Transformer module");
    return folders[POOLING] || o->pooling != BR_POOLING_AUTO ||
           br__model_json_refuse(
               f, "the list has no Pooling module; the option pooling (brasa embed: --pooling "
                  "MODE) chooses a mode");
}

static bool read_modules(br_sentence_settings *s, const br_model_json *f, const char *dir,
                         const br_sentence_transformer_options *o)
{
    char *folders[MODULES] = { NULL };
    bool ok = read_list(s, f, dir, o, folders);
    s->folder = folders[TRANSFORMER];
    s->config = ok ? br_auto_config_load(s->folder) : NULL;
    ok = s->config && read_transformer(s, o) &&
         (!folders[POOLING] || read_pooling(s, folders[POOLING], o)) &&
         br__prompts_read(&s->prompts, op, dir, true);
    br_free(folders[POOLING]);
    return ok;
}

bool br__sentence_load_modules(br_sentence_settings *s, int64_t *dimension)
{
    bool ok = true;
    for (int i = 0; ok && i < s->n_modules; i++)
        ok = br__sentence_module_read(&s->modules[i], s->kinds[i], s->module_folders[i], dimension);
    return ok;
}

br_tensor *br__sentence_run_modules(const br_sentence_settings *s, br_tensor *rows)
{
    for (int i = 0; i < s->n_modules; i++)
        rows = br__sentence_module_run(&s->modules[i], rows);
    return rows;
}

/* ---- A folder without modules.json, or a GGUF file ------------------------------------------- */

/* Adds the pooling of a GGUF file, which has llama.cpp's number of it. */
static bool read_gguf_pooling(br_sentence_settings *s, const char *path)
{
    enum { MEAN = 1, CLS, LAST };
    static const br_pooling modes[] = {
        [MEAN] = BR_POOLING_MEAN, [CLS] = BR_POOLING_CLS, [LAST] = BR_POOLING_LASTTOKEN
    };
    br_gguf *file = br_gguf_open(path, NULL);
    const char *architecture = file ? br_gguf_string(file, "general.architecture", NULL) : NULL;
    char *key = architecture ? br_format("%s.pooling_type", architecture) : NULL;
    char found[32] = "missing";
    int64_t type = key && br_gguf_metadata_type(file, key) ? br_gguf_integer(file, key) : -1;
    if (type >= 0)
        snprintf(found, sizeof found, "%" PRId64, type);
    if (key && !br_failed() && (type < MEAN || type > LAST))
        br_raise(BR_ERROR_FORMAT,
                 "%s: %s: metadata \"%s\" is %s, must be 1 (mean), 2 (cls) or 3 "
                 "(lasttoken); " OVERRIDES_POOLING,
                 op, br_printable(path), key, found);
    else if (!br_failed())
        s->modes[s->n_modes++] = modes[type];
    br_free(key);
    br_gguf_close(file);
    return s->n_modes > 0;
}

static bool use_defaults(br_sentence_settings *s, const char *dir)
{
    s->kinds[s->n_modules] = BR_SENTENCE_NORMALIZE;
    s->module_folders[s->n_modules++] = br_strdup(dir);
    if (s->n_modes == 0 && br_gguf_is_file(dir)) {
        if (!read_gguf_pooling(s, dir))
            return false;
    } else if (s->n_modes == 0) {
        s->modes[s->n_modes++] = BR_POOLING_MEAN;
    }
    s->folder = br_strdup(dir);
    s->config = s->folder ? br_auto_config_load(dir) : NULL;
    return s->config && s->module_folders[0];
}

/* ---------------------------------------------------------------------------------------------- */

bool br__sentence_read(br_sentence_settings *s, const char *dir,
                       const br_sentence_transformer_options *o)
{
    *s = (br_sentence_settings){ .include_prompt = true, .max_length = o->max_seq_length };
    if (o->pooling != BR_POOLING_AUTO)
        s->modes[s->n_modes++] = o->pooling;
    br_model_json f;
    bool ok = br__model_json_open(op, &f, dir, "modules.json", JSON_ARRAY, false) &&
              (f.value ? read_modules(s, &f, dir, o) : use_defaults(s, dir));
    br__model_json_close(&f);
    return ok;
}

void br__sentence_free(br_sentence_settings *s)
{
    br_free(s->folder);
    br_auto_config_free(s->config);
    br__prompts_free(&s->prompts);
    for (int i = 0; i < s->n_modules; i++) {
        br__sentence_module_free(&s->modules[i]);
        br_free(s->module_folders[i]);
    }
}
