/* brasa/optim/optimizers.h - the optimizers of torch.optim: their options, and the functions that
 * create them; part of brasa/optim.h. */
#ifndef BRASA_OPTIM_OPTIMIZERS_H
#define BRASA_OPTIM_OPTIMIZERS_H

#include <brasa/nn.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An optimizer has groups of parameters, each group with its own options, and state for each
 * parameter. It holds references to its parameters. */
typedef struct br_optim br_optim;

typedef struct br_adam_options {
    size_t struct_size;
    double lr;
    double beta1;
    double beta2;
    double eps;
    double weight_decay;
    bool amsgrad;  /* use the maximum of the second-moment estimates so far */
    bool maximize; /* maximize instead of minimize; likewise below */
} br_adam_options;
#define br_adam_default_fields \
    .struct_size = sizeof(br_adam_options), .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
BR_API br_adam_options br_adam_defaults(void);
/* Options of AdamW, like Adam's but with a default weight decay of 0.01. */
typedef struct br_adamw_options {
    size_t struct_size;
    double lr;
    double beta1;
    double beta2;
    double eps;
    double weight_decay;
    bool amsgrad;
    bool maximize;
} br_adamw_options;
#define br_adamw_default_fields                                                        \
    .struct_size = sizeof(br_adamw_options), .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, \
    .eps = 1e-8, .weight_decay = 1e-2
BR_API br_adamw_options br_adamw_defaults(void);

typedef struct br_sgd_options {
    size_t struct_size;
    double lr;
    double momentum;
    double dampening;
    double weight_decay;
    bool nesterov, maximize;
} br_sgd_options;
#define br_sgd_default_fields .struct_size = sizeof(br_sgd_options), .lr = 1e-3
BR_API br_sgd_options br_sgd_defaults(void);

typedef struct br_rmsprop_options {
    size_t struct_size;
    double lr;
    double alpha;
    double eps;
    double weight_decay;
    double momentum;
    bool centered; /* divide by the standard deviation instead of the root mean square */
    bool maximize;
} br_rmsprop_options;
#define br_rmsprop_default_fields \
    .struct_size = sizeof(br_rmsprop_options), .lr = 1e-2, .alpha = 0.99, .eps = 1e-8
BR_API br_rmsprop_options br_rmsprop_defaults(void);

typedef struct br_adagrad_options {
    size_t struct_size;
    double lr;
    double lr_decay;
    double weight_decay;
    double initial_accumulator_value;
    double eps;
    bool maximize;
} br_adagrad_options;
#define br_adagrad_default_fields \
    .struct_size = sizeof(br_adagrad_options), .lr = 1e-2, .eps = 1e-10
BR_API br_adagrad_options br_adagrad_defaults(void);

typedef struct br_adadelta_options {
    size_t struct_size;
    double lr;
    double rho; /* decay of both averages of squares */
    double eps;
    double weight_decay;
    bool maximize;
} br_adadelta_options;
#define br_adadelta_default_fields \
    .struct_size = sizeof(br_adadelta_options), .lr = 1, .rho = 0.9, .eps = 1e-6
BR_API br_adadelta_options br_adadelta_defaults(void);

typedef struct br_adamax_options {
    size_t struct_size;
    double lr;
    double beta1;
    double beta2;
    double eps;
    double weight_decay;
    bool maximize;
} br_adamax_options;
#define br_adamax_default_fields \
    .struct_size = sizeof(br_adamax_options), .lr = 2e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
BR_API br_adamax_options br_adamax_defaults(void);

typedef struct br_nadam_options {
    size_t struct_size;
    double lr;
    double beta1;
    double beta2;
    double eps;
    double weight_decay;
    double momentum_decay;
    bool decoupled_weight_decay; /* apply it to the parameter itself, as AdamW does */
    bool maximize;
} br_nadam_options;
#define br_nadam_default_fields                                                        \
    .struct_size = sizeof(br_nadam_options), .lr = 2e-3, .beta1 = 0.9, .beta2 = 0.999, \
    .eps = 1e-8, .momentum_decay = 4e-3
BR_API br_nadam_options br_nadam_defaults(void);

typedef struct br_radam_options {
    size_t struct_size;
    double lr;
    double beta1;
    double beta2;
    double eps;
    double weight_decay;
    bool decoupled_weight_decay;
    bool maximize;
} br_radam_options;
#define br_radam_default_fields \
    .struct_size = sizeof(br_radam_options), .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8
BR_API br_radam_options br_radam_defaults(void);

typedef struct br_adafactor_options {
    size_t struct_size;
    double lr;          /* the largest relative step */
    double beta2_decay; /* the squares of step t have the weight t^beta2_decay in their average */
    double eps1;        /* of the root of the squares; BR_NONE_F64: the dtype's epsilon */
    double eps2;        /* least size of a parameter that steps are relative to */
    double d;           /* largest root mean square of an update */
    double weight_decay;
    bool maximize;
} br_adafactor_options;
#define br_adafactor_default_fields                                               \
    .struct_size = sizeof(br_adafactor_options), .lr = 1e-2, .beta2_decay = -0.8, \
    .eps1 = BR_NONE_F64, .eps2 = 1e-3, .d = 1
BR_API br_adafactor_options br_adafactor_defaults(void);

typedef struct br_rprop_options {
    size_t struct_size;
    double lr;        /* the first step size of each element */
    double eta_minus; /* PyTorch's etas: factors of a step size */
    double eta_plus;
    double step_size_min; /* PyTorch's step_sizes */
    double step_size_max;
    bool maximize;
} br_rprop_options;
#define br_rprop_default_fields                                                             \
    .struct_size = sizeof(br_rprop_options), .lr = 1e-2, .eta_minus = 0.5, .eta_plus = 1.2, \
    .step_size_min = 1e-6, .step_size_max = 50
BR_API br_rprop_options br_rprop_defaults(void);

typedef struct br_asgd_options {
    size_t struct_size;
    double lr;
    double lambd; /* decay of the parameters and of the rate */
    double alpha; /* the rate of step t is lr / (1 + lambd lr t)^alpha */
    double t0;    /* averaging begins after this step */
    double weight_decay;
    bool maximize;
} br_asgd_options;
#define br_asgd_default_fields \
    .struct_size = sizeof(br_asgd_options), .lr = 1e-2, .lambd = 1e-4, .alpha = 0.75, .t0 = 1e6
BR_API br_asgd_options br_asgd_defaults(void);

/* The defaults are the paper's. */
typedef struct br_lion_options {
    size_t struct_size;
    double lr; /* the size of each element's step */
    double beta1;
    double beta2;
    double weight_decay; /* applied to the parameter itself */
    bool maximize;
} br_lion_options;
#define br_lion_default_fields \
    .struct_size = sizeof(br_lion_options), .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99
BR_API br_lion_options br_lion_defaults(void);

typedef struct br_sparse_adam_options {
    size_t struct_size;
    double lr;
    double beta1;
    double beta2;
    double eps;
    bool maximize;
} br_sparse_adam_options;
#define br_sparse_adam_default_fields                                                        \
    .struct_size = sizeof(br_sparse_adam_options), .lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, \
    .eps = 1e-8
BR_API br_sparse_adam_options br_sparse_adam_defaults(void);

/* How L-BFGS chooses the size of a step along its direction. */
typedef enum br_line_search {
    BR_LINE_SEARCH_NONE,         /* lr */
    BR_LINE_SEARCH_STRONG_WOLFE, /* several sizes are tried; PyTorch's "strong_wolfe" */
} br_line_search;

typedef struct br_lbfgs_options {
    size_t struct_size;
    double lr;
    int64_t max_iter;        /* iterations of a step */
    int64_t max_eval;        /* evaluations of the loss in a step; BR_NONE: max_iter * 5 / 4 */
    double tolerance_grad;   /* a step ends if no element of the gradient is larger */
    double tolerance_change; /* and if the loss, or all parameters, change by less */
    int64_t history_size;    /* changes of the gradient that are kept */
    br_line_search line_search_fn;
    bool maximize;
} br_lbfgs_options;
#define br_lbfgs_default_fields                                                            \
    .struct_size = sizeof(br_lbfgs_options), .lr = 1, .max_iter = 20, .max_eval = BR_NONE, \
    .tolerance_grad = 1e-7, .tolerance_change = 1e-9, .history_size = 100
BR_API br_lbfgs_options br_lbfgs_defaults(void);

/* The factor by which Muon multiplies the learning rate for a matrix of r rows and c columns. */
typedef enum br_muon_adjust {
    BR_MUON_ORIGINAL,           /* sqrt(max(1, r / c)) */
    BR_MUON_MATCH_RMS_ADAMW,    /* 0.2 sqrt(max(r, c)) */
    BR_MUON_SPECTRAL_UNCLAMPED, /* sqrt(r / c) */
} br_muon_adjust;

/* Coefficients of the Newton-Schulz iteration x <- a x + (b G + c G G) x with G = x x^T. */
typedef struct br_muon_coefficients {
    double a, b, c;
} br_muon_coefficients;

typedef struct br_muon_options {
    size_t struct_size;
    double lr;
    double weight_decay;
    double momentum;
    bool nesterov;
    br_muon_coefficients ns_coefficients;
    double eps;
    int64_t ns_steps;
    br_muon_adjust adjust_lr;
} br_muon_options;
#define br_muon_default_fields                                                                 \
    .struct_size = sizeof(br_muon_options), .lr = 1e-3, .weight_decay = 0.1, .momentum = 0.95, \
    .nesterov = true, .ns_coefficients = { 3.4445, -4.7750, 2.0315 }, .eps = 1e-7, .ns_steps = 5
BR_API br_muon_options br_muon_defaults(void);

/* Creates Adam, Kingma and Ba, 2015, with eps and L2 weight decay as in PyTorch. `parameters`
 * becomes the first group, and the list may be freed afterwards. An empty list is an error; if it
 * is NULL, groups must be added before the first step. `options` may be NULL. The same holds for
 * the functions below. */
BR_API br_optim *br_adam_new(const br_named_list *parameters, const br_adam_options *options);
/* Creates stochastic gradient descent with momentum as in PyTorch. */
BR_API br_optim *br_sgd_new(const br_named_list *parameters, const br_sgd_options *options);
/* Creates AdamW, Loshchilov and Hutter, 2019, which applies weight decay to the parameter itself
 * instead of to the gradient. */
BR_API br_optim *br_adamw_new(const br_named_list *parameters, const br_adamw_options *options);
/* Creates RMSprop, Hinton, 2012. For the centered variant, see Graves, 2013. */
BR_API br_optim *br_rmsprop_new(const br_named_list *parameters, const br_rmsprop_options *options);
/* Creates Adagrad, Duchi, Hazan and Singer, 2011. */
BR_API br_optim *br_adagrad_new(const br_named_list *parameters, const br_adagrad_options *options);
/* Creates Adadelta, Zeiler, 2012. */
BR_API br_optim *br_adadelta_new(const br_named_list *parameters,
                                 const br_adadelta_options *options);
/* Creates Adamax, Kingma and Ba, 2015: Adam by the largest gradients instead of their squares. */
BR_API br_optim *br_adamax_new(const br_named_list *parameters, const br_adamax_options *options);
/* Creates NAdam, Dozat, 2016: Adam with Nesterov momentum. */
BR_API br_optim *br_nadam_new(const br_named_list *parameters, const br_nadam_options *options);
/* Creates RAdam, Liu et al., 2019: Adam that uses the variance only when enough steps are known. */
BR_API br_optim *br_radam_new(const br_named_list *parameters, const br_radam_options *options);
/* Creates Adafactor, Shazeer and Stern, 2018, whose state of a matrix is a vector of its rows and
 * one of its columns. */
BR_API br_optim *br_adafactor_new(const br_named_list *parameters,
                                  const br_adafactor_options *options);
/* Creates Rprop, Riedmiller and Braun, 1993, for gradients of the whole data: it uses their signs
 * only. */
BR_API br_optim *br_rprop_new(const br_named_list *parameters, const br_rprop_options *options);
/* Creates Muon, Jordan et al., 2024, like torch.optim.Muon. All parameters must be matrices. The
 * iteration runs in the parameters' precision; PyTorch's runs in bfloat16. */
BR_API br_optim *br_muon_new(const br_named_list *parameters, const br_muon_options *options);
/* Creates ASGD, Polyak and Juditsky, 1992, which averages the parameters in the state "ax". */
BR_API br_optim *br_asgd_new(const br_named_list *parameters, const br_asgd_options *options);
/* Creates Lion, Chen et al., 2023, which moves each element by lr in the direction of its sign of
 * an average gradient. torch.optim lacks it. */
BR_API br_optim *br_lion_new(const br_named_list *parameters, const br_lion_options *options);
/* Creates Adam for embeddings: a step changes only the rows, the slices along the first dimension,
 * whose gradient is not all zeros, and their averages. The numbers are those of
 * torch.optim.SparseAdam for a sparse gradient of these rows. The rows are changed in place, also
 * if the step fails for another parameter. */
BR_API br_optim *br_sparse_adam_new(const br_named_list *parameters,
                                    const br_sparse_adam_options *options);
/* Creates L-BFGS, Liu and Nocedal, 1989, for losses of the whole data. It needs
 * br_optim_step_closure(), has one group, and keeps the state of all parameters with the first one:
 * two vectors and 2 history_size more. The parameters have one dtype and one device. */
BR_API br_optim *br_lbfgs_new(const br_named_list *parameters, const br_lbfgs_options *options);
/* Like the functions above, for all parameters of a module. */
BR_API br_optim *br_adam(br_module *module, const br_adam_options *options);
BR_API br_optim *br_sgd(br_module *module, const br_sgd_options *options);
BR_API br_optim *br_adamw(br_module *module, const br_adamw_options *options);
BR_API br_optim *br_rmsprop(br_module *module, const br_rmsprop_options *options);
BR_API br_optim *br_adagrad(br_module *module, const br_adagrad_options *options);
BR_API br_optim *br_muon(br_module *module, const br_muon_options *options);
BR_API br_optim *br_adadelta(br_module *module, const br_adadelta_options *options);
BR_API br_optim *br_adamax(br_module *module, const br_adamax_options *options);
BR_API br_optim *br_nadam(br_module *module, const br_nadam_options *options);
BR_API br_optim *br_radam(br_module *module, const br_radam_options *options);
BR_API br_optim *br_rprop(br_module *module, const br_rprop_options *options);
BR_API br_optim *br_adafactor(br_module *module, const br_adafactor_options *options);
BR_API br_optim *br_asgd(br_module *module, const br_asgd_options *options);
BR_API br_optim *br_lion(br_module *module, const br_lion_options *options);
BR_API br_optim *br_sparse_adam(br_module *module, const br_sparse_adam_options *options);
BR_API br_optim *br_lbfgs(br_module *module, const br_lbfgs_options *options);
BR_API void br_optim_free(br_optim *optim);

#ifdef __cplusplus
}
#endif

#endif
