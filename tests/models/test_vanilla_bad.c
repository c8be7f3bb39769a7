/* Vanilla Transformer's classes: invalid arguments. */
#include "tests/models/vanilla.h"

TestSuite(vanilla_bad, .init = check_begin, .fini = check_end);

static void check_refused(br_vanilla_config c, const char *message)
{
    br_vanilla_transformer *model = br_vanilla_transformer_new(&c);
    cr_assert_not_null(model);
    check_fails(br_vanilla_transformer_forward(model, NULL, NULL), message);
    br_module_free(model);
}

Test(vanilla_bad, bad_configurations_are_refused)
{
    static const struct {
        const char *name;
        size_t offset;
    } sizes[] = {
        { "embed_dim", offsetof(br_vanilla_config, embed_dim) },
        { "n_heads", offsetof(br_vanilla_config, n_heads) },
        { "ff_hid_dim", offsetof(br_vanilla_config, ff_hid_dim) },
        { "n_layers", offsetof(br_vanilla_config, n_layers) },
        { "max_length", offsetof(br_vanilla_config, max_length) },
        { "src_vocab_size", offsetof(br_vanilla_config, src_vocab_size) },
        { "trg_vocab_size", offsetof(br_vanilla_config, trg_vocab_size) },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        br_vanilla_config c = tiny(false);
        *(int64_t *)(void *)((char *)&c + sizes[i].offset) = i % 2 ? 0 : INT64_MIN;
        check_refused(c, sizes[i].name);
    }
    br_vanilla_config c = tiny(false);
    c.n_heads = 3;
    check_refused(c, "embed_dim 4 is not divisible by n_heads 3");
    c = tiny(false);
    c.dropout = NAN;
    check_refused(c, "p is nan");
}

Test(vanilla_bad, each_class_requires_its_own_arguments)
{
    br_vanilla_config c = { .embed_dim = 6, .n_heads = 2 };
    br_vanilla_multi_head_attention *attention = br_vanilla_multi_head_attention_new(&c);
    check_ok();
    br_module_free(attention);
    br_vanilla_decoder_layer *layer = br_vanilla_decoder_layer_new(&c);
    check_fails(br_vanilla_decoder_layer_forward(layer, NULL, NULL, NULL, NULL), "ff_hid_dim is 0");
    br_module_free(layer);
    c = tiny(false);
    c.vocab_size = -1;
    br_vanilla_encoder *encoder = br_vanilla_encoder_new(&c);
    check_fails(br_vanilla_encoder_forward(encoder, NULL, NULL), "vocab_size is -1");
    br_module_free(encoder);
    c = tiny(false);
    c.n_classes = 0;
    br_vanilla_encoder_classifier *classifier = br_vanilla_encoder_classifier_new(&c);
    check_fails(br_vanilla_encoder_classifier_forward(classifier, NULL), "n_classes is 0");
    br_module_free(classifier);
    br_vanilla_decoder *decoder = br_vanilla_decoder_new(NULL);
    check_fails(br_vanilla_decoder_forward(decoder, NULL, NULL, NULL, NULL), "config is NULL");
    br_module_free(decoder);
}

Test(vanilla_bad, errors_name_the_module)
{
    br_vanilla_config c = tiny(false);
    br_vanilla_transformer *model = br_vanilla_transformer_new(&c);
    br_scope *scope = br_scope_begin();
    br_tensor *longer = br_ones(BR_SHAPE(1, c.max_length + 1), BR_I64);
    check_fails(br_vanilla_transformer_forward(model, longer, trg_ids()), "encoder.pos_emb");
    br_tensor *unknown = br_full(BR_SHAPE(B, T), 6, BR_I64);
    check_fails(br_vanilla_transformer_forward(model, src_ids(), unknown), "decoder.tok_emb");
    check_fails(br_vanilla_transformer_forward(model, src_ids(), NULL), "NULL");
    check_fails(br_vanilla_src_mask(NULL, 0), "NULL");
    check_fails(br_vanilla_trg_mask(br_ones(BR_SHAPE(3), BR_I64), 0), "shape [3]");
    br_module_free(model);
    br_scope_end(scope);
}

/* Keys with another batch size are rejected, even if their elements would fit after a reshape. */
Test(vanilla_bad, keys_of_another_batch_are_refused)
{
    br_vanilla_config c = tiny(false);
    br_scope *scope = br_scope_begin();
    br_vanilla_multi_head_attention *attention = br_vanilla_multi_head_attention_new(&c);
    br_tensor *q = br_ones(BR_SHAPE(2, 3, D), BR_F32), *k = br_ones(BR_SHAPE(4, 3, D), BR_F32);
    check_fails(br_vanilla_multi_head_attention_forward(attention, q, k, k, NULL), "matmul");
    br_tensor *mask = br_ones(BR_SHAPE(5, 3), BR_F32);
    check_fails(br_vanilla_multi_head_attention_forward(attention, q, q, q, mask), "masked_fill");
    br_module_free(attention);
    br_scope_end(scope);
}
