/* Every key of the config.json of a BERT, its relatives, a ModernBERT, a GPT-2, a T5, a GPT-NeoX, a
 * Llama and its relatives, with a value other than its default, and with null: config_cases.tsv has
 * transformers' numbers.
 * record_config_cases.py wrote it and describes it. */
#include "models/llama_internal.h"
#include "tests/io/files.h"
#include "tests/models/recorded.h"

#include <jansson.h>
#include <math.h>

TestSuite(config_keys, .init = files_begin, .fini = files_end);

#define MODELS BRASA_TEST_DIR "/models/"

/* A row of the file. */
typedef struct config_case {
    char *type, *key, *value, *kind, *expected;
    json_t *base; /* the configuration that the key is added to */
} config_case;

/* Writes the base with the key set to this value, and returns the file's path. */
static const char *write_with(const config_case *c, json_t *value)
{
    const char *path = files_path("config.json");
    json_t *config = json_copy(c->base);
    if (*c->key)
        json_object_set(config, c->key, value);
    cr_assert_eq(json_dump_file(config, path, 0), 0);
    json_decref(config);
    return path;
}

static bool is_llama(const char *type)
{
    return zoo_llama_kind_of(type) != NULL;
}

/* Returns a model of the configuration, in evaluation mode; NULL with an error on failure. */
static void *make(const char *type, const br_auto_config *config)
{
    void *model = NULL;
    if (strcmp(type, "gpt2") == 0) {
        br_gpt2_config c = br_gpt2_config_from(config);
        model = br_failed() ? NULL : br_gpt2_lm_new(&c);
    } else if (strcmp(type, "t5") == 0) {
        br_t5_config c = br_t5_config_from(config);
        model = br_failed() ? NULL : br_t5_for_conditional_generation_new(&c);
    } else if (strcmp(type, "gpt_neox") == 0) {
        br_gpt_neox_config c = br_gpt_neox_config_from(config);
        model = br_failed() ? NULL : br_gpt_neox_lm_new(&c);
    } else if (is_llama(type)) {
        br_llama_config c = br_llama_config_from(config);
        model = br_failed() ? NULL : br_llama_lm_new(&c);
    } else if (strcmp(type, "modernbert") == 0) {
        br_modernbert_config c = br_modernbert_config_from(config);
        model = br_failed() ? NULL : br_modernbert_for_masked_lm_new(&c);
    } else {
        br_hf_bert_config c = br_hf_bert_config_from(config);
        bool both = strcmp(type, "bert") == 0;
        model = br_failed() ? NULL
                : both      ? br_hf_bert_for_pretraining_new(&c)
                            : br_hf_bert_for_masked_lm_new(&c);
    }
    br_eval(model);
    return model;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Sets the weights of weight() in record_config_cases.py, and returns their number. */
static int64_t fill(const char *type, void *model)
{
    bool is_named = is_llama(type) || strcmp(type, "bert") == 0 ||
                    strcmp(type, "modernbert") == 0 || strcmp(type, "gpt2") == 0 ||
                    strcmp(type, "gpt_neox") == 0 || strcmp(type, "t5") == 0;
    int64_t n = 0;
    br_named_list *parameters = br_parameters(model);
    for (const br_named_tensor *p = NULL; (p = br_named_list_next(parameters, p));) {
        size_t m = strlen(p->name);
        bool norm = br_ndim(p->tensor) == 1 && m > 6 && strcmp(p->name + m - 6, "weight") == 0;
        unsigned first = 0;
        for (const char *c = p->name; is_named && *c; c++)
            first += (unsigned char)*c;
        float *x = br_data_f32(p->tensor);
        for (int64_t i = 0; i < br_numel(p->tensor); i++)
            x[i] = (float)(norm + 0.3 * sin(0.37 * (double)i + first % 97));
        n += br_numel(p->tensor);
    }
    br_named_list_free(parameters);
    return n;
}

static br_tensor *logits_of(const char *type, void *model)
{
    br_tensor *ids = br_from_i64(BR_SHAPE(1, 8), (int64_t[]){ 3, 17, 5, 9, 4, 11, 2, 8 });
    br_tensor *logits = NULL;
    if (strcmp(type, "gpt2") == 0)
        logits = br_gpt2_lm_forward(model, ids, NULL);
    else if (strcmp(type, "gpt_neox") == 0)
        logits = br_gpt_neox_lm_forward(model, ids, NULL);
    else if (is_llama(type))
        logits = br_llama_lm_forward(model, ids, NULL);
    else if (strcmp(type, "modernbert") == 0)
        logits = br_modernbert_lm_forward(model, ids, NULL);
    else if (strcmp(type, "t5") != 0)
        br_hf_bert_pretraining_forward(model, ids, NULL, &logits, NULL);
    else
        logits = br_t5_logits(model, br_t5_decode(model, br_flip(ids, BR_DIMS(1)),
                                                  br_t5_encode(model, ids, NULL), NULL));
    return br_contiguous(logits);
}

static void check_numbers(const config_case *c, const br_auto_config *config)
{
    br_scope *scope = br_no_grad_begin();
    int64_t n_wanted;
    double wanted, sum = 0;
    cr_assert_eq(sscanf(c->expected, "%ld %lf", &n_wanted, &wanted), 2);
    void *model = make(c->type, config);
    cr_assert(model, "%s %s: %s", c->type, c->key, br_error_message());
    int64_t n = fill(c->type, model);
    br_tensor *logits = logits_of(c->type, model);
    const float *x = br_data_f32(logits);
    for (int64_t i = 0; x && i < br_numel(logits); i++)
        sum += x[i] * cos(0.11 * (double)i);
    cr_assert(n == n_wanted && fabs(sum - wanted) < 4e-5 * (1 + fabs(wanted)),
              "%s: %s = %s: %ld parameters and the sum %.7g, must be %s", c->type, c->key, c->value,
              n, sum, c->expected);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Fields ---------------------------------------------------------------------------------- */

/* Returns the field of the model's configuration that the key sets; NAN if there is none. */
static double field_of(const config_case *c, const br_auto_config *config)
{
    br_hf_bert_config bert = { 0 };
    br_gpt2_config gpt2 = { 0 };
    br_t5_config t5 = { 0 };
    br_llama_config llama = { 0 };
    br_gpt_neox_config neox = { 0 };
    br_modernbert_config modern = { 0 };
    const char *type = c->type;
    if (strcmp(type, "gpt2") == 0) {
        gpt2 = br_gpt2_config_from(config);
    } else if (strcmp(type, "t5") == 0) {
        t5 = br_t5_config_from(config);
    } else if (strcmp(type, "gpt_neox") == 0) {
        neox = br_gpt_neox_config_from(config);
    } else if (is_llama(type)) {
        llama = br_llama_config_from(config);
        type = "llama";
    } else if (strcmp(type, "modernbert") == 0) {
        modern = br_modernbert_config_from(config);
    } else {
        bert = br_hf_bert_config_from(config);
        type = "bert";
    }
    const struct {
        const char *type, *key;
        double value;
    } fields[] = {
        { "bert", "hidden_dropout_prob", bert.hidden_dropout_prob },
        { "bert", "dropout", bert.hidden_dropout_prob },
        { "bert", "attention_probs_dropout_prob", bert.attention_probs_dropout_prob },
        { "bert", "attention_dropout", bert.attention_probs_dropout_prob },
        { "bert", "classifier_dropout", bert.classifier_dropout },
        { "bert", "classifier_dropout_prob", bert.classifier_dropout },
        { "bert", "seq_classif_dropout", bert.classifier_dropout },
        { "bert", "qa_dropout", bert.qa_dropout },
        { "bert", "initializer_range", bert.initializer_range },
        { "bert", "pad_token_id", (double)bert.pad_token_id },
        { "modernbert", "embedding_dropout", modern.embedding_dropout },
        { "modernbert", "attention_dropout", modern.attention_dropout },
        { "modernbert", "mlp_dropout", modern.mlp_dropout },
        { "modernbert", "classifier_dropout", modern.classifier_dropout },
        { "modernbert", "initializer_range", modern.initializer_range },
        { "modernbert", "initializer_cutoff_factor", modern.initializer_cutoff_factor },
        { "modernbert", "pad_token_id", (double)modern.pad_token_id },
        { "gpt2", "embd_pdrop", gpt2.embd_pdrop },
        { "gpt2", "attn_pdrop", gpt2.attn_pdrop },
        { "gpt2", "resid_pdrop", gpt2.resid_pdrop },
        { "gpt2", "initializer_range", gpt2.initializer_range },
        { "gpt_neox", "attention_dropout", neox.attention_dropout },
        { "gpt_neox", "hidden_dropout", neox.hidden_dropout },
        { "gpt_neox", "initializer_range", neox.initializer_range },
        { "llama", "attention_dropout", llama.attention_dropout },
        { "llama", "resid_pdrop", llama.resid_pdrop },
        { "llama", "output_router_logits", llama.output_router_logits },
        { "llama", "router_aux_loss_coef", llama.router_aux_loss_coef },
        { "llama", "initializer_range", llama.initializer_range },
        { "llama", "pad_token_id", (double)llama.pad_token_id },
        { "t5", "dropout_rate", t5.dropout_rate },
        { "t5", "initializer_factor", t5.initializer_factor },
        { "t5", "pad_token_id", (double)t5.pad_token_id },
        { "t5", "decoder_start_token_id", (double)t5.decoder_start_token_id },
        { "t5", "tie_word_embeddings", (double)!t5.untied },
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(fields[i].type, type) == 0 && strcmp(fields[i].key, c->key) == 0)
            return fields[i].value;
    return (double)NAN;
}

static void check_field(const config_case *c, const br_auto_config *config, const json_t *value)
{
    if (strcmp(c->key, "id2label") == 0) {
        char *label = br_auto_config_label(config, 2);
        cr_assert_eq(br_auto_config_size(config, "num_labels"), 3);
        cr_assert_str_eq(label, "c");
        br_free(label);
        return;
    }
    double wanted = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    double found = field_of(c, config);
    check_ok();
    cr_assert_eq(found, wanted, "%s: %s is %g, not %s", c->type, c->key, found, c->value);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Checks that the folder's recorded model is loaded as the class that `architectures` names. */
static void check_class(const config_case *c, json_t *value)
{
    static const char *const others[][2] = { { "bert", "hf_bert/pretraining" },
                                             { "gpt2", "gpt2/lm" },
                                             { "t5", "t5/relu" } };
    char path[512], dir[512], folder[100];
    snprintf(folder, sizeof folder, "decoders/%s0", c->type);
    if (!has_recorded(folder))
        snprintf(folder, sizeof folder, "encoders/%s0", c->type);
    for (int i = 0; i < 3; i++)
        if (strcmp(others[i][0], c->type) == 0)
            snprintf(folder, sizeof folder, "%s", others[i][1]);
    size_t n;
    snprintf(path, sizeof path, MODELS "%s/model.safetensors", folder);
    char *weights = files_read(path, &n);
    files_write(files_path("model.safetensors"), weights, n);
    free(weights);
    snprintf(path, sizeof path, MODELS "%s/config.json", folder);
    config_case recorded = *c;
    recorded.base = json_load_file(path, 0, NULL);
    snprintf(dir, sizeof dir, "%s", write_with(&recorded, value));
    *strrchr(dir, '/') = 0;
    br_module *model = br_auto_model_load(dir, NULL, NULL);
    cr_assert(model, "%s", br_error_message());
    cr_assert_str_eq(br_module_class(model), c->expected);
    br_module_free(model);
    json_decref(recorded.base);
}

/* Of the keys that are read, only eos_token_id and lists for the layers may be a list. */
static void check_other_type(const config_case *c)
{
    if (strcmp(c->key, "layer_types") == 0)
        return;
    char message[200];
    if (strcmp(c->key, "no_rope_layers") == 0 || strcmp(c->key, "mlp_only_layers") == 0)
        return;
    json_t *list = json_pack("[i]", 5);
    br_auto_config *config = br_auto_config_load(write_with(c, list));
    bool is_synonym = strcmp(c->type, "distilbert") == 0 &&
                      (strcmp(c->key, "dim") == 0 || strncmp(c->key, "n_", 2) == 0);
    snprintf(message, sizeof message,
             is_synonym ? "(%s) is an array, must be " : "config.json: %s is an array, must be ",
             c->key);
    if (config)
        check_fails(make(c->type, config), message);
    else
        check_fails(br_auto_config_load(files_path("config.json")), message);
    br_auto_config_free(config);
    json_decref(list);
}

static void check_case(const config_case *c)
{
    json_t *value = json_loads(c->value, JSON_DECODE_ANY, NULL);
    if (strcmp(c->kind, "class") == 0) {
        check_class(c, value);
        json_decref(value);
        return;
    }
    br_auto_config *config = br_auto_config_load(write_with(c, value));
    cr_assert(config, "%s: %s: %s", c->type, c->key, br_error_message());
    if (strcmp(c->kind, "refused") == 0)
        check_fails(make(c->type, config), c->expected);
    else if (strcmp(c->kind, "field") == 0)
        check_field(c, config, value);
    else
        check_numbers(c, config);
    br_auto_config_free(config);
    if (strcmp(c->kind, "same") != 0 && strcmp(c->kind, "ignored") != 0 && !json_is_null(value))
        check_other_type(c);
    json_decref(value);
}

/* Reads a row; the row of an empty key sets the base. */
static void check_line(char *line, json_t **base)
{
    config_case c;
    char *rest = line, **fields[] = { &c.type, &c.key, &c.value, &c.kind, &c.expected };
    for (int i = 0; i < 5; i++)
        cr_assert(*fields[i] = strsep(&rest, "\t"), "%s", line);
    if (!*c.key) {
        json_decref(*base);
        *base = json_loads(c.value, 0, NULL);
        cr_assert(*base);
    }
    c.base = *base;
    check_case(&c);
}

Test(config_keys, every_key)
{
    char line[2048];
    json_t *base = NULL;
    int n = 0;
    FILE *file = fopen(BRASA_TEST_DIR "/pretrained/config_cases.tsv", "r");
    cr_assert(file);
    for (; fgets(line, sizeof line, file); n++) {
        line[strcspn(line, "\n")] = 0;
        check_line(line, &base);
    }
    fclose(file);
    json_decref(base);
    cr_assert(n > 100);
}
