/* io/json.c - jansson's parser, made safe for allocations that fail.
 *
 * jansson's lexer collects a token in a buffer and does not notice when the buffer cannot grow. It
 * then truncates the token, so that the value is wrong, an assertion fails, or the lexer reads past
 * the buffer. jansson checks all its other allocations. Therefore, while a text is parsed here:
 *
 * - If an allocation fails, jansson gets a block that was reserved before. This block is as large
 *   as the buffer can become. The failure is recorded.
 * - The text is passed to the lexer byte by byte, and ends after a recorded failure. The lexer then
 *   completes no further token, and its buffer grows no further.
 * - What the parser returns after a failure is discarded.
 *
 * jansson's allocation functions are global. Ours call the ones that were set before, and act
 * differently only in a thread that is parsing here. So a program may use jansson from any thread,
 * and may set its own functions whenever jansson allows it. */
#include "io/json.h"

#include "io/io_internal.h"
#include "tensor/min_max.h"

#include <pthread.h>

typedef struct parse {
    const char *next, *end; /* the text that was not fed yet */
    char *reserve;          /* the first allocation that fails takes it */
    size_t capacity;        /* of the reserve; 0 after it was taken */
    bool failed;
} parse;

static _Thread_local parse *current;

/* ---- Allocation ------------------------------------------------------------------------------ */

static json_malloc_t next_malloc;
static json_free_t next_free;

static void *allocate(size_t size)
{
    void *block = next_malloc(size);
    if (block || !current)
        return block;
    current->failed = true;
    if (size > current->capacity)
        return NULL;
    current->capacity = 0;
    return current->reserve;
}

static void release(void *block)
{
    if (!current || block != current->reserve)
        next_free(block);
}

/* Makes jansson call our functions, even if the program has set others since the last call. */
static void install_allocator(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    json_malloc_t present_malloc;
    json_free_t present_free;
    pthread_mutex_lock(&lock);
    json_get_alloc_funcs(&present_malloc, &present_free);
    if (present_malloc != allocate) {
        next_malloc = present_malloc;
        next_free = present_free;
        json_set_alloc_funcs(allocate, release);
    }
    pthread_mutex_unlock(&lock);
}

/* jansson may outlive the library in a program that unloads it. */
__attribute__((destructor)) static void restore_allocator(void)
{
    json_malloc_t present_malloc;
    json_free_t present_free;
    json_get_alloc_funcs(&present_malloc, &present_free);
    if (present_malloc == allocate)
        json_set_alloc_funcs(next_malloc, next_free);
}

/* ---- Parsing --------------------------------------------------------------------------------- */

/* Returns the length of the longest token, or more: the longest stretch between two quotes that are
 * not escaped. */
static size_t longest_token(const char *text, size_t n)
{
    size_t longest = 0, start = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\') {
            i++;
        } else if (text[i] == '"') {
            longest = br__max(i - start, longest);
            start = i;
        }
    }
    return br__max(n - start, longest);
}

static size_t feed(void *buffer, size_t capacity, void *context)
{
    parse *p = context;
    (void)capacity;
    if (p->failed || p->next == p->end)
        return 0;
    *(char *)buffer = *p->next++;
    return 1;
}

static json_t *parse_text(const char *op, const char *path, const char *text, size_t n,
                          size_t flags, json_error_t *error)
{
    /* The lexer's buffer starts at 16 bytes and doubles. */
    size_t capacity = 2 * longest_token(text, n) + 64;
    parse p = {
        .next = text, .end = text + n, .reserve = br_malloc(capacity), .capacity = capacity
    };
    if (!p.reserve)
        return NULL;
    install_allocator();
    current = &p;
    json_t *value = json_load_callback(feed, &p, flags, error);
    if (p.failed) {
        json_decref(value);
        value = NULL;
    }
    current = NULL;
    br_free(p.reserve);
    if (p.failed)
        br__fail_file(BR_ERROR_MEMORY, op, path, "cannot allocate memory to parse the JSON text");
    return value;
}

enum { FLAGS = JSON_REJECT_DUPLICATES | JSON_DECODE_ANY };

json_t *br__json_parse(const char *op, const char *path, const char *text, size_t n,
                       json_error_t *error)
{
    return parse_text(op, path, text, n, FLAGS, error);
}

json_t *br__json_parse_reals(const char *op, const char *path, const char *text, size_t n,
                             json_error_t *error)
{
    return parse_text(op, path, text, n, FLAGS | JSON_DECODE_INT_AS_REAL, error);
}

json_t *br__json_read_file(const char *op, const char *path, size_t most, bool reals)
{
    size_t n;
    json_error_t error;
    char *text = br__read_text(op, path, most, &n);
    if (!text)
        return NULL;
    json_t *value = (reals ? br__json_parse_reals : br__json_parse)(op, path, text, n, &error);
    br_free(text);
    if (!value && !br__failed())
        br__fail_file(BR_ERROR_FORMAT, op, path, "line %d, column %d: %s", error.line, error.column,
                      br_printable(error.text));
    return value;
}
