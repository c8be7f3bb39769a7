/* tests/ops/test_refusals.c - every row of op_cases.def with invalid arguments: one input with a
 * wrong size, a wrong dtype, too few dimensions, or NULL; and with a pending error, and with each
 * allocation failing in turn. */
#include "tests/backends/guarded.h"
#include "tests/memory.h"
#include "tests/ops/cases.h"

TestSuite(op_refusals, .init = check_begin, .fini = check_end);

/* ---- Wrong arguments ------------------------------------------------------------------------- */

/* The operation either refuses an input of another dtype, or computes with all inputs in f64. */
Test(op_refusals, one_other_dtype)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        for (int i = 0; i < case_num_inputs(c); i++) {
            bool alone = case_is_real(c, i);
            for (int k = 0; k < case_num_inputs(c); k++)
                alone &= k == i || !case_is_real(c, k);
            if (alone || strncmp(c->expression, "br_copy_(", 9) == 0 ||
                strncmp(c->expression, "br_expand_as(", 13) == 0)
                continue; /* any dtype is valid, or copy_ converts, or only the shape is used */
            br_scope *scope = br_scope_begin();
            br_tensor *x[MAX_CASE_INPUTS];
            make_inputs(c, &letters, BR_F64, x);
            x[i] = br_to(x[i], BR_F32);
            char op[64];
            case_op_name(c, op, sizeof op);
            br_tensor *y = call(c, x);
            if (y) {
                make_inputs(c, &letters, BR_F64, x);
                x[i] = br_to(br_to(x[i], BR_F32), BR_F64);
                cr_expect(br_allclose(br_to(y, BR_F64), br_to(call(c, x), BR_F64), 1e-6, 1e-6),
                          "%s with input %d in f32: %s", c->label, i, br_error_message());
                br_scope_end(scope);
                continue;
            }
            cr_expect_eq(br_error_code(), BR_ERROR_DTYPE, "%s: %s", c->label, br_error_message());
            cr_expect(strstr(br_error_message(), op), "%s, message: %s", c->label,
                      br_error_message());
            br_clear_error();
            br_scope_end(scope);
        }
    }
}

/* Returns the number of inputs whose shape contains the letter. */
static int count_sharing(const op_case *c, char letter)
{
    int n = 0;
    for (int i = 0; i < case_num_inputs(c); i++) {
        const char *at = strchr(c->inputs[i].shape, letter),
                   *limit = strchr(c->inputs[i].shape, '<');
        n += at && (!limit || at < limit);
    }
    return n;
}

/* Makes each shared size larger in a single input. The message must name the operation and the
 * shape.
 */
Test(op_refusals, one_wrong_size)
{
    for_each_case(c)
    {
        char names[32], op[64], shape[64];
        int n = case_letters(c, names);
        case_op_name(c, op, sizeof op);
        for (int k = 0; k < n; k++) {
            if (count_sharing(c, names[k]) < 2 || has_letter(c->unlike, names[k]))
                continue;
            for (int i = 0; i < case_num_inputs(c); i++) {
                if (!has_letter(c->inputs[i].shape, names[k]) || strchr(c->inputs[i].shape, '<'))
                    continue;
                letter_sizes letters = default_letter_sizes(), larger = letters;
                larger.of[(unsigned char)names[k]]++;
                br_scope *scope = br_scope_begin();
                br_tensor *x[MAX_CASE_INPUTS];
                make_inputs(c, &letters, BR_F64, x);
                x[i] = case_input(c, i, &larger, BR_F64);
                br_tensor *y = call(c, x);
                cr_expect_null(y, "%s accepted a larger %c in input %d", c->label, names[k], i);
                cr_expect(strstr(br_error_message(), op), "%s, message: %s", c->label,
                          br_error_message());
                cr_expect(strstr(br_error_message(), br_shape_string(x[i], shape, sizeof shape)),
                          "%s, message lacks %s: %s", c->label, shape, br_error_message());
                br_clear_error();
                br_scope_end(scope);
            }
        }
    }
}

/* Gives each input too few dimensions. The call must return a result or an error, and must not
 * crash. */
Test(op_refusals, fewer_dimensions)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        for (int i = 0; i < case_num_inputs(c); i++) {
            for (int ndim = 0; ndim < 2; ndim++) {
                br_scope *scope = br_scope_begin();
                br_tensor *x[MAX_CASE_INPUTS];
                make_inputs(c, &letters, BR_F64, x);
                while (br_ndim(x[i]) > ndim)
                    x[i] = br_select(x[i], 0, 0);
                br_tensor *y = call(c, x);
                cr_expect(y || strlen(br_error_message()) > 10, "%s", c->label);
                cr_expect(!y == br_failed(), "%s: %s", c->label, br_error_message());
                br_clear_error();
                br_scope_end(scope);
            }
        }
    }
}

/* Returns whether inputs may be on two devices, or whether the row's expression itself combines
 * them. */
static bool may_cross_devices(const op_case *c)
{
    static const char *const names[] = { "br_copy_(", "br_expand_as(", "broadcast(", "lstsq" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(c->expression, names[i]))
            return true;
    return strncmp(c->label, "broadcast_tensors", strlen("broadcast_tensors")) == 0;
}

/* Moves one input to another device, with its dtype and, if it is real, with another one. The
 * message must name the operation first, also if another operation converts the inputs. */
Test(op_refusals, one_other_device)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        char op[64];
        case_op_name(c, op, sizeof op);
        if (case_num_inputs(c) < 2 || may_cross_devices(c))
            continue;
        for (int i = 0; i < case_num_inputs(c); i++) {
            for (int other = 0; other < 1 + case_is_real(c, i); other++) {
                br_scope *scope = br_scope_begin();
                br_tensor *x[MAX_CASE_INPUTS];
                make_inputs(c, &letters, BR_F64, x);
                x[i] = br_to_device(other ? br_to(x[i], BR_F32) : x[i], guarded_device(0));
                br_tensor *y = call(c, x);
                cr_expect(!y && strncmp(br_error_message(), op, strlen(op)) == 0 &&
                              (other || strstr(br_error_message(), " is on ")),
                          "%s, input %d%s: %s", c->label, i, other ? " in f32" : "",
                          y ? "no error" : br_error_message());
                br_clear_error();
                br_scope_end(scope);
            }
        }
    }
}

/* The same for numbers, steps and indices that getitem passes on. */
Test(op_refusals, items)
{
    br_tensor *x = br_zeros(BR_SHAPE(2, 3), BR_F32);
    br_tensor *nine = br_from_i64(BR_SHAPE(1), (int64_t[]){ 9 });
    check_fails(br_getitem(x, "..., 3", 0, NULL),
                "getitem: index 3 is out of range for dimension 1 of x [2, 3]");
    check_fails(br_getitem(x, "-3", 0, NULL), "getitem: index -3 is out of range for dimension 0");
    check_fails(br_getitem(x, "::0", 0, NULL), "getitem: step is 0, must be at least 1");
    check_fails(br_getitem(x, "?", 1, &nine), "getitem: index ");
}

Test(op_refusals, null_input)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        int n = case_num_inputs(c);
        for (int i = 0; i < n; i++) {
            br_scope *scope = br_scope_begin();
            br_tensor *x[MAX_CASE_INPUTS];
            make_inputs(c, &letters, BR_F64, x);
            x[i] = NULL;
            bool optional = c->optional >> i & 1;
            br_tensor *y = call(c, x);
            if (optional) {
                cr_expect_not_null(y, "%s without input %d: %s", c->label, i, br_error_message());
            } else {
                cr_expect_null(y, "%s without input %d did not fail", c->label, i);
                cr_expect_eq(br_error_code(), BR_ERROR_ARGUMENT, "%s without input %d: %s",
                             c->label, i, br_error_message());
            }
            br_clear_error();
            br_scope_end(scope);
        }
    }
}

Test(op_refusals, a_pending_error)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_CASE_INPUTS];
        make_inputs(c, &letters, BR_F64, x);
        br_raise(BR_ERROR_ARGUMENT, "the first error");
        cr_expect_null(c->call(x, case_num_inputs(c), NULL), "%s ran with a pending error",
                       c->label);
        cr_expect_str_eq(br_error_message(), "the first error");
        br_clear_error();
        br_scope_end(scope);
    }
}

/* ---- Failed allocations ---------------------------------------------------------------------- */

/* Runs forward and backward with a budget of n allocations. Returns true if they succeed. */
static bool survives(const op_case *c, br_tensor **x, int64_t n)
{
    br_scope *scope = br_scope_begin();
    counted.left = n;
    br_tensor *y = call(c, x);
    bool ok = y != NULL;
    if (ok && br_requires_grad(y)) {
        br_backward_options options = *BR_OPTIONS(br_backward, .gradient = br_ones_like(y));
        ok = br_backward_with(y, &options);
    }
    ok = ok && !br_failed();
    counted.left = INT64_MAX;
    if (!ok)
        cr_expect_eq(br_error_code(), BR_ERROR_MEMORY, "%s, allocation %d: %s", c->label, (int)n,
                     br_error_message());
    br_clear_error();
    br_scope_end(scope);
    for (int i = 0; i < case_num_inputs(c); i++)
        br_set_grad(x[i], NULL);
    return ok;
}

Test(op_refusals, every_allocation_fails_in_turn)
{
    letter_sizes letters = default_letter_sizes();
    br_set_cache_limit(0);
    counted.left = INT64_MAX;
    cr_assert(br_set_allocator(&(br_allocator){ counted_allocate, counted_deallocate, NULL }), "%s",
              br_error_message());
    br_set_num_threads(1);
    for_each_case(c)
    {
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_CASE_INPUTS];
        make_inputs(c, &letters, BR_F64, x);
        require_gradients(c, x);
        survives(c, x, INT64_MAX); /* allocates what the thread keeps permanently */
        int64_t alive = counted_blocks(), tensors = br_live_tensors();
        int64_t n = 0;
        while (!survives(c, x, n) && n < 2000) {
            cr_expect_eq(br_live_tensors(), tensors, "%s leaks when allocation %d fails", c->label,
                         (int)n);
            n++;
        }
        cr_expect(n > 0 && n < 2000, "%s succeeded after %d failures", c->label, (int)n);
        cr_expect_eq(counted_blocks(), alive, "%s leaks %d blocks over %d failures", c->label,
                     (int)(counted.blocks - alive), (int)n);
        br_scope_end(scope);
    }
    br_thread_cleanup();
    cr_assert_eq(counted_blocks(), 0, "%d blocks leaked", (int)counted.blocks);
    cr_assert(br_set_allocator(NULL), "%s", br_error_message());
}
