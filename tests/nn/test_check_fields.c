/* tests/nn/test_check_fields.c - in debug mode, a field that a constructor forgot to register is
 * named when the module's parameters are listed. */
#include "tensor/debug.h"
#include "tests/support.h"

#include <brasa/brasa.h>

static void turn_on(void)
{
    br__debug_set(true);
}

TestSuite(check_fields, .init = turn_on, .fini = br_thread_cleanup);

typedef struct part {
    br_module base;
    bool flag;
    br_tensor *weight, *bias, *mask;
    struct part *up;
    br_linear *layers[2];
    br_dropout *dropout;
} part;

enum { SIZE = 4096 };

static void keep_warning(br_error code, const char *message, void *context)
{
    char *text = context;
    cr_assert_eq(code, BR_WARNING, "%s", message);
    strncat(text, message, SIZE - strlen(text) - 2);
    strcat(text, "\n");
}

/* Returns the warnings of listing the parameters. */
static const char *warnings_of(part *p)
{
    static char text[SIZE];
    text[0] = '\0';
    br_set_error_callback(keep_warning, text);
    br_named_list_free(br_parameters(br_base(p)));
    br_set_error_callback(NULL, NULL);
    return text;
}

static void check_has(const char *text, const char *expected)
{
    cr_assert(strstr(text, expected), "\"%s\" lacks \"%s\"", text, expected);
}

static int lines_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

Test(check_fields, unregistered_fields_are_named_once)
{
    br_scope *scope = br_scope_begin();
    part *root = br_module_new(part), *p = br_child(root, "inner", br_module_new(part));
    root->weight = br_parameter(root, "weight", br_ones(BR_SHAPE(2), BR_F32));
    p->weight = br_set_requires_grad(br_ones(BR_SHAPE(3, 4), BR_F32), true);
    p->bias = br_zeros(BR_SHAPE(5), BR_F64);
    p->layers[1] = br_linear_new(2, 2, true);
    p->dropout = br_dropout_new(0.1);
    const char *text = warnings_of(root);
    char start[128];
    snprintf(start, sizeof start,
             "parameters: part inner has a tensor [3, 4] at byte %zu of its struct that it did not "
             "register, created by ",
             offsetof(part, weight));
    check_has(text, start);
    check_has(text, "call br_parameter() or br_buffer() in the constructor, or it is neither");
    check_has(text, "part inner has a tensor [5] at byte");
    check_has(text, "part inner has a module Linear at byte");
    check_has(text, "call br_child() in the constructor");
    check_has(text, "part inner has a module Dropout at byte");
    cr_assert_eq(lines_of(text), 4, "%s", text);
    cr_assert_str_eq(warnings_of(root), "");
    br_module_free(p->layers[1]);
    br_module_free(p->dropout);
    br_module_free(root);
    br_scope_end(scope);
}

/* Fields may also hold registered parts, parts of the tree's other modules, results, integers,
 * pointers to what has ended, and a frozen module of another tree. */
Test(check_fields, other_fields_cause_no_warning)
{
    br_scope *scope = br_scope_begin();
    part *root = br_module_new(part), *p = br_child(root, "inner", br_module_new(part));
    root->weight = br_parameter(root, "weight", br_ones(BR_SHAPE(2), BR_F32));
    root->bias = br_mul_scalar(root->weight, 2);
    root->mask = br_zeros(BR_SHAPE(2), BR_BOOL);
    root->layers[0] = br_child(root, "0", br_linear_new(2, 2, true));
    p->weight = root->weight;
    p->up = root;
    p->layers[0] = root->layers[0];
    p->layers[1] = br_linear_new(2, 2, true);
    br_freeze(br_base(p->layers[1]), "*");
    br_scope *inner = br_scope_begin();
    p->bias = br_ones(BR_SHAPE(2), BR_F32);
    br_scope_end(inner);
    cr_assert_str_eq(warnings_of(root), "");
    br_module_free(p->layers[1]);
    br_module_free(root);
    br_scope_end(scope);
}
