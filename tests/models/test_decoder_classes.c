/* Classifiers of Llama and the decoders that are built like it: logits and gradients of every
 * family, compared with those of transformers, which record_decoders.py recorded. */
#include "tests/io/files.h"
#include "tests/models/gradients.h"
#include "tests/models/recorded.h"

TestSuite(decoder_classes, .init = files_begin, .fini = files_end);

#define DECODERS BRASA_TEST_DIR "/models/decoders/"

static br_tensor *recorded(const char *type, int i, const char *what)
{
    char name[100];
    snprintf(name, sizeof name, "%s%d.%s", type, i, what);
    return recorded_in(DECODERS "expected.safetensors", name);
}

static void check_equals(const char *what, br_tensor *y, br_tensor *expected)
{
    const double size = br_item(br_max(br_abs(expected))), d = difference(y, expected);
    cr_assert(d <= 1e-9 * (1 + size), "%s is off by %g of %g", what, d, size);
}

/* Returns a classifier, whose head is not in the files, with the weights cos(0), cos(1), ... */
static br_module *load_classifier(const char *type, int i)
{
    char dir[500];
    snprintf(dir, sizeof dir, DECODERS "%s%d", type, i);
    const br_model_class *class =
        br_model_class_for(br_model_family_find(type), BR_TASK_SEQUENCE_CLASSIFICATION);
    br_llama_classifier *model = br_auto_model_load(
        dir, BR_OPTIONS(br_auto_model, .class_name = class->name, .dtype = BR_F64), NULL);
    cr_assert(model, "%s: %s", class->name, br_error_message());
    br_scope *scope = br_no_grad_begin();
    br_tensor *weight = model->score->weight;
    br_tensor *n = br_arange(0, (double)br_numel(weight), 1, BR_F64);
    br_copy_(weight, br_reshape(br_cos(n), BR_SHAPE(br_size(weight, 0), br_size(weight, 1))));
    br_scope_end(scope);
    return br_base(model);
}

/* Logits of texts with padding before or after them, and of the same texts in a packed batch. */
static void check_classes(const char *type, int i)
{
    char name[60];
    snprintf(name, sizeof name, "%s%d", type, i);
    br_scope *scope = br_scope_begin();
    br_module *model = load_classifier(type, i);
    const br_model_class *class =
        br_model_class_for(br_model_family_find(type), BR_TASK_SEQUENCE_CLASSIFICATION);
    cr_assert_str_eq(br_module_class(model), class->name);
    br_model_input input = { .batch = { .ids = recorded(type, i, "class_ids"),
                                        .attention_mask = recorded(type, i, "class_mask") } };
    br_tensor *logits = class->forward(model, &input), *expected = recorded(type, i, "classes");
    check_equals(name, logits, expected);
    cr_assert(br_backward(weighted(logits)), "%s", br_error_message());
    check_gradients(name, model, recorded(type, i, "class_gradients"));
    if (br_size(expected, 0) > 1) {
        br_tensor *ids = br_flatten(input.batch.ids, 0, -1);
        br_tensor *real = br_flatten(input.batch.attention_mask, 0, -1);
        input.batch.ids = br_unsqueeze(br_masked_select(ids, br_ne_scalar(real, 0)), 0);
        input.cu_seqlens = br_from_i64(BR_SHAPE(4), (int64_t[]){ 0, 11, 18, 27 });
    } else {
        input.cu_seqlens = br_from_i64(BR_SHAPE(2), (int64_t[]){ 0, 11 });
    }
    input.batch.attention_mask = NULL;
    check_equals("packed texts", class->forward(model, &input), expected);
    br_module_free(model);
    br_scope_end(scope);
}

static void check_family(const char *type)
{
    const bool classifies =
        br_model_class_for(br_model_family_find(type), BR_TASK_SEQUENCE_CLASSIFICATION);
    cr_assert_eq(classifies, strcmp(type, "granite") != 0 && strcmp(type, "gpt_neox") != 0);
    for (int i = 0; i < 3 && classifies; i++)
        check_classes(type, i);
}

Test(decoder_classes, equal_those_of_transformers)
{
    for_each_decoder(check_family);
}

static br_llama_config small(void)
{
    br_llama_config c = br_llama_config_default();
    c.vocab_size = 13, c.hidden_size = 8, c.intermediate_size = 10, c.num_hidden_layers = 2;
    c.num_attention_heads = 4, c.num_key_value_heads = 2, c.num_labels = 3;
    return c;
}

/* Without a token for padding, texts of a batch may end anywhere. */
Test(decoder_classes, several_texts_need_padding)
{
    br_llama_config c = small();
    br_llama_classifier *model = br_llama_classifier_new(&c);
    br_scope *scope = br_no_grad_begin();
    br_tensor *ids = br_from_i64(BR_SHAPE(1, 7), (int64_t[]){ 3, 1, 12, 0, 5, 5, 9 });
    br_tensor *two = br_cat(2, (br_tensor *[]){ ids, ids }, 0);
    br_tensor *logits = br_llama_classifier_forward(model, ids, NULL);
    cr_assert(br_ndim(logits) == 2 && br_size(logits, 1) == 3, "%s", br_error_message());
    check_fails(br_llama_classifier_forward(model, two, NULL),
                "input_ids [2, 7] has 2 texts, but pad_token_id is -1");
    model->model->config.pad_token_id = 9; /* the last token */
    br_tensor *before_it = br_llama_classifier_forward(model, br_narrow(ids, 1, 0, 6), NULL);
    cr_assert(difference(br_llama_classifier_forward(model, ids, NULL), before_it) < 1e-5);
    br_tensor *padding = br_full(BR_SHAPE(1, 2), 9, BR_I64); /* whose first token counts */
    br_tensor *first = br_llama_classifier_forward(model, br_narrow(padding, 1, 0, 1), NULL);
    cr_assert(difference(br_llama_classifier_forward(model, padding, NULL), first) < 1e-5);
    br_scope_end(scope);
    br_module_free(model);
    c.num_labels = 0;
    check_fails(br_llama_classifier_new(&c), "num_labels");
}

/* A saved classifier has its class, and is not saved beside a config.json with which its results
 * would differ. */
Test(decoder_classes, saving)
{
    br_scope *scope = br_no_grad_begin();
    br_module *model = load_classifier("qwen3", 1);
    const char *saved = files_path("saved");
    br_auto_model_save_options o = *BR_OPTIONS(br_auto_model_save, .from = DECODERS "qwen31");
    cr_assert(br_auto_model_save(saved, model, &o), "%s", br_error_message());
    br_module *again = br_auto_model_load(saved, NULL, NULL);
    cr_assert(again && strcmp(br_module_class(again), "Qwen3ForSequenceClassification") == 0, "%s",
              br_error_message());
    br_tensor *ids = br_narrow(recorded("qwen3", 1, "class_ids"), 0, 0, 1);
    br_tensor *logits = br_llama_classifier_forward((br_llama_classifier *)again, ids, NULL);
    cr_assert_eq(
        difference(logits, br_llama_classifier_forward((br_llama_classifier *)model, ids, NULL)),
        0);
    ((br_llama_classifier *)model)->model->config.pad_token_id = 5;
    check_fails(br_auto_model_save(saved, model, &o), "pad_token_id");
    br_module_free(again);
    br_module_free(model);
    br_scope_end(scope);
}
