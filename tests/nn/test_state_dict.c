/* tests/nn/test_state_dict.c - loading state dicts: matching and mismatched tensors, and that a
 * failed load changes nothing. */
#include "nn/nn_internal.h"
#include "tests/support.h"

TestSuite(state_dict, .init = check_begin, .fini = check_end);

/* Returns a model filled with `value`: "0" is a Linear [2, 3] with bias, "1" a LayerNorm [2]. */
static br_sequential *model_new(double value)
{
    br_sequential *s =
        br_sequential_new(BR_MODULES(br_linear_new(3, 2, true), br_layer_norm_new(2, NULL)));
    br_named_list *list = br_parameters(br_base(s));
    for (int64_t i = 0; i < list->count; i++)
        br_init_constant_(list->items[i].tensor, value);
    br_named_list_free(list);
    return s;
}

static bool all_are(br_sequential *s, double value)
{
    br_scope *scope = br_scope_begin();
    br_named_list *list = br_state_dict(br_base(s));
    bool same = true;
    for (int64_t i = 0; i < list->count; i++) {
        br_tensor *t = list->items[i].tensor;
        same = same && br_equal(t, br_full(t->ndim, t->sizes, value, t->dtype));
    }
    br_named_list_free(list);
    br_scope_end(scope);
    return same;
}

Test(state_dict, copies_everything)
{
    br_sequential *from = model_new(2), *to = model_new(1);
    br_tensor *weight = br_module_get(br_base(to), "0.weight");
    uint64_t version = br_tensor_version(weight);
    br_named_list *list = br_state_dict(br_base(from));
    br_load_report report;
    cr_assert(br_load_state_dict(br_base(to), list, true, &report), "%s", br_error_message());
    cr_assert_eq(report.matched, 4);
    cr_assert_eq(report.missing + report.unexpected + report.mismatched, 0);
    cr_assert_str_eq(report.missing_names, "");
    cr_assert(all_are(to, 2));
    cr_assert_eq(br_tensor_version(weight), version + 1);
    cr_assert(br_requires_grad(weight) && br_is_leaf(weight));
    br_load_report_clear(&report);
    cr_assert(br_load_state_dict(br_base(to), list, true, NULL));
    br_named_list_free(list);
    br_module_free(from);
    br_module_free(to);
}

/* Returns a source in which 0.bias is missing, 1.weight has another shape, 1.bias another dtype,
 * and two names are unexpected. 0.weight matches, and is transposed in memory. */
static br_named_list *bad_source(void)
{
    br_named_list *list = br__named_list_new(true);
    br__named_list_add(list, "1.bias", br_full(BR_SHAPE(2), 5, BR_F64));
    br__named_list_add(list, "extra", br_zeros(BR_SCALAR, BR_F32));
    br__named_list_add(list, "0.weight", br_transpose(br_full(BR_SHAPE(3, 2), 5, BR_F32), 0, 1));
    br__named_list_add(list, "1.weight", br_full(BR_SHAPE(1, 2), 5, BR_F32));
    br__named_list_add(list, "0.weight", br_full(BR_SHAPE(2, 3), 6, BR_F32));
    return list;
}

static void check_bad_report(const br_load_report *report)
{
    cr_assert_eq(report->matched, 1);
    cr_assert_eq(report->missing, 1);
    cr_assert_eq(report->unexpected, 2);
    cr_assert_eq(report->mismatched, 2);
    cr_assert_str_eq(report->missing_names, "0.bias");
    cr_assert_str_eq(report->unexpected_names, "extra, 0.weight");
    cr_assert_str_eq(report->mismatched_names, "1.weight (module [2] f32, source [1, 2] f32), "
                                               "1.bias (module [2] f32, source [2] f64)");
}

/* A malicious file may contain names with control characters, invalid UTF-8, or 10,000 bytes. */
Test(state_dict, names_are_escaped_in_messages)
{
    enum { LONG = 10000 };
    char *name = malloc(LONG + 1);
    memset(name, 'x', LONG);
    memcpy(name, "\x1b[2J\n\xff\u202e\u00e9", 11);
    name[LONG] = 0;
    br_scope *scope = br_scope_begin();
    br_sequential *model = model_new(1);
    br_named_list *list = br__named_list_new(true);
    br__named_list_add(list, name, br_ones(BR_SCALAR, BR_F32));
    br_load_report report;
    cr_assert_not(br_load_state_dict(br_base(model), list, true, &report));
    const char *message = br_error_message();
    cr_assert(strstr(message, "1 unexpected: \\u001b[2J\\u000a\\xff\\u202e\u00e9xxx"), "%s",
              message);
    cr_assert_str_eq(message + strlen(message) - 6, "xxx...");
    cr_assert(strlen(message) < 400 && !strchr(message, '\n'));
    cr_assert_str_eq(report.unexpected_names, name, "the report must contain the name unescaped");
    br_clear_error();
    br_load_report_clear(&report);
    br_named_list_free(list);
    br_module_free(model);
    br_scope_end(scope);
    free(name);
}

Test(state_dict, strict_loading_fails_and_changes_nothing)
{
    br_scope *scope = br_scope_begin();
    br_sequential *s = model_new(1);
    br_named_list *source = bad_source();
    br_load_report report;
    cr_assert_not(br_load_state_dict(br_base(s), source, true, &report));
    cr_assert_str_eq(br_error_message(),
                     "load_state_dict: with strict, source and module must have the same tensors: "
                     "1 missing: 0.bias; 2 unexpected: extra, 0.weight; 2 "
                     "mismatched in shape or dtype: 1.weight (module [2] f32, source [1, 2] f32), "
                     "1.bias (module [2] f32, source [2] f64)");
    br_clear_error();
    check_bad_report(&report);
    cr_assert(all_are(s, 1));
    br_load_report_clear(&report);
    br_named_list_free(source);
    br_module_free(s);
    br_scope_end(scope);
}

Test(state_dict, items_without_a_tensor_or_a_name_are_refused)
{
    br_scope *scope = br_scope_begin();
    br_sequential *s = model_new(1);
    br_tensor *t = br_ones(BR_SHAPE(2, 3), BR_F32);
    br_named_tensor items[] = { { "0.weight", t }, { "0.bias", NULL } };
    br_named_list source = { 2, items };
    check_fails(br_load_state_dict(br_base(s), &source, false, NULL),
                "item 1 of source has no tensor");
    items[1] = (br_named_tensor){ NULL, t };
    check_fails(br_load_state_dict(br_base(s), &source, false, NULL),
                "item 1 of source has no name");
    cr_assert(all_are(s, 1));
    br_module_free(s);
    br_scope_end(scope);
}

Test(state_dict, non_strict_loading_copies_matching_tensors)
{
    br_scope *scope = br_scope_begin();
    br_sequential *s = model_new(1);
    br_named_list *source = bad_source();
    br_load_report report;
    cr_assert(br_load_state_dict(br_base(s), source, false, &report));
    check_bad_report(&report);
    br_tensor *weight = br_module_get(br_base(s), "0.weight");
    cr_assert(br_equal(br_detach(weight), br_full(BR_SHAPE(2, 3), 5, BR_F32)));
    cr_assert_eq(br_at(br_module_get(br_base(s), "1.bias"), 1, (int64_t[]){ 0 }), 1);
    br_load_report_clear(&report);
    br_named_list_free(source);
    br_module_free(s);
    br_scope_end(scope);
}

Test(state_dict, long_lists_are_truncated_in_the_message_only)
{
    br_module_list *list = br_module_list_new();
    for (int i = 0; i < 60; i++)
        br_module_list_append(list, br_layer_norm_new(1, NULL));
    br_named_list *empty = br__named_list_new(false);
    br_load_report report;
    cr_assert_not(br_load_state_dict(br_base(list), empty, true, &report));
    cr_assert(strstr(br_error_message(), "120 missing: 0.weight, 0.bias, 1.weight"));
    cr_assert(strstr(br_error_message(), "..."));
    cr_assert(strstr(report.missing_names, ", 59.bias"));
    br_clear_error();
    br_load_report_clear(&report);
    br_named_list_free(empty);
    br_module_free(list);
}

Test(state_dict, fails_under_a_pending_error)
{
    br_sequential *s = model_new(1);
    br_named_list *list = br_state_dict(br_base(s));
    check_fails(br_load_state_dict(br_base(s), NULL, true, NULL), "source is NULL");
    check_fails(br_load_state_dict(NULL, list, true, NULL), "module is NULL");
    br_raise(BR_ERROR_ARGUMENT, "an earlier error");
    br_load_report report;
    check_fails(br_load_state_dict(br_base(s), list, true, &report), "an earlier error");
    br_raise(BR_ERROR_ARGUMENT, "an earlier error");
    check_fails(br_state_dict(br_base(s)), "an earlier error");
    br_load_report_clear(&report);
    br_named_list_free(list);
    br_module_free(s);
}
