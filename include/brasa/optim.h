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
    bool amsgrad;  /* divide by the largest mean square so far */
    bool maximize; /* go up the gradient; so for the others */
} br_adam_options;

typedef struct br_sgd_options {
    double lr; /* 0: 1e-3 */
    double momentum;
    double dampening;
    double weight_decay;
    bool nesterov, maximize;
} br_sgd_options;

typedef struct br_rmsprop_options {
    double lr;    /* 0: 1e-2 */
    double alpha; /* 0: 0.99 */
    double eps;   /* 0: 1e-8 */
    double weight_decay;
    double momentum;
    bool centered; /* divide by the deviation, not by the root of the mean square */
    bool maximize;
} br_rmsprop_options;

typedef struct br_adagrad_options {
    double lr; /* 0: 1e-2 */
    double lr_decay;
    double weight_decay;
    double initial_accumulator_value;
    double eps; /* 0: 1e-10 */
    bool maximize;
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

/* ---- Learning rate schedulers (optim/schedule*.c, and a file each for the larger ones) ------- */

/* A scheduler sets the rates of an optimizer's groups, as torch.optim.lr_scheduler: making one sets
 * the rate of the first step, br_scheduler_step() after each br_optim_step() the next one. Rates
 * are worked out as PyTorch's step() does, most from the rate before; so several schedulers of one
 * optimizer multiply. Groups are those the optimizer has when the scheduler is made. The optimizer
 * must outlive it. `epoch` counts the steps, from 0. */
typedef struct br_scheduler br_scheduler;

/* The rate is multiplied by gamma every step_size epochs; ... at each of the n milestones; ... in
 * every epoch. */
BR_API br_scheduler *br_step_lr(br_optim *optim, int64_t step_size, double gamma);
BR_API br_scheduler *br_multi_step_lr(br_optim *optim, int n, const int64_t *milestones,
                                      double gamma);
BR_API br_scheduler *br_exponential_lr(br_optim *optim, double gamma);
/* The rate times `factor` until epoch total_iters; times a factor that goes from start_factor to
 * end_factor in as many epochs. Factors are at most 1. */
BR_API br_scheduler *br_constant_lr(br_optim *optim, double factor, int64_t total_iters);
BR_API br_scheduler *br_linear_lr(br_optim *optim, double start_factor, double end_factor,
                                  int64_t total_iters);
/* Half a cosine from the rate to eta_min in t_max epochs; Loshchilov and Hutter, 2017. With warm
 * restarts it begins again after t_0 epochs, then t_0 t_mult, t_0 t_mult^2, ... */
BR_API br_scheduler *br_cosine_annealing_lr(br_optim *optim, int64_t t_max, double eta_min);
BR_API br_scheduler *br_cosine_annealing_warm_restarts(br_optim *optim, int64_t t_0, int64_t t_mult,
                                                       double eta_min);
/* The rate that the group had at first times what the function gives. */
typedef double (*br_lr_lambda)(int64_t epoch, int group, void *context);
BR_API br_scheduler *br_lambda_lr(br_optim *optim, br_lr_lambda lambda, void *context);

typedef struct br_one_cycle_options {
    const double *max_lrs; /* one a group; NULL: max_lr for all */
    double max_lr;
    int64_t total_steps;
    double pct_start; /* part of the steps in which the rate grows; 0: 0.3 */
    bool linear;      /* straight lines, not cosines */
    bool keep_momentum;
    double base_momentum;    /* 0: 0.85 */
    double max_momentum;     /* 0: 0.95 */
    double div_factor;       /* the first rate is max_lr / div_factor; 0: 25 */
    double final_div_factor; /* the last one is the first / final_div_factor; 0: 1e4 */
    bool three_phase;        /* back to the first rate before it falls to the last */
} br_one_cycle_options;
/* Smith and Topin, 2018: the rate grows to max_lr, then falls; momentum, or Adam's beta1, goes the
 * other way, unless keep_momentum. */
BR_API br_scheduler *br_one_cycle_lr(br_optim *optim, const br_one_cycle_options *options);

typedef struct br_plateau_options {
    bool max;         /* the metric is to grow, not to fall */
    double factor;    /* 0: 0.1 */
    int64_t patience; /* epochs without progress that are borne; 0: 10, -1: none */
    double threshold; /* progress is more than this; 0: 1e-4 */
    bool absolute;    /* ... in itself, not in parts of the best value */
    int64_t cooldown; /* epochs after a reduction in which none counts */
    double min_lr;
    double eps; /* smaller reductions are left out; 0: 1e-8 */
} br_plateau_options;
/* Multiplies the rate by `factor` when the metric makes no progress; stepped by
 * br_scheduler_step_metric(). `options` may be NULL. */
BR_API br_scheduler *br_reduce_lr_on_plateau(br_optim *optim, const br_plateau_options *options);

/* n schedulers of the optimizer one after the other: number i + 1 takes over, at its epoch 0, at
 * epoch milestones[i]. It owns them from now on, also if it fails. Plateaus and sequences cannot be
 * part of one. */
BR_API br_scheduler *br_sequential_lr(br_optim *optim, int n, br_scheduler *const *schedulers,
                                      const int64_t *milestones);

BR_API void br_scheduler_free(br_scheduler *scheduler);
/* Sets the rates of the next epoch. On error rates and scheduler stay as they were. */
BR_API bool br_scheduler_step(br_scheduler *scheduler);
BR_API bool br_scheduler_step_metric(br_scheduler *scheduler, double metric);
/* The rate that the scheduler last set for a group; NaN and an error if there is no such group. */
BR_API double br_scheduler_last_lr(const br_scheduler *scheduler, int group);
BR_API int64_t br_scheduler_last_epoch(const br_scheduler *scheduler);
/* What a scheduler of the same kind and arguments needs to go on, as named tensors that the list
 * keeps alive; br_checkpoint has a place for it. Loading sets the optimizer's rates, too; a list
 * that does not fit is an error and changes nothing. */
BR_API br_named_list *br_scheduler_state_dict(const br_scheduler *scheduler);
BR_API bool br_scheduler_load_state_dict(br_scheduler *scheduler, const br_named_list *state);

/* ---- Averages of weights (optim/averaged.c) -------------------------------------------------- */

/* Averages of a model's parameters over the steps, as swa_utils.AveragedModel: the first update
 * copies, later ones give decay average + (1 - decay) parameter, or, with decay 0, the plain mean.
 */
typedef struct br_averaged_model br_averaged_model;
BR_API br_averaged_model *br_averaged_model_new(br_module *model, double decay);
BR_API void br_averaged_model_free(br_averaged_model *averaged);
/* To be called after each step. */
BR_API bool br_averaged_model_update(br_averaged_model *averaged);
/* The averages under the parameters' names, for br_load_state_dict() into a model to evaluate; the
 * list is borrowed. */
BR_API const br_named_list *br_averaged_model_parameters(const br_averaged_model *averaged);
/* "n_averaged" and "module.<parameter>", to save and to load; tensors are borrowed. Loading copies;
 * what does not fit is an error and changes nothing. */
BR_API br_named_list *br_averaged_model_state_dict(const br_averaged_model *averaged);
BR_API bool br_averaged_model_load_state_dict(br_averaged_model *averaged,
                                              const br_named_list *state);

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Scales the gradients so that their total norm is at most max_norm, and returns the norm before
 * (f64 sum of squares); -1 and an error if a gradient is not finite. norm_type 2 or INFINITY. */
BR_API double br_clip_grad_norm_(const br_named_list *parameters, double max_norm,
                                 double norm_type);
/* Brings every element of the gradients into [-clip_value, clip_value]; a NaN stays one. */
BR_API bool br_clip_grad_value_(const br_named_list *parameters, double clip_value);

#ifdef __cplusplus
}
#endif
#endif
