/* tests/nn/test_match.c - matching the names of a source with those of a module. */
#include "nn/match.h"
#include "tests/io/files.h"
#include "tests/support.h"

#include <brasa/io.h>
#include <criterion/criterion.h>
#include <string.h>

/* The module's names: b and d share a tensor. */
static br_tensor *tensors[3];
static br_named_tensor items[4];
static const br_named_list own = { 4, items };

static void begin(void)
{
    files_begin();
    for (int i = 0; i < 3; i++)
        tensors[i] = br_zeros(BR_SHAPE(2), BR_F32);
    items[0] = (br_named_tensor){ "c", tensors[0] };
    items[1] = (br_named_tensor){ "b", tensors[1] };
    items[2] = (br_named_tensor){ "a", tensors[2] };
    items[3] = (br_named_tensor){ "d", tensors[1] };
}

TestSuite(match, .init = begin, .fini = files_end);

/* A name of a source that begins with "old_" belongs to the module's name after it. */
static bool find(void *names, const br__match *m, int64_t k, int64_t *index)
{
    const char *name = ((const char **)names)[k];
    *index = br__match_find(m, strncmp(name, "old_", 4) == 0 ? name + 4 : name);
    return true;
}

Test(match, names_are_found_renamed_and_used_once)
{
    const char *names[] = { "a", "x", "old_a", "old_c" };
    br__match m;
    cr_assert(br__match_begin(&m, &own, 4, find, names));
    cr_assert(br__match_find(&m, "d") == 3 && br__match_find(&m, "e") == -1 &&
              br__match_find(&m, "") == -1);
    cr_assert(m.source_of[0] == 3 && m.source_of[1] == -1 && m.source_of[2] == 0);
    cr_assert(br__match_uses(&m, 0) && br__match_uses(&m, 3));
    cr_assert(!br__match_uses(&m, 1), "x belongs to no name");
    cr_assert(m.own_of[2] == 2 && !br__match_uses(&m, 2), "a has a source already");
    br__match_end(&m);
}

Test(match, ties)
{
    const char *names[] = { "d" };
    br__match m;
    cr_assert(br__match_begin(&m, &own, 1, find, names));
    cr_assert(m.source_of[1] == -1 && m.source_of[3] == 0);
    cr_assert_eq(br__match_source(&m, tensors[1]), 0);
    cr_assert_eq(br__match_source(&m, tensors[0]), -1);
    cr_assert_eq(br__match_tie(&m, 3), -1, "b, the name before d, has no source");
    br__match_share_ties(&m);
    cr_assert(m.source_of[1] == 0 && m.source_of[0] == -1);
    cr_assert_eq(br__match_tie(&m, 3), 1);
    br__match_end(&m);
}

Test(match, lists_of_names)
{
    br__names names = { 0 };
    int64_t count;
    char *text;
    cr_assert(br__names_add(&names, "a") && br__names_add(&names, "b"));
    br__names_take(&names, &count, &text);
    cr_assert_eq(count, 2);
    cr_assert_str_eq(text, "a, b");
    br_free(text);
}

typedef struct pair {
    br_module base;
    br_linear *first, *second; /* with the same weight */
} pair;

/* A file may have a tied tensor under any of its names; a state dict must have all of them. */
Test(match, ties_count_for_files_only)
{
    pair *model = br_module_create(sizeof *model, "Pair");
    model->first = br_child(model, "first", br_linear_new(2, 2, false));
    model->second = br_child(model, "second", br_linear_new(2, 2, false));
    model->second->weight =
        br_module_replace_parameter(br_base(model->second), "weight", model->first->weight);
    br_named_tensor one = { "second.weight", br_ones(BR_SHAPE(2, 2), BR_F32) };
    br_named_list source = { 1, &one };
    br_load_report report;
    cr_assert(br_load_state_dict(br_base(model), &source, false, &report));
    cr_assert(report.matched == 1 && report.missing == 1);
    cr_assert_str_eq(report.missing_names, "first.weight");
    br_load_report_clear(&report);
    cr_assert(br_safetensors_save(files_path("one"), &source, 0, NULL));
    cr_assert(br_model_load(files_path("one"), br_base(model), true, &report), "%s",
              br_error_message());
    cr_assert(report.matched == 2 && report.missing == 0);
    br_load_report_clear(&report);
    br_module_free(model);
}
