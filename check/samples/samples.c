/* check/samples/samples.c - repeats the recorded calls of an operation and compares the results. */
#include "check/samples/samples.h"

#include "check/samples/sample_ops.h"
#include "io/json.h"
#include "tensor/tensor_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LEAVES = 32 };

/* One call. */
typedef struct run {
    br_safetensors *file;
    json_t *report;
    const json_t *sample;
    bool rearranged;       /* inputs have a different memory layout than recorded */
    const char *variation; /* how the call differs from the recorded one; "" if it does not */
    size_t number;         /* index of the sample */
    char what[96], *text;  /* what is compared; the first difference, "" for none */
    size_t size;
    double excess;
    int n_leaves, n_outputs;
    br_tensor *leaves[MAX_LEAVES], *outputs[SAMPLE_OUTPUTS];
    const json_t *recorded[MAX_LEAVES]; /* the records of the leaves */
} run;

static void wrong(run *r, const char *format, ...) BR_PRINTF(2, 3);
static void wrong(run *r, const char *format, ...)
{
    if (*r->text)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(r->text, r->size, format, list);
    va_end(list);
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

/* Returns t's elements in a tensor with the recorded strides. */
static br_tensor *with_strides(br_tensor *t, const json_t *strides)
{
    int64_t steps[BR_MAX_DIMS], span = 1;
    int n = br_ndim(t);
    if (!t || (int)json_array_size(strides) != n)
        return t;
    for (int i = 0; i < n; i++) {
        steps[i] = json_integer_value(json_array_get(strides, (size_t)i));
        span += br_size(t, i) ? steps[i] * (br_size(t, i) - 1) : 0;
    }
    br_tensor *memory = br_zeros(BR_SHAPE(span), br_dtype_of(t));
    if (!memory)
        return NULL;
    br_tensor *view = br__view_of(memory, n, br_sizes(t), steps, 0);
    br_tensor *x = br_contiguous(t);
    /* Copies each element, because br_copy_() rejects a tensor in which several elements share an
     * address. Such elements are equal. */
    size_t bytes = br_dtype_size(br_dtype_of(t));
    for (int64_t i = 0; x && view && i < br_numel(x); i++) {
        int64_t at = 0, rest = i;
        for (int d = n - 1; d >= 0; d--) {
            at += rest % br_size(t, d) * steps[d];
            rest /= br_size(t, d);
        }
        memcpy(memory->data + (size_t)at * bytes, x->data + (size_t)i * bytes, bytes);
    }
    return view;
}

/* Returns the same elements in a different layout: reversed dimensions and a stride of two. */
static br_tensor *rearranged(br_tensor *t)
{
    int64_t reversed[BR_MAX_DIMS];
    int n = br_ndim(t);
    for (int i = 0; i < n; i++)
        reversed[i] = n - 1 - i;
    br_tensor *x = br_permute(t, n, reversed);
    return br_permute(br_select(br_stack(BR_INPUTS(x, x), -1), -1, 1), n, reversed);
}

static br_tensor *make_input(void *context, const json_t *value)
{
    run *r = context;
    br_scope *scope = br_no_grad_begin();
    br_tensor *t = br_safetensors_get(r->file, json_string_value(json_object_get(value, "tensor")));
    t = with_strides(t, json_object_get(value, "strides"));
    if (r->rearranged)
        t = rearranged(t);
    br_scope_return(scope, t);
    br_scope_end(scope);
    if (!json_object_get(value, "grad"))
        return t;
    if (r->n_leaves == MAX_LEAVES) {
        br_raise(BR_ERROR_FORMAT, "more than %d inputs require gradients", MAX_LEAVES);
        return NULL;
    }
    r->recorded[r->n_leaves] = value;
    return r->leaves[r->n_leaves++] = br_set_requires_grad(br_detach(t), true);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* What a tensor is compared with. */
typedef struct expectation {
    const br_tensor *want, *bound; /* in f64; bound: the largest error of each element, or NULL */
    double rtol, atol;
} expectation;

/* Returns |got - want| of element i as a multiple of its tolerance, which is its bound, or
 * atol + rtol |want|. Equal numbers, and two NaNs, give 0; an infinite bound accepts everything. */
static double excess_of(double got, const expectation *e, int64_t i)
{
    double want = br_data_f64(e->want)[i];
    double tolerance = e->bound ? br_data_f64(e->bound)[i] : e->atol + e->rtol * fabs(want);
    if (got == want || (isnan(got) && isnan(want)) || (e->bound && isinf(tolerance)))
        return 0;
    double excess = fabs(got - want) / tolerance;
    return isnan(excess) ? INFINITY : excess;
}

/* Returns the largest excess, and the index of its element in *worst. */
static double largest_excess(const br_tensor *got, const expectation *e, int64_t *worst)
{
    double largest = 0;
    const double *x = br_data_f64(got);
    for (int64_t i = 0; x && e->want && i < br_numel(e->want) && !br_failed(); i++) {
        double excess = excess_of(x[i], e, i);
        if (excess > largest) {
            largest = excess;
            *worst = i;
        }
    }
    return largest;
}

static bool same_kind(run *r, const br_tensor *got, const br_tensor *want)
{
    char a[128], b[128];
    if (br_same_shape(got, want) && br_dtype_of(got) == br_dtype_of(want))
        return true;
    wrong(r, "%s is %s %s, must be %s %s", r->what, br_dtype_name(br_dtype_of(got)),
          br_shape_string(got, a, sizeof a), br_dtype_name(br_dtype_of(want)),
          br_shape_string(want, b, sizeof b));
    return false;
}

/* Returns the recorded tensor of that key, or NULL. */
static br_tensor *recorded_tensor(run *r, const json_t *expected, const char *key)
{
    const char *name = json_string_value(json_object_get(expected, key));
    return name ? br_safetensors_get(r->file, name) : NULL;
}

static void compare_values(run *r, br_tensor *got, br_tensor *want, const json_t *expected)
{
    br_tensor *bound = recorded_tensor(r, expected, "bound");
    expectation e = { br_contiguous(br_to(want, BR_F64)), bound ? br_contiguous(bound) : NULL,
                      json_number_value(json_object_get(expected, "rtol")),
                      json_number_value(json_object_get(expected, "atol")) };
    br_tensor *x = br_contiguous(br_to(got, BR_F64));
    int64_t worst = 0;
    double excess = largest_excess(x, &e, &worst);
    r->excess = fmax(r->excess, excess);
    if (!(excess <= 1) && !br_failed())
        wrong(r, "%s: %.3g of the tolerance, element %lld is %.9g, must be %.9g", r->what, excess,
              (long long)worst, br_data_f64(x)[worst], br_data_f64(e.want)[worst]);
}

/* Compares with {"tensor", "rtol", "atol"} or {"tensor", "bound"}; a missing tensor on either side
 * counts as zeros. */
static void compare(run *r, br_tensor *got, const json_t *expected)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *want = recorded_tensor(r, expected, "tensor");
    if (!want && got)
        want = br_zeros(br_ndim(got), br_sizes(got), br_dtype_of(got));
    else if (!got && want)
        got = br_zeros(br_ndim(want), br_sizes(want), br_dtype_of(want));
    if (got && want && same_kind(r, got, want)) {
        if (br_is_floating(want))
            compare_values(r, got, want, expected);
        else if (!br_equal(got, want))
            wrong(r, "%s differs", r->what);
    }
    br_scope_end(scope);
}

static void compare_outputs(run *r)
{
    const json_t *expected = json_object_get(r->sample, "outputs");
    int n = (int)json_array_size(expected);
    if (n != r->n_outputs)
        wrong(r, "%d outputs, must be %d", r->n_outputs, n);
    for (int i = 0; i < n && i < r->n_outputs && !br_failed(); i++) {
        const json_t *output = json_array_get(expected, (size_t)i);
        snprintf(r->what, sizeof r->what, "output %d", i);
        if (!json_is_null(output)) /* null: PyTorch does not define it */
            compare(r, r->outputs[i], output);
    }
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Returns the weights of an output, generated with the same seed as in the recording. */
static br_tensor *weights_like(run *r, const br_tensor *t, int number)
{
    json_int_t seed = json_integer_value(json_object_get(r->sample, "seed"));
    br_manual_seed((uint64_t)seed * 100 + (uint64_t)number);
    br_tensor *weights = br_sub_scalar(br_rand(br_ndim(t), br_sizes(t), BR_F32), 0.5);
    return br_to(weights, br_dtype_of(t));
}

static bool has_gradient(const run *r, int output)
{
    const json_t *outputs = json_object_get(r->sample, "outputs");
    return json_is_true(json_object_get(json_array_get(outputs, (size_t)output), "grad"));
}

static void compare_gradients(run *r, br_tensor **grads, const char *order)
{
    for (int i = 0; i < r->n_leaves && !br_failed(); i++) {
        snprintf(r->what, sizeof r->what, "%s gradient of tensor %d", order, i);
        compare(r, grads[i], json_object_get(r->recorded[i], order));
    }
}

static void second_order(run *r, br_tensor **first)
{
    br_tensor *grads[MAX_LEAVES], *weights[MAX_LEAVES], *from[MAX_LEAVES];
    int n = 0;
    for (int i = 0; i < r->n_leaves; i++)
        if (br_requires_grad(first[i])) {
            weights[n] = weights_like(r, first[i], 50 + i);
            from[n++] = first[i];
        }
    br_grad_options options = *BR_OPTIONS(br_grad, .gradients = weights, .allow_unused = true);
    memset(grads, 0, sizeof grads);
    if (n > 0)
        br_grad(n, from, r->n_leaves, r->leaves, grads, &options);
    compare_gradients(r, grads, "second");
}

static void check_gradients(run *r, bool second)
{
    br_tensor *grads[MAX_LEAVES] = { NULL }, *weights[SAMPLE_OUTPUTS], *from[SAMPLE_OUTPUTS];
    int n = 0;
    for (int i = 0; i < r->n_outputs; i++)
        if (has_gradient(r, i)) {
            if (!br_requires_grad(r->outputs[i]))
                wrong(r, "output %d does not require grad", i);
            weights[n] = weights_like(r, r->outputs[i], i);
            from[n++] = r->outputs[i];
        }
    if (n == 0 || r->n_leaves == 0 || *r->text || br_failed())
        return;
    br_grad_options options =
        *BR_OPTIONS(br_grad, .gradients = weights, .allow_unused = true, .create_graph = second);
    br_grad(n, from, r->n_leaves, r->leaves, grads, &options);
    compare_gradients(r, grads, "grad");
    if (second && !*r->text)
        second_order(r, grads);
}

static bool has_recorded(const run *r, const char *key)
{
    for (int i = 0; i < r->n_leaves; i++)
        if (json_object_get(r->recorded[i], key))
            return true;
    return false;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void count(json_t *object, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(object, key));
    json_object_set_new(object, key, json_integer(n + 1));
}

/* Returns whether the sample's dtype is floating-point. Samples of other dtypes may also have such
 * tensors. */
static bool is_floating(const run *r)
{
    return strchr(text_of(r->sample, "dtype"), 'f') != NULL; /* f32, f64, f16 and bf16 */
}

/* Counts a skipped sample by reason and dtype. */
static void skip(run *r, const char *reason)
{
    json_t *skipped = json_object_get(r->report, "skipped");
    if (!json_object_get(skipped, reason))
        json_object_set_new(skipped, reason, json_object());
    count(json_object_get(skipped, reason), text_of(r->sample, "dtype"));
}

/* Returns the first row of that name whose signature fits the sample's arguments. If there is none,
 * returns NULL and the reason why the row that read the most arguments does not fit. */
static const sample_op *find_row(run *r, const char *name, sample_arg *args, sample_mismatch *why)
{
    *why = (sample_mismatch){ -1, "the operation is not supported" };
    for (int i = 0; i < num_sample_ops; i++) {
        sample_mismatch misfit;
        if (strcmp(sample_ops[i].name, name) != 0)
            continue;
        r->n_leaves = 0;
        if (sample_bind(sample_ops[i].signature, json_object_get(r->sample, "args"),
                        json_object_get(r->sample, "kwargs"), make_input, r, args, &misfit) &&
            (!sample_ops[i].left_out || sample_ops[i].left_out_if(args)))
            return &sample_ops[i];
        if (misfit.position > why->position)
            *why = misfit;
    }
    return NULL;
}

static void call(run *r, const sample_op *row, sample_arg *args)
{
    memset(r->outputs, 0, sizeof r->outputs);
    r->n_outputs = 0;
    if (br_failed())
        return;
    const json_t *own = json_object_get(r->sample, "call_seed");
    const json_t *seed = own ? own : json_object_get(r->sample, "seed");
    br_manual_seed((uint64_t)json_integer_value(seed));
    row->call(args, r->outputs);
    while (r->n_outputs < SAMPLE_OUTPUTS && r->outputs[r->n_outputs])
        r->n_outputs++;
}

/* Returns whether the pending error is that the operation does not support the sample's dtype,
 * which is not floating-point. */
static bool dtype_is_not_offered(const run *r)
{
    return br_error_code() == BR_ERROR_DTYPE && !is_floating(r);
}

/* Runs one call and compares everything. A difference is reported by wrong() or as the pending
 * error. */
static void replay(run *r, const sample_op *row, sample_arg *args)
{
    call(r, row, args);
    if (!br_failed())
        compare_outputs(r);
    if (!br_failed() && !*r->text)
        check_gradients(r, has_recorded(r, "second"));
}

/* Runs the in-place variant, if there is one and the result has the input's shape and dtype. */
static void replay_in_place(run *r)
{
    char name[96];
    sample_arg args[SAMPLE_ARGS];
    sample_mismatch why;
    snprintf(name, sizeof name, "%.90s_", text_of(r->report, "op"));
    const sample_op *row = find_row(r, name, args, &why);
    if (!row || r->n_outputs != 1 || !br_same_shape(r->outputs[0], args[0].tensor) ||
        br_dtype_of(r->outputs[0]) != br_dtype_of(args[0].tensor))
        return;
    r->variation = ", in place";
    replay(r, row, args);
    count(json_object_get(r->report, "calls"), row->expression);
}

/* Repeats the call with inputs in a different memory layout. */
static void replay_rearranged(run *r)
{
    sample_arg args[SAMPLE_ARGS];
    sample_mismatch why;
    r->rearranged = true;
    r->variation = ", rearranged";
    const sample_op *row = find_row(r, text_of(r->report, "op"), args, &why);
    if (row && !row->dense)
        replay(r, row, args);
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

static void report_failure(run *r)
{
    json_t *failures = json_object_get(r->report, "failures");
    count(r->report, "failed");
    if (json_array_size(failures) < 20)
        json_array_append_new(failures,
                              json_sprintf("sample %zu, %s%s: %s", r->number,
                                           text_of(r->sample, "dtype"), r->variation, r->text));
}

/* Checks that Brasa rejects a call that PyTorch rejects. */
static void check_error(run *r, const sample_op *row, sample_arg *args)
{
    if (!row || row->left_out) {
        count(r->report, "inexpressible");
        return;
    }
    call(r, row, args);
    bool refused = br_failed() && br_error_code() != BR_ERROR_MEMORY && *br_error_message();
    if (refused && r->n_outputs == 0) {
        json_array_append_new(json_object_get(r->report, "refused"),
                              json_integer((json_int_t)r->number));
        return;
    }
    wrong(r, "is accepted, but PyTorch rejects it");
    report_failure(r);
}

static void report_pass(run *r, const sample_op *row)
{
    json_array_append_new(json_object_get(r->report, "passed"),
                          json_integer((json_int_t)r->number));
    count(json_object_get(r->report, "dtypes"), text_of(r->sample, "dtype"));
    count(json_object_get(r->report, "calls"), row->expression);
    if (has_recorded(r, "grad"))
        count(r->report, "gradients");
    if (has_recorded(r, "second"))
        count(r->report, "second");
    json_t *excess = json_object_get(r->report, "excess");
    json_real_set(excess, fmax(r->excess, json_real_value(excess)));
}

static void check_call(run *r, const sample_op *row, sample_arg *args)
{
    replay(r, row, args);
    if (br_failed() && dtype_is_not_offered(r)) {
        skip(r, "the dtype is not supported");
        return;
    }
    if (!br_failed() && !*r->text)
        replay_in_place(r);
    if (!br_failed() && !*r->text)
        replay_rearranged(r);
    if (br_failed())
        wrong(r, "%s", br_error_message());
    if (*r->text)
        report_failure(r);
    else
        report_pass(r, row);
}

/* Returns false with an error if the record itself is invalid. */
static bool check_sample(run *r)
{
    sample_arg args[SAMPLE_ARGS];
    sample_mismatch why;
    if (json_object_get(r->sample, "skip")) {
        skip(r, text_of(r->sample, "skip"));
        return true;
    }
    const sample_op *row = find_row(r, text_of(r->report, "op"), args, &why);
    if (br_failed())
        return false;
    if (json_is_true(json_object_get(r->sample, "error")))
        check_error(r, row, args);
    else if (row && row->left_out)
        skip(r, row->left_out);
    else if (row)
        check_call(r, row, args);
    else
        skip(r, why.reason);
    br_clear_error();
    return true;
}

static bool check_samples(br_safetensors *file, const json_t *samples, json_t *report)
{
    char text[1024];
    size_t i;
    json_t *sample;
    json_array_foreach(samples, i, sample)
    {
        run r = { .file = file, .report = report, .sample = sample, .number = i, .variation = "" };
        r.text = text;
        r.size = sizeof text;
        *text = 0;
        int64_t live = br_live_tensors();
        br_scope *scope = br_scope_begin();
        bool good = check_sample(&r);
        br_scope_end(scope);
        if (!good)
            return false;
        if (br_live_tensors() != live && !*text) {
            wrong(&r, "%lld tensors are leaked", (long long)(br_live_tensors() - live));
            report_failure(&r);
        }
    }
    return true;
}

/* ---- Files ----------------------------------------------------------------------------------- */

bool samples_are_in(br_safetensors *file)
{
    const char *format = br_safetensors_metadata(file, "format");
    return format && strcmp(format, "ops-1") == 0;
}

static json_t *row_json(const sample_op *row)
{
    return json_pack("{s:s, s:s, s:s}", "name", row->name, "signature", row->signature,
                     "expression", row->expression);
}

/* Returns the rows of an operation and of its in-place variant. */
static json_t *rows_of(const char *name)
{
    json_t *list = json_array();
    size_t n = strlen(name);
    for (int i = 0; i < num_sample_ops; i++) {
        const char *other = sample_ops[i].name;
        if (strncmp(other, name, n) == 0 && (!other[n] || strcmp(other + n, "_") == 0))
            json_array_append_new(list, row_json(&sample_ops[i]));
    }
    return list;
}

static json_t *new_report(const char *op, const char *variant)
{
    return json_pack("{s:s, s:s, s:o, s:{}, s:{}, s:{}, s:[], s:[], s:[], s:f, s:i, s:i, s:i, s:i}",
                     "op", op, "variant", variant, "rows", rows_of(op), "calls", "skipped",
                     "dtypes", "failures", "passed", "refused", "excess", 0.0, "failed", 0,
                     "gradients", 0, "second", 0, "inexpressible", 0);
}

/* Appends the report of one operation; returns false with an error if the record is invalid. */
static bool check_op(br_safetensors *file, const json_t *op, json_t *reports)
{
    const json_t *samples = json_object_get(op, "samples");
    if (!*text_of(op, "op") || !json_is_array(samples)) {
        br_raise(BR_ERROR_FORMAT, "metadata 'ops': an item lacks 'op' or the list 'samples'");
        return false;
    }
    json_t *report = new_report(text_of(op, "op"), text_of(op, "variant"));
    if (!report || json_array_append_new(reports, report) != 0) {
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for a report");
        return false;
    }
    return check_samples(file, samples, report);
}

json_t *samples_check(br_safetensors *file)
{
    const char *text = br_safetensors_metadata(file, "ops");
    json_t *ops = text ? br__json_parse("check", "ops", text, strlen(text), NULL) : NULL;
    json_t *op, *reports = json_array();
    size_t i;
    if (!json_is_array(ops))
        br_raise(BR_ERROR_FORMAT, "the file's metadata has no list 'ops'");
    json_array_foreach(ops, i, op)
    {
        if (!check_op(file, op, reports))
            break;
    }
    json_decref(ops);
    if (!br_failed())
        return reports;
    json_decref(reports);
    return NULL;
}

json_t *samples_list(void)
{
    json_t *list = json_array();
    for (int i = 0; i < num_sample_ops; i++)
        json_array_append_new(list, row_json(&sample_ops[i]));
    return list;
}
