/* tests/notebooks/cells.h - shared by the files test_<notebook>.c. Each of them follows one
 * notebook, code cell by code cell.
 *
 * Cells are numbered from 1 in the order of the notebook, independently of In []. For each cell
 * there is a comment, not indented, that begins with the notebook's own label, such as "In [8]: ",
 * and describes what the cell shows. The next line begins the test of the cell, such as
 * Test(notebook_anatomy, cell_10_softmax), or is CELL_WITHOUT_TEST(number, reason) with one of the
 * reasons below. docs/make_notebooks.py generates docs/notebooks.md from these files, and fails if
 * a cell is missing. */
#ifndef BR_TESTS_NOTEBOOKS_CELLS_H
#define BR_TESTS_NOTEBOOKS_CELLS_H

#include "tests/support.h"

#include <brasa/brasa.h>

/* The notebook's file, its title, and its number of code cells. */
#define NOTEBOOK(file, title, cells) _Static_assert((cells) > 0 && sizeof(file title), "")

#define CELL_WITHOUT_TEST(number, reason) _Static_assert((number) > 0 && sizeof(reason), "")

/* Reasons for cells without a test. */
#define CELL_INSTALLS "none: installs packages"
#define CELL_IMPORTS  "none: imports modules or sets up the page"
#define CELL_TYPE     "none: prints a Python type"
#define CELL_EMPTY    "none: creates an empty list, which the next cell fills"

/* A folder with bert-base-uncased's config.json, for AutoConfig.from_pretrained. */
#define MODEL_CKPT BRASA_TEST_DIR "/models/bert-base-uncased"

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Checks the shape of a tensor: check_shape(t, 1, 5, 768). */
#define check_shape(t, ...) check_shape_is(#t, (t), BR_SHAPE(__VA_ARGS__))

static inline void check_shape_is(const char *what, const br_tensor *t, int ndim,
                                  const int64_t *sizes)
{
    cr_assert_not_null(t, "%s: %s", what, br_error_message());
    char text[128];
    br_shape_string(t, text, sizeof text);
    cr_assert_eq(br_ndim(t), ndim, "%s is %s", what, text);
    for (int d = 0; d < ndim; d++)
        cr_assert_eq(br_sizes(t)[d], sizes[d], "%s is %s", what, text);
}

/* Checks that the elements along the last dimension sum to 1 everywhere. */
static inline void check_rows_sum_to_one(br_tensor *weights)
{
    br_tensor *sums = br_sum_dim(weights, BR_DIMS(-1), false);
    cr_assert(br_allclose(sums, br_ones_like(sums), 0, 1e-6), "%s", br_error_message());
}

/* Checks that the module's state_dict has exactly n entries, including these names. */
static inline void check_keys(br_module *module, int64_t n, int n_names, const char *const *names)
{
    br_named_list *state = br_state_dict(module);
    cr_assert_not_null(state, "%s", br_error_message());
    cr_assert_eq(state->count, n);
    for (int i = 0; i < n_names; i++)
        cr_assert_not_null(br_named_list_get(state, names[i]), "%s", names[i]);
    br_named_list_free(state);
}
#define KEYS(...)                                                                     \
    (int)(sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *)), (const char *[]) \
    {                                                                                 \
        __VA_ARGS__                                                                   \
    }

/* Checks that the tensor is printed as in the notebook. */
static inline void check_printed(const br_tensor *t, const char *want)
{
    char *printed = br_to_string(t);
    cr_assert_str_eq(printed, want);
    br_free(printed);
}

#endif
