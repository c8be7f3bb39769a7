/* cli/sample_args.h - from the arguments of a recorded call to those of a C function.
 *
 * What an operation takes is said by a signature in PyTorch's notation:
 *
 *     "Tensor input, int[] dim=None, bool keepdim=False, {mean|sum} reduction=mean"
 *
 * Types are Tensor, Tensor[], Index (a tensor of i64), Index[] (in which a whole slice is NULL),
 * str, int, int[], float, bool, dtype, a choice of words in braces, and `only`, which takes nothing
 * but the default. A default of None makes an argument optional, None for another is its default,
 * one integer goes for a list of one, and None in a list is BR_ALL. */
#ifndef BRASA_CLI_SAMPLE_ARGS_H
#define BRASA_CLI_SAMPLE_ARGS_H

#include <brasa/brasa.h>
#include <jansson.h>

enum { SAMPLE_ARGS = 16, SAMPLE_ITEMS = 64 };

typedef struct sample_arg {
    bool given; /* false: it is None */
    br_tensor *tensor;
    int64_t integer; /* of an int, a bool, or the number of a choice's word */
    double number;
    br_dtype dtype;
    const char *text; /* of a str; the record's */
    int count;
    int64_t ints[SAMPLE_ITEMS];
    br_tensor *tensors[SAMPLE_ITEMS];
} sample_arg;

/* Makes the tensor of a record's {"tensor": ...}; NULL with an error pending if it cannot. */
typedef br_tensor *(*sample_tensor)(void *context, const json_t *value);

/* Why arguments do not fit, and how many were read before that. */
typedef struct sample_misfit {
    int position;
    char reason[160];
} sample_misfit;

/* Reads the call's positional and named arguments as the signature says. False, without an error
 * pending, if they do not fit it. */
bool sample_bind(const char *signature, const json_t *args, const json_t *kwargs,
                 sample_tensor make, void *context, sample_arg *out, sample_misfit *misfit);

#endif
