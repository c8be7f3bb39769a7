/* tests/models/test_model_checkpoints.c - activation checkpoints for the layer lists of every
 * model: loss and gradients are identical to the bit, with less memory. */
#include "tests/same_bits.h"
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(model_checkpoints, .init = check_begin, .fini = check_end);

enum { BATCH = 4, LENGTH = 9, VOCABULARY = 11, LAYERS = 4, MAX_PARAMETERS = 512 };

typedef struct model {
    const char *name;
    void *(*make)(void);
    br_tensor *(*forward)(void *self, br_tensor *ids);
} model;

static void *make_anatomy(void)
{
    br_anatomy_config c = { .vocab_size = VOCABULARY,
                            .hidden_size = 16,
                            .num_hidden_layers = LAYERS,
                            .num_attention_heads = 2,
                            .intermediate_size = 32,
                            .max_position_embeddings = LENGTH,
                            .num_labels = 3,
                            .hidden_dropout_prob = 0.2 };
    return br_anatomy_classifier_new(&c);
}

static br_tensor *forward_anatomy(void *self, br_tensor *ids)
{
    return br_anatomy_classifier_forward(self, ids);
}

static void *make_architecture(void)
{
    br_architecture_config c = { .vocab_size = VOCABULARY,
                                 .hidden_size = 16,
                                 .num_hidden_layers = LAYERS,
                                 .num_attention_heads = 2,
                                 .intermediate_size = 32,
                                 .max_position_embeddings = LENGTH,
                                 .hidden_dropout_prob = 0.2,
                                 .add_attention = true };
    return br_architecture_encoder_decoder_new(&c);
}

static br_tensor *forward_architecture(void *self, br_tensor *ids)
{
    return br_architecture_encoder_decoder_forward(self, ids, ids, br_architecture_source_mask(ids),
                                                   br_architecture_create_mask(BATCH, LENGTH));
}

static void *make_bert(void)
{
    br_bert_config c = br_bert_notebook_config();
    c.vocab_size = VOCABULARY;
    c.d_model = 16;
    c.n_layers = LAYERS;
    c.n_heads = 2;
    c.d_ff = 32;
    c.d_k = c.d_v = 8;
    c.maxlen = LENGTH;
    return br_bert_new(&c);
}

static br_tensor *forward_bert(void *self, br_tensor *ids)
{
    return br_bert_forward(self, ids, br_zeros(BR_SHAPE(BATCH, LENGTH), BR_I64),
                           br_ones(BR_SHAPE(BATCH, 2), BR_I64), NULL);
}

static void *make_gpt2(void)
{
    br_gpt2_config c = br_gpt2_config_default();
    c.vocab_size = VOCABULARY;
    c.n_positions = LENGTH;
    c.n_embd = 16;
    c.n_layer = LAYERS;
    c.n_head = 2;
    return br_gpt2_lm_new(&c);
}

static br_tensor *forward_gpt2(void *self, br_tensor *ids)
{
    return br_gpt2_lm_forward(self, ids, NULL);
}

/* Masks the padding. */
static br_tensor *forward_gpt2_padded(void *self, br_tensor *ids)
{
    br_gpt2_options o = *BR_OPTIONS(br_gpt2, .attention_mask = br_to(br_ne_scalar(ids, 0), BR_I64));
    return br_gpt2_lm_forward(self, ids, &o);
}

static void *make_hf_bert(void)
{
    br_hf_bert_config c = br_hf_bert_config_default();
    c.vocab_size = VOCABULARY;
    c.hidden_size = 16;
    c.num_hidden_layers = LAYERS;
    c.num_attention_heads = 2;
    c.intermediate_size = 32;
    c.max_position_embeddings = LENGTH;
    return br_hf_bert_new(&c);
}

static br_tensor *forward_hf_bert(void *self, br_tensor *ids)
{
    return br_hf_bert_forward(self, ids, NULL);
}

static void *make_t5(void)
{
    br_t5_config c = br_t5_config_default();
    c.vocab_size = VOCABULARY;
    c.d_model = 16;
    c.d_kv = 8;
    c.d_ff = 32;
    c.num_layers = c.num_decoder_layers = LAYERS;
    c.num_heads = 2;
    return br_t5_new(&c);
}

static br_tensor *forward_t5(void *self, br_tensor *ids)
{
    br_t5_options o = *BR_OPTIONS(br_t5, .attention_mask = br_to(br_ne_scalar(ids, 0), BR_I64));
    return br_t5_decode(self, ids, br_t5_encode(self, ids, o.attention_mask), &o);
}

static void *make_vanilla(void)
{
    br_vanilla_config c = { .embed_dim = 16,
                            .n_heads = 2,
                            .ff_hid_dim = 32,
                            .n_layers = LAYERS,
                            .max_length = LENGTH,
                            .src_vocab_size = VOCABULARY,
                            .trg_vocab_size = VOCABULARY,
                            .dropout = 0.2 };
    return br_vanilla_transformer_new(&c);
}

static br_tensor *forward_vanilla(void *self, br_tensor *ids)
{
    return br_vanilla_transformer_forward(self, ids, ids);
}

static void *make_transformer(void)
{
    br_transformer_options o =
        *BR_OPTIONS(br_transformer, .dim_feedforward = 32, .dropout = 0.2, .batch_first = true);
    return br_transformer_new(16, 2, LAYERS, LAYERS, &o);
}

static br_tensor *forward_transformer(void *self, br_tensor *ids)
{
    br_tensor *x = br_to(br_expand(br_unsqueeze(ids, 2), BR_SHAPE(-1, -1, 16)), BR_F32);
    br_transformer_masks masks = {
        .tgt_mask = br_transformer_square_subsequent_mask(LENGTH, BR_F32),
        .src_key_padding_mask = br_eq_scalar(ids, 0),
        .tgt_is_causal = true,
    };
    return br_transformer_forward(self, x, br_sin(x), &masks);
}

static const model models[] = {
    { "anatomy", make_anatomy, forward_anatomy },
    { "architecture", make_architecture, forward_architecture },
    { "bert", make_bert, forward_bert },
    { "gpt2", make_gpt2, forward_gpt2 },
    { "gpt2, padded", make_gpt2, forward_gpt2_padded },
    { "hf_bert", make_hf_bert, forward_hf_bert },
    { "t5", make_t5, forward_t5 },
    { "vanilla", make_vanilla, forward_vanilla },
    { "Transformer", make_transformer, forward_transformer },
};

/* ---- Training -------------------------------------------------------------------------------- */

/* Returns the loss of one step; stores the gradients and the peak memory. */
static double step(const model *m, void *self, br_tensor **grads, int64_t *n, int64_t *peak)
{
    br_manual_seed(9);
    br_scope *scope = br_scope_begin();
    br_tensor *ids = br_randint(1, VOCABULARY, BR_SHAPE(BATCH, LENGTH));
    br_zero_(br_narrow(br_select(ids, 0, 0), 0, LENGTH - 2, 2)); /* padding */
    br_reset_peak_bytes();
    br_tensor *y = m->forward(self, ids);
    br_tensor *loss = br_mean(br_mul(y, y));
    double value = br_item(loss);
    cr_assert(br_backward(loss), "%s: %s", m->name, br_error_message());
    *peak = br_peak_bytes();
    br_scope_end(scope);
    br_named_list *parameters = br_parameters(self);
    *n = parameters->count;
    cr_assert(*n <= MAX_PARAMETERS);
    for (int64_t i = 0; i < *n; i++) {
        br_tensor *grad = br_grad_of(parameters->items[i].tensor);
        grads[i] = grad ? br_clone(grad) : NULL;
    }
    br_named_list_free(parameters);
    br_zero_grad(self);
    return value;
}

static void switch_on(br_module *module, void *lists)
{
    if (strcmp(br_module_class(module), "ModuleList") != 0)
        return;
    ++*(int *)lists;
    br_module_checkpoint(module, true);
}

Test(model_checkpoints, results_are_bit_identical)
{
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        const model *m = &models[k];
        br_scope *scope = br_scope_begin();
        br_manual_seed(8);
        void *self = m->make();
        br_tensor *want[MAX_PARAMETERS], *got[MAX_PARAMETERS];
        int64_t n, plain, with;
        int lists = 0;
        double loss = step(m, self, want, &n, &plain);
        br_module_apply(self, switch_on, &lists);
        cr_assert(lists > 0, "%s has no list of layers", m->name);
        int64_t before = br_live_bytes();
        cr_assert_eq(step(m, self, got, &n, &with), loss, "%s", m->name);
        int64_t more = br_live_bytes() - before; /* copies of the gradients */
        for (int64_t i = 0; i < n; i++)
            cr_assert(same_bits(got[i], want[i]), "%s, parameter %d", m->name, (int)i);
        cr_assert(with - more < plain, "%s: %lld bytes, with checkpoints %lld", m->name,
                  (long long)plain, (long long)with - more);
        br_module_free(self);
        br_scope_end(scope);
    }
}
