/* tests/models/models.h - shared by the tests of models: comparing gradients with finite
 * differences, and results with those recorded from PyTorch. */
#ifndef BR_TESTS_MODELS_H
#define BR_TESTS_MODELS_H

#include "check/golden/golden.h"
#include "tests/support.h"

#include <glob.h>

enum { CHECK_MAX_LEAVES = 160 };

/* Checks the gradient of f(leaves, n, module) with respect to the extra leaves, which come first,
 * and every parameter of the module. Converts the module to f64; it may be NULL. */
static inline void check_gradients(br_function f, void *module, int n_extra,
                                   br_tensor *const *extra)
{
    br_tensor *leaves[CHECK_MAX_LEAVES];
    int n = 0;
    for (int i = 0; i < n_extra; i++)
        leaves[n++] = br_set_requires_grad(extra[i], true);
    if (module) {
        br_module_to(module, BR_F64);
        br_named_list *params = br_parameters(module);
        cr_assert(params && params->count + n_extra <= CHECK_MAX_LEAVES, "%s", br_error_message());
        for (int64_t i = 0; i < params->count; i++)
            leaves[n++] = params->items[i].tensor;
        br_named_list_free(params);
    }
    cr_assert(br_gradcheck(f, module, n, leaves, TIGHTLY), "%s", br_error_message());
}

/* Checks the probabilities of all dropouts in the module and below. Returns their number. */
static inline int check_dropouts(br_module *module, double p)
{
    int found = 0;
    for (int64_t i = 0; i < br_module_num_children(module); i++)
        found += check_dropouts(br_module_child_at(module, i), p);
    if (strcmp(br_module_class(module), "Dropout") != 0)
        return found;
    cr_assert_eq(((br_dropout *)module)->p, p);
    return found + 1;
}

/* Checks that tests/golden/PATTERN matches `count` files, and that all of them agree. */
static inline void check_golden(const char *pattern, size_t count)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/%s", BRASA_TEST_DIR, pattern);
    glob_t files;
    cr_assert_eq(glob(path, 0, NULL, &files), 0, "no file matches %s", path);
    cr_assert_eq(files.gl_pathc, count, "%zu files match %s", files.gl_pathc, pattern);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        br_check_result result;
        cr_assert(golden_check(files.gl_pathv[i], (br_check_mode){ 0 }, &result), "%s: %s",
                  files.gl_pathv[i], br_error_message());
        cr_assert(result.excess <= 1, "%s: %g of the tolerance, in %s", files.gl_pathv[i],
                  result.excess, result.where);
        cr_assert(*result.where, "%s: nothing was compared", files.gl_pathv[i]);
    }
    globfree(&files);
}

#endif
