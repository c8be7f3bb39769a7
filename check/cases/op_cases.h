/* check/cases/op_cases.h - the table of operation cases, and inputs made from it.
 *
 * One row of op_cases.def is enough to test and benchmark an operation: it holds an expression over
 * x[0], x[1], ..., and for each input its shape as letters and the kind of its values. Equal
 * letters stand for equal sizes, so a test can set any size to 0 or 1, or make it wrong in a single
 * input. */
#ifndef BR_OP_CASES_H
#define BR_OP_CASES_H

#include <brasa/brasa.h>

enum { MAX_CASE_INPUTS = 4 };

/* Kinds of values. */
typedef enum input_kind {
    REAL,     /* [-2, 2] */
    POSITIVE, /* [0.5, 2] */
    FRACTION, /* [0.1, 0.9] */
    ABOVE_1,  /* [1.5, 3] */
    SIGN,     /* -1 or 1 */
    DISTINCT, /* differ from each other and from 0 by more than the step of a gradient check */
    MASK,     /* bool */
    INDEX,    /* i64 below the size of the letter that follows the shape: "nm<k" */
} input_kind;

typedef struct input_spec {
    const char *shape; /* one letter per dimension, which names its size; "" is 0-d */
    input_kind kind;
} input_spec;

/* Dtypes that an operation accepts besides f32 and f64. */
enum { TAKES_I64 = 1, TAKES_BOOL = 2, TAKES_ALL = TAKES_I64 | TAKES_BOOL };

typedef struct op_case {
    const char *label;
    const char *expression;
    br_function call; /* ignores its context */
    input_spec inputs[MAX_CASE_INPUTS];

    bool no_gradient;      /* the result is not differentiable */
    bool broadcasts;       /* inputs are broadcast to a common shape */
    int optional;          /* bit i: input i may be NULL */
    bool random;           /* uses random numbers: tests set the same seed before every call */
    bool lapack;           /* needs LAPACK, which may be missing; refuses bf16 and f16 */
    bool fftw;             /* the same with FFTW */
    bool two_ways;         /* without a gradient, another algorithm computes the result */
    bool drawn;            /* the random numbers depend on the dtype */
    int takes;             /* TAKES_... */
    const char *nonzero;   /* letters whose size must not be 0 */
    const char *unlike;    /* letters whose size may differ between inputs */
    const char *bench;     /* sizes for the benchmark, as "n=600 m=768"; "" skips the benchmark */
    double flops_per_unit; /* benchmark: forward flops divided by the product of all sizes */
    double backward_flops_per_unit; /* 0: flops_per_unit per input with 2 or more dims */
} op_case;

extern const op_case op_cases[];
extern const int num_op_cases;

/* Size of each letter. */
typedef struct letter_sizes {
    int64_t of[128];
} letter_sizes;
letter_sizes default_letter_sizes(void);
/* Returns the benchmark's default sizes, overridden by those in the case's `bench`. */
letter_sizes bench_letter_sizes(const op_case *c);

/* Returns false if the case needs LAPACK or FFTW and it cannot be opened. */
bool case_can_run(const op_case *c);
int case_num_inputs(const op_case *c);
/* Writes the name that the operation has in error messages, taken from the first br_ call of the
 * expression: "mul" for br_mul(, "sum" for br_sum_dim(, "linear" for br_f_linear(. */
void case_op_name(const op_case *c, char *buffer, size_t size);
/* Returns true if the caller of case_input() chooses the dtype of input i. A MASK is always bool
 * and an INDEX always i64. */
bool case_is_real(const op_case *c, int i);
/* Returns input i filled with random values of its kind. It belongs to the innermost scope. */
br_tensor *case_input(const op_case *c, int i, const letter_sizes *letters, br_dtype dtype);

#endif
