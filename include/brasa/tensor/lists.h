/* brasa/tensor/lists.h - lists as function arguments: BR_SHAPE(2, 3), BR_INPUTS(x, y).
 *
 * Each list expands to two arguments, a count and a pointer. In C the pointer is to a compound
 * literal, which lives until the end of the block. C++ has no compound literals: there the pointer
 * is to a temporary, which lives until the end of the full expression. No argument is evaluated
 * twice. */
#ifndef BRASA_TENSOR_LISTS_H
#define BRASA_TENSOR_LISTS_H

#include <stddef.h>

#ifndef __cplusplus

#    define BR__LIST(type, ...)     BR__COUNT_OF(type, __VA_ARGS__), BR__VALUES(type, __VA_ARGS__)
#    define BR__COUNT_OF(type, ...) (int)(sizeof((type[]){ __VA_ARGS__ }) / sizeof(type))
#    define BR__VALUES(type, ...) \
        (type[])                  \
        {                         \
            __VA_ARGS__           \
        }

#else

#    include <type_traits>

#    define BR__LIST(type, ...)     BR__COUNT_OF(type, __VA_ARGS__), BR__VALUES(type, __VA_ARGS__)
#    define BR__COUNT_OF(type, ...) (int)sizeof(br__same_size(__VA_ARGS__))
#    define BR__VALUES(type, ...)   br__values_of<type>(__VA_ARGS__).begin()

template <class... V> char (&br__same_size(const V &...values))[sizeof...(V)];

/* Converts integers of any type to int64_t, as C does, and NULL, which is an integer in C++, to a
 * null pointer. */
template <class T, class V> T br__converted(V value)
{
    if constexpr (std::is_pointer<T>::value && std::is_integral<V>::value)
        return value == 0 ? nullptr : reinterpret_cast<T>(value);
    else
        return static_cast<T>(value);
}

template <class T, size_t n> struct br__values {
    T values[n];
    T *begin()
    {
        return values;
    }
};

template <class T, class... V> br__values<T, sizeof...(V)> br__values_of(V... values)
{
    return { { br__converted<T>(values)... } };
}

#endif

#endif
