/* Notebook 002, Transformers from Scratch, cell by cell, with the notebook's sizes, which are those
 * of bert-base-uncased. Its weights are random and not seeded, so the tests check properties that
 * hold for any weights. */
#include "tests/notebooks/views.h"

NOTEBOOK("002_5ed216bae89cfa5e.txt", "Transformers from Scratch", 14);
TestSuite(notebook_scratch, .init = check_begin, .fini = check_end);

enum { SEQ_LEN = 5, HIDDEN = 768, HEADS = 12, HEAD_DIM = HIDDEN / HEADS };

/* Returns the ids of "time flies like an arrow". */
static br_tensor *input_ids(void)
{
    return br_from_i64(BR_SHAPE(1, SEQ_LEN), (int64_t[]){ 2051, 10029, 2066, 2019, 8612 });
}

/* Returns a tensor like token_emb(input_ids): five rows of normally distributed numbers. */
static br_tensor *random_embeds(void)
{
    return br_randn(BR_SHAPE(1, SEQ_LEN, HIDDEN), BR_F32);
}

/* Returns the intermediate results of attention for the ids 0 .. 4. */
static br_scratch_simplified_steps simplified_steps(void)
{
    br_scratch_simplified_attention *attention =
        br_scratch_simplified_attention_new(SEQ_LEN, HIDDEN);
    br_tensor *ids = br_unsqueeze(br_arange(0, SEQ_LEN, 1, BR_I64), 0);
    br_scratch_simplified_steps steps = br_scratch_simplified_attention_forward(attention, ids);
    br_module_free(attention);
    return steps;
}

/* ---- Simplified self-attention --------------------------------------------------------------- */

/* In [23]: imports. The last one, `from torch import n`, fails as written. */
CELL_WITHOUT_TEST(1, CELL_IMPORTS);

/* In [2]: the tokenizer, the text, and bertviz's neuron view. */
Test(notebook_scratch, cell_2_neuron_view)
{
    check_neuron_view();
}

/* In [16]: the ids of the text without special tokens, 2051 10029 2066 2019 8612. */
Test(notebook_scratch, cell_3_input_ids)
{
    br_scope *scope = br_scope_begin();
    br_tokenizer *tokenizer = bert_tokenizer();
    br_tensor *ids = bert_input_ids(tokenizer, "time flies like an arrow");
    check_printed(ids, "tensor([[ 2051, 10029,  2066,  2019,  8612]])");
    cr_assert(br_equal(ids, input_ids()));
    br_tokenizer_free(tokenizer);
    br_scope_end(scope);
}

/* In [7]: `config` from AutoConfig, and `token_emb`, Embedding(30522, 768). */
Test(notebook_scratch, cell_4_token_emb)
{
    br_auto_config *auto_config = br_auto_config_load(MODEL_CKPT);
    br_scratch_config config = br_anatomy_config_from(auto_config);
    br_auto_config_free(auto_config);
    br_scratch_simplified_attention *attention =
        br_scratch_simplified_attention_new(config.vocab_size, config.hidden_size);
    check_ok();
    cr_assert_eq(attention->token_emb->num_embeddings, 30522);
    cr_assert_eq(attention->token_emb->embedding_dim, 768);
    br_module_free(attention);
}

/* In [6]: `inputs_embeds`, [1, 5, 768]. */
Test(notebook_scratch, cell_5_inputs_embeds)
{
    br_scope *scope = br_no_grad_begin();
    br_scratch_simplified_attention *attention = br_scratch_simplified_attention_new(30522, HIDDEN);
    br_scratch_simplified_steps steps =
        br_scratch_simplified_attention_forward(attention, input_ids());
    check_shape(steps.inputs_embeds, 1, 5, 768);
    cr_assert(br_equal(br_select(steps.inputs_embeds, 1, 0),
                       br_narrow(attention->token_emb->weight, 0, 2051, 1)));
    br_scope_end(scope);
    br_module_free(attention);
}

/* In [11]: `scores`, [1, 5, 5], with query = key. */
Test(notebook_scratch, cell_6_scores)
{
    br_scope *scope = br_scope_begin();
    br_scratch_simplified_steps steps = simplified_steps();
    check_shape(steps.scores, 1, 5, 5);
    cr_assert(br_allclose(steps.scores, br_transpose(steps.scores, 1, 2), 0, 1e-6));
    br_scope_end(scope);
}

/* In [13]: the rows of `weights` sum to 1. */
Test(notebook_scratch, cell_7_weights_sum)
{
    br_scope *scope = br_scope_begin();
    check_rows_sum_to_one(simplified_steps().weights);
    br_scope_end(scope);
}

/* In [14]: `weights`, [1, 5, 5]. The score of a vector with itself is |x|^2 / sqrt(768), about
 * 27.7, and not 1 as the notebook says. So each position attends only to itself. */
Test(notebook_scratch, cell_8_weights)
{
    br_scope *scope = br_scope_begin();
    br_tensor *weights = simplified_steps().weights;
    check_shape(weights, 1, 5, 5);
    cr_assert(br_allclose(weights, br_unsqueeze(br_eye(5, 5, BR_F32), 0), 0, 1e-3));
    br_scope_end(scope);
}

/* In [15]: `attn_outputs`, [1, 5, 768]. */
Test(notebook_scratch, cell_9_attn_outputs)
{
    br_scope *scope = br_scope_begin();
    check_shape(simplified_steps().attn_outputs, 1, 5, 768);
    br_scope_end(scope);
}

/* ---- Multi-head attention -------------------------------------------------------------------- */

/* In [18]: `scaled_dot_product_attention` does these steps in one function. */
Test(notebook_scratch, cell_10_scaled_dot_product_attention)
{
    br_scope *scope = br_scope_begin();
    br_scratch_simplified_steps steps = simplified_steps();
    br_tensor *x = steps.inputs_embeds;
    cr_assert(br_equal(br_scratch_scaled_dot_product_attention(x, x, x), steps.attn_outputs));
    br_scope_end(scope);
}

/* In [19]: `AttentionHead` projects [1, 5, 768] to [batch_size, seq_len, head_dim]. */
Test(notebook_scratch, cell_11_attention_head)
{
    br_scope *scope = br_scope_begin();
    br_scratch_attention_head *head = br_scratch_attention_head_new(HIDDEN, HEAD_DIM);
    br_tensor *x = random_embeds();
    br_tensor *output = br_scratch_attention_head_forward(head, x);
    check_shape(output, 1, 5, 64);
    cr_assert(br_equal(output, br_scratch_scaled_dot_product_attention(
                                   br_linear_forward(head->q, x), br_linear_forward(head->k, x),
                                   br_linear_forward(head->v, x))));
    br_module_free(head);
    br_scope_end(scope);
}

/* In [20]: `MultiHeadAttention` has num_attention_heads heads and an output layer. */
Test(notebook_scratch, cell_12_multi_head_attention)
{
    br_scratch_config config = br_anatomy_notebook_config();
    br_scratch_multi_head_attention *attention = br_scratch_multi_head_attention_new(&config);
    br_named_list *state = br_state_dict(br_base(attention));
    cr_assert_not_null(state, "%s", br_error_message());
    cr_assert_eq(state->count, HEADS * 6 + 2);
    check_shape(br_named_list_get(state, "heads.11.v.weight"), 64, 768);
    check_shape(br_named_list_get(state, "output_linear.weight"), 768, 768);
    br_named_list_free(state);
    br_module_free(attention);
}

/* In [21]: `attn_output`, [1, 5, 768]. */
Test(notebook_scratch, cell_13_attn_output)
{
    br_scope *scope = br_scope_begin();
    br_scratch_config config = br_anatomy_notebook_config();
    br_scratch_multi_head_attention *multihead_attn = br_scratch_multi_head_attention_new(&config);
    check_shape(br_scratch_multi_head_attention_forward(multihead_attn, random_embeds()), 1, 5,
                768);
    br_module_free(multihead_attn);
    br_scope_end(scope);
}

/* In [24]: bertviz's head view of two sentences with the word "flies", for head 8 of each layer. */
Test(notebook_scratch, cell_14_head_view)
{
    check_head_view();
}
