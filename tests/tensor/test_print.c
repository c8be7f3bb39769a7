/* tests/tensor/test_print.c - compares the printed text of tensors with PyTorch's, byte for byte
 * (print_cases.txt, written by record_print.py). */
#include "tensor/tensor_internal.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>

TestSuite(print, .init = check_begin, .fini = check_end);

static int parse_list(const char *text, int64_t *out)
{
    int n = 0;
    for (char *end; *text && *text != '-'; text = *end == ',' ? end + 1 : end)
        out[n++] = strtoll(text, &end, 10);
    return n;
}

static br_dtype parse_dtype(const char *name)
{
    int dtype = BR_F32;
    while (dtype < BR_DTYPES && strcmp(name, br_dtype_name((br_dtype)dtype)) != 0)
        dtype++;
    cr_assert_lt(dtype, BR_DTYPES, "unknown dtype %s", name);
    return (br_dtype)dtype;
}

static void put(br_tensor *t, int64_t i, double value, int64_t whole)
{
    char *at = t->data + (size_t)i * br_dtype_size(t->dtype);
    if (br__dtypes[t->dtype].put_integer)
        br__dtypes[t->dtype].put_integer(at, whole);
    else
        br__put(t->dtype, at, value);
}

static void put_steps(br_tensor *t, const char *spec)
{
    int shift;
    double scale, offset;
    cr_assert_eq(sscanf(spec, "%d %la %la", &shift, &scale, &offset), 3);
    for (int64_t i = 0; i < t->numel; i++) {
        double value = offset + scale * (double)((uint32_t)(i * 2654435761) >> shift);
        put(t, i, value, (int64_t)value);
    }
}

static void put_list(br_tensor *t, const char *spec)
{
    for (int64_t i = 0; i < t->numel; i++) {
        char *end, *rest;
        double value = strtod(spec, &end);
        int64_t whole = strtoll(spec, &rest, 10);
        cr_assert_neq(end, spec, "no value for element %lld", (long long)i);
        put(t, i, value, whole);
        spec = end;
    }
}

/* Creates the tensor that a case's first line describes. */
static br_tensor *make(char *line)
{
    int64_t sizes[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    char dtype[8], size_list[64], stride_list[64], kind[8];
    int used = 0;
    cr_assert_eq(
        sscanf(line, "%7s | %63s | %63s | %7s %n", dtype, size_list, stride_list, kind, &used), 4);
    int ndim = parse_list(size_list, sizes);
    int n_strides = parse_list(stride_list, strides);
    br_tensor *t = br_empty(ndim, sizes, parse_dtype(dtype));
    cr_assert(t, "%s", br_error_message());
    (strcmp(kind, "steps") == 0 ? put_steps : put_list)(t, line + used);
    return n_strides > 0 ? br__view_of(t, ndim, sizes, strides, 0) : t;
}

Test(print, text_equals_pytorch)
{
    FILE *file = fopen(BRASA_TEST_DIR "/tensor/print_cases.txt", "r");
    cr_assert(file);
    static char expected[1 << 16];
    char *line = NULL;
    size_t capacity = 0;
    int cases = 0;
    while (getline(&line, &capacity, file) > 0) {
        br_scope *scope = br_scope_begin();
        br_tensor *t = make(line);
        size_t n = 0;
        ssize_t got;
        while ((got = getline(&line, &capacity, file)) > 0 && strcmp(line, "---\n") != 0) {
            cr_assert_lt(n + (size_t)got, sizeof expected);
            memcpy(expected + n, line, (size_t)got);
            n += (size_t)got;
        }
        expected[n - 1] = 0;
        char *text = br_to_string(t);
        cr_assert(text && strcmp(text, expected) == 0, "PyTorch prints\n%s\nBrasa\n%s", expected,
                  text ? text : br_error_message());
        br_free(text);
        br_scope_end(scope);
        cases++;
    }
    cr_assert_gt(cases, 150);
    free(line);
    fclose(file);
}

Test(print, stream_gets_the_text_and_a_newline)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    br_print(stream, br_from_f32(BR_SHAPE(2), (float[]){ 1, 2.5f }));
    fclose(stream);
    cr_assert_str_eq(text, "tensor([1.0000, 2.5000])\n");
    free(text);
}

Test(print, fails_for_null_and_while_an_error_is_pending)
{
    br_tensor *t = br_ones(BR_SHAPE(2), BR_F32);
    check_fails(br_to_string(NULL), "to_string: t is NULL");
    check_fails((br_print(stdout, NULL), false), "print: t is NULL");
    check_fails((br_print(NULL, t), false), "print: stream is NULL");
    br_raise(BR_ERROR_STATE, "planted");
    cr_assert_null(br_to_string(t));
    br_print(NULL, t);
    cr_assert_str_eq(br_error_message(), "planted");
    br_clear_error();
}
