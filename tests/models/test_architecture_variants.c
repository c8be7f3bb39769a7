/* Transformers Architecture: masks, dataset, and the effects of the options, which must be those in
 * docs/quirks.md. */
#include "tests/models/architecture.h"

TestSuite(architecture_variants, .init = check_begin, .fini = check_end);

/* ---- Masks ----------------------------------------------------------------------------------- */

static br_tensor *attend(br_tensor *q, br_tensor *k, br_tensor *mask)
{
    return br_architecture_scaled_dot_product_attention(q, k, k, mask, NULL);
}

/* Masks of two, three and four dimensions broadcast as mask.unsqueeze(1) does in PyTorch. */
Test(architecture_variants, masks_broadcast_as_in_pytorch)
{
    br_manual_seed(2);
    br_scope *scope = br_scope_begin();
    br_tensor *q = br_randn(BR_SHAPE(B, HEADS, T, 3), BR_F32),
              *k = br_randn(BR_SHAPE(B, HEADS, S, 3), BR_F32);
    br_tensor *mask = br_from_f32(BR_SHAPE(2, S), (float[]){ 1, 0, 1, 1, 0, 1, 1, 0 });
    for (int64_t i = 0; i < 2; i++) {
        br_tensor *row = br_narrow(mask, 0, i, 1);
        br_tensor *by_head = br_narrow(attend(q, k, mask), 1, i, 1);
        cr_assert(br_equal(by_head, attend(br_narrow(q, 1, i, 1), br_narrow(k, 1, i, 1), row)));
        br_tensor *by_batch = br_narrow(attend(q, k, br_unsqueeze(mask, 1)), 0, i, 1);
        cr_assert(br_equal(by_batch, attend(br_narrow(q, 0, i, 1), br_narrow(k, 0, i, 1), row)));
        br_tensor *four = br_reshape(mask, BR_SHAPE(2, 1, 1, S));
        cr_assert(br_equal(br_select(attend(q, k, four), 0, i), attend(q, k, row)));
        br_tensor *flat_q = br_select(q, 1, 0), *flat_k = br_select(k, 1, 0);
        br_tensor *flat = attend(flat_q, flat_k, br_unsqueeze(mask, 1));
        br_tensor *want = attend(br_unsqueeze(flat_q, 1), br_unsqueeze(flat_k, 1), row);
        cr_assert(br_equal(br_select(flat, 0, i), br_squeeze(want, 1)));
    }
    check_ok();
    br_scope_end(scope);
}

Test(architecture_variants, a_query_without_keys_is_nan)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(1, 1, 2, 3), BR_F32);
    br_tensor *mask = br_from_bool(BR_SHAPE(1, 2, 2), (bool[]){ false, false, true, false });
    br_tensor *y = attend(x, x, mask);
    cr_assert(isnan(br_at(y, BR_SHAPE(0, 0, 0, 0))));
    cr_assert_eq(br_at(y, BR_SHAPE(0, 0, 1, 0)), 1);
    br_scope_end(scope);
}

Test(architecture_variants, create_mask_holds_one_matrix)
{
    br_scope *scope = br_scope_begin();
    br_tensor *mask = br_architecture_create_mask(5, T);
    cr_assert(br_size(mask, 0) == 5 && br_stride(mask, 0) == 0);
    for (int64_t q = 0; q < T; q++)
        for (int64_t k = 0; k < T; k++)
            cr_assert_eq(br_at(mask, BR_SHAPE(4, q, k)), k <= q);
    br_scope_end(scope);
}

Test(architecture_variants, std_mask_hides_padding_and_later_tokens)
{
    br_scope *scope = br_scope_begin();
    br_tensor *target = br_from_i64(BR_SHAPE(4), (int64_t[]){ 1, 0, 7, 2 });
    br_tensor *mask = br_architecture_make_std_mask(target, 7);
    br_tensor *source = br_architecture_source_mask(target);
    cr_assert(br_ndim(source) == 2 && br_size(source, 0) == 1);
    for (int64_t q = 0; q < 4; q++)
        for (int64_t k = 0; k < 4; k++)
            cr_assert_eq(br_at(mask, BR_SHAPE(q, k)), k <= q && k != 2);
    for (int64_t k = 0; k < 4; k++)
        cr_assert_eq(br_at(source, BR_SHAPE(0, k)), k != 1);
    br_scope_end(scope);
}

/* ---- RandomDataset --------------------------------------------------------------------------- */

static void check_fields(br_tensor *const *f, int64_t mask_length)
{
    br_tensor *source = f[BR_ARCHITECTURE_SOURCE], *target = f[BR_ARCHITECTURE_TARGET];
    cr_assert(br_equal(target, br_narrow(source, 0, 0, 5)));
    cr_assert(br_equal(f[BR_ARCHITECTURE_TARGET_Y], br_narrow(source, 0, 1, 5)));
    cr_assert(br_equal(f[BR_ARCHITECTURE_SOURCE_MASK], br_ones(BR_SHAPE(1, 6), BR_BOOL)));
    cr_assert(
        br_equal(f[BR_ARCHITECTURE_TARGET_MASK], br_architecture_subsequent_mask(mask_length)));
    cr_assert_eq(br_ndim(f[BR_ARCHITECTURE_TOKENS_COUNT]), 0);
    cr_assert_eq(br_item_i64(f[BR_ARCHITECTURE_TOKENS_COUNT]), 5);
}

Test(architecture_variants, random_dataset_has_the_notebook_s_fields)
{
    for (int intended = 0; intended < 2; intended++) {
        br_dataset *dataset = br_architecture_random_dataset_new(9, 2, 3, 6, intended);
        cr_assert_eq(br_dataset_size(dataset), 6);
        cr_assert_eq(br_dataset_num_fields(dataset), BR_ARCHITECTURE_FIELDS);
        br_scope *scope = br_scope_begin();
        br_tensor *fields[BR_ARCHITECTURE_FIELDS], *again[BR_ARCHITECTURE_FIELDS];
        cr_assert(br_dataset_get(dataset, 5, fields) && br_dataset_get(dataset, 5, again));
        cr_assert(br_equal(fields[BR_ARCHITECTURE_SOURCE], again[BR_ARCHITECTURE_SOURCE]));
        cr_assert_eq(br_at(fields[BR_ARCHITECTURE_SOURCE], BR_SHAPE(0)), 1);
        check_fields(fields, intended ? 5 : 6);
        br_scope_end(scope);
        br_dataset_free(dataset);
    }
}

Test(architecture_variants, the_dataset_s_mask_fits_only_as_intended)
{
    for (int intended = 0; intended < 2; intended++) {
        br_scope *scope = br_scope_begin();
        br_architecture_config c = tiny(false);
        br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
        br_dataset *dataset = br_architecture_random_dataset_new(9, 2, 1, 5, intended);
        if (intended)
            cr_assert_gt(br_item(first_loss(model, dataset)), 0);
        else
            check_fails(first_loss(model, dataset), "decoder.layers.0.attn_1");
        br_dataset_free(dataset);
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* ---- As written, and as intended ------------------------------------------------------------- */

/* Returns the encoder's state of the first id. Two ids `other` follow it, which may be masked. */
static br_tensor *first_state(br_architecture_encoder *encoder, int64_t other, bool masked)
{
    br_tensor *x = br_from_i64(BR_SHAPE(1, 3), (int64_t[]){ 5, other, other });
    br_tensor *mask = br_from_bool(BR_SHAPE(1, 1, 3), (bool[]){ true, false, false });
    x = br_architecture_encoder_forward(encoder, x, masked ? mask : NULL);
    return br_select(x, 1, 0);
}

Test(architecture_variants, the_encoder_mixes_positions_only_as_intended)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(3);
        br_scope *scope = br_scope_begin();
        br_architecture_config c = tiny(false);
        c.add_attention = intended;
        br_architecture_encoder *encoder = br_architecture_encoder_new(&c);
        br_eval(br_base(encoder));
        br_tensor *y = first_state(encoder, 2, false);
        check_ok();
        cr_assert_eq(br_equal(first_state(encoder, 7, false), y), !intended);
        cr_assert_eq(br_equal(first_state(encoder, 2, true), y), !intended);
        cr_assert(br_equal(first_state(encoder, 2, true), first_state(encoder, 7, true)));
        br_module_free(encoder);
        br_scope_end(scope);
    }
}

/* Each block has 10 tensors without a gradient: those of a norm and of the attention. */
Test(architecture_variants, the_encoder_s_attention_is_trained_only_as_intended)
{
    for (int intended = 0; intended < 2; intended++) {
        br_scope *scope = br_scope_begin();
        br_architecture_config c = tiny(false);
        c.add_attention = intended;
        br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
        br_tensor *output = br_sum(run_encoder_decoder(NULL, 0, model));
        br_unused_report report;
        cr_assert(br_backward(output));
        cr_assert(br_report_unused(br_base(model), output, &report), "%s", br_error_message());
        cr_assert_eq(report.without_grad, intended ? 0 : c.num_hidden_layers * 10);
        br_unused_report_clear(&report);
        br_module_free(model);
        br_scope_end(scope);
    }
}

Test(architecture_variants, pre_norm_norms_the_output)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(4);
        br_scope *scope = br_scope_begin();
        br_architecture_config c = tiny(false);
        c.pre_norm = intended;
        br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
        br_tensor *x = run_encoder(NULL, 0, model->encoder);
        br_tensor *y = br_architecture_decoder_forward(model->decoder, target_ids(), x, NULL, NULL);
        br_tensor *means = br_mean_dim(br_cat(BR_INPUTS(x, y), 1), BR_DIMS(-1), false);
        check_ok();
        cr_assert_eq(br_allclose(means, br_zeros_like(means), 0, 1e-5), intended);
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* With sublayers whose output is zero, only the residual connection is left. */
Test(architecture_variants, the_residual_carries_the_state_only_as_intended)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(5);
        br_scope *scope = br_no_grad_begin();
        br_architecture_config c = tiny(false);
        c.pre_norm = intended;
        br_architecture_decoder_block *block = br_architecture_decoder_block_new(&c);
        br_eval(br_base(block));
        br_linear *last[] = { block->attn_1->output_linear, block->attn_2->output_linear,
                              block->feed_forward->linear_2 };
        for (int i = 0; i < 3; i++) {
            br_zero_(last[i]->weight);
            br_zero_(last[i]->bias);
        }
        br_tensor *x = br_to(hidden(T), BR_F32), *encoded = br_to(hidden(S), BR_F32);
        br_tensor *y = br_architecture_decoder_block_forward(block, x, encoded, NULL, NULL);
        br_tensor *normed = br_layer_norm_forward(block->layer_norm_2, x);
        check_ok();
        cr_assert_eq(br_equal(y, x), intended);
        cr_assert_eq(br_allclose(y, normed, 0, 1e-4), !intended);
        br_module_free(block);
        br_scope_end(scope);
    }
}

/* The source mask applies to the encoder's own attention only as intended, and always to cross
 * attention. */
Test(architecture_variants, the_encoder_uses_the_source_mask_only_as_intended)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(6);
        br_scope *scope = br_scope_begin();
        br_architecture_config c = tiny(false);
        c.add_attention = true;
        c.mask_source = intended;
        br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
        br_recorder *recorder = br_recorder_begin();
        cr_assert_not_null(run_encoder_decoder(NULL, 0, model), "%s", br_error_message());
        br_tensor *inner = br_recorder_get(recorder, "encoder.layers.0.attention.attention");
        br_tensor *cross = br_recorder_get(recorder, "decoder.layers.0.attn_2.cross_attention");
        cr_assert_eq(br_at(inner, BR_SHAPE(0, 1, 2, 3)) == 0, intended);
        cr_assert_eq(br_at(cross, BR_SHAPE(0, 1, 2, 3)), 0);
        br_recorder_end(recorder);
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* Returns the logits of two ids, padded to `length`. */
static br_tensor *logits(br_architecture_classifier *model, int64_t length)
{
    br_tensor *x = br_from_i64(BR_SHAPE(1, 5), (int64_t[]){ 7, 2, 0, 0, 0 });
    return br_architecture_classifier_forward(model, br_narrow(x, 1, 0, length));
}

Test(architecture_variants, padding_is_attended_to_only_as_written)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(7);
        br_scope *scope = br_scope_begin();
        br_architecture_config c = tiny(false);
        c.add_attention = true;
        c.mask_padding = intended;
        br_architecture_classifier *model = br_architecture_classifier_new(&c);
        br_eval(br_base(model));
        br_tensor *bare = logits(model, 2), *padded = logits(model, 5);
        check_ok();
        cr_assert_eq(br_allclose(padded, bare, 0, 1e-5), intended);
        br_module_free(model);
        br_scope_end(scope);
    }
}

static int64_t zeros_in(br_tensor *t)
{
    return br_item_i64(br_sum(br_eq_scalar(t, 0)));
}

/* As written, an encoder block ends with a dropout, whose zeros remain in the output, and the
 * dropout probability of Embeddings is 0.5. */
Test(architecture_variants, dropout_as_written_and_as_intended)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(8);
        br_scope *scope = br_scope_begin();
        br_architecture_config c = tiny(false);
        c.dropout_once = c.embedding_dropout = intended;
        br_architecture_encoder *encoder = br_architecture_encoder_new(&c);
        cr_assert_eq(encoder->embeddings->dropout->p, intended ? 0.4 : 0.5);
        cr_assert_eq(zeros_in(run_encoder(NULL, 0, encoder)) == 0, intended);
        br_architecture_decoder_block *block = br_architecture_decoder_block_new(&c);
        br_module_to(br_base(block), BR_F64);
        br_tensor *y = run_decoder_block((br_tensor *[]){ hidden(T), hidden(S) }, 2, block);
        cr_assert_eq(zeros_in(y), 0, "%s", br_error_message());
        br_module_free(block);
        br_module_free(encoder);
        br_scope_end(scope);
    }
}

/* If the last norm returns 0, a decoder block returns only its feed-forward part. In training each
 * value of that is 0, or is divided by 0.6 once for each dropout. */
Test(architecture_variants, a_decoder_block_has_one_dropout_only_as_intended)
{
    for (int intended = 0; intended < 2; intended++) {
        br_manual_seed(9);
        br_scope *scope = br_no_grad_begin();
        br_architecture_config c = tiny(false);
        c.dropout_once = intended;
        br_architecture_decoder_block *block = br_architecture_decoder_block_new(&c);
        br_module_to(br_base(block), BR_F64);
        br_zero_(block->layer_norm_3->weight);
        br_tensor *in[] = { hidden(T), hidden(S) };
        br_tensor *y = run_decoder_block(in, 2, block);
        br_eval(br_base(block));
        br_tensor *kept = br_div_scalar(run_decoder_block(in, 2, block), intended ? 0.6 : 0.36);
        kept = br_where(br_eq_scalar(y, 0), y, kept);
        cr_assert(br_allclose(y, kept, 1e-14, 1e-14), "%s", br_error_message());
        cr_assert_lt(zeros_in(y), br_numel(y));
        br_module_free(block);
        br_scope_end(scope);
    }
}

Test(architecture_variants, eps_of_the_norms)
{
    for (int intended = 0; intended < 2; intended++) {
        double eps = intended ? 1e-12 : 1e-5;
        br_architecture_config c = tiny(intended);
        br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
        br_architecture_encoder_block *encoder = br_module_list_at(model->encoder->layers, 1);
        br_architecture_decoder_block *decoder = br_module_list_at(model->decoder->layers, 1);
        check_ok();
        cr_assert_eq(model->encoder->embeddings->layer_norm->eps, 1e-12);
        cr_assert_eq(encoder->layer_norm_1->eps, eps);
        cr_assert_eq(encoder->layer_norm_2->eps, eps);
        cr_assert_eq(decoder->layer_norm_1->eps, eps);
        cr_assert_eq(decoder->layer_norm_2->eps, eps);
        cr_assert_eq(decoder->layer_norm_3->eps, eps);
        br_module_free(model);
    }
}

Test(architecture_variants, dropout_only_in_training)
{
    br_architecture_config c = tiny(false);
    br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
    for (int training = 0; training < 2; training++) {
        br_scope *scope = br_scope_begin();
        br_train(br_base(model), training);
        br_tensor *first = run_encoder_decoder(NULL, 0, model);
        br_tensor *second = run_encoder_decoder(NULL, 0, model);
        check_ok();
        cr_assert_neq(br_equal(first, second), training);
        br_scope_end(scope);
    }
    br_module_free(model);
}

Test(architecture_variants, attention_weights_are_tapped)
{
    br_architecture_config c = tiny(false);
    br_architecture_encoder_decoder *model = br_architecture_encoder_decoder_new(&c);
    br_scope *scope = br_scope_begin();
    br_recorder *recorder = br_recorder_begin();
    run_encoder_decoder(NULL, 0, model);
    cr_assert_eq(br_recorder_count(recorder), 3 * c.num_hidden_layers * 3);
    br_tensor *dropped = br_recorder_get(recorder, "encoder.layers.1.attention.attention");
    cr_assert(dropped && br_size(dropped, 1) == HEADS);
    br_tensor *weights = br_recorder_get(recorder, "decoder.layers.1.attn_1.attention");
    br_tensor *sums = br_sum_dim(weights, BR_DIMS(-1), false);
    cr_assert(br_allclose(sums, br_ones(BR_SHAPE(B, HEADS, T), BR_F32), 0, 1e-6));
    cr_assert_eq(br_at(weights, BR_SHAPE(1, 1, 0, 2)), 0, "a later position has a weight");
    br_recorder_end(recorder);
    br_scope_end(scope);
    br_module_free(model);
}
