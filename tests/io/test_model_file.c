/* Model files: a tied tensor is stored once and loaded under each of its names. */
#include "tests/io/files.h"
#include "tests/memory.h"

TestSuite(model_file, .init = files_begin, .fini = files_end);

typedef struct {
    br_module base;
    br_embedding *embedding;
    br_linear *decoder;
} tied;

static tied *tied_new(void)
{
    tied *self = br_module_new(tied);
    br_scope *scope = br_scope_begin();
    self->decoder = br_child(self, "decoder", br_linear_new(2, 3, true));
    self->embedding = br_child(self, "embedding", br_embedding_new(3, 2, -1));
    if (self->decoder && self->embedding)
        self->decoder->weight =
            br_module_replace_parameter(br_base(self->decoder), "weight", self->embedding->weight);
    br_scope_end(scope);
    return self;
}

Test(model_file, tied_tensors_are_stored_once)
{
    br_scope *scope = br_scope_begin();
    const char *path = files_path("model");
    tied *one = tied_new(), *other = tied_new();
    cr_assert(br_model_save(path, br_base(one), 1, &(br_metadata){ "format", "pt" }));
    br_safetensors *file = br_safetensors_open(path, NULL);
    cr_assert_eq(br_safetensors_count(file), 2);
    cr_assert(br_safetensors_has(file, "decoder.weight"));
    cr_assert_not(br_safetensors_has(file, "embedding.weight"));
    cr_assert_str_eq(br_safetensors_metadata(file, "embedding.weight"), "decoder.weight");
    cr_assert_str_eq(br_safetensors_metadata(file, "format"), "pt");
    br_safetensors_close(file);

    br_load_report report;
    cr_assert(br_model_load(path, br_base(other), true, &report), "%s", br_error_message());
    cr_assert_eq(report.matched, 3);
    br_load_report_clear(&report);
    cr_assert(br_equal(br_detach(other->embedding->weight), br_detach(one->embedding->weight)));
    cr_assert_eq(other->embedding->weight, other->decoder->weight);
    br_module_free(one);
    br_module_free(other);
    br_scope_end(scope);
}

/* Metadata of the program stay as they are, even under the name of a tied tensor. */
Test(model_file, metadata_named_like_a_tie_are_kept)
{
    br_scope *scope = br_scope_begin();
    const char *path = files_path("model");
    tied *model = tied_new();
    cr_assert(br_model_save(path, br_base(model), 1, &(br_metadata){ "embedding.weight", "mine" }),
              "%s", br_error_message());
    br_safetensors *file = br_safetensors_open(path, NULL);
    cr_assert_eq(br_safetensors_metadata_count(file), 1);
    cr_assert_str_eq(br_safetensors_metadata(file, "embedding.weight"), "mine");
    br_safetensors_close(file);
    br_module_free(model);
    br_scope_end(scope);
}

Test(model_file, refusals)
{
    br_scope *scope = br_scope_begin();
    const char *path = files_path("model");
    br_linear *linear = br_linear_new(2, 3, true);
    tied *model = tied_new();
    cr_assert(br_model_save(path, br_base(linear), 0, NULL));
    check_fails(br_model_load(path, br_base(model), true, NULL),
                "3 missing: decoder.weight, decoder.bias, embedding.weight; "
                "2 unexpected: bias, weight");
    check_fails(br_model_load(path, br_base(model), true, NULL), path);
    check_fails(br_model_load(files_path("none"), br_base(model), true, NULL), "none");
    check_fails(br_model_save(path, NULL, 0, NULL), "module is NULL");
    check_fails(br_model_save(path, br_base(model), 1, NULL),
                "n_metadata is 1 and metadata is NULL: n_metadata must be");
    check_fails(br_model_save(path, br_base(model), -1, NULL),
                "model_file: n_metadata is -1 and metadata is NULL: n_metadata must be");
    check_fails(br_model_save(NULL, br_base(model), 0, NULL), "path is NULL");
    br_module_free(linear);
    br_module_free(model);
    br_scope_end(scope);
}

static bool save_and_load(void)
{
    tied *model = tied_new();
    bool ok = br_model_save(files_path("model"), br_base(model), 0, NULL) &&
              br_model_load(files_path("model"), br_base(model), true, NULL);
    br_module_free(model);
    return ok;
}

Test(model_file, failing_memory)
{
    fail_in_turn(save_and_load, "model_file");
}
