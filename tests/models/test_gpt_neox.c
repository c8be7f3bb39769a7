/* GPT-NeoX: outputs, the cache, the loss, dropout, and errors. test_decoders.c compares its numbers
 * with those of transformers. */
#include "tests/io/files.h"
#include "tests/models/gradients.h"
#include "tests/models/recorded.h"
#include "tests/pretrained/gguf_writer.h"

TestSuite(gpt_neox, .init = files_begin, .fini = files_end);

static br_gpt_neox_config small(void)
{
    br_gpt_neox_config c = br_gpt_neox_config_default();
    c.vocab_size = 13, c.hidden_size = 16, c.intermediate_size = 10, c.num_hidden_layers = 2;
    c.num_attention_heads = 2, c.rotary_dim = 4;
    return c;
}

static br_tensor *some_ids(void)
{
    return br_from_i64(BR_SHAPE(1, 7), (int64_t[]){ 3, 1, 12, 0, 5, 5, 9 });
}

/* Token by token, in pieces and all at once, a text has the same hidden states; and the outputs are
 * those of the layers. */
Test(gpt_neox, cache_and_outputs)
{
    br_gpt_neox_config c = small();
    br_manual_seed(1);
    br_gpt_neox *model = br_gpt_neox_new(&c);
    br_module_to(br_base(model), BR_F64);
    br_eval(br_base(model));
    br_scope *scope = br_no_grad_begin();
    br_tensor *hidden[3], *attentions[2], *ids = some_ids();
    br_tensor *whole = br_gpt_neox_forward(
        model, ids, BR_OPTIONS(br_gpt_neox, .hidden_states = hidden, .attentions = attentions));
    cr_assert(whole, "%s", br_error_message());
    cr_assert(br_equal(hidden[2], whole) && br_size(attentions[1], 1) == 2);
    cr_assert_eq(br_at(attentions[0], BR_DIMS(0, 0, 3, 4)), 0);
    static const int64_t pieces[][3] = { { 4, 1, 2 }, { 1, 5, 1 }, { 6, 1, 0 } };
    for (int i = 0; i < 3; i++) {
        br_cache *cache = br_cache_new();
        for (int64_t k = 0, at = 0; k < 3; at += pieces[i][k++]) {
            if (pieces[i][k] == 0)
                continue;
            br_tensor *part = br_gpt_neox_forward(model, br_narrow(ids, 1, at, pieces[i][k]),
                                                  BR_OPTIONS(br_gpt_neox, .cache = cache));
            br_tensor *wanted = br_narrow(whole, 1, at, pieces[i][k]);
            cr_assert(difference(part, wanted) < 1e-12, "piece %ld of cut %d", k, i);
        }
        br_cache_free(cache);
    }
    br_scope_end(scope);
    br_module_free(model);
}

/* Padding before a prompt takes no positions: also where the rates depend on the largest one, the
 * next token has the same logits. */
Test(gpt_neox, padded_prompts)
{
    br_gpt_neox_config c = small();
    c.rope = *BR_OPTIONS(br_rope, .type = BR_ROPE_DYNAMIC, .factor = 4,
                         .original_max_position_embeddings = 4);
    br_manual_seed(3);
    br_gpt_neox_lm *model = br_gpt_neox_lm_new(&c);
    br_module_to(br_base(model), BR_F64);
    br_eval(br_base(model));
    br_scope *scope = br_no_grad_begin();
    br_tensor *ids = some_ids();
    br_tensor *mask = br_from_i64(BR_SHAPE(1, 7), (int64_t[]){ 0, 0, 1, 1, 1, 1, 1 });
    br_language_model lm = br_gpt_neox_language_model(model);
    br_tensor *padded = lm.next(model, ids, mask, NULL);
    br_tensor *alone = lm.next(model, br_narrow(ids, 1, 2, 5), NULL, NULL);
    cr_assert(padded, "%s", br_error_message());
    cr_assert(difference(padded, alone) < 1e-12);
    br_scope_end(scope);
    br_module_free(model);
}

/* Activation checkpoints and the loss in pieces change no gradient. */
Test(gpt_neox, loss)
{
    br_gpt_neox_config c = small();
    for (int i = 0; i < 2; i++) {
        c.use_parallel_residual = i == 0;
        c.tie_word_embeddings = i == 0;
        br_manual_seed(1);
        br_gpt_neox_lm *model = br_gpt_neox_lm_new(&c);
        br_module_to(br_base(model), BR_F64);
        br_scope *scope = br_scope_begin();
        br_tensor *ids = some_ids(), *weight = model->gpt_neox->embed_in->weight;
        cr_assert_eq(model->lm_head->weight == weight, c.tie_word_embeddings);
        br_tensor *loss = br_causal_lm_loss(br_gpt_neox_lm_forward(model, ids, NULL), ids);
        cr_assert(br_backward(loss), "%s", br_error_message());
        br_tensor *gradient = br_clone(br_grad_of(weight));
        br_zero_grad(br_base(model));
        for (int64_t k = 0; k < c.num_hidden_layers; k++)
            br_module_checkpoint(br_module_list_at(model->gpt_neox->layers, k), true);
        br_tensor *again = br_gpt_neox_lm_loss(model, ids, ids, NULL);
        cr_assert(br_backward(again), "%s", br_error_message());
        cr_assert(difference(loss, again) < 1e-12);
        cr_assert(difference(gradient, br_grad_of(weight)) < 1e-12);
        br_scope_end(scope);
        br_module_free(model);
    }
}

/* In training, hidden_dropout drops the embeddings and what is added to them; attention_dropout
 * changes the attention. */
Test(gpt_neox, dropout)
{
    br_gpt_neox_config c = small();
    br_scope *scope = br_no_grad_begin();
    for (int i = 0; i < 2; i++) {
        c.hidden_dropout = i == 0 ? 1 : 0;
        c.attention_dropout = i == 1 ? 0.5 : 0;
        br_gpt_neox *model = br_gpt_neox_new(&c);
        br_tensor *hidden[3], *other[3], *again[3];
        br_gpt_neox_forward(model, some_ids(), BR_OPTIONS(br_gpt_neox, .hidden_states = hidden));
        br_eval(br_base(model));
        br_gpt_neox_forward(model, some_ids(), BR_OPTIONS(br_gpt_neox, .hidden_states = other));
        br_gpt_neox_forward(model, some_ids(), BR_OPTIONS(br_gpt_neox, .hidden_states = again));
        check_ok();
        cr_assert(br_equal(other[1], again[1]));
        cr_assert(!br_equal(hidden[1], other[1]));
        cr_assert_eq(br_equal(hidden[0], other[0]), i == 1);
        if (i == 0)
            cr_assert_eq(br_item(br_max(br_abs(hidden[1]))), 0);
        br_module_free(model);
    }
    br_scope_end(scope);
}

/* New weights are those of transformers: normal matrices, no biases, and norms of 1. */
Test(gpt_neox, initial_weights)
{
    br_gpt_neox_config c = small();
    c.hidden_size = 64, c.initializer_range = 0.5;
    br_manual_seed(1);
    br_gpt_neox *model = br_gpt_neox_new(&c);
    const br_gpt_neox_layer *layer = br_module_list_at(model->layers, 1);
    br_scope *scope = br_no_grad_begin();
    br_tensor *w = layer->attention->query_key_value->weight;
    cr_assert_float_eq(br_item(br_mean(br_mul(w, w))), 0.25, 0.01);
    cr_assert_eq(br_item(br_max(br_abs(layer->mlp->dense_h_to_4h->bias))), 0);
    cr_assert_eq(br_item(br_min(layer->input_layernorm->weight)), 1);
    br_scope_end(scope);
    br_module_free(model);
}

static void check_refused(br_gpt_neox_config c, const char *message)
{
    br_gpt_neox *model = br_gpt_neox_new(&c);
    check_fails(!br_failed(), message);
    br_module_free(model);
}

Test(gpt_neox, invalid_configurations)
{
    br_gpt_neox_config c = small();
    c.num_attention_heads = 3;
    check_refused(c, "hidden_size");
    c = small();
    c.rotary_dim = 3;
    check_refused(c, "rotary_dim is 3, must be even and at least 2, and at most hidden_size / "
                     "num_attention_heads = 8");
    c.rotary_dim = 10;
    check_refused(c, "rotary_dim is 10");
    c = small();
    c.hidden_dropout = 2;
    check_refused(c, "hidden_dropout");
    c = small();
    c.hidden_act = "step";
    check_refused(c, "hidden_act");
    c = small();
    c.rope.theta = 0;
    check_refused(c, "theta is 0");
    br_gpt_neox *none = br_gpt_neox_new(NULL);
    check_fails(!br_failed(), "config");
    br_module_free(none);
}

Test(gpt_neox, bad_inputs)
{
    br_gpt_neox_config c = small();
    br_gpt_neox_lm *model = br_gpt_neox_lm_new(&c);
    br_scope *scope = br_no_grad_begin();
    br_tensor *flat = br_zeros(BR_SHAPE(4), BR_I64), *ids = some_ids(), *hidden[3];
    check_fails(
        br_gpt_neox_lm_forward(model, flat, BR_OPTIONS(br_gpt_neox, .hidden_states = hidden)),
        "input_ids [4] must have 2 dimensions");
    cr_assert(!hidden[0] && !hidden[2]);
    check_fails(br_gpt_neox_lm_forward(model, ids, BR_OPTIONS(br_gpt_neox, .position_ids = flat)),
                "position_ids [4] must be [1, 7] or [1, 7]");
    check_fails(
        br_gpt_neox_lm_forward(
            model, ids, BR_OPTIONS(br_gpt_neox, .attention_mask = br_ones(BR_SHAPE(1, 6), BR_I64))),
        "attention_mask [1, 6] must be [1, 7]");
    check_fails(br_gpt_neox_lm_loss(model, ids, flat, NULL), "labels [4] must have the shape");
    br_scope_end(scope);
    br_module_free(model);
}

/* A part of a head that is no even number is refused. */
Test(gpt_neox, bad_files)
{
    static const char *const rows[][2] = {
        { "\"rotary_pct\": 0.4", "(rotary_pct) is 0.4: it must be a part of a head of 8 numbers" },
        { "\"head_dim\": 4", "head_dim is 4, must be null" },
        { "\"hidden_dropout\": 1.5", "hidden_dropout" },
        { "\"rope_scaling\": {\"type\": \"linear\"}", "rope_scaling.factor is missing" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "{\"model_type\": \"gpt_neox\", \"hidden_size\": 16, \"num_attention_heads\": 2, "
                 "%s}",
                 rows[i][0]);
        files_write(files_path("config.json"), text, strlen(text));
        br_auto_config *config = br_auto_config_load(files_path("config.json"));
        cr_assert(config, "%s", br_error_message());
        check_fails(br_gpt_neox_config_from(config).vocab_size != 0, rows[i][1]);
        br_auto_config_free(config);
    }
}

/* Each value that changes no shape is compared before a model is saved. */
Test(gpt_neox, keys_that_differ)
{
    const br_gpt_neox_config a = small();
    br_gpt_neox_config b[] = { a, a, a, a, a, a };
    static const char *const keys[] = { "num_attention_heads",   "layer_norm_eps",
                                        "rope_parameters",       "rotary_pct",
                                        "use_parallel_residual", "hidden_act" };
    b[0].num_attention_heads = 4, b[1].layer_norm_eps = 1, b[2].rope.theta = 9;
    b[3].rotary_dim = 2, b[4].use_parallel_residual = false, b[5].hidden_act = "relu";
    const br_model_family *family = br_model_family_find("gpt_neox");
    br_gpt_neox *first = br_gpt_neox_new(&a);
    cr_assert_null(family->differing_key(br_base(first), br_base(first)));
    for (size_t i = 0; i < sizeof b / sizeof *b; i++) {
        br_gpt_neox *other = br_gpt_neox_new(&b[i]);
        const char *key = family->differing_key(br_base(first), br_base(other));
        cr_assert(key && strcmp(key, keys[i]) == 0, "%s: %s", keys[i], key ? key : "none");
        br_module_free(other);
    }
    br_module_free(first);
}

/* ---- GGUF files ------------------------------------------------------------------------------ */

/* Writes a model as the converter of llama.cpp does: all queries, all keys, all values. */
static void write_gguf(gguf_writer *w, const br_gpt_neox_config *c, br_module *model)
{
    static const char *const names[][2] = {
        { "query_key_value", "attn_qkv" },
        { "attention.dense", "attn_output" },
        { "dense_h_to_4h", "ffn_up" },
        { "dense_4h_to_h", "ffn_down" },
        { "input_layernorm", "attn_norm" },
        { "post_attention_layernorm", "ffn_norm" },
        { "embed_in", "token_embd" },
        { "final_layer_norm", "output_norm" },
        { "lm_head", "output" },
    };
    w_string(w, "general.architecture", "gptneox");
    w_u32(w, "gptneox.context_length", (uint32_t)c->max_position_embeddings);
    w_u32(w, "gptneox.embedding_length", (uint32_t)c->hidden_size);
    w_u32(w, "gptneox.block_count", (uint32_t)c->num_hidden_layers);
    w_u32(w, "gptneox.feed_forward_length", (uint32_t)c->intermediate_size);
    w_u32(w, "gptneox.attention.head_count", (uint32_t)c->num_attention_heads);
    w_f32(w, "gptneox.attention.layer_norm_epsilon", (float)c->layer_norm_eps);
    w_u32(w, "gptneox.rope.dimension_count", (uint32_t)c->rotary_dim);
    w_f32(w, "gptneox.rope.freq_base", (float)c->rope.theta);
    w_bool(w, "gptneox.use_parallel_residual", c->use_parallel_residual);
    br_named_list *list = br_state_dict(model);
    for (int64_t i = 0; i < list->count; i++) {
        const char *own = list->items[i].name;
        char name[100];
        int layer, k = 0;
        while (!strstr(own, names[k][0]))
            k++;
        if (sscanf(own, "gpt_neox.layers.%d.", &layer) == 1)
            snprintf(name, sizeof name, "blk.%d.%s%s", layer, names[k][1], strrchr(own, '.'));
        else
            snprintf(name, sizeof name, "%s%s", names[k][1], strrchr(own, '.'));
        br_tensor *t = list->items[i].tensor;
        if (k == 0)
            t = br_flatten(
                br_transpose(br_unflatten(t, 0, BR_SHAPE(c->num_attention_heads, 3, -1)), 0, 1), 0,
                2);
        w_tensor(w, name, br_contiguous(t));
    }
    br_named_list_free(list);
    w_end(w, files_path("model.gguf"));
}

Test(gpt_neox, gguf_files)
{
    br_scope *scope = br_no_grad_begin();
    br_gpt_neox_config c = small();
    c.layer_norm_eps = 0.0009765625, c.rope.theta = 500;
    for (int i = 0; i < 3; i++) {
        c.use_parallel_residual = i != 1;
        c.attention_bias = i != 2;
        c.rotary_dim = 2 * i + 2;
        br_manual_seed(1);
        br_gpt_neox_lm *model = br_gpt_neox_lm_new(&c);
        br_named_list *list = br_parameters(br_base(model));
        for (int64_t k = 0; k < list->count; k++)
            br_init_normal_(list->items[k].tensor, 0, 0.5);
        br_named_list_free(list);
        gguf_writer w = { 0 };
        write_gguf(&w, &c, br_base(model));
        br_gpt_neox_lm *loaded = br_auto_model_load(files_path("model.gguf"), NULL, NULL);
        cr_assert(loaded, "%s", br_error_message());
        br_eval(br_base(model));
        br_eval(br_base(loaded));
        cr_assert(br_equal(br_gpt_neox_lm_forward(model, some_ids(), NULL),
                           br_gpt_neox_lm_forward(loaded, some_ids(), NULL)));
        br_module_free(br_base(loaded));
        br_module_free(br_base(model));
    }
    br_scope_end(scope);
}

Test(gpt_neox, bad_gguf_files)
{
    br_scope *scope = br_no_grad_begin();
    br_gpt_neox_config c = small();
    br_gpt_neox_lm *model = br_gpt_neox_lm_new(&c);
    gguf_writer w = { .without = "gptneox.attention.layer_norm_epsilon" };
    write_gguf(&w, &c, br_base(model));
    check_fails(br_auto_model_load(files_path("model.gguf"), NULL, NULL), "layer_norm_epsilon");
    c.rotary_dim = 10;
    w = (gguf_writer){ 0 };
    write_gguf(&w, &c, br_base(model));
    check_fails(br_auto_model_load(files_path("model.gguf"), NULL, NULL),
                "rope.dimension_count is 10 and attention.value_length 8: the first must be 2 ..");
    br_module_free(br_base(model));
    br_scope_end(scope);
}
