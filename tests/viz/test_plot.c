/* SVG plots: positions, escaping of text, and files that cannot be written. */
#include "tests/memory.h"
#include "viz/plot.h"

#include <brasa/viz.h>
#include <float.h>
#include <locale.h>
#include <unistd.h>

static char directory[] = "/tmp/brasa-plot-XXXXXX";
static char path[64];

static void begin(void)
{
    check_begin();
    cr_assert_not_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/plot.svg", directory);
}

static void end(void)
{
    unlink(path);
    cr_assert_eq(rmdir(directory), 0, "other files than the plot are left");
    check_end();
}

TestSuite(plot, .init = begin, .fini = end);

/* Reads the file into a static buffer. */
static const char *read_plot(void)
{
    static char text[1 << 20];
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = 0;
    fclose(file);
    cr_assert_null(strstr(text, "nan"));
    cr_assert_null(strstr(text, "inf"));
    return text;
}

static int count(const char *text, const char *part)
{
    int n = 0;
    while ((text = strstr(text, part))) {
        n++;
        text++;
    }
    return n;
}

static const char *plot_one(int64_t n, const double *x, const double *y,
                            const br_plot_options *options)
{
    br_series s = { "loss", n, x, y };
    cr_assert(br_plot_svg(path, 1, &s, options), "%s", br_error_message());
    return read_plot();
}

/* Gets the edges of the plot from the path of its axes. */
static void edges(const char *text, double *left, double *top, double *right, double *bottom)
{
    const char *last = NULL;
    for (const char *p = text; (p = strstr(p, "<path d=\"M")); p++)
        last = p;
    cr_assert_not_null(last);
    cr_assert_eq(sscanf(last, "<path d=\"M%lf %lfV%lfH%lf", left, top, bottom, right), 4);
}

Test(plot, a_line_goes_from_corner_to_corner)
{
    const char *text = plot_one(2, (double[]){ 0, 10 }, (double[]){ -1, 1 }, NULL);
    double left, top, right, bottom, x0, y0, x1, y1;
    edges(text, &left, &top, &right, &bottom);
    cr_assert(0 < left && left < right && right < 800 && 0 < top && top < bottom && bottom < 480);
    const char *line = strstr(text, "<polyline points=\"");
    cr_assert_eq(sscanf(line, "<polyline points=\"%lf,%lf %lf,%lf\"", &x0, &y0, &x1, &y1), 4);
    check_close(x0, left, 0.06);
    check_close(y0, bottom, 0.06);
    check_close(x1, right, 0.06);
    check_close(y1, top, 0.06);
}

Test(plot, ticks_are_round_numbers)
{
    const char *text = plot_one(2, (double[]){ 1, 58 }, (double[]){ 0.013, 0.19 }, NULL);
    const char *labels[] = { ">0<", ">10<", ">60<", ">0.00<", ">0.05<", ">0.20<" };
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        cr_assert(strstr(text, labels[i]), "no label %s", labels[i]);
}

/* Steps are 1, 2, 5 or 10 times a power of ten: here exactly 5. Large numbers are short. */
Test(plot, ticks_of_exact_steps_and_large_numbers)
{
    const char *text = plot_one(2, (double[]){ 0, 40 }, (double[]){ -2e7, 0 }, NULL);
    cr_assert(strstr(text, ">5<") && strstr(text, ">35<"));
    cr_assert(strstr(text, ">-2e+07<") && !strstr(text, "000000<"));
}

/* The range of equal values is half a decade on each side: 316 .. 3162, rounded to digits. */
Test(plot, a_constant_on_a_logarithmic_axis)
{
    const char *text =
        plot_one(2, (double[]){ 0, 1 }, (double[]){ 1e3, 1e3 }, BR_OPTIONS(br_plot, .log_y = true));
    cr_assert(strstr(text, ">500<") && strstr(text, ">1000<") && strstr(text, ">2000<"));
    cr_assert(!strstr(text, ">200<") && !strstr(text, ">5000<"));
}

Test(plot, a_logarithmic_axis_has_powers_of_ten)
{
    const double x[] = { 1, 2, 3, 4 }, y[] = { 67, 0, -1, 0.02 };
    const char *text = plot_one(4, x, y, BR_OPTIONS(br_plot, .log_y = true));
    const char *labels[] = { ">0.01<", ">0.1<", ">1<", ">10<", ">100<" };
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        cr_assert_eq(count(text, labels[i]), 1, "label %s", labels[i]);
    cr_assert_eq(count(text, "<circle"), 2, "points that are not positive are omitted");
}

/* The lines at 2 .. 9 of each of the four decades have no labels. */
Test(plot, a_logarithmic_axis_of_few_decades_has_minor_lines)
{
    const double x[] = { 1, 2 };
    const char *text = plot_one(2, x, (double[]){ 67, 0.02 }, BR_OPTIONS(br_plot, .log_y = true));
    cr_assert_eq(count(text, "stroke=\"#f0f0f0\""), 4 * 8);
    text = plot_one(2, x, (double[]){ 1, 1e9 }, BR_OPTIONS(br_plot, .log_y = true));
    cr_assert_eq(count(text, "stroke=\"#f0f0f0\""), 0);
    text = plot_one(2, x, (double[]){ 1, 9 }, NULL);
    cr_assert_eq(count(text, "stroke=\"#f0f0f0\""), 0);
}

/* With room for three labels per decade, 1, 2 and 5 have labels, and the axis ends at a digit. */
Test(plot, a_logarithmic_axis_of_a_decade_ends_at_digits)
{
    const double x[] = { 1, 2 };
    const char *text = plot_one(2, x, (double[]){ 0.32, 5.9 }, BR_OPTIONS(br_plot, .log_y = true));
    const char *labels[] = { ">0.5<", ">1<", ">2<", ">5<" };
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
        cr_assert_eq(count(text, labels[i]), 1, "label %s", labels[i]);
    cr_assert(!strstr(text, ">0.1<") && !strstr(text, ">0.2<") && !strstr(text, ">10<"));
    cr_assert_eq(count(text, "stroke=\"#f0f0f0\""), 13 - 4, "0.3 .. 0.9 and 1 .. 6");
}

/* A loss that hardly falls still fills the height; its ticks are round numbers. */
Test(plot, a_small_part_of_a_decade_has_round_ticks)
{
    const char *text =
        plot_one(2, (double[]){ 1, 2 }, (double[]){ 4.2, 3.9 }, BR_OPTIONS(br_plot, .log_y = true));
    double left, top, right, bottom, y0, y1;
    edges(text, &left, &top, &right, &bottom);
    const char *line = strstr(text, "<polyline points=\"");
    cr_assert_eq(sscanf(line, "<polyline points=\"%*f,%lf %*f,%lf\"", &y0, &y1), 2);
    check_close(y0, top, 0.06);
    check_close(y1, bottom, 0.06);
    cr_assert(strstr(text, ">3.90<") && strstr(text, ">4.05<") && strstr(text, ">4.20<"));
}

/* Without a floor, a logarithmic axis follows values down to the smallest positive one. */
Test(plot, small_values_are_drawn_where_they_are)
{
    const double x[] = { 1, 2, 3 }, y[] = { 1, 1e-4, 1e-6 };
    const char *text = plot_one(3, x, y, BR_OPTIONS(br_plot, .log_y = true));
    double left, top, right, bottom, y1, y2;
    edges(text, &left, &top, &right, &bottom);
    const char *line = strstr(text, "<polyline points=\"");
    cr_assert_eq(sscanf(line, "<polyline points=\"%*f,%*f %*f,%lf %*f,%lf", &y1, &y2), 2);
    check_close((y1 - top) / (bottom - top), 4. / 6, 1e-3);
    check_close(y2, bottom, 0.06);
    cr_assert(strstr(text, ">1e-06<"));
    cr_assert_null(strstr(text, "\xe2\x96\xbc"));
}

/* What a logarithmic axis cannot show is no part of the line, but it is not hidden: it has a mark
 * at its x, and the legend tells the number. */
Test(plot, zeros_on_a_logarithmic_axis_have_marks)
{
    const double x[] = { 0, 1, 2, 3, 10, 4 }, y[] = { 8, 1, 0, -1, 0, NAN };
    const char *text = plot_one(6, x, y, BR_OPTIONS(br_plot, .log_y = true));
    double left, top, right, bottom;
    edges(text, &left, &top, &right, &bottom);
    cr_assert(strstr(text, ">loss (\xe2\x96\xbc 3 of 6: 0 or less)<"));
    cr_assert_eq(count(text, "l-4 -7h8z\""), 3);
    char mark[64];
    snprintf(mark, sizeof mark, "<path d=\"M%.0f %.0fl-4 ", left + (right - left) / 5, bottom);
    cr_assert_not_null(strstr(text, mark), "no %s", mark);
    snprintf(mark, sizeof mark, "<path d=\"M%.0f %.0fl-4 ", right, bottom);
    cr_assert_not_null(strstr(text, mark), "the x axis reaches to the last mark");
    cr_assert_eq(count(text, "<polyline"), 1);
    text = plot_one(6, x, y, NULL);
    cr_assert_eq(count(text, "l-4 -7h8z"), 0, "a linear axis shows them");
}

Test(plot, marks_of_one_pixel_are_one_mark)
{
    const double x[] = { 0, 1e-6, 2e-6, 1 }, y[] = { 0, 0, 0, 1 };
    const char *text = plot_one(4, x, y, BR_OPTIONS(br_plot, .log_y = true));
    cr_assert_eq(count(text, "l-4 -7h8z"), 1);
    cr_assert(strstr(text, " 3 of 4: 0 or less)"));
}

Test(plot, a_floor_holds_what_is_smaller)
{
    const double x[] = { 1, 2, 3, 4 }, y[] = { 67, 0, 1e-9, 1e-3 };
    const char *text = plot_one(4, x, y, BR_OPTIONS(br_plot, .log_y = true, .floor_y = 1e-3));
    double left, top, right, bottom, y1, y2;
    edges(text, &left, &top, &right, &bottom);
    cr_assert(strstr(text, ">0.001<") && !strstr(text, ">1e-0"));
    const char *line = strstr(text, "<polyline points=\"");
    cr_assert_eq(sscanf(line, "<polyline points=\"%*f,%*f %*f,%lf %*f,%lf", &y1, &y2), 2);
    check_close(y1, bottom, 0.06);
    check_close(y2, bottom, 0.06);
    cr_assert(strstr(text, ">loss (\xe2\x96\xbc 2 of 4: below 0.001)<"));
    cr_assert_eq(count(text, "l-4 -7h8z"), 2);
}

/* Two panels have axes of their own, one below the other, and the same x. */
Test(plot, panels_have_an_axis_for_each_quantity)
{
    const double x[] = { 1, 2 }, loss[] = { 1e-3, 1 }, accuracy[] = { 0.25, 0.75 };
    const br_series a = { "held_out_loss", 2, x, loss }, b = { "accuracy", 2, x, accuracy };
    const br_plot_panel panels[] = { { "loss", true, 0, 1, &a }, { "fraction", false, 0, 1, &b } };
    br_plot_options o = *BR_OPTIONS(br_plot, .title = "t", .x_label = "step", .height = 600);
    cr_assert(br__plot_panels(path, 2, panels, &o), "%s", br_error_message());
    const char *text = read_plot();
    double y[4], left, top, right, bottom;
    edges(text, &left, &top, &right, &bottom);
    const char *line = strstr(text, "<polyline points=\"");
    cr_assert_eq(sscanf(line, "<polyline points=\"%*f,%lf %*f,%lf", &y[0], &y[1]), 2);
    line = strstr(line + 1, "<polyline points=\"");
    cr_assert_eq(sscanf(line, "<polyline points=\"%*f,%lf %*f,%lf", &y[2], &y[3]), 2);
    cr_assert(y[1] < y[0] && y[0] < top && top < y[3] && y[3] < y[2] && y[2] < bottom);
    cr_assert(bottom < 600 && strstr(text, ">0.01<") && strstr(text, ">0.3<"));
    cr_assert(strstr(text, ">loss<") && strstr(text, ">fraction<"));
    cr_assert_eq(count(text, ">step<"), 1);
    cr_assert_eq(count(text, ">t<"), 1);
}

/* Points whose x is not positive have no place on a logarithmic axis. */
Test(plot, a_logarithmic_x_axis)
{
    const double x[] = { 1, 10, 0, 100, 1000, -1 }, y[] = { 1, 2, 3, 4, 5, 6 };
    const char *text = plot_one(6, x, y, BR_OPTIONS(br_plot, .log_x = true));
    cr_assert_eq(count(text, "<polyline"), 2);
    cr_assert_eq(count(text, "<circle"), 0);
    cr_assert_eq(count(text, ">1000<"), 1);
}

/* Writing a plot leaves the thread's locale as it is. */
Test(plot, the_locale_is_restored)
{
    cr_assert_eq(uselocale((locale_t)0), LC_GLOBAL_LOCALE);
    plot_one(2, (double[]){ 0, 0.5 }, (double[]){ 0, 1 }, NULL);
    cr_assert_eq(uselocale((locale_t)0), LC_GLOBAL_LOCALE);
    check_fails(br_plot_svg("/none/plot.svg", 0, NULL, NULL), "/none/plot.svg");
    cr_assert_eq(uselocale((locale_t)0), LC_GLOBAL_LOCALE);
}

/* A line through equal points would have no length and be invisible. */
Test(plot, equal_points_are_a_dot)
{
    const double x[] = { 0, 0, 0, 1, 2 }, y[] = { 3, 3, 3, NAN, 4 };
    const char *text = plot_one(5, x, y, NULL);
    cr_assert_eq(count(text, "<circle"), 2);
    cr_assert_eq(count(text, "<polyline"), 0);
    text = plot_one(2, (double[]){ 1, 1 }, (double[]){ 3, 4 }, NULL);
    cr_assert_eq(count(text, "<polyline"), 1);
}

Test(plot, points_that_are_not_finite_break_the_line)
{
    const double x[] = { 0, 1, 2, 3, 4, 5, 6 };
    const double y[] = { 1, 2, NAN, 3, INFINITY, 4, 5 };
    const char *text = plot_one(7, x, y, NULL);
    cr_assert_eq(count(text, "<polyline"), 2);
    cr_assert_eq(count(text, "<circle"), 1);
    cr_assert(strstr(text, ">5<"));
}

/* A name that is wider than the picture has a row of the legend to itself, and leaves none empty.
 */
Test(plot, the_rows_of_the_legend)
{
    char wide[300];
    double left, top[4], right, bottom;
    const double x[] = { 0, 1 };
    memset(wide, 'm', sizeof wide - 1);
    wide[sizeof wide - 1] = 0;
    const char *const names[4][2] = { { "a", "b" }, { wide, NULL }, { wide, "b" }, { "a", wide } };
    for (int i = 0; i < 4; i++) {
        br_series s[2] = { { names[i][0], 2, x, x }, { names[i][1], 2, x, x } };
        cr_assert(br_plot_svg(path, names[i][1] ? 2 : 1, s, NULL), "%s", br_error_message());
        edges(read_plot(), &left, &top[i], &right, &bottom);
    }
    cr_assert_eq(top[1], top[0]);
    cr_assert(top[2] == top[3] && top[2] > top[0]);
}

/* Characters of Chinese are twice as wide, so that names of as many characters take two rows. */
Test(plot, wide_characters_in_the_legend)
{
    enum { LETTERS = 35 };
    char plain[LETTERS + 1] = "", wide[3 * LETTERS + 1] = "";
    double left, top[2], right, bottom;
    const double x[] = { 0, 1 };
    for (int i = 0; i < LETTERS; i++) {
        plain[i] = 'm';
        memcpy(wide + (ptrdiff_t)3 * i, "\xe4\xb8\xad", 3);
    }
    for (int i = 0; i < 2; i++) {
        const char *name = i ? wide : plain;
        br_series s[2] = { { name, 2, x, x }, { name, 2, x, x } };
        cr_assert(br_plot_svg(path, 2, s, NULL), "%s", br_error_message());
        edges(read_plot(), &left, &top[i], &right, &bottom);
    }
    cr_assert_gt(top[1], top[0]);
}

Test(plot, text_is_escaped)
{
    const double x[] = { 0, 1 };
    br_series s = { "a<b> & \"c\" \x01\xff é \xef\xbf\xbe\xef\xbf\xbf", 2, x, x };
    br_plot_options o = *BR_OPTIONS(br_plot, .title = "<t>", .x_label = "'x'", .y_label = "y&");
    cr_assert(br_plot_svg(path, 1, &s, &o));
    const char *text = read_plot();
    cr_assert(strstr(
        text,
        ">a&#60;b&#62; &#38; &#34;c&#34; \xef\xbf\xbd\xef\xbf\xbd é \xef\xbf\xbd\xef\xbf\xbd<"));
    cr_assert(strstr(text, ">&#60;t&#62;<"));
    cr_assert(strstr(text, ">&#39;x&#39;<"));
    cr_assert(strstr(text, ">y&#38;<"));
}

Test(plot, anything_finite_can_be_drawn)
{
    const double values[] = { 0, 1, -1, 1e-320, 1e15, 1e15 + 1, DBL_MAX, -DBL_MAX, DBL_MIN, 1e299 };
    enum { N = sizeof values / sizeof *values };
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            for (int log = 0; log <= 1; log++)
                plot_one(2, (double[]){ values[i], values[k] }, (double[]){ values[k], values[i] },
                         BR_OPTIONS(br_plot, .log_y = log));
}

Test(plot, nothing_and_much_can_be_drawn)
{
    cr_assert(br_plot_svg(path, 0, NULL, NULL));
    cr_assert(count(read_plot(), "</svg>") == 1);
    plot_one(0, NULL, NULL, NULL);
    enum { N = 20000 };
    double *x = calloc(N, sizeof *x);
    for (int i = 0; i < N; i++)
        x[i] = i;
    const char *text = plot_one(N, x, x, NULL);
    cr_assert(count(text, "</svg>") == 1);
    free(x);
}

Test(plot, bad_arguments_are_refused)
{
    const double x[] = { 0, 1 };
    br_series s = { "s", 2, x, NULL };
    check_fails(br_plot_svg(path, 1, &s, NULL), "series 0: x and y are required");
    check_fails(br_plot_svg(path, 0, NULL, BR_OPTIONS(br_plot, .floor_y = NAN)), "floor_y is nan");
    check_fails(br_plot_svg(NULL, 0, NULL, NULL), "path");
    check_fails(br_plot_svg(path, 1, NULL, NULL), "series");
    check_fails(br_plot_svg(path, 0, NULL, BR_OPTIONS(br_plot, .width = 10)), "the size is 10 x");
    cr_assert_neq(access(path, F_OK), 0);
}

Test(plot, the_least_and_the_greatest_size)
{
    static const int least[] = { 300, 200 }, most[] = { 20000, 20000 };
    for (int i = 0; i < 2; i++) {
        const int *end = i ? most : least, by = i ? 1 : -1;
        cr_assert(
            br_plot_svg(path, 0, NULL, BR_OPTIONS(br_plot, .width = end[0], .height = end[1])),
            "%s", br_error_message());
        check_fails(
            br_plot_svg(path, 0, NULL, BR_OPTIONS(br_plot, .width = end[0] + by, .height = end[1])),
            "must be 300 x 200 .. 20000 x 20000");
        check_fails(
            br_plot_svg(path, 0, NULL, BR_OPTIONS(br_plot, .width = end[0], .height = end[1] + by)),
            "must be 300 x 200 .. 20000 x 20000");
    }
    unlink(path);
}

Test(plot, an_unwritable_place_is_an_error)
{
    check_fails(br_plot_svg("/nonexistent/plot.svg", 0, NULL, NULL), "/nonexistent/plot.svg");
    br_raise(BR_ERROR_STATE, "earlier");
    check_fails(br_plot_svg(path, 0, NULL, NULL), "earlier");
    cr_assert_neq(access(path, F_OK), 0);
}

static bool plot_two_points(void)
{
    const double x[] = { 1, 2 };
    br_series s = { "s", 2, x, x };
    bool ok = br_plot_svg(path, 1, &s, BR_OPTIONS(br_plot, .title = "t"));
    cr_assert_eq(access(path, F_OK) == 0, ok);
    unlink(path);
    return ok;
}

Test(plot, memory_that_runs_out_leaves_no_file)
{
    fail_in_turn(plot_two_points, "a plot");
}
