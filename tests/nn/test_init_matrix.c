/* tests/nn/test_init_matrix.c - compares sparse, Dirac and orthogonal initialization with
 * PyTorch's; gains; errors. */
#include "tests/memory.h"
#include "tests/nn/init_matrix_values.h"

#include <brasa/nn.h>

TestSuite(init_matrix, .init = check_begin, .fini = check_end);

static br_tensor *sparse(br_tensor *t)
{
    return br_init_sparse_(t, 0.5, 0.1);
}

static br_tensor *dirac(br_tensor *t)
{
    return br_init_dirac_(t, 2);
}

static br_tensor *dirac_plane(br_tensor *t)
{
    return br_init_dirac_(t, 1);
}

static br_tensor *orthogonal(br_tensor *t)
{
    return br_init_orthogonal_(t, 1);
}

static br_tensor *orthogonal_gain(br_tensor *t)
{
    return br_init_orthogonal_(t, 1.5);
}

static void check(br_tensor *(*fill)(br_tensor *t), int ndim, const int64_t *sizes,
                  const double *want)
{
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_set_requires_grad(br_ones(ndim, sizes, BR_F64), true);
    br_manual_seed(11);
    cr_assert_eq(fill(t), t, "%s", br_error_message());
    cr_assert(br_is_leaf(t));
    for (int64_t i = 0; i < br_numel(t); i++)
        check_close(br_data_f64(t)[i], want[i], 4e-15);
    br_scope_end(scope);
}

Test(init_matrix, values_equal_pytorch)
{
    check(sparse, BR_SHAPE(5, 3), sparse_values);
    check(dirac, BR_SHAPE(4, 3, 3), dirac_values);
    check(dirac_plane, BR_SHAPE(2, 3, 2, 3), dirac_plane_values);
    check(orthogonal_gain, BR_SHAPE(3, 5), orthogonal_wide_values);
    check(orthogonal, BR_SHAPE(5, 3), orthogonal_tall_values);
    check(orthogonal, BR_SHAPE(4, 4), orthogonal_square_values);
    check(orthogonal, BR_SHAPE(2, 3, 2), orthogonal_kernel_values);
}

Test(init_matrix, gains_and_errors)
{
    check_close(br_init_calculate_gain("tanh", 0), 5.0 / 3, 0);
    check_close(br_init_calculate_gain("leaky_relu", 0.2), sqrt(2 / 1.04), 0);
    check_close(br_init_calculate_gain("relu", 0), sqrt(2), 0);
    check_fails(br_init_calculate_gain("swish", 0) > 0,
                "nonlinearity is 'swish', must be linear, sigmoid");
    br_scope *scope = br_scope_begin();
    br_tensor *line = br_ones(BR_SHAPE(3), BR_F32), *t = br_ones(BR_SHAPE(3, 2, 2), BR_F32);
    check_fails(br_init_sparse_(line, 0.5, 1), "t [3] must have 2 to 2 dimensions");
    check_fails(br_init_sparse_(br_select(t, 0, 0), 2, 1), "sparsity is 2");
    check_fails(br_init_dirac_(t, 2), "groups is 2, must divide the first size of t [3, 2, 2]");
    check_fails(br_init_dirac_(line, 1), "must have 3 to 5 dimensions");
    check_fails(br_init_orthogonal_(NULL, 1), "t is NULL");
    br_tensor *none = br_ones(BR_SHAPE(0, 3), BR_F32);
    cr_assert_eq(br_init_orthogonal_(none, 1), none);
    br_scope_end(scope);
}

/* Each group has more outputs than inputs, so only its first output copies an input. */
Test(init_matrix, dirac_with_more_outputs_than_inputs_in_a_group)
{
    br_scope *scope = br_scope_begin();
    br_tensor *t = dirac(br_ones(BR_SHAPE(6, 1, 3), BR_F64));
    for (int64_t i = 0; i < 18; i++)
        cr_assert_eq(br_data_f64(t)[i], i == 1 || i == 10, "element %lld", (long long)i);
    br_scope_end(scope);
}

static bool fill_all(void)
{
    br_scope *scope = br_scope_begin();
    sparse(br_ones(BR_SHAPE(5, 3), BR_F32));
    dirac(br_ones(BR_SHAPE(4, 3, 3), BR_F32));
    orthogonal(br_ones(BR_SHAPE(5, 3), BR_F32));
    br_scope_end(scope);
    return !br_failed();
}

Test(init_matrix, every_allocation_may_fail)
{
    fail_in_turn(fill_all, "fill all");
}
