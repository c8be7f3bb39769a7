/* tests/pretrained/test_auto_model_save_files.c - saved model folders: copied files, what is
 * refused, and what is left if saving fails. */
#include "tests/pretrained/auto_model_save.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(auto_model_save_files, .init = files_begin, .fini = files_end);

/* ---- Other files ----------------------------------------------------------------------------- */

static bool exists(const char *name)
{
    return access(files_path(name), F_OK) == 0;
}

Test(auto_model_save_files, files_of_the_tokenizer_and_of_sentence_transformers)
{
    static const char *const copied[] = { "tokenizer.json",
                                          "tokenizer_config.json",
                                          "vocab.txt",
                                          "vocab.json",
                                          "merges.txt",
                                          "spiece.model",
                                          "special_tokens_map.json",
                                          "added_tokens.json",
                                          "chat_template.jinja",
                                          "generation_config.json",
                                          "config_sentence_transformers.json",
                                          "sentence_bert_config.json",
                                          "1_Pooling/config.json",
                                          "additional_chat_templates/tools.jinja" };
    static const char *const others[] = { "README.md", "pytorch_model.bin", "optimizer.pt",
                                          ".gitattributes", "1_Pooling/.hidden" };
    char path[300];
    void *model = load(pretraining, NULL);
    const char *from = write_config("hf_bert/pretraining", "{}");
    cr_assert_eq(mkdir(files_path("source/1_Pooling"), 0777), 0);
    cr_assert_eq(mkdir(files_path("source/1_Pooling/inner"), 0777), 0);
    cr_assert_eq(mkdir(files_path("source/additional_chat_templates"), 0777), 0);
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
        write_source(copied[i], copied[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        write_source(others[i], "x");
    char *large = calloc(1, 200001);
    snprintf(path, sizeof path, "%s/tokenizer.model", from);
    files_write(path, large, 200001);
    write_source(
        "modules.json",
        "[{\"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"},"
        "{\"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"},"
        "{\"path\": \"2_Normalize\", \"type\": \"sentence_transformers.models.Normalize\"}]");
    check_saved(model, from);
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        snprintf(path, sizeof path, "%s/%s", from, copied[i]);
        check_same_file(files_path(copied[i]), path);
    }
    check_same_file(files_path("tokenizer.model"), files_path("source/tokenizer.model"));
    check_same_file(files_path("modules.json"), files_path("source/modules.json"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_assert_not(exists(others[i]), "%s", others[i]);
    cr_assert_not(exists("2_Normalize")); /* an empty folder, which Git does not keep */
    write_source("modules.json", "[{\"path\": \"../x\", \"type\": \"a.Pooling\"}]");
    check_fails(save_from(model, from), "source/modules.json: the path of module 0 is \"../x\", "
                                        "must be a folder in the model's folder");
    write_source("modules.json", "[{\"path\": \"\", \"type\": \"a.Normalize\"}]");
    cr_assert(save_from(model, from), "a module without files: %s", br_error_message());
    write_source("modules.json", "{}");
    check_fails(save_from(model, from), "source/modules.json: must contain a list of modules");
    free(large);
    br_module_free(model);
}

/* A program trains a model and replaces it in its folder. Its weights were shards. */
Test(auto_model_save_files, in_its_own_folder)
{
    save_renamed(NULL);
    files_write(files_path("vocab.txt"), "[UNK]\n", 6);
    rename(files_path("model.safetensors"), files_path("model-00001-of-00002.safetensors"));
    files_write(files_path("model-00002-of-00002.safetensors"), "", 0);
    files_write(files_path("model-00003-of-3.safetensors"), "", 0); /* no name of a shard */
    static const char index[] = "{\"weight_map\": {\"x\": \"model-00001-of-00002.safetensors\"}}";
    files_write(files_path("model.safetensors.index.json"), index, strlen(index));
    br_hf_bert_pretraining *model = load_folder(NULL, NULL);
    cr_assert(model, "%s", br_error_message());
    br_scope *scope = br_no_grad_begin();
    br_fill_(model->cls->predictions->bias, 0.25);
    br_scope_end(scope);
    cr_assert(br_auto_model_save(folder(), br_base(model), NULL), "%s", br_error_message());
    cr_assert(!exists("model-00001-of-00002.safetensors") &&
              !exists("model-00002-of-00002.safetensors") &&
              !exists("model.safetensors.index.json") && exists("model-00003-of-3.safetensors"));
    cr_assert(exists("vocab.txt") && files_count() == 4);
    void *again = load(folder(), NULL);
    check_same_weights(model, again); /* the mapped shards exist until the model is freed */
    br_module_free(again);
    br_module_free(model);
}

Test(auto_model_save_files, folders_are_created)
{
    char path[600];
    void *model = load(pretraining, NULL);
    snprintf(path, sizeof path, "%s", files_path("a/b//c/"));
    cr_assert(br_auto_model_save(path, model, BR_OPTIONS(br_auto_model_save, .from = pretraining)),
              "%s", br_error_message());
    cr_assert(exists("a/b/c/config.json") && exists("a/b/c/model.safetensors"));
    br_module_free(model);
}

/* ---- What is refused ------------------------------------------------------------------------- */

Test(auto_model_save_files, invalid_arguments)
{
    void *model = load(pretraining, NULL);
    br_linear *linear = br_linear_new(2, 2, true);
    check_fails(br_auto_model_save(NULL, model, NULL), "auto_model_save: dir is NULL");
    check_fails(br_auto_model_save("x", NULL, NULL), "auto_model_save: ");
    check_fails(br_auto_model_save("", model, NULL), "auto_model_save: dir is \"\"");
    check_fails(save_from(linear, pretraining),
                "auto_model_save: the module's class is \"Linear\", must be one of BertModel, ");
    check_fails(save_from(model, NULL),
                "config.json: does not exist: the option from must name the folder that");
    check_fails(save_from(model, MODELS "t5/relu"),
                "t5/relu/config.json: model_type is \"t5\", but a BertForPreTraining needs "
                "\"bert\": the option from must name");
    files_write(files_path("file"), "x", 1);
    char path[600];
    snprintf(path, sizeof path, "%s", files_path("file"));
    check_fails(
        br_auto_model_save(path, model, BR_OPTIONS(br_auto_model_save, .from = pretraining)),
        "file: cannot create the directory: Not a directory");
    cr_assert_eq(files_count(), 1);
    br_module_free(linear);
    br_module_free(model);
}

static void check_refused(const br_hf_bert_config *c, const char *message)
{
    br_hf_bert *model = br_hf_bert_new(c);
    check_fails(save_from(model, pretraining), "pretraining/config.json: ");
    check_fails(save_from(model, pretraining), message);
    check_fails(save_from(model, pretraining), ": the option from must name");
    cr_assert_eq(files_count(), 0);
    br_module_free(model);
}

#define WITH(field, value)               \
    br_hf_bert_config c = bert_config(); \
    c.field = (value)

Test(auto_model_save_files, configurations_of_another_model)
{
    {
        WITH(max_position_embeddings, 14);
        check_refused(&c, "describes a BertModel whose embeddings.position_embeddings.weight is "
                          "[12, 16], but the model's is [14, 16]");
    }
    {
        WITH(num_hidden_layers, 3);
        check_refused(&c, "describes a BertModel without the model's encoder.layer.2.");
    }
    {
        WITH(num_hidden_layers, 1);
        check_refused(&c, "describes a BertModel with a weight encoder.layer.1.");
    }
    {
        WITH(num_attention_heads, 2);
        check_refused(&c, "num_attention_heads has another value than the model was made with");
    }
    {
        WITH(layer_norm_eps, 1e-5);
        check_refused(&c, "layer_norm_eps has another value");
    }
    {
        WITH(hidden_act, "relu");
        check_refused(&c, "hidden_act has another value");
    }
}

Test(auto_model_save_files, values_of_other_families)
{
    void *gpt2 = load(MODELS "gpt2/lm", NULL), *t5 = load(MODELS "t5/relu", NULL);
    static const struct {
        const char *base, *changed, *message;
    } cases[] = {
        { "gpt2/lm", "{\"n_head\": 2}", "n_head has another value" },
        { "gpt2/lm", "{\"layer_norm_epsilon\": 1e-6}", "layer_norm_epsilon has another value" },
        { "gpt2/lm", "{\"scale_attn_weights\": false}", "scale_attn_weights has" },
        { "gpt2/lm", "{\"scale_attn_by_inverse_layer_idx\": true}", "inverse_layer_idx has" },
        { "gpt2/lm", "{\"activation_function\": \"silu\"}", "activation_function has" },
        { "t5/relu", "{\"relative_attention_max_distance\": 99}", "max_distance has another" },
        { "t5/relu", "{\"layer_norm_epsilon\": 1e-5}", "layer_norm_epsilon has" },
        { "t5/relu", "{\"scale_decoder_outputs\": false}", "scale_decoder_outputs has" },
        { "t5/relu", "{\"dense_act_fn\": \"silu\"}", "dense_act_fn has another value" },
        { "t5/relu", "{\"num_layers\": 2000000000}",
          "num_hidden_layers is 2000000000, but the model has only " },
        { "t5/relu", "{\"num_decoder_layers\": 2000000000}",
          "num_decoder_layers is 2000000000, but the model has only " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *from = write_config(cases[i].base, cases[i].changed);
        check_fails(save_from(*cases[i].base == 't' ? t5 : gpt2, from), cases[i].message);
    }
    cr_assert_eq(files_count(), 1);
    br_module_free(gpt2);
    br_module_free(t5);
}

Test(auto_model_save_files, parametrizations)
{
    br_hf_bert *model = load(pretraining, "BertModel");
    cr_assert(
        br_weight_norm(br_base(model->pooler->dense), "weight", &model->pooler->dense->weight, 0));
    check_fails(save_from(model, pretraining),
                "describes a BertModel with a weight pooler.dense.weight, which the model does");
    br_module_free(model);
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* Writes files that a failed save must leave. */
static void write_old_files(void)
{
    files_write(files_path("config.json"), "old config", 10);
    files_write(files_path("model.safetensors"), "old weights", 11);
    files_write(files_path("vocab.txt"), "old words", 9);
}

static void check_old_files(int count)
{
    size_t n, m, k;
    char *config = files_read(files_path("config.json"), &n);
    char *weights = files_read(files_path("model.safetensors"), &m);
    char *words = files_read(files_path("vocab.txt"), &k);
    cr_assert(n == 10 && memcmp(config, "old config", 10) == 0);
    cr_assert(m == 11 && memcmp(weights, "old weights", 11) == 0);
    cr_assert(k == 9 && memcmp(words, "old words", 9) == 0);
    cr_assert_eq(files_count(), count, "a temporary file is left");
    free(config);
    free(weights);
    free(words);
}

Test(auto_model_save_files, full_disk)
{
    void *model = load(pretraining, NULL);
    write_config("hf_bert/pretraining", "{}");
    char *large = calloc(1, 100000);
    files_write(files_path("source/vocab.txt"), large, 100000);
    write_old_files();
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit, less;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t capacities[] = { 0, 100, 20000, 30000, 99999 };
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        less = limit;
        less.rlim_cur = capacities[i];
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &less), 0);
        bool saved = save_from(model, files_path("source"));
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        check_fails(saved, ": cannot be written: File too large");
        check_old_files(4);
    }
    char path[300], from[300];
    snprintf(path, sizeof path, "%s", files_path("new/folder"));
    snprintf(from, sizeof from, "%s", files_path("source"));
    less = limit;
    less.rlim_cur = 99999;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &less), 0);
    bool saved = br_auto_model_save(path, model, BR_OPTIONS(br_auto_model_save, .from = from));
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    check_fails(saved, "vocab.txt: cannot be written: File too large");
    check_old_files(4); /* "new" was made, and removed again */
    free(large);
    br_module_free(model);
}

static bool save_once(void)
{
    remove(files_path("modules.json")); /* of an earlier run that succeeded */
    remove(files_path("1_Pooling/config.json"));
    remove(files_path("1_Pooling"));
    write_old_files();
    br_scope *scope = br_scope_begin();
    void *model = br_auto_model_load(
        pretraining, BR_OPTIONS(br_auto_model, .class_name = "BertForSequenceClassification"),
        NULL);
    bool ok = model && save_from(model, files_path("source"));
    br_module_free(model);
    br_scope_end(scope);
    if (!ok)
        check_old_files(4);
    return ok;
}

Test(auto_model_save_files, memory_runs_out_everywhere)
{
    write_config("hf_bert/pretraining", "{\"vocab_size\": 50, \"num_labels\": 5}");
    write_source("vocab.txt", "[UNK]\n");
    write_source("modules.json", "[{\"path\": \"1_Pooling\", \"type\": \"a.Pooling\"}]");
    mkdir(files_path("source/1_Pooling"), 0777);
    write_source("1_Pooling/config.json", "{}");
    fail_in_turn(save_once, "saving");
    check_same_file(files_path("vocab.txt"), files_path("source/vocab.txt"));
    check_same_file(files_path("1_Pooling/config.json"),
                    files_path("source/1_Pooling/config.json"));
}
