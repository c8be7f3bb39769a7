/* tests/tensor/test_extending.c - functions for code of a program's own: errors, checks of
 * arguments, texts, memory, options, scopes. */
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(extending, .init = check_begin, .fini = check_end);

Test(extending, errors_begin_with_the_operation)
{
    br_scope *scope = br_scope_begin();
    check_fails(br_fail(BR_ERROR_SHAPE, "my_op", "x has %d rows, must have %d", 2, 3),
                "my_op: x has 2 rows, must have 3");
    br_fail(BR_ERROR_DTYPE, NULL, "first");
    br_fail(BR_ERROR_SHAPE, "my_op", "second"); /* the first error is kept */
    cr_assert_str_eq(br_error_message(), "first");
    cr_assert_eq(br_error_code(), BR_ERROR_DTYPE);
    br_clear_error();
    br_scope_end(scope);
}

Test(extending, required_arguments)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(2, 3), BR_F32);
    cr_assert(br_require("my_op", "x", x) && br_require_tensor("my_op", "x", x));
    check_fails(br_require("my_op", "path", NULL), "my_op: path is NULL, but it is required");
    check_fails(br_require_tensor("my_op", "x", NULL), "my_op: x is NULL, but it is required");
    br_raise(BR_ERROR_STATE, "earlier");
    cr_assert_not(br_require("my_op", "x", x));
    check_fails(br_require_tensor("my_op", "x", x), "earlier");
    br_scope_end(scope);
}

Test(extending, texts_for_messages)
{
    br_scope *scope = br_scope_begin();
    cr_assert_str_eq(br_shape_text(br_ones(BR_SHAPE(2, 3), BR_F32)), "[2, 3]");
    cr_assert_str_eq(br_shape_text(NULL), "NULL");
    cr_assert_str_eq(br_printable("a\tb\xff"), "a\\u0009b\\xff");
    cr_assert_str_eq(br_printable(NULL), "NULL");
    /* a character of each category that could change how a terminal shows the rest */
    static const char *const harmful[][2] = {
        { "\x7f", "\\u007f" },                 /* control */
        { "\xe2\x80\xae", "\\u202e" },         /* format: right-to-left override */
        { "\xcd\xb8", "\\u0378" },             /* not assigned */
        { "\xee\x80\x80", "\\ue000" },         /* private use */
        { "\xe2\x80\xa8", "\\u2028" },         /* line separator */
        { "\xe2\x80\xa9", "\\u2029" },         /* paragraph separator */
        { "\xf3\xa0\x81\x81", "\\U000e0041" }, /* a tag, beyond the first plane */
    };
    for (size_t i = 0; i < sizeof harmful / sizeof *harmful; i++)
        cr_expect_str_eq(br_printable(harmful[i][0]), harmful[i][1]);
    br_scope_end(scope);
}

Test(extending, memory)
{
    char *text = br_format("%s %d", "layer", 3), *copy = br_strdup(text);
    int64_t *zeros = br_calloc(4, sizeof *zeros);
    char *block = br_malloc(0);
    cr_assert_str_eq(text, "layer 3");
    cr_assert_str_eq(copy, text);
    cr_assert(zeros && zeros[0] == 0 && zeros[3] == 0 && block);
    br_free(text);
    br_free(copy);
    br_free(zeros);
    br_free(block);
    check_fails(br_malloc(SIZE_MAX / 2), "cannot allocate");
    check_fails(br_calloc(SIZE_MAX / 2, 4), "size overflow");
    check_fails(br_strdup(NULL), "strdup: text is NULL");
}

/* ---- Options --------------------------------------------------------------------------------- */

typedef struct scaling_options {
    size_t struct_size;
    double factor;
    bool centred;
} scaling_options;
#define scaling_default_fields .struct_size = sizeof(scaling_options), .factor = 2
scaling_options scaling_defaults(void);
BR_DEFINE_DEFAULTS(scaling)

static double factor_of(const scaling_options *options)
{
    const scaling_options *o = BR_OPTIONS_OF("scale", scaling, options);
    return o->centred ? -o->factor : o->factor;
}

Test(extending, options)
{
    cr_assert_eq(factor_of(NULL), 2);
    cr_assert_eq(factor_of(BR_OPTIONS(scaling, .factor = 0)), 0);
    cr_assert_eq(factor_of(BR_OPTIONS(scaling, .centred = true)), -2);
    cr_assert_eq(scaling_defaults().factor, 2);
    cr_assert_eq(factor_of(&(scaling_options){ .factor = 5 }), 2);
    check_fails(!br_failed(), "scale: options were not initialized with their defaults");
}

/* ---- Modules --------------------------------------------------------------------------------- */

typedef struct two_results {
    br_module base;
} two_results;

static br_tensor *forward(two_results *self, br_tensor *x, br_tensor **half)
{
    br_enter(self);
    br_scope *scope = br_scope_current();
    *half = br_scope_return(scope, br_mul_scalar(x, 0.5));
    return br_leave(self, br_mul_scalar(x, 2));
}

Test(extending, further_results_of_a_module)
{
    cr_assert_null(br_scope_current());
    br_scope *scope = br_scope_begin();
    cr_assert_eq(br_scope_current(), scope);
    two_results *module = br_module_new(two_results);
    br_tensor *half, *twice = forward(module, br_scalar(3, BR_F32), &half);
    cr_assert(br_item(half) == 1.5 && br_item(twice) == 6);
    cr_assert_eq(br_scope_current(), scope);
    cr_assert(br_module_is_usable("my_op", module));
    br_module_set_incomplete(br_base(module));
    cr_assert_null(forward(module, br_scalar(3, BR_F32), &half));
    check_fails(!br_failed(), "is incomplete");
    br_module_free(module);
    check_fails(br_module_is_usable("my_op", NULL), "my_op: module is NULL");
    br_scope_end(scope);
}

/* Under br_skip_init() the random generator is not used. */
Test(extending, initialization_can_be_skipped)
{
    br_manual_seed(1);
    cr_assert_not(br_skip_init(true));
    br_module_free(br_linear_new(30, 40, true));
    cr_assert(br_skip_init(false));
    double after = br_random_double();
    br_manual_seed(1);
    cr_assert_eq(br_random_double(), after);
}

Test(extending, recorders_and_activations_by_name)
{
    cr_assert_not(br_recorder_is_open());
    br_recorder *recorder = br_recorder_begin();
    cr_assert(br_recorder_is_open());
    br_recorder_end(recorder);
    cr_assert_not(br_recorder_is_open());
    cr_assert_null(br_find_activation("swishy"));
    cr_assert_null(br_find_activation(NULL));
    cr_assert(br_require_activation("mlp", "act", "gelu_new"));
    check_fails(br_require_activation("mlp", "act", "prelu"),
                "mlp: act is prelu, which has weights");
    check_fails(br_require_activation("mlp", "act", NULL),
                "mlp: act is NULL, must be one of gelu,");
}
