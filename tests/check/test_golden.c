/* Golden files with differences: `brasa check` must report each one. */
#include "check/golden/golden.h"
#include "tests/io/files.h"
#include "tests/models/models.h"
#include "tests/ops/matmul/bf16_units.h"

#include <stdlib.h>

#define LAYER BRASA_TEST_DIR "/golden/bert.EncoderLayer.safetensors"
#define ADAM  BRASA_TEST_DIR "/golden/bert.BERT_adam10.safetensors"
#define BERT  BRASA_TEST_DIR "/golden/bert.BERT.safetensors"

TestSuite(golden, .init = files_begin, .fini = files_end);

/* What to change in a copy of a file. */
typedef struct change {
    const char *tensor; /* tensor to add `by` to or, with `drop`, to omit */
    double by;
    bool drop;
    const char *added;       /* name of a second copy of it */
    const char *key, *value; /* metadata to replace */
} change;

static void write_altered(const char *path, change c)
{
    br_scope *scope = br_no_grad_begin();
    br_safetensors *file = br_safetensors_open(path, BR_OPTIONS(br_safetensors, .copy = true));
    br_named_list *all = br_safetensors_all(file);
    cr_assert_not_null(all, "%s", br_error_message());
    br_named_tensor *items = calloc((size_t)all->count + 1, sizeof *items);
    br_metadata metadata[64];
    int64_t n = 0, n_metadata = br_safetensors_metadata_count(file);
    for (int64_t i = 0; i < all->count; i++) {
        bool hit = c.tensor && strcmp(all->items[i].name, c.tensor) == 0;
        if (hit && c.drop)
            continue;
        items[n] = all->items[i];
        if (hit)
            items[n].tensor = br_add_scalar(items[n].tensor, c.by);
        n++;
        if (hit && c.added)
            items[n++] = (br_named_tensor){ c.added, all->items[i].tensor };
    }
    for (int64_t i = 0; i < n_metadata; i++) {
        const char *key = br_safetensors_metadata_key(file, i);
        bool hit = c.key && strcmp(key, c.key) == 0;
        metadata[i] = (br_metadata){ key, hit ? c.value : br_safetensors_metadata(file, key) };
    }
    br_named_list list = { n, items };
    cr_assert(br_safetensors_save(files_path("altered"), &list, n_metadata, metadata), "%s",
              br_error_message());
    free(items);
    br_named_list_free(all);
    br_safetensors_close(file);
    br_scope_end(scope);
}

/* Checks that the altered file differs most in `where`. */
static void check_differs(const char *path, const char *where, change c)
{
    br_check_result result;
    write_altered(path, c);
    cr_assert(golden_check(files_path("altered"), (br_check_mode){ 0 }, &result), "%s",
              br_error_message());
    cr_assert(result.excess > 1, "%s is not caught", where);
    cr_assert_str_eq(result.where, where);
}

static void check_refused(const char *path, const char *message, change c)
{
    br_check_result result;
    write_altered(path, c);
    check_fails(golden_check(files_path("altered"), (br_check_mode){ 0 }, &result), message);
}

Test(golden, differences_are_caught)
{
    const char *names[] = { "output/output",
                            "output/attn",
                            "loss",
                            "grad/pos_ffn.fc1.bias",
                            "grad/enc_self_attn.W_K.weight",
                            "grad_input/enc_inputs" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        check_differs(LAYER, names[i], (change){ .tensor = names[i], .by = 1e-3 });
    check_differs(ADAM, "losses", (change){ .tensor = "losses", .by = 1e-2 });
    check_differs(ADAM, "after/fc.bias", (change){ .tensor = "after/fc.bias", .by = 1e-3 });
    check_differs(BERT, "loss_clsf", (change){ .tensor = "loss_clsf", .by = 1e-2 });
}

Test(golden, nan_is_caught)
{
    check_differs(LAYER, "loss", (change){ .tensor = "loss", .by = NAN });
    check_differs(LAYER, "output/attn", (change){ .tensor = "output/attn", .by = INFINITY });
}

Test(golden, other_random_numbers_are_caught)
{
    check_differs(LAYER, "fresh/0/linear.weight as initialized",
                  (change){ .key = "fresh_seed", .value = "5" });
    check_differs(ADAM, "param/embedding.pos_embed.weight as initialized",
                  (change){ .key = "init", .value = "{\"manual_seed\": 5}" });
}

Test(golden, missing_tensors_are_named)
{
    check_refused(LAYER, "'vocab_size' is missing", (change){ .key = "config", .value = "{}" });
    check_refused(LAYER, "no tensor", (change){ .tensor = "grad/pos_ffn.fc1.bias", .drop = true });
    check_refused(LAYER, "pos_ffn.fc1.bias",
                  (change){ .tensor = "param/pos_ffn.fc1.bias", .drop = true });
    check_refused(LAYER, "fresh/0/linear.bias",
                  (change){ .tensor = "fresh/0/linear.bias", .drop = true });
    check_refused(BERT, "masked_tokens", (change){ .tensor = "label/masked_tokens", .drop = true });
    check_refused(LAYER, "gradients of parameters that the module does not have",
                  (change){ .tensor = "grad/pos_ffn.fc1.bias", .added = "grad/pos_ffn.fc3.bias" });
    check_refused(LAYER, "has a gradient in Brasa",
                  (change){ .key = "no_grad", .value = "[\"pos_ffn.fc1.bias\"]" });
}

Test(golden, bad_metadata_is_refused)
{
    check_refused(LAYER, "unknown model 'bert.Nobody'",
                  (change){ .key = "model", .value = "bert.Nobody" });
    check_refused(LAYER, "golden-1", (change){ .key = "format", .value = "golden-2" });
    check_refused(LAYER, "unknown loss 'mean'", (change){ .key = "loss", .value = "mean" });
    check_refused(LAYER, "loss_of", (change){ .key = "loss_of", .value = "{}" });
    check_refused(LAYER, "no output 'x'", (change){ .key = "loss_of", .value = "[\"x\"]" });
    check_refused(LAYER, "metadata 'tol'", (change){ .key = "tol", .value = "[1" });
    check_refused(LAYER, "metadata 'rtol' is '-1'", (change){ .key = "rtol", .value = "-1" });
    check_refused(LAYER, "mode", (change){ .key = "mode", .value = "test" });
    check_refused(ADAM, "Adam", (change){ .key = "optimizer", .value = "{\"name\": \"SGD\"}" });
    br_check_result result;
    check_fails(golden_check("/nonexistent/file", (br_check_mode){ 0 }, &result),
                "/nonexistent/file");
}

static void forward_that_fails(br_check *check, void *module)
{
    (void)check, (void)module;
    br_raise(BR_ERROR_STATE, "forward fails");
}

/* A run that fails leaves nothing of an earlier run, such as its optimizer. */
Test(golden, a_check_can_run_again)
{
    br_check *check = br_check_open(ADAM);
    br_check_result result;
    const golden_model *model = golden_bert_models;
    while (strcmp(model->name, br_check_model(check)) != 0)
        model++;
    for (int i = 0; i < 2; i++) {
        cr_assert(br_check_seed(check));
        void *module = model->build(check);
        cr_assert(br_check_run(check, module, model->forward, &result), "%s", br_error_message());
        cr_assert(result.excess <= 1);
        check_fails(br_check_run(check, module, forward_that_fails, &result), "forward fails");
        br_module_free(module);
        br_linear *other = br_linear_new(2, 3, true); /* has no parameter of the file */
        cr_assert(!br_check_run(check, other, model->forward, &result));
        br_clear_error();
        br_module_free(other);
    }
    br_check_close(check);
}

/* ---- Other dtypes ---------------------------------------------------------------------------- */

#define IN(d) ((br_check_mode){ .converts = true, .dtype = (d) })
#define AMP   ((br_check_mode){ .amp = true })

/* Checks all files in a mode. Returns how many cannot run, because they fill masks with numbers
 * that the dtype does not reach. */
static int check_all(br_check_mode mode)
{
    int too_large = 0;
    glob_t files;
    cr_assert_eq(glob(BRASA_TEST_DIR "/golden/*.safetensors", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        br_check_result result = { 0 };
        bool ran = golden_check(files.gl_pathv[i], mode, &result);
        cr_assert(ran || strstr(br_error_message(), "cannot be represented as f16"), "%s: %s",
                  files.gl_pathv[i], br_error_message());
        cr_assert(result.excess <= 1, "%s: %g of the tolerance, in %s", files.gl_pathv[i],
                  result.excess, result.where);
        too_large += !ran;
        br_clear_error();
    }
    globfree(&files);
    return too_large;
}

Test(golden, all_files_agree_in_other_dtypes, .timeout = 120)
{
    cr_assert_eq(check_all(IN(BR_F64)), 0);
    cr_assert_eq(check_all(IN(BR_BF16)), 0);
    cr_assert_eq(check_all(IN(BR_F16)), 14);
    cr_assert_eq(check_all(AMP), 0);
}

/* In f64 the tolerance is that of the file; in bf16 it is below the size of a gradient. */
Test(golden, differences_are_caught_in_other_dtypes)
{
    const struct {
        const char *tensor;
        double by;
        br_check_mode mode;
    } cases[] = {
        { "grad/pos_ffn.fc1.bias", 1e-3, IN(BR_F64) },
        { "grad/pos_ffn.fc1.bias", 0.1, IN(BR_BF16) },
        { "grad/enc_self_attn.W_K.weight", 0.1, AMP },
        { "loss", NAN, AMP },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        br_check_result result;
        write_altered(LAYER, (change){ .tensor = cases[i].tensor, .by = cases[i].by });
        cr_assert(golden_check(files_path("altered"), cases[i].mode, &result), "%s",
                  br_error_message());
        cr_assert(result.excess > 1, "%s is not caught", cases[i].tensor);
        cr_assert_str_eq(result.where, cases[i].tensor);
    }
}

/* ---- Precisions ------------------------------------------------------------------------------ */

static void check_precision(const char *precision)
{
    cr_assert(br_set_float32_matmul_precision(precision));
    check_golden("*.safetensors", 67);
    check_golden("intended/*.safetensors", 11);
    br_check_result result;
    write_altered(BERT, (change){ .tensor = "loss_lm", .by = 16 });
    cr_assert(golden_check(files_path("altered"), (br_check_mode){ 0 }, &result), "%s",
              br_error_message());
    cr_assert_gt(result.excess, 1);
    br_set_float32_matmul_precision("highest");
}

/* The tolerance depends on the precision, and only where a processor has a unit for bf16. */
Test(golden, all_files_agree_with_precision_medium)
{
    check_precision("medium");
}

/* With a unit that makes this precision faster, which may be an emulation. */
Test(golden, all_files_agree_with_precision_high)
{
    FOR_EACH_UNIT(unit)
    {
        if (br__gemm_bf16_kernels(BR_MATMUL_HIGH))
            check_precision("high");
    }
}
