/* brasa/tensor/options.h - how options are passed.
 *
 * Fill an option struct with BR_OPTIONS(), or start from the one that its defaults function
 * returns:
 *
 *     br_adam(module, BR_OPTIONS(br_adam, .lr = 0.01, .weight_decay = 0.1));
 *     br_adam(module, NULL);
 *
 *     br_adam_options options = br_adam_defaults();
 *     options.lr = 0.01;
 *     br_adam(module, &options);
 *
 * A field that is not set has PyTorch's default, which is declared beside the struct in
 * <name>_default_fields. A field that is set is used as it is, even if it is 0 or false. A struct
 * that was filled in another way is an error: its struct_size is not set, and its unset fields
 * cannot be distinguished from intended zeros. */
#ifndef BRASA_TENSOR_OPTIONS_H
#define BRASA_TENSOR_OPTIONS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* PyTorch's None, for options in which 0 is an ordinary value. */
#define BR_NONE     INT64_MIN /* for an int64_t */
#define BR_NONE_F64 NAN       /* for a double */

/* One number for rows and one for columns. One-dimensional functions use `rows` only. */
typedef struct br_pair {
    int64_t rows, columns;
} br_pair;

/* One number for each of three dimensions. */
typedef struct br_triple {
    int64_t depth, rows, columns;
} br_triple;

#ifndef __cplusplus
#    define BR_TRIPLE(depth, rows, columns) ((br_triple){ (depth), (rows), (columns) })
#    define BR_PAIR(rows, columns)          ((br_pair){ (rows), (columns) })
#else
#    define BR_TRIPLE(depth, rows, columns) (br_triple{ (depth), (rows), (columns) })
#    define BR_PAIR(rows, columns)          (br_pair{ (rows), (columns) })
#endif

/* Returns a pointer to options in which the named fields have the given values and all others
 * PyTorch's defaults: BR_OPTIONS(br_adam, .lr = 0.01) is a br_adam_options *. The options live as
 * long as a compound literal: in C until the end of the block, in C++ until the end of the full
 * expression. */
#define BR_OPTIONS(name, ...) BR__FILL(name##_options, name##_default, __VA_ARGS__)

#ifndef __cplusplus

/* A field may be initialized twice, first with its default: the later initializer takes effect
 * (C17, 6.7.9). GCC and clang warn about this, so the warning is disabled around the literal. GCC
 * accepts a _Pragma only as a statement, so each one is in a statement expression beside the
 * literal: if the literal were inside one, the lifetime of arrays given as compound literals would
 * end with it. */
#    define BR__FILL(type, default, ...) \
        (BR__ALLOW_OVERRIDE, (type[1]){ { default##_fields, __VA_ARGS__ } } + BR__RESTORE_WARNINGS)
#    if defined(__clang__)
#        define BR__ALLOW_OVERRIDE                                                     \
            (void)__extension__({                                                      \
                _Pragma("clang diagnostic push")                                       \
                    _Pragma("clang diagnostic ignored \"-Winitializer-overrides\"") 0; \
            })
#        define BR__RESTORE_WARNINGS __extension__({ _Pragma("clang diagnostic pop") 0; })
#    elif defined(__GNUC__)
#        define BR__ALLOW_OVERRIDE                                           \
            (void)__extension__({                                            \
                _Pragma("GCC diagnostic push")                               \
                    _Pragma("GCC diagnostic ignored \"-Woverride-init\"") 0; \
            })
#        define BR__RESTORE_WARNINGS __extension__({ _Pragma("GCC diagnostic pop") 0; })
#    else
#        define BR__ALLOW_OVERRIDE   (void)0
#        define BR__RESTORE_WARNINGS 0
#    endif

#else

/* C++ has no such initializers: each `.field = value` becomes an assignment. */
#    define BR__FILL(type, default, ...) \
        br__address(                     \
            BR__ASSIGNED(type, default##s, BR__JOIN(br__options_, __COUNTER__), __VA_ARGS__))
#    define BR__ASSIGNED(type, defaults, variable, ...) \
        __extension__({                                 \
            type variable = defaults();                 \
            BR__ASSIGN(variable, __VA_ARGS__)           \
            variable;                                   \
        })
template <class T> inline const T *br__address(const T &&temporary)
{
    return &temporary;
}
#    define BR__JOIN(a, b)  BR__JOIN_(a, b)
#    define BR__JOIN_(a, b) a##b
#    define BR__COUNT(...) \
        BR__COUNT_(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#    define BR__COUNT_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, count, ...) count
#    define BR__ASSIGN(v, ...)                                                     BR__JOIN(BR__ASSIGN_, BR__COUNT(__VA_ARGS__))(v, __VA_ARGS__)
#    define BR__ASSIGN_1(v, field)                                                 v field;
#    define BR__ASSIGN_2(v, field, ...) \
        v field;                        \
        BR__ASSIGN_1(v, __VA_ARGS__)
#    define BR__ASSIGN_3(v, field, ...) \
        v field;                        \
        BR__ASSIGN_2(v, __VA_ARGS__)
#    define BR__ASSIGN_4(v, field, ...) \
        v field;                        \
        BR__ASSIGN_3(v, __VA_ARGS__)
#    define BR__ASSIGN_5(v, field, ...) \
        v field;                        \
        BR__ASSIGN_4(v, __VA_ARGS__)
#    define BR__ASSIGN_6(v, field, ...) \
        v field;                        \
        BR__ASSIGN_5(v, __VA_ARGS__)
#    define BR__ASSIGN_7(v, field, ...) \
        v field;                        \
        BR__ASSIGN_6(v, __VA_ARGS__)
#    define BR__ASSIGN_8(v, field, ...) \
        v field;                        \
        BR__ASSIGN_7(v, __VA_ARGS__)
#    define BR__ASSIGN_9(v, field, ...) \
        v field;                        \
        BR__ASSIGN_8(v, __VA_ARGS__)
#    define BR__ASSIGN_10(v, field, ...) \
        v field;                         \
        BR__ASSIGN_9(v, __VA_ARGS__)
#    define BR__ASSIGN_11(v, field, ...) \
        v field;                         \
        BR__ASSIGN_10(v, __VA_ARGS__)
#    define BR__ASSIGN_12(v, field, ...) \
        v field;                         \
        BR__ASSIGN_11(v, __VA_ARGS__)
#    define BR__ASSIGN_13(v, field, ...) \
        v field;                         \
        BR__ASSIGN_12(v, __VA_ARGS__)
#    define BR__ASSIGN_14(v, field, ...) \
        v field;                         \
        BR__ASSIGN_13(v, __VA_ARGS__)
#    define BR__ASSIGN_15(v, field, ...) \
        v field;                         \
        BR__ASSIGN_14(v, __VA_ARGS__)
#    define BR__ASSIGN_16(v, field, ...) \
        v field;                         \
        BR__ASSIGN_15(v, __VA_ARGS__)

#endif

/* ---- Options of your own --------------------------------------------------------------------- */

/* A struct my_options has struct_size as its first field, and beside it the defaults:
 *
 *     #define my_default_fields .struct_size = sizeof(my_options), .eps = 1e-5
 *
 * BR_DEFINE_DEFAULTS(my) then defines the function my_defaults(). A function that takes the options
 * begins with `const my_options *o = BR_OPTIONS_OF("my_function", my, options);`. This returns the
 * options, or the defaults if they are NULL. If the options were not filled in with defaults, it
 * sets an error and returns the defaults. */
#ifndef __cplusplus
#    define BR_OPTIONS_OF(op, name, options)                                                     \
        ((const name##_options *)br_options_of((op), #name, (options),                           \
                                               &(const name##_options){ name##_default_fields }, \
                                               sizeof(name##_options)))
#    define BR_DEFINE_DEFAULTS(name)                          \
        name##_options name##_defaults(void)                  \
        {                                                     \
            return (name##_options){ name##_default_fields }; \
        }
#endif
#ifdef __cplusplus
extern "C" {
#endif
BR_API const void *br_options_of(const char *op, const char *name, const void *options,
                                 const void *defaults, size_t size);
#ifdef __cplusplus
}
#endif

#endif
