/* check/samples/sample_args.h - converts the arguments of a recorded call to those of a C function.
 *
 * A signature in PyTorch's notation declares the parameters of an operation:
 *
 *     "Tensor input, int[] dim=None, bool keepdim=False, {mean|sum} reduction=mean"
 *
 * Types are Tensor, Complex (the parts of a complex tensor), Tensor[], Index (a tensor of
 * integers), Index[] (a full slice is NULL), str, int, int[], int[][] (one list of all items),
 * float, bool, dtype, a choice of words in braces, and `only`, which accepts only the default. A
 * default of None makes an argument optional. None for an argument with another default means that
 * default. For int[], a single integer is a list of one, and None in a list is BR_ALL.
 */
#ifndef BRASA_CHECK_SAMPLE_ARGS_H
#define BRASA_CHECK_SAMPLE_ARGS_H

#include <brasa/brasa.h>
#include <jansson.h>

enum { SAMPLE_ARGS = 16, SAMPLE_ITEMS = 64 };

typedef struct sample_arg {
    bool given; /* false for None */
    br_tensor *tensor;
    int64_t integer; /* of an int or a bool; of a choice, the word's index */
    double number;
    br_dtype dtype;
    const char *text; /* of a str; owned by the record */
    int count;
    int64_t ints[SAMPLE_ITEMS];
    br_tensor *tensors[SAMPLE_ITEMS];
} sample_arg;

/* Creates the tensor of a record's {"tensor": ...}; returns NULL with an error on failure. */
typedef br_tensor *(*sample_tensor)(void *context, const json_t *value);

/* Why the arguments do not fit the signature, and how many were read before. */
typedef struct sample_mismatch {
    int position;
    char reason[160];
} sample_mismatch;

/* Reads the call's positional and keyword arguments according to the signature. Returns false,
 * without an error, if they do not fit. */
bool sample_bind(const char *signature, const json_t *args, const json_t *kwargs,
                 sample_tensor make, void *context, sample_arg *out, sample_mismatch *mismatch);

#endif
