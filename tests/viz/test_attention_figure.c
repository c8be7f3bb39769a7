/* Figures of attention: invalid arguments, and what is drawn. test_views.py compares their lines
 * with the weights. */
#include "tests/viz/attention_texts.h"

#include <unistd.h>

static char directory[] = "/tmp/brasa-figure-XXXXXX";
static char path[64];

static void begin(void)
{
    check_begin();
    cr_assert_not_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/view.svg", directory);
}

static void end(void)
{
    unlink(path);
    cr_assert_eq(rmdir(directory), 0, "other files than the figure are left");
    check_end();
}

TestSuite(attention_figure, .init = begin, .fini = end);

static char *read_figure(void)
{
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    static char text[1 << 16];
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    fclose(file);
    return text;
}

static void check_no_figure(br_attention_view view, const br_attention_svg_options *o,
                            const char *message)
{
    check_fails(br_attention_svg(path, &view, o) >= 0, message);
}

Test(attention_figure, figures_are_checked)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(3);
    cr_assert(add_one(a, weights(2, 3, 3), br_zeros(BR_SHAPE(1, 2, 3, 4), BR_F32),
                      br_zeros(BR_SHAPE(1, 2, 3, 4), BR_F32)));
    br_attention_view v = { .attention = a };
    check_fails(br_attention_svg(path, NULL, NULL) >= 0, "attention_svg: at least one view");
    check_no_figure((br_attention_view){ .attention = a, .layer = 1 }, NULL,
                    "attention_svg: view 0: layer is 1");
    check_no_figure((br_attention_view){ .attention = a, .kind = BR_NEURON_VIEW }, NULL,
                    "BR_NEURON_VIEW, which has no figure");
    check_no_figure(v, BR_OPTIONS(br_attention_svg, .token = 3), "token is 3, must be 0 .. 2");
    check_no_figure(v, BR_OPTIONS(br_attention_svg, .token = -2), "token is -2");
    check_no_figure(v, BR_OPTIONS(br_attention_svg, .part = BR_ATTENTION_CROSS),
                    "part is cross, but the view includes no such layer");
    check_no_figure(v, BR_OPTIONS(br_attention_svg, .part = 4), "part is 4");
    check_fails(br_attention_svg("/none/view.svg", &v, NULL) >= 0, "/none/view.svg");
    br_attention_free(a);
    br_scope_end(scope);
}

/* Each part of an encoder-decoder has its own tokens. */
Test(attention_figure, figures_of_parts)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = pair_of(3, 2);
    static const int64_t rows[] = { 3, 2, 2 }, columns[] = { 3, 2, 3 };
    for (int i = 0; i < 3; i++)
        cr_assert(br_attention_add(a, (br_attention_part)(BR_ATTENTION_ENCODER + i), "x",
                                   weights(1, rows[i], columns[i]), NULL, NULL));
    br_attention_view v = { .attention = a };
    for (int part = BR_ATTENTION_SELF; part <= BR_ATTENTION_CROSS; part++) {
        const int i = part ? part - 1 : 0;
        br_attention_svg_options o =
            *BR_OPTIONS(br_attention_svg, .part = (br_attention_part)part, .token = 1);
        int64_t size = br_attention_svg(NULL, &v, &o);
        cr_assert_eq(br_attention_svg(path, &v, &o), size, "%s", br_error_message());
        cr_assert_eq(strlen(read_figure()), (size_t)size);
        cr_assert_eq(count(read_figure(), "</text>"), rows[i] + columns[i] + 3, "part %d", part);
    }
    br_attention_free(a);
    br_scope_end(scope);
}

/* A head that a layer lacks is ignored; if it lacks all, all of its own are drawn. */
Test(attention_figure, heads_of_a_figure)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(3);
    for (int i = 0; i < 2; i++)
        cr_assert(add_one(a, weights(i ? 4 : 2, 3, 3), NULL, NULL));
    static const struct {
        int64_t n, heads[2];
        int drawn;
    } cases[] = { { 2, { 1, 3 }, 1 }, { 1, { 3 }, 2 }, { 0, { 0 }, 2 } };
    for (int i = 0; i < 3; i++) {
        br_attention_view v = { .attention = a, .n_heads = cases[i].n };
        v.heads = v.n_heads ? cases[i].heads : NULL;
        cr_assert_gt(br_attention_svg(path, &v, NULL), 0, "%s", br_error_message());
        cr_assert_eq(count(read_figure(), "<g stroke="), cases[i].drawn);
    }
    br_attention_free(a);
    br_scope_end(scope);
}

static bool make_figures(void)
{
    br_scope *scope = br_scope_begin();
    br_attention *a = text_of(3);
    br_attention_add(a, BR_ATTENTION_SELF, "x", weights(2, 3, 3), NULL, NULL);
    for (int kind = BR_HEAD_VIEW; kind <= BR_MODEL_VIEW && !br_failed(); kind++) {
        br_attention_view view = { .kind = (br_attention_kind)kind, .attention = a };
        int64_t size = br_attention_svg(path, &view, NULL);
        cr_assert_eq(size < 0, br_failed());
    }
    br_attention_free(a);
    br_scope_end(scope);
    return !br_failed();
}

Test(attention_figure, every_allocation_may_fail)
{
    fail_in_turn(make_figures, "make figures");
}
