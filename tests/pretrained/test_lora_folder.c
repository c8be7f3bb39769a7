/* tests/pretrained/test_lora_folder.c - peft's folders: logits, training, saving and errors,
 * compared with peft's (record_lora.py). */
#include "tests/allocations.h"
#include "tests/io/files.h"

#include <brasa/brasa.h>
#include <jansson.h>

TestSuite(lora_folder, .init = files_begin, .fini = files_end);

#define ADAPTERS BRASA_TEST_DIR "/pretrained/adapters/"
#define MODELS   BRASA_TEST_DIR "/models/"

enum { STEPS = 20 };

typedef struct adapter_case {
    const char *name, *base, *class_name;
} adapter_case;

static const adapter_case cases[] = {
    { "lora", MODELS "decoders/llama0", "LlamaForCausalLM" },
    { "dora", MODELS "decoders/llama0", "LlamaForCausalLM" },
    { "rslora", MODELS "decoders/llama0", "LlamaForCausalLM" },
    { "gpt2", MODELS "gpt2/lm", "GPT2LMHeadModel" },
    { "distilbert", MODELS "encoders/distilbert0", "DistilBertForSequenceClassification" },
};
enum { N_CASES = sizeof cases / sizeof *cases, N_DECODERS = 4 };

/* Returns the recorded tensor of a case, on the default device. */
static br_tensor *recorded(const char *name, const char *what)
{
    char key[200];
    snprintf(key, sizeof key, "%s.%s", name, what);
    br_safetensors *file = br_safetensors_open(ADAPTERS "expected.safetensors", NULL);
    br_tensor *t = br_to_device(br_safetensors_get(file, key), br_get_default_device());
    br_safetensors_close(file);
    check_ok();
    return t;
}

/* Returns the test's temporary folder. */
static const char *folder(void)
{
    static char path[512];
    snprintf(path, sizeof path, "%s", files_path(""));
    path[strlen(path) - 1] = '\0';
    return path;
}

static const char *folder_of(const char *name)
{
    static char dir[500];
    snprintf(dir, sizeof dir, ADAPTERS "%s", name);
    return dir;
}

static br_module *load_base(const adapter_case *c, const char *adapter, br_auto_model_report *r)
{
    br_module *model = br_auto_model_load(
        c->base, BR_OPTIONS(br_auto_model, .class_name = c->class_name, .adapter = adapter), r);
    cr_assert(model, "%s: %s", c->name, br_error_message());
    return model;
}

static br_tensor *logits_of(const adapter_case *c, br_module *model)
{
    const char *types[] = { "llama", "llama", "llama", "gpt2", "distilbert" };
    const br_model_class *class = NULL;
    const br_model_family *family = br_model_family_find(types[c - cases]);
    for (class = family->classes; strcmp(class->name, c->class_name) != 0; class ++)
        ;
    br_tensor *ids = recorded(c->name, "ids");
    br_model_input input = { .batch = { .ids = ids, .attention_mask = br_ones_like(ids) } };
    return class->forward(model, &input);
}

static void check_logits(const adapter_case *c, br_module *model, double tolerance)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = logits_of(c, model), *want = recorded(c->name, "logits");
    check_ok();
    cr_assert(br_allclose(y, want, tolerance, tolerance), "%s differs by %g", c->name,
              br_item(br_max(br_abs(br_sub(y, want)))));
    br_scope_end(scope);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

Test(lora_folder, logits_equal_pefts)
{
    for (int i = 0; i < N_CASES; i++) {
        br_scope *scope = br_scope_begin();
        const adapter_case *c = &cases[i];
        br_auto_model_report report;
        br_module *model = load_base(c, folder_of(c->name), &report);
        cr_assert_eq(report.missing, 0, "%s: %s", c->name, report.missing_names);
        br_auto_model_report_clear(&report);
        check_logits(c, model, 2e-5);
        cr_assert_eq(br_count_parameters(model, true), 0);
        cr_assert(br_lora_set_adapter(model, "default"));
        cr_assert(br_count_parameters(model, true) > 0); /* as after peft's set_adapter() */
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* Returns the model's tensor for a key of peft's files. */
static br_tensor *own_tensor(br_module *model, const char *key)
{
    char name[300];
    snprintf(name, sizeof name, "%s", key + strlen("base_model.model."));
    char *end = strstr(name, ".weight");
    bool is_parameter = !end || strstr(name, "magnitude");
    if (end)
        *end = '\0';
    snprintf(name + strlen(name), 40, ".default%s",
             is_parameter && !strstr(name, "magnitude") ? "" : ".weight");
    return br_module_get(model, name);
}

static void check_trained(const adapter_case *c, br_module *model)
{
    char start[60];
    snprintf(start, sizeof start, "%s.end.", c->name);
    br_safetensors *file = br_safetensors_open(ADAPTERS "expected.safetensors", NULL);
    int n = 0;
    for (int64_t i = 0; i < br_safetensors_count(file); i++) {
        const char *key = br_safetensors_name(file, i);
        if (strncmp(key, start, strlen(start)) != 0)
            continue;
        br_tensor *own = own_tensor(model, key + strlen(start));
        check_ok();
        br_tensor *want = br_to_device(br_safetensors_get(file, key), br_device_of(own));
        double d = br_item(br_max(br_abs(br_sub(br_detach(own), want))));
        /* Adam divides by small gradients, which enlarges what compilers round differently. */
        cr_assert(d <= 5e-6 * (1 + br_item(br_max(br_abs(want)))), "%s differs by %g", key, d);
        n++;
    }
    cr_assert(n > 0, "%s", c->name);
    br_safetensors_close(file);
}

static void train(const adapter_case *c, br_module *model)
{
    br_optim *adamw = br_adamw(model, BR_OPTIONS(br_adamw, .lr = 0.005));
    br_tensor *losses = recorded(c->name, "losses");
    for (int step = 0; step < STEPS; step++) {
        br_scope *scope = br_scope_begin();
        br_optim_zero_grad(adamw);
        br_tensor *loss = br_causal_lm_loss(logits_of(c, model), recorded(c->name, "ids"));
        br_backward(loss);
        br_optim_step(adamw);
        check_ok();
        check_close(br_item(loss), br_at(losses, BR_DIMS(step)), 1e-5);
        br_scope_end(scope);
    }
    br_optim_free(adamw);
}

Test(lora_folder, training_equals_pefts)
{
    for (int i = 0; i < N_DECODERS; i++) {
        br_scope *scope = br_scope_begin();
        const adapter_case *c = &cases[i];
        br_module *model = load_base(c, NULL, NULL);
        cr_assert(br_lora_load(folder_of(c->name), model,
                               BR_OPTIONS(br_lora_load, .is_trainable = true)));
        train(c, model);
        check_trained(c, model);
        br_module_free(model);
        br_scope_end(scope);
    }
}

Test(lora_folder, a_merged_model_has_the_same_logits)
{
    for (int i = 0; i < N_CASES; i++) {
        br_scope *scope = br_scope_begin();
        const adapter_case *c = &cases[i];
        br_module *model = load_base(c, folder_of(c->name), NULL);
        cr_assert(br_lora_merge_and_unload(model), "%s", br_error_message());
        check_logits(c, model, 5e-5);
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* The loss in chunks reads the head's weight, so it must notice an adapter. */
Test(lora_folder, the_chunked_loss_uses_the_adapter_of_the_head)
{
    br_scope *scope = br_scope_begin();
    static const char *const head[] = { "lm_head" };
    br_module *model = load_base(&cases[0], NULL, NULL);
    br_tensor *ids = recorded("lora", "ids");
    br_tensor *plain = br_llama_lm_loss((br_llama_lm *)model, ids, ids, NULL);
    cr_assert(br_lora_add(model, BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = head,
                                            .init_lora_weights = BR_LORA_INIT_FALSE)));
    br_tensor *want = br_causal_lm_loss(logits_of(&cases[0], model), ids);
    br_tensor *loss = br_llama_lm_loss((br_llama_lm *)model, ids, ids, NULL);
    check_close(br_item(loss), br_item(want), 1e-6);
    cr_assert(fabs(br_item(loss) - br_item(plain)) > 1e-4);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* Checks that two files have the same tensors, except those of the base model that peft adds. */
static void check_same_files(const char *a_path, const char *b_path)
{
    br_safetensors *a = br_safetensors_open(a_path, NULL), *b = br_safetensors_open(b_path, NULL);
    check_ok();
    int64_t extra = 0;
    for (int64_t i = 0; i < br_safetensors_count(a); i++) {
        const char *name = br_safetensors_name(a, i);
        if (strstr(name, "embed_tokens.base_layer")) {
            extra++;
            continue;
        }
        cr_assert(br_safetensors_has(b, name), "%s is missing", name);
        cr_assert(br_equal(br_safetensors_get(a, name), br_safetensors_get(b, name)), "%s", name);
    }
    cr_assert_eq(br_safetensors_count(b), br_safetensors_count(a) - extra);
    br_safetensors_close(a);
    br_safetensors_close(b);
}

/* Checks that a file contains a text. */
static void check_text(const char *path, const char *part)
{
    size_t n;
    char *text = files_read(path, &n), *ended = calloc(n + 1, 1);
    memcpy(ended, text, n);
    cr_assert(strstr(ended, part), "%s is not in %s", part, ended);
    free(ended);
    free(text);
}

/* The names of layers are those of transformers, also where Brasa has others. */
Test(lora_folder, saved_adapters_have_pefts_keys_and_load_again)
{
    for (int i = 0; i < N_CASES; i++) {
        br_scope *scope = br_scope_begin();
        const adapter_case *c = &cases[i];
        char from[600], to[600];
        const char *dir = folder();
        snprintf(from, sizeof from, ADAPTERS "%s/adapter_model.safetensors", c->name);
        snprintf(to, sizeof to, "%s/adapter_model.safetensors", dir);
        br_module *model = load_base(c, folder_of(c->name), NULL);
        cr_assert(br_lora_save(dir, model, NULL), "%s", br_error_message());
        check_same_files(from, to);
        if (strcmp(c->name, "distilbert") == 0)
            check_text(files_path("adapter_config.json"), ".layer.0.attention.q_lin\"");
        br_module_free(model);
        model = load_base(c, dir, NULL);
        check_logits(c, model, 2e-5);
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* Values that do not depend on the names of modules, or on the versions of libraries. */
static void check_same_configuration(const char *from, const char *to)
{
    static const char *const keys[] = { "bias",
                                        "exclude_modules",
                                        "fan_in_fan_out",
                                        "inference_mode",
                                        "init_lora_weights",
                                        "lora_dropout",
                                        "peft_type",
                                        "r",
                                        "task_type",
                                        "use_dora",
                                        "use_rslora",
                                        "lora_alpha",
                                        "layers_to_transform" };
    json_t *want = json_load_file(from, 0, NULL), *got = json_load_file(to, 0, NULL);
    cr_assert(want && got);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *a = json_object_get(want, keys[i]), *b = json_object_get(got, keys[i]);
        cr_expect(a && b &&
                      (json_is_number(a) ? json_number_value(a) == json_number_value(b)
                                         : json_equal(a, b)),
                  "%s: %s", from, keys[i]);
    }
    json_decref(want);
    json_decref(got);
}

Test(lora_folder, saved_adapters_have_pefts_values)
{
    for (int i = 0; i < N_CASES; i++) {
        br_scope *scope = br_scope_begin();
        char from[600];
        snprintf(from, sizeof from, ADAPTERS "%s/adapter_config.json", cases[i].name);
        br_module *model = load_base(&cases[i], folder_of(cases[i].name), NULL);
        cr_assert(br_lora_save(folder(), model, NULL), "%s", br_error_message());
        check_same_configuration(from, files_path("adapter_config.json"));
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* The names of the first are written as they were given, those of the second as paths. */
Test(lora_folder, saved_configurations_are_pefts)
{
    br_scope *scope = br_scope_begin();
    static const char *const plain[] = { "q_proj" }, *const glob[] = { "model.layers.0.*.q_proj" };
    br_module *model = load_base(&cases[0], NULL, NULL);
    cr_assert(br_lora_add(model, BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = plain,
                                            .lora_alpha = 0.5, .lora_dropout = 0.25)));
    cr_assert(br_lora_save(
        folder(), model,
        BR_OPTIONS(br_lora_save, .base_model_name_or_path = "llama0", .task_type = "CAUSAL_LM")));
    static const char *const lines[] = {
        "\"target_modules\": [\n    \"q_proj\"\n  ]",
        "\"lora_alpha\": 0.5,",
        "\"lora_dropout\": 0.25,",
        "\"base_model_name_or_path\": \"llama0\"",
        "\"task_type\": \"CAUSAL_LM\"",
        "\"modules_to_save\": null",
        "\"peft_type\": \"LORA\"",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        check_text(files_path("adapter_config.json"), lines[i]);
    cr_assert(br_lora_add(model, BR_OPTIONS(br_lora, .adapter_name = "b", .n_target_modules = 1,
                                            .target_modules = glob)));
    cr_assert(br_lora_save(folder(), model, BR_OPTIONS(br_lora_save, .adapter_name = "b")));
    check_text(files_path("adapter_config.json"),
               "[\n    \"model.layers.0.self_attn.q_proj\"\n  ]");
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Copies an adapter to the test's folder, with a part of its configuration replaced. */
static void copy_changed(const char *name, const char *part, const char *by)
{
    char path[600];
    size_t n;
    snprintf(path, sizeof path, ADAPTERS "%s/adapter_model.safetensors", name);
    char *bytes = files_read(path, &n);
    files_write(files_path("adapter_model.safetensors"), bytes, n);
    free(bytes);
    snprintf(path, sizeof path, ADAPTERS "%s/adapter_config.json", name);
    char *text = files_read(path, &n), *ended = calloc(n + 1, 1);
    memcpy(ended, text, n);
    files_write_changed("adapter_config.json", ended, part, by);
    free(ended);
    free(text);
}

/* A single name is a list of one. A module that the model lacks is passed over. */
Test(lora_folder, a_single_module_to_save)
{
    br_scope *scope = br_scope_begin();
    copy_changed("lora", "\"modules_to_save\": null", "\"modules_to_save\": \"score\"");
    br_module *model = load_base(&cases[0], folder(), NULL);
    check_logits(&cases[0], model, 2e-5);
    br_module_free(model);
    br_scope_end(scope);
}

/* Checks that the test's folder is refused, and that the model is unchanged. */
static void check_refused(br_module *model, const char *message)
{
    int64_t trained = br_count_parameters(model, true);
    check_fails(br_lora_load(folder(), model, NULL), message);
    cr_assert_eq(br_lora_num_adapters(model), 0);
    cr_assert_eq(br_count_parameters(model, true), trained);
}

Test(lora_folder, configurations_that_are_refused)
{
    br_scope *scope = br_scope_begin();
    br_module *model = load_base(&cases[0], NULL, NULL);
    static const struct {
        const char *part, *by, *message;
    } bad[] = {
        { "\"LORA\"", "\"IA3\"", "peft_type is \"IA3\", must be \"LORA\"" },
        { "\"lora_bias\": false", "\"lora_bias\": true", "lora_bias is true, must be null" },
        { "\"target_parameters\": null", "\"target_parameters\": [\"w\"]", "target_parameters" },
        { "\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"",
          "init_lora_weights is \"pissa\", must be true, false" },
        { "\"bias\": \"none\"", "\"bias\": \"some\"", "bias is \"some\", must be \"none\"" },
        { "\"r\": 2", "\"r\": 0", "r is 0, must be an integer of at least 1" },
        { "\"lora_dropout\": 0.0", "\"lora_dropout\": 1", "lora_dropout is 1" },
        { "\"rank_pattern\": {}", "\"rank_pattern\": {\"a.*\": 3}", "rank_pattern" },
        { "\"use_dora\": false", "\"use_dora\": true", "lora_magnitude_vector\" is missing" },
        { "\"q_proj\"", "\"k_proj\", \"q_proj\"", "k_proj.lora_A.weight\" is missing" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        copy_changed("lora", bad[i].part, bad[i].by);
        check_refused(model, bad[i].message);
    }
    copy_changed("dora", "\"use_dora\": true", "\"use_dora\": false");
    check_refused(model, "is unexpected, because use_dora is false");
    br_module_free(model);
    br_scope_end(scope);
}

/* Writes the weights of a file to the test's folder, without some keys, and with another one. */
static void change_file(const char *path, const char *name, const char *without, const char *with)
{
    br_safetensors *file = br_safetensors_open(path, NULL);
    br_named_list *all = br_safetensors_all(file);
    br_named_tensor items[100];
    br_named_list some = { 0, items };
    for (int64_t i = 0; i < all->count; i++)
        if (!without || !strstr(all->items[i].name, without))
            items[some.count++] = all->items[i];
    if (with)
        items[some.count++] = (br_named_tensor){ (char *)with, br_ones(BR_SHAPE(2), BR_F32) };
    cr_assert(br_safetensors_save(files_path(name), &some, 0, NULL));
    br_named_list_free(all);
    br_safetensors_close(file);
}

static void change_weights(const char *without, const char *with)
{
    change_file(ADAPTERS "lora/adapter_model.safetensors", "adapter_model.safetensors", without,
                with);
}

/* A base model without a head gets it from the adapter, so nothing is missing. */
Test(lora_folder, an_adapter_brings_the_head)
{
    br_scope *scope = br_scope_begin();
    const adapter_case *c = &cases[4];
    char path[600];
    size_t n;
    snprintf(path, sizeof path, "%s/config.json", c->base);
    char *text = files_read(path, &n);
    files_write(files_path("config.json"), text, n);
    free(text);
    snprintf(path, sizeof path, "%s/model.safetensors", c->base);
    change_file(path, "model.safetensors", "classifier", NULL);
    adapter_case headless = *c;
    headless.base = folder();
    br_auto_model_report report;
    br_module *model = load_base(&headless, NULL, &report);
    cr_assert_eq(report.missing, 4);
    br_auto_model_report_clear(&report);
    br_module_free(model);
    model = load_base(&headless, folder_of(c->name), &report);
    cr_assert_eq(report.missing, 0, "%s", report.missing_names);
    br_auto_model_report_clear(&report);
    check_logits(c, model, 2e-5);
    br_module_free(model);
    br_scope_end(scope);
}

Test(lora_folder, weights_that_are_refused)
{
    br_scope *scope = br_scope_begin();
    br_module *model = load_base(&cases[0], NULL, NULL);
    copy_changed("lora", "\"r\"", "\"r\"");
    change_weights("layers.1.self_attn.v_proj.lora_B", NULL);
    check_refused(model,
                  "key \"base_model.model.model.layers.1.self_attn.v_proj.lora_B.weight\" is "
                  "missing");
    change_weights(NULL, "base_model.model.model.extra");
    check_refused(model, "key \"base_model.model.model.extra\" belongs to no part of an adapter");
    change_weights(NULL, "lora_A.weight");
    check_refused(model, "key \"lora_A.weight\" does not begin with base_model.model.");
    change_weights(NULL, "base_model.model.model.norm.weight");
    check_refused(model, "has shape [2], but the model's model.norm.weight has shape [12]");
    change_weights("lora", NULL);
    check_refused(model, "has no key of an adapter");
    copy_changed("dora", "\"r\"", "\"r\"");
    change_file(ADAPTERS "dora/adapter_model.safetensors", "adapter_model.safetensors",
                "0.self_attn.q_proj.lora_magnitude",
                "base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector");
    check_refused(model, "has shape [2], but model.layers.0.self_attn.q_proj of the model needs");
    br_module_free(model);
    copy_changed("lora", "\"r\"", "\"r\"");
    model = load_base(&cases[3], NULL, NULL);
    check_refused(model, "belongs to no module of the GPT2LMHeadModel");
    br_module_free(model);
    model = br_auto_model_load(MODELS "decoders/llama1",
                               BR_OPTIONS(br_auto_model, .class_name = "LlamaForCausalLM"), NULL);
    check_refused(model,
                  "has shape [2, 12], but model.layers.0.mlp.up_proj of the model needs [2, ");
    check_fails(br_auto_model_load(MODELS "decoders/llama1",
                                   BR_OPTIONS(br_auto_model, .adapter = folder()), NULL),
                "the adapter is for another base model");
    br_module_free(model);
    br_scope_end(scope);
}

Test(lora_folder, adapters_that_cannot_be_saved)
{
    br_scope *scope = br_scope_begin();
    br_module *model = load_base(&cases[0], NULL, NULL);
    check_fails(br_lora_save(folder(), model, NULL), "LlamaForCausalLM has no adapters");
    cr_assert(br_lora_load(folder_of("lora"), model, NULL));
    check_fails(br_lora_save("", model, NULL), "dir is \"\", must be a path");
    check_fails(br_lora_save(folder(), model, BR_OPTIONS(br_lora_save, .adapter_name = "x")),
                "has no adapter named 'x'");
    check_fails(
        br_auto_model_save(folder(), model, BR_OPTIONS(br_auto_model_save, .from = cases[0].base)),
        "the LlamaForCausalLM has adapters: save them by br_lora_save()");
    cr_assert(br_lora_set_adapter(model, NULL));
    check_fails(br_lora_save(folder(), model, NULL), "no adapter is active");
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Loads an adapter and saves it again. A failure leaves no adapter. */
static bool load_and_save(uint64_t *digest)
{
    br_scope *scope = br_scope_begin();
    br_module *model = br_auto_model_load(
        cases[4].base, BR_OPTIONS(br_auto_model, .class_name = cases[4].class_name), NULL);
    bool loaded = model && br_lora_load(folder_of("distilbert"), model, NULL);
    if (model)
        cr_assert_eq(br_lora_num_adapters(model), loaded);
    bool ok = loaded && br_lora_save(folder(), model, NULL);
    *digest = ok;
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(lora_folder, every_allocation_may_fail)
{
    if (allocations_can_fail())
        allocations_fail_in_turn(load_and_save, "adapter's folder");
}
