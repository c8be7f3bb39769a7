/* tests/tensor/test_growing_text.c - strings that grow: their contents after they grew, were
 * shortened or taken, and after memory ran out. */
#include "tensor/growing_text.h"
#include "tests/memory.h"

TestSuite(growing_text, .init = check_begin, .fini = check_end);

/* Adds the numbers from..to-1, separated by commas. */
static bool add_numbers(br__text *text, int from, int to)
{
    bool ok = true;
    for (int i = from; ok && i < to; i++)
        ok = br__text_add(text, "%d,", i);
    return ok;
}

Test(growing_text, keeps_what_was_added)
{
    br__text text = { 0 };
    size_t length = 0;
    cr_assert(add_numbers(&text, 0, 1000));
    const char *at = text.data;
    for (int i = 0; i < 1000; i++) {
        char number[8];
        length += (size_t)snprintf(number, sizeof number, "%d,", i);
        cr_assert_eq(strncmp(at, number, strlen(number)), 0, "number %d: %.10s", i, at);
        at += strlen(number);
    }
    cr_assert_eq(*at, '\0');
    cr_assert_eq(text.length, length);
    br_free(text.data);
}

/* Every length up to some growths: the NUL at the end has a place of its own. */
Test(growing_text, has_room_for_its_end)
{
    br__text text = { 0 };
    for (size_t n = 1; n < 300; n++) {
        cr_assert(br__text_add(&text, "%c", (int)('a' + n % 26)));
        cr_assert_eq(text.length, n);
        cr_assert_lt(text.length, text.capacity);
        cr_assert_eq(strlen(text.data), n);
    }
    br_free(text.data);
}

/* Many small parts are added in few steps. */
Test(growing_text, doubles)
{
    br__text text = { 0 };
    int grown = 0;
    for (size_t i = 0, before = 0; i < 10000; i++, before = text.capacity) {
        cr_assert(br__text_add(&text, "x"));
        grown += text.capacity != before;
    }
    cr_assert_leq(grown, 16);
    br_free(text.data);
}

Test(growing_text, is_shortened)
{
    br__text text = { 0 };
    br__text_truncate(&text, 0);
    cr_assert_null(text.data);
    cr_assert(br__text_add(&text, "%s", "abcdef"));
    br__text_truncate(&text, 7);
    br__text_truncate(&text, 6);
    cr_assert_str_eq(text.data, "abcdef");
    br__text_truncate(&text, 2);
    cr_assert_str_eq(text.data, "ab");
    cr_assert_eq(text.length, 2);
    cr_assert(br__text_add(&text, "%d", 5));
    cr_assert_str_eq(text.data, "ab5");
    br_free(text.data);
}

/* A text that was taken begins anew, and does not share memory with what was taken. */
Test(growing_text, is_taken)
{
    br__text text = { 0 };
    char *empty = br__text_take(&text);
    cr_assert_str_eq(empty, "");
    cr_assert(br__text_add(&text, "first"));
    char *first = br__text_take(&text);
    cr_assert(br__text_add(&text, "second"));
    cr_assert_str_eq(first, "first");
    cr_assert_str_eq(text.data, "second");
    br_free(empty);
    br_free(first);
    br_free(text.data);
}

/* If memory runs out, the text is what it was before. */
Test(growing_text, memory_runs_out)
{
    br__text text = { 0 };
    cr_assert(br_set_allocator(&(br_allocator){ counted_allocate, counted_deallocate, NULL }));
    counted.left = INT64_MAX;
    cr_assert(add_numbers(&text, 0, 3));
    size_t capacity = text.capacity;
    counted.left = 0;
    int64_t i = 3;
    while (br__text_add(&text, "%d,", (int)i))
        i++;
    cr_assert_eq(br_error_code(), BR_ERROR_MEMORY);
    br_clear_error();
    cr_assert_eq(text.capacity, capacity);
    cr_assert_eq(strlen(text.data), text.length);
    counted.left = INT64_MAX;
    cr_assert(br__text_add(&text, "%s", "end of it"));
    cr_assert_eq(strncmp(text.data, "0,1,2,3", 7), 0, "%s", text.data);
    cr_assert_str_eq(text.data + text.length - 9, "end of it");
    br_free(text.data);
    cr_assert_eq(counted.blocks, 0);
    cr_assert(br_set_allocator(NULL));
}
