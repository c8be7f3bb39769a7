/* tests/tensor/test_random.c - compares random numbers with PyTorch's (random_cases.txt, written by
 * record_random.py), and tests the generator's state and the errors.
 *
 * All numbers must equal PyTorch's bit for bit except normal ones computed in f64, which depend on
 * the C library's log and sin. These, and numbers rounded from them, may differ in the last digit.
 */
#include "tensor/tensor_internal.h"
#include "tests/support.h"

#include <brasa/ops.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(random, .init = check_begin, .fini = check_end);

/* ---- Replaying recorded calls ---------------------------------------------------------------- */

typedef struct row {
    char op[16], dtype[8], a[40], b[40];
    int ndim;
    int64_t sizes[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    bool view;
    const char *values; /* points at the rest of the line */
    int line;
} row;

static int parse_list(const char *text, int64_t *out)
{
    int n = 0;
    for (char *end; *text && *text != '-'; text = *end == ',' ? end + 1 : end)
        out[n++] = strtoll(text, &end, 10);
    return n;
}

static row parse_row(const char *line, int number)
{
    char sizes[64], strides[64];
    int used = 0;
    row r = { .line = number };
    int n = sscanf(line, "%15s %7s %39s %39s %63s %63s %n", r.op, r.dtype, r.a, r.b, sizes, strides,
                   &used);
    cr_assert_eq(n, 6, "line %d is not a case", number);
    r.ndim = parse_list(sizes, r.sizes);
    r.view = strcmp(strides, "-") != 0;
    parse_list(strides, r.strides);
    r.values = line + used;
    return r;
}

static br_dtype dtype_of(const row *r)
{
    return strcmp(r->dtype, "f32") == 0 ? BR_F32 : strcmp(r->dtype, "f64") == 0 ? BR_F64 : BR_I64;
}

/* Returns the tensor for uniform_ or normal_ to fill: a view of a larger tensor if strides are
 * recorded. */
static br_tensor *target(const row *r)
{
    if (!r->view)
        return br_empty(r->ndim, r->sizes, dtype_of(r));
    br_tensor *base = br_zeros(BR_SHAPE(100), dtype_of(r));
    return br__view_of(base, r->ndim, r->sizes, r->strides, 0);
}

static br_tensor *call(const row *r)
{
    double a = strtod(r->a, NULL), b = strtod(r->b, NULL);
    int64_t low = strtoll(r->a, NULL, 10), high = strtoll(r->b, NULL, 10);
    /* Linear's weight is uniform within +-sqrt(3) gain / sqrt(in) with gain sqrt(2 / (1 + 5)). */
    double weight_bound = sqrt(3.0) * (sqrt(2.0 / 6.0) / sqrt(a)), bias_bound = 1 / sqrt(a);
    if (strcmp(r->op, "rand") == 0)
        return br_rand(r->ndim, r->sizes, dtype_of(r));
    if (strcmp(r->op, "randn") == 0)
        return br_randn(r->ndim, r->sizes, dtype_of(r));
    if (strcmp(r->op, "randint") == 0)
        return br_randint(low, high, r->ndim, r->sizes);
    if (strcmp(r->op, "randperm") == 0)
        return br_randperm(high);
    if (strcmp(r->op, "uniform_") == 0)
        return br_uniform_(target(r), a, b);
    if (strcmp(r->op, "linear_weight") == 0)
        return br_uniform_(target(r), -weight_bound, weight_bound);
    if (strcmp(r->op, "linear_bias") == 0)
        return br_uniform_(target(r), -bias_bound, bias_bound);
    cr_assert(strcmp(r->op, "normal_") == 0 || strcmp(r->op, "embedding") == 0, "line %d", r->line);
    return br_normal_(target(r), a, b);
}

static double recorded_float(const char *hex, br_dtype dtype)
{
    uint64_t bits = strtoull(hex, NULL, 16);
    uint32_t low = (uint32_t)bits;
    float f32;
    double f64;
    memcpy(&f32, &low, sizeof f32);
    memcpy(&f64, &bits, sizeof f64);
    return dtype == BR_F32 ? (double)f32 : f64;
}

/* Returns how much a number may differ from PyTorch's. */
static double slack(const row *r, double value)
{
    bool normal = strcmp(r->op, "randn") == 0 || strcmp(r->op, "normal_") == 0 ||
                  strcmp(r->op, "embedding") == 0;
    int64_t n = 1;
    for (int i = 0; i < r->ndim; i++)
        n *= r->sizes[i];
    if (normal && dtype_of(r) == BR_F64)
        return 1e-15 * (1 + fabs(value));
    if (normal && (n < 16 || r->view))
        return 6e-8 * fabs(value);
    return 0;
}

/* Asserts that the last elements of t are the recorded ones. */
static void check_values(const row *r, const br_tensor *t)
{
    check_ok();
    int64_t n = br_numel(t), shown = 0;
    char *text = strdup(r->values), *rest = text, *word;
    for (const char *p = text; *p; p++)
        shown += *p == ' ' || *p == '\n';
    cr_assert_eq(shown, n < 32 ? n : 32, "line %d: %" PRId64 " values", r->line, shown);
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br_empty(br_ndim(t), br_sizes(t), br_dtype_of(t));
    br__copy(dense, t);
    for (int64_t i = n - shown; (word = strsep(&rest, " \n")) && *word; i++) {
        if (br_dtype_of(t) == BR_I64) {
            cr_assert_eq(br_data_i64(dense)[i], strtoll(word, NULL, 10),
                         "line %d: element %" PRId64, r->line, i);
            continue;
        }
        double expected = recorded_float(word, br_dtype_of(t));
        double got =
            br_dtype_of(t) == BR_F32 ? (double)br_data_f32(dense)[i] : br_data_f64(dense)[i];
        cr_assert(fabs(got - expected) <= slack(r, expected),
                  "line %d, %s: element %" PRId64 " is %.17g, PyTorch's %.17g", r->line, r->op, i,
                  got, expected);
    }
    br_scope_end(scope);
    free(text);
}

/* Calls `check` for each line of random_cases.txt. */
static void for_each_line(void (*check)(const char *line, int number))
{
    FILE *file = fopen(BRASA_TEST_DIR "/tensor/random_cases.txt", "r");
    cr_assert(file);
    char *line = NULL;
    size_t capacity = 0;
    int number = 0;
    while (getline(&line, &capacity, file) > 0)
        check(line, ++number);
    cr_assert_gt(number, 300);
    free(line);
    fclose(file);
}

static void replay(const char *line, int number)
{
    br_scope *scope = br_scope_begin();
    uint64_t seed;
    if (sscanf(line, "seed %" SCNu64, &seed) == 1) {
        br_manual_seed(seed);
        cr_assert_eq(br_initial_seed(), seed);
    } else {
        row r = parse_row(line, number);
        check_values(&r, call(&r));
    }
    br_scope_end(scope);
}

Test(random, numbers_equal_pytorch)
{
    for_each_line(replay);
}

/* ---- The generator --------------------------------------------------------------------------- */

Test(random, single_numbers_are_the_words_of_mt19937)
{
    br_manual_seed(5489); /* the first and the 10000th word for this seed are published */
    cr_assert_eq(br_random_u32(), 3499211612u);
    for (int i = 2; i < 10000; i++)
        br_random_u32();
    cr_assert_eq(br_random_u32(), 4123659995u);

    br_manual_seed(1);
    uint64_t high = br_random_u32(), low = br_random_u32();
    br_manual_seed(1);
    cr_assert_eq(br_random_u64(), high << 32 | low);
    br_manual_seed(1);
    double expected = (double)((high << 32 | low) & 0x1fffffffffffff) / 0x1p53;
    cr_assert_eq(br_random_double(), expected);
}

Test(random, a_seed_discards_the_second_number_of_a_pair)
{
    br_manual_seed(6);
    double first = br_item(br_randn(BR_SCALAR, BR_F64));
    for (int i = 0; i < 3; i++) {
        br_manual_seed(6);
        cr_assert_eq(br_item(br_randn(BR_SCALAR, BR_F64)), first);
    }
}

/* Generates numbers of all kinds from the generator's current state. */
static void generate(double out[40])
{
    br_scope *scope = br_scope_begin();
    cr_assert(br_copy_out(br_randn(BR_SHAPE(3), BR_F64), out, 3 * sizeof *out));
    cr_assert(br_copy_out(br_randn(BR_SHAPE(33), BR_F64), out + 3, 33 * sizeof *out));
    out[36] = br_random_double();
    out[37] = br_random_u32();
    out[38] = br_item(br_randint(0, 1000, BR_SCALAR));
    out[39] = br_item(br_randn(BR_SCALAR, BR_F32));
    br_scope_end(scope);
}

Test(random, a_restored_state_continues_with_the_same_numbers)
{
    double first[40], second[40];
    br_rng_state state, again;
    for (int offset = 0; offset < 700; offset += 13) {
        br_manual_seed((UINT64_C(1) << 40) + 3);
        for (int i = 0; i < offset; i++)
            br_random_u32();
        /* The generator produces normal numbers in pairs, and keeps the second one. */
        br_randn(BR_SCALAR, BR_F32);
        br_get_rng_state(&state);
        generate(first);
        br_manual_seed(9);
        cr_assert(br_set_rng_state(&state));
        br_get_rng_state(&again);
        cr_assert_eq(memcmp(&state, &again, sizeof state), 0);
        generate(second);
        cr_assert_eq(memcmp(first, second, sizeof first), 0, "after %d words", offset);
        cr_assert_eq(br_initial_seed(), (UINT64_C(1) << 40) + 3);
    }
}

/* Asserts that setting the state with one word changed fails with the message and leaves the
 * generator as it was. */
static void check_refused(int word, uint32_t value, const char *message)
{
    br_rng_state good, bad, after;
    br_get_rng_state(&good);
    bad = good;
    bad.words[word] = value;
    check_fails(br_set_rng_state(&bad), message);
    br_get_rng_state(&after);
    cr_assert_eq(memcmp(&good, &after, sizeof good), 0);
}

Test(random, state_is_validated)
{
    br_manual_seed(3);
    check_refused(624, 625, "set_rng_state: state is not valid: its position");
    check_refused(627, 2, "stored normal number");
    check_refused(629, 0x7ff00000, "stored normal number");
    check_refused(630, 0, "not written by br_get_rng_state()");
    check_refused(631, 2, "not written by br_get_rng_state()");
    check_fails(br_set_rng_state(NULL), "set_rng_state: state is NULL");
    check_fails((br_get_rng_state(NULL), false), "get_rng_state: state is NULL");

    br_rng_state zero;
    br_get_rng_state(&zero);
    memset(zero.words, 0, 624 * sizeof(uint32_t));
    zero.words[0] = 0x7fffffff; /* MT19937 uses only the top bit of the first word */
    check_fails(br_set_rng_state(&zero), "it is all zeros");
    zero.words[0] |= 0x80000000u;
    cr_assert(br_set_rng_state(&zero));
}

static void *generate_in_thread(void *first)
{
    *(uint64_t *)first = br_initial_seed();
    br_manual_seed(77);
    br_random_u32();
    br_thread_cleanup();
    return NULL;
}

Test(random, each_thread_has_its_own_generator)
{
    br_manual_seed(4);
    uint32_t expected[2] = { br_random_u32(), br_random_u32() };
    br_manual_seed(4);
    cr_assert_eq(br_random_u32(), expected[0]);
    pthread_t thread;
    uint64_t seed = 0;
    cr_assert_eq(pthread_create(&thread, NULL, generate_in_thread, &seed), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(seed, 67280421310721);
    cr_assert_eq(br_random_u32(), expected[1]);
}

static pthread_key_t late;

static void generate_late(void *number)
{
    *(uint32_t *)number = br_random_u32();
}

static void *leave_a_destructor(void *numbers)
{
    uint32_t *n = numbers;
    n[0] = br_random_u32();
    br_random_u32();
    pthread_setspecific(late, &n[1]);
    return NULL;
}

/* The key of the program is newer than the library's, so its destructor runs when the library has
 * already freed the thread's generator. The thread gets a new generator. */
Test(random, a_destructor_may_generate_numbers)
{
    br_random_u32(); /* makes the library's key */
    cr_assert_eq(pthread_key_create(&late, generate_late), 0);
    pthread_t thread;
    uint32_t numbers[2] = { 0 };
    cr_assert_eq(pthread_create(&thread, NULL, leave_a_destructor, numbers), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_eq(numbers[1], numbers[0]);
    pthread_key_delete(late);
}

Test(random, numbers_do_not_depend_on_the_number_of_threads)
{
    enum { N = 200003 };
    static float one[N], many[N];
    for (int threads = 1; threads <= 3; threads++) {
        br_set_num_threads(threads);
        br_manual_seed(8);
        cr_assert(
            br_copy_out(br_randn(BR_SHAPE(N), BR_F32), threads == 1 ? one : many, sizeof one));
        cr_assert(threads == 1 || memcmp(one, many, sizeof one) == 0, "%d threads", threads);
    }
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(random, bad_arguments_are_refused)
{
    br_tensor *t = br_zeros(BR_SHAPE(2, 3), BR_F32), *whole = br_zeros(BR_SHAPE(2), BR_I64);
    br_tensor *wide = br__view_of(t, 2, (int64_t[]){ 4, 3 }, (int64_t[]){ 0, 1 }, 0);
    uint64_t version = br_tensor_version(t);
    br_manual_seed(2);
    br_rng_state before, after;
    br_get_rng_state(&before);

    check_fails(br_rand(BR_SHAPE(2), BR_I64), "rand: dtype is i64, must be a floating-point dtype");
    check_fails(br_randn(BR_SHAPE(2), BR_BOOL), "randn: dtype is bool");
    check_fails(br_rand(BR_SHAPE(-1), BR_F32), "rand: size -1 of dimension 0");
    check_fails(br_randint(3, 3, BR_SHAPE(2)), "randint: low is 3 and high is 3");
    check_fails(br_randint(0, 3, BR_SHAPE(-2)), "randint: size -2");
    check_fails(br_randperm(-1), "randperm: n is -1");
    check_fails(br_uniform_(NULL, 0, 1), "uniform_: t is NULL");
    check_fails(br_uniform_(whole, 0, 1), "uniform_: t [2] is i64");
    check_fails(br_uniform_(t, 1, 0), "uniform_: low is 1 and high is 0");
    check_fails(br_uniform_(t, NAN, 0), "uniform_: low is nan");
    check_fails(br_uniform_(t, 0, 1e39), "representable as f32");
    check_fails(br_uniform_(t, -3e38, 3e38), "representable as f32");
    check_fails(br_uniform_(t, 0, INFINITY), "representable as f32");
    check_fails(br_uniform_(wide, 0, 1), "uniform_: t [4, 3] is expanded along dimension 0");
    check_fails(br_normal_(NULL, 0, 1), "normal_: t is NULL");
    check_fails(br_normal_(whole, 0, 1), "normal_: t [2] is i64");
    check_fails(br_normal_(t, 0, -1), "normal_: std is -1");
    check_fails(br_normal_(t, 0, NAN), "normal_: std is nan");
    check_fails(br_normal_(wide, 0, 1), "normal_: t [4, 3] is expanded");

    br_get_rng_state(&after);
    cr_assert_eq(memcmp(&before, &after, sizeof before), 0, "a failed call used random numbers");
    cr_assert_eq(br_tensor_version(t), version);
    cr_assert_eq(br_uniform_(t, 0, 1), t);
    cr_assert_eq(br_normal_(t, 0, 1), t);
    cr_assert_eq(br_tensor_version(t), version + 2);
}

Test(random, the_generator_does_not_advance_while_an_error_is_pending)
{
    br_tensor *t = br_zeros(BR_SHAPE(3), BR_F32);
    br_manual_seed(2);
    br_rng_state before, after;
    br_get_rng_state(&before);
    br_raise(BR_ERROR_STATE, "planted");
    cr_assert_null(br_rand(BR_SHAPE(2), BR_F32));
    cr_assert_null(br_randn(BR_SHAPE(2), BR_F32));
    cr_assert_null(br_randint(0, 3, BR_SHAPE(2)));
    cr_assert_null(br_randperm(3));
    cr_assert_null(br_uniform_(t, 0, 1));
    cr_assert_null(br_normal_(t, 0, 1));
    cr_assert_eq(br_random_u32(), 0);
    cr_assert_eq(br_random_u64(), 0);
    cr_assert_eq(br_random_double(), 0);
    cr_assert(!br_set_rng_state(&before));
    br_get_rng_state(&after);
    cr_assert_eq(memcmp(&before, &after, sizeof before), 0);
    cr_assert_str_eq(br_error_message(), "planted");
    br_clear_error();
}

Test(random, unit_interval_is_half_open)
{
    br_tensor *t = br_rand(BR_SHAPE(100000), BR_F32);
    br_tensor *narrow = br_uniform_(br_empty(BR_SHAPE(100000), BR_F32), 1, 1 + 0x1p-22);
    br_tensor *narrow64 = br_uniform_(br_empty(BR_SHAPE(1000), BR_F64), 1, 1 + 0x1p-51);
    for (int64_t i = 0; i < br_numel(t); i++) {
        float x = br_data_f32(t)[i], y = br_data_f32(narrow)[i];
        cr_assert(x >= 0 && x < 1);
        cr_assert(y >= 1 && y < 1 + 0x1p-22f, "rounding reached the end: %a", (double)y);
    }
    for (int64_t i = 0; i < br_numel(narrow64); i++) {
        double x = br_data_f64(narrow64)[i];
        cr_assert(x >= 1 && x < 1 + 0x1p-51, "rounding reached the end: %a", x);
    }
}
