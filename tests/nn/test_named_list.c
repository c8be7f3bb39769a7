/* tests/nn/test_named_list.c - lists of named tensors that the caller builds and iterates over. */
#include "tests/memory.h"

#include <brasa/nn.h>

TestSuite(named_list, .init = check_begin, .fini = check_end);

Test(named_list, add_and_iterate)
{
    br_named_list *list = br_named_list_new();
    cr_assert_null(br_named_list_next(list, NULL));
    br_scope *scope = br_scope_begin();
    char name[] = "a";
    for (; name[0] < 'd'; name[0]++)
        cr_assert(br_named_list_add(list, name, br_scalar(name[0], BR_F64)));
    br_scope_end(scope);
    int n = 0; /* the list has copied the names and holds the tensors */
    for (const br_named_tensor *p = NULL; (p = br_named_list_next(list, p)); n++) {
        cr_assert_eq(p->name[0], 'a' + n);
        cr_assert_eq(br_item(p->tensor), 'a' + n);
    }
    cr_assert_eq(n, 3);
    cr_assert_eq(br_item(br_named_list_get(list, "b")), 'b');
    br_named_list_free(list);
}

Test(named_list, iterate_over_parameters)
{
    br_linear *self = br_linear_new(2, 3, true);
    br_named_list *all = br_parameters(br_base(self));
    const br_named_tensor *p = br_named_list_next(all, NULL);
    cr_assert_eq(p->tensor, self->weight);
    p = br_named_list_next(all, p);
    cr_assert_eq(p->tensor, self->bias);
    cr_assert_null(br_named_list_next(all, p));
    br_named_list_free(all);
    br_module_free(self);
}

Test(named_list, errors)
{
    br_named_list *list = br_named_list_new();
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_scalar(1, BR_F32);
    check_fails(br_named_list_add(NULL, "a", t), "named_list_add: list is NULL");
    check_fails(br_named_list_add(list, NULL, t), "named_list_add: name is NULL");
    check_fails(br_named_list_add(list, "a", NULL), "named_list_add: tensor is NULL");
    cr_assert(br_named_list_add(list, "a", t));
    check_fails(br_named_list_add(list, "a", t), "the list already has a tensor named a");
    cr_assert_eq(list->count, 1);
    cr_assert_null(br_named_list_next(NULL, NULL));
    br_scope_end(scope);
    br_named_list_free(list);
}

static bool make(void)
{
    br_named_list *list = br_named_list_new();
    br_scope *scope = br_scope_begin();
    bool ok = list && br_named_list_add(list, "a", br_scalar(1, BR_F32));
    cr_assert_eq(ok, !br_failed());
    br_scope_end(scope);
    br_named_list_free(list);
    return ok;
}

Test(named_list, every_allocation_may_fail)
{
    fail_in_turn(make, "make");
}

/* No pattern matches nothing. */
Test(named_list, filters_without_patterns)
{
    br_linear *linear = br_linear_new(2, 2, true);
    br_named_list *all = br_parameters(br_base(linear));
    for (int invert = 0; invert < 2; invert++) {
        br_named_list *some = br_named_list_filter(all, 0, NULL, invert);
        cr_assert(some && some->count == (invert ? 2 : 0), "%s", br_error_message());
        br_named_list_free(some);
    }
    br_named_list_free(all);
    br_module_free(linear);
}

static void keep_warning(br_error code, const char *message, void *context)
{
    cr_assert_eq(code, BR_WARNING, "%s", message);
    snprintf(context, 200, "%s", message);
}

/* A pattern that matches nothing is a warning with the most similar name. */
Test(named_list, misspelled_patterns_cause_a_warning)
{
    char text[200] = "";
    br_linear *linear = br_linear_new(2, 2, true);
    br_activation *empty = br_identity_new();
    br_named_list *all = br_parameters(br_base(linear));
    br_set_error_callback(keep_warning, text);
    cr_assert_eq(br_freeze(br_base(linear), "weigxt*"), 0);
    cr_assert_str_eq(text, "requires_grad: no parameter of Linear matches 'weigxt*': the most "
                           "similar name is 'weight'");
    cr_assert_eq(br_freeze(br_base(empty), "*"), 0);
    cr_assert_str_eq(text, "requires_grad: no parameter of Identity matches '*': it has no "
                           "parameters");
    const char *globs[] = { "weigxt*", "*.norm*" };
    br_named_list_free(br_named_list_filter(all, 1, globs, false));
    cr_assert_str_eq(text, "named_list_filter: no name matches 'weigxt*': the most similar name is "
                           "'weight'");
    br_named_list_free(br_named_list_filter(all, 1, &(const char *){ "bais" }, false));
    cr_assert(strstr(text, "the most similar name is 'bias'"), "%s", text); /* one mistake */
    *text = '\0';
    br_named_list_free(br_named_list_filter(all, 1, &(const char *){ "baxs." }, false)); /* two */
    cr_assert_str_eq(text, "");
    br_named_list_free(br_named_list_filter(all, 1, globs + 1, true)); /* not a misspelling */
    br_named_list_free(br_named_list_filter(all, 1, &(const char *){ "weigh?" }, false));
    br_named_list_free(br_named_list_filter(all, 1, &(const char *){ "bia?" }, true));
    cr_assert_eq(br_freeze(br_base(linear), "b*"), 1);
    cr_assert_str_eq(text, "");
    br_set_error_callback(NULL, NULL);
    br_named_list_free(all);
    br_module_free(linear);
    br_module_free(empty);
}
