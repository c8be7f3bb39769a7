/* The classes of Transformers Architecture: f64 gradients compared with finite differences in
 * evaluation and in training, results compared with PyTorch's and NumPy's, and bad input. */
#include "tests/memory.h"
#include "tests/models/architecture.h"
#include "tests/models/random_dataset_values.h"

TestSuite(architecture, .init = check_begin, .fini = check_end);

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Checks the gradients of both variants of the module that build() creates, in evaluation and in
 * training mode. In training, br_gradcheck() uses the same dropout for every evaluation. */
static void check_module(void *(*build)(const br_architecture_config *), br_function run,
                         int n_inputs)
{
    for (int form = 0; form < 4; form++) {
        br_manual_seed((uint64_t)form + 1);
        br_scope *scope = br_scope_begin();
        br_architecture_config c = tiny(form & 1);
        br_module *module = build(&c);
        br_train(module, form & 2);
        check_gradients(run, module, n_inputs, (br_tensor *[]){ hidden(T), hidden(S), hidden(S) });
        br_module_free(module);
        br_scope_end(scope);
    }
}

/* Arguments of attention besides query, key and value. */
typedef struct attention_context {
    br_tensor *mask;
    br_dropout *dropout;
} attention_context;

static br_tensor *run_attention(br_tensor *const *in, int n, void *context)
{
    (void)n;
    const attention_context *c = context;
    return br_architecture_scaled_dot_product_attention(in[0], in[1], in[2], c->mask, c->dropout);
}

static void check_attention(int ndim, const int64_t *q, const int64_t *k, br_tensor *mask)
{
    br_dropout *dropout = br_dropout_new(0.4);
    for (int training = 0; training < 2; training++) {
        attention_context context = { mask, training ? dropout : NULL };
        br_tensor *qkv[] = { br_randn(ndim, q, BR_F64), br_randn(ndim, k, BR_F64),
                             br_randn(ndim, k, BR_F64) };
        for (int i = 0; i < 3; i++)
            br_set_requires_grad(qkv[i], true);
        cr_assert(br_gradcheck(run_attention, &context, 3, qkv, TIGHTLY), "%s", br_error_message());
    }
    br_module_free(dropout);
}

Test(architecture, attention_gradient)
{
    br_manual_seed(1);
    br_scope *scope = br_scope_begin();
    const int64_t q[] = { B, HEADS, T, 3 }, k[] = { B, HEADS, S, 3 };
    const int64_t flat_q[] = { B, T, 3 }, flat_k[] = { B, S, 3 };
    br_tensor *mask = br_tril(br_ones(BR_SHAPE(B, T, S), BR_F64), 1);
    check_attention(4, q, k, NULL);
    check_attention(4, q, k, mask);
    check_attention(4, q, k, br_select(mask, 1, 0)); /* [B, S], broadcast over the heads */
    check_attention(4, q, k, br_unsqueeze(mask, 1)); /* [B, 1, T, S] */
    check_attention(3, flat_q, flat_k, NULL);
    check_attention(3, flat_q, flat_k, mask);
    br_scope_end(scope);
}

static void *build_mha(const br_architecture_config *c)
{
    return br_architecture_multi_head_attention_new(c);
}

static br_tensor *run_mha(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_architecture_multi_head_attention_forward(module, in[0], in[1], in[2], source_mask());
}

Test(architecture, multi_head_attention_gradient)
{
    check_module(build_mha, run_mha, 3);
}

static void *build_feed_forward(const br_architecture_config *c)
{
    return br_architecture_feed_forward_new(c);
}

static br_tensor *run_feed_forward(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_architecture_feed_forward_forward(module, in[0]);
}

Test(architecture, feed_forward_gradient)
{
    check_module(build_feed_forward, run_feed_forward, 1);
}

static void *build_encoder_block(const br_architecture_config *c)
{
    return br_architecture_encoder_block_new(c);
}

static br_tensor *run_encoder_block(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_architecture_encoder_block_forward(module, in[0], target_mask());
}

Test(architecture, encoder_block_gradient)
{
    check_module(build_encoder_block, run_encoder_block, 1);
}

static void *build_embeddings(const br_architecture_config *c)
{
    return br_architecture_embeddings_new(c);
}

static br_tensor *run_embeddings(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_architecture_embeddings_forward(module, source_ids());
}

Test(architecture, embeddings_gradient)
{
    check_module(build_embeddings, run_embeddings, 0);
}

static void *build_encoder(const br_architecture_config *c)
{
    return br_architecture_encoder_new(c);
}

Test(architecture, encoder_gradient)
{
    check_module(build_encoder, run_encoder, 0);
}

static void *build_classifier(const br_architecture_config *c)
{
    return br_architecture_classifier_new(c);
}

static br_tensor *run_classifier(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_architecture_classifier_forward(module, source_ids());
}

Test(architecture, classifier_gradient)
{
    check_module(build_classifier, run_classifier, 0);
}

static void *build_decoder_block(const br_architecture_config *c)
{
    return br_architecture_decoder_block_new(c);
}

Test(architecture, decoder_block_gradient)
{
    check_module(build_decoder_block, run_decoder_block, 2);
}

static void *build_decoder(const br_architecture_config *c)
{
    return br_architecture_decoder_new(c);
}

/* Runs the decoder on the second input; the first is unused. */
static br_tensor *run_decoder(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_architecture_decoder_forward(module, target_ids(), in[1], source_mask(),
                                           target_mask());
}

Test(architecture, decoder_gradient)
{
    check_module(build_decoder, run_decoder, 2);
}

static void *build_encoder_decoder(const br_architecture_config *c)
{
    return br_architecture_encoder_decoder_new(c);
}

Test(architecture, encoder_decoder_gradient)
{
    check_module(build_encoder_decoder, run_encoder_decoder, 0);
}

/* ---- Recorded numbers ------------------------------------------------------------------------ */

Test(architecture, golden_files_agree)
{
    check_golden("architecture.*.safetensors", 17);
}

/* Written by make_architecture.py FOLDER --intended --seed 4 --batch 3 --source-len 7 --target-len
 * 5 --hidden-size 12 --num-attention-heads 3 --intermediate-size 10 --vocab-size 11. */
Test(architecture, golden_files_of_the_intended_variant_agree)
{
    check_golden("intended/architecture.*.safetensors", 4);
}

Test(architecture, samples_are_numpy_s)
{
    for (size_t i = 0; i < sizeof random_dataset_values / sizeof *random_dataset_values; i++) {
        const int64_t length = random_dataset_values[i].sample_length;
        br_scope *scope = br_scope_begin();
        br_manual_seed(random_dataset_values[i].seed);
        br_dataset *dataset = br_architecture_random_dataset_new(
            random_dataset_values[i].vocabulary_size, 1, 3, length, false);
        for (int64_t k = 0; k < 3; k++) {
            br_tensor *fields[BR_ARCHITECTURE_FIELDS];
            cr_assert(br_dataset_get(dataset, k, fields), "%s", br_error_message());
            br_tensor *want = br_from_i64(BR_SHAPE(length), random_dataset_values[i].samples[k]);
            cr_assert(br_equal(fields[BR_ARCHITECTURE_SOURCE], want), "case %zu, sample %d", i,
                      (int)k);
        }
        br_dataset_free(dataset);
        br_scope_end(scope);
    }
}

/* NumPy generates no random number if only one is possible. */
Test(architecture, the_only_id_takes_no_random_number)
{
    br_scope *scope = br_scope_begin();
    br_tensor *fields[BR_ARCHITECTURE_FIELDS];
    br_manual_seed(3);
    uint32_t first = br_random_u32();
    br_manual_seed(3);
    br_dataset *dataset = br_architecture_random_dataset_new(2, 1, 1, 5, false);
    cr_assert(br_dataset_get(dataset, 0, fields), "%s", br_error_message());
    cr_assert(br_equal(fields[BR_ARCHITECTURE_SOURCE], br_ones(BR_SHAPE(5), BR_I64)));
    cr_assert_eq(br_random_u32(), first);
    br_dataset_free(dataset);
    br_scope_end(scope);
}

/* PyTorch's number of parameters for the model of cell 26: twice two embeddings and a norm; 6
 * encoder blocks of one attention and two norms; 6 decoder blocks of two attentions and three
 * norms; a feed-forward network in each block; fc. */
Test(architecture, the_notebook_s_size)
{
    br_architecture_config c = br_architecture_notebook_config();
    br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
    check_ok();
    cr_assert_eq(br_count_parameters(br_base(model), true),
                 2 * (100 + 512 + 2) * 512 + 18 * 4 * 512 * 513 + 30 * 2 * 512 +
                     12 * (2048 * 513 + 512 * 2049) + 100 * 513);
    br_module_free(model);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

static void check_refused(br_architecture_config c, const char *message)
{
    br_architecture_classifier *model = br_architecture_classifier_new(&c);
    cr_assert_not_null(model);
    check_fails(br_architecture_classifier_forward(model, NULL), message);
    br_module_free(model);
}

Test(architecture, bad_configurations_are_refused)
{
    static const struct {
        const char *name;
        size_t offset;
    } sizes[] = {
        { "hidden_size", offsetof(br_architecture_config, hidden_size) },
        { "intermediate_size", offsetof(br_architecture_config, intermediate_size) },
        { "num_hidden_layers", offsetof(br_architecture_config, num_hidden_layers) },
        { "vocab_size", offsetof(br_architecture_config, vocab_size) },
        { "max_position_embeddings", offsetof(br_architecture_config, max_position_embeddings) },
        { "num_attention_heads", offsetof(br_architecture_config, num_attention_heads) },
        { "num_labels", offsetof(br_architecture_config, num_labels) },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        br_architecture_config c = tiny(false);
        *(int64_t *)(void *)((char *)&c + sizes[i].offset) = i % 2 ? 0 : INT64_MIN;
        check_refused(c, sizes[i].name);
    }
    br_architecture_config c = tiny(false);
    c.num_attention_heads = 4;
    check_refused(c, "hidden_size 6 is not divisible by num_attention_heads 4");
    c = tiny(false);
    c.hidden_dropout_prob = NAN;
    check_refused(c, "p is nan");
    br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(NULL);
    check_fails(run_encoder_decoder(NULL, 0, model), "config is NULL");
    br_module_free(model);
}

Test(architecture, bad_datasets_are_refused)
{
    check_fails(br_architecture_random_dataset_new(1, 1, 1, 2, false), "vocabulary_size is 1");
    check_fails(br_architecture_random_dataset_new(2, 0, 1, 2, false), "batch_size is 0");
    check_fails(br_architecture_random_dataset_new(2, 1, -1, 2, false), "num_samples is -1");
    check_fails(br_architecture_random_dataset_new(2, 1, 1, 1, false), "sample_length is 1");
    check_fails(br_architecture_random_dataset_new(2, INT32_MAX, INT32_MAX, INT32_MAX, false),
                "size overflow");
}

Test(architecture, errors_name_the_module)
{
    br_architecture_config c = tiny(false);
    br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
    br_scope *scope = br_scope_begin();
    br_tensor *longer = br_ones(BR_SHAPE(1, c.max_position_embeddings + 1), BR_I64);
    br_tensor *unknown = br_full(BR_SHAPE(1, 3), 9, BR_I64), *ids = source_ids();
    check_fails(br_architecture_encoder_decoder_forward(model, longer, ids, NULL, NULL),
                "encoder.embeddings.position_embeddings");
    check_fails(br_architecture_encoder_decoder_forward(model, ids, unknown, NULL, NULL),
                "decoder.embeddings.token_embeddings");
    check_fails(br_architecture_encoder_decoder_forward(model, ids, NULL, NULL, NULL), "NULL");
    br_tensor *mask = br_ones(BR_SHAPE(B, T, T), BR_BOOL);
    check_fails(
        br_architecture_encoder_decoder_forward(model, ids, target_ids(), mask, NULL),
        "decoder.layers.0.attn_2: masked_fill: x [2, 2, 3, 4] and mask [2, 1, 3, 3] do not");
    check_fails(br_architecture_create_mask(2, -1), "-1");
    check_fails(br_architecture_make_std_mask(NULL, 0), "NULL");
    check_fails(br_architecture_source_mask(NULL), "NULL");
    br_scope_end(scope);
    br_module_free(model);
}

static bool train_a_step(void)
{
    br_architecture_config c = tiny(true);
    br_scope *scope = br_scope_begin();
    br_manual_seed(1);
    br_dataset *dataset = br_architecture_random_dataset_new(9, 2, 1, 5, true);
    br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
    br_optim *adam = br_adam(br_base(model), NULL);
    br_backward(first_loss(model, dataset));
    bool ok = br_optim_step(adam);
    br_optim_free(adam);
    br_module_free(model);
    br_dataset_free(dataset);
    br_scope_end(scope);
    return ok;
}

Test(architecture, memory_runs_out_everywhere)
{
    fail_in_turn(train_a_step, "a step");
}

Test(architecture, each_dropout_has_the_probability)
{
    br_architecture_config c = br_architecture_notebook_config();
    c.hidden_size = c.intermediate_size = 8;
    c.num_hidden_layers = 1;
    c.num_attention_heads = 2;
    c.num_labels = 2;
    c.hidden_dropout_prob = 0.3;
    c.embedding_dropout = true;
    br_architecture_encoder_decoder *both = br_architecture_encoder_decoder_new(&c);
    br_architecture_classifier *classifier = br_architecture_classifier_new(&c);
    check_ok();
    cr_assert_gt(check_dropouts(br_base(both), 0.3), 6);
    cr_assert_gt(check_dropouts(br_base(classifier), 0.3), 3);
    br_module_free(both);
    br_module_free(classifier);
}
