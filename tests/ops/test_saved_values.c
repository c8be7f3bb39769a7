/* tests/ops/test_saved_values.c - backward after an input or the result of an operation was changed
 * in place, for every row of op_cases.def. Backward must report an error if the gradient needs the
 * changed value, and otherwise must give the same gradient as without the change. */
#include "tests/ops/cases.h"

TestSuite(saved_values, .init = check_begin, .fini = check_end);

/* Which tensor is changed, and how. */
typedef struct change {
    int target;        /* an input, or RESULT */
    bool of_leaves;    /* the inputs are leaves; otherwise they are results of an operation */
    bool recorded;     /* the change is made in grad mode */
    bool create_graph; /* backward runs with create_graph */
    bool second;       /* the change is made between the first and the second-order backward */
} change;

enum { RESULT = MAX_CASE_INPUTS, NOTHING };

static void change_in_place(br_tensor *t, bool recorded)
{
    br_scope *scope = recorded ? br_enable_grad_begin() : br_no_grad_begin();
    if (br_is_floating(t))
        br_add_scalar_(t, 1);
    else
        br_zero_(t);
    br_scope_end(scope);
}

/* Returns the gradients with respect to the leaves, concatenated into one tensor; NULL on error. */
static br_tensor *gradients_of(const op_case *c, const letter_sizes *letters, const change *how)
{
    br_tensor *leaves[MAX_CASE_INPUTS], *x[MAX_CASE_INPUTS + 1] = { NULL };
    br_tensor *wanted[MAX_CASE_INPUTS], *dx[MAX_CASE_INPUTS], *ddx[MAX_CASE_INPUTS];
    int n = make_inputs(c, letters, BR_F64, leaves), n_wanted = 0;
    require_gradients(c, leaves);
    for (int i = 0; i < n; i++) {
        if (br_requires_grad(leaves[i]))
            wanted[n_wanted++] = leaves[i];
        x[i] = how->of_leaves || !br_requires_grad(leaves[i]) ? leaves[i]
                                                              : br_mul_scalar(leaves[i], 1);
    }
    br_tensor *y = x[RESULT] = call(c, x);
    if (!y)
        return NULL;
    if (!how->second && how->target != NOTHING)
        change_in_place(x[how->target], how->recorded);
    br_tensor *dy = br_sub_scalar(br_rand(br_ndim(y), br_sizes(y), br_dtype_of(y)), 0.5);
    const br_grad_options *options =
        BR_OPTIONS(br_grad, .gradients = &dy, .create_graph = how->create_graph || how->second,
                   .allow_unused = true, .materialize_grads = true);
    if (!br_grad(1, &y, n_wanted, wanted, dx, options))
        return NULL;
    if (how->second) {
        br_tensor *sum = NULL;
        for (int i = 0; i < n_wanted; i++) {
            br_tensor *part = br_sum(br_mul(dx[i], dx[i]));
            sum = sum ? br_add(sum, part) : part;
        }
        if (!br_requires_grad(sum))
            return sum;
        if (how->target != NOTHING)
            change_in_place(x[how->target], how->recorded);
        const br_grad_options *plain =
            BR_OPTIONS(br_grad, .allow_unused = true, .materialize_grads = true);
        if (!br_grad(1, &sum, n_wanted, wanted, ddx, plain))
            return NULL;
        memcpy(dx, ddx, sizeof dx);
    }
    for (int i = 0; i < n_wanted; i++)
        dx[i] = br_flatten(br_detach(dx[i]), 0, -1);
    return br_cat(n_wanted, dx, 0);
}

static const char *name_of(const change *how)
{
    static char name[128];
    snprintf(name, sizeof name, "%s %d changed %s grad mode%s%s%s",
             how->target == RESULT ? "result" : "input", how->target,
             how->recorded ? "in" : "outside", how->of_leaves ? ", of leaves" : "",
             how->create_graph ? ", with create_graph" : "",
             how->second ? ", before the second backward" : "");
    return name;
}

/* Returns true if the change itself failed, because the result is a leaf, a view of a leaf, or has
 * several elements in the same memory. */
static bool cannot_change(const change *how)
{
    const char *message = br_error_message();
    return how->target == RESULT &&
           (strstr(message, "several elements share memory") ||
            (how->of_leaves && how->recorded && strstr(message, "leaf that requires grad")));
}

/* Returns 1 if backward reported an error, else 0. */
static int check_change(const op_case *c, const letter_sizes *letters, change how)
{
    br_scope *scope = br_scope_begin();
    change nothing = how;
    nothing.target = NOTHING;
    br_tensor *want = gradients_of(c, letters, &nothing);
    bool compared = want != NULL;
    if (!want)
        cr_expect(strstr(br_error_message(), "cannot be differentiated again"), "%s: %s", c->label,
                  br_error_message());
    br_clear_error();
    br_tensor *got = compared ? gradients_of(c, letters, &how) : NULL;
    bool refused = compared && !got;
    if (refused) {
        cr_expect(br_error_code() == BR_ERROR_STATE &&
                      (strstr(br_error_message(), "changed in place") || cannot_change(&how)),
                  "%s, %s: %s", c->label, name_of(&how), br_error_message());
    } else if (compared) {
        /* NaN in both counts as equal. */
        br_tensor *same =
            br_logical_or(br_eq(got, want), br_logical_and(br_ne(got, got), br_ne(want, want)));
        cr_expect(br_item(br_all(same)) == 1, "%s, %s: the gradient differs", c->label,
                  name_of(&how));
        cr_expect(!br_failed(), "%s, %s: %s", c->label, name_of(&how), br_error_message());
    }
    br_clear_error();
    br_scope_end(scope);
    return refused;
}

static bool can_change(const op_case *c, const change *how)
{
    if (how->target == RESULT)
        return true;
    return how->target < case_num_inputs(c) &&
           !(how->of_leaves && how->recorded && case_is_real(c, how->target));
}

Test(saved_values, changed_before_backward)
{
    letter_sizes letters = default_letter_sizes();
    int refused[4] = { 0 };
    for_each_case(c)
    {
        for (int k = 0; !c->no_gradient && k < 8 * (RESULT + 1); k++) {
            const change how = { k / 8, k & 1, k & 2, k & 4, false };
            if (can_change(c, &how))
                refused[k / 2 % 4] += check_change(c, &letters, how);
        }
    }
    for (int i = 0; i < 4; i++)
        cr_expect_gt(refused[i], 100, "only %d changes caused an error", refused[i]);
}

Test(saved_values, changed_before_the_second_backward)
{
    letter_sizes letters = default_letter_sizes();
    int refused[2] = { 0 };
    for_each_case(c)
    {
        for (int k = 0; !c->no_gradient && k < 4 * (RESULT + 1); k++) {
            const change how = { k / 4, k & 1, k & 2, true, true };
            if (can_change(c, &how))
                refused[k / 2 % 2] += check_change(c, &letters, how);
        }
    }
    for (int i = 0; i < 2; i++)
        cr_expect_gt(refused[i], 100, "only %d changes caused an error", refused[i]);
}
