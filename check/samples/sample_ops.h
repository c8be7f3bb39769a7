/* check/samples/sample_ops.h - maps PyTorch's operations to calls of Brasa: the table of
 * sample_ops.def. */
#ifndef BRASA_CHECK_SAMPLE_OPS_H
#define BRASA_CHECK_SAMPLE_OPS_H

#include "check/samples/sample_args.h"

enum { SAMPLE_OUTPUTS = 64 };

typedef struct sample_op {
    const char *name; /* in PyTorch's op_db; the in-place variant ends in _ */
    const char *signature;
    const char *expression;
    /* Stores the results in out[0 .. SAMPLE_OUTPUTS - 1]; NULL if the call failed. */
    void (*call)(sample_arg *a, br_tensor **out);
    const char *left_out; /* why calls are skipped if left_out_if() returns true */
    bool (*left_out_if)(sample_arg *a);
    bool dense; /* needs the recorded layout, or uses random numbers in memory order */
} sample_op;

extern const sample_op sample_ops[];
extern const int num_sample_ops;

#endif
