/* tests/viz/test_graph.c - a tensor's graph as DOT and SVG: its contents, that it is well-formed
 * for any names, and that boxes do not overlap. */
#include "tests/memory.h"
#include "tests/support.h"

#include <brasa/brasa.h>
#include <math.h>
#include <unistd.h>

TestSuite(graph, .init = check_begin, .fini = check_end);

static char path[64];

static char *read_all(void)
{
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f);
    char *text = calloc(1, 1 << 22);
    cr_assert(fread(text, 1, (1 << 22) - 1, f) > 0);
    fclose(f);
    remove(path);
    return text;
}

static void choose_path(void)
{
    snprintf(path, sizeof path, "graph-%d.txt", (int)getpid());
}

static char *dot_of(br_tensor *t, const br_graph_options *o)
{
    choose_path();
    cr_assert(br_graph_dot(path, t, o), "%s", br_error_message());
    return read_all();
}

static char *svg_of(br_tensor *t, const br_graph_options *o)
{
    choose_path();
    cr_assert(br_graph_svg(path, t, o), "%s", br_error_message());
    return read_all();
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        n++;
    return n;
}

/* ---- XML ------------------------------------------------------------------------------------- */

/* Returns whether tags are nested, attributes quoted, and text has no bare < or &. */
static bool well_formed(const char *p)
{
    char open[64][32];
    int depth = 0;
    bool any = false;
    while (*p) {
        if (*p == '&') {
            static const char *const entities[] = { "&#38;", "&#60;", "&#62;", "&#34;", "&#39;" };
            size_t length = 0;
            for (int i = 0; i < 5; i++)
                if (strncmp(p, entities[i], strlen(entities[i])) == 0)
                    length = strlen(entities[i]);
            if (length == 0)
                return false;
            p += length;
        } else if (*p != '<') {
            if ((unsigned char)*p < 32 && *p != '\n')
                return false;
            p++;
        } else {
            bool closes = p[1] == '/';
            size_t n = strspn(p += 1 + closes, "abcdefghijklmnopqrstuvwxyz");
            if (n == 0 || n > 31)
                return false;
            const char *name = p;
            for (p += n; *p && *p != '>'; p++) {
                if (*p == '<' || (*p == '=' && p[1] != '"'))
                    return false;
                if (*p == '"' && !(p = strchr(p + 1, '"')))
                    return false;
            }
            if (*p++ != '>')
                return false;
            if (closes) {
                if (depth == 0 || strncmp(open[--depth], name, n) != 0 || open[depth][n])
                    return false;
            } else if (p[-2] != '/') {
                if (depth == 64 || (any && depth == 0))
                    return false;
                snprintf(open[depth++], 32, "%.*s", (int)n, name);
            }
            any = true;
        }
    }
    return any && depth == 0;
}

Test(graph, the_check_of_xml_finds_mistakes)
{
    cr_assert(well_formed("<a x=\"1\"><b/>t&#60;</a>"));
    cr_assert_not(well_formed("<a><b></a></b>"));
    cr_assert_not(well_formed("<a>&</a>"));
    cr_assert_not(well_formed("<a x=1></a>"));
    cr_assert_not(well_formed("<a></a><b></b>"));
    cr_assert_not(well_formed("<a>"));
}

/* ---- Contents -------------------------------------------------------------------------------- */

Test(graph, operations_leaves_and_names)
{
    br_scope *scope = br_scope_begin();
    br_sequential *model = br_sequential_new(
        BR_MODULES(br_linear_new(3, 4, true), br_relu_new(), br_linear_new(4, 1, false)));
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(2, 3), BR_F32), true);
    br_tensor *y = br_sum(br_sequential_forward(model, x));
    br_graph_options o =
        *BR_OPTIONS(br_graph, .module = br_base(model), .title = "A \"small\" \\model");
    char *dot = dot_of(y, &o), *plain = dot_of(y, NULL), *svg = svg_of(y, &o);
    cr_assert(strstr(dot, "label=\"linear\\nf32 [2, 4]\""), "%s", dot);
    cr_assert(strstr(dot, "label=\"0.weight\\nf32 [4, 3]\""));
    cr_assert(strstr(dot, "label=\"leaf\\nf32 [2, 3]\""));
    cr_assert(strstr(dot, "label=\"A \\\"small\\\" \\\\model\""));
    cr_assert_eq(count(dot, "fillcolor=\"#cdebd0\""), 1);
    cr_assert_eq(count(dot, " -> "), 3 + 1 + 2 + 1);
    cr_assert_eq(count(plain, "leaf"), 4);
    cr_assert(well_formed(svg), "%s", svg);
    cr_assert_eq(count(svg, "class=\"op\""), 3);
    cr_assert_eq(count(svg, "class=\"result\""), 1);
    cr_assert_eq(count(svg, "class=\"parameter\""), 3);
    cr_assert(strstr(svg, ">2.weight</text>"));
    free(dot);
    free(plain);
    free(svg);
    br_module_free(model);
    br_scope_end(scope);
}

/* A tensor that is used twice appears once. A single leaf is a graph, too. */
Test(graph, shared_leaves_and_a_leaf_alone)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F64), true);
    char *dot = dot_of(br_mul(br_exp(x), x), NULL), *leaf = svg_of(x, NULL);
    cr_assert_eq(count(dot, "leaf"), 1);
    cr_assert_eq(count(dot, " -> "), 3);
    cr_assert(well_formed(leaf));
    cr_assert_eq(count(leaf, "class=\"result\""), 1);
    free(dot);
    free(leaf);
    br_scope_end(scope);
}

/* ---- Hostile names --------------------------------------------------------------------------- */

static void pass(br_node *node, br_tensor *dy, br_tensor **dx)
{
    (void)node;
    dx[0] = dy;
}

Test(graph, names_may_hold_anything)
{
    static const char name[] = "</text><script>&\"'\\\n\x01\xff]]>\xe2\x80\xae -->";
    static const br_op op = { name, pass, false };
    br_scope *scope = br_scope_begin();
    br_sequential *model = br_sequential_new(0, NULL);
    br_tensor *w = br_parameter(model, name, br_ones(BR_SHAPE(1), BR_F32));
    br_tensor *y = br_ones(BR_SHAPE(1), BR_F32);
    br_record(&op, y, BR_INPUTS(w), NULL, 0);
    br_graph_options o = *BR_OPTIONS(br_graph, .module = br_base(model), .title = name);
    char *svg = svg_of(y, &o), *dot = dot_of(y, &o);
    cr_assert(well_formed(svg), "%s", svg);
    cr_assert_null(strstr(svg, "<script"));
    cr_assert_eq(count(svg, "&#60;script&#62;&#38;&#34;"), 3);
    for (const char *p = dot; (p = strchr(p, '"')); p++) /* each string ends on the same line */
        if (p[-1] != '\\') {
            do {
                p++;
                cr_assert(*p && *p != '\n', "%s", dot);
            } while (*p != '"' || p[-1] == '\\');
        }
    free(svg);
    free(dot);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Layout ---------------------------------------------------------------------------------- */

/* Checks that the boxes of a layer do not overlap, and that all lines go down. Those that
 * end at a box, and no others, have arrows. */
static void check_layout(const char *svg)
{
    enum { MOST = 4000 };
    static double x[MOST], y[MOST], width[MOST];
    int n = 0;
    for (const char *p = svg; (p = strstr(p, "\"><rect x=")) && n < MOST; p++, n++)
        cr_assert_eq(
            sscanf(p, "\"><rect x=\"%lf\" y=\"%lf\" width=\"%lf\"", &x[n], &y[n], &width[n]), 3);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++)
            cr_assert(y[i] != y[k] || x[i] + width[i] <= x[k] || x[k] + width[k] <= x[i],
                      "boxes %d and %d overlap", i, k);
    double from, to, end, unused;
    for (const char *p = svg; (p = strstr(p, "<path d=\"M")); p++) {
        if (sscanf(p, "<path d=\"M%lf %lfC%lf %lf %lf %lf %lf %lf\"", &unused, &from, &unused,
                   &unused, &unused, &unused, &end, &to) != 8)
            continue;
        cr_assert(from < to);
        bool at_box = false, has_arrow = strncmp(strchr(p + 10, '"'), "\" marker-end", 12) == 0;
        for (int i = 0; i < n && !at_box; i++)
            at_box = y[i] == to && x[i] < end && end < x[i] + width[i];
        cr_assert_eq(has_arrow, at_box, "a line to %g, %g", end, to);
    }
    cr_assert(n > 0);
}

Test(graph, a_transformer)
{
    br_scope *scope = br_scope_begin();
    br_transformer_options options =
        *BR_OPTIONS(br_transformer, .dim_feedforward = 8, .batch_first = true);
    br_transformer_encoder *model = br_transformer_encoder_new(4, 2, 3, true, &options);
    br_tensor *y = br_transformer_encoder_forward(model, br_ones(BR_SHAPE(1, 3, 4), BR_F32), NULL,
                                                  NULL, false);
    char *svg = svg_of(br_mean(y), BR_OPTIONS(br_graph, .module = br_base(model)));
    cr_assert(well_formed(svg));
    check_layout(svg);
    cr_assert(strstr(svg, ">layers.2.self_attn.in_proj_weight</text>"));
    free(svg);
    br_module_free(model);
    br_scope_end(scope);
}

Test(graph, many_lines_cross)
{
    br_scope *scope = br_scope_begin();
    br_tensor *t[12], *sum = NULL;
    for (int i = 0; i < 12; i++)
        t[i] = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true);
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < 12; i++)
            t[i] = br_mul(t[i], t[(i * 5 + k) % 12]);
    for (int i = 0; i < 12; i++)
        sum = sum ? br_add(sum, t[i]) : t[i];
    char *svg = svg_of(sum, NULL);
    check_layout(svg);
    free(svg);
    br_scope_end(scope);
}

/* `a` has no operation above it, so it is drawn beside the last ones. The leaf is used there and
 * above. */
Test(graph, a_leaf_is_above_all_its_targets)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true);
    br_tensor *a = br_exp(x), *b = br_mul(br_neg(x), x);
    for (int i = 0; i < 4; i++)
        b = br_exp(b);
    char *svg = svg_of(br_mul(a, b), NULL);
    check_layout(svg);
    free(svg);
    br_scope_end(scope);
}

/* A leaf is drawn just above its first target, not in the first row. */
Test(graph, a_leaf_is_next_to_its_target)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true);
    br_tensor *late = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true), *y = x;
    for (int i = 0; i < 4; i++)
        y = br_exp(y);
    char *svg = svg_of(br_mul(y, late), NULL);
    enum { BOXES = 7 }; /* two leaves, four exp, mul */
    double tops[BOXES];
    int n = 0, in_rows[2] = { 0 };
    for (const char *p = svg; (p = strstr(p, "\"><rect x=")) && n < BOXES; p++, n++)
        cr_assert_eq(sscanf(p, "\"><rect x=\"%*f\" y=\"%lf\"", &tops[n]), 1);
    cr_assert_eq(n, BOXES);
    double first = INFINITY, last = 0, before = 0;
    for (int i = 0; i < n; i++) {
        first = fmin(first, tops[i]);
        last = fmax(last, tops[i]);
    }
    for (int i = 0; i < n; i++)
        before = tops[i] < last ? fmax(before, tops[i]) : before;
    for (int i = 0; i < n; i++) {
        in_rows[0] += tops[i] == first;
        in_rows[1] += tops[i] == before;
    }
    cr_assert_eq(in_rows[0], 1, "only x is in the first row");
    cr_assert_eq(in_rows[1], 2, "the other leaf is beside the last exp");
    free(svg);
    br_scope_end(scope);
}

/* Gets the leftmost edge, the rightmost edge and the greatest width of the boxes, and the width of
 * the page. */
static void measure(const char *svg, double *left, double *right, double *widest, double *page)
{
    *left = INFINITY;
    *right = *widest = 0;
    cr_assert_eq(sscanf(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lf\"", page), 1);
    for (const char *p = svg; (p = strstr(p, "\"><rect x=")); p++) {
        double x, width;
        cr_assert_eq(sscanf(p, "\"><rect x=\"%lf\" y=\"%*f\" width=\"%lf\"", &x, &width), 2);
        *left = fmin(*left, x);
        *right = fmax(*right, x + width);
        *widest = fmax(*widest, width);
    }
}

/* The margins are 20 wide. A drawing that is narrower than its title is in the middle. A letter is
 * a code point, not a byte. */
Test(graph, margins_and_widths)
{
    static const char name[] = "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
                               "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"; /* 12 letters */
    double left, right, widest, page;
    br_scope *scope = br_scope_begin();
    br_sequential *model = br_sequential_new(0, NULL);
    br_tensor *w = br_parameter(model, name, br_ones(BR_SHAPE(1), BR_F32));
    br_tensor *wide = br_set_requires_grad(br_ones(BR_SHAPE(1, 1, 1, 1, 1, 1), BR_F32), true);
    br_tensor *graphs[] = { br_exp(w), br_mul(br_exp(w), w), br_mul(br_exp(wide), w),
                            br_mul(br_exp(w), br_mul(wide, wide)) };
    for (int i = 0; i < 4; i++) {
        char *svg = svg_of(graphs[i], BR_OPTIONS(br_graph, .module = br_base(model)));
        measure(svg, &left, &right, &widest, &page);
        cr_assert(fabs(left - 20) < 0.06 && fabs(right + 20 - page) < 0.6, "%d: %g .. %g of %g", i,
                  left, right, page);
        cr_assert(i > 0 || widest == 12 * 7 + 18, "%g", widest);
        free(svg);
    }
    static const char title[] = "A title that is wider than the whole drawing below it";
    char *svg = svg_of(graphs[0], BR_OPTIONS(br_graph, .module = br_base(model), .title = title));
    measure(svg, &left, &right, &widest, &page);
    cr_assert(page > right + 40 && fabs(left + right - page) < 1, "%g .. %g of %g", left, right,
              page);
    free(svg);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Invalid arguments ----------------------------------------------------------------------- */

Test(graph, refusals)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true), *y = x;
    check_fails(br_graph_dot("unused", br_ones(BR_SHAPE(1), BR_F64), NULL),
                "graph_dot: t [1] does not require grad");
    check_fails(br_graph_svg("unused", NULL, NULL), "graph_svg: t is NULL");
    check_fails(br_graph_svg(NULL, x, NULL), "path is NULL");
    check_fails(br_graph_dot("no/such/folder/graph.dot", x, NULL), "no/such/folder");
    for (int i = 0; i < 60000; i++)
        y = br_neg(y);
    check_fails(br_graph_svg("unused", y, NULL), "60001 operations and leaves");
    br_scope_end(scope);
}

static bool draw(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true);
    br_tensor *y = br_mul(br_exp(br_neg(x)), x);
    bool ok = y && br_graph_svg(path, y, NULL) && br_graph_dot(path, y, NULL);
    br_scope_end(scope);
    return ok;
}

Test(graph, every_allocation_fails_in_turn)
{
    choose_path();
    fail_in_turn(draw, "a graph");
    remove(path);
}
