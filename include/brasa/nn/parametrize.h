/* brasa/nn/parametrize.h - parameters that are computed from other tensors, like
 * torch.nn.utils.parametrize; part of brasa/nn.h. */
#ifndef BRASA_NN_PARAMETRIZE_H
#define BRASA_NN_PARAMETRIZE_H

#include <brasa/nn/module.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_parametrization_options {
    size_t struct_size;
    int n_originals; /* number of tensors that the parameter is computed from */
    /* Computes the parameter from the originals. NULL: br_forward(), for one original. */
    br_module_run_fn forward;
    /* Computes originals from which `forward` computes `value`, as tensors of the innermost scope.
     * Returns false on error. NULL: the only original is the value itself. */
    bool (*right_inverse)(void *self, br_tensor *value, br_tensor **originals);
} br_parametrization_options;
#define br_parametrization_default_fields \
    .struct_size = sizeof(br_parametrization_options), .n_originals = 1
BR_API br_parametrization_options br_parametrization_defaults(void);

/* Parametrizes the parameter (or buffer) `name` of the module, whose field is `*field`, by the
 * module `parametrization`. Each forward of the module, from br_enter() to br_leave(), starts by
 * computing the parameter and storing it in the field. Outside a forward, the field is NULL. The
 * originals are optimized, saved and loaded in place of the parameter:
 * "parametrizations.<name>.original" or, if there are several, "...original0", "...original1". A
 * single original is the parameter's own tensor, so optimizers need no change. The module takes
 * ownership of the parametrization, which becomes "parametrizations.<name>.0", even if registration
 * fails.
 *
 * A second parametrization of the same parameter is applied to the result of the first; it must use
 * the default options. `options` may be NULL. A parametrization must not change the parameter's
 * shape or dtype. */
BR_API bool br_register_parametrization(br_module *module, const char *name, br_tensor **field,
                                        void *parametrization,
                                        const br_parametrization_options *options);
/* Like br_register_parametrization(), for a field that has the parameter's name. */
#define br_parametrize(self, field, parametrization, options) \
    br_register_parametrization(br_base(self), #field, &(self)->field, (parametrization), (options))
/* Returns true if that parameter of the module is parametrized or, if `name` is NULL, if any is. */
BR_API bool br_is_parametrized(const br_module *module, const char *name);
/* Computes the value that a forward would now store in the field, and records the computation. */
BR_API br_tensor *br_parametrized_value(br_module *module, const char *name);
/* Makes the parameter an ordinary one again; it becomes the module's last parameter. With
 * `leave_parametrized`, its value is the computed value, else its single original. On failure,
 * returns false and sets an error; the parameter stays parametrized. */
BR_API bool br_remove_parametrizations(br_module *module, const char *name,
                                       bool leave_parametrized);

/* Parametrizes a parameter as g v / |v|, where g is "original0" and v is "original1". A norm is
 * computed for each index of dimension `dim` or, if `dim` is -1, of the whole tensor. Salimans and
 * Kingma, 2016; like torch.nn.utils.parametrizations.weight_norm, whose default `dim` is 0. */
BR_API bool br_weight_norm(br_module *module, const char *name, br_tensor **field, int64_t dim);

typedef struct br_spectral_norm_options {
    size_t struct_size;
    int64_t n_power_iterations; /* in each forward in training mode */
    double eps;
    int64_t dim; /* dimension of the rows; BR_NONE: 0, or 1 for a transposed convolution */
} br_spectral_norm_options;
#define br_spectral_norm_default_fields                                                     \
    .struct_size = sizeof(br_spectral_norm_options), .n_power_iterations = 1, .eps = 1e-12, \
    .dim = BR_NONE
BR_API br_spectral_norm_options br_spectral_norm_defaults(void);
/* Parametrizes a parameter, viewed as a matrix whose rows are dimension `dim`, by dividing it by
 * its largest singular value, which is approximated by power iteration. Miyato et al., 2018; like
 * torch.nn.utils.parametrizations.spectral_norm. `options` may be NULL. */
BR_API bool br_spectral_norm(br_module *module, const char *name, br_tensor **field,
                             const br_spectral_norm_options *options);

#ifdef __cplusplus
}
#endif
#endif
