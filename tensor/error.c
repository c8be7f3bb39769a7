/* tensor/error.c - the thread's first error, and the checks shared by operations. */
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

char *(*br__owner_path)(const void *owner, char *buffer, size_t size);
const char *(*br__owner_class)(const void *owner);

bool br__current_module_path(char *buffer, size_t size)
{
    const br_scope *s = br__thread.scope;
    while (s && !s->owner)
        s = s->outer;
    buffer[0] = '\0';
    if (s && br__owner_path)
        br__owner_path(s->owner, buffer, size);
    return s != NULL;
}

/* Writes where an error occurs: the path of the innermost running module, and the operation whose
 * gradient is being computed. Returns the length. */
static size_t write_place(char *buffer, size_t size)
{
    br__current_module_path(buffer, size / 2);
    size_t n = strlen(buffer);
    if (n > 0)
        n += (size_t)snprintf(buffer + n, size - n, ": ");
    if (br__thread.gradient_of)
        n += (size_t)snprintf(buffer + n, size - n, "gradient of %.100s: ", br__thread.gradient_of);
    return n;
}

/* Every error, including the library's own, passes through this function, so that a breakpoint on
 * it stops at each one. The compiler must therefore not inline or clone it. */
#if defined(__has_attribute) && __has_attribute(noipa)
__attribute__((noipa, cold))
#else
__attribute__((noinline, cold))
#endif
void br_raise(br_error code, const char *format, ...)
{
    br_thread *th = &br__thread;
    if (code != BR_WARNING && th->error != BR_OK)
        return;
    char text[BR_MESSAGE_SIZE]; /* a separate buffer, since an argument may be the last error's
                                   message */
    size_t n = write_place(text, BR_MESSAGE_SIZE / 2);
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, BR_MESSAGE_SIZE - n, format ? format : "(no message)", args);
    va_end(args);
    if (code == BR_WARNING) {
        br__notify_warning(text);
        return;
    }
    br__set_error(code == BR_OK ? BR_ERROR_ARGUMENT : code, text);
    br__notify_error();
}

void br_raise_text(br_error code, const char *text)
{
    br_raise(code, "%s", text ? text : "(no message)");
}

/* Raises "op: path: message"; op and path may be NULL. */
BR_PRINTF(4, 0)
static void raise_named(br_error code, const char *op, const char *path, const char *format,
                        va_list args)
{
    if (br__failed())
        return;
    char text[BR_MESSAGE_SIZE];
    size_t n = 0;
    if (op)
        n += (size_t)snprintf(text, BR_MESSAGE_SIZE, "%s: ", op);
    if (path && n < BR_MESSAGE_SIZE)
        n += (size_t)snprintf(text + n, BR_MESSAGE_SIZE - n, "%s: ", br_printable(path));
    if (n < BR_MESSAGE_SIZE)
        vsnprintf(text + n, BR_MESSAGE_SIZE - n, format, args);
    br_raise(code, "%s", text);
}

void *br_fail(br_error code, const char *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    raise_named(code, op, NULL, format, args);
    va_end(args);
    return NULL;
}

void *br__fail_file(br_error code, const char *op, const char *path, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    raise_named(code, op, path, format, args);
    va_end(args);
    return NULL;
}

bool br__refuse_file(const char *op, const char *path, const char *format, va_list args)
{
    raise_named(BR_ERROR_FORMAT, op, path, format, args);
    return false;
}

bool br__refuse_part(const char *op, const char *path, const char *part, const char *name,
                     const char *format, va_list args)
{
    char rule[640];
    if (!name)
        return br__refuse_file(op, path, format, args);
    vsnprintf(rule, sizeof rule, format, args);
    br__fail_file(BR_ERROR_FORMAT, op, path, "%s \"%s\": %s", part, br_printable(name), rule);
    return false;
}

void br__set_error(br_error code, const char *message)
{
    br_thread *th = &br__thread;
    if (th->error != BR_OK)
        return;
    th->error = code;
    snprintf(br__thread_cold()->message, BR_MESSAGE_SIZE, "%s", message);
    br__mark_error_unhandled();
}

bool(br_failed)(void)
{
    if (!br__failed())
        return false;
    br__mark_error_handled();
    return true;
}

bool br_error_pending(void)
{
    return br__failed();
}

br_error br_error_code(void)
{
    br__mark_error_handled();
    return br__thread.error;
}

const char *br_error_message(void)
{
    br__mark_error_handled();
    return br__thread.error == BR_OK ? "" : br__thread_cold()->message;
}

void br_clear_error(void)
{
    br__mark_error_handled();
    br__thread.error = BR_OK;
}

int br_report(FILE *stream)
{
    if (!br__failed())
        return EXIT_SUCCESS;
    if (stream)
        fprintf(stream, "%s\n", br_error_message());
    br_clear_error();
    return EXIT_FAILURE;
}

/* ---- Shapes in messages ---------------------------------------------------------------------- */

static char *next_buffer(void)
{
    br_thread_cold *cold_data = br__thread_cold();
    return cold_data->shapes[cold_data->shape++ % BR_SHAPES];
}

static void write_shape(char *buffer, size_t size, int ndim, const int64_t *sizes)
{
    size_t n = (size_t)snprintf(buffer, size, "[");
    for (int i = 0; i < ndim && n < size; i++)
        n += (size_t)snprintf(buffer + n, size - n, i ? ", %" PRId64 : "%" PRId64, sizes[i]);
    if (n < size)
        snprintf(buffer + n, size - n, "]");
}

const char *br__shape_of(int ndim, const int64_t *sizes)
{
    char *buffer = next_buffer();
    if (ndim < 0 || ndim > BR_MAX_DIMS || (ndim > 0 && !sizes))
        snprintf(buffer, BR_SHAPE_SIZE, "(%d sizes)", ndim);
    else
        write_shape(buffer, BR_SHAPE_SIZE, ndim, sizes);
    return buffer;
}

const char *br__shape(const br_tensor *t)
{
    return t ? br__shape_of(t->ndim, t->sizes) : "NULL";
}

const char *br_shape_text(const br_tensor *t)
{
    return br__shape(BR_LIVE_ANY("shape_text", t) ? t : NULL);
}

char *br_shape_string(const br_tensor *t, char *buffer, size_t size)
{
    if (!buffer || size == 0)
        return buffer;
    if (BR_LIVE_ANY("shape_string", t))
        write_shape(buffer, size, t->ndim, t->sizes);
    else
        snprintf(buffer, size, "NULL");
    return buffer;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* The cold path of checks that every operation performs is a separate function, so that the checks
 * need no stack frame. */
static __attribute__((noinline, cold)) bool refuse_null(const char *op, const char *name)
{
    if (!br__failed())
        br_fail(BR_ERROR_ARGUMENT, op, "%s is NULL, but it is required", name);
    return false;
}

bool br_require(const char *op, const char *name, const void *argument)
{
    return br__required_handle(op, name ? name : "argument", argument, BR_HANDLE_NONE);
}

bool br_require_tensor(const char *op, const char *name, const br_tensor *t)
{
    return br__required_handle(op, name ? name : "tensor", t, BR_HANDLE_tensor);
}

bool br__required_handle(const char *op, const char *name, const void *argument, br_handle kind)
{
    if (!argument || br__failed())
        return refuse_null(op, name);
    return kind == BR_HANDLE_NONE || br__is_live(op, name, kind, argument);
}

bool br__required_item_handle(const char *op, const char *name, int i, const void *item,
                              br_handle kind)
{
    char text[64];
    if (kind == BR_HANDLE_tensor && item && br__is_marked(kind, item) && !br__failed())
        return true; /* without writing the name: a list of tensors may be long */
    snprintf(text, sizeof text, "%s %d", name, i);
    return br__required_handle(op, text, item, kind);
}

const void *br_options_of(const char *op, const char *name, const void *given, const void *defaults,
                          size_t size)
{
    if (given &&
        *(const size_t *)given == size) /* struct_size, the first field of every options struct */
        return given;
    if (given && *(const size_t *)given == 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "options were not initialized with their defaults: use BR_OPTIONS(%s, .field = "
                "value), or start from %s_defaults()",
                name, name);
    else if (given)
        br_fail(BR_ERROR_ARGUMENT, op,
                "struct_size of the options is %zu, must be %zu: they are not %s_options, were not "
                "initialized with BR_OPTIONS(%s, .field = value), or were compiled with the header "
                "of another version than this library's, %s",
                *(const size_t *)given, size, name, name, br_version());
    return defaults;
}

bool br__floating(const char *op, const char *name, const br_tensor *t)
{
    if (!br__required(op, name, t))
        return false;
    if (br__is_floating(t->dtype))
        return true;
    br_fail(BR_ERROR_DTYPE, op, "%s %s is %s, must be a floating-point dtype", name, br__shape(t),
            br_dtype_name(t->dtype));
    return false;
}

bool br__f32_or_f64(const char *op, const char *name, const br_tensor *t)
{
    if (!br__floating(op, name, t))
        return false;
    if (br__is_stored(t->dtype))
        br_fail(BR_ERROR_DTYPE, op, "%s has dtype %s, must be f32 or f64: convert it by br_to()",
                name, br__dtypes[t->dtype].name);
    return !br_failed();
}

bool br__has_dtype(const char *op, const char *name, const br_tensor *t, br_dtype dtype)
{
    if (!br__required(op, name, t))
        return false;
    if (t->dtype == dtype)
        return true;
    br_fail(BR_ERROR_DTYPE, op, "%s %s is %s, must be %s", name, br__shape(t),
            br_dtype_name(t->dtype), br_dtype_name(dtype));
    return false;
}

bool br__compare_operands(const char *op, const char *a_name, const br_tensor *a,
                          const char *b_name, const br_tensor *b, bool dtypes)
{
    if (!br__required(op, a_name, a) || !br__required(op, b_name, b))
        return false;
    if (br__backend_of(a) != br__backend_of(b)) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s %s is on %s and %s %s is on %s: operands must be on one device (copy one with "
                "br_to_device())",
                a_name, br__shape(a), br__backend_of(a)->name, b_name, br__shape(b),
                br__backend_of(b)->name);
        return false;
    }
    if (!dtypes || a->dtype == b->dtype)
        return true;
    br_fail(BR_ERROR_DTYPE, op,
            "%s %s is %s and %s %s is %s: dtypes must be equal (convert one with br_to())", a_name,
            br__shape(a), br_dtype_name(a->dtype), b_name, br__shape(b), br_dtype_name(b->dtype));
    return false;
}

bool br__wrap_dim(const char *op, const char *name, const br_tensor *t, int64_t *dim)
{
    int64_t n = t->ndim > 0 ? t->ndim : 1;
    if (*dim < -n || *dim >= n) {
        br_fail(BR_ERROR_INDEX, op,
                "%s is %" PRId64 ", must be in %" PRId64 " .. %" PRId64 " for a tensor of shape %s",
                name, *dim, -n, n - 1, br__shape(t));
        return false;
    }
    if (*dim < 0)
        *dim += n;
    return true;
}

bool br__broadcast_named(const char *op, const char *a_name, const br_tensor *a, const char *b_name,
                         const br_tensor *b, int *ndim, int64_t *sizes)
{
    if (a->storage && b->storage && br__backend_of(a) != br__backend_of(b))
        return br__compare_operands(op, a_name, a, b_name, b, false);
    int n = br__max(a->ndim, b->ndim);
    *ndim = n;
    for (int i = 0; i < n; i++) {
        int ia = i - (n - a->ndim), ib = i - (n - b->ndim);
        int64_t sa = ia < 0 ? 1 : a->sizes[ia], sb = ib < 0 ? 1 : b->sizes[ib];
        if (sa != sb && sa != 1 && sb != 1) {
            br_fail(BR_ERROR_SHAPE, op,
                    "%s %s and %s %s do not broadcast: sizes %" PRId64 " and %" PRId64
                    " of dimension %d differ and neither is 1",
                    a_name, br__shape(a), b_name, br__shape(b), sa, sb, i - n);
            return false;
        }
        sizes[i] = sa == 1 ? sb : sa;
    }
    return true;
}

bool br__broadcast(const char *op, const br_tensor *a, const br_tensor *b, int *ndim,
                   int64_t *sizes)
{
    return br__broadcast_named(op, "a", a, "b", b, ndim, sizes);
}

bool br__check_sizes(const char *op, int ndim, const int64_t *sizes, br_dtype dtype, int64_t *numel)
{
    if (br__failed())
        return false;
    if (ndim < 0 || ndim > BR_MAX_DIMS) {
        br_fail(BR_ERROR_SHAPE, op, "ndim is %d, must be 0 .. %d", ndim, BR_MAX_DIMS);
        return false;
    }
    if (ndim > 0 && !sizes) {
        br_fail(BR_ERROR_ARGUMENT, op, "sizes is NULL, but ndim is %d", ndim);
        return false;
    }
    if (!br__is_dtype(dtype)) {
        br_fail(BR_ERROR_DTYPE, op, "%d is not a dtype", (int)dtype);
        return false;
    }
    int64_t n = 1, nonzero = 1;
    bool overflow = false;
    for (int i = 0; i < ndim; i++) {
        if (sizes[i] < 0) {
            br_fail(BR_ERROR_SHAPE, op, "size %" PRId64 " of dimension %d in %s is negative",
                    sizes[i], i, br__shape_of(ndim, sizes));
            return false;
        }
        n *= sizes[i] > 0; /* the strides of an empty tensor must be representable, too */
        overflow |= sizes[i] > 0 && __builtin_mul_overflow(nonzero, sizes[i], &nonzero);
    }
    int64_t bytes;
    if (overflow || __builtin_mul_overflow(nonzero, (int64_t)br__dtype_size(dtype), &bytes)) {
        br_fail(BR_ERROR_SHAPE, op, "shape %s has more elements than can be addressed",
                br__shape_of(ndim, sizes));
        return false;
    }
    *numel = n * nonzero;
    return true;
}
