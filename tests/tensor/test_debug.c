/* tests/tensor/test_debug.c - debug mode: misusing a handle raises an error that names the object
 * and says where it was created and where it was freed. */
#include "tensor/debug.h"
#include "tests/support.h"

#include <brasa/brasa.h>

#ifndef _GNU_SOURCE
#    define _GNU_SOURCE /* dladdr() */
#endif
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static void turn_on(void)
{
    br__debug_set(true);
}

TestSuite(debug, .init = turn_on, .fini = br_thread_cleanup);

/* Asserts that the pending error has this code and that its message contains both texts, then
 * clears the error. */
static void check_error(br_error code, const char *first, const char *second)
{
    cr_assert_eq(br_error_code(), code, "%s", br_error_message());
    cr_assert(strstr(br_error_message(), first), "%s", br_error_message());
    cr_assert(strstr(br_error_message(), second), "%s", br_error_message());
    br_clear_error();
}

static const int64_t two[] = { 2 };

Test(debug, tensor_used_after_its_scope)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(1, two, BR_F32);
    br_scope_end(scope);
    cr_assert_null(br_add(x, x));
    check_error(BR_ERROR_STATE, "tensor [2] (f32) that was freed when its scope ended: created by",
                "use br_scope_return() or br_retain() to keep a tensor");
    cr_assert_null(br_data_f32(x));
    check_error(BR_ERROR_STATE, "data_f32: t is a tensor [2]", "ended by");
    cr_assert_null(br_reshape(x, 1, two));
    check_error(BR_ERROR_STATE, "reshape: ", "ended by");
    cr_assert_null(br_retain(x));
    check_error(BR_ERROR_STATE, "retain: ", "ended by");
    cr_assert_eq(br_numel(x), -1);
    check_error(BR_ERROR_STATE, "numel: t is a tensor [2] (f32)", "ended by");
}

static br_tensor *first_of_two(br_tensor **second)
{
    br_scope *scope = br_scope_begin();
    br_tensor *first = br_scope_return(scope, br_ones(1, two, BR_F32));
    *second = br_zeros(1, two, BR_F32);
    br_scope_end(scope);
    return first;
}

Test(debug, second_output_not_returned_from_its_scope)
{
    br_tensor *second, *first = first_of_two(&second);
    br_tensor *twice = br_add(first, first);
    cr_assert(twice && !br_failed(), "%s", br_error_message());
    cr_assert_null(br_add(first, second));
    check_error(BR_ERROR_STATE, "add: b is a tensor [2] (f32) that was freed when its scope ended",
                "");
}

Test(debug, memory_of_freed_tensors_is_not_reused_at_once)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(1, two, BR_F32);
    br_scope_end(scope);
    for (int i = 0; i < 1000; i++) {
        scope = br_scope_begin();
        br_ones(1, two, BR_F32);
        br_scope_end(scope);
    }
    cr_assert_null(br_neg(x));
    check_error(BR_ERROR_STATE, "neg: ", "scope ended");
}

Test(debug, a_stale_scope_does_not_end_another)
{
    br_scope *stale = br_scope_begin();
    br_scope_end(stale);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(1, two, BR_F32);
    br_scope_end(stale);
    check_error(BR_ERROR_STATE, "scope_end: scope is a scope that has already ended: created by",
                "ended by");
    cr_assert_eq(br_data_f32(x)[0], 1.0F);
    cr_assert_null(br_scope_return(stale, x));
    check_error(BR_ERROR_STATE, "scope_return: scope is a scope that has already ended", "");
    br_scope_end(scope);
    cr_assert(!br_failed(), "%s", br_error_message());
}

Test(debug, inner_scope_used_after_the_outer_one_ended)
{
    br_scope *outer = br_scope_begin(), *inner = br_scope_begin();
    br_scope_end(outer);
    br_scope_end(inner);
    check_error(BR_ERROR_STATE, "scope_end: scope is a scope that has already ended", "ended by");
}

static void *end_elsewhere(void *scope)
{
    br_scope_end(scope);
    check_error(BR_ERROR_STATE, "scope_end: scope is open in another thread", "");
    return NULL;
}

Test(debug, a_scope_ends_in_its_own_thread)
{
    br_scope *scope = br_scope_begin();
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, end_elsewhere, scope), 0);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    br_scope_end(scope);
    cr_assert(!br_failed(), "%s", br_error_message());
}

Test(debug, more_releases_than_retains)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(1, two, BR_F32);
    br_release(br_retain(x));
    cr_assert(!br_failed());
    br_release(x);
    check_error(BR_ERROR_STATE, "release: t [2] was released more often than retained", "");
    cr_assert_eq(br_data_f32(x)[1], 1.0F);
    br_retain(x);
    br_scope_end(scope);
    br_release(x);
    cr_assert(!br_failed(), "%s", br_error_message());
    br_release(x);
    check_error(BR_ERROR_STATE, "release: t is a tensor [2] (f32) that was already freed", "");
}

/* ---- Other kinds of objects ------------------------------------------------------------------ */

Test(debug, a_module_is_freed_twice_and_used_afterwards)
{
    br_linear *linear = br_linear_new(2, 2, true);
    br_module_free(linear);
    br_module_free(linear);
    check_error(BR_ERROR_STATE, "module_free: module is a module Linear that was already freed",
                "ended by");
    br_tensor *x = br_ones(1, two, BR_F32);
    cr_assert_null(br_forward(linear, x));
    check_error(BR_ERROR_STATE, "module is a module Linear that was already freed", "");
    cr_assert_null(br_parameters(br_base(linear)));
    check_error(BR_ERROR_STATE, "module is a module Linear that was already freed", "");
}

Test(debug, children_are_freed_with_their_parent)
{
    br_linear *child = br_linear_new(2, 2, true);
    br_module_list *list = br_module_list_new();
    br_module_list_append(list, child);
    br_module_free(list);
    cr_assert_null(br_forward(child, br_ones(1, two, BR_F32)));
    check_error(BR_ERROR_STATE, "module is a module Linear that was already freed", "");
}

Test(debug, an_optimizer_is_freed_twice_and_used_afterwards)
{
    br_linear *linear = br_linear_new(2, 2, true);
    br_optim *optim = br_adam(br_base(linear), NULL);
    br_scheduler *scheduler = br_step_lr(optim, 2, 0.5);
    br_scheduler_free(scheduler);
    br_scheduler_step(scheduler);
    check_error(BR_ERROR_STATE, "is a scheduler that was already freed", "");
    br_scheduler_free(scheduler);
    check_error(BR_ERROR_STATE, "scheduler_free: ", "");
    br_optim_free(optim);
    br_optim_step(optim);
    check_error(BR_ERROR_STATE, "is an optimizer that was already freed", "");
    br_optim_zero_grad(optim);
    check_error(BR_ERROR_STATE, "is an optimizer that was already freed", "");
    br_optim_free(optim);
    check_error(BR_ERROR_STATE, "optim_free: ", "");
    br_module_free(linear);
    cr_assert(!br_failed(), "%s", br_error_message());
}

Test(debug, a_list_is_freed_twice)
{
    br_linear *linear = br_linear_new(2, 2, true);
    br_named_list *list = br_parameters(br_base(linear));
    br_named_list_free(list);
    cr_assert_null(br_named_list_get(list, "weight"));
    check_error(BR_ERROR_STATE, "is a list that was already freed", "");
    br_named_list_free(list);
    check_error(BR_ERROR_STATE, "named_list_free: list is a list that was already freed", "");
    br_module_free(linear);
}

Test(debug, lists_that_the_caller_built_are_accepted)
{
    br_named_tensor items[] = { { "x", br_set_requires_grad(br_ones(1, two, BR_F32), true) } };
    br_named_list list = { .count = 1, .items = items };
    cr_assert_not_null(br_named_list_get(&list, "x"));
    cr_assert(!br_failed(), "%s", br_error_message());
}

Test(debug, wrong_kind_of_object)
{
    br_linear *linear = br_linear_new(2, 2, true);
    br_tensor *x = br_ones(1, two, BR_F32);
    cr_assert_null(br_forward(x, x));
    check_error(BR_ERROR_ARGUMENT,
                "forward: module must be a module, but it is a tensor [2] (f32), created", "by ");
    cr_assert_null(br_neg((br_tensor *)(void *)linear));
    check_error(BR_ERROR_ARGUMENT, "neg: ", "must be a tensor, but it is a module Linear");
    char other[sizeof(br_linear)] = { 0 };
    br_module_free(other);
    check_error(BR_ERROR_ARGUMENT,
                "module_free: module must be a module, but it does not point to an object", "");
    br_module_free(linear);
    cr_assert(!br_failed(), "%s", br_error_message());
}

/* Training works as it does without debug mode, and all tensors are freed. */
Test(debug, correct_programs_are_unaffected)
{
    br_linear *linear = br_linear_new(2, 2, true);
    br_optim *optim = br_adamw(br_base(linear), NULL);
    for (int i = 0; i < 3; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *y = br_linear_forward(linear, br_ones(1, two, BR_F32));
        br_backward(br_mean(br_mul(y, y)));
        br_optim_step(optim);
        br_optim_zero_grad(optim);
        br_scope_end(scope);
    }
    cr_assert(!br_failed(), "%s", br_error_message());
    br_optim_free(optim);
    br_module_free(linear);
    cr_assert_eq(br_live_tensors(), 0);
}

/* The table of live objects grows several times; it then still has every object. */
Test(debug, many_live_objects)
{
    enum { MANY = 5000 };
    static br_tensor *t[MANY];
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < MANY; i++)
        t[i] = br_scalar(i, BR_I64);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(br_item_i64(t[i]), i, "%s", br_error_message());
    cr_assert(!br_failed(), "%s", br_error_message());
    br_scope_end(scope);
    for (int i = 0; i < MANY; i += 499) {
        br_numel(t[i]);
        check_error(BR_ERROR_STATE, "numel", "scope ended");
    }
}

/* The library's function is followed by three of its callers: more would hide the rest of the
 * message. */
Test(debug, three_callers_are_shown)
{
    char text[2048];
    FILE *pipe =
        popen("BRASA_DEBUG=1 BRASA_ERRORS=print '" BRASA_ERRORS_PROGRAM "' ended 2>&1", "r");
    cr_assert_not_null(pipe);
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    pclose(pipe);
    char *made = strstr(text, "created by br_ones() < "), *end = made ? strchr(made, ';') : NULL;
    cr_assert(made && end, "%s", text);
    int callers = 0;
    for (const char *p = made; (p = strstr(p, " < ")) && p < end; p++)
        callers++;
    cr_assert_eq(callers, 3, "%s", text);
}

#ifdef __x86_64__
/* Not static, so that the tensor's call stack names it. */
__attribute__((noinline)) br_tensor *make_ones(void);
__attribute__((noinline)) br_tensor *make_ones(void)
{
    br_tensor *t = br_ones(1, two, BR_F32);
    cr_assert_not_null(t);
    return t;
}

/* Returns whether an instruction "call function" ends with the byte at the address. */
static bool is_call(const unsigned char *last, const void *function)
{
    int32_t distance;
    memcpy(&distance, last - 3, sizeof distance);
    return last[-4] == 0xe8 && last + 1 + distance == (const unsigned char *)function;
}

/* The offset of a frame is that of the last byte of the call, as addr2line needs it: the next
 * instruction may belong to another line. */
Test(debug, offsets_are_those_of_calls)
{
    Dl_info info;
    char text[BR_DEBUG_PLACE];
    br_tensor *t = make_ones();
    cr_assert(dladdr((void *)(uintptr_t)make_ones, &info));
    const char *p = br__debug_place(t, text);
    bool found = false;
    while (!found && (p = strstr(p, "+0x")))
        found = is_call((const unsigned char *)info.dli_fbase + strtoul(++p, NULL, 16),
                        (const void *)(uintptr_t)br_ones);
    cr_assert(found, "no frame of %s is a call of br_ones()", text);
}
#endif
