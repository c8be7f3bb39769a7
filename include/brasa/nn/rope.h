/* brasa/nn/rope.h - rotary positions of long contexts; part of brasa/nn.h.
 *
 * A rotary embedding turns pair i of a vector of `dim` numbers by the angle position * rate(i). Its
 * plain rate is theta^(-2 i / dim) (Su et al., 2021). A model that was trained on short texts reads
 * longer ones if its rates are reduced, in one of these ways:
 *
 *     br_tensor *cos, *sin;
 *     br_rope(positions, 64, BR_F32,
 *             BR_OPTIONS(br_rope, .type = BR_ROPE_LLAMA3, .theta = 500000, .factor = 32,
 *                        .low_freq_factor = 1, .high_freq_factor = 4,
 *                        .original_max_position_embeddings = 8192),
 *             &cos, &sin);
 *     br_tensor *turned = br_f_rotary_embedding(query, cos, sin, false);
 */
#ifndef BRASA_NN_ROPE_H
#define BRASA_NN_ROPE_H

#include <brasa/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ways of transformers, whose "rope_type" is in quotes. */
typedef enum br_rope_type {
    BR_ROPE_DEFAULT, /* "default": the plain rates */
    BR_ROPE_LINEAR,  /* "linear": rates are divided by `factor`. Chen et al., 2023 */
    /* "dynamic": in a text of n tokens, more than original_max_position_embeddings m, theta is
     * multiplied by (factor n / m - (factor - 1))^(dim / (dim - 2)). bloc97 and emozilla, 2023 */
    BR_ROPE_DYNAMIC,
    /* "yarn": the pairs that turn fewer than beta_slow times in the trained length have their rates
     * divided by `factor`, pairs that turn more than beta_fast times keep them, and those between
     * get a mean. Peng et al., 2023 */
    BR_ROPE_YARN,
    /* "llama3": the same with low_freq_factor and high_freq_factor turns. Grattafiori et al., 2024
     */
    BR_ROPE_LLAMA3,
    /* "longrope": rates are divided by short_factor in texts of at most
     * original_max_position_embeddings tokens, else by long_factor. Ding et al., 2024 */
    BR_ROPE_LONGROPE,
} br_rope_type;

enum { BR_ROPE_MAX_FACTORS = 64 };

typedef struct br_rope_options {
    size_t struct_size;
    br_rope_type type;
    double theta;  /* the base of the rates, positive */
    double factor; /* positive; all types but the default and longrope, which needs it only for the
                      attention_factor */
    int64_t original_max_position_embeddings; /* the trained length; not default and linear */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    double mscale, mscale_all_dim;            /* yarn: see attention_factor; 0: not used */
    bool no_truncate;  /* yarn: the first and the last mean pair are not rounded to whole numbers */
    int64_t n_factors; /* longrope: the length of the next two lists, dim / 2 */
    double short_factor[BR_ROPE_MAX_FACTORS], long_factor[BR_ROPE_MAX_FACTORS];
    /* yarn and longrope: factor of cos and sin. BR_NONE_F64: 0.1 ln(factor) + 1 for yarn, or with
     * mscale m and mscale_all_dim a (0.1 m ln(factor) + 1) / (0.1 a ln(factor) + 1);
     * sqrt(1 + ln(factor) / ln(original_max_position_embeddings)) for longrope. */
    double attention_factor;
} br_rope_options;
#define br_rope_default_fields                                                                 \
    .struct_size = sizeof(br_rope_options), .theta = 10000, .factor = 1, .low_freq_factor = 1, \
    .high_freq_factor = 4, .beta_fast = 32, .beta_slow = 1, .attention_factor = BR_NONE_F64
BR_API br_rope_options br_rope_defaults(void);

/* Sets *cos and *sin to the tables of br_f_rotary_embedding() for positions i64 [...]: [...,
 * dim / 2] of a floating dtype, on the positions' device. As in transformers, the rates and angles
 * are rounded to f32; for f64 they are in f64. The largest position tells the length of the text.
 * `options` may be NULL. Returns false, sets *cos and *sin to NULL and sets an error if an option
 * is out of range or dim is odd. */
BR_API bool br_rope(br_tensor *positions, int64_t dim, br_dtype dtype,
                    const br_rope_options *options, br_tensor **cos, br_tensor **sin);

#ifdef __cplusplus
}
#endif

#endif
