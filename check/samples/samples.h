/* check/samples/samples.h - ops-1 files: calls of operations from PyTorch's own tests with their
 * recorded results. Brasa repeats the calls and compares the results.
 *
 * The file's metadata has "ops", [{"op", "variant", "samples"}]. A sample is
 *
 *     {"dtype": "f32", "seed": 3, "args": [{"tensor": "0", "grad": {...}}, 1], "kwargs": {},
 *      "outputs": [{"tensor": "1", "rtol": 1e-6, "atol": 0, "grad": true}]}
 *
 * "grad" of an argument is the gradient of the randomly weighted sum of the outputs with respect to
 * the argument; "second" is the gradient of the randomly weighted sum of these gradients; null
 * means none. Instead of "rtol" and "atol" there may be "bound", the name of an f64 tensor with the
 * largest error of each element; infinity accepts everything. "grad" of an output tells whether it
 * requires grad. "error" marks a call that must be rejected. "skip" is the reason why a call could
 * not be recorded. */
#ifndef BRASA_CHECK_SAMPLES_H
#define BRASA_CHECK_SAMPLES_H

#include <brasa/brasa.h>
#include <jansson.h>

/* Returns whether the file is an ops-1 file. */
bool samples_are_in(br_safetensors *file);
/* Repeats the file's calls. The result has one report per operation: "op"; "variant"; "rows", the
 * available rows as in samples_list(); "passed" and "refused", the indices of samples that passed
 * and of errors that were reproduced; "failures", messages; {"skipped": {reason: {dtype: number}}};
 * {"calls": {expression: number passed}}; {"dtypes": {dtype: number passed}}; the numbers "failed",
 * "gradients", "second" and "inexpressible"; and the largest "excess", a multiple of the tolerance.
 * Returns NULL with an error if the file cannot be read. */
json_t *samples_check(br_safetensors *file);
/* Returns the supported operations, each {"name", "signature", "expression"}. */
json_t *samples_list(void);

#endif
