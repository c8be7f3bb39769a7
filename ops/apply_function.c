/* ops/apply_function.c - unary and binary pointwise functions described by a table row: runs the
 * kernel and saves what the gradient needs. */
#include "ops/ops_internal.h"

br_tensor *br__apply_function(const br__function *f, br_tensor *x)
{
    BR_OP(f->op.name);
    br_tensor *y = br__unary(f->op.name, f->kernel, x);
    br_node *node = br_record(&f->op, y, BR_INPUTS(x), NULL, 0);
    if (f->keeps != BR_SAVES_NOTHING)
        br_save(node, 0, f->keeps == BR_SAVES_X ? x : y);
    return y;
}

static bool is_division(size_t kernel)
{
    return kernel == BR_LOOP(fmod) || kernel == BR_LOOP(remainder) ||
           kernel == BR_LOOP(floor_divide) || kernel == BR_LOOP(trunc_divide);
}

bool br__check_divisor(const char *op, size_t kernel, br_tensor *a, br_tensor *b)
{
    if (!a || !b || b->dtype != BR_I64 || a->numel == 0 || !is_division(kernel))
        return !br_failed();
    br_scope *scope = br_no_grad_begin();
    if (br_item(br_all(b)) == 0)
        br__fail(BR_ERROR_ARGUMENT, op, "b %s contains 0: integer division by zero", br__shape(b));
    br_scope_end(scope);
    return !br_failed();
}

br_tensor *br__apply_function_2(const br__function_2 *f, br_tensor *a, br_tensor *b)
{
    BR_OP(f->op.name);
    if (!br__check_divisor(f->op.name, f->kernel, a, b))
        return NULL;
    br_tensor *y = br__binary(f->op.name, f->kernel, a, b);
    br_node *node = br_record(&f->op, y, BR_INPUTS(a, b), NULL, 0);
    br_save(node, 0, a);
    br_save(node, 1, b);
    return y;
}
