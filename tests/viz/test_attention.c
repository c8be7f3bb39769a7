/* Attention views: the taps that are found, invalid arguments, and the file's contents.
 * test_views.py tests the behaviour of the page in a browser. */
#include "tests/viz/attention_texts.h"

#include <unistd.h>

static char directory[] = "/tmp/brasa-attention-XXXXXX";
static char path[64];

static void begin(void)
{
    check_begin();
    cr_assert_not_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/view.html", directory);
}

static void end(void)
{
    unlink(path);
    cr_assert_eq(rmdir(directory), 0, "other files than the page are left");
    check_end();
}

TestSuite(attention_view, .init = begin, .fini = end);

static char *read_page(void)
{
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    static char text[1 << 20];
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    fclose(file);
    return text;
}

/* ---- Taps ------------------------------------------------------------------------------------ */

static void check_layers(const br_attention *a, int64_t self, int64_t encoder, int64_t decoder,
                         int64_t cross)
{
    const int64_t expected[] = { self, encoder, decoder, cross };
    check_ok();
    for (int part = BR_ATTENTION_SELF; part <= BR_ATTENTION_CROSS; part++)
        cr_assert_eq(br_attention_layers(a, (br_attention_part)part), expected[part],
                     "part %d has %lld layers", part,
                     (long long)br_attention_layers(a, (br_attention_part)part));
}

/* Checks that all three views of the attention can be written. */
static void check_page(const br_attention *a)
{
    br_attention_view views[] = { { .kind = BR_HEAD_VIEW, .attention = a },
                                  { .kind = BR_MODEL_VIEW, .attention = a },
                                  { .kind = BR_NEURON_VIEW, .attention = a } };
    int64_t size = br_attention_html(NULL, 3, views, NULL);
    check_ok();
    cr_assert_eq(br_attention_html(path, 3, views, NULL), size);
    cr_assert_eq(strlen(read_page()), (size_t)size);
}

/* Runs `call` with a recorder and checks the number of layers of each part. */
#define CHECK_TAPS(attention, call, ...)                                        \
    do {                                                                        \
        br_attention *a_ = (attention);                                         \
        br_recorder *r_ = br_recorder_begin();                                  \
        (call);                                                                 \
        check_ok();                                                             \
        cr_assert(br_attention_add_recorded(a_, r_), "%s", br_error_message()); \
        br_recorder_end(r_);                                                    \
        check_layers(a_, __VA_ARGS__);                                          \
        check_page(a_);                                                         \
        br_attention_free(a_);                                                  \
    } while (0)

static br_tensor *ids(int64_t n)
{
    return br_ones(BR_SHAPE(1, n), BR_I64);
}

Test(attention_view, nn_transformer)
{
    br_transformer *model = br_transformer_new(6, 2, 3, 2, NULL);
    br_scope *scope = br_no_grad_begin();
    br_tensor *src = br_randn(BR_SHAPE(4, 1, 6), BR_F32),
              *tgt = br_randn(BR_SHAPE(4, 1, 6), BR_F32);
    CHECK_TAPS(pair_of(4, 4), br_transformer_forward(model, src, tgt, NULL), 0, 3, 2, 2);
    br_scope_end(scope);
    br_module_free(model);
}

Test(attention_view, hf_bert)
{
    br_hf_bert_config c = br_hf_bert_config_default();
    c.vocab_size = 8;
    c.hidden_size = c.intermediate_size = 12;
    c.num_hidden_layers = 2;
    c.num_attention_heads = 3;
    br_hf_bert *model = br_hf_bert_new(&c);
    br_scope *scope = br_no_grad_begin();
    CHECK_TAPS(text_of(5), br_hf_bert_forward(model, ids(5), NULL), 2, 0, 0, 0);
    br_scope_end(scope);
    br_module_free(model);
}

Test(attention_view, gpt2_is_causal)
{
    br_gpt2_config c = br_gpt2_config_default();
    c.vocab_size = 8;
    c.n_embd = 12;
    c.n_head = 3;
    c.n_layer = 2;
    br_gpt2 *model = br_gpt2_new(&c);
    br_scope *scope = br_no_grad_begin();
    CHECK_TAPS(text_of(5), br_gpt2_forward(model, ids(5), NULL), 2, 0, 0, 0);
    cr_assert_not_null(strstr(read_page(), "\"causal\":true"));
    br_scope_end(scope);
    br_module_free(model);
}

/* The attention of a single token has no later tokens to attend to, but that means nothing. */
Test(attention_view, a_single_token_is_not_causal)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(1);
    cr_assert(br_attention_add(a, BR_ATTENTION_SELF, NULL, weights(2, 1, 1), NULL, NULL));
    br_attention_view view = { .attention = a };
    cr_assert_gt(br_attention_html(path, 1, &view, NULL), 0, "%s", br_error_message());
    cr_assert_not_null(strstr(read_page(), "\"causal\":false"));
    br_attention_free(a);
    br_scope_end(scope);
}

/* In a T5's decoder, self-attention and cross-attention are not siblings in the module tree. */
Test(attention_view, t5)
{
    br_t5_config c = br_t5_config_default();
    c.vocab_size = 8;
    c.d_model = c.d_ff = 12;
    c.d_kv = 4;
    c.num_heads = 3;
    c.num_layers = 3;
    c.num_decoder_layers = 2;
    br_t5 *model = br_t5_new(&c);
    br_scope *scope = br_no_grad_begin();
    CHECK_TAPS(pair_of(4, 4), br_t5_decode(model, ids(4), br_t5_encode(model, ids(4), NULL), NULL),
               0, 3, 2, 2);
    br_scope_end(scope);
    br_module_free(model);
}

Test(attention_view, anatomy_s_heads_are_modules)
{
    br_anatomy_config c = br_anatomy_notebook_config();
    c.hidden_size = c.intermediate_size = 12;
    c.num_attention_heads = 3;
    c.num_hidden_layers = 2;
    c.vocab_size = 8;
    br_anatomy_classifier *model = br_anatomy_classifier_new(&c);
    br_scope *scope = br_no_grad_begin();
    CHECK_TAPS(text_of(5), br_anatomy_classifier_forward(model, ids(5)), 2, 0, 0, 0);
    br_scope_end(scope);
    br_module_free(model);
}

static void run_heads(br_anatomy_multi_head_attention *model, br_tensor *x, int times)
{
    for (int i = 0; i < times; i++)
        br_anatomy_multi_head_attention_forward(model, x, NULL);
}

/* Heads of the outermost module are one layer, and each time that they run is another one. */
Test(attention_view, heads_of_the_outermost_module)
{
    br_anatomy_config c = br_anatomy_notebook_config();
    c.hidden_size = 12;
    c.num_attention_heads = 3;
    br_anatomy_multi_head_attention *model = br_anatomy_multi_head_attention_new(&c);
    br_scope *scope = br_no_grad_begin();
    br_tensor *x = br_randn(BR_SHAPE(1, 5, 12), BR_F32);
    for (int times = 1; times <= 2; times++) {
        CHECK_TAPS(text_of(5), run_heads(model, x, times), times, 0, 0, 0);
        cr_assert_eq(count(read_page(), "\"heads\":3,"), times);
    }
    br_scope_end(scope);
    br_module_free(model);
}

Test(attention_view, architecture)
{
    br_architecture_config c = br_architecture_notebook_config();
    c.hidden_size = c.intermediate_size = 12;
    c.num_attention_heads = 3;
    c.num_hidden_layers = 1;
    c.vocab_size = 8;
    br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
    br_scope *scope = br_no_grad_begin();
    br_tensor *mask = br_unsqueeze(br_architecture_subsequent_mask(4), 0);
    CHECK_TAPS(pair_of(4, 4),
               br_architecture_encoder_decoder_forward(model, ids(4), ids(4),
                                                       br_architecture_source_mask(ids(4)), mask),
               0, 1, 1, 1);
    br_scope_end(scope);
    br_module_free(model);
}

/* As written, one module computes both self-attention and cross-attention of a decoder layer. */
Test(attention_view, vanilla)
{
    for (int intended = 0; intended < 2; intended++) {
        br_vanilla_config c = { .embed_dim = 12,
                                .n_heads = 3,
                                .ff_hid_dim = 12,
                                .n_layers = 2,
                                .max_length = 5,
                                .src_vocab_size = 8,
                                .trg_vocab_size = 8,
                                .use_joint_attention = intended };
        br_vanilla_transformer *model = br_vanilla_transformer_new(&c);
        br_scope *scope = br_no_grad_begin();
        CHECK_TAPS(pair_of(4, 3), br_vanilla_transformer_forward(model, ids(4), ids(3)), 0, 2, 2,
                   2);
        br_scope_end(scope);
        br_module_free(model);
    }
}

/* In a single decoder layer, self-attention and cross-attention are siblings. */
Test(attention_view, decoder_layer_alone)
{
    br_scope *scope = br_no_grad_begin();
    br_transformer_decoder_layer *layer = br_transformer_decoder_layer_new(6, 2, NULL);
    br_tensor *memory = br_randn(BR_SHAPE(4, 1, 6), BR_F32);
    CHECK_TAPS(pair_of(4, 3),
               br_transformer_decoder_layer_forward(layer, br_randn(BR_SHAPE(3, 1, 6), BR_F32),
                                                    memory, NULL),
               0, 0, 1, 1);
    br_module_free(layer);
    br_scope_end(scope);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Views of the same attention share its values. Layers that no view includes are not written. */
Test(attention_view, shared_values_are_written_once)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(3);
    for (int i = 0; i < 3; i++)
        cr_assert(br_attention_add(a, BR_ATTENTION_SELF, "layer", weights(2, 3, 3), NULL, NULL));
    int64_t one[] = { 1 };
    br_attention_view views[] = {
        { .attention = a, .include_layers = one, .n_include_layers = 1 },
        { .kind = BR_MODEL_VIEW, .attention = a, .include_layers = one, .n_include_layers = 1 }
    };
    cr_assert(br_attention_html(path, 2, views, NULL) > 0);
    const char *page = read_page();
    cr_assert_not_null(strstr(page, "id=\"w0-1\""));
    cr_assert_null(strstr(page, "id=\"w0-0\""));
    cr_assert_null(strstr(page, "id=\"w1-1\""));
    cr_assert_null(strstr(page, "id=\"q"), "queries are written without a neuron view");
    br_attention_free(a);
    br_scope_end(scope);
}

/* Returns a page with two tokens; the caller frees it. */
static char *page_of(const char *const *tokens, const char *layer, const char *title)
{
    br_attention *a = br_attention_new(&(br_attention_text){ .n_tokens = 2, .tokens = tokens });
    cr_assert(br_attention_add(a, BR_ATTENTION_SELF, layer, weights(1, 2, 2), NULL, NULL));
    br_attention_view view = { .attention = a };
    cr_assert_gt(br_attention_html(path, 1, &view, BR_OPTIONS(br_attention_html, .title = title)),
                 0, "%s", br_error_message());
    br_attention_free(a);
    return strdup(read_page());
}

/* Tokens, names and titles are escaped, so they cannot begin or end an element. */
Test(attention_view, texts_are_escaped)
{
    static const char *const tokens[] = { "</script><b a=\"1\">&amp;\xe2\x80\xa8\xe2\x80\xa9",
                                          "<!--<script>\\'" };
    static const char title[] = "</title><script>1 && \"2\" > '1'</script>";
    br_scope *scope = br_scope_begin();
    char *plain = page_of(words, "layer", "title"), *page = page_of(tokens, "<i>&", title);
    cr_assert(strstr(
        page, "\"\\u003c/script\\u003e\\u003cb a=\\u00221\\u0022\\u003e\\u0026amp;\\u2028\\u2029\","
              "\"\\u003c!--\\u003cscript\\u003e\\u005c'\""));
    cr_assert(strstr(page, "<title>&#60;/title&#62;&#60;script&#62;1 &#38;&#38; &#34;2&#34; &#62; "
                           "&#39;1&#39;&#60;/script&#62;</title>"));
    cr_assert(strstr(page, "\"\\u003ci\\u003e\\u0026\""));
    static const char *const marks[] = { "<", ">", "</script", "<script" };
    for (int i = 0; i < 4; i++)
        cr_assert_eq(count(page, marks[i]), count(plain, marks[i]), "%s", marks[i]);
    free(plain);
    free(page);
    br_scope_end(scope);
}

/* Checks that the page of the attention has this part. */
static void check_page_of(const br_attention *a, const br_attention_view *view, const char *part)
{
    br_attention_view v = view ? *view : (br_attention_view){ 0 };
    v.attention = a;
    cr_assert_gt(br_attention_html(path, 1, &v, BR_OPTIONS(br_attention_html, .threshold = 0.5)), 0,
                 "%s", br_error_message());
    cr_assert(strstr(read_page(), part), "the page has no %s", part);
}

/* A number halfway between two f16 becomes the even one. */
Test(attention_view, f16_is_rounded_to_even)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(2);
    const float values[] = { 0.5f + 0x1p-12f, 0.5f + 3 * 0x1p-12f, 0, 0x1p-25f };
    br_tensor *w = br_from_f32(BR_SHAPE(1, 1, 2, 2), values);
    cr_assert(br_attention_add(a, BR_ATTENTION_SELF, NULL, w, NULL, NULL));
    br_attention_view view = { .attention = a };
    br_attention_html_options o = *BR_OPTIONS(br_attention_html, .precision = BR_PRECISION_F16);
    cr_assert_gt(br_attention_html(path, 1, &view, &o), 0, "%s", br_error_message());
    cr_assert(strstr(read_page(), "\"w0-0\">ADgCOAAAAAA=<")); /* 0x3800, 0x3802, 0, 0 */
    br_attention_free(a);
    a = text_of(2);
    const float large[] = { 65519, 65520, -65519, -65520 }; /* the greatest f16 is 65504 */
    w = br_from_f32(BR_SHAPE(1, 1, 2, 2), large);
    cr_assert(br_attention_add(a, BR_ATTENTION_SELF, NULL, w, NULL, NULL));
    view.attention = a;
    cr_assert_gt(br_attention_html(path, 1, &view, &o), 0, "%s", br_error_message());
    cr_assert(strstr(read_page(), "\"w0-0\">/3sAfP/7APw=<")); /* 0x7bff, 0x7c00, 0xfbff, 0xfc00 */
    br_attention_free(a);
    br_scope_end(scope);
}

/* A map is causal if each of its heads is. */
Test(attention_view, causal_in_every_head)
{
    for (int other = 0; other < 3; other++) { /* which head is not causal; 2: none */
        br_scope *scope = br_scope_begin();
        br_attention *a = text_of(2);
        br_tensor *w = br_ones(BR_SHAPE(1, 2, 2, 2), BR_F32);
        for (int head = 0; head < 2; head++)
            br_data_f32(w)[4 * head + 1] = head == other;
        cr_assert(br_attention_add(a, BR_ATTENTION_SELF, NULL, w, NULL, NULL));
        check_page_of(a, NULL, other == 2 ? "\"causal\":true" : "\"causal\":false");
        br_attention_free(a);
        br_scope_end(scope);
    }
}

/* Without layer 0, a view begins with the lowest of its layers, not the first that is listed. */
Test(attention_view, the_first_layer_of_a_view)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(3);
    for (int i = 0; i < 3; i++)
        cr_assert(br_attention_add(a, BR_ATTENTION_SELF, "layer", weights(1, 3, 3), NULL, NULL));
    br_attention_view view = { .include_layers = (int64_t[]){ 2, 1 }, .n_include_layers = 2 };
    check_page_of(a, &view, "\"data\":0,\"layer\":1,");
    br_attention_free(a);
    br_scope_end(scope);
}

Test(attention_view, other_types_and_strides)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(3);
    br_tensor *w = br_transpose(br_to(weights(2, 3, 3), BR_F64), 2, 3);
    br_tensor *q = br_transpose(br_randn(BR_SHAPE(1, 3, 2, 5), BR_F64), 1, 2);
    cr_assert(br_attention_add(a, BR_ATTENTION_SELF, NULL, w, q, q), "%s", br_error_message());
    check_page(a);
    br_attention_free(a);
    br_scope_end(scope);
}

/* ---- Invalid arguments ----------------------------------------------------------------------- */

Test(attention_view, texts_are_checked)
{
    check_fails(br_attention_new(NULL), "text needs tokens");
    check_fails(br_attention_new(&(br_attention_text){ .n_tokens = 2 }), "text needs tokens");
    br_attention_text t = { BR_TOKENS("a", "b"), .sentence_b_start = 2 };
    check_fails(br_attention_new(&t), "sentence_b_start is 2, must be 1 .. 1");
    t.sentence_b_start = 1;
    t.n_decoder_tokens = 1;
    t.decoder_tokens = words;
    check_fails(br_attention_new(&t), "takes no sentence pair");
    check_fails(br_attention_new(&(br_attention_text){ BR_TOKENS("a", NULL) }),
                "tokens[1] is NULL");
}

Test(attention_view, maps_are_checked)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(3), *pair = pair_of(3, 2);
    br_tensor *q = br_zeros(BR_SHAPE(1, 2, 3, 4), BR_F32);
    check_fails(add_one(a, weights(2, 3, 4), NULL, NULL), "weights is [1, 2, 3, 4]");
    check_fails(add_one(a, weights(2, 4, 3), NULL, NULL), "for 3 tokens");
    check_fails(add_one(a, NULL, NULL, NULL), "weights");
    check_fails(add_one(a, ids(3), NULL, NULL), "weights");
    check_fails(add_one(a, weights(2, 3, 3), q, NULL), "query and key must both be given");
    check_fails(add_one(a, weights(3, 3, 3), q, q), "query is [1, 2, 3, 4]");
    check_fails(add_one(a, weights(2, 3, 3), q, br_zeros(BR_SHAPE(1, 2, 3, 5), BR_F32)),
                "key is [1, 2, 3, 5]");
    check_fails(br_attention_add(a, BR_ATTENTION_CROSS, "x", weights(1, 3, 3), NULL, NULL),
                "decoder_tokens are required for this part");
    check_fails(add_one(pair, weights(1, 3, 3), NULL, NULL),
                "it must be encoder, decoder or cross attention");
    cr_assert(add_one(a, weights(2, 3, 3), q, q));
    check_fails(br_attention_add(a, BR_ATTENTION_ENCODER, "x", weights(1, 3, 3), NULL, NULL),
                "cannot be combined with encoder, decoder or cross");
    check_layers(a, 1, 0, 0, 0);
    br_attention_free(a);
    br_attention_free(pair);
    a = br_attention_new(&(br_attention_text){ BR_TOKENS("a"), .batch = 1 });
    check_fails(add_one(a, weights(1, 1, 1), NULL, NULL), "batch is 1, out of bounds for weights");
    br_attention_free(a);
    br_scope_end(scope);
}

/* A module that taps only its query, or only its key, has weights without both. */
Test(attention_view, half_of_query_and_key)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(3);
    br_recorder *recorder = br_recorder_begin();
    static const char *const names[] = { "query", "key" };
    for (int i = 0; i < 2; i++) {
        br_tap(names[i], br_zeros(BR_SHAPE(1, 2, 3, 4), BR_F32));
        br_tap_attention(NULL, NULL, weights(2, 3, 3), false);
    }
    cr_assert(br_attention_add_recorded(a, recorder), "%s", br_error_message());
    check_layers(a, 2, 0, 0, 0);
    br_recorder_end(recorder);
    br_attention_free(a);
    br_scope_end(scope);
}

Test(attention_view, recorders_are_checked)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(3), *pair = pair_of(3, 3);
    br_recorder *recorder = br_recorder_begin();
    br_tap("hidden", ids(3));
    check_fails(br_attention_add_recorded(a, recorder), "none of the 1 recorded taps is attention");
    br_tap_attention(NULL, NULL, weights(1, 3, 3), false);
    check_fails(br_attention_add_recorded(pair, recorder), "no module tapped \"cross_attention\"");
    br_tap_attention(NULL, NULL, weights(1, 3, 3), true);
    check_fails(br_attention_add_recorded(a, recorder),
                "is cross-attention: decoder_tokens are required");
    br_recorder_end(recorder);
    check_fails(br_attention_add_recorded(a, NULL), "self and recorder are required");
    br_attention_free(a);
    br_attention_free(pair);
    br_scope_end(scope);
}

static void check_refused(br_attention_view view, const char *message)
{
    check_fails(br_attention_html(path, 1, &view, NULL) >= 0, message);
}

Test(attention_view, views_are_checked)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(3), *empty = text_of(3);
    int64_t two[] = { 1, 2 }, far[] = { 9 };
    for (int i = 0; i < 3; i++)
        cr_assert(add_one(a, weights(2, 3, 3), NULL, NULL));
    br_attention_view v = { .attention = a };
    check_refused((br_attention_view){ 0 }, "attention is NULL or has no layers");
    check_refused((br_attention_view){ .attention = empty }, "attention is NULL or has no layers");
    check_refused((br_attention_view){ .attention = a, .layer = 3 }, "layer is 3, must be 0 .. 2");
    check_refused((br_attention_view){ .attention = a, .head = 2 }, "head is 2, must be 0 .. 1");
    v.heads = far;
    v.n_heads = 1;
    check_refused(v, "heads contains 9, must be 0 .. 1");
    v = (br_attention_view){ .attention = a, .include_layers = two };
    check_refused(v, "include_layers has 0 entries");
    v.n_include_layers = 1;
    v.layer = 2;
    check_refused(v, "layer is 2");
    cr_assert(add_one(a, weights(3, 3, 3), NULL, NULL));
    v.layer = 1; /* the other layer has a third head */
    v.head = 2;
    check_refused(v, "head is 2, must be 0 .. 1");
    v = (br_attention_view){ .kind = BR_NEURON_VIEW, .attention = a };
    check_refused(v, "no query and key");
    v = (br_attention_view){ .attention = a };
    check_fails(br_attention_html(path, 0, &v, NULL) >= 0, "at least one view");
    check_fails(br_attention_html(path, 1, &v, BR_OPTIONS(br_attention_html, .threshold = 2)) >= 0,
                "threshold is 2");
    check_fails(br_attention_html(path, 1, &v, BR_OPTIONS(br_attention_html, .columns = 3)) >= 0,
                "columns is 3, must be 1 or 2");
    check_fails(br_attention_html("/none/view.html", 1, &v, NULL) >= 0, "/none/view.html");
    br_attention_free(a);
    br_attention_free(empty);
    br_scope_end(scope);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool make_page(void)
{
    br_scope *scope = br_scope_begin();
    br_recorder *recorder = br_recorder_begin();
    br_tensor *q = br_zeros(BR_SHAPE(1, 2, 3, 4), BR_F64);
    br_tap_attention(q, q, br_zeros(BR_SHAPE(1, 2, 3, 3), BR_F64), false);
    br_attention *a = text_of(3);
    br_attention_add_recorded(a, recorder);
    br_attention_view view = { .kind = BR_NEURON_VIEW, .attention = a };
    int64_t size = br_attention_html(path, 1, &view, NULL);
    cr_assert_eq(size < 0, br_failed());
    br_attention_free(a);
    br_recorder_end(recorder);
    br_scope_end(scope);
    return !br_failed();
}

Test(attention_view, every_allocation_may_fail)
{
    fail_in_turn(make_page, "make page");
}

/* The page says how many weights below the threshold it omits. Those that are 0 do not count. */
Test(attention_view, omitted_weights_are_counted)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(2);
    br_tensor *w = br_from_f32(BR_SHAPE(1, 1, 2, 2), (float[]){ 1, 0, 0.15f, 0.85f });
    cr_assert(br_attention_add(a, BR_ATTENTION_SELF, NULL, w, NULL, NULL));
    br_attention_view view = { .attention = a };
    br_attention_html_options o =
        *BR_OPTIONS(br_attention_html, .precision = BR_PRECISION_U8, .threshold = 0.2);
    cr_assert_gt(br_attention_html(path, 1, &view, &o), 0, "%s", br_error_message());
    cr_assert_not_null(strstr(read_page(), "\"cut\":1,"));
    br_attention_free(a);
    br_scope_end(scope);
}

/* Logarithms hold 0 .. 1 only. Other weights are stored as f16, also beside weights that are NaN.
 */
Test(attention_view, weights_out_of_range_are_f16)
{
    static const struct {
        float weights[4];
        const char *type;
    } cases[] = {
        { { 0.9f, 0.1f, 0, 1 }, "u8" },     { { 0.9f, 0.1f, NAN, 1 }, "u8" },
        { { 0.9f, 0.1f, 0, 1.5f }, "f16" }, { { -0.1f, 0.1f, 0, 1 }, "f16" },
        { { NAN, 0.1f, 0, 1.5f }, "f16" },  { { 1.5f, 0.1f, 0, NAN }, "f16" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_scope *scope = br_scope_begin();
        br_attention *a = text_of(2);
        br_tensor *w = br_from_f32(BR_SHAPE(1, 1, 2, 2), cases[i].weights);
        br_attention_add(a, BR_ATTENTION_SELF, NULL, w, NULL, NULL);
        br_attention_view view = { .attention = a };
        const br_attention_html_options *o =
            BR_OPTIONS(br_attention_html, .precision = BR_PRECISION_U8);
        cr_assert_gt(br_attention_html(path, 1, &view, o), 0, "%s", br_error_message());
        char want[64];
        snprintf(want, sizeof want, "\"weights\":{\"id\":\"w0-0\",\"type\":\"%s\"}", cases[i].type);
        cr_expect(strstr(read_page(), want), "case %d is not %s", (int)i, cases[i].type);
        br_attention_free(a);
        br_scope_end(scope);
    }
}
