/* ops/ops_internal.h - shared by the operations: kernel lookup by dtype, scalar operands, and
 * helpers for pointwise operations, composed operations and reductions. */
#ifndef BR_OPS_INTERNAL_H
#define BR_OPS_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/ops.h>

/* ---- Kernels by dtype ------------------------------------------------------------------------ */

/* Checks that the pointwise kernel supports t's dtype. If it does not, fails with a message that
 * lists the supported dtypes, and returns false. */
bool br__has_kernel(const char *op, const char *name, const br_tensor *t, br_pointwise kernel);

/* ---- Scalars as operands --------------------------------------------------------------------- */

/* A 0-d tensor on the stack, for passing a scalar to a loop as an operand. */
typedef struct br_scalar_operand {
    br_tensor tensor;
    union {
        float f32;
        double f64;
        int64_t i64;
        bool b;
    } value;
} br_scalar_operand;

/* Fills *s with the value. Fails and returns false if dtype cannot represent it: i64 holds integers
 * only, bool 0 and 1. *s must not be moved afterwards, because its tensor points into it. */
bool br__scalar_operand(const char *op, double value, br_dtype dtype, br_scalar_operand *s);
/* The same for a number that elements are set to: it may be truncated, see br__holds(). */
bool br__element_operand(const char *op, double value, br_dtype dtype, br_scalar_operand *s);
/* Returns bool, true where the elements of t, which is i64, are `value`. As a double, a value of at
 * least 2^53 would be rounded. */
br_tensor *br__equals_integer(br_tensor *t, int64_t value);

/* ---- Converted operands ---------------------------------------------------------------------- */

/* At the beginning of an operation: if the condition holds, returns `call`, the same operation of
 * converted operands. */
#define BR_IF_CONVERTED(condition, call)    \
    if (condition) {                        \
        br_scope *scope = br_scope_begin(); \
        return br__composed(scope, call);   \
    }

/* ---- Pointwise operations -------------------------------------------------------------------- */

/* Returns kernel(x), a new tensor of x's shape and dtype. */
br_tensor *br__unary(const char *op, br_pointwise kernel, br_tensor *x);
/* A unary pointwise function: its autograd operation, its kernel, and the tensor that its gradient
 * is computed from, which is saved as value 0. */
typedef enum br__saves { BR_SAVES_NOTHING, BR_SAVES_X, BR_SAVES_Y } br__saves;
typedef struct br__function {
    br_op op;
    br_pointwise kernel;
    br__saves keeps;
} br__function;
br_tensor *br__apply_function(const br__function *f, br_tensor *x);
/* The same for a binary function; both operands are saved, as values 0 and 1. */
typedef struct br__function_2 {
    br_op op;
    br_pointwise kernel;
} br__function_2;
br_tensor *br__apply_function_2(const br__function_2 *f, br_tensor *a, br_tensor *b);
/* Returns kernel(a, b). The operands must have the same dtype and broadcast. Comparisons return
 * bool. */
br_tensor *br__binary(const char *op, br_pointwise kernel, br_tensor *a, br_tensor *b);
/* The same with parameters of the kernel. */
br_tensor *br__binary_with(const char *op, br_pointwise kernel, br_tensor *a, br_tensor *b,
                           const double *params);
/* Returns kernel(x[0], x[1], x[2]), in the shape to which the operands broadcast, for operands of
 * one dtype. x[2] may be a scalar operand. `names` are those of x[0], x[1], x[0] with x[1], and
 * x[2] in messages. */
br_tensor *br__ternary(const char *op, br_pointwise kernel, const br_tensor *const x[3],
                       const char *const names[4], const double *params);
br_tensor *br__comparison(const char *op, br_pointwise kernel, br_tensor *a, br_tensor *b);
/* Returns kernel(a, s), or kernel(s, a) if reversed. */
br_tensor *br__binary_scalar(const char *op, br_pointwise kernel, br_tensor *a, double s,
                             bool reversed);
br_tensor *br__comparison_scalar(const char *op, br_pointwise kernel, br_tensor *a, double s);
/* Returns true if b broadcasts to a's shape and is on its device; fails otherwise, with b_name for
 * b in the message. */
bool br__broadcasts_to(const char *op, const char *b_name, const br_tensor *b, const br_tensor *a);

/* sigmoid s(x) for use in gradients. Its own gradient is s(x) s(-x), which stays accurate where s
 * is close to 1; the s (1 - s) of br_sigmoid() does not. */
br_tensor *br__logistic(br_tensor *x);
/* Returns for each element of `size`, which is not negative, the largest power of two that is not
 * above it, but a normal number; 1 for 0, infinity and NaN. Division by it is exact. The result is
 * not recorded. */
br_tensor *br__power_of_two(br_tensor *size);
/* Fails and returns false if the kernel is an integer division and b contains 0. */
bool br__check_divisor(const char *op, br_pointwise kernel, br_tensor *a, br_tensor *b);

/* ---- Composed operations --------------------------------------------------------------------- */

/* Ends the scope of a composed operation (if not NULL) and moves y to the enclosing scope. Returns
 * y, or NULL if an error is pending. */
br_tensor *br__composed(br_scope *scope, br_tensor *y);

/* ---- Gradients shared with the in-place variants --------------------------------------------- */

void br__add_backward(br_node *node, br_tensor *dy, br_tensor **dx);
void br__sub_backward(br_node *node, br_tensor *dy, br_tensor **dx);
void br__mul_backward(br_node *node, br_tensor *dy, br_tensor **dx); /* saved: 0 a, 1 b */
void br__add_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx);
void br__mul_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx);  /* params: double */
void br__div_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx);  /* the same */
void br__masked_fill_backward(br_node *node, br_tensor *dy, br_tensor **dx); /* saved: 0 mask */

#endif
