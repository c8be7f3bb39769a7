/* cli/samples.h - ops-1 files: calls of operations as PyTorch's own tests make them, with what they
 * gave, and how they are made again in Brasa.
 *
 * The file's metadata hold "ops", [{"op", "variant", "samples"}], in which a sample is
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
/* Makes the file's calls. For each operation the list has a report: "op", "variant", the "rows"
 * that were to choose from as of samples_list(), which samples "passed" and which were rightly
 * "refused", messages of "failures", {"skipped": {reason: number}}, {"calls": {expression:
 * number passed}}, {"dtypes": {dtype: number passed}}, numbers "failed", "gradients", "second" and
 * "inexpressible", and the largest "excess" (1 is all that is allowed). NULL and an error pending
 * if the file cannot be read. */
json_t *samples_check(br_safetensors *file);
/* The operations that Brasa has, each {"name", "signature", "expression"}. */
json_t *samples_list(void);

#endif
