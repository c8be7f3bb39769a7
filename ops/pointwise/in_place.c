/* ops/pointwise/in_place.c - operations that change their first argument.
 *
 * All checks and copies precede br__before_change(), which counts the change; after it only
 * recording can fail. An operand that overlaps the target is read from a copy. */
#include "autograd/in_place.h"
#include "autograd/tape.h"
#include "ops/ops_internal.h"
#include "ops/pointwise/promotion.h"
#include "tensor/random_internal.h"

#include <string.h>

/* Returns true if a and b view the same memory in the same order, so that a loop may read b while
 * it writes a. */
static bool same_elements(const br_tensor *a, const br_tensor *b)
{
    return a->storage == b->storage && br__offset_in(a, b) == 0 && br__same_shape(a, b) &&
           a->dtype == b->dtype &&
           memcmp(a->strides, b->strides, (size_t)a->ndim * sizeof *a->strides) == 0;
}

/* Returns b, or a copy in the innermost scope if writing to a could change elements of b that have
 * not been read yet. */
static const br_tensor *apart_from(const char *op, const br_tensor *a, const br_tensor *b)
{
    if (a->storage != b->storage || same_elements(a, b))
        return b;
    br_tensor *copy = br__new_like(op, b, b->dtype);
    if (copy)
        br__copy(copy, b);
    return copy;
}

/* Computes a = kernel(a, b). `inputs` are the inputs that the caller records. The first one is
 * a. */
static bool change(const char *op, br_pointwise kernel, const br_tensor *b, int n_inputs,
                   br_tensor *const *inputs)
{
    br_tensor *a = inputs[0];
    if (!br__has_kernel(op, "a", a, kernel))
        return false;
    br_scope *scope = a->storage == b->storage ? br_scope_begin() : NULL;
    b = apart_from(op, a, b);
    bool ok = b && br__before_change(op, "a", a, n_inputs, inputs);
    if (ok)
        br__pointwise(kernel, 3, (const br_tensor *[]){ a, a, b }, NULL);
    br_scope_end(scope);
    return ok;
}

static bool accepts(const char *op, const br_tensor *a, const br_tensor *b)
{
    return br__compatible(op, "a", a, "b", b) && br__broadcasts_to(op, "b", b, a);
}

#define IF_MIXED(name)                                                   \
    if (br__mixed(a, b)) {                                               \
        static const br_op op = { #name "_", br__pass_backward, false }; \
        return br__overwrite_mixed(&op, br_##name, a, b);                \
    }

/* ---- Arithmetic ------------------------------------------------------------------------------ */

/* Returns true if the fast path for gradient accumulation applies: shapes and dtypes are equal,
 * both tensors are contiguous in separate storages, and nothing is recorded, so all checks would
 * pass but one, for a kernel. */
static bool is_plain(const br_tensor *a, const br_tensor *b)
{
    return a && b && br__thread.no_grad && !br__failed() && !BR_PROFILING && !BR_ANOMALY &&
           a->dtype == b->dtype && a->contiguous && b->contiguous && a->storage != b->storage &&
           br__same_shape(a, b);
}

/* Takes the fast path if it applies. Returns whether a has been changed. */
static inline bool change_plainly(const br_op *op, br_pointwise kernel, br_tensor *a, br_tensor *b)
{
    if (!is_plain(a, b) || !br__pointwise(kernel, 3, (const br_tensor *[]){ a, a, b }, NULL))
        return false;
    br__changed_by(a, op->name);
    return true;
}

/* Applies an operation whose gradient needs no saved values. */
static br_tensor *binary(const br_op *op, br_pointwise kernel, br_tensor *a, br_tensor *b)
{
    BR_OP(op->name);
    if (!accepts(op->name, a, b) || !change(op->name, kernel, b, BR_INPUTS(a, b)))
        return NULL;
    br_record_in_place(op, a, BR_INPUTS(a, b), NULL, 0);
    return br__failed() ? NULL : a;
}

static const br_op add_op = { "add_", br__add_backward, false };
static const br_op sub_op = { "sub_", br__sub_backward, false };

br_tensor *br_add_(br_tensor *a, br_tensor *b)
{
    if (change_plainly(&add_op, BR_POINTWISE(add), a, b))
        return a;
    IF_MIXED(add)
    return binary(&add_op, BR_POINTWISE(add), a, b);
}

br_tensor *br_sub_(br_tensor *a, br_tensor *b)
{
    if (change_plainly(&sub_op, BR_POINTWISE(sub), a, b))
        return a;
    IF_MIXED(sub)
    return binary(&sub_op, BR_POINTWISE(sub), a, b);
}

static const br_op mul_op = { "mul_", br__mul_backward, false };

/* The gradient with respect to b needs the old values of a, and the gradient with respect to a
 * needs b, which also changes if both share storage. Such values are copied first. Autograd records
 * the copies, for second-order gradients. */
br_tensor *br_mul_(br_tensor *a, br_tensor *b)
{
    BR_OP("mul_");
    IF_MIXED(mul)
    if (!accepts("mul_", a, b))
        return NULL;
    br_scope *scope = br_scope_begin();
    bool by_a = br_grad_enabled() && br_requires_grad(a);
    bool by_b = br_grad_enabled() && br_requires_grad(b);
    br_tensor *old_a = by_b ? br_clone(a) : NULL;
    br_tensor *old_b = by_a && br_shares_storage(a, b) ? br_clone(b) : b;
    if (!br__failed() && change("mul_", BR_POINTWISE(mul), b, BR_INPUTS(a, b))) {
        br_node *node = br_record_in_place(&mul_op, a, BR_INPUTS(a, b), NULL, 0);
        br_save(node, 0, old_a);
        if (by_a)
            br_save(node, 1, old_b);
    }
    br_scope_end(scope);
    return br__failed() ? NULL : a;
}

/* The same for a scalar, which is the gradient's parameter. */
static br_tensor *binary_scalar(const br_op *op, br_pointwise kernel, br_tensor *a, double s)
{
    BR_OP(op->name);
    br_scalar_operand scalar;
    if (!br__required(op->name, "a", a) || !br__has_kernel(op->name, "a", a, kernel) ||
        !br__scalar_operand(op->name, s, br__computed(a->dtype), &scalar) ||
        !change(op->name, kernel, &scalar.tensor, BR_INPUTS(a)))
        return NULL;
    br_record_in_place(op, a, BR_INPUTS(a), &s, sizeof s);
    return br__failed() ? NULL : a;
}

static const br_op add_scalar_op = { "add_scalar_", br__add_scalar_backward, false };
static const br_op sub_scalar_op = { "sub_scalar_", br__add_scalar_backward, false };
static const br_op mul_scalar_op = { "mul_scalar_", br__mul_scalar_backward, false };
static const br_op div_scalar_op = { "div_scalar_", br__div_scalar_backward, false };

br_tensor *br_add_scalar_(br_tensor *a, double s)
{
    return binary_scalar(&add_scalar_op, BR_POINTWISE(add), a, s);
}

br_tensor *br_sub_scalar_(br_tensor *a, double s)
{
    return binary_scalar(&sub_scalar_op, BR_POINTWISE(sub), a, s);
}

br_tensor *br_mul_scalar_(br_tensor *a, double s)
{
    return binary_scalar(&mul_scalar_op, BR_POINTWISE(mul), a, s);
}

br_tensor *br_div_scalar_(br_tensor *a, double s)
{
    return binary_scalar(&div_scalar_op, BR_POINTWISE(div), a, s);
}

/* ---- Overwriting ----------------------------------------------------------------------------- */

/* The result does not depend on the old values of a, so their gradient is zero. */
static void fill_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = br_zeros_like(dy);
}

/* Sets all elements to the value. Errors name `op`. As in PyTorch, a may be expanded. */
static br_tensor *fill(const br_op *op, br_tensor *a, double value)
{
    BR_OP(op->name);
    br_scalar_operand scalar;
    if (!br__required(op->name, "a", a) ||
        !br__element_operand(op->name, value, a->dtype, &scalar) ||
        !br__before_fill(op->name, "a", a, BR_INPUTS(a)))
        return NULL;
    if (br__shares_elements(a))
        br__set_window(a, &scalar.tensor);
    else
        br__pointwise(BR_POINTWISE(copy), 2, (const br_tensor *[]){ a, &scalar.tensor }, NULL);
    br_record_in_place(op, a, BR_INPUTS(a), NULL, 0);
    return br__failed() ? NULL : a;
}

static const br_op fill_op = { "fill_", fill_backward, false };
static const br_op zero_op = { "zero_", fill_backward, false };

br_tensor *br_fill_(br_tensor *a, double value)
{
    return fill(&fill_op, a, value);
}

br_tensor *br_zero_(br_tensor *a)
{
    return fill(&zero_op, a, 0);
}

static const br_op uniform_op = { "uniform_", fill_backward, false };

br_tensor *br_uniform_(br_tensor *t, double low, double high)
{
    BR_OP("uniform_");
    if (!br__uniform_possible(t, low, high) ||
        !br__before_change("uniform_", "t", t, BR_INPUTS(t)) || !br__uniform_(t, low, high))
        return NULL;
    BR_TRAFFIC(t);
    br_record_in_place(&uniform_op, t, BR_INPUTS(t), NULL, 0);
    return br__failed() ? NULL : t;
}

static const br_op normal_op = { "normal_", fill_backward, false };

br_tensor *br_normal_(br_tensor *t, double mean, double std)
{
    BR_OP("normal_");
    if (!br__normal_possible(t, std) || !br__before_change("normal_", "t", t, BR_INPUTS(t)) ||
        !br__normal_(t, mean, std))
        return NULL;
    BR_TRAFFIC(t);
    br_record_in_place(&normal_op, t, BR_INPUTS(t), NULL, 0);
    return br__failed() ? NULL : t;
}

static void copy_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    if (br_needs_input_grad(node, 0))
        dx[0] = br_zeros_like(dy);
    if (br_needs_input_grad(node, 1))
        dx[1] = br_to(dy, *(const br_dtype *)br_params(node));
}

static const br_op copy_op = { "copy_", copy_backward, false };

br_tensor *br_copy_(br_tensor *a, br_tensor *b)
{
    BR_OP("copy_");
    if (!br__required("copy_", "a", a) || !br__required("copy_", "b", b))
        return NULL;
    if (br__backend_of(a) != br__backend_of(b))
        b = br_to_device(b, br__backend_of(a)->device);
    if (!b || !br__broadcasts_to("copy_", "b", b, a))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_tensor *source = scope ? apart_from("copy_", a, b) : NULL;
    if (source && br__before_change("copy_", "a", a, BR_INPUTS(a, b)))
        br__copy(a, source);
    br_scope_end(scope);
    br_record_in_place(&copy_op, a, BR_INPUTS(a, b), &b->dtype, sizeof b->dtype);
    return br__failed() ? NULL : a;
}

static const br_op masked_fill_op = { "masked_fill_", br__masked_fill_backward, false };

br_tensor *br_masked_fill_(br_tensor *a, br_tensor *mask, double value)
{
    BR_OP("masked_fill_");
    static const char op[] = "masked_fill_";
    br_scalar_operand scalar;
    if (!br__required(op, "a", a) || !br__has_dtype(op, "mask", mask, BR_BOOL) ||
        !br__broadcasts_to(op, "mask", mask, a) ||
        !br__element_operand(op, value, a->dtype, &scalar))
        return NULL;
    br_scope *scope = br_scope_begin();
    const br_tensor *where = scope ? apart_from(op, a, mask) : NULL;
    if (where && br__before_change(op, "a", a, BR_INPUTS(a)))
        br__pointwise(BR_POINTWISE(where), 4, (const br_tensor *[]){ a, where, &scalar.tensor, a },
                      NULL);
    br_scope_end(scope);
    br_node *node = br_record_in_place(&masked_fill_op, a, BR_INPUTS(a), NULL, 0);
    br_save(node, 0, mask);
    return br__failed() ? NULL : a;
}
