/* tests/check/test_check.c - br_check_file() with a module of the program's own, right and with
 * mistakes. */
#include "tests/support.h"

#include <brasa/check.h>
#include <brasa/nn.h>

TestSuite(check, .init = check_begin, .fini = check_end);

#define FILE_OF_PYTORCH BRASA_TEST_DIR "/../examples/09_recorded_model.safetensors"

typedef struct classifier {
    br_module base;
    br_linear *fc1, *fc2;
} classifier;

static classifier *classifier_new(int64_t d_hidden)
{
    classifier *self = br_module_new(classifier);
    self->fc1 = br_child(self, "fc1", br_linear_new(5, d_hidden, true));
    self->fc2 = br_child(self, "fc2", br_linear_new(d_hidden, 3, true));
    return self;
}

static void forward(br_check *check, void *module)
{
    classifier *self = module;
    br_tensor *hidden = br_tanh(br_linear_forward(self->fc1, br_check_input(check, "x")));
    br_check_output(check, "0", br_linear_forward(self->fc2, hidden));
}

static void forward_with_relu(br_check *check, void *module)
{
    classifier *self = module;
    br_tensor *hidden = br_relu(br_linear_forward(self->fc1, br_check_input(check, "x")));
    br_check_output(check, "0", br_linear_forward(self->fc2, hidden));
}

static void forward_of_twice_the_input(br_check *check, void *module)
{
    classifier *self = module;
    br_tensor *twice = br_mul_scalar(br_check_input(check, "x"), 2);
    br_tensor *hidden = br_tanh(br_linear_forward(self->fc1, twice));
    br_check_output(check, "0", br_linear_forward(self->fc2, hidden));
}

static void forward_by_functions(br_check *check, void *module)
{
    classifier *self = module;
    br_tensor *x = br_check_input(check, "x");
    br_tensor *hidden = br_tanh(br_f_linear(x, self->fc1->weight, self->fc1->bias));
    br_check_output(check, "0", br_linear_forward(self->fc2, hidden));
}

static void forward_without_output(br_check *check, void *module)
{
    br_linear_forward(((classifier *)module)->fc1, br_check_input(check, "x"));
    br_linear_forward(((classifier *)module)->fc2,
                      br_linear_forward(((classifier *)module)->fc1, br_check_input(check, "x")));
}

Test(check, a_right_module_agrees)
{
    br_check_result result;
    classifier *self = classifier_new(8);
    cr_assert(br_check_file(FILE_OF_PYTORCH, self, forward, &result), "%s", br_error_message());
    cr_assert(result.excess <= 1, "%g in %s", result.excess, result.where);
    cr_assert_neq(*result.where, 0);
    cr_assert_str_eq(result.first, "");
    /* The check has removed its hooks: this forward reports nothing. */
    br_scope *scope = br_scope_begin();
    br_linear_forward(self->fc1, br_ones(BR_SHAPE(1, 5), BR_F32));
    br_scope_end(scope);
    check_ok();
    br_module_free(self);
}

/* The first tensor that differs is the result of the first module after the mistake. */
Test(check, the_first_difference_is_named)
{
    br_check_result result;
    classifier *self = classifier_new(8);
    cr_assert(br_check_file(FILE_OF_PYTORCH, self, forward_with_relu, &result));
    cr_assert(result.excess > 1);
    cr_assert_str_eq(result.first, "tap/fc2");
    cr_assert(br_check_file(FILE_OF_PYTORCH, self, forward_of_twice_the_input, &result));
    cr_assert_str_eq(result.first, "tap/fc1");
    check_ok();
    br_module_free(self);
}

Test(check, in_three_steps)
{
    br_check_result result;
    br_check *check = br_check_open(FILE_OF_PYTORCH);
    cr_assert_str_eq(br_check_model(check), "mine.Classifier");
    cr_assert(br_check_seed(check));
    cr_assert_eq(br_check_size_or(check, "n_heads", 4), 4);
    cr_assert_eq(br_check_number(check, "d_in"), 5);
    cr_assert(br_check_option(check, "bias", true));
    classifier *self = classifier_new(br_check_size(check, "d_hidden"));
    cr_assert(br_check_run(check, self, forward, &result) && result.excess <= 1);
    check_fails(br_check_size(check, "depth") != -1, "'depth' is missing");
    check_fails(br_check_option(check, "d_in", false), "'d_in' must be true or false");
    br_check_close(check);
    br_module_free(self);
}

enum { MOST = 16 }; /* inputs or outputs of a module */

static int n_outputs;

static void forward_with_outputs(br_check *check, void *module)
{
    static const char *const names[] = { "1", "2",  "3",  "4",  "5",  "6",  "7",  "8",
                                         "9", "10", "11", "12", "13", "14", "15", "16" };
    forward(check, module);
    for (int i = 1; i < n_outputs; i++)
        br_check_output(check, names[i - 1], br_check_input(check, "x"));
}

Test(check, the_greatest_number_of_outputs)
{
    br_check_result result;
    classifier *self = classifier_new(8);
    n_outputs = MOST;
    cr_assert(br_check_file(FILE_OF_PYTORCH, self, forward_with_outputs, &result), "%s",
              br_error_message());
    n_outputs = MOST + 1;
    check_fails(br_check_file(FILE_OF_PYTORCH, self, forward_with_outputs, &result),
                "more than 16 inputs or outputs");
    br_module_free(self);
}

Test(check, errors)
{
    br_check_result result;
    classifier *self = classifier_new(8), *wide = classifier_new(9);
    check_fails(br_check_file(FILE_OF_PYTORCH, self, forward_by_functions, &result),
                "the file has 'tap/fc1', but forward did not run that module");
    check_fails(br_check_file(FILE_OF_PYTORCH, self, forward_without_output, &result),
                "forward has no output '0', which the file has");
    check_fails(br_check_file(FILE_OF_PYTORCH, wide, forward, &result), "fc1.weight");
    check_fails(br_check_file(FILE_OF_PYTORCH, NULL, forward, &result), "the module is NULL");
    check_fails(br_check_file(FILE_OF_PYTORCH, self, NULL, &result), "forward is NULL");
    check_fails(br_check_file(FILE_OF_PYTORCH, self, forward, NULL), "result is NULL");
    check_fails(br_check_file("/nonexistent", self, forward, &result), "/nonexistent");
    check_fails(br_check_open(NULL), "path is NULL");
    br_check_close(NULL);
    br_module_free(wide);
    br_module_free(self);
}
