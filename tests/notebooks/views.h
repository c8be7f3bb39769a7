/* tests/notebooks/views.h - the notebooks' calls of bertviz: checks that the page contains the
 * model's values.
 *
 * The model is small and has random weights, unless the environment variable BRASA_MINILM names the
 * folder of a model. tests/viz/test_views.py tests the page in a browser. */
#ifndef BR_TESTS_NOTEBOOKS_VIEWS_H
#define BR_TESTS_NOTEBOOKS_VIEWS_H

#include "tests/notebooks/bert_tokenizer.h"

#include <string.h>

enum { VIEW_TOKENS = 16 };

/* The notebook's variables model, tokenizer and viz_inputs. */
typedef struct view_inputs {
    br_hf_bert *model;
    br_tokenizer *tokenizer;
    br_token_batch batch;
    const char *tokens[VIEW_TOKENS];
    br_attention_text text;
} view_inputs;

static inline br_hf_bert *view_model(void)
{
    const char *dir = getenv("BRASA_MINILM");
    if (dir)
        return br_auto_model_load(dir, BR_OPTIONS(br_auto_model, .class_name = "BertModel"), NULL);
    br_hf_bert_config c = br_hf_bert_config_default();
    c.hidden_size = c.intermediate_size = 48;
    c.num_hidden_layers = 2;
    br_hf_bert *model = br_hf_bert_new(&c);
    br_eval(br_base(model));
    return model;
}

/* Computes sentence_b_start = (viz_inputs.token_type_ids == 0).sum(dim=1) and tokens =
 * tokenizer.convert_ids_to_tokens(viz_inputs.input_ids[0]). */
static inline void view_begin(view_inputs *v, const char *sentence_a, const char *sentence_b)
{
    v->model = view_model();
    v->tokenizer = bert_tokenizer();
    br_text a = { sentence_a, -1 }, b = { sentence_b, -1 };
    bool ok =
        br_tokenizer_encode_batch(v->tokenizer, 1, &a, sentence_b ? &b : NULL, NULL, &v->batch);
    cr_assert(ok, "%s", br_error_message());
    int64_t n = br_size(v->batch.ids, 1);
    cr_assert(n <= VIEW_TOKENS);
    for (int64_t i = 0; i < n; i++)
        v->tokens[i] = br_tokenizer_token(v->tokenizer, br_data_i64(v->batch.ids)[i]);
    v->text = (br_attention_text){ .n_tokens = n, .tokens = v->tokens };
    if (sentence_b)
        v->text.sentence_b_start = br_item_i64(br_sum(br_eq_scalar(v->batch.type_ids, 0)));
}

static inline void view_end(view_inputs *v)
{
    br_module_free(v->model);
    br_tokenizer_free(v->tokenizer);
}

/* Returns the page; the caller frees it. */
static inline char *view_page(const br_attention_view *view)
{
    char path[] = "/tmp/brasa-view-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    int64_t size = br_attention_html(path, 1, view, NULL);
    cr_assert(size > 0, "%s", br_error_message());
    char *page = calloc((size_t)size + 1, 1);
    close(fd);
    FILE *file = fopen(path, "rb");
    cr_assert_eq(fread(page, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    unlink(path);
    return page;
}

/* Returns value number i of the element with that id, which contains f32 values in base64. */
static inline float view_value(const char *page, const char *id, int64_t i)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char element[64];
    snprintf(element, sizeof element, "id=\"%s\">", id);
    const char *text = strstr(page, element);
    cr_assert_not_null(text, "there is no %s", id);
    text += strlen(element);
    uint32_t bits = 0;
    for (int64_t byte = 4 * i; byte < 4 * i + 4; byte++) {
        int64_t bit = 8 * byte;
        uint32_t pair = (uint32_t)(strchr(alphabet, text[bit / 6]) - alphabet) << 6 |
                        (uint32_t)(strchr(alphabet, text[bit / 6 + 1]) - alphabet);
        bits |= (pair >> (4 - bit % 6) & 255) << (8 * (byte % 4));
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Checks that all values in the element are exactly those of the tensor. */
static inline void check_values(const char *page, const char *id, br_tensor *expected)
{
    const float *values = br_data_f32(br_contiguous(expected));
    cr_assert_not_null(values);
    for (int64_t i = 0; i < br_numel(expected); i++)
        cr_assert_eq(view_value(page, id, i), values[i], "%s[%lld]", id, (long long)i);
}

/* Checks show(model, "bert", tokenizer, text, display_mode="light", layer=0, head=8). */
static inline void check_neuron_view(void)
{
    br_scope *scope = br_no_grad_begin();
    view_inputs v = { 0 };
    view_begin(&v, "time flies like an arrow", NULL);
    br_recorder *recorder = br_recorder_begin();
    br_hf_bert_forward(v.model, v.batch.ids, NULL);
    br_attention *attention = br_attention_new(&v.text);
    br_attention_add_recorded(attention, recorder);
    br_attention_view view = { .kind = BR_NEURON_VIEW,
                               .attention = attention,
                               .layer = 0,
                               .head = 8,
                               .display_mode = BR_DISPLAY_LIGHT };
    char *page = view_page(&view);
    cr_assert_not_null(strstr(page, "{\"tokens\":[\"[CLS]\",\"time\",\"flies\",\"like\",\"an\","
                                    "\"arrow\",\"[SEP]\"]"));
    cr_assert_not_null(strstr(page, "\"kind\":\"neuron\",\"data\":0,\"layer\":0,\"head\":8"));
    cr_assert_not_null(strstr(page, "\"mode\":\"light\""));
    static const char *const ids[] = { "w0-0", "q0-0", "k0-0" };
    static const char *const taps[] = { "attention", "query", "key" };
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "encoder.layer.0.attention.self.%s", taps[i]);
        check_values(page, ids[i], br_recorder_get(recorder, name));
    }
    free(page);
    br_attention_free(attention);
    br_recorder_end(recorder);
    view_end(&v);
    br_scope_end(scope);
}

/* Checks attention = model(**viz_inputs).attentions; head_view(attention, tokens, sentence_b_start,
 * heads=[8]). */
static inline void check_head_view(void)
{
    br_scope *scope = br_no_grad_begin();
    view_inputs v = { 0 };
    view_begin(&v, "time flies like an arrow", "fruit flies like a banana");
    cr_assert_eq(v.text.sentence_b_start, 7);
    int64_t layers = v.model->config.num_hidden_layers;
    br_tensor *attentions[12];
    br_hf_bert_options options =
        *BR_OPTIONS(br_hf_bert, .token_type_ids = v.batch.type_ids, .attentions = attentions);
    br_hf_bert_forward(v.model, v.batch.ids, &options);
    br_attention *attention = br_attention_new(&v.text);
    for (int64_t i = 0; i < layers; i++)
        br_attention_add(attention, BR_ATTENTION_SELF, NULL, attentions[i], NULL, NULL);
    br_attention_view view = { .attention = attention, .heads = (int64_t[]){ 8 }, .n_heads = 1 };
    char *page = view_page(&view);
    cr_assert_not_null(strstr(page, "\"[SEP]\",\"fruit\",\"flies\",\"like\",\"a\",\"banana\""));
    cr_assert_not_null(strstr(page, "\"sentenceB\":7"));
    cr_assert_not_null(strstr(page, "\"heads\":[8]"));
    for (int64_t i = 0; i < layers; i++) {
        char id[16];
        snprintf(id, sizeof id, "w0-%d", (int)i);
        check_values(page, id, attentions[i]);
    }
    free(page);
    br_attention_free(attention);
    view_end(&v);
    br_scope_end(scope);
}

#endif
