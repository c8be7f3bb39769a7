/* Packing: each example once, no pack longer than the limit, and the packs of a small case. */
#include "tests/support.h"
#include "train/packs.h"

static void check_pack(const packs *p, int64_t i, int n, const int64_t *expected)
{
    const int64_t *members;
    cr_assert_eq(packs_members(p, i, &members), n);
    cr_assert_arr_eq(members, expected, (size_t)n * sizeof *members);
}

Test(packs, best_fit_decreasing)
{
    packs p = { 0 };
    cr_assert(packs_make(&p, 7, (int64_t[]){ 3, 7, 2, 5, 5, 4, 1 }, 8));
    cr_assert_eq(p.count, 4);
    check_pack(&p, 0, 1, (int64_t[]){ 1 });       /* 7 */
    check_pack(&p, 1, 3, (int64_t[]){ 2, 3, 6 }); /* 2, 5, 1 */
    check_pack(&p, 2, 2, (int64_t[]){ 0, 4 });    /* 3, 5 */
    check_pack(&p, 3, 1, (int64_t[]){ 5 });       /* 4 */
    packs_free(&p);
}

Test(packs, each_example_once_within_the_limit)
{
    enum { N = 1000, LIMIT = 50 };
    int64_t lengths[N], seen[N] = { 0 }, total = 0;
    br_manual_seed(3);
    for (int i = 0; i < N; i++)
        total += lengths[i] = 1 + (int64_t)(br_random_double() * LIMIT);
    packs p = { 0 };
    cr_assert(packs_make(&p, N, lengths, LIMIT));
    for (int64_t i = 0; i < p.count; i++) {
        const int64_t *members;
        int64_t n = packs_members(&p, i, &members), length = 0;
        cr_assert_gt(n, 0);
        for (int64_t k = 0; k < n; k++) {
            length += lengths[members[k]];
            seen[members[k]]++;
        }
        cr_assert_leq(length, LIMIT);
    }
    for (int i = 0; i < N; i++)
        cr_assert_eq(seen[i], 1);
    /* The best possible number of packs is at least this; the strategy needs at most 11/9 of it. */
    cr_assert_leq(p.count, 11 * ((total + LIMIT - 1) / LIMIT) / 9 + 1);
    packs_free(&p);
}

Test(packs, no_examples)
{
    packs p = { 0 };
    cr_assert(packs_make(&p, 0, NULL, 8));
    cr_assert_eq(p.count, 0);
    packs_free(&p);
}
