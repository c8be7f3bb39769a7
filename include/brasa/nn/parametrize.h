/* brasa/nn/parametrize.h - parameters that are computed from other tensors, as
 * torch.nn.utils.parametrize; part of brasa/nn.h. */
#ifndef BRASA_NN_PARAMETRIZE_H
#define BRASA_NN_PARAMETRIZE_H

#include <brasa/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_parametrization_options {
    int n_originals; /* tensors that the parameter is computed from; 0: one */
    /* The parameter, of the originals; NULL: br_forward(), which takes one. */
    br_module_run_fn forward;
    /* Gives, in originals[], what forward makes `value` from, as tensors of the innermost scope.
     * NULL: the value itself, where there is one. False on error. */
    bool (*right_inverse)(void *self, br_tensor *value, br_tensor **originals);
} br_parametrization_options;

/* Lets the module `parametrization` compute the module's parameter (or buffer) `name`, which is the
 * field `*field`: each forward of the module, from br_enter() to br_leave(), begins with it, and
 * finds the result in the field. Outside the field is NULL. What is optimized, saved and loaded are
 * the originals, "parametrizations.<name>.original" or, of several, "...original0", "...original1";
 * of one it is the parameter's own tensor, so optimizers need not be told. The module owns the
 * parametrization, "parametrizations.<name>.0", also where this fails.
 *
 * A second one of the same parameter, of one original and without right_inverse, is computed from
 * the first one's result. `options` may be NULL. Shape and dtype must stay. */
BR_API bool br_register_parametrization(br_module *module, const char *name, br_tensor **field,
                                        void *parametrization,
                                        const br_parametrization_options *options);
/* The same for a field that has the parameter's name. */
#define br_parametrize(self, field, parametrization, options) \
    br_register_parametrization(br_base(self), #field, &(self)->field, (parametrization), (options))
/* Whether that parameter of the module, or with NULL any, is computed. */
BR_API bool br_is_parametrized(const br_module *module, const char *name);
/* What a forward would find in the field now; recorded. */
BR_API br_tensor *br_parametrized_value(br_module *module, const char *name);
/* Makes the parameter one again, the last of the module's: of the value it has, or, unless
 * `leave_parametrized`, its one original as it is. False and an error if memory fails; all is then
 * as before. */
BR_API bool br_remove_parametrizations(br_module *module, const char *name,
                                       bool leave_parametrized);

/* The parameter as g v / |v|, g being "original0" and v "original1"; norms are taken for each index
 * of dimension `dim`, or, with -1, of the whole. Salimans and Kingma, 2016; as
 * torch.nn.utils.parametrizations.weight_norm, whose default is dimension 0. */
BR_API bool br_weight_norm(br_module *module, const char *name, br_tensor **field, int64_t dim);

typedef struct br_spectral_norm_options {
    int64_t n_power_iterations; /* of each forward in training; 0: 1 */
    double eps;                 /* 0: 1e-12 */
    int64_t dim;                /* of the rows: 0, but 1 for a transposed convolution */
} br_spectral_norm_options;
/* The parameter, as a matrix of the rows `dim`, divided by its largest singular value, which
 * follows by power iteration. Miyato et al., 2018; as
 * torch.nn.utils.parametrizations.spectral_norm. `options` may be NULL. */
BR_API bool br_spectral_norm(br_module *module, const char *name, br_tensor **field,
                             const br_spectral_norm_options *options);

#ifdef __cplusplus
}
#endif
#endif
