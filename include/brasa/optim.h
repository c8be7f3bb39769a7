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
} br_adam_options;

typedef struct br_sgd_options {
    double lr; /* 0: 1e-3 */
    double momentum;
    double dampening;
    double weight_decay;
    bool nesterov;
} br_sgd_options;

/* Adam, Kingma and Ba, 2015, with PyTorch's placement of eps and its L2 weight decay. `parameters`
 * are the first group; they are borrowed, the list may be freed afterwards. NULL makes an optimizer
 * without groups. `options` may be NULL. */
BR_API br_optim *br_adam_new(const br_named_list *parameters, const br_adam_options *options);
/* Stochastic gradient descent with momentum as PyTorch has it. */
BR_API br_optim *br_sgd_new(const br_named_list *parameters, const br_sgd_options *options);
/* The same for every parameter of a module. */
BR_API br_optim *br_adam(br_module *module, const br_adam_options *options);
BR_API br_optim *br_sgd(br_module *module, const br_sgd_options *options);
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
