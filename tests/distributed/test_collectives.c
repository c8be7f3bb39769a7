/* tests/distributed/test_collectives.c - groups, collectives, and their errors. */
#include "tests/distributed/test.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>

/* ---- Groups ---------------------------------------------------------------------------------- */

void test_groups(void)
{
    check(rank >= 0 && rank < size);
    check(br_dist_barrier(NULL));
    br_dist_group *half = br_dist_split(NULL, rank % 2, -rank); /* in reverse order */
    check(half != NULL);
    int members = (size + 1 - rank % 2) / 2;
    check(br_dist_size(half) == members);
    check(br_dist_rank(half) == members - 1 - rank / 2);
    br_tensor *sum = br_scalar(rank, BR_I64);
    check(br_dist_all_reduce(sum, BR_DIST_SUM, half));
    int64_t want = 0;
    for (int r = rank % 2; r < size; r += 2)
        want += r;
    check(br_item_i64(sum) == want);
    br_dist_group_free(half);
    br_dist_group *first = br_dist_split(NULL, rank == 0 ? 0 : -1, 0);
    check((first != NULL) == (rank == 0));
    check(br_dist_size(first) == (rank == 0 ? 1 : size)); /* NULL stands for all ranks */
    br_dist_group_free(first);
}

/* ---- Collectives ----------------------------------------------------------------------------- */

static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_I64, BR_BOOL };
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* Returns a [columns, rows] view, whose memory is [rows, columns], of integers that depend on the
 * rank `of`. */
static br_tensor *values(br_dtype dtype, int of, int64_t rows, int64_t columns)
{
    br_tensor *t = br_arange(0, (double)(rows * columns), 1, BR_I64);
    t = br_remainder(br_mul_scalar(t, 7 * of + 3), br_full(BR_SHAPE(1), 101, BR_I64));
    t = br_add_scalar(t, of);
    if (dtype == BR_BOOL)
        t = br_eq_scalar(br_remainder(t, br_full(BR_SHAPE(1), 5, BR_I64)), 0);
    return br_transpose(br_view(br_to(t, dtype), BR_SHAPE(rows, columns)), 0, 1);
}

void test_broadcast(void)
{
    for (int k = 0; k < N_DTYPES; k++) {
        int source = k % size;
        br_tensor *t = values(dtypes[k], rank, 5, 3);
        check(br_dist_broadcast(t, source, NULL));
        check(br_equal(t, values(dtypes[k], source, 5, 3)));
    }
    br_tensor *empty = br_zeros(BR_SHAPE(0, 3), BR_F32);
    check(br_dist_broadcast(empty, 0, NULL));
    for (int source = 0; source < size; source++) { /* so many bytes are spread over the ranks */
        br_tensor *large = values(BR_F64, rank, 1, 33333);
        check(br_dist_broadcast(large, source, NULL));
        check(br_equal(large, values(BR_F64, source, 1, 33333)));
    }
}

static br_tensor *combined(br_tensor *a, br_tensor *b, br_dist_reduction reduction)
{
    bool flags = br_dtype_of(a) == BR_BOOL;
    if (reduction == BR_DIST_MAX)
        return flags ? br_logical_or(a, b) : br_maximum(a, b);
    if (reduction == BR_DIST_MIN)
        return flags ? br_logical_and(a, b) : br_minimum(a, b);
    return br_add(a, b);
}

/* Compares with the same reduction of all ranks' values in this process. */
static void check_reduction(br_dtype dtype, br_dist_reduction reduction, int64_t rows)
{
    br_tensor *t = values(dtype, rank, rows, 3), *want = br_clone(values(dtype, 0, rows, 3));
    for (int r = 1; r < size; r++) {
        br_tensor *other = values(dtype, r, rows, 3);
        want = combined(want, other, reduction);
    }
    if (reduction == BR_DIST_MEAN)
        want = br_div_scalar(want, size);
    check(br_dist_all_reduce(t, reduction, NULL));
    check(br_equal(t, want));
    br_tensor *all[8];
    for (int r = 0; r < size && r < 8; r++)
        all[r] = values(dtype, rank, rows, 3);
    if (size > 8)
        return;
    br_tensor *part = br_dist_reduce_scatter(br_stack(size, all, 0), reduction, NULL);
    check(part && br_equal(part, want));
}

void test_reductions(void)
{
    static const int64_t rows[] = { 0, 1, 7, 40000 };
    for (int i = 0; i < 4; i++) {
        for (int k = 0; k < N_DTYPES; k++) {
            br_scope *scope = br_scope_begin(); /* the next dtype reuses the memory */
            check_reduction(dtypes[k], BR_DIST_MAX, rows[i]);
            check_reduction(dtypes[k], BR_DIST_MIN, rows[i]);
            if (dtypes[k] != BR_BOOL)
                check_reduction(dtypes[k], BR_DIST_SUM, rows[i]);
            if (dtypes[k] == BR_F32 || dtypes[k] == BR_F64)
                check_reduction(dtypes[k], BR_DIST_MEAN, rows[i]);
            br_scope_end(scope);
        }
    }
}

/* The sum of these numbers depends on the order in which they are added. */
static float uneven(int r, int64_t i)
{
    return (r % 2 ? -1.0f : 1.0f) * powf(10, (float)((r * 5 + i) % 8)) + 0.1f * (float)r;
}

void test_reduction_order(void)
{
    enum { N = 1000 };
    br_tensor *t = br_empty(BR_SHAPE(N), BR_F32), *nan = br_zeros(BR_SHAPE(3), BR_F64);
    for (int64_t i = 0; i < N; i++)
        br_data_f32(t)[i] = uneven(rank, i);
    check(br_dist_all_reduce(t, BR_DIST_SUM, NULL));
    int wrong = 0;
    for (int64_t i = 0; i < N; i++) {
        float sum = uneven(0, i);
        for (int r = 1; r < size; r++)
            sum += uneven(r, i);
        wrong += br_data_f32(t)[i] != sum;
    }
    check(wrong == 0);
    br_data_f64(nan)[0] = rank == size - 1 ? NAN : 1;
    br_data_f64(nan)[1] = rank == 0 ? NAN : 1;
    br_data_f64(nan)[2] = -0.0;
    br_tensor *nan_too = br_clone(nan);
    check(br_dist_all_reduce(nan, BR_DIST_MAX, NULL));
    check(isnan(br_data_f64(nan)[0]) && isnan(br_data_f64(nan)[1]));
    check(br_dist_all_reduce(nan_too, BR_DIST_MIN, NULL));
    check(isnan(br_data_f64(nan_too)[0]) && isnan(br_data_f64(nan_too)[1]));
    br_data_f64(nan)[2] = -0.0;
    check(br_dist_all_reduce(nan, BR_DIST_SUM, NULL));
    check(signbit(br_data_f64(nan)[2])); /* no rank's value is added to a zero */
}

void test_gather_and_scatter(void)
{
    for (int k = 0; k < N_DTYPES; k++) {
        br_tensor *all = br_dist_all_gather(values(dtypes[k], rank, 4, 3), NULL);
        if (!check(all && br_ndim(all) == 3 && br_size(all, 0) == size))
            continue;
        for (int r = 0; r < size; r++)
            check(br_equal(br_select(all, 0, r), values(dtypes[k], r, 4, 3)));
    }
    br_tensor *t = br_empty(BR_SHAPE(size, 2), BR_F64);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < 2; i++)
            br_data_f64(t)[2 * r + i] = 100 * r + 10 * rank + i;
    br_tensor *part = br_dist_reduce_scatter(t, BR_DIST_SUM, NULL);
    double ranks = size * (size - 1) / 2.0;
    check(part && br_ndim(part) == 1 && br_size(part, 0) == 2);
    check(part && br_at(part, BR_SHAPE(1)) == size * (100 * rank + 1) + 10 * ranks);
}

void test_all_to_all(void)
{
    for (int k = 0; k < N_DTYPES; k++) {
        br_tensor *t = values(dtypes[k], rank, 3, size); /* [size, 3], strided */
        br_tensor *got = br_dist_all_to_all(t, NULL);
        if (!check(got && br_same_shape(got, t) && br_dtype_of(got) == dtypes[k]))
            continue;
        for (int r = 0; r < size; r++)
            check(
                br_equal(br_select(got, 0, r), br_select(values(dtypes[k], r, 3, size), 0, rank)));
    }
    br_tensor *empty = br_dist_all_to_all(br_zeros(BR_SHAPE(size, 0), BR_F32), NULL);
    check(empty && br_size(empty, 0) == size && br_numel(empty) == 0);
    check_fails(br_dist_all_to_all(br_ones(BR_SHAPE(size + 1), BR_F32), NULL),
                "dist_all_to_all: t is [");
    check_fails(br_dist_all_to_all(br_scalar(1, BR_F32), NULL), "must be the number of ranks");
}

void test_send_and_receive(void)
{
    if (size == 1)
        return;
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    br_tensor *own = values(BR_F32, rank, 3, 2), *got = values(BR_F32, rank, 3, 2);
    for (int turn = 0; turn < 2; turn++) { /* even ranks send first: nobody waits for ever */
        if (rank % 2 == turn)
            check(br_dist_send(own, next, 5, NULL));
        if (before % 2 == turn)
            check(br_dist_recv(got, before, 5, NULL));
    }
    check(br_equal(got, values(BR_F32, before, 3, 2)));
    br_dist_barrier(NULL);
    if (rank == 0)
        check(br_dist_send(br_zeros(BR_SHAPE(3), BR_F64), 1, 0, NULL));
    br_tensor *t = br_zeros(BR_SHAPE(3), BR_F32);
    if (rank == 1)
        check_fails(br_dist_recv(t, 0, 0, NULL), "rank 0 sent 3 elements of f64");
    if (rank == 0)
        check(br_dist_send(t, 1, 0, NULL));
    if (rank == 1)
        check(br_dist_recv(t, 0, 0, NULL)); /* the next message arrives */
}

/* Messages that wait for their tag or group stay in their order. */
void test_messages_by_tag(void)
{
    if (size == 1)
        return;
    for (int k = 0; k < N_DTYPES; k++) {
        br_tensor *t = values(dtypes[k], rank, 3, 2); /* strided */
        if (rank == 0)
            check(br_dist_send(t, size - 1, 0, NULL));
        if (rank == size - 1)
            check(br_dist_recv(t, 0, 0, NULL) && br_equal(t, values(dtypes[k], 0, 3, 2)));
    }
    if (size > 2 && rank < 2) /* rank 0's first message waits: it is not taken for rank 1's */
        for (int tag = 0; tag < 2 - rank; tag++)
            check(br_dist_send(br_full(BR_SHAPE(2), 10 * rank + tag, BR_F32), 2, tag, NULL));
    static const int sources[] = { 0, 1, 0 }, tags[] = { 1, 0, 0 };
    for (int k = 0; rank == 2 && k < 3; k++) {
        br_tensor *t = br_zeros(BR_SHAPE(2), BR_F32);
        check(br_dist_recv(t, sources[k], tags[k], NULL));
        check(br_at(t, BR_SHAPE(0)) == 10 * sources[k] + tags[k]);
    }
    br_dist_group *group = br_dist_split(NULL, 0, 0);
    if (rank == 0) {
        for (int i = 0; i < 6; i++) {
            br_tensor *t = br_full(BR_SHAPE(i), i, BR_F32);
            check(br_dist_send(t, 1, i % 2, i < 4 ? NULL : group));
        }
    }
    static const int order[] = { 5, 1, 3, 0, 4, 2 };
    for (int k = 0; rank == 1 && k < 6; k++) {
        int i = order[k];
        br_tensor *t = br_zeros(BR_SHAPE(i), BR_F32);
        check(br_dist_recv(t, 0, i % 2, i < 4 ? NULL : group));
        check(br_equal(t, br_full(BR_SHAPE(i), i, BR_F32)));
    }
    br_dist_group_free(group);
    br_dist_barrier(NULL);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

void test_disagreements(void)
{
    if (size == 1)
        return;
    int last = size - 1;
    br_tensor *t = br_zeros(BR_SHAPE(2, rank == last ? 4 : 3), BR_F32);
    char want[160];
    snprintf(want, sizeof want,
             "dist_all_reduce: rank %d has f32 [2, 4], but rank 0 has f32 [2, 3]", last);
    check_fails(br_dist_all_reduce(t, BR_DIST_SUM, NULL), want);
    t = br_zeros(BR_SHAPE(2), rank == last ? BR_I64 : BR_F64);
    snprintf(want, sizeof want, "rank %d has i64 [2], but rank 0 has f64 [2]", last);
    check_fails(br_dist_broadcast(t, 0, NULL), want);
    t = br_zeros(BR_SHAPE(2), BR_F64);
    snprintf(want, sizeof want, "reduction is 2 on rank %d, but 0 on rank 0", last);
    check_fails(br_dist_all_reduce(t, rank == last ? BR_DIST_MAX : BR_DIST_SUM, NULL), want);
    snprintf(want, sizeof want, "source is 1 on rank %d, but 0 on rank 0", last);
    check_fails(br_dist_broadcast(t, rank == last, NULL), want);
    snprintf(want, sizeof want, "rank %d called dist_barrier while rank 0 called dist_all_reduce",
             last);
    check_fails(rank == last ? br_dist_barrier(NULL) : br_dist_all_reduce(t, BR_DIST_SUM, NULL),
                want);
    check(br_dist_barrier(NULL)); /* the ranks are still in step */
}

static bool call(int function, br_tensor *t)
{
    switch (function) {
    case 0:
        return br_dist_broadcast(t, size - 1, NULL);
    case 1:
        return br_dist_all_reduce(t, BR_DIST_MIN, NULL);
    case 2:
        return br_dist_all_gather(t, NULL) != NULL;
    case 3:
        return br_dist_reduce_scatter(t, BR_DIST_SUM, NULL) != NULL;
    default:
        return br_dist_all_to_all(t, NULL) != NULL;
    }
}

/* Other shapes, dimensions and dtypes are named on every rank, also those of empty tensors. */
void test_disagreements_of_every_function(void)
{
    char want[80];
    bool last = rank == size - 1;
    snprintf(want, sizeof want, "rank %d has ", size - 1);
    for (int function = 0; size > 1 && function < 5; function++) {
        br_tensor *wide = br_ones(BR_SHAPE(size, last ? 3 : 2), BR_F32);
        check_fails(call(function, wide), want);
        br_tensor *deep = br_ones(last ? 3 : 2, (int64_t[]){ size, 2, 1 }, BR_F32);
        check_fails(call(function, deep), want);
        br_tensor *other = br_ones(BR_SHAPE(size, 2), last ? BR_I64 : BR_F64);
        check_fails(call(function, other), want);
        br_tensor *empty = br_ones(BR_SHAPE(size, 0, last ? 2 : 3), BR_F32);
        check_fails(call(function, empty), want);
        check(call(function, br_ones(BR_SHAPE(size, 2), BR_F32)));
    }
}

void test_errors_of_other_ranks(void)
{
    if (size == 1)
        return;
    br_tensor *t = br_ones(BR_SHAPE(3), BR_F32), *wrong = br_ones(BR_SHAPE(4), BR_F32);
    if (rank == 1) {
        br_matmul(br_reshape(t, BR_SHAPE(1, 3)), br_reshape(wrong, BR_SHAPE(1, 4)));
        check(br_failed());
    }
    check_fails(br_dist_all_reduce(t, BR_DIST_SUM, NULL),
                rank == 1 ? "matmul" : "rank 1 failed: matmul");
    check(br_dist_all_reduce(t, BR_DIST_SUM, NULL));
    check(br_at(t, BR_SHAPE(0)) == size);
}

/* The threads that br_dist_init() starts block all signals; the program's thread must not. */
void test_signals(void)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    check(!sigismember(&blocked, SIGTERM));
    check(!sigismember(&blocked, SIGINT));
}

void test_arguments(void)
{
    br_tensor *t = br_ones(BR_SHAPE(3), BR_F32), *flags = br_ones(BR_SHAPE(3), BR_BOOL);
    check_fails(br_dist_all_reduce(NULL, BR_DIST_SUM, NULL), "dist_all_reduce: t is NULL");
    check_fails(br_dist_all_reduce(flags, BR_DIST_SUM, NULL), "t is bool, which has no sum");
    check_fails(br_dist_all_reduce(br_to(t, BR_I64), BR_DIST_MEAN, NULL),
                "t is i64, which has no mean");
    check_fails(br_dist_all_reduce(t, (br_dist_reduction)9, NULL), "reduction is 9");
    check_fails(br_dist_broadcast(t, size, NULL), "source is");
    check_fails(br_dist_broadcast(t, -1, NULL), "source is -1, must be in 0 .. ");
    check_fails(br_dist_reduce_scatter(br_ones(BR_SHAPE(size + 1, 2), BR_F32), BR_DIST_SUM, NULL),
                "must be the number of ranks");
    check_fails(br_dist_send(t, rank, 0, NULL), "cannot send to itself");
    check_fails(br_dist_recv(t, rank, -1, NULL), "tag must be in 0 .. 32767");
    check(br_dist_init(NULL)); /* a second call does nothing */
    check(br_dist_rank(NULL) == rank);
}
