/* BERT, its relatives and ModernBERT: logits and gradients of every family and head, compared with
 * those of transformers. record_encoders.py wrote the models and the results. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/models/gradients.h"
#include "tests/models/recorded.h"

#include <jansson.h>

TestSuite(encoders, .init = files_begin, .fini = files_end);

#define ENCODERS BRASA_TEST_DIR "/models/encoders/"

/* ---- Cases ----------------------------------------------------------------------------------- */

enum { FOLDERS_PER_FAMILY = 3 };

static br_tensor *recorded(const char *type, int i, const char *what)
{
    char name[100];
    snprintf(name, sizeof name, "%s%d.%s", type, i, what);
    return recorded_in(ENCODERS "expected.safetensors", name);
}

static bool has_types(const char *type)
{
    return strcmp(type, "distilbert") != 0 && strcmp(type, "mpnet") != 0 &&
           strcmp(type, "modernbert") != 0;
}

static br_model_input recorded_input(const char *type, int i)
{
    br_model_input input = { 0 };
    input.batch.ids = recorded(type, i, "input_ids");
    input.batch.attention_mask = recorded(type, i, "attention_mask");
    if (has_types(type))
        input.batch.type_ids = recorded(type, i, "token_type_ids");
    return input;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static void copy_weights(const char *from)
{
    br_safetensors *file = open_recorded(from);
    br_named_list *all = br_safetensors_all(file);
    cr_assert(br_safetensors_save(files_path("model.safetensors"), all, 0, NULL));
    br_named_list_free(all);
    br_safetensors_close(file);
}

/* Makes a folder with the same weights and two labels, which a model that answers questions needs.
 */
static const char *with_two_labels(const char *dir)
{
    char path[600];
    snprintf(path, sizeof path, "%s/config.json", dir);
    json_t *config = json_load_file(path, 0, NULL);
    cr_assert(config);
    json_object_del(config, "id2label");
    json_object_del(config, "label2id");
    cr_assert_eq(json_dump_file(config, files_path("config.json"), 0), 0);
    json_decref(config);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    copy_weights(path);
    return files_path(".");
}

static br_module *load(const char *type, int i, const br_model_class *class, br_dtype dtype)
{
    char dir[500];
    snprintf(dir, sizeof dir, ENCODERS "%s%d", type, i);
    bool asks = class->task == BR_TASK_QUESTION_ANSWERING;
    br_auto_model_options o = *BR_OPTIONS(br_auto_model, .class_name = class->name, .dtype = dtype);
    br_auto_model_report report = { 0 };
    br_module *model = br_auto_model_load(asks ? with_two_labels(dir) : dir, &o, &report);
    cr_assert(model, "%s: %s", class->name, br_error_message());
    cr_assert_eq(report.missing, 0, "%s: %s", class->name, report.missing_names);
    br_auto_model_report_clear(&report);
    cr_assert_str_eq(br_module_class(model), class->name);
    return br_eval(model), model;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Runs a class without a task: both pretraining heads in one row, or the discriminator. */
static br_tensor *run_pretraining(br_module *model, const br_model_input *input)
{
    br_hf_bert_options o = *BR_OPTIONS(br_hf_bert, .attention_mask = input->batch.attention_mask,
                                       .token_type_ids = input->batch.type_ids);
    br_tensor *tokens, *relation;
    cr_assert(br_hf_bert_pretraining_forward((br_hf_bert_pretraining *)model, input->batch.ids, &o,
                                             &tokens, &relation));
    br_tensor *both[] = { br_reshape(tokens, BR_SHAPE(-1)), br_reshape(relation, BR_SHAPE(-1)) };
    return br_cat(2, both, 0);
}

static br_tensor *run(const br_model_class *class, br_module *model, const br_model_input *input)
{
    return class->forward ? class->forward(model, input) : run_pretraining(model, input);
}

static void check_logits(const char *name, br_tensor *logits, br_tensor *expected)
{
    double size = br_item(br_max(br_abs(expected)));
    double d = difference(br_to(logits, BR_F32), expected);
    cr_assert(d <= 1e-5 * (1 + size), "%s is off by %g of %g", name, d, size);
}

static void check_class(const char *type, int i, const br_model_class *class)
{
    br_scope *scope = br_scope_begin();
    char gradients[80];
    snprintf(gradients, sizeof gradients, "%s.gradients", class->name);
    br_model_input input = recorded_input(type, i);
    br_tensor *expected = recorded(type, i, class->name);
    br_module *model = load(type, i, class, BR_F32);
    check_logits(class->name, run(class, model, &input), expected);
    br_module_free(model);
    model = load(type, i, class, BR_F64);
    br_tensor *logits = run(class, model, &input);
    check_logits(class->name, logits, expected);
    cr_assert(br_backward(weighted(logits)), "%s", br_error_message());
    check_gradients(class->name, model, recorded(type, i, gradients));
    br_module_free(model);
    br_scope_end(scope);
}

static void check_family(const char *type)
{
    for (int i = 0; i < FOLDERS_PER_FAMILY; i++)
        for (const br_model_class *c = br_model_family_find(type)->classes; c->name; c++)
            check_class(type, i, c);
}

Test(encoders, bert_equals_transformers)
{
    check_family("bert");
}

Test(encoders, roberta_equals_transformers)
{
    check_family("roberta");
}

Test(encoders, xlm_roberta_equals_transformers)
{
    check_family("xlm-roberta");
}

Test(encoders, camembert_equals_transformers)
{
    check_family("camembert");
}

Test(encoders, distilbert_equals_transformers)
{
    check_family("distilbert");
}

Test(encoders, electra_equals_transformers)
{
    check_family("electra");
}

Test(encoders, albert_equals_transformers)
{
    check_family("albert");
}

Test(encoders, mpnet_equals_transformers)
{
    check_family("mpnet");
}

Test(encoders, modernbert_equals_transformers)
{
    check_family("modernbert");
}

/* ---- Configurations -------------------------------------------------------------------------- */

/* Makes a model of a class from the text of a config.json. */
static void *make(const char *text, const char *class_name)
{
    files_write(files_path("config.json"), text, strlen(text));
    br_auto_config *config = br_auto_config_load(files_path("config.json"));
    cr_assert(config, "%s", br_error_message());
    const br_model_family *family = br_model_family_find(br_auto_config_model_type(config));
    const br_model_class *class = family->classes;
    while (class->name && strcmp(class->name, class_name) != 0)
        class ++;
    void *model = class->make(config);
    br_auto_config_free(config);
    return model;
}

#define SIZES                                                                                \
    "\"vocab_size\": 9, \"hidden_size\": 6, \"num_hidden_layers\": 2, "                      \
    "\"num_attention_heads\": 2, \"intermediate_size\": 5, \"max_position_embeddings\": 8, " \
    "\"hidden_dropout_prob\": 0.3, \"attention_probs_dropout_prob\": 0.4"
#define DISTILBERT                                                                        \
    "{\"model_type\": \"distilbert\", \"vocab_size\": 9, \"dim\": 6, \"n_layers\": 1, "   \
    "\"n_heads\": 2, \"hidden_dim\": 5, \"dropout\": 0.3, \"seq_classif_dropout\": 0.5, " \
    "\"qa_dropout\": 0.6}"
#define ALBERT                                                                                     \
    "{\"model_type\": \"albert\", \"embedding_size\": 4, \"classifier_dropout_prob\": 0.5, " SIZES \
    "}"
#define ELECTRA \
    "{\"model_type\": \"electra\", \"embedding_size\": 4, \"classifier_dropout\": 0.5, " SIZES "}"
#define MPNET   "{\"model_type\": \"mpnet\", " SIZES "}"
#define ROBERTA "{\"model_type\": \"roberta\", \"classifier_dropout\": 0.5, " SIZES "}"

/* The dropouts are in the places in which transformers has them. */
Test(encoders, dropouts)
{
    static const struct {
        const char *config, *class, *module;
        double p;
    } rows[] = {
        { DISTILBERT, "DistilBertModel", "encoder.layer.0.attention.output.dropout", 0 },
        { DISTILBERT, "DistilBertModel", "encoder.layer.0.output.dropout", 0.3 },
        { DISTILBERT, "DistilBertForSequenceClassification", "dropout", 0.5 },
        { DISTILBERT, "DistilBertForTokenClassification", "dropout", 0.3 },
        { DISTILBERT, "DistilBertForQuestionAnswering", "dropout", 0.6 },
        { ALBERT, "AlbertModel",
          "encoder.albert_layer_groups.0.albert_layers.0.attention.output.dropout", 0.3 },
        { ALBERT, "AlbertModel", "encoder.albert_layer_groups.0.albert_layers.0.output.dropout",
          0 },
        { ALBERT, "AlbertForPreTraining", "cls.dropout", 0.5 },
        { ALBERT, "AlbertForTokenClassification", "dropout", 0.5 },
        { ALBERT, "AlbertForQuestionAnswering", "dropout", 0 },
        { ELECTRA, "ElectraForSequenceClassification", "classifier.dropout", 0.5 },
        { ELECTRA, "ElectraForPreTraining", "discriminator_predictions.dropout", 0 },
        { ROBERTA, "RobertaForSequenceClassification", "classifier.dropout", 0.5 },
        { ROBERTA, "RobertaForTokenClassification", "dropout", 0.5 },
        { ROBERTA, "RobertaForQuestionAnswering", "dropout", 0 },
        { MPNET, "MPNetForSequenceClassification", "classifier.dropout", 0.3 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        void *model = make(rows[i].config, rows[i].class);
        br_dropout *dropout = (br_dropout *)br_module_find(model, rows[i].module);
        cr_assert(dropout, "%s", br_error_message());
        cr_assert_eq(dropout->p, rows[i].p, "%s %s: %g", rows[i].class, rows[i].module, dropout->p);
        br_module_free(model);
    }
}

/* Constructors of C initialize the weights, and the padding of embeddings is 0. */
Test(encoders, constructors)
{
    br_hf_bert_config c = br_hf_bert_config_default();
    c.vocab_size = 9, c.hidden_size = 6, c.num_hidden_layers = 1, c.num_attention_heads = 2;
    c.intermediate_size = 5, c.max_position_embeddings = 8, c.pad_token_id = 3;
    c.model_type = "roberta";
    br_hf_bert_classifier *model = br_hf_bert_for_token_classification_new(&c);
    cr_assert_str_eq(br_module_class(br_base(model)), "RobertaForTokenClassification");
    br_scope *scope = br_no_grad_begin();
    br_hf_bert_embeddings *embeddings = model->bert->embeddings;
    cr_assert_eq(br_item(br_sum(br_abs(br_select(embeddings->word_embeddings->weight, 0, 3)))), 0);
    cr_assert_eq(br_item(br_sum(br_abs(br_select(embeddings->position_embeddings->weight, 0, 3)))),
                 0);
    cr_assert_neq(br_item(br_sum(br_abs(embeddings->position_embeddings->weight))), 0);
    br_tensor *ids = br_from_i64(BR_SHAPE(1, 3), (int64_t[]){ 1, 2, 3 });
    br_tensor *logits = br_hf_bert_classifier_forward(model, ids, NULL);
    cr_assert(logits && br_size(logits, 1) == 3 && br_size(logits, 2) == 2);
    br_module_free(model);
    c.model_type = "electra";
    model = br_hf_bert_discriminator_new(&c);
    logits = br_hf_bert_classifier_forward(model, ids, NULL);
    cr_assert(logits && br_ndim(logits) == 2 && br_size(logits, 1) == 3);
    br_module_free(model);
    c.model_type = "bert";
    model = br_hf_bert_for_question_answering_new(&c);
    logits = br_hf_bert_classifier_forward(model, ids, NULL);
    cr_assert(logits && br_ndim(logits) == 3 && br_size(logits, 2) == 2);
    br_module_free(model);
    br_scope_end(scope);
}

/* Reads a configuration of ModernBERT with three layers and these keys. */
static br_modernbert_config modernbert_with(const char *keys)
{
    char text[500];
    snprintf(text, sizeof text,
             "{\"model_type\": \"modernbert\", \"vocab_size\": 9, \"pad_token_id\": 0, "
             "\"hidden_size\": 8, \"num_hidden_layers\": 3, \"num_attention_heads\": 2%s}",
             keys);
    files_write(files_path("config.json"), text, strlen(text));
    br_auto_config *config = br_auto_config_load(files_path("config.json"));
    br_modernbert_config c = br_modernbert_config_from(config);
    br_auto_config_free(config);
    return c;
}

#define LAYERS(...) ", \"layer_types\": [" __VA_ARGS__ "]"
#define GLOBAL      "\"full_attention\""
#define LOCAL       "\"sliding_attention\""
#define ROPE(type)  ", \"rope_parameters\": {\"full_attention\": {\"rope_theta\": 7, " type "}}"

static const br_modernbert_layer *layer_of(const br_modernbert *model, int64_t i)
{
    return br_module_list_at(model->layers, i);
}

/* The bases and the types of layers have other keys in older files. */
Test(encoders, keys_of_modernbert)
{
    static const struct {
        const char *keys;
        double global, local;
        const char *layers; /* g: global, l: local */
    } rows[] = {
        { "", 160000, 10000, "gll" },
        { ", \"global_rope_theta\": 5, \"local_rope_theta\": 6", 5, 6, "gll" },
        { ROPE("\"rope_type\": \"default\"") ", \"local_rope_theta\": 6", 7, 6, "gll" },
        { ROPE("\"type\": \"default\"") ", \"global_rope_theta\": 6", 7, 10000, "gll" },
        { ", \"global_attn_every_n_layers\": 2", 160000, 10000, "glg" },
        { LAYERS(GLOBAL ", " LOCAL ", " GLOBAL), 160000, 10000, "glg" },
        { LAYERS(GLOBAL ", " GLOBAL ", " GLOBAL), 160000, 10000, "ggg" },
        { LAYERS(GLOBAL ", " LOCAL ", " LOCAL), 160000, 10000, "gll" },
        { LAYERS(LOCAL ", " LOCAL ", " GLOBAL), 160000, 10000, "llg" },
        { LAYERS(GLOBAL ", " GLOBAL ", " LOCAL) ", \"global_attn_every_n_layers\": 1", 160000,
          10000, "ggl" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        br_modernbert_config c = modernbert_with(rows[i].keys);
        check_ok();
        cr_assert_eq(c.global_rope.theta, rows[i].global, "%s", rows[i].keys);
        cr_assert_eq(c.local_rope.theta, rows[i].local, "%s", rows[i].keys);
        br_modernbert *model = br_modernbert_new(&c);
        for (int layer = 0; layer < 3; layer++)
            cr_assert_eq(layer_of(model, layer)->is_local, rows[i].layers[layer] == 'l', "%s",
                         rows[i].keys);
        br_module_free(model);
    }
    check_fails(modernbert_with(ROPE("\"rope_type\": \"linear\"")).vocab_size,
                "rope_parameters.full_attention.factor is missing");
    check_fails(
        modernbert_with(", \"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}").vocab_size,
        "rope_scaling.type is not read by transformers beside layers of two kinds: rename");
    check_fails(modernbert_with(ROPE("\"partial_rotary_factor\": 0.5")).vocab_size,
                "full_attention.partial_rotary_factor is the number 0.5, must be 1.0");
    check_fails(modernbert_with(", \"rope_parameters\": {\"full_attention\": 5}").vocab_size,
                "rope_parameters.full_attention is 5, must be an object");
    check_fails(modernbert_with(LAYERS(GLOBAL ", " LOCAL)).vocab_size,
                "layer_types has 2 elements, must have one for each of num_hidden_layers 3");
    check_fails(modernbert_with(LAYERS(GLOBAL ", " LOCAL ", \"local\"")).vocab_size,
                "layer_types[2] is \"local\", must be \"full_attention\" or \"sliding_attention\"");
}

/* Scaled positions are in rope_parameters, or for all layers in rope_scaling, whose keys take
 * precedence. */
Test(encoders, scaled_positions_of_modernbert)
{
#define LINEAR  "{\"rope_type\": \"linear\", \"factor\": 3}"
#define DYNAMIC "{\"rope_type\": \"dynamic\", \"factor\": 2, \"rope_theta\": 5}"
    static const struct {
        const char *keys;
        br_rope_type types[2];
        double factors[2], thetas[2];
    } rows[] = {
        { ", \"rope_parameters\": {\"full_attention\": " LINEAR "}",
          { BR_ROPE_LINEAR, BR_ROPE_DEFAULT },
          { 3, 1 },
          { 160000, 10000 } },
        { ", \"rope_parameters\": {\"sliding_attention\": " DYNAMIC "}",
          { BR_ROPE_DEFAULT, BR_ROPE_DYNAMIC },
          { 1, 2 },
          { 160000, 5 } },
        { ", \"local_rope_theta\": 6, \"rope_scaling\": " LINEAR,
          { BR_ROPE_LINEAR, BR_ROPE_LINEAR },
          { 3, 3 },
          { 160000, 6 } },
        { ", \"rope_scaling\": " LINEAR ", \"rope_parameters\": {\"full_attention\": " DYNAMIC "}",
          { BR_ROPE_LINEAR, BR_ROPE_LINEAR },
          { 3, 3 },
          { 5, 10000 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        br_modernbert_config c = modernbert_with(rows[i].keys);
        check_ok();
        const br_rope_options *ropes[] = { &c.global_rope, &c.local_rope };
        for (int k = 0; k < 2; k++) {
            cr_assert_eq(ropes[k]->type, rows[i].types[k], "%s", rows[i].keys);
            cr_assert_eq(ropes[k]->factor, rows[i].factors[k], "%s", rows[i].keys);
            cr_assert_eq(ropes[k]->theta, rows[i].thetas[k], "%s", rows[i].keys);
        }
    }
}

static br_modernbert_config small_modernbert(void)
{
    br_modernbert_config c = br_modernbert_config_default();
    c.vocab_size = 9, c.hidden_size = 8, c.num_hidden_layers = 3, c.num_attention_heads = 2;
    c.intermediate_size = 5, c.pad_token_id = 0;
    return c;
}

/* Constructors initialize the weights as transformers does, with truncated normal numbers. */
Test(encoders, constructors_of_modernbert)
{
    br_modernbert_config c = small_modernbert();
    c.hidden_size = 200;
    br_scope *scope = br_no_grad_begin();
    br_modernbert_lm *lm = br_modernbert_for_masked_lm_new(&c);
    const br_modernbert_layer *layer = br_module_list_at(lm->model->layers, 1);
    double in = br_item(br_std(layer->attn->Wqkv->weight, 0)),
           out = br_item(br_std(layer->mlp->Wo->weight, 0));
    cr_assert(fabs(in / (0.02 * 0.8796) - 1) < 0.05, "%g", in); /* truncated at 2 deviations */
    cr_assert(fabs(out / in * sqrt(6) - 1) < 0.2, "%g", out);
    cr_assert(br_item(br_max(br_abs(layer->attn->Wqkv->weight))) <= 0.04 * (1 + 1e-6));
    cr_assert_eq(lm->decoder->weight, lm->model->embeddings->tok_embeddings->weight);
    br_module_free(lm);
    c = small_modernbert();
    br_tensor *ids = br_from_i64(BR_SHAPE(1, 3), (int64_t[]){ 1, 2, 3 });
    br_modernbert_classifier *made[] = {
        br_modernbert_for_sequence_classification_new(&c),
        br_modernbert_for_token_classification_new(&c),
        br_modernbert_for_question_answering_new(&c),
    };
    for (int i = 0; i < 3; i++) {
        br_tensor *logits = br_modernbert_classifier_forward(made[i], ids, NULL);
        cr_assert(logits, "%s", br_error_message());
        cr_assert_eq(br_ndim(logits), i == 0 ? 2 : 3);
        br_module_free(made[i]);
    }
    br_scope_end(scope);
}

/* The outputs of the options: the embeddings, each layer, and the attention of a local layer, which
 * is 0 between distant tokens. */
Test(encoders, outputs_of_modernbert)
{
    br_modernbert_config c = small_modernbert();
    c.local_attention = 3;
    br_scope *scope = br_no_grad_begin();
    br_modernbert *model = br_modernbert_new(&c);
    br_eval(br_base(model));
    br_tensor *ids = br_from_i64(BR_SHAPE(1, 4), (int64_t[]){ 1, 2, 3, 4 });
    br_tensor *states[4], *attentions[3];
    br_tensor *x = br_modernbert_forward(
        model, ids, BR_OPTIONS(br_modernbert, .hidden_states = states, .attentions = attentions));
    cr_assert(x, "%s", br_error_message());
    cr_assert(br_equal(states[3], x));
    cr_assert(difference(br_modernbert_forward(model, ids, NULL), x) < 1e-5);
    for (int64_t i = 0; i < 4; i++)
        for (int64_t j = 0; j < 4; j++) {
            cr_assert_neq(br_at(attentions[0], BR_DIMS(0, 1, i, j)), 0);
            cr_assert_eq(br_at(attentions[1], BR_DIMS(0, 1, i, j)) != 0, labs(i - j) <= 1);
        }
    br_modernbert_forward(model, br_narrow(ids, 1, 0, 3), /* one token more than a layer sees */
                          BR_OPTIONS(br_modernbert, .attentions = attentions));
    cr_assert_eq(br_at(attentions[1], BR_DIMS(0, 1, 0, 2)), 0);
    br_tensor *mask = br_from_i64(BR_SHAPE(1, 3), (int64_t[]){ 1, 1, 1 });
    check_fails(
        br_modernbert_forward(
            model, ids, BR_OPTIONS(br_modernbert, .attention_mask = mask, .hidden_states = states)),
        "modernbert: attention_mask [1, 3] must be [1, 4]");
    cr_assert_null(states[3]);
    check_fails(br_modernbert_forward(model, br_select(ids, 0, 0), NULL),
                "input_ids [4] must have 2 dimensions: batch, tokens");
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* A constructor that fails returns an incomplete module, and an error. */
static void check_refused(void *model, const char *message)
{
    check_fails(!br_failed(), message);
    br_module_free(model);
}

Test(encoders, invalid_configurations)
{
    br_hf_bert_config c = br_hf_bert_config_default();
    c.model_type = "robert";
    check_refused(br_hf_bert_new(&c), "model_type is 'robert', must be bert, roberta, xlm-roberta");
    c.model_type = "roberta";
    check_refused(br_hf_bert_for_next_sentence_new(&c), "models of type roberta have no such head");
    check_refused(br_hf_bert_for_pretraining_new(&c),
                  "models of type roberta have no class with both pretraining heads");
    check_refused(br_hf_bert_discriminator_new(&c), "models of type roberta have no discriminator");
    c.num_labels = 3;
    check_refused(br_hf_bert_for_question_answering_new(&c),
                  "num_labels is 3, but a model that answers questions has 2");
    c.pad_token_id = -1;
    check_refused(br_hf_bert_new(&c), "pad_token_id is -1, but a model of type roberta needs a "
                                      "position for it: must be 0 .. max_position_embeddings - 1");
    c.pad_token_id = c.vocab_size;
    check_refused(br_hf_bert_new(&c), "pad_token_id is 30522, must be below vocab_size 30522");
    check_refused(
        make("{\"model_type\": \"roberta\", \"pad_token_id\": -2, " SIZES "}", "RobertaModel"),
        "pad_token_id is -2, but");
    check_refused(
        make("{\"model_type\": \"roberta\", \"pad_token_id\": null, " SIZES "}", "RobertaModel"),
        "pad_token_id is null, must be an id: a model of type roberta gives padding");
    check_refused(
        make("{\"model_type\": \"albert\", \"num_hidden_groups\": 0, " SIZES "}", "AlbertModel"),
        "num_hidden_groups is 0, must be");
}

Test(encoders, invalid_configurations_of_modernbert)
{
    br_modernbert_config c = small_modernbert();
    c.num_labels = 3;
    check_refused(br_modernbert_for_question_answering_new(&c),
                  "num_labels is 3, but a model that answers questions has 2");
    c.classifier_pooling = "max";
    check_refused(br_modernbert_new(&c), "classifier_pooling is 'max', must be cls or mean");
    c.local_rope.theta = -1;
    check_refused(br_modernbert_new(&c), "theta is -1, must be positive");
    c.layer_types[2] = 3;
    check_refused(br_modernbert_new(&c), "layer_types[2] is 3, must be BR_MODERNBERT_BY_DISTANCE");
    c.hidden_size = 6;
    check_refused(br_modernbert_new(&c), "hidden_size 6 / num_attention_heads 2 is odd");
    c.pad_token_id = 9;
    check_refused(br_modernbert_new(&c), "pad_token_id is 9, must be below vocab_size 9");
    c.global_attn_every_n_layers = 0;
    check_refused(br_modernbert_new(&c), "global_attn_every_n_layers is 0, must be");
    check_refused(br_modernbert_new(NULL), "modernbert: config is NULL");
}

/* Padding needs no position of its own, so a longer row is accepted if it has enough padding. */
Test(encoders, more_tokens_than_positions)
{
    br_hf_bert *model = make(ROBERTA, "RobertaModel"); /* 8 positions, 2 before the first token */
    int64_t id[8] = { 2, 3, 4, 5, 6, 7, 1, 1 };
    br_scope *scope = br_no_grad_begin();
    br_tensor *ids = br_from_i64(BR_SHAPE(1, 8), id);
    cr_assert(br_hf_bert_forward(model, ids, NULL), "%s", br_error_message());
    id[6] = 8;
    ids = br_from_i64(BR_SHAPE(1, 8), id);
    check_fails(br_hf_bert_forward(model, ids, NULL),
                "input_ids [1, 8] has 7 tokens, more than the model's 6 positions");
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* The saved weights are those of the folder, under the names of transformers. */
static void check_saved(const char *type, const char *class_name)
{
    char dir[500], path[600], to[500];
    snprintf(dir, sizeof dir, ENCODERS "%s0", type);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    snprintf(to, sizeof to, "%s", files_path("saved"));
    br_module *model = load_recorded(dir, class_name);
    cr_assert(br_auto_model_save(to, model, BR_OPTIONS(br_auto_model_save, .from = dir)), "%s",
              br_error_message());
    br_module_free(model);
    br_safetensors *before = open_recorded(path);
    br_safetensors *after = open_recorded(files_path("saved/model.safetensors"));
    br_named_list *all = br_safetensors_all(after);
    cr_assert(all->count > 20);
    for (int64_t i = 0; i < all->count; i++)
        cr_assert(br_equal(all->items[i].tensor, br_safetensors_get(before, all->items[i].name)),
                  "%s: %s", type, all->items[i].name);
    br_named_list_free(all);
    br_safetensors_close(before);
    br_safetensors_close(after);
}

Test(encoders, saved_weights_have_the_names_of_transformers)
{
    br_scope *scope = br_scope_begin();
    check_saved("roberta", "RobertaForMaskedLM");
    check_saved("roberta", "RobertaForSequenceClassification");
    check_saved("xlm-roberta", "XLMRobertaForTokenClassification");
    check_saved("distilbert", "DistilBertForMaskedLM");
    check_saved("distilbert", "DistilBertForSequenceClassification");
    check_saved("electra", "ElectraForMaskedLM");
    check_saved("electra", "ElectraForPreTraining");
    check_saved("mpnet", "MPNetForMaskedLM");
    check_saved("modernbert", "ModernBertForMaskedLM");
    check_saved("modernbert", "ModernBertForSequenceClassification");
    br_scope_end(scope);
}

Test(encoders, saving_compares_the_configuration)
{
    br_scope *scope = br_scope_begin();
    br_module *model = load_recorded(ENCODERS "roberta0", "RobertaModel");
    size_t n;
    char *text = files_read(ENCODERS "roberta0/config.json", &n);
    json_t *config = json_loadb(text, n, 0, NULL);
    free(text);
    int64_t pad = json_integer_value(json_object_get(config, "pad_token_id"));
    json_object_set_new(config, "pad_token_id", json_integer(pad + 1));
    cr_assert_eq(json_dump_file(config, files_path("config.json"), 0), 0);
    json_decref(config);
    check_fails(br_auto_model_save(files_path("saved"), model,
                                   BR_OPTIONS(br_auto_model_save, .from = files_path("."))),
                "pad_token_id has another value than the model was made with");
    br_module_free(model);
    br_scope_end(scope);
}
