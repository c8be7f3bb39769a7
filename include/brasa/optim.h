/* brasa/optim.h - optimizers that mirror torch.optim. */
#ifndef BRASA_OPTIM_H
#define BRASA_OPTIM_H

#include <brasa/nn.h>
#include <brasa/optim/optimizers.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Custom optimizers ----------------------------------------------------------------------- */

/* An optimizer is defined by a br_optim_kind: its options, the state it keeps for each parameter,
 * and the update of one parameter. The library's own optimizers are defined in the same way.
 * Groups, schedulers, gradient clipping, state dicts and checkpoints work with every kind. */

enum { BR_OPTIM_MAX_STATES = 8 };

/* A tensor that is kept for each parameter. */
typedef struct br_optim_state {
    const char *name; /* state dicts use "<parameter>.<name>" */
    /* Creates the state before the parameter's first step, with any shape and dtype, in a scope
     * without recording. Returns NULL without an error if the state is not needed with these
     * options. If `make` itself is NULL, the state is zeros of the parameter's shape and dtype. */
    br_tensor *(*make)(br_tensor *param, const void *options);
} br_optim_state;

/* Returns an i64 scalar 0, which stays in the host's memory. Use this function as `make` for a step
 * counter. */
BR_API br_tensor *br_optim_counter(br_tensor *param, const void *options);

/* A field of the options that state dicts hold, so that a loaded optimizer has the saved value. */
typedef struct br_optim_option {
    const char *name;
    /* BR_F64: one double or an array of them; BR_I64: an int64_t, an int or an enum; BR_BOOL. */
    br_dtype dtype;
    size_t offset, size; /* in bytes */
} br_optim_option;
/* The row of a field: BR_OPTIM_OPTION(my_options, beta2, BR_F64). */
#define BR_OPTIM_OPTION(type, field, dtype)                              \
    {                                                                    \
#        field, dtype, offsetof(type, field), sizeof(((type *)0)->field) \
    }

/* The data of one parameter in a step. */
typedef struct br_optim_work {
    const char *name;    /* of the parameter */
    const void *options; /* of its group */
    /* Contiguous, of one shape and dtype. With BR_HALF_MASTER, `param` is the f32 copy. */
    br_tensor *param, *grad;
    /* In the order of `states`. NULL: `make` has never created it. A state that other options
     * created stays when it is no longer needed. */
    br_tensor *const *state;
    bool fresh[BR_OPTIM_MAX_STATES]; /* the state was created for this step */
    bool first;                      /* no step has been made and no state loaded */
    void *args;                      /* args_size bytes, to pass data from `prepare` to `update` */
    br_tensor *new_param;            /* set by `step`; NULL: the value does not change */
    br_tensor *new_state[BR_OPTIM_MAX_STATES];
} br_optim_work;

/* The update of a parameter as a device makes it: private to the library. */
typedef struct br_update br_update;

/* Computes the loss for br_optim_step_closure(): drops the gradients with br_optim_zero_grad(),
 * runs the model and br_backward(), and returns the loss. */
typedef double (*br_closure)(void *context);

/* br_optim_step() first runs `step` or `prepare` for each parameter that has a gradient, then
 * changes all parameters. So if allocation fails for one parameter, no parameter has changed. A
 * kind has either `step` or `update`. */
typedef struct br_optim_kind {
    const char *name; /* begins error messages */
    /* The defaults: a struct that begins with `size_t struct_size; double lr;`. Options passed to
     * br_optim_new() and br_optim_add_group() have the same type. */
    const void *defaults;
    /* Name that messages give for the options, as in BR_OPTIONS(name, ...). NULL: the kind's
     * `name`. */
    const char *options_name;
    /* Returns false and sets an error if the options are invalid. NULL: all options are valid. */
    bool (*check)(const void *options);
    /* Returns false and sets an error if the kind cannot optimize the parameter. NULL: it can
     * optimize all parameters. */
    bool (*supports)(const br_named_tensor *parameter);
    /* Offset of the momentum in the options, such as offsetof(my_options, momentum). It must be a
     * double; br_one_cycle_lr() may change it. 0: there is no momentum. */
    size_t momentum;
    /* The fields of the options that state dicts hold besides lr; the row after the last field has
     * no name. NULL: state dicts hold lr and the momentum. */
    const br_optim_option *options;
    br_optim_state states[BR_OPTIM_MAX_STATES]; /* ends at the first entry without a name */

    /* Updates one parameter by tensor operations: sets work->new_param and work->new_state. Runs in
     * a scope of its own, without recording. It may also change param and state in place, which
     * needs less memory, but these changes remain if another parameter fails. */
    bool (*step)(br_optim_work *work);

    /* The alternative to `step` is a loop over elements in the host's memory, which updates several
     * parameters at once.
     * `prepare` computes work->args before the loop. It must change neither param nor state, and
     * may fail; it may also be NULL. */
    size_t args_size;
    bool (*prepare)(br_optim_work *work);
    /* Updates elements from .. from + count - 1 of param and of each state of the same shape.
     * Several threads call it at once, so it must not call functions that create tensors. */
    void (*update)(const br_optim_work *work, int64_t from, int64_t count);
    /* Called after all elements are updated, for example to count a step. May be NULL. */
    void (*finish)(br_optim_work *work);

    /* True if `update` computes each element of param and state only from the same element of
     * param, grad and state and from states of one element, which do not depend on the parameter.
     * An optimizer that is split among several processes may then cut parameters anywhere. */
    bool elementwise;

    /* Describes the update for the device that has the parameter, instead of `step` or `update`.
     * For the library's own kinds; NULL in a program's kind. */
    bool (*describe)(br_optim_work *work, br_update *update);
    /* The whole step of an optimizer that computes the loss several times; returns the first loss.
     * For the library's own kinds, instead of all the functions above; NULL in a program's kind. */
    double (*minimize)(br_optim *optim, br_closure closure, void *context);
} br_optim_kind;

/* Create an optimizer of this kind: br_optim_new() from a list of parameters, like br_adam_new(),
 * and br_optim_for() for all parameters of a module, like br_adam(). The kind must outlive the
 * optimizer. */
BR_API br_optim *br_optim_new(const br_optim_kind *kind, const br_named_list *parameters,
                              const void *options);
BR_API br_optim *br_optim_for(const br_optim_kind *kind, br_module *module, const void *options);
/* Returns the current options of a group, which have the kind's type; group -1 means the options of
 * new groups. Returns NULL and sets an error if there is no such group. */
BR_API const void *br_optim_group_options(const br_optim *optim, int group);
/* Replaces the options of a group. They have the kind's type and are copied. */
BR_API bool br_optim_set_group_options(br_optim *optim, int group, const void *options);
/* Returns the kind that the optimizer was created with. */
BR_API const br_optim_kind *br_optim_kind_of(const br_optim *optim);

/* ---- Groups and steps ------------------------------------------------------------------------ */

/* Adds a group with its own options, which have the type of the optimizer's kind; NULL means the
 * options that the optimizer was created with. Returns the group's number, or -1 on error. A
 * parameter can be in only one group. */
BR_API int br_optim_add_group(br_optim *optim, const br_named_list *parameters,
                              const void *options);
BR_API int br_optim_num_groups(const br_optim *optim);
/* Returns the parameters of a group, or of all groups if `group` is -1, under the names that the
 * state dict gives them. The list borrows the tensors; the caller frees it. */
BR_API br_named_list *br_optim_group_parameters(const br_optim *optim, int group);
/* Set and return the learning rate of a group. Group -1 means all groups and new groups when
 * setting, and the first group when reading. */
BR_API void br_optim_set_lr(br_optim *optim, int group, double lr);
BR_API double br_optim_get_lr(const br_optim *optim, int group);

/* How an optimizer updates parameters of bf16 and f16. An update is often smaller than half a unit
 * in the last place of such a parameter, so that rounding to the nearest loses it. */
typedef enum br_half_update {
    /* The new values of parameters and states are rounded to the nearest, as in PyTorch. */
    BR_HALF_NEAREST,
    /* Each parameter has a copy in f32, the state "master", which the optimizer updates; the
     * parameter is the rounded copy. All states are f32. If a program changes an element of the
     * parameter, the copy follows at the next step. */
    BR_HALF_MASTER,
    /* The new values of parameters and states are rounded up or down at random, so that the mean
     * of the result is the exact value. A step takes one number of the thread's generator. */
    BR_HALF_STOCHASTIC,
} br_half_update;
/* Sets how the optimizer updates parameters of bf16 and f16; other parameters are not affected.
 * Call it before the first step and before the state is loaded. Returns false and an error after
 * them; for BR_HALF_STOCHASTIC, if the optimizer's kind is a program's own; for BR_HALF_MASTER, if
 * its kind has BR_OPTIM_MAX_STATES states. */
BR_API bool br_optim_set_half_update(br_optim *optim, br_half_update how);
BR_API br_half_update br_optim_get_half_update(const br_optim *optim);

/* Drops the gradients of all parameters. */
BR_API void br_optim_zero_grad(br_optim *optim);
/* Updates every parameter that has a gradient. Fails and changes nothing if an error is pending. If
 * the number of tensors in the thread grows in 100 consecutive steps, by at least 1000 in total,
 * the error callback gets a warning, once per process, that the training loop lacks a scope. */
BR_API bool br_optim_step(br_optim *optim);
/* Makes a step of an optimizer that computes the loss several times, such as br_lbfgs(). With other
 * optimizers, it computes the loss once, and calls br_optim_step(). Each call of `closure` has a
 * scope of its own, which records gradients. Returns the loss before the step, or NaN with an error
 * if the closure or the step fails; the parameters may have changed then. */
BR_API double br_optim_step_closure(br_optim *optim, br_closure closure, void *context);

/* Return and load what torch.optim's state_dict() holds: the state of the parameters
 * ("<parameter>.exp_avg", ...), and each group's options ("param_groups.0.lr", ...) with
 * "param_groups.0.initial_lr" if a scheduler has been created. The tensors of the state are those
 * of the optimizer. Loading copies; a state that does not match is an error and changes nothing. A
 * state without options leaves the options as they are. */
BR_API br_named_list *br_optim_state_dict(br_optim *optim);
BR_API bool br_optim_load_state_dict(br_optim *optim, const br_named_list *state);

/* ---- Learning rate schedulers (optim/schedule*.c, and a file each for the larger ones) ------- */

/* A scheduler sets the learning rates of an optimizer's groups, like torch.optim.lr_scheduler.
 * Creating a scheduler sets the rate of the first step; calling br_scheduler_step() after each
 * br_optim_step() sets the next one. Rates are computed as in PyTorch's step(): most schedulers
 * compute a rate from the previous rate, so the effects of several schedulers multiply. A scheduler
 * uses the groups that the optimizer has when the scheduler is created. The optimizer must outlive
 * it. `epoch` counts the steps from 0. */
typedef struct br_scheduler br_scheduler;

/* Multiply the rate by gamma: br_step_lr() every step_size epochs, br_multi_step_lr() at each of
 * the n milestones, which may be in any order and repeated, br_exponential_lr() in every epoch. */
BR_API br_scheduler *br_step_lr(br_optim *optim, int64_t step_size, double gamma);
BR_API br_scheduler *br_multi_step_lr(br_optim *optim, int n, const int64_t *milestones,
                                      double gamma);
BR_API br_scheduler *br_exponential_lr(br_optim *optim, double gamma);
/* br_constant_lr() multiplies the rate by `factor` until epoch total_iters. br_linear_lr()
 * multiplies it by a factor that changes linearly from start_factor to end_factor over total_iters
 * epochs; with total_iters 0 the factor stays start_factor. Factors are at most 1. */
BR_API br_scheduler *br_constant_lr(br_optim *optim, double factor, int64_t total_iters);
BR_API br_scheduler *br_linear_lr(br_optim *optim, double start_factor, double end_factor,
                                  int64_t total_iters);
/* Decrease the rate to eta_min along half a cosine wave of t_max epochs; Loshchilov and Hutter,
 * 2017. With warm restarts, the cosine restarts after t_0 epochs, then after t_0 t_mult more, then
 * after t_0 t_mult^2 more, and so on. */
BR_API br_scheduler *br_cosine_annealing_lr(br_optim *optim, int64_t t_max, double eta_min);
BR_API br_scheduler *br_cosine_annealing_warm_restarts(br_optim *optim, int64_t t_0, int64_t t_mult,
                                                       double eta_min);
/* Sets the rate to the group's initial rate times the result of a function. */
typedef double (*br_lr_lambda)(int64_t epoch, int group, void *context);
BR_API br_scheduler *br_lambda_lr(br_optim *optim, br_lr_lambda lambda, void *context);

typedef struct br_one_cycle_options {
    size_t struct_size;
    const double *max_lrs; /* one per group; NULL: max_lr for all */
    double max_lr;
    int64_t total_steps;
    double pct_start;    /* fraction of the steps in which the rate increases */
    bool linear;         /* anneal linearly instead of by a cosine */
    bool cycle_momentum; /* decrease the momentum while the rate increases, and vice versa */
    double base_momentum;
    double max_momentum;
    double div_factor;       /* the initial rate is max_lr / div_factor */
    double final_div_factor; /* the final rate is the initial rate / final_div_factor */
    bool three_phase;        /* return to the initial rate before the final decrease */
} br_one_cycle_options;
#define br_one_cycle_default_fields                                                        \
    .struct_size = sizeof(br_one_cycle_options), .pct_start = 0.3, .cycle_momentum = true, \
    .base_momentum = 0.85, .max_momentum = 0.95, .div_factor = 25, .final_div_factor = 1e4
BR_API br_one_cycle_options br_one_cycle_defaults(void);
/* Creates the one-cycle policy, Smith and Topin, 2018: the rate increases to max_lr, then
 * decreases. Momentum, or Adam's beta1, changes in the opposite direction, unless cycle_momentum is
 * false. */
BR_API br_scheduler *br_one_cycle_lr(br_optim *optim, const br_one_cycle_options *options);

typedef enum br_plateau_mode {
    BR_PLATEAU_MIN, /* the metric should decrease */
    BR_PLATEAU_MAX, /* the metric should increase */
} br_plateau_mode;
typedef enum br_threshold_mode {
    BR_THRESHOLD_REL, /* the threshold is relative to the best value */
    BR_THRESHOLD_ABS, /* the threshold is a difference */
} br_threshold_mode;

typedef struct br_plateau_options {
    size_t struct_size;
    br_plateau_mode mode;
    double factor;
    int64_t patience; /* epochs without improvement that are tolerated */
    double threshold; /* minimum improvement */
    br_threshold_mode threshold_mode;
    int64_t cooldown; /* epochs after a reduction that do not count as bad */
    double min_lr;
    double eps; /* smaller reductions are skipped */
} br_plateau_options;
#define br_plateau_default_fields                                                                \
    .struct_size = sizeof(br_plateau_options), .factor = 0.1, .patience = 10, .threshold = 1e-4, \
    .eps = 1e-8
BR_API br_plateau_options br_plateau_defaults(void);
/* Multiplies the rate by `factor` when the metric stops improving. Call br_scheduler_step_metric()
 * to step this scheduler. `options` may be NULL. */
BR_API br_scheduler *br_reduce_lr_on_plateau(br_optim *optim, const br_plateau_options *options);

/* Runs n schedulers of the optimizer one after another: at epoch milestones[i], scheduler i + 1
 * takes over and begins at its own epoch 0. Takes ownership of the schedulers, even on failure.
 * Plateau and sequential schedulers cannot be part of a sequence. */
BR_API br_scheduler *br_sequential_lr(br_optim *optim, int n, br_scheduler *const *schedulers,
                                      const int64_t *milestones);

BR_API void br_scheduler_free(br_scheduler *scheduler);
/* Sets the rates of the next epoch. On error, the rates and the scheduler are unchanged. */
BR_API bool br_scheduler_step(br_scheduler *scheduler);
BR_API bool br_scheduler_step_metric(br_scheduler *scheduler, double metric);
/* Returns the rate that the scheduler last set for a group. Returns NaN and sets an error if there
 * is no such group. */
BR_API double br_scheduler_last_lr(const br_scheduler *scheduler, int group);
BR_API int64_t br_scheduler_last_epoch(const br_scheduler *scheduler);
/* Return and load the state that a scheduler with the same kind and arguments needs to continue.
 * The state is a list of named tensors, which the list owns; br_checkpoint can store it. As in
 * PyTorch, loading does not change the optimizer, whose own state holds the current rates: load
 * that, too, after creating the scheduler. A list that does not match is an error and changes
 * nothing. */
BR_API br_named_list *br_scheduler_state_dict(const br_scheduler *scheduler);
BR_API bool br_scheduler_load_state_dict(br_scheduler *scheduler, const br_named_list *state);

/* ---- Averages of weights (optim/averaged.c) -------------------------------------------------- */

/* Averages of a model's parameters over the steps, like swa_utils.AveragedModel. The first update
 * copies the parameters. Later updates set each average to decay * average + (1 - decay) *
 * parameter or, if decay is 0, to the mean over all updates. */
typedef struct br_averaged_model br_averaged_model;
BR_API br_averaged_model *br_averaged_model_new(br_module *model, double decay);
BR_API void br_averaged_model_free(br_averaged_model *averaged);
/* Updates the averages. Call it after each step. */
BR_API bool br_averaged_model_update(br_averaged_model *averaged);
/* Returns the averages under the parameters' names. To evaluate with the averages, load them into a
 * model with br_load_state_dict(). The list is borrowed. */
BR_API const br_named_list *br_averaged_model_parameters(const br_averaged_model *averaged);
/* Return and load the state, whose names are "n_averaged" and "module.<parameter>". The tensors are
 * borrowed. Loading copies; a state that does not match is an error and changes nothing. */
BR_API br_named_list *br_averaged_model_state_dict(const br_averaged_model *averaged);
BR_API bool br_averaged_model_load_state_dict(br_averaged_model *averaged,
                                              const br_named_list *state);

/* ---- Scaling of losses (optim/grad_scaler.c) ------------------------------------------------- */

/* A scaler for regions of mixed precision in f16, like torch.amp.GradScaler: gradients that f16
 * would round to 0 are kept, because the loss is multiplied by a scale before br_backward():
 *
 *     br_backward(br_grad_scaler_scale(scaler, loss));
 *     br_grad_scaler_step(scaler, optim, NULL);
 *     br_grad_scaler_update(scaler);
 *
 * A step whose gradients have an infinity or a NaN is skipped, and the scale becomes smaller. bf16
 * has the exponents of f32 and needs no scaler. */
typedef struct br_grad_scaler br_grad_scaler;
typedef struct br_grad_scaler_options {
    size_t struct_size;
    double init_scale;
    double growth_factor;    /* of the scale after growth_interval steps without an infinity */
    double backoff_factor;   /* of the scale after a step with an infinity or a NaN */
    int64_t growth_interval; /* in steps */
    bool enabled; /* false: losses and gradients are not scaled, and no step is skipped */
} br_grad_scaler_options;
#define br_grad_scaler_default_fields                                                       \
    .struct_size = sizeof(br_grad_scaler_options), .init_scale = 65536, .growth_factor = 2, \
    .backoff_factor = 0.5, .growth_interval = 2000, .enabled = true
BR_API br_grad_scaler_options br_grad_scaler_defaults(void);
BR_API br_grad_scaler *br_grad_scaler_new(const br_grad_scaler_options *options);
BR_API void br_grad_scaler_free(br_grad_scaler *scaler);
/* Returns the loss times the scale, in the dtype of the loss. Records the product. */
BR_API br_tensor *br_grad_scaler_scale(br_grad_scaler *scaler, br_tensor *loss);
/* Divides the gradients of the optimizer's parameters by the scale, so that they can be clipped
 * before the step. At most once in a step. Gradients of f16 are refused, as in PyTorch: the
 * parameters must be of f32. */
BR_API bool br_grad_scaler_unscale_(br_grad_scaler *scaler, br_optim *optim);
/* Divides the gradients, unless that is done, and calls br_optim_step(), unless a gradient has an
 * infinity or a NaN. *skipped, which may be NULL, tells which. If the step fails, the gradients
 * stay divided, and the next call only makes the step. */
BR_API bool br_grad_scaler_step(br_grad_scaler *scaler, br_optim *optim, bool *skipped);
/* Computes the scale of the next step. Call it once in a step, after the steps of all
 * optimizers. */
BR_API bool br_grad_scaler_update(br_grad_scaler *scaler);
/* Return and set the scale, which is 1 in a scaler that is not enabled. */
BR_API double br_grad_scaler_get_scale(const br_grad_scaler *scaler);
BR_API bool br_grad_scaler_set_scale(br_grad_scaler *scaler, double scale);
/* Return and load PyTorch's state: "scale", "growth_factor", "backoff_factor", "growth_interval"
 * and "_growth_tracker", the number of steps since the scale has changed. The list of a scaler that
 * is not enabled is empty. A list that does not match is an error and changes nothing. */
BR_API br_named_list *br_grad_scaler_state_dict(const br_grad_scaler *scaler);
BR_API bool br_grad_scaler_load_state_dict(br_grad_scaler *scaler, const br_named_list *state);

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Returns the norm of n tensors' norms, like torch.nn.utils.get_total_norm. norm_type is the order
 * of the norm: usually 2; INFINITY for the largest and -INFINITY for the smallest absolute value, 0
 * for the number of tensors that are not 0, or any other number. Sums are f64. If the norm is
 * infinite or NaN and error_if_nonfinite is true, sets an error. Returns -1 on error. */
BR_API double br_get_total_norm(int n, br_tensor *const *tensors, double norm_type,
                                bool error_if_nonfinite);
/* Scales the gradients so that their total norm is at most max_norm, like
 * torch.nn.utils.clip_grad_norm_. Returns the norm before scaling, -1 on error. Without
 * error_if_nonfinite, which is PyTorch's default, an infinite norm makes the gradients 0 or NaN,
 * and a norm of NaN makes all of them NaN. */
BR_API double br_clip_grad_norm_(const br_named_list *parameters, double max_norm, double norm_type,
                                 bool error_if_nonfinite);
/* Clamps every element of the gradients to [-clip_value, clip_value]; NaN stays NaN. */
BR_API bool br_clip_grad_value_(const br_named_list *parameters, double clip_value);
/* Like the functions above, for all parameters of a module. */
BR_API double br_module_clip_grad_norm_(br_module *module, double max_norm, double norm_type,
                                        bool error_if_nonfinite);
BR_API bool br_module_clip_grad_value_(br_module *module, double clip_value);

#ifdef __cplusplus
}
#endif
#endif
