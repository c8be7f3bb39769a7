/* tests/pretrained/test_auto_model_shards.c - AutoModel: weights in several files with an index. */
#include "tests/pretrained/auto_model.h"

#include <sys/stat.h>
#include <unistd.h>

TestSuite(auto_model_shards, .init = files_begin, .fini = files_end);

enum { FIRST = 20 }; /* number of tensors in the first shard */

/* Writes the recorded model in two files, and an index that names `last` as the last key's file. */
static void save_shards(const char *last, bool overlapping)
{
    copy_config();
    br_named_list *list = recorded_tensors();
    save_some("one.safetensors", list, 0, FIRST + overlapping, NULL);
    save_some("two.safetensors", list, FIRST, list->count, NULL);
    char text[20000] = "{\"metadata\": {}, \"weight_map\": {";
    for (int64_t i = 0; i < list->count; i++) {
        const char *file = i + 1 == list->count ? last
                           : i < FIRST          ? "one.safetensors"
                                                : "two.safetensors";
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s\"%s\": \"%s\"", i ? ", " : "", list->items[i].name,
                 file);
    }
    strcat(text, "}}");
    files_write(files_path("model.safetensors.index.json"), text, strlen(text));
    br_named_list_free(list);
}

Test(auto_model_shards, shards)
{
    save_shards("two.safetensors", false);
    br_auto_model_report report;
    br_hf_bert_pretraining *model = load_folder(NULL, &report);
    cr_assert(model, "%s", br_error_message());
    cr_assert(report.matched == 46 && report.missing == 0);
    check_pooled(model->bert);
    br_auto_model_report_clear(&report);
    br_module_free(model);
}

static bool count_tensors(void *counts, const br_safetensors *file)
{
    int64_t *n = counts;
    n[0]++;
    n[1] += br_safetensors_count(file);
    return n[1] < 46 || n[0] > 1;
}

Test(auto_model_shards, each_file)
{
    int64_t n[2] = { 0 };
    save_shards("two.safetensors", false);
    cr_assert(br_auto_model_each_file(folder(), count_tensors, n), "%s", br_error_message());
    cr_assert(n[0] == 2 && n[1] == 46);
    check_fails(br_auto_model_each_file(folder(), NULL, n),
                "auto_model_each_file: visit is NULL, but it is required");
    check_fails(br_auto_model_each_file(NULL, count_tensors, n),
                "auto_model_each_file: dir is NULL");
    check_fails(br_auto_model_each_file("/none", count_tensors, n),
                "/none: there is no model.safe");
    save_shards("two.safetensors", true);
    check_fails(br_auto_model_each_file(folder(), count_tensors, n), "must be in only one file");
    br_named_list *list = recorded_tensors();
    save_some("model.safetensors", list, 0, list->count, NULL);
    n[0] = n[1] = 0;
    check_fails(br_auto_model_each_file(folder(), count_tensors, n),
                "auto_model_each_file: visit returned false for a file of ");
    cr_assert(n[0] == 1 && n[1] == 46, "model.safetensors precedes the index");
    br_named_list_free(list);
}

/* Every way to write a file's path in the index names the same file. */
Test(auto_model_shards, shards_in_folders)
{
    static const char *const paths[] = { "./two.safetensors", "././two.safetensors" };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        save_shards(paths[i], false);
        br_auto_model_report report;
        br_hf_bert_pretraining *model = load_folder(NULL, &report);
        cr_assert(model, "%s: %s", paths[i], br_error_message());
        cr_assert(report.matched == 46 && report.absent == 0);
        check_pooled(model->bert);
        br_auto_model_report_clear(&report);
        br_module_free(model);
    }
    br_named_list *list = recorded_tensors();
    cr_assert_eq(mkdir(files_path("parts"), 0700), 0);
    save_some("parts/last.safetensors", list, list->count - 1, list->count, NULL);
    save_shards("parts/./last.safetensors", false);
    save_some("two.safetensors", list, FIRST, list->count - 1, NULL);
    br_auto_model_report report;
    br_module *model = load_folder(NULL, &report);
    cr_assert(model, "%s", br_error_message());
    cr_assert(report.matched == 46 && report.missing == 0 && report.absent == 0);
    br_auto_model_report_clear(&report);
    br_module_free(model);
    br_named_list_free(list);
    unlink(files_path("parts/last.safetensors"));
    rmdir(files_path("parts"));
}

Test(auto_model_shards, bad_shards)
{
    static const char *const bad[] = {
        "../two.safetensors", "/etc/passwd", "..", "",   "a//b", "a/../two.safetensors", "a/..",
        "two.safetensors/",   ".",           "./", "a/."
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char message[200];
        save_shards(bad[i], false);
        snprintf(message, sizeof message,
                 "\"] is \"%s\", must be a relative path without \"..\" and empty parts", bad[i]);
        check_fails(load_folder(NULL, NULL), message);
    }
    save_shards("three.safetensors", false);
    check_fails(load_folder(NULL, NULL), "three.safetensors: cannot be opened");
    save_shards("a/b", false);
    check_fails(load_folder(NULL, NULL), "/a/b: cannot be opened");
    save_shards("two.safetensors", true);
    check_fails(load_folder(NULL, NULL), "must be in only one file");
}

/* A key that the index lists in the wrong file is found, because all keys of the files are read. */
Test(auto_model_shards, misplaced_keys_are_reported)
{
    save_shards("one.safetensors", false);
    br_auto_model_report report;
    br_hf_bert_pretraining *model = load_folder(NULL, &report);
    cr_assert(model, "%s", br_error_message());
    cr_assert(report.matched == 46 && report.missing == 0 && report.absent == 1);
    cr_assert_str_eq(report.absent_names, "cls.seq_relationship.weight in one.safetensors");
    check_pooled(model->bert);
    br_auto_model_report_clear(&report);
    br_module_free(model);
}

/* A listed key that no file has is reported, and an error only if the model needs it. */
Test(auto_model_shards, listed_keys_without_weights)
{
    save_shards("two.safetensors", false);
    br_named_list *list = recorded_tensors();
    save_some("two.safetensors", list, FIRST, list->count - 1, NULL);
    br_auto_model_report report;
    br_module *model = load_folder("BertModel", &report);
    cr_assert(model, "%s", br_error_message());
    cr_assert(report.absent == 1 && report.missing == 0);
    cr_assert_str_eq(report.absent_names, "cls.seq_relationship.weight in two.safetensors");
    br_auto_model_report_clear(&report);
    br_module_free(model);
    model = load_folder(NULL, &report); /* the weight of a head is made */
    cr_assert(model, "%s", br_error_message());
    cr_assert(report.absent == 1 && report.missing == 1);
    br_auto_model_report_clear(&report);
    br_module_free(model);
    save_some("one.safetensors", list, 1, FIRST, NULL);
    check_fails(load_folder("BertModel", NULL),
                "/one.safetensors: key \"bert.embeddings.LayerNorm.bias\" is missing, but ");
    check_fails(load_folder("BertModel", NULL),
                "/model.safetensors.index.json lists it in this file, must be F32 [16] for a Bert");
    br_named_list_free(list);
}

static void check_index(const char *text, const char *message)
{
    files_write(files_path("model.safetensors.index.json"), text, strlen(text));
    check_fails(load_folder(NULL, NULL), message);
}

Test(auto_model_shards, bad_indexes)
{
    copy_config();
    check_index("", "model.safetensors.index.json: line 1, column 0");
    check_index("[]", "weight_map is missing or empty");
    check_index("{\"weight_map\": {}}", "weight_map is missing or empty");
    check_index("{\"weight_map\": {\"a\": 1}}",
                "weight_map[\"a\"] is of the wrong type, must be a string");
    check_index("{\"weight_map\": {\"a\": \"x\", \"a\": \"y\"}}", "duplicate");
}

/* Checks that the file, truncated anywhere, is rejected with a message that names it. */
static void check_cuts(const char *name)
{
    size_t n;
    char *bytes = files_read(files_path(name), &n);
    for (size_t length = 0; length + 2 < n; length += n / 97 + 1) {
        files_write(files_path(name), bytes, length);
        check_fails(load_folder(NULL, NULL), name);
    }
    files_write(files_path(name), bytes, n);
    free(bytes);
}

Test(auto_model_shards, any_truncated_file)
{
    save_shards("two.safetensors", false);
    check_cuts("config.json");
    check_cuts("model.safetensors.index.json");
    check_cuts("one.safetensors");
    check_cuts("two.safetensors");
    br_module *model = load_folder(NULL, NULL);
    cr_assert(model, "%s", br_error_message());
    br_module_free(model);
}
