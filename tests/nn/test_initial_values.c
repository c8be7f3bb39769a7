/* tests/nn/test_initial_values.c - new layers have PyTorch's initial weights: the same seed and
 * sequence of constructors give the same numbers (initial_values.h). */
#include "tests/support.h"

#include "tests/nn/initial_values.h"
#include <brasa/nn.h>

TestSuite(initial_values, .init = check_begin, .fini = check_end);

enum { COUNT = sizeof initial_values[0].values / sizeof(float) };

static struct {
    float values[COUNT];
    int64_t n;
    char what[COUNT][32]; /* the name and index of each number */
} got;

static void gather(const char *what, const br_tensor *t)
{
    check_ok();
    int64_t n = br_numel(t);
    cr_assert_leq(got.n + n, COUNT);
    cr_assert(br_copy_out(t, got.values + got.n, (size_t)n * sizeof(float)));
    for (int64_t i = 0; i < n; i++)
        snprintf(got.what[got.n++], sizeof got.what[0], "%s[%lld]", what, (long long)i);
}

/* Gathers the layer's parameters in PyTorch's order, and frees the layer. */
static void gather_layer(void *layer)
{
    br_module *module = layer;
    br_named_list *list = br_parameters(module);
    check_ok();
    for (int64_t i = 0; i < list->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s.%s", br_module_class(module), list->items[i].name);
        gather(name, list->items[i].tensor);
    }
    br_named_list_free(list);
    br_module_free(module);
}

static br_tensor *target(void)
{
    return br_empty(BR_SHAPE(3, 7), BR_F32);
}

static void make_all(void)
{
    gather_layer(br_linear_new(3, 4, true));
    gather_layer(br_embedding_new(5, 3, 1));
    gather_layer(br_layer_norm_new(4, NULL));
    gather_layer(br_linear_new(20, 2, false));
    gather_layer(br_embedding_new(4, 6, -1));
    gather_layer(br_linear_new(7, 1, true));
    gather("xavier_uniform_", br_init_xavier_uniform_(target(), 1));
    gather("xavier_normal_", br_init_xavier_normal_(target(), 1));
    gather("kaiming_uniform_", br_init_kaiming_uniform_(target(), 0.5));
    gather("kaiming_normal_", br_init_kaiming_normal_(target(), 0));
    gather("trunc_normal_", br_init_trunc_normal_(target(), 0.5, 2, -1, 1.5));
    gather("rand", br_rand(BR_SHAPE(1), BR_F32)); /* the generators are in the same state */
}

Test(initial_values, equal_pytorch)
{
    for (size_t k = 0; k < sizeof initial_values / sizeof *initial_values; k++) {
        br_manual_seed(initial_values[k].seed);
        got.n = 0;
        make_all();
        cr_assert_eq(got.n, COUNT);
        for (int i = 0; i < COUNT; i++) {
            double expected = (double)initial_values[k].values[i], value = (double)got.values[i];
            /* calls for fewer than 16 normal numbers use the C library's log and sin */
            cr_assert(fabs(value - expected) <= 6e-8 * fabs(expected),
                      "seed %llu, %s: %a, PyTorch's %a", (unsigned long long)initial_values[k].seed,
                      got.what[i], value, expected);
        }
    }
}
