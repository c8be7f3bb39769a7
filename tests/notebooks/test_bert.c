/* Notebook 003, BERT from scratch, cell by cell.
 *
 * The notebook seeds neither PyTorch nor Python, so its batches, weights and losses cannot be
 * reproduced. Its ids are those of one run, because the order of a Python set changes from run to
 * run. Here the words are given in the printed order. The tests in tests/models/ compare batches
 * with Python's and results with PyTorch's. */
#include "tests/notebooks/bert.h"

NOTEBOOK("003_3897ae39561afa4d.txt", "BERT from scratch", 48);
TestSuite(notebook_bert, .init = check_begin, .fini = check_end);

/* ---- Text and vocabulary --------------------------------------------------------------------- */

/* In [1]: imports re, math, torch, NumPy, and everything from `random`. */
CELL_WITHOUT_TEST(1, CELL_IMPORTS);

/* In [5]: reads the file, 533 bytes of UTF-8. */
Test(notebook_bert, cell_2_text)
{
    cr_assert_eq(strlen(read_text()), 533);
}

/* In [6]: the text is a `str`. */
CELL_WITHOUT_TEST(3, CELL_TYPE);

/* In [7]: prints the text. The quotes and each "\n'" are in the file. */
Test(notebook_bert, cell_4_print_text)
{
    cr_assert_str_eq(read_text(), text_printed);
}

/* In [8]: `sentences`: the lines of the text in lower case (also Ó), without the characters . , ! ?
 * -. */
Test(notebook_bert, cell_5_sentences)
{
    static const char text[] = "'Ótimo. Meu TIME-time?\nOlá!";
    br_bert_corpus *corpus = br_bert_corpus_new(text, strlen(text));
    cr_assert_eq(corpus->n_sentences, 2);
    cr_assert_str_eq(corpus->sentences[0], "'ótimo meu timetime");
    cr_assert_str_eq(corpus->sentences[1], "olá");
    br_bert_corpus_free(corpus);
}

/* In [9]: the eleven sentences. */
Test(notebook_bert, cell_6_print_sentences)
{
    br_bert_corpus *corpus = notebook_corpus();
    cr_assert_eq(corpus->n_sentences, N_SENTENCES);
    for (int i = 0; i < N_SENTENCES; i++)
        cr_assert_str_eq(corpus->sentences[i], sentences[i]);
    br_bert_corpus_free(corpus);
}

/* In [10]: `word_list`: each word once. In the notebook, the order is that of a Python set. Brasa
 * sorts the words by their bytes, or takes a list of words in your order. */
Test(notebook_bert, cell_7_word_list)
{
    const char *text = read_text();
    br_bert_corpus *corpus = br_bert_corpus_new(text, strlen(text));
    cr_assert_eq(br_vocab_size(corpus->vocab), FIRST_WORD + N_WORDS);
    for (int64_t i = FIRST_WORD + 1; i < FIRST_WORD + N_WORDS; i++)
        cr_assert_lt(strcmp(br_vocab_word(corpus->vocab, i - 1), br_vocab_word(corpus->vocab, i)),
                     0);
    for (int i = 0; i < N_WORDS; i++)
        cr_assert_geq(br_vocab_find(corpus->vocab, word_list[i], strlen(word_list[i])), FIRST_WORD,
                      "%s", word_list[i]);
    br_bert_corpus_free(corpus);
}

/* In [11]: the 66 words in the order of the notebook's run. */
Test(notebook_bert, cell_8_print_word_list)
{
    br_bert_corpus *corpus = notebook_corpus();
    for (int i = 0; i < N_WORDS; i++)
        cr_assert_str_eq(br_vocab_word(corpus->vocab, FIRST_WORD + i), word_list[i]);
    br_bert_corpus_free(corpus);
}

/* In [12]: `word_dict` begins with the special tokens. For a text without words, it has only
 * these. */
Test(notebook_bert, cell_9_word_dict)
{
    br_bert_corpus *corpus = br_bert_corpus_new("", 0);
    cr_assert_eq(br_vocab_size(corpus->vocab), FIRST_WORD);
    br_bert_corpus_free(corpus);
}

/* In [13]: {'[PAD]': 0, '[CLS]': 1, '[SEP]': 2, '[MASK]': 3}. */
Test(notebook_bert, cell_10_print_word_dict)
{
    br_bert_corpus *corpus = br_bert_corpus_new("", 0);
    cr_assert_eq(br_vocab_find(corpus->vocab, "[PAD]", 5), 0);
    cr_assert_eq(br_vocab_find(corpus->vocab, "[CLS]", 5), 1);
    cr_assert_eq(br_vocab_find(corpus->vocab, "[SEP]", 5), 2);
    cr_assert_eq(br_vocab_find(corpus->vocab, "[MASK]", 6), 3);
    br_bert_corpus_free(corpus);
}

/* In [14]: word i of the list has the id i + 4. */
Test(notebook_bert, cell_11_word_ids)
{
    br_bert_corpus *corpus = notebook_corpus();
    for (int i = 0; i < N_WORDS; i++)
        cr_assert_eq(br_vocab_find(corpus->vocab, word_list[i], strlen(word_list[i])), i + 4);
    br_bert_corpus_free(corpus);
}

/* In [15]: prints the ids, among them 'time': 4, "'ok": 7, 'ana': 63 and "ana\\n'": 20. */
Test(notebook_bert, cell_12_print_word_ids)
{
    static const struct {
        const char *word;
        int64_t id;
    } printed[] = { { "time", 4 },
                    { "'ok", 7 },
                    { "'ótimo", 12 },
                    { "ana\\n'", 20 },
                    { "competição\\n'", 34 },
                    { "às", 37 },
                    { "ana", 63 },
                    { "celebrar\\n'", 69 } };
    br_bert_corpus *corpus = notebook_corpus();
    for (size_t i = 0; i < sizeof printed / sizeof *printed; i++)
        cr_assert_eq(br_vocab_find(corpus->vocab, printed[i].word, strlen(printed[i].word)),
                     printed[i].id, "%s", printed[i].word);
    br_bert_corpus_free(corpus);
}

/* In [16]: `number_dict` maps each id to its word. */
Test(notebook_bert, cell_13_number_dict)
{
    br_bert_corpus *corpus = notebook_corpus();
    for (int64_t i = 0; i < VOCAB_SIZE; i++) {
        const char *word = br_vocab_word(corpus->vocab, i);
        cr_assert_eq(br_vocab_find(corpus->vocab, word, strlen(word)), i);
    }
    br_bert_corpus_free(corpus);
}

/* In [17]: prints the ids 0 .. 69 and their words. */
Test(notebook_bert, cell_14_print_number_dict)
{
    static const char *const special[] = { "[PAD]", "[CLS]", "[SEP]", "[MASK]" };
    br_bert_corpus *corpus = notebook_corpus();
    for (int64_t i = 0; i < VOCAB_SIZE; i++)
        cr_assert_str_eq(br_vocab_word(corpus->vocab, i),
                         i < FIRST_WORD ? special[i] : word_list[i - FIRST_WORD]);
    br_bert_corpus_free(corpus);
}

/* In [18]: `vocab_size`, 70. */
Test(notebook_bert, cell_15_vocab_size)
{
    br_bert_corpus *corpus = notebook_corpus();
    cr_assert_eq(br_vocab_size(corpus->vocab), 70);
    cr_assert_eq(br_bert_notebook_config().vocab_size, 70);
    br_bert_corpus_free(corpus);
}

/* In [19]: `token_list`, empty. */
CELL_WITHOUT_TEST(16, CELL_EMPTY);

/* In [20]: `token_list`: the id of each word of each sentence. */
Test(notebook_bert, cell_17_tokens)
{
    br_bert_corpus *corpus = notebook_corpus();
    for (int64_t i = 0; i < N_SENTENCES; i++) {
        char sentence[256] = "";
        for (int64_t k = 0; k < corpus->lengths[i]; k++) {
            strcat(sentence, k ? " " : "");
            strcat(sentence, br_vocab_word(corpus->vocab, corpus->tokens[i][k]));
        }
        cr_assert_str_eq(sentence, sentences[i]);
    }
    br_bert_corpus_free(corpus);
}

/* In [21]: prints the eleven lists of ids. */
Test(notebook_bert, cell_18_print_token_list)
{
    br_bert_corpus *corpus = notebook_corpus();
    for (int i = 0; i < N_SENTENCES; i++) {
        cr_assert_eq(corpus->lengths[i], length_of(token_list[i]));
        cr_assert_arr_eq(corpus->tokens[i], token_list[i],
                         (size_t)corpus->lengths[i] * sizeof(int64_t), "sentence %d", i);
    }
    br_bert_corpus_free(corpus);
}

/* In [22]: `text[0:29]`, "'Olá, como vai? Eu sou a Ana.": 29 characters in 30 bytes, because á has
 * two. */
Test(notebook_bert, cell_19_first_sentence)
{
    cr_assert_eq(strncmp(read_text(), "'Olá, como vai? Eu sou a Ana.", 30), 0);
}

/* In [23]: `token_list[0]`, [43, 68, 6, 28, 27, 67, 20]. */
Test(notebook_bert, cell_20_first_tokens)
{
    br_bert_corpus *corpus = notebook_corpus();
    cr_assert_eq(corpus->lengths[0], 7);
    cr_assert_arr_eq(corpus->tokens[0], ((int64_t[]){ 43, 68, 6, 28, 27, 67, 20 }),
                     7 * sizeof(int64_t));
    br_bert_corpus_free(corpus);
}

/* In [24]: the sizes of the model. The dropout, 0.2, is not used. */
Test(notebook_bert, cell_21_hyperparameters)
{
    br_bert_config config = br_bert_notebook_config();
    cr_assert_eq(config.n_segments, 2);
    cr_assert_eq(config.maxlen, 100);
    cr_assert_eq(config.max_pred, 7);
    cr_assert_eq(config.n_layers, 6);
    cr_assert_eq(config.n_heads, 12);
    cr_assert_eq(config.d_model, 768);
    cr_assert_eq(config.d_ff, 4 * 768);
    cr_assert_eq(config.d_k, 64);
    cr_assert_eq(config.d_v, 64);
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* In [25]: `make_batch`: padded pairs of sentences with 15 % of their words masked, and the masked
 * words. */
Test(notebook_bert, cell_22_make_batch)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        br_scope *scope = br_scope_begin();
        br_bert_batch batch = make_batch(seed);
        for (int64_t row = 0; row < BATCH_SIZE; row++)
            check_pair(&batch, row);
        br_scope_end(scope);
    }
}

/* In [26]: `get_attn_pad_masked`: a mask that is true where the key is padding, for all queries. */
Test(notebook_bert, cell_23_get_attn_pad_masked)
{
    br_scope *scope = br_scope_begin();
    br_tensor *seq_q = br_from_i64(BR_SHAPE(2, 2), (int64_t[]){ 1, 0, 5, 5 });
    br_tensor *seq_k = br_from_i64(BR_SHAPE(2, 3), (int64_t[]){ 1, 2, 0, 0, 4, 0 });
    bool want[] = { 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 0, 1 };
    cr_assert(br_equal(br_bert_pad_mask(seq_q, seq_k), br_from_bool(BR_SHAPE(2, 2, 3), want)));
    br_scope_end(scope);
}

/* In [27]: `batch`: in half of the pairs, the second sentence follows the first one. */
Test(notebook_bert, cell_24_batch)
{
    br_scope *scope = br_scope_begin();
    for (uint64_t seed = 0; seed < 5; seed++)
        cr_assert_eq(br_item_i64(br_sum(make_batch(seed).is_next)), BATCH_SIZE / 2);
    br_scope_end(scope);
}

/* In [28]: the parts of the batch as tensors of integers. */
Test(notebook_bert, cell_25_tensors)
{
    br_scope *scope = br_scope_begin();
    br_bert_batch batch = make_batch(1);
    check_shape(batch.input_ids, 6, 100);
    check_shape(batch.segment_ids, 6, 100);
    check_shape(batch.masked_tokens, 6, 7);
    check_shape(batch.masked_pos, 6, 7);
    check_shape(batch.is_next, 6);
    cr_assert_eq(br_dtype_of(batch.input_ids), BR_I64);
    cr_assert_eq(br_dtype_of(batch.is_next), BR_I64);
    br_scope_end(scope);
}

/* Returns the input_ids[0] that cell 26 prints, the notebook's pair of sentences 7 and 4. */
static br_tensor *printed_ids(void)
{
    return br_from_i64(BR_SHAPE(1, MAXLEN),
                       (int64_t[MAXLEN]){ 1, 3, 44, 25, 57, 18, 20, 2, 55, 3, 32, 2 });
}

/* In [29]: prints the mask of the first row, 12 times False and 88 times True, and the ids of that
 * row. */
Test(notebook_bert, cell_26_padding_mask)
{
    static const char ten_true[] = "         True,  True,  True,  True,  True,  True,  True,  "
                                   "True,  True,  True";
    char want[1024] = "tensor([False, False, False, False, False, False, False, False, False, "
                      "False,\n"
                      "        False, False,  True,  True,  True,  True,  True,  True,  True,  "
                      "True";
    for (int i = 0; i < 8; i++)
        strcat(strcat(want, ",\n"), ten_true);
    strcat(want, "])");
    br_scope *scope = br_scope_begin();
    br_tensor *ids = printed_ids();
    char *mask = br_to_string(br_select(br_select(br_bert_pad_mask(ids, ids), 0, 0), 0, 0));
    cr_assert_str_eq(mask, want);
    char *row = br_to_string(br_select(ids, 0, 0));
    static const char begin[] = "tensor([ 1,  3, 44, 25, 57, 18, 20,  2, 55,  3, 32,  2,  0,  0,  "
                                "0,  0,  0,  0,\n         0,  0,  0,";
    cr_assert_eq(strncmp(row, begin, strlen(begin)), 0, "%s", row);
    br_free(mask);
    br_free(row);
    br_scope_end(scope);
}

/* ---- Classes --------------------------------------------------------------------------------- */

/* In [30]: `gelu`, x / 2 (1 + erf(x / sqrt 2)). */
Test(notebook_bert, cell_27_gelu)
{
    br_scope *scope = br_scope_begin();
    for (double x = -4; x <= 4; x += 0.5)
        check_close(br_item(br_bert_gelu(br_full(BR_SHAPE(1), x, BR_F64))),
                    x * 0.5 * (1 + erf(x / sqrt(2))), 1e-15);
    br_scope_end(scope);
}

/* In [ ]: `Embedding`: the layer norm of token plus position plus segment embedding. */
Test(notebook_bert, cell_28_embedding)
{
    br_scope *scope = br_scope_begin();
    br_bert_config config = notebook_config();
    br_bert_embedding *emb = br_bert_embedding_new(&config);
    check_shape(emb->tok_embed->weight, 70, 768);
    check_shape(emb->pos_embed->weight, 100, 768);
    check_shape(emb->seg_embed->weight, 2, 768);
    br_tensor *x = br_from_i64(BR_SHAPE(1, 2), (int64_t[]){ 69, 3 }),
              *seg = br_from_i64(BR_SHAPE(1, 2), (int64_t[]){ 0, 1 });
    br_tensor *second = br_add(
        br_add(br_select(emb->tok_embed->weight, 0, 3), br_select(emb->pos_embed->weight, 0, 1)),
        br_select(emb->seg_embed->weight, 0, 1));
    br_tensor *got = br_select(br_select(br_bert_embedding_forward(emb, x, seg), 0, 0), 0, 1);
    cr_assert(br_allclose(got, br_layer_norm_forward(emb->norm, second), 0, 1e-6));
    br_module_free(emb);
    br_scope_end(scope);
}

/* In [ ]: `ScaledDotProductAttention`: the rows of the weights sum to 1, and masked weights are 0.
 * If every key of a row is masked, its weights are equal, because masked scores are -1e9 and not
 * -inf. */
Test(notebook_bert, cell_29_scaled_dot_product_attention)
{
    br_scope *scope = br_scope_begin();
    br_tensor *q = br_randn(BR_SHAPE(1, 2, 2, 4), BR_F32),
              *k = br_randn(BR_SHAPE(1, 2, 3, 4), BR_F32),
              *v = br_randn(BR_SHAPE(1, 2, 3, 5), BR_F32), *attn;
    br_tensor *mask = br_from_bool(BR_SHAPE(1, 1, 2, 3), (bool[]){ 0, 0, 1, 1, 1, 1 });
    br_tensor *context = br_bert_attention(q, k, v, mask, &attn);
    check_shape(context, 1, 2, 2, 5);
    check_shape(attn, 1, 2, 2, 3);
    check_rows_sum_to_one(attn);
    for (int h = 0; h < 2; h++) {
        cr_assert_eq(br_at(attn, BR_SHAPE(0, h, 0, 2)), 0);
        check_close(br_at(attn, BR_SHAPE(0, h, 1, 0)), 1.0 / 3, 1e-7);
    }
    cr_assert(br_equal(context, br_matmul(attn, v)));
    br_scope_end(scope);
}

/* In [ ]: `MultiHeadAttention`: its parameters are three projections. Each forward pass creates a
 * new output projection and norm, so two calls have different results. */
Test(notebook_bert, cell_30_multi_head_attention)
{
    br_scope *scope = br_no_grad_begin();
    br_bert_config config = small_config(true);
    br_bert_mha *attention = br_bert_mha_new(&config);
    cr_assert_eq(br_count_parameters(br_base(attention), false), 3 * (48 * 48 + 48));
    br_tensor *x = br_randn(BR_SHAPE(2, 3, 48), BR_F32);
    br_tensor *mask =
        br_bert_pad_mask(br_ones(BR_SHAPE(2, 3), BR_I64), br_ones(BR_SHAPE(2, 3), BR_I64));
    br_tensor *attn, *again;
    br_tensor *output = br_bert_mha_forward(attention, x, x, x, mask, &attn);
    check_shape(output, 2, 3, 48);
    check_shape(attn, 2, 4, 3, 3);
    cr_assert_not(br_equal(br_bert_mha_forward(attention, x, x, x, mask, &again), output));
    cr_assert(br_equal(again, attn));
    br_module_free(attention);
    br_scope_end(scope);
}

/* In [ ]: `emb`, an Embedding with 133632 parameters. */
Test(notebook_bert, cell_31_emb)
{
    br_bert_config config = notebook_config();
    br_bert_embedding *emb = br_bert_embedding_new(&config);
    cr_assert_eq(br_count_parameters(br_base(emb), true), (70 + 100 + 2) * 768 + 2 * 768);
    br_module_free(emb);
}

/* Returns emb(input_ids, segment_ids) of a batch. */
static br_tensor *embeds_of(const br_bert_batch *batch)
{
    br_bert_config config = notebook_config();
    br_bert_embedding *emb = br_bert_embedding_new(&config);
    br_tensor *embeds = br_bert_embedding_forward(emb, batch->input_ids, batch->segment_ids);
    br_module_free(emb);
    return embeds;
}

/* In [ ]: `embeds`, [6, 100, 768]; each vector has mean 0 and variance 1. */
Test(notebook_bert, cell_32_embeds)
{
    br_scope *scope = br_no_grad_begin();
    br_bert_batch batch = make_batch(0);
    br_tensor *embeds = embeds_of(&batch);
    check_shape(embeds, 6, 100, 768);
    br_tensor *mean = br_mean_dim(embeds, BR_DIMS(-1), false);
    br_tensor *variance = br_mean_dim(br_mul(embeds, embeds), BR_DIMS(-1), false);
    cr_assert(br_allclose(mean, br_zeros_like(mean), 0, 1e-5));
    cr_assert(br_allclose(variance, br_ones_like(mean), 0, 1e-4));
    br_scope_end(scope);
}

/* In [ ]: `attenM`, the padding mask of the batch, [6, 100, 100]. */
Test(notebook_bert, cell_33_atten_m)
{
    br_scope *scope = br_scope_begin();
    br_tensor *input_ids = make_batch(0).input_ids;
    br_tensor *mask = br_bert_pad_mask(input_ids, input_ids);
    check_shape(mask, 6, 100, 100);
    for (int64_t q = 0; q < MAXLEN; q += 33)
        cr_assert(br_equal(br_select(mask, 1, q), br_eq_scalar(input_ids, 0)));
    br_scope_end(scope);
}

/* Returns MultiHeadAttention()(embeds, embeds, embeds, attenM) with the notebook's sizes; stores A
 * in *attn. */
static br_tensor *attend(const br_bert_batch *batch, br_tensor **attn)
{
    br_bert_config config = notebook_config();
    br_bert_mha *attention = br_bert_mha_new(&config);
    br_tensor *embeds = embeds_of(batch);
    br_tensor *mask = br_bert_pad_mask(batch->input_ids, batch->input_ids);
    br_tensor *output = br_bert_mha_forward(attention, embeds, embeds, embeds, mask, attn);
    br_module_free(attention);
    return output;
}

/* In [ ]: `MHA`, attention with 12 heads, applied to the batch. */
Test(notebook_bert, cell_34_mha)
{
    br_scope *scope = br_no_grad_begin();
    br_bert_batch batch = make_batch(0);
    cr_assert_not_null(attend(&batch, NULL), "%s", br_error_message());
    br_scope_end(scope);
}

/* In [ ]: `output` [6, 100, 768] and `A` [6, 12, 100, 100]. */
Test(notebook_bert, cell_35_output_and_a)
{
    br_scope *scope = br_no_grad_begin();
    br_bert_batch batch = make_batch(0);
    br_tensor *A;
    check_shape(attend(&batch, &A), 6, 100, 768);
    check_shape(A, 6, 12, 100, 100);
    br_scope_end(scope);
}

/* In [ ]: `A[0][0]`: the rows sum to 1; weights of padding are exactly 0, all others are positive.
 */
Test(notebook_bert, cell_36_a_0_0)
{
    br_scope *scope = br_no_grad_begin();
    br_bert_batch batch = make_batch(0);
    br_tensor *A;
    attend(&batch, &A);
    br_tensor *weights = br_select(br_select(A, 0, 0), 0, 0);
    check_shape(weights, 100, 100);
    check_rows_sum_to_one(weights);
    br_tensor *padding = br_expand(br_eq_scalar(row_of(batch.input_ids, 0), 0), BR_SHAPE(100, 100));
    cr_assert(br_equal(br_eq_scalar(weights, 0), padding));
    br_scope_end(scope);
}

/* In [ ]: `PoswiseFeedForward`, fc2(gelu(fc1(x))). */
Test(notebook_bert, cell_37_poswise_feed_forward)
{
    br_scope *scope = br_no_grad_begin();
    br_bert_config config = notebook_config();
    br_bert_ffn *ffn = br_bert_ffn_new(&config);
    check_shape(ffn->fc1->weight, 3072, 768);
    check_shape(ffn->fc2->weight, 768, 3072);
    br_tensor *x = br_randn(BR_SHAPE(1, 2, 768), BR_F32);
    br_tensor *hidden = br_bert_gelu(br_linear_forward(ffn->fc1, x));
    cr_assert(br_equal(br_bert_ffn_forward(ffn, x), br_linear_forward(ffn->fc2, hidden)));
    br_module_free(ffn);
    br_scope_end(scope);
}

/* In [ ]: `EncoderLayer`: the feed-forward layer applied to attention's output, and the attention
 * weights. */
Test(notebook_bert, cell_38_encoder_layer)
{
    br_scope *scope = br_no_grad_begin();
    br_bert_config config = small_config(true);
    br_bert_layer *layer = br_bert_layer_new(&config);
    br_tensor *x = br_randn(BR_SHAPE(2, 3, 48), BR_F32), *attn, *want_attn;
    br_tensor *mask = br_zeros(BR_SHAPE(2, 3, 3), BR_BOOL);
    br_manual_seed(3);
    br_tensor *output = br_bert_layer_forward(layer, x, mask, &attn);
    br_manual_seed(3); /* creates the same new layers again */
    br_tensor *want = br_bert_ffn_forward(
        layer->pos_ffn, br_bert_mha_forward(layer->enc_self_attn, x, x, x, mask, &want_attn));
    cr_assert(br_equal(output, want));
    cr_assert(br_equal(attn, want_attn));
    br_module_free(layer);
    br_scope_end(scope);
}

/* In [ ]: `BERT`: logits over the vocabulary for each masked position, and two logits for the pair.
 * The decoder's weight is tied to the token embedding. */
Test(notebook_bert, cell_39_bert)
{
    br_scope *scope = br_no_grad_begin();
    br_bert_config config = small_config(true);
    br_bert *model = br_bert_new(&config);
    cr_assert_eq(model->decoder->weight, model->embedding->tok_embed->weight);
    br_bert_batch b = make_batch_of(2, SMALL_MAXLEN);
    br_tensor *logits_clsf;
    check_shape(br_bert_forward(model, b.input_ids, b.segment_ids, b.masked_pos, &logits_clsf), 6,
                7, 70);
    check_shape(logits_clsf, 6, 2);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Training -------------------------------------------------------------------------------- */

/* In [ ]: `model`, six layers, 40283208 parameters. */
Test(notebook_bert, cell_40_model)
{
    br_bert_config config = notebook_config();
    br_bert *model = br_bert_new(&config);
    check_ok();
    cr_assert_eq(br_module_list_size(model->layers), 6);
    cr_assert_eq(br_count_parameters(br_base(model), true), 40283208);
    br_module_free(model);
}

/* In [ ]: `criterion`, cross entropy: log 70 if all logits are equal. */
Test(notebook_bert, cell_41_criterion)
{
    br_scope *scope = br_scope_begin();
    br_tensor *target = br_from_i64(BR_SHAPE(2), (int64_t[]){ 0, 69 });
    br_tensor *loss = br_cross_entropy(br_zeros(BR_SHAPE(2, 70), BR_F64), target, NULL);
    check_close(br_item(loss), log(70), 1e-14);
    br_scope_end(scope);
}

/* In [ ]: `optimizer`, Adam with a learning rate of 0.001: its first step changes a parameter by
 * the learning rate. */
Test(notebook_bert, cell_42_optimizer)
{
    br_scope *scope = br_scope_begin();
    br_linear *model = br_linear_new(1, 1, false);
    br_optim *optimizer = br_adam(br_base(model), BR_OPTIONS(br_adam, .lr = 0.001));
    double before = br_item(model->weight);
    br_backward(br_sum(model->weight));
    br_optim_step(optimizer);
    check_close(br_item(model->weight), before - 0.001, 1e-7);
    br_optim_free(optimizer);
    br_module_free(model);
    br_scope_end(scope);
}

/* In [ ]: `batch`, created once for all epochs. The random generator is not seeded again, so it
 * differs from the first batch. */
Test(notebook_bert, cell_43_second_batch)
{
    br_scope *scope = br_scope_begin();
    br_bert_config config = br_bert_notebook_config();
    br_bert_corpus *corpus = notebook_corpus();
    br_python_random *random = br_python_random_new(1);
    br_bert_batch first, batch;
    cr_assert(br_bert_make_batch(corpus, &config, BATCH_SIZE, random, &first));
    cr_assert(br_bert_make_batch(corpus, &config, BATCH_SIZE, random, &batch));
    cr_assert_not(br_equal(first.input_ids, batch.input_ids));
    br_python_random_free(random);
    br_bert_corpus_free(corpus);
    br_scope_end(scope);
}

/* In [ ]: the parts of the batch as tensors. Masked positions are positions of words, so never 0.
 */
Test(notebook_bert, cell_44_second_tensors)
{
    br_scope *scope = br_scope_begin();
    br_bert_batch b = make_batch(1);
    br_tensor *used = br_ne_scalar(b.masked_pos, 0);
    br_tensor *padding = br_gather(br_eq_scalar(b.input_ids, PAD), 1, b.masked_pos);
    cr_assert(br_equal(used, br_ge_scalar(b.masked_tokens, FIRST_WORD)));
    cr_assert_eq(br_item_i64(br_sum(br_to(br_logical_and(used, padding), BR_I64))), 0);
    check_ok();
    br_scope_end(scope);
}

/* In [ ]: training for 50 epochs. The loss decreases a lot, but not to 0, because each forward pass
 * has new random projections. With the intended variant, it approaches 0. */
Test(notebook_bert, cell_45_training)
{
    br_scope *scope = br_scope_begin();
    br_bert_batch batch = make_batch_of(1, SMALL_MAXLEN);
    double first, last, last_as_intended;
    br_bert *model = train(true, 50, &batch, &first, &last);
    br_module_free(model);
    cr_assert_lt(last, first / 2);
    model = train(false, 50, &batch, &first, &last_as_intended);
    br_module_free(model);
    cr_assert_lt(last_as_intended, last / 2);
    br_scope_end(scope);
}

/* In [ ]: the words of the batch's first pair, without padding. */
Test(notebook_bert, cell_46_first_pair)
{
    static const char want[] = "[CLS] [MASK] você recomenda algum restaurante ana\\n' [SEP] 'uau "
                               "[MASK] carlos\\n' [SEP]";
    br_scope *scope = br_scope_begin();
    br_bert_corpus *corpus = notebook_corpus();
    const int64_t *ids = br_data_i64(printed_ids());
    char words[256] = "";
    for (int64_t i = 0; i < MAXLEN && ids[i] != PAD; i++)
        strcat(strcat(words, i ? " " : ""), br_vocab_word(corpus->vocab, ids[i]));
    cr_assert_str_eq(words, want);
    br_bert_corpus_free(corpus);
    br_scope_end(scope);
}

/* Returns the word with the largest logit at each masked position of the pair; *follows is whether
 * the second sentence is predicted to follow the first. */
static br_tensor *predict(br_bert *model, const br_bert_batch *pair, br_tensor **follows)
{
    br_tensor *logits_clsf, *logits_lm = br_bert_forward(model, pair->input_ids, pair->segment_ids,
                                                         pair->masked_pos, &logits_clsf);
    *follows = br_argmax(logits_clsf, -1, false);
    return br_argmax(logits_lm, -1, false);
}

/* In [ ]: the predicted masked tokens of the first pair, which are right after training the
 * intended variant. */
Test(notebook_bert, cell_47_masked_tokens)
{
    br_scope *scope = br_scope_begin();
    br_bert_batch batch = make_batch_of(1, SMALL_MAXLEN), pair = first_pair(&batch);
    double first, last;
    br_bert *model = train(false, 80, &batch, &first, &last);
    br_tensor *follows;
    cr_assert(br_equal(predict(model, &pair, &follows), pair.masked_tokens));
    br_module_free(model);
    br_scope_end(scope);
}

/* In [ ]: whether the second sentence follows the first one, actual and predicted. */
Test(notebook_bert, cell_48_is_next)
{
    br_scope *scope = br_scope_begin();
    br_bert_batch batch = make_batch_of(1, SMALL_MAXLEN), pair = first_pair(&batch);
    double first, last;
    br_bert *model = train(false, 80, &batch, &first, &last);
    br_tensor *follows;
    predict(model, &pair, &follows);
    cr_assert(br_equal(follows, pair.is_next));
    br_module_free(model);
    br_scope_end(scope);
}
