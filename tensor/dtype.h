/* tensor/dtype.h - the table of dtypes: all that the library knows about a dtype outside its
 * kernels. No other code chooses by the name of a dtype; it asks the dtype's row, or the tables of
 * kernels, which have a column for each dtype (br__kernels_of()). */
#ifndef BR_TENSOR_DTYPE_H
#define BR_TENSOR_DTYPE_H

#include <brasa/tensor/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The number of dtypes. BR_QUANTIZED is not one of them: it has no elements. Its row in the table
 * is the last one. */
#define BR_DTYPES BR_QUANTIZED

/* The integers that are storage dtypes: ROW(enumerator without BR_, name, PyTorch's name, smallest
 * number, largest number). The C type is PyTorch's name and "_t". The table of dtypes, conversions,
 * and the kernels that combine or sort elements of such a dtype are made from this list. */
#define BR_STORED_INTEGERS(ROW)                \
    ROW(I32, i32, int32, INT32_MIN, INT32_MAX) \
    ROW(I8, i8, int8, INT8_MIN, INT8_MAX)      \
    ROW(U8, u8, uint8, 0, UINT8_MAX)

typedef enum br_dtype_kind { BR_KIND_BOOL, BR_KIND_INTEGER, BR_KIND_FLOATING } br_dtype_kind;

typedef struct br_dtype_info {
    const char *name;        /* "f32" */
    const char *torch_name;  /* PyTorch's, which config.json also has: "float32" */
    const char *stored_name; /* safetensors': "F32" */
    size_t size;             /* of an element, in bytes */
    br_dtype_kind kind;
    /* The dtype in which operations compute: f32 for bf16 and f16, i64 for integers, itself for
     * f32, f64 and bool. It represents all elements. */
    br_dtype computed;
    /* For floating-point dtypes: the bits of the significand, and the exponents of the smallest
     * normal number and of the largest number. */
    int digits, min_exponent, max_exponent;
    /* Convert n elements, `step` bytes apart, to doubles, and doubles to elements. Like PyTorch,
     * rounds by way of the dtype in which operations compute. A number that i64 or i32 does not
     * represent becomes the smallest one; i8 and u8 get the lowest byte of the i32. */
    void (*load)(double *to, int64_t n, const char *from, int64_t step);
    void (*store)(char *to, int64_t step, const double *from, int64_t n);
    /* For integers and bool: return and set one element. An integer that is too large wraps
     * around. */
    int64_t (*get_integer)(const void *element);
    void (*put_integer)(void *element, int64_t value);
} br_dtype_info;

extern const br_dtype_info br__dtypes[BR_DTYPES + 1];

/* Room for one element of any dtype. */
typedef union br_element {
    double real;
    int64_t integer;
} br_element;

static inline bool br__is_dtype(br_dtype dtype)
{
    return (unsigned)dtype < BR_DTYPES;
}

static inline size_t br__dtype_size(br_dtype dtype)
{
    return br__dtypes[dtype].size;
}

/* Also for numbers that are no dtypes. */
static inline bool br__is_kind(br_dtype dtype, br_dtype_kind kind)
{
    return br__is_dtype(dtype) && br__dtypes[dtype].kind == kind;
}
static inline bool br__is_floating(br_dtype dtype)
{
    return br__is_kind(dtype, BR_KIND_FLOATING);
}

static inline br_dtype br__computed(br_dtype dtype)
{
    return br__dtypes[dtype].computed;
}
/* Returns whether operations compute in another dtype. Storage dtypes come after all others, so
 * that this needs no look at the table. */
static inline bool br__is_stored(br_dtype dtype)
{
    return dtype > BR_BOOL;
}

/* Return and set one element as a double, which rounds an i64 beyond 2^53. */
static inline double br__get(br_dtype dtype, const void *element)
{
    double value;
    br__dtypes[dtype].load(&value, 1, element, 0);
    return value;
}
static inline void br__put(br_dtype dtype, void *element, double value)
{
    br__dtypes[dtype].store(element, 0, &value, 1);
}

/* Returns the value as the dtype represents it. */
double br__rounded(br_dtype dtype, double value);
/* Returns whether the dtype represents the value, which may be rounded if the dtype is floating;
 * for bool, only 0 and 1 are. */
static inline bool br__represents(br_dtype dtype, double value)
{
    return br__is_floating(dtype) || br__rounded(dtype, value) == value;
}
/* Returns whether an element may be set to the number, as in PyTorch: a finite float must not
 * become infinite, and the integral part of a number must fit into an integer. A negative number is
 * also stored in unsigned integers if its absolute value fits; then it wraps around. */
bool br__holds(br_dtype dtype, double value);
/* The dtype that PyTorch gives to Python's numbers of that kind: f32, i64 or bool. */
br_dtype br__default_dtype(br_dtype_kind kind);
/* The dtype of sums and products: i64 for integers and bool. */
br_dtype br__sum_dtype(br_dtype dtype);
/* The limits of a floating-point dtype: the distance from 1 to the next number, the smallest normal
 * number and the largest number. */
double br__epsilon(br_dtype dtype);
double br__smallest_normal(br_dtype dtype);
double br__largest(br_dtype dtype);
/* Returns true if f64 represents larger and smaller numbers than a floating-point dtype. */
static inline bool br__is_narrow(br_dtype dtype)
{
    return br__dtypes[dtype].max_exponent < br__dtypes[BR_F64].max_exponent;
}

#endif
