/* tests/tensor/test_error.c - the pending error of a thread: its message, and that later calls do
 * nothing. */
#include "tensor/tensor_internal.h"
#include "tests/support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(error, .init = check_begin, .fini = check_end);

Test(error, the_first_error_is_kept)
{
    cr_assert(!br_failed());
    cr_assert_eq(br_error_code(), BR_OK);
    cr_assert_str_eq(br_error_message(), "");
    br_raise(BR_ERROR_IO, "file %d", 7);
    br_raise(BR_ERROR_FORMAT, "second");
    br_fail(BR_ERROR_SHAPE, "op", "third");
    cr_assert(br_failed());
    cr_assert_eq(br_error_code(), BR_ERROR_IO);
    cr_assert_str_eq(br_error_message(), "file 7");
    br_clear_error();
    cr_assert(!br_failed());
    cr_assert_str_eq(br_error_message(), "");
    br_raise_text(BR_ERROR_FORMAT, "50% of it");
    cr_assert_str_eq(br_error_message(), "50% of it");
    br_clear_error();
    br_raise_text(BR_OK, NULL); /* BR_OK is not a valid error code */
    cr_assert_eq(br_error_code(), BR_ERROR_ARGUMENT);
    cr_assert_str_eq(br_error_message(), "(no message)");
    br_clear_error();
    br_raise(BR_ERROR_IO, NULL);
    cr_assert_eq(br_error_code(), BR_ERROR_IO);
    cr_assert_str_eq(br_error_message(), "(no message)");
    br_clear_error();
}

/* A path can contain any bytes except 0: control characters are shown escaped. */
Test(error, paths_in_messages_are_escaped)
{
    br__fail_file(BR_ERROR_IO, "open", "a\x1b[1m\nb", "%s", "is gone");
    cr_assert_str_eq(br_error_message(), "open: a\\u001b[1m\\u000ab: is gone");
    br_clear_error();
}

/* Stores the text that br_report() prints in *text. Returns the result of br_report(). */
static int report(char **text)
{
    size_t size;
    FILE *stream = open_memstream(text, &size);
    int status = br_report(stream);
    fclose(stream);
    return status;
}

Test(error, report_prints_once_and_clears)
{
    char *text;
    cr_assert_eq(report(&text), EXIT_SUCCESS);
    cr_assert_str_eq(text, "");
    free(text);
    br_fail(BR_ERROR_SHAPE, "bmm", "sizes differ");
    cr_assert_eq(report(&text), EXIT_FAILURE);
    cr_assert_str_eq(text, "bmm: sizes differ\n");
    free(text);
    cr_assert(!br_failed());
    br_raise(BR_ERROR_IO, "unseen");
    cr_assert_eq(br_report(NULL), EXIT_FAILURE);
    cr_assert(!br_failed());
}

/* A program may end with br_thread_cleanup() and then br_report(), after it has asked br_failed().
 */
Test(error, thread_cleanup_keeps_the_pending_error)
{
    char *text;
    br_fail(BR_ERROR_SHAPE, "bmm", "sizes differ");
    cr_assert(br_failed());
    br_thread_cleanup();
    cr_assert_eq(br_error_code(), BR_ERROR_SHAPE);
    cr_assert_eq(report(&text), EXIT_FAILURE);
    cr_assert_str_eq(text, "bmm: sizes differ\n");
    free(text);
}

Test(error, long_messages_are_truncated)
{
    static char long_text[5000];
    memset(long_text, 'x', sizeof long_text - 1);
    br_raise(BR_ERROR_FORMAT, "%s", long_text);
    cr_assert_eq(strlen(br_error_message()), BR_MESSAGE_SIZE - 1);
    br_clear_error();
    br_fail(BR_ERROR_FORMAT, long_text, "%s", "end");
    cr_assert_eq(strlen(br_error_message()), BR_MESSAGE_SIZE - 1);
    br_clear_error();
}

static char *test_path(const void *owner, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s", (const char *)owner);
    return buffer;
}

Test(error, innermost_module_is_named)
{
    char *(*before)(const void *, char *, size_t) = br__owner_path;
    br__owner_path = test_path;
    br_scope *outer = br__scope_begin_for("encoder");
    br_scope *inner = br__scope_begin_for("encoder.layers.0");
    br_scope *plain = br_scope_begin();
    check_fails(br_zeros(BR_SHAPE(-1), BR_F32), "encoder.layers.0: zeros: size -1");
    br_scope_end(plain);
    br_scope_end(inner);
    check_fails(br_zeros(BR_SHAPE(-1), BR_F32), "encoder: zeros: size -1");
    br_scope_end(outer);

    br_scope *root = br__scope_begin_for(""); /* a root module has no path */
    br_raise(BR_ERROR_STATE, "what");
    cr_assert_str_eq(br_error_message(), "what");
    br_clear_error();
    br_scope_end(root);

    static char long_path[3000];
    memset(long_path, 'p', sizeof long_path - 1);
    br_scope *deep = br__scope_begin_for(long_path);
    check_fails((br_raise(BR_ERROR_STATE, "still seen"), false), "p: still seen");
    br_scope_end(deep);
    br__owner_path = before;
}

Test(error, calls_do_nothing_while_an_error_is_pending)
{
    br_tensor *t = br_ones(BR_SHAPE(1), BR_F32);
    float out = 5;
    br_raise(BR_ERROR_STATE, "planted");
    cr_assert_null(br_zeros(BR_SHAPE(2), BR_F32));
    cr_assert_null(br_ones_like(t));
    cr_assert_null(br_arange(0, 3, 1, BR_F32));
    cr_assert_null(br_linspace(0, 3, 4, BR_F32));
    cr_assert_null(br_eye(2, 2, BR_F32));
    cr_assert_null(br_from_f32(BR_SHAPE(1), &out));
    cr_assert_null(br_borrow(BR_SHAPE(1), BR_F32, &out, NULL, NULL));
    cr_assert_null(br_data(t));
    cr_assert_null(br_data_f32(t));
    cr_assert(isnan(br_item(t)));
    cr_assert_eq(br_item_i64(t), 0);
    cr_assert(isnan(br_at(t, BR_DIMS(0))));
    cr_assert(!br_copy_out(t, &out, sizeof out));
    cr_assert_eq(out, 5.0f);
    cr_assert(!br_set_allocator(NULL));
    cr_assert_str_eq(br_error_message(), "planted");
    br_clear_error();
    cr_assert_eq(br_item(t), 1);
}

static void *fail_in_thread(void *failed_before)
{
    *(bool *)failed_before = br_failed();
    br_raise(BR_ERROR_IO, "of the thread");
    br_clear_error();
    br_thread_cleanup();
    return NULL;
}

Test(error, each_thread_has_its_own_error)
{
    pthread_t thread;
    bool failed_before = true;
    br_raise(BR_ERROR_STATE, "of the main thread");
    cr_assert_eq(pthread_create(&thread, NULL, fail_in_thread, &failed_before), 0);
    pthread_join(thread, NULL);
    cr_assert(!failed_before);
    cr_assert_str_eq(br_error_message(), "of the main thread");
    br_clear_error();
}

Test(error, checks_name_operation_argument_and_rule)
{
    br_tensor *a = br_zeros(BR_SHAPE(2, 3), BR_F32), *b = br_zeros(BR_SHAPE(4, 1), BR_I64);
    br_tensor *c = br_zeros(BR_SHAPE(2, 1), BR_F32);
    check_fails(br__required("add", "b", NULL), "add: b is NULL, but it is required");
    check_fails(br__floating("exp", "x", b),
                "exp: x [4, 1] is i64, must be a floating-point dtype");
    check_fails(br__has_dtype("embedding", "index", a, BR_I64),
                "embedding: index [2, 3] is f32, must be i64");
    check_fails(br__compatible("add", "a", a, "b", b),
                "add: a [2, 3] is f32 and b [4, 1] is i64: dtypes must be equal");
    int64_t dim = 2, sizes[BR_MAX_DIMS];
    int ndim;
    check_fails(br__wrap_dim("sum", "dim", a, &dim),
                "sum: dim is 2, must be in -2 .. 1 for a tensor of shape [2, 3]");
    dim = -1;
    cr_assert(br__wrap_dim("sum", "dim", a, &dim) && dim == 1);
    check_fails(
        br__broadcast("add", a, b, &ndim, sizes),
        "add: a [2, 3] and b [4, 1] do not broadcast: sizes 2 and 4 of dimension -2 differ");
    cr_assert(br__broadcast("add", c, a, &ndim, sizes));
    cr_assert(ndim == 2 && sizes[0] == 2 && sizes[1] == 3);
    br_tensor *none = br_zeros(BR_SHAPE(0), BR_F32), *one = br_zeros(BR_SCALAR, BR_F32);
    cr_assert(br__broadcast("add", c, none, &ndim, sizes));
    cr_assert(ndim == 2 && sizes[0] == 2 && sizes[1] == 0);
    cr_assert(br__broadcast("add", one, one, &ndim, sizes) && ndim == 0);
}

Test(error, shape_strings)
{
    char buffer[64], tiny[4];
    br_tensor *t = br_zeros(BR_SHAPE(2, 0, 5), BR_F32);
    cr_assert_str_eq(br_shape_string(t, buffer, sizeof buffer), "[2, 0, 5]");
    cr_assert_str_eq(br_shape_string(t, tiny, sizeof tiny), "[2,");
    cr_assert_str_eq(br_shape_string(br_zeros(BR_SCALAR, BR_F32), buffer, sizeof buffer), "[]");
    cr_assert_str_eq(br_shape_string(NULL, buffer, sizeof buffer), "NULL");
    cr_assert_eq(br_shape_string(t, tiny, 0), tiny);
    cr_assert_null(br_shape_string(t, NULL, 9));
    int64_t widest[BR_MAX_DIMS];
    for (int i = 0; i < BR_MAX_DIMS; i++)
        widest[i] = INT64_MIN;
    cr_assert_eq(strlen(br__shape_of(BR_MAX_DIMS, widest)), BR_MAX_DIMS * 22);
}
