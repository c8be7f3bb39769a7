/* The activations that a config.json may name: values in f64, and logits of a GPT-2, a BERT and a
 * T5 with each of them, compared with transformers'. record_activations.py wrote the expected
 * results. */
#include "tests/io/files.h"
#include "tests/models/recorded.h"

#include <jansson.h>

TestSuite(activations, .init = files_begin, .fini = files_end);

#define MODELS BRASA_TEST_DIR "/models/"

static const char *const names[] = {
    "gelu",
    "gelu_10",
    "gelu_fast",
    "gelu_new",
    "gelu_python",
    "gelu_pytorch_tanh",
    "gelu_python_tanh",
    "gelu_accurate",
    "hardswish",
    "laplace",
    "leaky_relu",
    "linear",
    "mish",
    "quick_gelu",
    "relu",
    "relu2",
    "relu6",
    "sigmoid",
    "silu",
    "sqrtsoftplus",
    "swish",
    "tanh",
};
enum { N_NAMES = sizeof names / sizeof *names };

static br_tensor *recorded(const char *name)
{
    return recorded_in(MODELS "activations.safetensors", name);
}

/* gelu_fast's constant has ten digits. */
Test(activations, values_equal_transformers)
{
    br_scope *scope = br_no_grad_begin();
    for (int i = 0; i < N_NAMES; i++) {
        br_unary_fn function = br_find_activation(names[i]);
        cr_assert(function, "%s", names[i]);
        br_tensor *x = recorded("x"), *kept = recorded("x");
        double tolerance = strcmp(names[i], "gelu_fast") == 0 ? 1e-10 : 1e-14;
        double d = difference(function(br_view(x, BR_SHAPE(-1))), recorded(names[i]));
        cr_assert(d <= tolerance, "%s is off by %g", names[i], d);
        cr_assert(br_equal(x, kept), "%s overwrote a tensor that is in use", names[i]);
        br_scope *inner = br_scope_begin();
        d = difference(function(br_clone(x)), recorded(names[i]));
        cr_assert(d <= tolerance, "%s is off by %g if it may overwrite its input", names[i], d);
        br_scope_end(inner);
    }
    br_scope_end(scope);
}

/* ---- Models ---------------------------------------------------------------------------------- */

typedef struct model {
    const char *prefix, *base, *key;
} model;

static const model models[] = {
    { "gpt2.", "gpt2/lm", "activation_function" },
    { "bert.", "hf_bert/pretraining", "hidden_act" },
    { "t5.", "t5/relu", "feed_forward_proj" },
    { "t5.gated-", "t5/gated", "feed_forward_proj" },
};
enum { N_MODELS = sizeof models / sizeof *models };

/* Loads the recorded model with another activation. */
static void *load(const model *m, const char *name)
{
    char path[512], value[80];
    snprintf(path, sizeof path, MODELS "%s/config.json", m->base);
    json_t *config = json_load_file(path, 0, NULL);
    snprintf(value, sizeof value, "%s%s", strchr(m->prefix, '.') + 1, name);
    json_object_set_new(config, m->key, json_string(value));
    json_object_del(config, "dense_act_fn");
    json_object_del(config, "is_gated_act");
    cr_assert_eq(json_dump_file(config, files_path("config.json"), 0), 0);
    json_decref(config);
    snprintf(path, sizeof path, MODELS "%s/model.safetensors", m->base);
    size_t n;
    char *bytes = files_read(path, &n);
    files_write(files_path("model.safetensors"), bytes, n);
    free(bytes);
    snprintf(path, sizeof path, "%s", files_path(""));
    path[strlen(path) - 1] = '\0';
    return br_auto_model_load(path, NULL, NULL);
}

static br_tensor *logits_of(void *of)
{
    br_tensor *ids = br_from_i64(BR_SHAPE(1, 5), (int64_t[]){ 2, 17, 5, 9, 3 }), *logits = NULL;
    const char *class = br_module_class(of);
    if (strcmp(class, "GPT2LMHeadModel") == 0)
        logits = br_gpt2_lm_forward(of, ids, NULL);
    else if (strcmp(class, "BertForPreTraining") == 0)
        br_hf_bert_pretraining_forward(of, ids, NULL, &logits, NULL);
    else
        logits = br_t5_logits(
            of, br_t5_decode(of, br_flip(ids, BR_DIMS(1)), br_t5_encode(of, ids, NULL), NULL));
    return br_slice(logits, 1, -2, BR_ALL, 1);
}

Test(activations, models_equal_transformers)
{
    for (int k = 0; k < N_MODELS * N_NAMES; k++) {
        char whole[120];
        snprintf(whole, sizeof whole, "%s%s", models[k / N_NAMES].prefix, names[k % N_NAMES]);
        void *of = load(&models[k / N_NAMES], names[k % N_NAMES]);
        cr_assert(of, "%s: %s", whole, br_error_message());
        br_scope *scope = br_scope_begin();
        br_tensor *want = recorded(whole), *logits = logits_of(of);
        double d = difference(logits, want), size = br_item(br_max(br_abs(want)));
        cr_assert(d <= 5e-6 * (1 + size), "%s is off by %g of %g", whole, d, size);
        br_scope *unrecorded = br_no_grad_begin();
        cr_assert(br_equal(logits_of(of), logits), "%s differs without recording", whole);
        br_scope_end(unrecorded);
        br_scope_end(scope);
        br_module_free(of);
    }
}

/* ---- Invalid names --------------------------------------------------------------------------- */

/* These have weights, which no file of these models has. */
Test(activations, with_weights_are_refused_by_name)
{
    for (int k = 0; k < N_MODELS; k++) {
        char message[200];
        const char *gated = strchr(models[k].prefix, '.') + 1;
        snprintf(message, sizeof message,
                 "config.json: %s is \"%sprelu\", which has weights and is not supported; must be "
                 "one of gelu, gelu_10, ",
                 models[k].key, gated);
        check_fails(load(&models[k], "prelu"), message);
        snprintf(message, sizeof message, "%s is \"%sxielu\", which has weights", models[k].key,
                 gated);
        check_fails(load(&models[k], "xielu"), message);
    }
}

Test(activations, unknown_names_are_refused)
{
    const model *gpt2 = &models[0], *t5 = &models[2];
    check_fails(
        load(gpt2, "geglu"),
        "config.json: activation_function is \"geglu\", must be one of gelu, gelu_10, "
        "gelu_accurate, gelu_fast, gelu_new, gelu_python, gelu_python_tanh, "
        "gelu_pytorch_tanh, hardswish, laplace, leaky_relu, linear, mish, quick_gelu, relu, "
        "relu2, relu6, sigmoid, silu, sqrtsoftplus, swish, tanh");
    check_fails(load(gpt2, "gated-relu"), "activation_function is \"gated-relu\", must be one of");
    check_fails(load(t5, "gated"), "feed_forward_proj is \"gated\", must be one of gelu, ");
    check_fails(load(t5, "gated-"), "feed_forward_proj is \"gated-\", must be one of gelu, ");
    check_fails(load(t5, "gated-gated-relu"), "swish, tanh, or \"gated-\" and one of them");
    check_fails(load(t5, "relu-gated"), "feed_forward_proj is \"relu-gated\", must be one of");
}
