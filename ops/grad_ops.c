/* ops/grad_ops.c - the operations that autograd itself uses: see autograd/tape.h. */
#include "autograd/tape.h"

#include <brasa/ops.h>

const br_grad_ops br__grad_ops = { br_add,     br_add_,  br_to,          br_sum_to_size, br_stack,
                                   br_reshape, br__part, br__clear_part, br__fill_part };
