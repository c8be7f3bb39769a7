/* ops/ops_internal.h - what the files of operations share: choosing kernels by dtype, and the forms
 * that most pointwise operations have. */
#ifndef BR_OPS_INTERNAL_H
#define BR_OPS_INTERNAL_H

#include "ops/kernels/kernels.h"
#include "tensor/tensor_internal.h"

#include <brasa/ops.h>

/* ---- Kernels by dtype ------------------------------------------------------------------------ */

/* The table for a dtype. */
const br_kernels *br__kernels_of(br_dtype dtype);

/* Names a pointwise kernel: its place in the table. */
#define BR_LOOP(name) offsetof(br_kernels, name)

/* The kernel for t's dtype. NULL and an error that tells which dtypes have it if t's has not. */
br_loop br__loop_for(const char *op, const char *name, const br_tensor *t, size_t kernel);

/* For the part of a kernel's work that a task does: p so many bytes further; NULL stays NULL. */
static inline void *br__moved(const void *p, int64_t bytes)
{
    return p ? (char *)(uintptr_t)p + bytes : NULL;
}

/* ---- Scalars as operands --------------------------------------------------------------------- */

/* A 0-d tensor on the stack, which loops take as any other operand. */
typedef struct br_scalar_operand {
    br_tensor tensor;
    union {
        float f32;
        double f64;
        int64_t i64;
        bool b;
    } value;
} br_scalar_operand;

/* Fills *s with the value; false and an error where dtype cannot hold it: i64 takes integers, bool
 * 0 and 1. *s must not be moved afterwards. */
bool br__scalar_operand(const char *op, double value, br_dtype dtype, br_scalar_operand *s);

/* ---- Forms of pointwise operations ----------------------------------------------------------- */

/* A new tensor of x's shape and dtype: kernel(x). */
br_tensor *br__unary(const char *op, size_t kernel, br_tensor *x);
/* A function of one element: its place on the tape, its kernel, and what its gradient is written
 * in, which is saved as value 0. */
typedef enum br__keeps { BR_KEEPS_NOTHING, BR_KEEPS_X, BR_KEEPS_Y } br__keeps;
typedef struct br__function {
    br_op op;
    size_t kernel;
    br__keeps keeps;
} br__function;
br_tensor *br__apply_function(const br__function *f, br_tensor *x);
/* The same of two elements, which are saved as values 0 and 1. */
typedef struct br__function_2 {
    br_op op;
    size_t kernel;
} br__function_2;
br_tensor *br__apply_function_2(const br__function_2 *f, br_tensor *a, br_tensor *b);
/* kernel(a, b), which have one dtype and broadcast. Comparisons have bool results. */
br_tensor *br__binary(const char *op, size_t kernel, br_tensor *a, br_tensor *b);
br_tensor *br__comparison(const char *op, size_t kernel, br_tensor *a, br_tensor *b);
/* kernel(a, s), or kernel(s, a) if reversed. */
br_tensor *br__binary_scalar(const char *op, size_t kernel, br_tensor *a, double s, bool reversed);
br_tensor *br__comparison_scalar(const char *op, size_t kernel, br_tensor *a, double s);
/* True if b broadcasts to a's shape; else an error that calls it b_name. */
bool br__broadcasts_to(const char *op, const char *b_name, const br_tensor *b, const br_tensor *a);

/* sigmoid for gradients: its own, s(x) s(-x), keeps its digits where s is near 1, which sigmoid's
 * s (1 - s) does not. */
br_tensor *br__logistic(br_tensor *x);
/* False and an error if the kernel divides and b has an integer 0. */
bool br__divides(const char *op, size_t kernel, br_tensor *a, br_tensor *b);

/* ---- Operations composed of others ----------------------------------------------------------- */

/* Closes the scope, if there is one, of what y was composed of and hands y out; NULL if something
 * failed. */
br_tensor *br__composed(br_scope *scope, br_tensor *y);

/* ---- Reductions ------------------------------------------------------------------------------ */

#define BR_FOLD(name) offsetof(br_kernels, name)

typedef struct br_reducer {
    size_t kernel;
    double start;   /* 0, 1, -INFINITY or INFINITY; for integers these are their bounds */
    double divisor; /* what floating results are divided by */
    br_tensor *values,
        *indices; /* where they go, NULL if not wanted: dense, kept dimensions only */
} br_reducer;

/* Folds x over the dimensions whose bits are set in `dims`; indices are positions among the folded
 * elements, as they lie in memory. False and an error if memory fails. */
bool br__reduce(const char *op, const br_tensor *x, unsigned dims, const br_reducer *reducer);

/* ---- Gradients that an operation shares with its in-place form ------------------------------- */

void br__add_backward(br_node *node, br_tensor *dy, br_tensor **dx);
void br__sub_backward(br_node *node, br_tensor *dy, br_tensor **dx);
void br__mul_backward(br_node *node, br_tensor *dy, br_tensor **dx); /* saved: 0 a, 1 b */
void br__add_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx);
void br__mul_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx);  /* params: double */
void br__div_scalar_backward(br_node *node, br_tensor *dy, br_tensor **dx);  /* the same */
void br__masked_fill_backward(br_node *node, br_tensor *dy, br_tensor **dx); /* saved: 0 mask */

#endif
