/* tests/ops/cases.h - helpers for tests over the table of operation cases. */
#ifndef BR_TESTS_CASES_H
#define BR_TESTS_CASES_H

#include "check/cases/op_cases.h"
#include "tests/support.h"

#include <ctype.h>

/* Leaves out the cases whose library is missing. */
#define for_each_case(c)                                                \
    for (const op_case *c = op_cases; c < op_cases + num_op_cases; c++) \
        if (case_can_run(c))

enum { CASE_SEED = 7 };

static inline br_tensor *call(const op_case *c, br_tensor *const *x)
{
    if (c->random)
        br_manual_seed(CASE_SEED);
    return c->call(x, case_num_inputs(c), NULL);
}

static inline int make_inputs(const op_case *c, const letter_sizes *letters, br_dtype dtype,
                              br_tensor **x)
{
    br_manual_seed(CASE_SEED);
    for (int i = 0; i < MAX_CASE_INPUTS; i++)
        x[i] = i < case_num_inputs(c) ? case_input(c, i, letters, dtype) : NULL;
    return case_num_inputs(c);
}

static inline void require_gradients(const op_case *c, br_tensor **x)
{
    for (int i = 0; i < case_num_inputs(c); i++)
        if (x[i] && br_is_floating(x[i]) && !c->no_gradient)
            br_set_requires_grad(x[i], true);
}

static inline bool has_letter(const char *letters, int letter)
{
    return letters && letter && strchr(letters, letter);
}

/* Writes the letters of the case's shapes, each once, and returns their number. */
static inline int case_letters(const op_case *c, char *letters)
{
    int n = 0;
    letters[0] = '\0';
    for (int i = 0; i < case_num_inputs(c); i++)
        for (const char *p = c->inputs[i].shape; *p; p++)
            if (isalpha((unsigned char)*p) && !has_letter(letters, *p)) {
                letters[n++] = *p;
                letters[n] = '\0';
            }
    return n;
}

#endif
