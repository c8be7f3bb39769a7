/* tests/fuzz/api.h - shared by the files of the fuzz target api: fuzz_api.c runs the programs and
 * has the operations on tensors; api_*.c have the actions on modules, optimizers, datasets and
 * modes.
 *
 * An action of api_*.c takes arguments of a fixed number of bytes, which are read in the order of
 * the fields of api_args. So a program does the same with every compiler. */
#ifndef BR_TESTS_FUZZ_API_H
#define BR_TESTS_FUZZ_API_H

#include <brasa/brasa.h>

typedef struct api_args {
    br_tensor *t[3];  /* tensors of the program; may be NULL */
    int64_t n[4];     /* sizes, mostly small and valid */
    double x[2];      /* numbers, such as probabilities and rates */
    bool on[4];       /* the bits of one byte */
    uint8_t which[3]; /* choices, each modulo the number of possibilities */
} api_args;

typedef void (*api_action)(const api_args *a);

/* The actions of one file, and a function that frees all objects that they have made. */
typedef struct api_part {
    const api_action *actions;
    int n;
    void (*free_all)(void);
} api_part;
extern const api_part api_modules, api_training, api_optim, api_data, api_modes;

/* Checks the result of a call: a tensor, which the program keeps, or else an error. */
void api_result(br_tensor *t);
/* Checks that a call has succeeded, or else has set an error. */
void api_answer(bool there);

/* Returns a module that has no parent, or NULL. */
br_module *api_root(uint8_t which);
/* Returns such a module or one below it, or NULL. */
br_module *api_module(const api_args *a);
/* Returns a glob that matches some names of parameters. */
const char *api_glob(uint8_t which);

#define API_COUNT(array) ((int)(sizeof(array) / sizeof *(array)))
/* An element of an array. */
#define API_CHOOSE(array, which) ((array)[(which) % API_COUNT(array)])

#endif
