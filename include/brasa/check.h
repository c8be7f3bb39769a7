/* brasa/check.h - compares a module of your own with results that PyTorch recorded in a golden-1
 * file: outputs, intermediate results, loss, gradients, or steps of training. docs/check.md shows
 * how to record one.
 *
 *     static void forward(br_check *check, void *module)
 *     {
 *         br_check_output(check, "0", br_forward(module, br_check_input(check, "x")));
 *     }
 *
 *     br_check_result result;
 *     if (!br_check_file("mine.safetensors", module, forward, &result))
 *         br_report(stderr);
 *     else if (!(result.excess <= 1))
 *         printf("%s differs first, %s most\n", result.first, result.where); */
#ifndef BRASA_CHECK_H
#define BRASA_CHECK_H

#include <brasa/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The check of one file. */
typedef struct br_check br_check;

/* Runs the module on br_check_input() and passes the results to br_check_output(). Reports failures
 * as errors. */
typedef void (*br_check_forward_fn)(br_check *check, void *module);

typedef struct br_check_result {
    double excess; /* the largest difference, as a multiple of the tolerance: the module agrees with
                      PyTorch if it is at most 1 */
    char where[256]; /* the tensor with that difference, such as "grad/fc1.weight"; "" if nothing
                        was compared */
    char first[256]; /* the first tensor whose difference is above the tolerance, in the order of
                        computation: intermediate results, outputs, the loss, then gradients from
                        the last parameter to the first; "" if there is none */
} br_check_result;

/* Loads the file's parameters into the module, runs it, and compares everything that the file has.
 * `module` is a pointer to a module's struct, or NULL if `forward` needs no parameters; it is
 * trained if the file has steps of training. Returns false and sets an error if the file cannot be
 * read, or if only one of the file and the module has a tensor. Where products are computed from
 * bf16 numbers (br_set_float32_matmul_precision()), the tolerance is 4096 times the file's with
 * precision "medium", and 16 times with "high". */
BR_API bool br_check_file(const char *path, void *module, br_check_forward_fn forward,
                          br_check_result *result);

/* The same in three steps, for a module whose sizes are read from the file's `config`.
 * br_check_open() returns NULL on error. If the file has a seed for the initial values,
 * br_check_seed() sets it before the module is created, and br_check_run() compares these values,
 * too. A file can be run once. The caller ends the check with br_check_close(), which accepts
 * NULL. */
BR_API br_check *br_check_open(const char *path);
BR_API bool br_check_seed(br_check *check);
BR_API bool br_check_run(br_check *check, void *module, br_check_forward_fn forward,
                         br_check_result *result);
BR_API void br_check_close(br_check *check);

/* Returns the metadata's `model`, which names the class that was recorded. It belongs to the
 * check. */
BR_API const char *br_check_model(const br_check *check);
/* Return a value of the file's `config`. br_check_size() returns -1 and sets an error if the value
 * is missing or not an integer, br_check_number() 0 if it is missing or not a number.
 * br_check_size_or() and br_check_option() return `otherwise` if it is missing. */
BR_API int64_t br_check_size(br_check *check, const char *name);
BR_API int64_t br_check_size_or(br_check *check, const char *name, int64_t otherwise);
BR_API double br_check_number(br_check *check, const char *name);
BR_API bool br_check_option(br_check *check, const char *name, bool otherwise);

/* For the forward function. br_check_input() returns the argument with this name, which requires
 * grad if the file has its gradient; NULL without an error if the file does not have it.
 * br_check_output() stores a result under its name, which must stay valid until the function
 * returns; a result that is NULL is left out. */
BR_API br_tensor *br_check_input(br_check *check, const char *name);
BR_API void br_check_output(br_check *check, const char *name, br_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
