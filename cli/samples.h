/* cli/samples.h - ops-1 files: calls of one operation as PyTorch's own tests make them, with what
 * they gave, and how they are made again in Brasa.
 *
 * A sample is JSON in the file's metadata:
 *
 *     {"dtype": "f32", "seed": 3, "args": [{"tensor": "0", "grad": {...}}, 1], "kwargs": {},
 *      "outputs": [{"tensor": "1", "rtol": 1e-6, "atol": 0, "grad": true}]}
 *
 * "grad" of an argument is its gradient, by outputs weighted with random numbers, and "second" the
 * gradient of that; null is none. An output that has a gradient says so. "error" marks a call that
 * must be refused, "skip" one that could not be recorded, and why. */
#ifndef BRASA_CLI_SAMPLES_H
#define BRASA_CLI_SAMPLES_H

#include <brasa/brasa.h>
#include <jansson.h>

/* True for a file of samples. */
bool samples_are_in(br_safetensors *file);
/* Makes the file's calls. The report has "op", "variant", "ours", "signatures", numbers "passed",
 * "failed", "gradients", "second", "in_place", "refused", "accepted", {"skipped": {reason:
 * number}}, "dtypes": {dtype: number passed}, the largest "excess" (1 is all that is allowed),
 * and ["failures"], messages. NULL and an error pending if the file cannot be read. */
json_t *samples_check(br_safetensors *file);
/* The operations that Brasa has, each {"name", "signature", "expression"}. */
json_t *samples_list(void);

#endif
