/* tensor/print.c - tensors as text in PyTorch's format.
 *
 * All numbers of a tensor have the same format (integers with a point, four decimals, or an
 * exponent) and the same width. Both are chosen from the printed numbers that are finite and not
 * zero. If there are more than 1000 elements, only the first and last three along each dimension
 * are printed. */
#include "tensor/tensor_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { PRECISION = 4, THRESHOLD = 1000, EDGE = 3, LINE = 80 };
static const char PREFIX[] = "tensor(";
enum { INDENT = sizeof PREFIX - 1 };

/* A growing string. After a failed allocation it stays NULL and ignores appended text. */
typedef struct text {
    char *chars;
    size_t length, capacity;
} text;

static void append(text *s, const char *chars, size_t n)
{
    if (!s->chars)
        return;
    if (n >= s->capacity - s->length) {
        size_t capacity = 2 * (s->length + n + 1);
        char *grown = br__realloc(s->chars, s->length, capacity);
        if (!grown)
            br_free(s->chars);
        s->chars = grown;
        s->capacity = capacity;
        if (!grown)
            return;
    }
    memcpy(s->chars + s->length, chars, n);
    s->length += n;
    s->chars[s->length] = 0;
}

static void append_string(text *s, const char *string)
{
    append(s, string, strlen(string));
}

static void append_repeated(text *s, char c, int n)
{
    for (int i = 0; i < n; i++)
        append(s, &c, 1);
}

/* ---- One element ----------------------------------------------------------------------------- */

typedef struct printer {
    const br_tensor *t;
    bool summarize;
    bool integral, scientific; /* floats: all values are integers; use an exponent */
    double smallest, largest;  /* absolute values of finite numbers other than 0 */
    int width;
    text out;
} printer;

/* The longest text is an f64 with an exponent, or the smallest i64. */
typedef char element_text[32];

/* Writes the element without padding and returns the length. */
static int write_element(const printer *p, const char *element, element_text buffer)
{
    size_t size = sizeof(element_text);
    const br_dtype_info *info = &br__dtypes[p->t->dtype];
    if (info->kind == BR_KIND_BOOL)
        return snprintf(buffer, size, info->get_integer(element) ? "True" : "False");
    if (info->kind == BR_KIND_INTEGER)
        return snprintf(buffer, size, "%" PRId64, info->get_integer(element));
    double value = br__get(p->t->dtype, element);
    if (isnan(value)) /* the C library would print its sign */
        return snprintf(buffer, size, "nan");
    if (isinf(value))
        return snprintf(buffer, size, value < 0 ? "-inf" : "inf");
    if (p->scientific)
        return snprintf(buffer, size, "%.*e", PRECISION, value);
    if (p->integral)
        return snprintf(buffer, size, "%.0f.", value);
    return snprintf(buffer, size, "%.*f", PRECISION, value);
}

/* ---- Choosing format and width --------------------------------------------------------------- */

/* Returns the index that is printed after i along a dimension. */
static int64_t next_shown(const printer *p, int64_t i, int64_t size)
{
    return p->summarize && size > 2 * EDGE && i + 1 == EDGE ? size - EDGE : i + 1;
}

/* Calls `visit` for each printed element. */
static void visit_shown(printer *p, int dim, const char *data,
                        void (*visit)(printer *p, const char *element))
{
    const br_tensor *t = p->t;
    if (dim == t->ndim) {
        visit(p, data);
        return;
    }
    int64_t stride = t->strides[dim] * (int64_t)br_dtype_size(t->dtype);
    for (int64_t i = 0; i < t->sizes[dim]; i = next_shown(p, i, t->sizes[dim]))
        visit_shown(p, dim + 1, data + i * stride, visit);
}

static void survey(printer *p, const char *element)
{
    double value = br__get(p->t->dtype, element);
    if (!isfinite(value) || value == 0)
        return;
    p->integral &= value == ceil(value);
    p->smallest = fmin(p->smallest, fabs(value));
    p->largest = fmax(p->largest, fabs(value));
}

static void measure(printer *p, const char *element)
{
    if (br_is_floating(p->t)) {
        double value = br__get(p->t->dtype, element);
        if (!isfinite(value) || value == 0)
            return;
    }
    element_text buffer;
    int n = write_element(p, element, buffer);
    if (n > p->width)
        p->width = n;
}

static void choose_format(printer *p)
{
    if (br_is_floating(p->t)) {
        visit_shown(p, 0, p->t->data, survey);
        if (p->largest == 0)
            return;
        p->scientific = p->largest / p->smallest > 1000 || p->largest > 1e8 || p->smallest < 1e-4;
    }
    visit_shown(p, 0, p->t->data, measure);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void append_element(printer *p, const char *element)
{
    element_text buffer;
    int n = write_element(p, element, buffer);
    append_repeated(&p->out, ' ', p->width - n);
    append(&p->out, buffer, (size_t)n);
}

/* Appends the separator before item k: nothing, ", ", or a line break and the next line's
 * indentation. */
static void append_separator(printer *p, int k, int per_line, int newlines, int indent)
{
    if (k == 0)
        return;
    append_string(&p->out, ",");
    append_repeated(&p->out, '\n', k % per_line == 0 ? newlines : 0);
    append_repeated(&p->out, ' ', k % per_line == 0 ? indent : 1);
}

/* Appends a dimension from `data` on. A row of elements is broken where the line is full, and other
 * dimensions after each item, with one more empty line for each outer dimension. */
static void append_items(printer *p, int dim, const char *data, int indent)
{
    const br_tensor *t = p->t;
    if (dim == t->ndim) {
        append_element(p, data);
        return;
    }
    bool row = dim == t->ndim - 1;
    int fitting = (LINE - indent) / (p->width + 2), k = 0;
    int per_line = row && fitting > 1 ? fitting : 1, newlines = row ? 1 : t->ndim - 1 - dim;
    int64_t stride = t->strides[dim] * (int64_t)br_dtype_size(t->dtype);
    append_string(&p->out, "[");
    for (int64_t i = 0, next; i < t->sizes[dim]; i = next) {
        append_separator(p, k++, per_line, newlines, indent + 1);
        append_items(p, dim + 1, data + i * stride, indent + 1);
        next = next_shown(p, i, t->sizes[dim]);
        if (next > i + 1) {
            append_separator(p, k++, per_line, newlines, indent + 1);
            append_string(&p->out, row ? " ..." : "...");
        }
    }
    append_string(&p->out, "]");
}

/* Appends ", suffix", on a new line if the last line has no room. */
static void append_suffix(text *out, const char *suffix)
{
    if (!out->chars)
        return;
    const char *newline = strrchr(out->chars, '\n');
    size_t line = strlen(newline ? newline + 1 : out->chars), n = strlen(suffix);
    /* PyTorch counts two characters too many. */
    bool full = line + 2 + n + 2 > LINE;
    append_string(out, full ? ",\n" : ", ");
    append_repeated(out, ' ', full ? INDENT : 0);
    append(out, suffix, n);
}

/* Appends what the elements do not show: a device that is not the default one, the shape of an
 * empty tensor, and a dtype that PyTorch would not infer from the elements. */
static void append_suffixes(printer *p, const br_backend *backend)
{
    const br_tensor *t = p->t;
    if (backend != br__default_backend()) {
        char device[64];
        snprintf(device, sizeof device, "device='%s'", backend->name);
        append_suffix(&p->out, device);
    }
    if (t->numel == 0 && t->ndim != 1) {
        char size[BR_MAX_DIMS * 22 + 16] = "size=";
        br_shape_string(t, size + 5, sizeof size - 5);
        size[5] = '(';
        size[strlen(size) - 1] = ')';
        append_suffix(&p->out, size);
    }
    const br_dtype_kind shown = t->numel > 0 ? br__dtypes[t->dtype].kind : BR_KIND_FLOATING;
    if (t->dtype != br__default_dtype(shown)) {
        char dtype[16];
        snprintf(dtype, sizeof dtype, "dtype=%s", br_dtype_name(t->dtype));
        append_suffix(&p->out, dtype);
    }
}

/* Returns the text of t, whose elements are in the host's memory, for a tensor of `backend`. */
static char *to_string(const br_tensor *t, const br_backend *backend)
{
    printer p = { .t = t,
                  .summarize = t->numel > THRESHOLD,
                  .integral = true,
                  .smallest = INFINITY,
                  .width = 1,
                  .out = { .chars = br_malloc(256), .capacity = 256 } };
    append_string(&p.out, PREFIX);
    if (t->numel == 0) {
        append_string(&p.out, "[]");
    } else {
        choose_format(&p);
        append_items(&p, 0, t->data, INDENT);
    }
    append_suffixes(&p, backend);
    append_string(&p.out, ")");
    return p.out.chars;
}

char *br_to_string(const br_tensor *t)
{
    if (!br__required_any("to_string", "t", t))
        return NULL;
    if (br__is_quantized(t))
        return br_format("%s..., size=%s, dtype=%s)", PREFIX, br__shape(t),
                         br__block_info(t)->name);
    if (br__is_on_host(t))
        return to_string(t, &br__cpu_backend);
    br_scope *scope = br_scope_begin();
    const br_tensor *host = br__on_host("to_string", t);
    char *string = host ? to_string(host, br__backend_of(t)) : NULL;
    br_scope_end(scope);
    return string;
}

void br_print(FILE *stream, const br_tensor *t)
{
    if (!br__required_any("print", "t", t) || !br__required("print", "stream", stream))
        return;
    char *string = br_to_string(t);
    if (string)
        fprintf(stream, "%s\n", string);
    br_free(string);
}
