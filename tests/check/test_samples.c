/* Calls from PyTorch's own tests: a few of each operation are repeated, and wrong results are
 * detected. */
#include "check/samples/sample_ops.h"
#include "check/samples/samples.h"
#include "tests/io/files.h"

#define FEW     BRASA_TEST_DIR "/op_db/few.safetensors"
#define SPECIAL BRASA_TEST_DIR "/op_db/special.safetensors"

TestSuite(samples, .init = files_begin, .fini = files_end);

/* ---- Files ----------------------------------------------------------------------------------- */

static json_t *check_samples_of(const char *path)
{
    br_safetensors *file = br_safetensors_open(path, NULL);
    cr_assert(samples_are_in(file), "%s: %s", path, br_error_message());
    json_t *reports = samples_check(file);
    br_safetensors_close(file);
    return reports;
}

static const char *first_failure(const json_t *report)
{
    return json_string_value(json_array_get(json_object_get(report, "failures"), 0));
}

static size_t size_of(const json_t *report, const char *key)
{
    return json_array_size(json_object_get(report, key));
}

static void check_all(const char *path)
{
    json_t *report, *reports = check_samples_of(path);
    size_t i;
    check_ok();
    cr_assert(json_array_size(reports) > 100);
    json_array_foreach(reports, i, report)
    {
        const char *op = json_string_value(json_object_get(report, "op"));
        cr_expect_eq(size_of(report, "failures"), 0, "%s: %s", op, first_failure(report));
    }
    json_decref(reports);
}

Test(samples, of_every_operation)
{
    check_all(FEW);
}

/* First and second gradients at zeros, ties, kinks and bounds. */
Test(samples, at_special_points)
{
    check_all(SPECIAL);
}

/* ---- Wrong results --------------------------------------------------------------------------- */

/* Collects the values of a key at any depth. */
static void collect(json_t *value, const char *key, json_t *found)
{
    const char *name;
    size_t i;
    json_t *item;
    json_array_foreach(value, i, item)
    {
        collect(item, key, found);
    }
    json_object_foreach(value, name, item)
    {
        if (strcmp(name, key) == 0 && !json_is_null(item))
            json_array_append(found, item);
        collect(item, key, found);
    }
}

/* Returns true if an entry has this tensor or, if `tensor` is NULL, any tensor. */
static bool is_among(const json_t *expected, const char *tensor)
{
    size_t i;
    json_t *item;
    json_array_foreach(expected, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "tensor"));
        if (json_is_array(item) ? is_among(item, tensor)
                                : name && (!tensor || strcmp(name, tensor) == 0))
            return true;
    }
    return false;
}

static br_tensor *moved(br_tensor *t)
{
    if (br_dtype_of(t) == BR_BOOL)
        return br_logical_not(t);
    if (!br_is_floating(t))
        return br_add_scalar(t, 1);
    const bool half = br_dtype_size(br_dtype_of(t)) == 2; /* with a larger tolerance */
    return br_add_scalar(br_mul_scalar(t, half ? 1.1 : 1.001), half ? 0.1 : 0.01);
}

/* Writes a copy of the file in which the expected tensors are slightly changed. */
static void write_moved(br_safetensors *file, const json_t *expected)
{
    br_scope *scope = br_no_grad_begin();
    br_named_list *all = br_safetensors_all(file);
    br_named_tensor *items = calloc((size_t)all->count, sizeof *items);
    br_named_list list = { all->count, items };
    for (int64_t i = 0; i < all->count; i++) {
        items[i] = all->items[i];
        if (is_among(expected, items[i].name))
            items[i].tensor = moved(items[i].tensor);
    }
    br_metadata metadata[] = { { "format", "ops-1" },
                               { "ops", br_safetensors_metadata(file, "ops") } };
    cr_assert(br_safetensors_save(files_path("altered"), &list, 2, metadata), "%s",
              br_error_message());
    free(items);
    br_named_list_free(all);
    br_scope_end(scope);
}

static void check_moved_is_caught(const char *key)
{
    br_safetensors *file = br_safetensors_open(FEW, BR_OPTIONS(br_safetensors, .copy = true));
    json_t *ops = json_loads(br_safetensors_metadata(file, "ops"), 0, NULL);
    json_t *expected = json_array(), *op;
    size_t i;
    collect(ops, key, expected);
    write_moved(file, expected);
    json_t *reports = check_samples_of(files_path("altered"));
    json_array_foreach(ops, i, op)
    {
        json_t *own = json_array(), *report = json_array_get(reports, i);
        collect(op, key, own);
        cr_expect(!is_among(own, NULL) || size_of(report, "failures") > 0, "%s of %s", key,
                  json_string_value(json_object_get(op, "op")));
        json_decref(own);
    }
    json_decref(reports);
    json_decref(expected);
    json_decref(ops);
    br_safetensors_close(file);
}

Test(samples, wrong_results_are_caught)
{
    check_moved_is_caught("outputs");
}

Test(samples, wrong_gradients_are_caught)
{
    check_moved_is_caught("grad");
}

Test(samples, wrong_second_gradients_are_caught)
{
    check_moved_is_caught("second");
}

/* Writes a file with one f32 tensor, [1, 2, 3], and these "ops"; returns the first report. */
static json_t *report_of(const char *ops)
{
    br_scope *scope = br_scope_begin();
    br_named_tensor item = { "0", br_from_f32(BR_SHAPE(3), (float[]){ 1, 2, 3 }) };
    br_metadata metadata[] = { { "format", "ops-1" }, { "ops", ops } };
    cr_assert(
        br_safetensors_save(files_path("altered"), &(br_named_list){ 1, &item }, 2, metadata));
    br_scope_end(scope);
    json_t *reports = check_samples_of(files_path("altered"));
    json_t *report = json_incref(json_array_get(reports, 0));
    json_decref(reports);
    return report;
}

/* A sample that calls the operation on that tensor. */
#define CALL(op, rest)                                                                             \
    "[{\"op\": \"" op "\", \"samples\": [{\"dtype\": \"f32\", \"args\": [{\"tensor\": \"0\"}" rest \
    "}]}]"

Test(samples, verdicts)
{
    struct {
        const char *ops, *failure;
    } cases[] = {
        { CALL("relu", "]"), NULL },
        { CALL("abs", "], \"outputs\": [{\"tensor\": \"0\"}]"), NULL },
        { CALL("neg", "], \"outputs\": [{\"tensor\": \"0\"}]"), "output 0: inf of the tolerance" },
        { CALL("sum", "], \"outputs\": [{\"tensor\": \"0\"}]"),
          "output 0 is f32 [], must be f32 [3]" },
        { CALL("abs", "], \"outputs\": []"), "1 outputs, must be 0" },
        { CALL("abs", "], \"outputs\": [{\"tensor\": \"0\"}, {\"tensor\": \"0\"}]"),
          "1 outputs, must be 2" },
        { CALL("acos", "], \"outputs\": [{\"tensor\": \"0\", \"atol\": 9}]"),
          "output 0: inf of the tolerance" },
        { CALL("abs", "], \"error\": true"), "is accepted, but PyTorch rejects it" },
        { CALL("mm", ", {\"tensor\": \"0\"}], \"error\": true"), NULL },
        /* PyTorch drops all three elements with that seed. An expected output without a tensor
         * means zeros. */
        { CALL("nn.functional.dropout", ", 0.5, true], \"call_seed\": 6, \"outputs\": [{}]"),
          NULL },
        { CALL("nn.functional.dropout", ", 0.5, true], \"seed\": 6, \"outputs\": [{}]"), NULL },
        { CALL("nn.functional.dropout",
               ", 0.5, true], \"seed\": 6, \"call_seed\": 0, \"outputs\": [{}]"),
          "output 0: inf of the tolerance" },
        { CALL("abs", "], \"outputs\": [{\"atol\": 3}]"), NULL },
        { CALL("abs", "], \"outputs\": [{\"atol\": 2.9}]"), "output 0: 1.03 of the tolerance" },
        { CALL("mm", ", {\"tensor\": \"0\"}]"), "mm: a [3] must have 2 dimensions" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *report = report_of(cases[i].ops);
        const char *failure = first_failure(report);
        check_ok();
        cr_expect(cases[i].failure ? failure && strstr(failure, cases[i].failure) : !failure,
                  "%s: %s", cases[i].ops, failure);
        json_decref(report);
    }
}

Test(samples, calls_that_do_not_fit_are_counted)
{
    json_t *report = report_of(CALL("abs", ", 3]"));
    const json_t *skipped = json_object_get(report, "skipped");
    check_ok();
    cr_assert_eq(json_object_size(skipped), 1);
    const char *reason = json_object_iter_key(json_object_iter((json_t *)skipped));
    cr_assert_eq(json_integer_value(json_object_get(json_object_get(skipped, reason), "f32")), 1);
    json_decref(report);
}

Test(samples, bad_files_are_refused)
{
    check_fails(report_of("{}"), "metadata has no list 'ops'");
    check_fails(report_of("[1"), "metadata has no list 'ops'");
    check_fails(report_of("[{\"op\": \"abs\"}]"), "an item lacks 'op' or the list 'samples'");
    check_fails(report_of("[{\"samples\": []}]"), "an item lacks 'op' or the list 'samples'");
    check_fails(report_of("[{\"op\": \"abs\", \"samples\": [{\"args\": [{\"tensor\": \"1\"}]}]}]"),
                "the file has no tensor \"1\"");
}

/* ---- Arguments ------------------------------------------------------------------------------- */

static br_tensor *no_tensor(void *context, const json_t *value)
{
    (void)context;
    (void)value;
    return NULL;
}

/* Reads arguments from JSON {"args", "kwargs"}; returns why they do not fit, NULL if they do. */
static const char *misfit_of(const char *signature, const char *call, sample_arg *out)
{
    static sample_mismatch why;
    json_t *json = json_loads(call, 0, NULL);
    cr_assert_not_null(json, "%s", call);
    bool fits = sample_bind(signature, json_object_get(json, "args"),
                            json_object_get(json, "kwargs"), no_tensor, NULL, out, &why);
    json_decref(json);
    return fits ? NULL : why.reason;
}

Test(samples, arguments_are_read)
{
    sample_arg a[SAMPLE_ARGS];
    const char *signature = "int[] dim=None, float p=2, bool keep=True, {no|yes} word=no, only c=1";
    cr_assert_null(misfit_of(signature, "{}", a));
    cr_assert(!a[0].given && a[1].number == 2 && a[2].integer == 1 && a[3].integer == 0);
    cr_assert_null(misfit_of(signature,
                             "{\"args\": [3, {\"float\": \"-inf\"}, false], \"kwargs\": "
                             "{\"word\": \"yes\", \"c\": 1.0}}",
                             a));
    cr_assert(a[0].given && a[0].count == 1 && a[0].ints[0] == 3);
    cr_assert(a[1].number == -INFINITY && a[2].integer == 0 && a[3].integer == 1);
    cr_assert_null(
        misfit_of("dtype d, int[] size", "{\"args\": [{\"dtype\": \"int64\"}, 4, 5]}", a));
    cr_assert(a[0].dtype == BR_I64 && a[1].count == 2 && a[1].ints[1] == 5);
    static const char *const dtypes[] = { "float32", "float64", "int64", "bool" };
    static const br_dtype expected[] = { BR_F32, BR_F64, BR_I64, BR_BOOL };
    for (int i = 0; i < 4; i++) {
        char call[64];
        snprintf(call, sizeof call, "{\"args\": [{\"dtype\": \"%s\"}]}", dtypes[i]);
        cr_assert_null(misfit_of("dtype d", call, a), "%s", dtypes[i]);
        cr_assert_eq(a[0].dtype, expected[i]);
    }
    cr_assert_null(misfit_of("{false|0} x", "{\"args\": [0]}", a));
    cr_assert_eq(a[0].integer, 1);
    cr_assert_null(misfit_of("float min=-inf", "{\"args\": [null]}", a));
    cr_assert(a[0].number == -INFINITY);
}

Test(samples, arguments_that_do_not_fit)
{
    struct {
        const char *signature, *call, *reason;
    } cases[] = {
        { "int x", "{}", "x is missing" },
        { "int x", "{\"args\": [null]}", "x is null, expected int" },
        { "int x", "{\"args\": [1.5]}", "x is 1.5, expected int" },
        { "int x", "{\"args\": [{\"tensor\": \"0\"}]}", "x is a tensor, expected int" },
        { "bool x", "{\"args\": [1]}", "x is 1, expected bool" },
        { "Tensor x", "{\"args\": [1]}", "x is 1, expected Tensor" },
        { "Tensor[] x", "{\"args\": [[1]]}", "x is a list, expected Tensor[]" },
        { "dtype x", "{\"args\": [{\"dtype\": \"int16\"}]}", "x is int16, expected dtype" },
        { "{no|yes} x", "{\"args\": [\"ye\"]}", "x is \"ye\", expected {no|yes}" },
        { "only x=1", "{\"args\": [2]}", "x is 2, expected 1" },
        { "float x", "{\"args\": [{\"other\": \"1j\"}]}", "x is 1j, expected float" },
        { "int x", "{\"args\": [1, 2]}", "2 positional arguments are not supported" },
        { "int x", "{\"args\": [1], \"kwargs\": {\"out\": null}}", "out is not supported" },
    };
    sample_arg a[SAMPLE_ARGS];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *reason = misfit_of(cases[i].signature, cases[i].call, a);
        cr_expect(reason && strstr(reason, cases[i].reason), "%s, %s: %s", cases[i].signature,
                  cases[i].call, reason);
    }
}

/* A list may have as many items as there is room for. */
Test(samples, longest_lists)
{
    static const struct {
        const char *signature, *item;
    } kinds[] = { { "int[] x", "7" }, { "Index[] x", "{\"whole\": true}" } };
    sample_arg a[SAMPLE_ARGS];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int n = SAMPLE_ITEMS; n <= SAMPLE_ITEMS + 1; n++) {
            char call[2048] = "{\"args\": [[";
            for (int i = 0; i < n; i++) {
                size_t length = strlen(call);
                snprintf(call + length, sizeof call - length, "%s%s", i ? "," : "", kinds[k].item);
            }
            strcat(call, "]]}");
            const char *reason = misfit_of(kinds[k].signature, call, a);
            if (n > SAMPLE_ITEMS)
                cr_expect(reason && strstr(reason, "x is a list, expected"), "%s", reason);
            else
                cr_expect(!reason && a[0].count == n, "%s: %s", kinds[k].signature, reason);
        }
    }
}
