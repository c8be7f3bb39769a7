/* tests/models/test_decoder_positions.c - models whose positions differ from those of config.json
 * are not saved beside it. */
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(decoder_positions, .init = check_begin, .fini = check_end);

static br_llama *small(const br_rope_options *rope, const br_rope_options *local_rope)
{
    br_llama_config c = br_llama_config_default();
    c.vocab_size = 13, c.hidden_size = 8, c.intermediate_size = 10, c.num_hidden_layers = 1;
    c.num_attention_heads = 2, c.num_key_value_heads = 1, c.head_dim = 4;
    c.rope = *rope, c.local_rope = *local_rope;
    br_llama *model = br_llama_new(&c);
    check_ok();
    return model;
}

/* Each number of the positions of global layers, and of those of local layers. */
Test(decoder_positions, each_number_is_compared)
{
    static const size_t numbers[] = {
        offsetof(br_rope_options, theta),           offsetof(br_rope_options, factor),
        offsetof(br_rope_options, low_freq_factor), offsetof(br_rope_options, high_freq_factor),
        offsetof(br_rope_options, beta_fast),       offsetof(br_rope_options, beta_slow),
        offsetof(br_rope_options, mscale),          offsetof(br_rope_options, mscale_all_dim),
        offsetof(br_rope_options, attention_factor)
    };
    const br_model_family *family = br_model_family_find("gemma3_text");
    const br_rope_options rope = *BR_OPTIONS(br_rope, .type = BR_ROPE_YARN, .factor = 2,
                                             .original_max_position_embeddings = 4, .mscale = 0.5,
                                             .mscale_all_dim = 0.25, .attention_factor = 3);
    br_llama *model = small(&rope, &rope), *same = small(&rope, &rope);
    cr_assert_null(family->differing_key(br_base(model), br_base(same)));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        br_rope_options changed = rope;
        *(double *)(void *)((char *)&changed + numbers[i]) += 0.5;
        for (int local = 0; local < 2; local++) {
            br_llama *other = small(local ? &rope : &changed, local ? &changed : &rope);
            const char *key = family->differing_key(br_base(model), br_base(other));
            cr_expect(key && strcmp(key, "rope_parameters") == 0, "number %d, local %d: %s", (int)i,
                      local, key ? key : "none");
            br_module_free(other);
        }
    }
    br_module_free(model);
    br_module_free(same);
}
