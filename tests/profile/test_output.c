/* Profiles: tables and traces. */
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/kernels.h"
#include "tests/support.h"

#include <brasa/brasa.h>
#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

TestSuite(profile_output, .init = check_begin, .fini = check_end);

static br_profile *small_profile(void)
{
    br_linear *model = br_linear_new(30, 20, true);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(10, 30), BR_F32);
    br_profile *p = br_profile_begin();
    uint64_t range = br_profile_range_begin("a \"step\"\\\n\xff, \xc3\xa4");
    br_backward(br_sum(br_relu(br_linear_forward(model, x))));
    br_profile_range_end(range);
    cr_assert(br_profile_end(p));
    br_scope_end(scope);
    br_module_free(br_base(model));
    return p;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Returns the printed table; the caller frees it. */
static char *printed(const br_profile *p, const br_profile_print_options *options)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    cr_assert(br_profile_print(stream, p, options));
    fclose(stream);
    return text;
}

static const char *line_with(const char *text, const char *start)
{
    const char *line = strstr(text, start);
    cr_assert_not_null(line, "no \"%s\" in\n%s", start, text);
    return line;
}

Test(profile_output, a_table_by_operation)
{
    br_profile *p = small_profile();
    char *text = printed(p, NULL);
    char name[32], phase[32];
    double calls, ms, share, self, gflop, gb, rate, bandwidth;
    const char *line = line_with(text, "linear                forward");
    cr_assert_eq(sscanf(line, "%31s %31s %lf %lf %lf %lf %lf %lf %lf %lf", name, phase, &calls, &ms,
                        &share, &self, &gflop, &gb, &rate, &bandwidth),
                 10);
    cr_assert(calls == 1 && ms > 0 && self <= ms && share > 0 && share < 100);
    line_with(text, "\nlinear                backward");
    line_with(text, "\n  weight_gradient     backward");
    line_with(text, "\n(between operations)");
    cr_assert_null(strstr(text, "of limit"));
    free(text);

    br_peak peak = { 1e12, 1e9 };
    text = printed(p, BR_OPTIONS(br_profile_print, .peak = &peak, .depth = 1, .steps = 4));
    cr_assert_null(strstr(text, "\n  weight_gradient "));
    cr_assert_eq(sscanf(line_with(text, "linear                forward"), "%*s %*s %lf", &calls),
                 1);
    cr_assert_eq(calls, 0.25);
    /* With 1000 GFLOP/s and 1 GB/s, memory is the limit. */
    line = strchr(line_with(text, "linear                forward"), '\n');
    cr_assert_eq(line[-1], 'M');
    free(text);

    peak = (br_peak){ 1e6, 1e12 };
    text = printed(p, BR_OPTIONS(br_profile_print, .peak = &peak, .min_fraction = 2));
    cr_assert_null(strstr(text, "linear"));
    free(text);
    br_profile_free(p);
}

/* A single step has no mean. A row that takes exactly the smallest part of the time is shown. */
Test(profile_output, steps_and_parts)
{
    br_profile *p = small_profile();
    for (int64_t steps = 0; steps < 3; steps++) {
        char *text = printed(p, BR_OPTIONS(br_profile_print, .steps = steps));
        cr_assert_eq(strstr(text, " ms per step, mean of 2;") != NULL, steps == 2);
        cr_assert_eq(strstr(text, " mean of ") != NULL, steps == 2);
        free(text);
    }
    const double whole = 1e-9 * (double)br_profile_event_at(p, 0)->duration;
    int64_t count;
    br_profile_row *rows = br_profile_rows(p, BR_PROFILE_BY_OP, BR_PROFILE_SORT_TIME, &count);
    for (int64_t i = 0; i < count; i++) {
        const double part = rows[i].total / whole;
        if (part * whole != rows[i].total || rows[i].depth > 0)
            continue;
        char name[64];
        snprintf(name, sizeof name, "\n%s ", rows[i].name);
        char *text = printed(p, BR_OPTIONS(br_profile_print, .min_fraction = part));
        line_with(text, name);
        free(text);
    }
    br_free(rows);
    br_profile_free(p);
}

/* The lower bound of the time, computed from the machine's peak rates, is the sum over the
 * outermost rows. */
Test(profile_output, the_least_time)
{
    br_profile *p = small_profile();
    br_peak peak = { 1e12, 1e9 };
    int64_t count;
    br_profile_row *rows = br_profile_rows(p, BR_PROFILE_BY_OP, BR_PROFILE_SORT_TIME, &count);
    double expected = 0, least;
    for (int64_t i = 0; i < count; i++)
        if (rows[i].depth == 0)
            expected += fmax(rows[i].flops / peak.flops, rows[i].bytes / peak.bytes);
    char *text = printed(p, BR_OPTIONS(br_profile_print, .peak = &peak, .steps = 2));
    const char *line = line_with(text, "; at these limits the rows would take");
    cr_assert_eq(sscanf(line, "; at these limits the rows would take %lf ms", &least), 1);
    check_close(least, 1e3 * expected / 2, 0.00051);
    cr_assert(least > 0);
    br_free(rows);
    free(text);
    br_profile_free(p);
}

Test(profile_output, a_table_by_module)
{
    br_profile *p = small_profile();
    char *text = printed(p, BR_OPTIONS(br_profile_print, .by = BR_PROFILE_BY_MODULE));
    double calls, ms, share, forward, backward;
    cr_assert_eq(sscanf(line_with(text, "\nLinear"), "%*s %lf %lf %lf %lf %lf", &calls, &ms, &share,
                        &forward, &backward),
                 5);
    cr_assert(calls == 1 && forward > 0 && backward > 0);
    check_close(forward + backward, ms, 0.0011);
    /* What is outside of modules has no number of calls: after the name, its column is blank. */
    const char *outside = line_with(text, "\n(outside modules)") + 1;
    enum { NAME = 20, CALLS = 8 };
    cr_assert_eq(strspn(outside + NAME, " ") >= CALLS, true, "%s", text);
    free(text);
    br_profile_free(p);
}

/* A row shows the last part of a module's path, however deep the module is. */
Test(profile_output, names_of_nested_modules)
{
    br_transformer_encoder *model = br_transformer_encoder_new(
        4, 2, 1, false, BR_OPTIONS(br_transformer, .dim_feedforward = 8));
    br_scope *scope = br_scope_begin();
    br_profile *p = br_profile_begin();
    br_transformer_encoder_forward(model, br_ones(BR_SHAPE(3, 1, 4), BR_F32), NULL, NULL, false);
    cr_assert(br_profile_end(p));
    char *text = printed(p, BR_OPTIONS(br_profile_print, .by = BR_PROFILE_BY_MODULE));
    cr_assert(strstr(text, " linear1 ") && strstr(text, " self_attn "), "%s", text);
    cr_assert(!strstr(text, ".linear1") && !strstr(text, ".self_attn"), "%s", text);
    free(text);
    br_profile_free(p);
    br_scope_end(scope);
    br_module_free(model);
}

Test(profile_output, the_machine_has_limits)
{
    br_peak peak = { 0, 0 };
    br_set_num_threads(2);
    cr_assert(br_measure_peak(BR_F64, &peak));
    cr_assert(peak.flops > 1e8 && peak.flops < 1e16 && peak.bytes > 1e7 && peak.bytes < 1e14);
    br_empty_cache();
}

static atomic_int loops_run;

static double count_loops(int64_t n)
{
    loops_run++;
    return (double)n;
}

/* The limit of multiply-adds is that of the unit that computes large products. */
Test(profile_output, the_limit_depends_on_the_precision)
{
    static const br_gemm_kernels simulated = { .peak_loop = count_loops, .peak_flops = 1 };
    static const struct {
        const char *precision;
        br_dtype dtype;
        const br_gemm_kernels *medium, *high;
        bool is_simulated;
    } cases[] = {
        { "highest", BR_F32, &simulated, &simulated, false },
        { "medium", BR_F32, &simulated, NULL, true },
        { "medium", BR_F64, &simulated, NULL, false },
        { "high", BR_F32, NULL, &simulated, true },
    };
    br_set_num_threads(1); /* several threads wait for each other, which takes longer */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_peak peak = { 0, 0 };
        loops_run = 0;
        br_set_float32_matmul_precision(cases[i].precision);
        br__force_bf16_kernels(cases[i].medium, cases[i].high);
        cr_assert(br_measure_peak(cases[i].dtype, &peak));
        cr_assert_eq(loops_run > 0, cases[i].is_simulated, "case %zu", i);
        cr_assert_gt(peak.flops, 0);
    }
    br__force_bf16_kernels(NULL, NULL);
    br_set_float32_matmul_precision("highest");
    br_empty_cache();
}

/* ---- Traces ---------------------------------------------------------------------------------- */

static double number(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    cr_assert(json_is_number(value), "%s is missing", key);
    return json_number_value(value);
}

/* Checks that each event lies within its parent, which trace viewers require. */
static void check_nesting(const json_t *events)
{
    enum { DEEPEST = 64 };
    double ends[DEEPEST];
    int depth = 0;
    for (size_t i = 1; i < json_array_size(events); i++) {
        const json_t *e = json_array_get(events, i);
        double start = number(e, "ts"), end = start + number(e, "dur");
        while (depth > 0 && start >= ends[depth - 1])
            depth--;
        cr_assert(depth == 0 || end <= ends[depth - 1] + 1e-4, "event %zu crosses its parent's end",
                  i);
        cr_assert_lt(depth, DEEPEST);
        ends[depth++] = end;
    }
}

Test(profile_output, a_trace_is_json)
{
    char path[] = "/tmp/brasa-test-XXXXXX";
    close(mkstemp(path));
    br_profile *p = small_profile();
    cr_assert(br_profile_write_trace(p, path), "%s", br_error_message());
    json_error_t error;
    json_t *trace = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    cr_assert(trace, "line %d: %s", error.line, error.text);
    const json_t *events = json_object_get(trace, "traceEvents"), *last = NULL;
    cr_assert_eq((int64_t)json_array_size(events), br_profile_count(p) + 1);
    for (int64_t i = 0; i < br_profile_count(p); i++) {
        const json_t *e = json_array_get(events, (size_t)i + 1);
        cr_assert_str_eq(json_string_value(json_object_get(e, "ph")), "X");
        check_close(number(e, "dur"), 1e-3 * (double)br_profile_event_at(p, i)->duration, 1e-6);
        check_close(number(e, "ts"), 1e-3 * (double)br_profile_event_at(p, i)->start, 1e-6);
        if (strcmp(br_profile_event_at(p, i)->name, "linear") == 0 && !last)
            last = e;
        if (i == 1)
            cr_assert_str_eq(json_string_value(json_object_get(e, "name")),
                             "a \"step\"\\\n\xef\xbf\xbd, \xc3\xa4");
    }
    const json_t *args = json_object_get(last, "args");
    cr_assert_str_eq(json_string_value(json_object_get(args, "module")), "Linear");
    cr_assert_eq(number(args, "flops"), 2 * 10 * 30 * 20);
    cr_assert_eq(json_integer_value(json_array_get(json_object_get(args, "shape"), 1)), 20);
    cr_assert_str_eq(json_string_value(json_object_get(last, "cat")), "op,forward");
    check_nesting(events);
    json_decref(trace);
    br_profile_free(p);
    unlink(path);
}

/* A result without dimensions has an empty shape in a trace. */
Test(profile_output, a_trace_of_a_number)
{
    char path[] = "/tmp/brasa-test-XXXXXX";
    close(mkstemp(path));
    br_profile *p = br_profile_begin();
    br_scope *scope = br_scope_begin();
    br_sum(br_ones(BR_SHAPE(3), BR_F32));
    br_scope_end(scope);
    br_profile_end(p);
    cr_assert(br_profile_write_trace(p, path), "%s", br_error_message());
    json_t *trace = json_load_file(path, JSON_REJECT_DUPLICATES, NULL), *each;
    int found = 0;
    size_t i;
    json_array_foreach(json_object_get(trace, "traceEvents"), i, each)
    {
        const char *name = json_string_value(json_object_get(each, "name"));
        const json_t *shape = json_object_get(json_object_get(each, "args"), "shape");
        if (name && strcmp(name, "sum") == 0)
            found += json_is_array(shape) && json_array_size(shape) == 0;
    }
    cr_assert_eq(found, 1);
    json_decref(trace);
    br_profile_free(p);
    unlink(path);
}

/* Work of other threads has tracks of its own, in the trace only. */
Test(profile_output, spans_of_other_threads)
{
    char path[] = "/tmp/brasa-test-XXXXXX";
    close(mkstemp(path));
    br_profile_add_span("nothing", "runs", 0, 1);
    br_profile *p = br_profile_begin();
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t time = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    br_profile_add_span("network", "first", time, time + 1500);
    br_profile_add_span("disk", "second", time + 500, time + 2500);
    br_profile_add_span("network", NULL, time + 3000, time + 3000);
    cr_assert(br_profile_end(p));
    cr_assert_eq(br_profile_count(p), 1);
    cr_assert(br_profile_write_trace(p, path), "%s", br_error_message());
    json_t *trace = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    const json_t *events = json_object_get(trace, "traceEvents");
    cr_assert_eq(json_array_size(events), 2 + 2 * 3); /* each span follows its track's name */
    const char *const tracks[] = { "network", "disk", "network" };
    const char *const names[] = { "first", "second", "" };
    const double durations[] = { 1.5, 2, 0 };
    for (size_t i = 0; i < 3; i++) {
        const json_t *track = json_array_get(events, 2 + 2 * i);
        const json_t *span = json_array_get(events, 3 + 2 * i);
        cr_assert_str_eq(json_string_value(json_object_get(json_object_get(track, "args"), "name")),
                         tracks[i]);
        cr_assert_str_eq(json_string_value(json_object_get(span, "name")), names[i]);
        cr_assert_eq(number(span, "tid"), number(track, "tid"));
        cr_assert_neq(number(span, "tid"), 1);
        check_close(number(span, "dur"), durations[i], 1e-6);
        cr_assert(number(span, "ts") >= 0);
    }
    const json_t *first = json_array_get(events, 3), *second = json_array_get(events, 5);
    check_close(number(second, "ts") - number(first, "ts"), 0.5, 1e-6);
    cr_assert_neq(number(first, "tid"), number(second, "tid"));
    check_close(number(second, "ts") - number(first, "ts"), 0.5, 1e-3);
    json_decref(trace);
    br_profile_free(p);
    unlink(path);
}
