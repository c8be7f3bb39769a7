/* brasa/optim.h - optimizers that mirror torch.optim. */
#ifndef BRASA_OPTIM_H
#define BRASA_OPTIM_H

#include <brasa/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An optimizer holds groups of parameters, each with its options, and state for each parameter. It
 * holds a reference to its parameters. */
typedef struct br_optim br_optim;

typedef struct br_adam_options {
    double lr;    /* 0: 1e-3 */
    double beta1; /* 0: 0.9 */
    double beta2; /* 0: 0.999 */
    double eps;   /* 0: 1e-8 */
    double weight_decay;
    bool amsgrad; /* divide by the largest mean square so far */
} br_adam_options;

typedef struct br_sgd_options {
    double lr; /* 0: 1e-3 */
    double momentum;
    double dampening;
    double weight_decay;
    bool nesterov;
} br_sgd_options;

typedef struct br_rmsprop_options {
    double lr;    /* 0: 1e-2 */
    double alpha; /* 0: 0.99 */
    double eps;   /* 0: 1e-8 */
    double weight_decay;
    double momentum;
    bool centered; /* divide by the deviation, not by the root of the mean square */
} br_rmsprop_options;

typedef struct br_adagrad_options {
    double lr; /* 0: 1e-2 */
    double lr_decay;
    double weight_decay;
    double initial_accumulator_value;
    double eps; /* 0: 1e-10 */
} br_adagrad_options;

/* What multiplies Muon's rate for a matrix of r rows and c columns. */
typedef enum br_muon_adjust {
    BR_MUON_ORIGINAL,           /* sqrt(max(1, r / c)) */
    BR_MUON_MATCH_RMS_ADAMW,    /* 0.2 sqrt(max(r, c)) */
    BR_MUON_SPECTRAL_UNCLAMPED, /* sqrt(r / c) */
} br_muon_adjust;

typedef struct br_muon_options {
    double lr; /* 0: 1e-3 */
    double weight_decay;
    double momentum; /* 0: 0.95 */
    bool no_nesterov;
    double ns_coefficients[3]; /* all 0: 3.4445, -4.7750, 2.0315 */
    double eps;                /* 0: 1e-7 */
    int64_t ns_steps;          /* 0: 5 */
    br_muon_adjust adjust_lr;
} br_muon_options;

/* Adam, Kingma and Ba, 2015, with PyTorch's placement of eps and its L2 weight decay. `parameters`
 * are the first group; they are borrowed, the list may be freed afterwards. NULL makes an optimizer
 * without groups. `options` may be NULL. */
BR_API br_optim *br_adam_new(const br_named_list *parameters, const br_adam_options *options);
/* Stochastic gradient descent with momentum as PyTorch has it. */
BR_API br_optim *br_sgd_new(const br_named_list *parameters, const br_sgd_options *options);
/* AdamW, Loshchilov and Hutter, 2019: the decay shrinks the parameter itself. It is 1e-2 where
 * `options` is NULL; options that are given say it themselves, 0 is none. */
BR_API br_optim *br_adamw_new(const br_named_list *parameters, const br_adam_options *options);
/* RMSprop, Hinton, 2012; centered: Graves, 2013. */
BR_API br_optim *br_rmsprop_new(const br_named_list *parameters, const br_rmsprop_options *options);
/* Adagrad, Duchi, Hazan and Singer, 2011. */
BR_API br_optim *br_adagrad_new(const br_named_list *parameters, const br_adagrad_options *options);
/* Muon, Jordan et al., 2024, as torch.optim.Muon, for matrices only. Its iteration runs in the
 * parameters' precision where PyTorch's runs in bfloat16. The decay is 0.1 where `options` is NULL;
 * options that are given say it themselves. */
BR_API br_optim *br_muon_new(const br_named_list *parameters, const br_muon_options *options);
/* The same for every parameter of a module. */
BR_API br_optim *br_adam(br_module *module, const br_adam_options *options);
BR_API br_optim *br_sgd(br_module *module, const br_sgd_options *options);
BR_API br_optim *br_adamw(br_module *module, const br_adam_options *options);
BR_API br_optim *br_rmsprop(br_module *module, const br_rmsprop_options *options);
BR_API br_optim *br_adagrad(br_module *module, const br_adagrad_options *options);
BR_API br_optim *br_muon(br_module *module, const br_muon_options *options);
BR_API void br_optim_free(br_optim *optim);

/* Adds a group with options of its own, of the optimizer's kind (NULL: those it was made with);
 * returns the group's number, -1 on error. A parameter may be in one group only. */
BR_API int br_optim_add_group(br_optim *optim, const br_named_list *parameters,
                              const void *options);
/* The parameters of `all` whose name matches (fnmatch) any of the globs, or, with `invert`, none:
 * for weight decay that leaves out "*.bias" and norms. The caller frees the list. */
BR_API br_named_list *br_named_list_filter(const br_named_list *all, int n_globs,
                                           const char *const *globs, bool invert);
BR_API int br_optim_num_groups(const br_optim *optim);
/* Learning rate of a group; group -1 means every group (the first, for reading). */
BR_API void br_optim_set_lr(br_optim *optim, int group, double lr);
BR_API double br_optim_get_lr(const br_optim *optim, int group);

/* Drops the gradients of all parameters. */
BR_API void br_optim_zero_grad(br_optim *optim);
/* One update of every parameter that has a gradient. Refuses, and changes nothing, while an error
 * is pending. */
BR_API bool br_optim_step(br_optim *optim);

/* State by name ("<parameter>.exp_avg", ...), to save and to load; tensors are borrowed from the
 * optimizer. Loading copies; names that do not fit are an error and leave it as it was. */
BR_API br_named_list *br_optim_state_dict(br_optim *optim);
BR_API bool br_optim_load_state_dict(br_optim *optim, const br_named_list *state);

/* Scales the gradients so that their total norm is at most max_norm, and returns the norm before
 * (f64 sum of squares); -1 and an error if a gradient is not finite. norm_type 2 or INFINITY. */
BR_API double br_clip_grad_norm_(const br_named_list *parameters, double max_norm,
                                 double norm_type);

#ifdef __cplusplus
}
#endif
#endif
