/* Experts of decoders: the work that they do, the loss of their routers, and errors.
 * test_decoders.c compares their numbers with those of transformers. */
#include "tests/io/files.h"
#include "tests/models/gradients.h"
#include "tests/models/recorded.h"

TestSuite(llama_moe, .init = files_begin, .fini = files_end);

enum { WIDTH = 8, TOKENS = 7 };

static br_llama_config small(int64_t experts)
{
    br_llama_config c = br_llama_config_default();
    c.model_type = "qwen3_moe";
    c.vocab_size = 13, c.hidden_size = WIDTH, c.intermediate_size = 10, c.num_hidden_layers = 2;
    c.num_attention_heads = 2, c.num_key_value_heads = 1, c.head_dim = 4, c.qk_norm = true;
    c.num_experts = experts, c.num_experts_per_tok = 2, c.moe_intermediate_size = 6;
    c.layers[1] = BR_LLAMA_SPARSE;
    c.untied = true;
    return c;
}

static br_tensor *some_ids(void)
{
    return br_from_i64(BR_SHAPE(1, TOKENS), (int64_t[]){ 3, 1, 12, 0, 5, 5, 9 });
}

/* ---- Work ------------------------------------------------------------------------------------ */

static int64_t flops_of(const br_profile *profile)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < br_profile_count(profile); i++)
        sum += br_profile_event_at(profile, i)->flops;
    return sum;
}

/* Returns the FLOPs of a forward and a backward. */
static int64_t work(int64_t experts)
{
    br_llama_config c = small(experts);
    br_llama_lm *model = br_llama_lm_new(&c);
    br_scope *scope = br_scope_begin();
    br_profile *profile = br_profile_begin();
    cr_assert(br_backward(br_sum(br_llama_lm_forward(model, some_ids(), NULL))), "%s",
              br_error_message());
    br_profile_end(profile);
    int64_t flops = flops_of(profile);
    br_profile_free(profile);
    br_scope_end(scope);
    br_module_free(model);
    return flops;
}

/* More experts cost no more but for the router, which has a product forward and two backward. */
Test(llama_moe, work_follows_the_tokens)
{
    int64_t few = work(3), many = work(90);
    cr_assert_gt(few, 0);
    cr_assert_eq(many - few, 3 * 2 * TOKENS * WIDTH * (90 - 3));
}

/* ---- The loss of the routers ----------------------------------------------------------------- */

/* With equal probabilities the loss is the number of experts of a token. Without experts it is 0.
 */
Test(llama_moe, loss_of_equal_probabilities)
{
    br_scope *scope = br_no_grad_begin();
    for (int i = 0; i < 2; i++) {
        br_llama_config c = small(4);
        c.layers[1] = i == 0 ? BR_LLAMA_SPARSE : 0;
        br_llama *model = br_llama_new(&c);
        br_llama_layer *layer = br_module_list_at(model->layers, 1);
        if (i == 0)
            br_zero_(layer->moe->gate->weight);
        br_tensor *aux = NULL;
        cr_assert(br_llama_forward(model, some_ids(), BR_OPTIONS(br_llama, .aux_loss = &aux)));
        cr_assert_float_eq(br_item(aux), i == 0 ? 2 : 0, 1e-6);
        br_module_free(model);
    }
    br_scope_end(scope);
}

/* The loss counts only the tokens of a pass, and only those that are not padding: a text has the
 * same loss with padding on its left. After a failure there is none. */
Test(llama_moe, loss_of_padded_texts)
{
    br_llama_config c = small(4);
    br_manual_seed(1);
    br_llama *model = br_llama_new(&c);
    br_module_to(br_base(model), BR_F64);
    br_scope *scope = br_no_grad_begin();
    br_tensor *aux = NULL, *padded = NULL, *ids = some_ids(), *part = br_narrow(ids, 1, 3, 4);
    int64_t real[TOKENS] = { 0, 0, 0, 1, 1, 1, 1 };
    br_llama_forward(model, part, BR_OPTIONS(br_llama, .aux_loss = &aux));
    br_llama_options o = *BR_OPTIONS(br_llama, .aux_loss = &padded,
                                     .attention_mask = br_from_i64(BR_SHAPE(1, TOKENS), real));
    br_llama_forward(model, ids, &o);
    cr_assert(aux && padded, "%s", br_error_message());
    cr_assert_neq(br_item(aux), 2);
    cr_assert_float_eq(br_item(aux), br_item(padded), 1e-12);
    cr_assert_eq(br_dtype_of(aux), BR_F64);

    br_cache *cache = br_cache_new();
    o.cache = cache;
    o.attention_mask = NULL;
    br_llama_forward(model, br_narrow(ids, 1, 0, 3), &o);
    o.attention_mask = br_ones(BR_SHAPE(1, TOKENS), BR_I64);
    cr_assert(br_llama_forward(model, part, &o), "%s", br_error_message());
    cr_assert(padded && br_item(padded) > 0);
    br_cache_free(cache);
    o.cache = NULL;
    o.attention_mask = br_ones(BR_SHAPE(1, 2), BR_I64);
    check_fails(br_llama_forward(model, ids, &o), "attention_mask [1, 2] must be [1, 7]");
    cr_assert_null(padded);
    br_scope_end(scope);
    br_module_free(model);
}

/* Activation checkpoints change no gradient, with the loss of the routers and without. */
Test(llama_moe, checkpoints)
{
    for (int with = 0; with < 2; with++) {
        br_llama_config c = small(4);
        c.output_router_logits = with, c.router_aux_loss_coef = 0.5;
        br_manual_seed(1);
        br_llama_lm *model = br_llama_lm_new(&c);
        br_module_to(br_base(model), BR_F64);
        br_llama_layer *layer = br_module_list_at(model->model->layers, 1);
        br_scope *scope = br_scope_begin();
        br_tensor *ids = some_ids(), *gate = layer->moe->gate->weight;
        cr_assert(br_backward(br_llama_lm_loss(model, ids, ids, NULL)), "%s", br_error_message());
        br_tensor *gradient = br_clone(br_grad_of(gate));
        cr_assert_gt(br_item(br_max(br_abs(gradient))), 0);
        br_zero_grad(br_base(model));
        br_module_checkpoint(br_base(layer), true);
        cr_assert(br_backward(br_llama_lm_loss(model, ids, ids, NULL)), "%s", br_error_message());
        cr_assert(difference(gradient, br_grad_of(gate)) < 1e-12);
        br_scope_end(scope);
        br_module_free(model);
    }
}

/* A batch without tokens has no results, and no expert runs. */
Test(llama_moe, no_tokens)
{
    br_llama_config c = small(4);
    br_llama *model = br_llama_new(&c);
    br_scope *scope = br_no_grad_begin();
    br_tensor *x = br_llama_forward(model, br_zeros(BR_SHAPE(0, 3), BR_I64), NULL);
    cr_assert(x, "%s", br_error_message());
    cr_assert(br_size(x, 0) == 0 && br_size(x, 2) == WIDTH);
    br_scope_end(scope);
    br_module_free(model);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void check_refused(br_llama_config c, const char *message)
{
    br_llama *model = br_llama_new(&c);
    check_fails(!br_failed(), message);
    br_module_free(model);
}

Test(llama_moe, invalid_configurations)
{
    check_refused(small(0), "num_experts is 0, must be 1 .. 4096, because there are layers with");
    check_refused(small(5000), "num_experts is 5000");
    check_refused(small(1), "num_experts_per_tok is 2, must be 1 .. num_experts = 1");
    br_llama_config c = small(4);
    c.moe_intermediate_size = 0;
    check_refused(c, "moe_intermediate_size is 0");
}

Test(llama_moe, bad_files)
{
    static const char *const rows[][2] = {
        { "\"num_experts\": 5000", "num_local_experts is 5000, must be 0 .. 4096" },
        { "\"num_experts\": 4",
          "num_experts_per_tok is 8, must be at most num_local_experts, which is 4" },
        { "\"decoder_sparse_step\": 0", "decoder_sparse_step is 0, must be" },
        { "\"mlp_only_layers\": [\"x\"]", "mlp_only_layers[0] is the string \"x\"" },
        { "\"head_dim\": null", "head_dim is null" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[300];
        snprintf(text, sizeof text, "{\"model_type\": \"qwen3_moe\", %s}", rows[i][0]);
        files_write(files_path("config.json"), text, strlen(text));
        br_auto_config *config = br_auto_config_load(files_path("config.json"));
        cr_assert(config, "%s", br_error_message());
        check_fails(br_llama_config_from(config).vocab_size != 0, rows[i][1]);
        br_auto_config_free(config);
    }
}

/* All experts may be chosen. */
Test(llama_moe, file_that_chooses_all_experts)
{
    const char *text = "{\"model_type\": \"qwen3_moe\", \"num_experts\": 8}";
    files_write(files_path("config.json"), text, strlen(text));
    br_auto_config *config = br_auto_config_load(files_path("config.json"));
    cr_assert(config, "%s", br_error_message());
    br_llama_config c = br_llama_config_from(config);
    cr_assert(c.num_experts == 8 && c.num_experts_per_tok == 8, "%s", br_error_message());
    br_auto_config_free(config);
}

/* Each value that changes no shape is compared before a model is saved. */
Test(llama_moe, keys_that_differ)
{
    const br_llama_config a = small(4);
    br_llama_config b[] = { a, a, a, a };
    static const char *const keys[] = { "num_experts_per_tok", "norm_topk_prob",
                                        "output_router_logits", "router_aux_loss_coef" };
    b[0].num_experts_per_tok = 3, b[1].norm_topk_prob = true, b[2].output_router_logits = true;
    b[3].router_aux_loss_coef = 0.5;
    const br_model_family *family = br_model_family_find("qwen3_moe");
    br_llama *first = br_llama_new(&a);
    cr_assert_null(family->differing_key(br_base(first), br_base(first)));
    for (size_t i = 0; i < sizeof b / sizeof *b; i++) {
        br_llama *other = br_llama_new(&b[i]);
        const char *key = family->differing_key(br_base(first), br_base(other));
        cr_assert(key && strcmp(key, keys[i]) == 0, "%s: %s", keys[i], key ? key : "none");
        br_module_free(other);
    }
    br_module_free(first);
}
