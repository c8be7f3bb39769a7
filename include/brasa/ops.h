/* brasa/ops.h - differentiable operations on tensors.
 *
 * Names, argument order and semantics are those of PyTorch. Operands of different dtypes are
 * converted where promotion.h says so; otherwise the tensors of a call must have the same dtype
 * (br_to() converts). Shapes broadcast as in NumPy. A
 * dimension may be negative; -1 is the last. The result is a new tensor that belongs to the
 * innermost scope. Gradients exist for floating-point dtypes. A function that shares its name with
 * a module of nn.h has the prefix br_f_, as in br_f_linear() for PyTorch's F.linear. On invalid
 * arguments a function returns NULL, and the error message names the operation, the argument and
 * the shapes, and says what was expected. */
#ifndef BRASA_OPS_H
#define BRASA_OPS_H

#include <brasa/ops/attention.h>
#include <brasa/ops/conv.h>
#include <brasa/ops/fft.h>
#include <brasa/ops/in_place.h>
#include <brasa/ops/index.h>
#include <brasa/ops/linalg.h>
#include <brasa/ops/losses.h>
#include <brasa/ops/matmul.h>
#include <brasa/ops/norm.h>
#include <brasa/ops/pointwise.h>
#include <brasa/ops/promotion.h>
#include <brasa/ops/random.h>
#include <brasa/ops/reduce.h>
#include <brasa/ops/shape.h>

#endif
