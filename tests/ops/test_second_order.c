/* tests/ops/test_second_order.c - compares the second-order gradients of every row of op_cases.def
 * with central differences. */
#include "tests/ops/cases.h"

TestSuite(second_order, .init = check_begin, .fini = check_end);

enum { SEED = 7 };

/* Returns the gradients of sum(y^2) with respect to all inputs, concatenated into one tensor. */
static br_tensor *gradients_of(br_tensor *const *x, int n, void *context)
{
    const op_case *const *c = context;
    /* br_gradcheck() evaluates differences without grad. */
    br_scope *scope = br_enable_grad_begin();
    br_tensor *wanted[MAX_CASE_INPUTS], *dx[MAX_CASE_INPUTS] = { NULL };
    int n_wanted = 0;
    for (int i = 0; i < n; i++)
        if (br_requires_grad(x[i]))
            wanted[n_wanted++] = x[i];
    br_manual_seed(SEED);
    br_tensor *y = br_sum(br_pow_scalar((*c)->call(x, n, NULL), 2));
    br_grad(1, &y, n_wanted, wanted, dx,
            BR_OPTIONS(br_grad, .create_graph = true, .allow_unused = true));
    for (int i = 0; i < n_wanted; i++)
        dx[i] = br_flatten(dx[i] ? dx[i] : br_zeros_like(wanted[i]), 0, -1);
    br_tensor *all = br_scope_return(scope, br_cat(n_wanted, dx, 0));
    br_scope_end(scope);
    return all;
}

/* Operations without second-order gradients must report an error. */
Test(second_order, gradients_of_gradients)
{
    letter_sizes letters = default_letter_sizes();
    int checked = 0;
    for_each_case(c)
    {
        if (c->no_gradient)
            continue;
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_CASE_INPUTS];
        br_manual_seed(SEED);
        for (int i = 0; i < case_num_inputs(c); i++) {
            x[i] = case_input(c, i, &letters, BR_F64);
            if (case_is_real(c, i))
                br_set_requires_grad(x[i], true);
        }
        bool ok = br_gradcheck(gradients_of, &c, case_num_inputs(c), x, TIGHTLY);
        bool refused = !ok && strstr(br_error_message(), "cannot be differentiated again");
        cr_expect(ok || refused, "%s: %s", c->label, br_error_message());
        checked += ok;
        br_clear_error();
        br_scope_end(scope);
    }
    cr_assert(checked > 100, "only %d operations have second gradients", checked);
}

/* Many operations compute a recorded gradient by another formula than an unrecorded gradient. Both
 * must be equal, or the second-order gradient belongs to another function. */
Test(second_order, recorded_gradients_equal_others)
{
    letter_sizes letters = default_letter_sizes();
    int checked = 0;
    for_each_case(c)
    {
        if (c->no_gradient)
            continue;
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_CASE_INPUTS], *wanted[MAX_CASE_INPUTS];
        br_tensor *dx[2][MAX_CASE_INPUTS] = { { NULL } };
        int n_wanted = 0;
        br_manual_seed(SEED);
        for (int i = 0; i < case_num_inputs(c); i++) {
            x[i] = case_input(c, i, &letters, BR_F64);
            if (case_is_real(c, i))
                wanted[n_wanted++] = br_set_requires_grad(x[i], true);
        }
        br_tensor *y = c->call(x, case_num_inputs(c), NULL);
        br_tensor *dy = y ? br_randn(br_ndim(y), br_sizes(y), BR_F64) : NULL;
        bool ok = dy;
        for (int recorded = 0; ok && recorded < 2; recorded++)
            ok = br_grad(1, &y, n_wanted, wanted, dx[recorded],
                         BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true,
                                    .create_graph = recorded, .allow_unused = true));
        bool refused = !ok && strstr(br_error_message(), "cannot be differentiated again");
        cr_expect(ok || refused, "%s: %s", c->label, br_error_message());
        for (int i = 0; ok && i < n_wanted; i++)
            cr_expect(!dx[0][i] == !dx[1][i] &&
                          (!dx[0][i] ||
                           br_allclose(br_detach(dx[0][i]), br_detach(dx[1][i]), 1e-9, 1e-9)),
                      "%s: the gradients with respect to input %d differ", c->label, i);
        checked += ok;
        br_clear_error();
        br_scope_end(scope);
    }
    cr_assert(checked > 100, "only %d operations have second gradients", checked);
}
