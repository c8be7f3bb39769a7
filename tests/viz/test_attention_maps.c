/* Attention rollout and gradient x attention, compared with plain computations in f64. */
#include "tests/memory.h"
#include "tests/support.h"
#include "viz/viz_internal.h"

#include <brasa/brasa.h>

TestSuite(attention_maps, .init = check_begin, .fini = check_end);

enum { N = 4, HEADS = 3, LAYERS = 3, SIZE = 5 };
static const char *const words[] = { "a", "b", "c", "d" };

static br_attention *text_of(int64_t batch)
{
    return br_attention_new(&(br_attention_text){ .n_tokens = N, .tokens = words, .batch = batch });
}

static const br_map *map_of(const br_attention *a, br_attention_map kind, int64_t layer)
{
    for (int64_t i = 0; i < a->n_maps; i++)
        if (a->maps[i].kind == kind && a->maps[i].layer == layer)
            return &a->maps[i];
    cr_assert_fail("no map %d of layer %lld", (int)kind, (long long)layer);
    return NULL;
}

static void check_values(const br_map *map, const double *expected)
{
    cr_assert_eq(br_size(map->weights, 0), 1);
    for (int i = 0; i < N * N; i++)
        cr_assert_float_eq(br_data_f32(map->weights)[i], expected[i], 1e-6, "[%d]: %g, not %g", i,
                           (double)br_data_f32(map->weights)[i], expected[i]);
}

/* ---- Rollout --------------------------------------------------------------------------------- */

/* Computes rollout = (mean of heads + I, rows divided by their sums) x rollout. */
static void roll(const float *w, double rollout[N * N])
{
    double a[N * N] = { 0 }, product[N * N] = { 0 };
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++) {
            for (int h = 0; h < HEADS; h++)
                a[i * N + j] += (double)w[(h * N + i) * N + j] / HEADS;
            a[i * N + j] += i == j;
            sum += a[i * N + j];
        }
        for (int j = 0; j < N; j++)
            a[i * N + j] /= sum;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                product[i * N + j] += a[i * N + k] * rollout[k * N + j];
    memcpy(rollout, product, sizeof product);
}

/* The rows of the weights need not sum to 1: parts of a text do not. */
Test(attention_maps, rollout)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(0);
    double rollout[N * N] = { 0 };
    for (int i = 0; i < N; i++)
        rollout[i * N + i] = 1;
    br_tensor *weights[LAYERS];
    for (int l = 0; l < LAYERS; l++) {
        weights[l] = br_rand(BR_SHAPE(1, HEADS, N, N), BR_F32);
        cr_assert(br_attention_add(a, BR_ATTENTION_SELF, "x", weights[l], NULL, NULL));
    }
    cr_assert(br_attention_add_rollout(a), "%s", br_error_message());
    cr_assert_eq(br_attention_layers(a, BR_ATTENTION_SELF), LAYERS, "maps are no layers");
    for (int l = 0; l < LAYERS; l++) {
        roll(br_data_f32(weights[l]), rollout);
        check_values(map_of(a, BR_MAP_ROLLOUT, l), rollout);
    }
    check_fails(br_attention_add_rollout(a), "the rollout was added before");
    br_attention_free(a);
    br_scope_end(scope);
}

/* The rollouts of an encoder and of its decoder are separate. Cross-attention has none. */
Test(attention_maps, rollout_of_parts)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = br_attention_new(&(br_attention_text){
        .n_tokens = N, .tokens = words, .n_decoder_tokens = N, .decoder_tokens = words });
    br_tensor *w = br_rand(BR_SHAPE(1, HEADS, N, N), BR_F32);
    cr_assert(br_attention_add(a, BR_ATTENTION_CROSS, "x", w, NULL, NULL));
    check_fails(br_attention_add_rollout(a), "no layer of self-attention was added");
    cr_assert(br_attention_add(a, BR_ATTENTION_ENCODER, "x", w, NULL, NULL));
    cr_assert(br_attention_add(a, BR_ATTENTION_DECODER, "x", w, NULL, NULL));
    cr_assert(br_attention_add_rollout(a), "%s", br_error_message());
    cr_assert_eq(br__count_maps(a, BR_MAP_ROLLOUT), 2);
    double rollout[N * N] = { 0 };
    for (int i = 0; i < N; i++)
        rollout[i * N + i] = 1;
    roll(br_data_f32(w), rollout);
    for (int i = 3; i < 5; i++)
        check_values(&a->maps[i], rollout);
    br_attention_free(a);
    check_fails(br_attention_add_rollout(NULL), "self");
    br_scope_end(scope);
}

/* ---- Gradient x attention -------------------------------------------------------------------- */

/* Two texts; the layers' values are constants. Layer l computes softmax(scores_l) x values_l, and
 * the output is the sum of weights_l x values_l x factors_l, so that the gradient with respect to
 * weights [h, i, j] is the dot product of values [h, j] and factors [h, i]. */
typedef struct toy {
    br_tensor *scores[LAYERS], *values[LAYERS], *factors[LAYERS];
} toy;

static toy make_toy(void)
{
    toy t;
    for (int l = 0; l < LAYERS; l++) {
        t.scores[l] = br_set_requires_grad(br_randn(BR_SHAPE(2, HEADS, N, N), BR_F32), true);
        t.values[l] = br_randn(BR_SHAPE(2, HEADS, N, SIZE), BR_F32);
        t.factors[l] = br_randn(BR_SHAPE(2, HEADS, N, SIZE), BR_F32);
    }
    return t;
}

/* Runs all layers. The last does not count in the output. */
static br_tensor *run_toy(const toy *t)
{
    br_tensor *output = NULL;
    for (int l = 0; l < LAYERS; l++) {
        br_tensor *w = br_tap_attention(NULL, NULL, br_softmax(t->scores[l], -1), false);
        br_tensor *sum = br_sum(br_mul(br_matmul(w, t->values[l]), t->factors[l]));
        if (l < LAYERS - 1)
            output = output ? br_add(output, sum) : sum;
    }
    return output;
}

static double gradient_of(const toy *t, int l, int64_t batch, int h, int i, int j)
{
    const float *v = br_data_f32(t->values[l]), *f = br_data_f32(t->factors[l]);
    double sum = 0;
    for (int n = 0; n < SIZE; n++)
        sum += (double)v[((batch * HEADS + h) * N + j) * SIZE + n] *
               (double)f[((batch * HEADS + h) * N + i) * SIZE + n];
    return l < LAYERS - 1 ? sum : 0;
}

Test(attention_maps, gradient)
{
    br_scope *scope = br_scope_begin();
    toy t = make_toy();
    br_recorder *recorder = br_recorder_begin();
    br_tensor *output = run_toy(&t);
    br_attention *a = text_of(1);
    cr_assert(br_attention_add_recorded(a, recorder));
    cr_assert(br_attention_add_gradient(a, recorder, output), "%s", br_error_message());
    for (int l = 0; l < LAYERS; l++) {
        double expected[N * N] = { 0 };
        const float *w = br_data_f32(map_of(a, BR_MAP_WEIGHTS, l)->weights);
        for (int k = 0; k < HEADS * N * N; k++) {
            int h = k / (N * N), i = k / N % N, j = k % N;
            expected[i * N + j] += fmax((double)w[k] * gradient_of(&t, l, 1, h, i, j), 0) / HEADS;
        }
        check_values(map_of(a, BR_MAP_GRADIENT, l), expected);
    }
    check_fails(br_attention_add_gradient(a, recorder, output), "gradients were added before");
    br_attention_free(a);
    br_recorder_end(recorder);
    br_scope_end(scope);
}

/* A model whose heads are modules in a list has the gradient of a model of one module. */
Test(attention_maps, gradient_of_heads_that_are_modules)
{
    br_anatomy_config c = br_anatomy_notebook_config();
    c.hidden_size = 12;
    c.num_attention_heads = 3;
    br_anatomy_multi_head_attention *model = br_anatomy_multi_head_attention_new(&c);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(1, N, 12), BR_F32);
    br_attention *a = text_of(0);
    br_recorder *recorder = br_recorder_begin();
    br_tensor *y = br_anatomy_multi_head_attention_forward(model, x, NULL);
    cr_assert(br_attention_add_recorded(a, recorder));
    cr_assert(br_attention_add_gradient(a, recorder, br_max(y)), "%s", br_error_message());
    const br_map *map = map_of(a, BR_MAP_GRADIENT, 0);
    cr_assert_eq(br_size(map->weights, 0), 1);
    double sum = 0;
    for (int i = 0; i < N * N; i++)
        sum += (double)br_data_f32(map->weights)[i];
    cr_assert_gt(sum, 0);
    br_attention_free(a);
    br_recorder_end(recorder);
    br_scope_end(scope);
    br_module_free(model);
}

static void check_refused(br_attention *a, const br_recorder *recorder, br_tensor *output,
                          const char *message)
{
    check_fails(br_attention_add_gradient(a, recorder, output), message);
}

Test(attention_maps, gradient_is_checked)
{
    br_scope *scope = br_scope_begin();
    toy t = make_toy();
    br_attention *a = text_of(0);
    br_recorder *recorder = br_recorder_begin();
    br_tensor *output = run_toy(&t);
    check_refused(a, recorder, output, "the recorder has 3 layers, but 0 were added");
    cr_assert(br_attention_add_recorded(a, recorder));
    check_refused(a, recorder, t.scores[0], "output is [2, 3, 4, 4], must have one element");
    check_refused(a, recorder, NULL, "output");
    check_refused(a, NULL, output, "recorder");
    check_refused(NULL, recorder, output, "self");
    br_recorder_end(recorder);
    br_scope *quiet = br_no_grad_begin();
    recorder = br_recorder_begin();
    output = run_toy(&t);
    check_refused(a, recorder, output, "have no graph: run the forward pass with gradients on");
    br_recorder_end(recorder);
    br_scope_end(quiet);
    cr_assert_eq(br__count_maps(a, BR_MAP_GRADIENT), 0);
    br_attention_free(a);
    br_scope_end(scope);
}

/* ---- Views ----------------------------------------------------------------------------------- */

static void check_no_view(br_attention_view view, const char *message)
{
    check_fails(br_attention_html(NULL, 1, &view, NULL) >= 0, message);
}

Test(attention_maps, views_are_checked)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(0);
    br_tensor *w = br_rand(BR_SHAPE(1, HEADS, N, N), BR_F32);
    cr_assert(br_attention_add(a, BR_ATTENTION_SELF, "x", w, NULL, NULL));
    br_attention_view v = { .attention = a, .map = BR_MAP_ROLLOUT };
    check_no_view(v, "call br_attention_add_rollout()");
    cr_assert(br_attention_add_rollout(a));
    cr_assert_gt(br_attention_html(NULL, 1, &v, NULL), 0, "%s", br_error_message());
    cr_assert_gt(br_attention_svg(NULL, &v, NULL), 0, "%s", br_error_message());
    v.kind = BR_MODEL_VIEW;
    check_no_view(v, "only head views and heat maps have maps");
    v.map = BR_MAP_GRADIENT + 1;
    check_no_view(v, "map is 3, must be a br_attention_map");
    v = (br_attention_view){ .attention = a, .kind = BR_HEATMAP_VIEW, .head = BR_HEAD_MAX };
    cr_assert_gt(br_attention_html(NULL, 1, &v, NULL), 0, "%s", br_error_message());
    v.head = -3;
    check_no_view(v, "head is -3, must be 0 .. 2, BR_HEAD_MEAN or BR_HEAD_MAX");
    v.head = 3;
    check_no_view(v, "head is 3");
    v.kind = BR_NEURON_VIEW;
    v.head = -1;
    check_no_view(v, "head is -1, must be 0 .. 2");
    v.kind = 4;
    check_no_view(v, "kind is 4");
    br_attention_free(a);
    br_scope_end(scope);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool make_maps(void)
{
    br_scope *scope = br_scope_begin();
    toy t = make_toy();
    br_recorder *recorder = br_recorder_begin();
    br_tensor *output = run_toy(&t);
    br_attention *a = text_of(1);
    br_attention_add_recorded(a, recorder);
    if (!br_failed() && !br_attention_add_rollout(a))
        cr_assert_eq(br__count_maps(a, BR_MAP_ROLLOUT), 0);
    if (!br_failed() && !br_attention_add_gradient(a, recorder, output))
        cr_assert_eq(br__count_maps(a, BR_MAP_GRADIENT), 0);
    br_attention_view view = { .kind = BR_HEATMAP_VIEW, .attention = a, .map = BR_MAP_GRADIENT };
    if (!br_failed())
        br_attention_svg(NULL, &view, NULL);
    br_attention_free(a);
    br_recorder_end(recorder);
    br_scope_end(scope);
    return !br_failed();
}

Test(attention_maps, every_allocation_may_fail)
{
    fail_in_turn(make_maps, "make maps");
}
