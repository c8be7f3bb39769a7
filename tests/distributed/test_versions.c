/* tests/distributed/test_versions.c - every collective, with every dtype and kind of strides, and
 * the versions of its tensors: a tensor that it writes to gets a new version, which backward
 * notices, and a tensor that it only reads keeps its version. */
#include "tests/distributed/test.h"

#include <stdio.h>

static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_I64, BR_BOOL };
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* ---- The collectives ------------------------------------------------------------------------- */

typedef enum collective {
    BROADCAST,
    ALL_REDUCE,
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_TO_ALL,
    SEND, /* from rank 0 to rank 1 */
    RECV,
    COLLECTIVES
} collective;

static const char *const names[] = { "dist_broadcast",  "dist_all_reduce",
                                     "dist_all_gather", "dist_reduce_scatter",
                                     "dist_all_to_all", "dist_send",
                                     "dist_recv" };

/* Rank `source` broadcasts. */
static int source;

static bool takes_part(collective k)
{
    return k == SEND ? size > 1 && rank == 0 : k == RECV ? size > 1 && rank == 1 : true;
}

static bool writes(collective k)
{
    return size > 1 && (k == ALL_REDUCE || (k == BROADCAST && rank != source) || k == RECV);
}

/* The partner of a rank that sends or receives. */
static void meet(collective k, const br_tensor *t)
{
    br_tensor *other = br_zeros(br_ndim(t), br_sizes(t), br_dtype_of(t));
    if (size == 1)
        return;
    if (k == SEND && rank == 1)
        check(br_dist_recv(other, 0, 3, NULL));
    if (k == RECV && rank == 0)
        check(br_dist_send(other, 1, 3, NULL));
}

/* Returns whether the call succeeded. *result is a tensor that it returned, or NULL. */
static bool call(collective k, br_tensor *t, br_tensor **result)
{
    *result = NULL;
    switch (k) {
    case BROADCAST:
        return br_dist_broadcast(t, source, NULL);
    case ALL_REDUCE:
        return br_dist_all_reduce(t, BR_DIST_MAX, NULL);
    case ALL_GATHER:
        return (*result = br_dist_all_gather(t, NULL)) != NULL;
    case REDUCE_SCATTER:
        return (*result = br_dist_reduce_scatter(t, BR_DIST_MIN, NULL)) != NULL;
    case ALL_TO_ALL:
        return (*result = br_dist_all_to_all(t, NULL)) != NULL;
    case SEND:
        return br_dist_send(t, 1, 3, NULL);
    default:
        return br_dist_recv(t, 0, 3, NULL);
    }
}

/* ---- The tensors ----------------------------------------------------------------------------- */

enum { DENSE, TRANSPOSED, PART, STEPS, EMPTY, EMPTY_STRIDED, LAYOUTS, EXPANDED = LAYOUTS };

/* Returns a tensor [size, ...] of zeros with these strides. *base is the tensor that it views. */
static br_tensor *make(int layout, br_dtype dtype, br_tensor **base)
{
    switch (layout) {
    case DENSE:
        return *base = br_zeros(BR_SHAPE(size, 3), dtype);
    case TRANSPOSED:
        return br_transpose(*base = br_zeros(BR_SHAPE(3, size), dtype), 0, 1);
    case PART:
        return br_narrow(*base = br_zeros(BR_SHAPE(size, 5), dtype), 1, 1, 3);
    case STEPS:
        return br_slice(*base = br_zeros(BR_SHAPE(2 * size), dtype), 0, 0, BR_ALL, 2);
    case EMPTY:
        return *base = br_zeros(BR_SHAPE(size, 0), dtype);
    case EMPTY_STRIDED:
        return br_transpose(*base = br_zeros(BR_SHAPE(0, size), dtype), 0, 1);
    default:
        return br_expand(*base = br_zeros(BR_SHAPE(size, 1), dtype), BR_SHAPE(size, 3));
    }
}

static void report(bool ok, collective k, br_dtype dtype, int layout, const char *what)
{
    char text[120];
    snprintf(text, sizeof text, "%s, %s, layout %d, source %d: %s", names[k], br_dtype_name(dtype),
             layout, source, what);
    check_that(ok, text, __FILE__, __LINE__);
}

/* Fills with rank + 1 or, if it is a bool, with true. Returns the elements of `base` outside of t:
 * their sum stays. */
static double fill(br_tensor *t, br_tensor *base)
{
    br_fill_(base, 1);
    br_fill_(t, br_dtype_of(t) == BR_BOOL ? 1 : rank + 1);
    return br_item(br_sum(br_to(base, BR_F64))) - br_item(br_sum(br_to(t, BR_F64)));
}

static double outside(br_tensor *t, br_tensor *base)
{
    return br_item(br_sum(br_to(base, BR_F64))) - br_item(br_sum(br_to(t, BR_F64)));
}

static void check_versions(collective k, br_dtype dtype, int layout)
{
    br_tensor *base, *t = make(layout, dtype, &base), *result;
    double before = fill(t, base);
    uint64_t version = br_tensor_version(t);
    bool is_view = base != t;
    meet(k, t);
    if (takes_part(k)) {
        br_scope *scope = br_scope_current();
        report(call(k, t, &result), k, dtype, layout, "succeeds");
        report(br_scope_current() == scope && br_grad_enabled(), k, dtype, layout,
               "scope and grad mode stay");
        report((br_tensor_version(t) > version) == writes(k), k, dtype, layout,
               writes(k) ? "a new version" : "the same version");
        report(br_tensor_version(base) == br_tensor_version(t), k, dtype, layout,
               "view and base have the same version");
        report(!is_view || outside(t, base) == before, k, dtype, layout,
               "the elements beside the view stay");
        report(!result || (!br_shares_storage(result, t) && !br_requires_grad(result)), k, dtype,
               layout, "a result of its own, which is not recorded");
    }
}

/* ---- Backward -------------------------------------------------------------------------------- */

/* Computes the gradient of the product of a leaf and t, which a collective changes or reads. */
static void check_backward(collective k, br_dtype dtype, int layout)
{
    char want[80];
    br_tensor *base, *t = make(layout, dtype, &base), *result;
    fill(t, base);
    br_tensor *leaf = br_set_requires_grad(br_ones(br_ndim(t), br_sizes(t), dtype), true);
    br_tensor *y = br_sum(br_mul(leaf, t));
    meet(k, t);
    if (!takes_part(k) || !call(k, t, &result)) {
        report(!br_failed(), k, dtype, layout, "succeeds");
        return;
    }
    snprintf(want, sizeof want, "changed in place by %s", names[k]);
    if (writes(k))
        check_fails(br_backward(y), want);
    else
        report(br_backward(y) && br_grad_of(leaf), k, dtype, layout, "backward");
}

/* A leaf that requires grad may be written to: nothing is recorded, and it stays a leaf. */
static void check_leaf(collective k, br_dtype dtype)
{
    br_tensor *t = br_set_requires_grad(br_ones(BR_SHAPE(size, 2), dtype), true), *result;
    meet(k, t);
    if (!takes_part(k))
        return;
    report(call(k, t, &result), k, dtype, DENSE, "accepts a leaf that requires grad");
    report(br_is_leaf(t) && br_requires_grad(t) && !br_grad_of(t), k, dtype, DENSE, "stays a leaf");
    report(!result || !br_requires_grad(result), k, dtype, DENSE, "the result is not recorded");
}

/* Elements that share memory can be read. If one rank would have to write to them, all ranks fail
 * before anything is written. */
static void check_expanded(collective k, br_dtype dtype)
{
    const bool guilty = k == RECV || rank == size - 1;
    br_tensor *base, *t = make(guilty ? EXPANDED : DENSE, dtype, &base), *result;
    double before = fill(t, base);
    uint64_t version = br_tensor_version(t);
    bool refused = k == ALL_REDUCE || k == RECV || (k == BROADCAST && source != size - 1);
    if (k != RECV)
        meet(k, t);
    if (takes_part(k) && refused && size > 1) {
        check_fails(call(k, t, &result), "is expanded or unfolded, so several elements share");
        report(br_tensor_version(t) == version && outside(t, base) == before, k, dtype, EXPANDED,
               "nothing is written");
    } else if (takes_part(k)) {
        report(call(k, t, &result), k, dtype, EXPANDED, "reads elements that share memory");
    }
}

void test_versions(void)
{
    for (source = 0; source < size; source++) /* only broadcast depends on it */
        for (int k = 0; k < (source == 0 ? COLLECTIVES : BROADCAST + 1); k++)
            for (int i = 0; i < N_DTYPES; i++) {
                const bool real = dtypes[i] == BR_F32 || dtypes[i] == BR_F64;
                for (int layout = 0; layout < LAYOUTS; layout++) {
                    check_versions((collective)k, dtypes[i], layout);
                    if (real)
                        check_backward((collective)k, dtypes[i], layout);
                }
                if (real)
                    check_leaf((collective)k, dtypes[i]);
                check_expanded((collective)k, dtypes[i]);
            }
    source = 0;
    check(br_dist_barrier(NULL)); /* the ranks are still in step */
}
