/* tests/ops/test_cases.c - runs every row of op_cases.def in all ways that an operation can be
 * used.
 *
 * Gradients are compared with central differences in f64 on dense inputs and on views. Each size is
 * set to 0 and 1, and inputs are broadcast. Operations run in all dtypes, without grad mode, and
 * with several threads. test_refusals.c tests errors. */
#include "tests/ops/cases.h"
#include "tests/same_bits.h"

#include <glob.h>

TestSuite(op_cases, .init = check_begin, .fini = check_end);

/* ---- Running a case -------------------------------------------------------------------------- */

/* Memory layouts of an input. Its values are the same in all of them. */
typedef enum layout { DENSE, TRANSPOSED, STRIDED, OFFSET, NUM_LAYOUTS } layout;
static const char *const layout_names[] = { "dense", "transposed", "strided", "offset" };

static br_tensor *in_layout(br_tensor *t, layout how)
{
    int n = br_ndim(t);
    int64_t reversed[BR_MAX_DIMS];
    for (int i = 0; i < n; i++)
        reversed[i] = n - 1 - i;
    switch (how) {
    case TRANSPOSED:
        return br_permute(br_contiguous(br_permute(t, n, reversed)), n, reversed);
    case STRIDED:
        return br_select(br_stack(BR_INPUTS(t, t), -1), -1, 1);
    case OFFSET:
        return br_select(br_stack(BR_INPUTS(t, t), 0), 0, 1);
    default:
        return t;
    }
}

typedef struct run {
    const op_case *c;
    layout how;
} run;

/* Calls the case with its inputs in the layout of *context. br_gradcheck() calls this function. */
static br_tensor *call_in_layout(br_tensor *const *inputs, int n, void *context)
{
    const run *r = context;
    br_tensor *x[MAX_CASE_INPUTS] = { NULL };
    for (int i = 0; i < n; i++)
        x[i] = inputs[i] ? in_layout(inputs[i], r->how) : NULL;
    return call(r->c, x);
}

/* Returns true if the gradients agree with central differences, or false with an error pending. */
static bool gradients_agree(const op_case *c, br_tensor **x, layout how)
{
    run r = { c, how };
    return br_gradcheck(call_in_layout, &r, case_num_inputs(c), x, TIGHTLY);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

Test(op_cases, gradients)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        if (c->no_gradient)
            continue;
        for (layout how = DENSE; how < NUM_LAYOUTS; how++) {
            br_scope *scope = br_scope_begin();
            br_tensor *x[MAX_CASE_INPUTS];
            make_inputs(c, &letters, BR_F64, x);
            require_gradients(c, x);
            cr_expect(gradients_agree(c, x, how), "%s, %s: %s", c->label, layout_names[how],
                      br_error_message());
            br_clear_error();
            br_scope_end(scope);
        }
    }
}

/* Sets each size to 1 and, if that is allowed, to 0. */
Test(op_cases, sizes_0_and_1)
{
    for_each_case(c)
    {
        char names[32];
        int n = case_letters(c, names);
        for (int i = 0; i < n; i++) {
            for (int64_t size = has_letter(c->nonzero, names[i]) ? 1 : 0; size <= 1; size++) {
                letter_sizes letters = default_letter_sizes();
                letters.of[(unsigned char)names[i]] = size;
                br_scope *scope = br_scope_begin();
                br_tensor *x[MAX_CASE_INPUTS];
                make_inputs(c, &letters, BR_F64, x);
                require_gradients(c, x);
                bool ok = c->no_gradient ? call(c, x) != NULL : gradients_agree(c, x, DENSE);
                cr_expect(ok, "%s with %c = %d: %s", c->label, names[i], (int)size,
                          br_error_message());
                br_clear_error();
                br_scope_end(scope);
            }
        }
    }
}

/* Sets each dimension of each input to 1, and removes leading dimensions. */
Test(op_cases, broadcasting)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        if (!c->broadcasts)
            continue;
        for (int i = 0; i < case_num_inputs(c); i++) {
            for (int variant = 0; variant < 4; variant++) {
                br_scope *scope = br_scope_begin();
                br_tensor *x[MAX_CASE_INPUTS], *whole[MAX_CASE_INPUTS];
                make_inputs(c, &letters, BR_F64, x);
                if (variant == 0 || variant == 2)
                    x[i] = br_clone(br_narrow(x[i], 0, 1, 1));
                if (variant == 1)
                    x[i] = br_clone(br_narrow(x[i], 1, 1, 1));
                if (variant == 2)
                    x[i] = br_clone(br_select(x[i], 0, 0));
                if (variant == 3)
                    x[i] = br_clone(br_select(br_select(x[i], 0, 1), 0, 0));
                memcpy(whole, x, sizeof whole);
                int64_t sizes[2] = { letters.of['n'], letters.of['m'] };
                whole[i] = br_contiguous(br_expand(x[i], 2, sizes));
                cr_expect(br_equal(call(c, x), call(c, whole)), "%s, input %d, variant %d: %s",
                          c->label, i, variant, br_error_message());
                require_gradients(c, x);
                cr_expect(c->no_gradient || gradients_agree(c, x, DENSE),
                          "%s, input %d, variant %d: %s", c->label, i, variant, br_error_message());
                br_clear_error();
                br_scope_end(scope);
            }
        }
    }
}

/* Passes one tensor as two arguments. Its gradient must be the sum of both. */
Test(op_cases, the_same_input_twice)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        for (int i = 1; i < case_num_inputs(c) && !c->no_gradient; i++) {
            if (!case_is_real(c, i) || !case_is_real(c, i - 1) ||
                strcmp(c->inputs[i].shape, c->inputs[i - 1].shape) != 0)
                continue;
            br_scope *scope = br_scope_begin();
            br_tensor *x[MAX_CASE_INPUTS];
            make_inputs(c, &letters, BR_F64, x);
            /* If one input is POSITIVE, its values are valid for both. */
            x[i - 1] = x[i] = c->inputs[i].kind == POSITIVE ? x[i] : x[i - 1];
            require_gradients(c, x);
            cr_expect(gradients_agree(c, x, DENSE), "%s: %s", c->label, br_error_message());
            br_clear_error();
            br_scope_end(scope);
        }
    }
}

static bool agree(br_tensor *got, br_tensor *want, double tolerance)
{
    return br_is_floating(want)
               ? br_allclose(br_to(got, br_dtype_of(want)), want, tolerance, tolerance)
               : br_equal(got, want);
}

Test(op_cases, without_grad_mode)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_CASE_INPUTS];
        make_inputs(c, &letters, BR_F64, x);
        require_gradients(c, x);
        br_tensor *recorded = call(c, x);
        cr_expect_eq(br_requires_grad(recorded), !c->no_gradient, "%s", c->label);
        br_scope *inner = br_no_grad_begin();
        br_tensor *plain = call(c, x);
        cr_expect(c->two_ways ? agree(plain, br_detach(recorded), 1e-13)
                              : br_equal(plain, br_detach(recorded)),
                  "%s: %s", c->label, br_error_message());
        bool itself = false;
        for (int i = 0; i < MAX_CASE_INPUTS; i++)
            itself |= plain == x[i];
        cr_expect(itself || !br_requires_grad(plain), "%s is recorded without grad mode", c->label);
        br_scope_end(inner);
        br_clear_error();
        br_scope_end(scope);
    }
}

/* ---- Layouts and dtypes ---------------------------------------------------------------------- */

/* Results on views and in f32 agree with the dense f64 result. */
Test(op_cases, layouts_and_precisions)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_CASE_INPUTS], *narrow[MAX_CASE_INPUTS] = { NULL };
        int n = make_inputs(c, &letters, BR_F64, x);
        br_tensor *want = call(c, x);
        cr_expect_not_null(want, "%s: %s", c->label, br_error_message());
        for (layout how = TRANSPOSED; how < NUM_LAYOUTS; how++) {
            run r = { c, how };
            br_tensor *got = call_in_layout(x, n, &r);
            cr_expect(agree(got, want, 1e-13), "%s, %s: %s", c->label, layout_names[how],
                      br_error_message());
        }
        for (int i = 0; i < n; i++)
            narrow[i] = case_is_real(c, i) ? br_to(x[i], BR_F32) : x[i];
        br_tensor *got = call(c, narrow);
        cr_expect(c->drawn ? got != NULL : agree(got, want, 2e-6), "%s in f32: %s", c->label,
                  br_error_message());
        br_clear_error();
        br_scope_end(scope);
    }
}

/* Calls each operation with i64 and bool. If it does not accept them, the message must name the
 * operation and the dtype. */
Test(op_cases, dtypes)
{
    static const struct {
        br_dtype dtype;
        int flag;
        const char *name;
    } others[] = { { BR_I64, TAKES_I64, "i64" }, { BR_BOOL, TAKES_BOOL, "bool" } };
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        for (int k = 0; k < 2; k++) {
            bool any_real = false;
            for (int i = 0; i < case_num_inputs(c); i++)
                any_real |= case_is_real(c, i);
            if (!any_real)
                continue;
            br_scope *scope = br_scope_begin();
            br_tensor *x[MAX_CASE_INPUTS];
            make_inputs(c, &letters, others[k].dtype, x);
            br_tensor *y = call(c, x);
            if (c->takes & others[k].flag) {
                cr_expect_not_null(y, "%s of %s: %s", c->label, others[k].name, br_error_message());
            } else if (!y) {
                char op[64];
                case_op_name(c, op, sizeof op);
                cr_expect(strstr(br_error_message(), op) &&
                              strstr(br_error_message(), others[k].name),
                          "%s of %s, message: %s", c->label, others[k].name, br_error_message());
                cr_expect(br_error_code() == BR_ERROR_DTYPE ||
                              strstr(br_error_message(), "cannot be represented as"),
                          "%s of %s: %s", c->label, others[k].name, br_error_message());
            }
            br_clear_error();
            br_scope_end(scope);
        }
    }
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* Stores the result in out[0] and the gradients in out[1], ... Returns their number. */
static int run_with_threads(const op_case *c, br_tensor **x, int threads, br_tensor **out)
{
    br_tensor *wanted[MAX_CASE_INPUTS];
    int n = 0;
    br_set_num_threads(threads);
    out[0] = call(c, x);
    for (int i = 0; i < case_num_inputs(c); i++)
        if (br_requires_grad(x[i]))
            wanted[n++] = x[i];
    if (n == 0 || !br_requires_grad(out[0]))
        return 1;
    br_manual_seed(CASE_SEED + 1);
    br_tensor *dy = br_randn(br_ndim(out[0]), br_sizes(out[0]), br_dtype_of(out[0]));
    br_grad_options options = *BR_OPTIONS(br_grad, .gradients = &dy, .allow_unused = true);
    br_grad(1, &out[0], n, wanted, out + 1, &options);
    return 1 + n;
}

/* The sizes are large enough for several tasks, and odd, so that the tasks differ in size. */
Test(op_cases, results_do_not_depend_on_threads)
{
    letter_sizes letters = default_letter_sizes();
    letters.of['b'] = 3;
    letters.of['n'] = 301;
    letters.of['m'] = 257;
    letters.of['k'] = 131;
    int before = br_get_num_threads();
    for_each_case(c)
    {
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_CASE_INPUTS], *want[1 + MAX_CASE_INPUTS], *got[1 + MAX_CASE_INPUTS];
        make_inputs(c, &letters, BR_F32, x);
        require_gradients(c, x);
        int n = run_with_threads(c, x, 1, want);
        run_with_threads(c, x, 3, got);
        for (int i = 0; i < n; i++)
            cr_expect(same_bits(got[i], want[i]), "%s, 3 threads, result %d: %s", c->label, i,
                      br_error_message());
        br_clear_error();
        br_scope_end(scope);
    }
    br_set_num_threads(before);
}

/* ---- The table itself ------------------------------------------------------------------------ */

/* An operation with a wrong gradient, which the checks must detect. */
static void planted_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    dx[0] = br_mul(dy, br_mul_scalar(br_saved(node, 0), 2.002));
}

static br_tensor *planted(br_tensor *const *x, int n, void *context)
{
    static const br_op op = { "planted", planted_backward, false };
    (void)n;
    (void)context;
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_scope_return(scope, br_mul(x[0], x[0]));
    br_scope_end(scope);
    br_save(br_record(&op, y, BR_INPUTS(x[0]), NULL, 0), 0, x[0]);
    return y;
}

Test(op_cases, a_wrong_gradient_is_caught)
{
    const op_case wrong = { .label = "planted",
                            .expression = "br_planted(x[0])",
                            .call = planted,
                            .inputs = { { "nm", REAL } } };
    letter_sizes letters = default_letter_sizes();
    br_scope *scope = br_scope_begin();
    for (layout how = DENSE; how < NUM_LAYOUTS; how++) {
        br_tensor *x[MAX_CASE_INPUTS];
        make_inputs(&wrong, &letters, BR_F64, x);
        require_gradients(&wrong, x);
        check_fails(gradients_agree(&wrong, x, how), "gradcheck: input 0, element [0, 0]");
    }
    br_scope_end(scope);
}

static bool in_the_table(const char *function, size_t length)
{
    for (const op_case *c = op_cases; c < op_cases + num_op_cases; c++) {
        const char *first = strstr(c->expression, "br_");
        if (strncmp(first, function, length) == 0 && first[length] == '(')
            return true;
    }
    return false;
}

/* Checks that each function of the header that returns a tensor or fills an array of parts has a
 * row. Returns the number of these functions. */
static int check_header(const char *path)
{
    FILE *header = fopen(path, "r");
    cr_assert_not_null(header);
    char line[512];
    int found = 0;
    while (fgets(line, sizeof line, header)) {
        const char *name = strstr(line, "br_tensor *br_");
        if (strncmp(line, "BR_API int br_", 14) == 0)
            name = line + strlen("BR_API int ");
        else if (strncmp(line, "BR_API", 6) == 0 && name)
            name += strlen("br_tensor *");
        else
            continue;
        size_t length = strcspn(name, "(");
        found++;
        if (strncmp(name, "br_to_device(", length + 1) == 0)
            continue; /* needs a second device: tests/backends/test_device.c */
        cr_expect(in_the_table(name, length), "%.*s has no row in op_cases.def", (int)length, name);
    }
    fclose(header);
    return found;
}

Test(op_cases, every_operation_has_a_row)
{
    glob_t headers;
    cr_assert_eq(glob(BRASA_TEST_DIR "/../include/brasa/ops/*.h", 0, NULL, &headers), 0);
    int found = 0;
    for (size_t i = 0; i < headers.gl_pathc; i++)
        found += check_header(headers.gl_pathv[i]);
    globfree(&headers);
    cr_assert(found > 250, "only %d operations found: has the format of the header changed?",
              found);
}
