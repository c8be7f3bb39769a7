/* Rotary positions of long contexts, compared with those of transformers. record_rope.py wrote the
 * values. */
#include "tests/nn/rope_values.h"
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(rope, .init = check_begin, .fini = check_end);

enum { DIM = 8, PAIRS = DIM / 2, N_POSITIONS = 4 };

#define LONG_FACTORS .long_factor = { 1, 2, 5, 9 }, .n_factors = PAIRS

static br_tensor *positions(void)
{
    return br_from_i64(BR_SHAPE(N_POSITIONS), (int64_t[]){ 0, 1, 37, 5000 });
}

static void check_table(const char *name, br_tensor *t, const float *expected, double tolerance)
{
    cr_assert(t && br_ndim(t) == 2 && br_size(t, 1) == PAIRS, "%s: %s", name, br_error_message());
    for (int64_t i = 0; i < N_POSITIONS; i++)
        for (int64_t k = 0; k < PAIRS; k++) {
            double value = br_at(t, BR_DIMS(i, k)), wanted = (double)expected[i * PAIRS + k];
            cr_assert(fabs(value - wanted) <= tolerance, "%s [%ld, %ld] is %.9g, must be %.9g",
                      name, i, k, value, wanted);
        }
}

/* Angles of 5000 have a rounding error of 2.4e-4 in f32, which both have; rates may differ by one
 * unit in the last place. */
static void check_case(const char *name, const br_rope_options *o, const float *expected)
{
    br_scope *scope = br_scope_begin();
    br_tensor *cos, *sin;
    cr_assert(br_rope(positions(), DIM, BR_F32, o, &cos, &sin), "%s", br_error_message());
    cr_assert_eq(br_dtype_of(cos), BR_F32);
    check_table(name, cos, expected, 1e-3);
    check_table(name, sin, expected + N_POSITIONS * PAIRS, 1e-3);
    br_scope_end(scope);
}

#define YARN .type = BR_ROPE_YARN, .theta = 500, .factor = 4, .original_max_position_embeddings = 64

Test(rope, tables_equal_those_of_transformers)
{
    check_case("plain", NULL, plain_values);
    check_case("linear", BR_OPTIONS(br_rope, .type = BR_ROPE_LINEAR, .theta = 500, .factor = 3),
               linear_values);
    check_case("dynamic",
               BR_OPTIONS(br_rope, .type = BR_ROPE_DYNAMIC, .theta = 500, .factor = 2,
                          .original_max_position_embeddings = 256),
               dynamic_values);
    check_case("yarn", BR_OPTIONS(br_rope, YARN), yarn_values);
    check_case("yarn_scales",
               BR_OPTIONS(br_rope, YARN, .beta_fast = 8, .beta_slow = 0.5, .mscale = 1.5,
                          .mscale_all_dim = 0.5, .no_truncate = true),
               yarn_scales_values);
    check_case("yarn_factor", BR_OPTIONS(br_rope, YARN, .attention_factor = 1.25),
               yarn_factor_values);
    check_case("llama3",
               BR_OPTIONS(br_rope, .type = BR_ROPE_LLAMA3, .theta = 500, .factor = 8,
                          .original_max_position_embeddings = 128),
               llama3_values);
    check_case("longrope",
               BR_OPTIONS(br_rope, .type = BR_ROPE_LONGROPE, .theta = 500, .factor = 4,
                          .original_max_position_embeddings = 256, .short_factor = { 1, 1.5, 2, 3 },
                          LONG_FACTORS),
               longrope_values);
}

/* Short texts have the plain rates of dynamic, and the short factors of longrope. */
Test(rope, lengths)
{
    br_scope *scope = br_scope_begin();
    br_tensor *at = br_from_i64(BR_SHAPE(2), (int64_t[]){ 3, 255 }), *cos, *sin, *plain, *unused;
    br_rope_options o = *BR_OPTIONS(br_rope, .theta = 500);
    br_rope(at, DIM, BR_F64, &o, &plain, &unused);
    o.type = BR_ROPE_DYNAMIC;
    o.factor = 2;
    o.original_max_position_embeddings = 256;
    cr_assert(br_rope(at, DIM, BR_F64, &o, &cos, &sin));
    cr_assert(br_equal(cos, plain));
    o.original_max_position_embeddings = 255;
    cr_assert(br_rope(at, DIM, BR_F64, &o, &cos, &sin));
    cr_assert_not(br_equal(cos, plain));
    o = *BR_OPTIONS(br_rope, .type = BR_ROPE_LONGROPE, .theta = 500,
                    .original_max_position_embeddings = 256, .short_factor = { 1, 1, 1, 1 },
                    LONG_FACTORS);
    cr_assert(br_rope(at, DIM, BR_F64, &o, &cos, &sin));
    cr_assert(br_equal(cos, plain));
    o.original_max_position_embeddings = 255;
    cr_assert(br_rope(at, DIM, BR_F64, &o, &cos, &sin));
    cr_assert_not(br_equal(cos, plain));
    br_scope_end(scope);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void check_refused(br_rope_options o, int64_t dim, const char *message)
{
    br_tensor *cos = positions(), *sin = cos;
    check_fails(br_rope(positions(), dim, BR_F32, &o, &cos, &sin), message);
    cr_assert(!cos && !sin);
}

Test(rope, bad_options)
{
    br_scope *scope = br_scope_begin();
    br_rope_options o = br_rope_defaults();
    br_tensor *cos, *sin;
    check_refused(o, 7, "dim is 7, must be even and at least 2");
    check_fails(br_rope(br_zeros(BR_SHAPE(2), BR_F32), 8, BR_F32, &o, &cos, &sin),
                "positions are f32, must be i64");
    check_fails(br_rope(positions(), 8, BR_I64, &o, &cos, &sin),
                "dtype is i64, must be a floating dtype");
    o.theta = 0;
    check_refused(o, 8, "theta is 0, must be positive");
    o = *BR_OPTIONS(br_rope, .theta = INFINITY);
    check_refused(o, 8, "theta is inf, must be positive");
    o = *BR_OPTIONS(br_rope, .type = BR_ROPE_LINEAR, .factor = -1);
    check_refused(o, 8, "factor is -1, must be positive");
    o.type = (br_rope_type)9;
    check_refused(o, 8, "type is 9, must be a br_rope_type");
    o = *BR_OPTIONS(br_rope, .type = BR_ROPE_DYNAMIC, .factor = 2);
    check_refused(o, 8, "original_max_position_embeddings is 0: it is the number of tokens");
    o.original_max_position_embeddings = 9;
    check_refused(o, 2, "dim is 2, must be at least 4");
    o = *BR_OPTIONS(br_rope, .type = BR_ROPE_LLAMA3, .original_max_position_embeddings = 9,
                    .low_freq_factor = 4);
    check_refused(o, 8, "low_freq_factor is 4 and high_freq_factor is 4: the first must be");
    o = *BR_OPTIONS(br_rope, YARN, .beta_slow = 40);
    check_refused(o, 8, "beta_slow is 40 and beta_fast is 32: the first must be");
    o = *BR_OPTIONS(br_rope, .type = BR_ROPE_LONGROPE, .original_max_position_embeddings = 9,
                    .short_factor = { 1, 1.5, 2, 3 }, LONG_FACTORS);
    o.long_factor[2] = 0;
    check_refused(o, 8, "short_factor[2] is 2 and long_factor[2] is 0: must be positive");
    check_refused(o, 6, "n_factors is 4, must be dim / 2 = 3 and at most 64");
    o.n_factors = 65;
    check_refused(o, 130, "n_factors is 65, must be dim / 2 = 65 and at most 64");
    br_scope_end(scope);
}
