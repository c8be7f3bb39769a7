/* cli/sample_ops.h - PyTorch's operations as Brasa's calls: the table of sample_ops.def. */
#ifndef BRASA_CLI_SAMPLE_OPS_H
#define BRASA_CLI_SAMPLE_OPS_H

#include "cli/sample_args.h"

enum { SAMPLE_OUTPUTS = 64 };

typedef struct sample_op {
    const char *name; /* in PyTorch's table of operations; ends in _ for the form in place */
    const char *signature;
    const char *expression;
    /* Gives the results in out[0 .. SAMPLE_OUTPUTS - 1]; NULL where the call failed. */
    void (*call)(sample_arg *a, br_tensor **out);
    const char *left_out; /* why calls for which left_out_if() is true are not made */
    bool (*left_out_if)(sample_arg *a);
    bool dense; /* may refuse inputs that are not contiguous */
} sample_op;

extern const sample_op sample_ops[];
extern const int num_sample_ops;

#endif
