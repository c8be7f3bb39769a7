/* ops/pointwise/promotion.c - the dtypes of results of operands of several dtypes. */
#include "ops/pointwise/promotion.h"
#include "ops/ops_internal.h"

#include <math.h>

/* ---- Rules ----------------------------------------------------------------------------------- */

/* Returns whether a floating-point dtype represents all numbers of another one. */
static bool includes(br_dtype a, br_dtype b)
{
    const br_dtype_info *x = &br__dtypes[a], *y = &br__dtypes[b];
    return x->digits >= y->digits && x->max_exponent >= y->max_exponent;
}

/* Returns the smallest dtype that represents the numbers of two dtypes of one kind. */
static br_dtype common(br_dtype a, br_dtype b)
{
    const size_t a_size = br__dtype_size(a), b_size = br__dtype_size(b);
    if (br__is_floating(a))
        return includes(a, b) ? a : includes(b, a) ? b : br__computed(a);
    if (a_size != b_size)
        return a_size > b_size ? a : b;
    return BR_I32; /* i8 and u8: PyTorch's i16 is not a dtype here */
}

br_dtype br_promote_types(br_dtype a, br_dtype b)
{
    if (!br__is_dtype(a) || !br__is_dtype(b)) {
        br_fail(BR_ERROR_DTYPE, "promote_types", "%d is not a dtype", br__is_dtype(a) ? b : a);
        return BR_F32;
    }
    const br_dtype_kind a_kind = br__dtypes[a].kind, b_kind = br__dtypes[b].kind;
    if (a == b)
        return a;
    return a_kind == b_kind ? common(a, b) : a_kind > b_kind ? a : b;
}

/* The dtype of several tensors so far, or none. */
typedef struct group {
    bool any;
    br_dtype dtype;
} group;

static void add(group *g, br_dtype dtype)
{
    g->dtype = g->any ? br_promote_types(g->dtype, dtype) : dtype;
    g->any = true;
}

br_dtype br_result_type(int n, br_tensor *const *tensors)
{
    static const char op[] = "result_type";
    group of_dims = { 0 }, without = { 0 };
    if (n < 1 || !tensors) {
        br_fail(BR_ERROR_ARGUMENT, op, "got %d tensors, must be at least one", tensors ? n : 0);
        return BR_F32;
    }
    for (int i = 0; i < n; i++) {
        if (!br__required_item(op, "tensor", i, tensors[i]))
            return BR_F32;
        add(tensors[i]->ndim > 0 ? &of_dims : &without, tensors[i]->dtype);
    }
    if (!of_dims.any)
        return without.dtype;
    if (without.any && br__dtypes[without.dtype].kind > br__dtypes[of_dims.dtype].kind)
        return without.dtype;
    return of_dims.dtype;
}

br_dtype br__scalar_result(br_dtype dtype, double s)
{
    if (br__is_floating(dtype))
        return dtype;
    if (trunc(s) != s || isinf(s))
        return br__default_dtype(BR_KIND_FLOATING);
    return br__is_kind(dtype, BR_KIND_BOOL) ? br__default_dtype(BR_KIND_INTEGER) : dtype;
}

br_dtype br_result_type_scalar(const br_tensor *t, double s)
{
    return br__required("result_type_scalar", "t", t) ? br__scalar_result(t->dtype, s) : BR_F32;
}

bool br_can_cast(br_dtype from, br_dtype to)
{
    return br__is_dtype(from) && br__is_dtype(to) && br__dtypes[from].kind <= br__dtypes[to].kind;
}

/* ---- Operations ------------------------------------------------------------------------------ */

void br__promote(br_tensor **a, br_tensor **b)
{
    const br_dtype dtype = br_result_type(BR_INPUTS(*a, *b));
    *a = br_to(*a, dtype);
    *b = br_to(*b, dtype);
}

br_tensor *br__promoted(const char *op, br__binary_function *function, br_tensor *a, br_tensor *b)
{
    if (!br__same_device(op, "a", a, "b", b))
        return NULL;
    br_scope *scope = br_scope_begin();
    br__promote(&a, &b);
    return br__composed(scope, function(a, b));
}

bool br__can_store_result(const char *op, br_tensor *a, br_tensor *b)
{
    if (!br__same_device(op, "a", a, "b", b))
        return false;
    const br_dtype dtype = br_result_type(BR_INPUTS(a, b));
    if (br_can_cast(dtype, a->dtype))
        return true;
    br_fail(BR_ERROR_DTYPE, op,
            "a %s is %s and b %s is %s: the result is %s, to which a cannot be changed in place "
            "(convert a with br_to())",
            br__shape(a), br_dtype_name(a->dtype), br__shape(b), br_dtype_name(b->dtype),
            br_dtype_name(dtype));
    return false;
}
