/* backends/optim.h - work on all parameters of a model, or on all their gradients: steps of
 * optimizers, norms and clipping.
 *
 * A model has hundreds of tensors, most of them small, so an entry of a backend gets all of them in
 * one call. They are contiguous. */
#ifndef BR_BACKEND_OPTIM_H
#define BR_BACKEND_OPTIM_H

#include <brasa/tensor.h>

/* Scratch memory of a backend for one tensor of a call. The caller provides it, so that a step need
 * not allocate memory. */
typedef struct br_loop_span {
    int64_t start, numel;
} br_loop_span;

/* ---- Updates --------------------------------------------------------------------------------- */

/* How an update computes the parameter and its state from the gradient; the formulas are in
 * backends/cpu/optim/optim.h. The states of each rule are listed in order; a state that the options
 * do not need is NULL. */
typedef enum br_update_rule {
    BR_UPDATE_SGD,      /* momentum buffer */
    BR_UPDATE_ADAM,     /* exp_avg, exp_avg_sq, max_exp_avg_sq */
    BR_UPDATE_RMSPROP,  /* square_avg, grad_avg, momentum buffer */
    BR_UPDATE_ADAGRAD,  /* sum */
    BR_UPDATE_MUON,     /* momentum buffer, direction; the direction is only read */
    BR_UPDATE_ADADELTA, /* square_avg, acc_delta */
    BR_UPDATE_ADAMAX,   /* exp_avg, exp_inf */
    BR_UPDATE_NADAM,    /* exp_avg, exp_avg_sq */
    BR_UPDATE_RADAM,    /* exp_avg, exp_avg_sq */
    BR_UPDATE_RPROP,    /* prev, step_size */
    BR_UPDATE_ASGD,     /* ax */
    BR_UPDATE_LION,     /* exp_avg */
    BR_UPDATE_HOST,     /* a program's function updates elements in the host's memory */
} br_update_rule;

typedef struct br_sgd_args {
    double lr, momentum, dampening, weight_decay;
    bool nesterov, maximize;
    bool first; /* the buffer is not initialized yet */
} br_sgd_args;

typedef struct br_adam_args {
    double beta1, beta2, eps, weight_decay;
    double keep;      /* decoupled weight decay: factor applied to the parameter first */
    double step_size; /* lr / (1 - beta1^t) */
    double bias_correction2_sqrt; /* sqrt(1 - beta2^t) */
    bool amsgrad, maximize;
} br_adam_args;

typedef struct br_rmsprop_args {
    double lr, alpha, eps, weight_decay, momentum;
    bool centered, maximize;
} br_rmsprop_args;

typedef struct br_adagrad_args {
    double lr, eps, weight_decay;
    bool maximize;
} br_adagrad_args;

typedef struct br_muon_args {
    double keep, step_size; /* factors of the parameter and of the direction */
    double weight;          /* weight of the gradient in the momentum */
} br_muon_args;

typedef struct br_adadelta_args {
    double lr, rho, eps, weight_decay;
    bool maximize;
} br_adadelta_args;

typedef struct br_adamax_args {
    double beta1, beta2, eps, weight_decay;
    double step_size; /* lr / (1 - beta1^t) */
    bool maximize;
} br_adamax_args;

typedef struct br_nadam_args {
    double beta1, beta2, eps, weight_decay;
    double keep;             /* decoupled weight decay: factor applied to the parameter first */
    double bias_correction2; /* 1 - beta2^t */
    double grad_size;        /* lr (1 - mu_t) / (1 - mu_1 ... mu_t) */
    double mean_size;        /* lr mu_t+1 / (1 - mu_1 ... mu_t+1) */
    bool maximize;
} br_nadam_args;

typedef struct br_radam_args {
    double beta1, beta2, eps, weight_decay;
    double keep;      /* decoupled weight decay: factor applied to the parameter first */
    double step_size; /* lr / (1 - beta1^t) */
    double rectified; /* the rectification times sqrt(1 - beta2^t); 0: the variance is not used */
    bool maximize;
} br_radam_args;

typedef struct br_rprop_args {
    double eta_minus, eta_plus, step_size_min, step_size_max;
    bool maximize;
} br_rprop_args;

typedef struct br_asgd_args {
    double eta;  /* step size */
    double keep; /* factor of the parameter */
    double mu;   /* weight of the parameter in the average */
    double weight_decay;
    bool maximize;
} br_asgd_args;

typedef struct br_lion_args {
    double lr, beta1, beta2;
    double keep; /* factor of the parameter */
    bool maximize;
} br_lion_args;

/* A br_optim_work, a program's view of the update (brasa/optim.h). */
struct br_optim_work;

/* The function of a br_optim_kind, which updates elements from .. from + count - 1. Several threads
 * call it at once. */
typedef struct br_host_args {
    void (*update)(const struct br_optim_work *work, int64_t from, int64_t count);
    const struct br_optim_work *work;
} br_host_args;

enum { BR_UPDATE_STATES = 3 };

/* The arguments of a rule. */
typedef union br_update_args {
    br_sgd_args sgd;
    br_adam_args adam;
    br_rmsprop_args rmsprop;
    br_adagrad_args adagrad;
    br_muon_args muon;
    br_adadelta_args adadelta;
    br_adamax_args adamax;
    br_nadam_args nadam;
    br_radam_args radam;
    br_rprop_args rprop;
    br_asgd_args asgd;
    br_lion_args lion;
    br_host_args host;
} br_update_args;

/* The update of one parameter; brasa/optim.h declares the name. All tensors have the parameter's
 * shape, and its dtype except for storage dtypes: an update computes in f32 whatever each tensor
 * has. */
typedef struct br_update {
    br_update_rule rule;
    const br_tensor *param, *grad;
    const br_tensor *state[BR_UPDATE_STATES];
    /* Results of bf16 and f16 are rounded up or down at random. The random number of an element is
     * a function of the seed, the tensor's place in this struct and the element's place. */
    bool stochastic;
    uint64_t seed;
    br_update_args args;
} br_update;

#endif
