/* models/scratch.c - Transformers from Scratch: the notebook's names for Transformer Anatomy's
 * classes. */
#include <brasa/models/scratch.h>

br_tensor *br_scratch_scaled_dot_product_attention(br_tensor *query, br_tensor *key,
                                                   br_tensor *value)
{
    return br_anatomy_scaled_dot_product_attention(query, key, value, NULL);
}

br_scratch_simplified_attention *br_scratch_simplified_attention_new(int64_t vocab_size,
                                                                     int64_t hidden_size)
{
    return br_anatomy_simplified_attention_new(vocab_size, hidden_size);
}

br_scratch_simplified_steps br_scratch_simplified_attention_forward(
    br_scratch_simplified_attention *self, br_tensor *input_ids)
{
    return br_anatomy_simplified_attention_forward(self, input_ids);
}

br_scratch_attention_head *br_scratch_attention_head_new(int64_t embed_dim, int64_t head_dim)
{
    return br_anatomy_attention_head_new(embed_dim, head_dim);
}

br_tensor *br_scratch_attention_head_forward(br_scratch_attention_head *self,
                                             br_tensor *hidden_state)
{
    return br_anatomy_attention_head_forward(self, hidden_state, NULL);
}

br_scratch_multi_head_attention *br_scratch_multi_head_attention_new(
    const br_scratch_config *config)
{
    return br_anatomy_multi_head_attention_new(config);
}

br_tensor *br_scratch_multi_head_attention_forward(br_scratch_multi_head_attention *self,
                                                   br_tensor *hidden_state)
{
    return br_anatomy_multi_head_attention_forward(self, hidden_state, NULL);
}
