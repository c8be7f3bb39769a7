/* tests/op_cases.h - the table of operation cases, and inputs made from it.
 *
 * A row of op_cases.def is all that an operation needs to be tested and timed: an expression over
 * x[0], x[1], ..., and for each input a shape of letters and the kind of its values. Equal letters
 * are equal sizes, so that every size can be made 0 or 1, or wrong in one input alone. */
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
    DISTINCT, /* apart from each other and from 0 by more than any step of a gradient check */
    MASK,     /* bool */
    INDEX,    /* i64 below the size of the letter that follows the shape: "nm<k" */
} input_kind;

typedef struct input_spec {
    const char *shape; /* letters, each a size; "" is 0-d */
    input_kind kind;
} input_spec;

/* Dtypes that an operation takes besides f32 and f64. */
enum { TAKES_I64 = 1, TAKES_BOOL = 2, TAKES_ALL = TAKES_I64 | TAKES_BOOL };

typedef struct op_case {
    const char *label;
    const char *expression;
    br_function call; /* context is not used */
    input_spec inputs[MAX_CASE_INPUTS];

    bool no_gradient;      /* the result has none */
    bool broadcasts;       /* sizes 1 and missing leading dimensions are stretched */
    int optional;          /* bit i: input i may be NULL */
    bool random;           /* draws numbers: each call is seeded alike */
    int takes;             /* TAKES_... */
    const char *nonzero;   /* letters that may not be 0 */
    const char *unlike;    /* letters that may differ between inputs */
    const char *bench;     /* sizes to time it at, as "n=600 m=768"; "" for not at all */
    double flops_per_unit; /* for the benchmark: of one multiply-add chain over all letters */
    double backward_flops_per_unit; /* 0: the same for the gradient of each matrix */
} op_case;

extern const op_case op_cases[];
extern const int num_op_cases;

/* Size of each letter. */
typedef struct letter_sizes {
    int64_t of[128];
} letter_sizes;
letter_sizes default_letter_sizes(void);
/* The default with the case's bench sizes. */
letter_sizes bench_letter_sizes(const op_case *c);

int case_num_inputs(const op_case *c);
/* "mul" for an expression in which br_mul( comes first; "sum" for br_sum_dim(, "linear" for
 * br_f_linear(: what the operation calls itself in messages. */
void case_op_name(const op_case *c, char *buffer, size_t size);
/* True for an input of numbers, whose dtype the case chooses. */
bool case_is_real(const op_case *c, int i);
/* Input i with values of its kind, of the innermost scope. */
br_tensor *case_input(const op_case *c, int i, const letter_sizes *letters, br_dtype dtype);

#endif
