/* tests/backends/guarded.c - the guarded devices: their memory, and an entry for each of the CPU's.
 */
#include "tests/backends/guarded.h"

#include "tensor/tensor_internal.h"

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The distance of a tensor's address from its memory. No process has memory there. */
static const uintptr_t DISTANCE = (uintptr_t)1 << 60;

static void *allocate(const char *op, const br_backend *self, size_t bytes)
{
    (void)op;
    (void)self;
    char *memory = br_malloc(bytes);
    return memory ? (void *)((uintptr_t)memory + DISTANCE) : NULL;
}

static void deallocate(const br_backend *self, void *address, size_t bytes)
{
    (void)self;
    (void)bytes;
    br_free((void *)((uintptr_t)address - DISTANCE));
}

/* Replaces operands by headers of the same elements in the host's memory. Operands may be NULL, and
 * a scalar is in the host's memory already. Aborts if operands are on different devices. */
static void to_host(const char *entry, int n, void *const *operands, br_tensor *headers)
{
    static br_storage host = { .backend = &br__cpu_backend };
    const br_backend *first = NULL;
    for (int i = 0; i < n; i++) {
        const br_tensor **place = operands[i], *t = *place;
        if (!t || !t->storage)
            continue;
        first = first ? first : br__backend_of(t);
        if (first != br__backend_of(t) || t->storage->memory != BR_DEVICE) {
            fprintf(stderr, "operand %d of entry %s is on %s, the first one on %s\n", i, entry,
                    br__backend_of(t)->name, first->name);
            abort();
        }
        headers[i] = br__window(t);
        headers[i].contiguous = t->contiguous;
        headers[i].data = (char *)((uintptr_t)t->data - DISTANCE);
        headers[i].storage = &host;
        *place = &headers[i];
    }
}

/* Does so for the operands whose places are given. */
#define TO_HOST(entry, ...)                              \
    void *operands[] = { __VA_ARGS__ };                  \
    enum { COUNT = sizeof operands / sizeof *operands }; \
    br_tensor headers[COUNT];                            \
    to_host(entry, COUNT, operands, headers)

/* The same for an array of operands. Returns a new array, which the caller frees with the headers
 * in it. */
static const br_tensor **all_to_host(const char *entry, int n, const br_tensor *const *operands)
{
    const size_t size = sizeof(br_tensor *) + sizeof(void *) + sizeof(br_tensor);
    br_tensor *headers = malloc((size_t)n * size + 1);
    if (!headers)
        abort();
    void **places = (void **)(headers + n);
    const br_tensor **moved = (const br_tensor **)(places + n);
    for (int i = 0; i < n; i++) {
        moved[i] = operands[i];
        places[i] = &moved[i];
    }
    to_host(entry, n, places, headers);
    return moved;
}

static void free_all(const br_tensor **moved, int n)
{
    free((br_tensor *)((void **)moved - n) - n);
}

/* ---- Entries --------------------------------------------------------------------------------- */

/* Defines the entry `name` with its parameters, its arguments and the places of its operands. */
#define ENTRY(type, name, parameters, arguments, ...) \
    static type name parameters                       \
    {                                                 \
        TO_HOST(#name, __VA_ARGS__);                  \
        return br__cpu_backend.name arguments;        \
    }
/* The same for an entry whose operands are in the struct *given, which is copied to `w`. */
#define WORK_ENTRY(type, name, parameters, arguments, ...) \
    static type name parameters                            \
    {                                                      \
        __auto_type w = *given;                            \
        TO_HOST(#name, __VA_ARGS__);                       \
        return br__cpu_backend.name arguments;             \
    }

/* clang-format off */
ENTRY(bool, upload, (const br_tensor *dst, const void *elements), (dst, elements), &dst)
ENTRY(bool, download, (void *elements, const br_tensor *src), (elements, src), &src)
ENTRY(void, fill, (const br_tensor *t, const void *element), (t, element), &t)
ENTRY(void, copy, (const br_tensor *dst, const br_tensor *src), (dst, src), &dst, &src)
ENTRY(void, triangle, (const br_tensor *y, int64_t diagonal, bool upper), (y, diagonal, upper), &y)
ENTRY(void, dropout_bits, (const br_tensor *bits, int64_t n, double p), (bits, n, p), &bits)
ENTRY(bool, dropout,
      (const br_tensor *y, const br_tensor *x, const br_tensor *bits, double scale),
      (y, x, bits, scale), &y, &x, &bits)
ENTRY(void, gather, (const br_tensor *y, const br_tensor *x, const br_tensor *index, int dim),
      (y, x, index, dim), &y, &x, &index)
ENTRY(void, dequantize, (const br_tensor *y, const br_tensor *x, const br_tensor *rows),
      (y, x, rows), &y, &x, &rows)
ENTRY(void, scatter,
      (const br_tensor *x, const br_tensor *y, const br_tensor *index, int dim, int64_t skip,
       br_combine combine),
      (x, y, index, dim, skip, combine), &x, &y, &index)
WORK_ENTRY(bool, scan, (const br_tensor *y, const br_tensor *x, const br_scan_work *given),
           (y, x, &w), &y, &x, &w.values)
ENTRY(void, search,
      (const br_tensor *y, const br_tensor *sorted, const br_tensor *values, bool right),
      (y, sorted, values, right), &y, &sorted, &values)
ENTRY(bool, sort,
      (const char *op, const br_tensor *indices, const br_tensor *x, const br_order *order),
      (op, indices, x, order), &indices, &x)
ENTRY(bool, sort_rows, (const char *op, const br_tensor *order, const br_tensor *rows),
      (op, order, rows), &order, &rows)
ENTRY(bool, softmax, (const br_tensor *y, const br_tensor *x, int64_t dim, bool log_of),
      (y, x, dim, log_of), &y, &x)
ENTRY(bool, softmax_grad,
      (const br_tensor *dx, const br_tensor *y, const br_tensor *dy, int64_t dim, bool log_of),
      (dx, y, dy, dim, log_of), &dx, &y, &dy)
ENTRY(bool, channel_norm_fits, (const br_tensor *rstd), (rstd), &rstd)
ENTRY(bool, convolution,
      (const br_convolution *work, const br_tensor *y, const br_tensor *x, const br_tensor *weight,
       const br_tensor *bias),
      (work, y, x, weight, bias), &y, &x, &weight, &bias)
ENTRY(bool, convolution_input,
      (const br_convolution *work, const br_tensor *x, const br_tensor *weight, const br_tensor *y),
      (work, x, weight, y), &x, &weight, &y)
ENTRY(bool, convolution_weight,
      (const br_convolution *work, const br_tensor *weight, const br_tensor *x, const br_tensor *y),
      (work, weight, x, y), &weight, &x, &y)
ENTRY(bool, max_pool,
      (const br_pool_geometry *work, const br_tensor *y, const br_tensor *indices,
       const br_tensor *x),
      (work, y, indices, x), &y, &indices, &x)
ENTRY(bool, avg_pool, (const br_pool_geometry *work, const br_tensor *y, const br_tensor *x),
      (work, y, x), &y, &x)
ENTRY(bool, avg_pool_grad, (const br_pool_geometry *work, const br_tensor *dx, const br_tensor *dy),
      (work, dx, dy), &dx, &dy)
ENTRY(bool, rotate,
      (const br_tensor *y, const br_tensor *x, const br_tensor *cos, const br_tensor *sin,
       bool interleaved),
      (y, x, cos, sin, interleaved), &y, &x, &cos, &sin)
ENTRY(unsigned, nonfinite, (const br_tensor *x), (x), &x)

#define LAYER_NORM \
    &w.x, &w.weight, &w.bias, &w.y, &w.mean, &w.rstd, &w.dy, &w.dx, &w.dweight, &w.dbias
WORK_ENTRY(bool, layer_norm, (const br_layer_norm_tensors *given), (&w), LAYER_NORM)
WORK_ENTRY(bool, layer_norm_grad, (const char *op, const br_layer_norm_tensors *given), (op, &w),
           LAYER_NORM)
#define CHANNEL_NORM LAYER_NORM, &w.running_mean, &w.running_var
WORK_ENTRY(bool, channel_norm, (const char *op, const br_channel_norm_work *given), (op, &w),
           CHANNEL_NORM)
WORK_ENTRY(bool, channel_norm_grad, (const char *op, const br_channel_norm_work *given), (op, &w),
           CHANNEL_NORM)
#define RECURRENT                                                                                \
    &w.gi, &w.h0, &w.c0, &w.weight, &w.bias, &w.y, &w.cells, &w.kept, &w.dy, &w.dh, &w.dc, &w.dgi, \
        &w.dgh, &w.dweight
WORK_ENTRY(bool, recurrent, (const br_recurrent_tensors *given), (&w), RECURRENT)
WORK_ENTRY(bool, recurrent_grad, (const br_recurrent_tensors *given), (&w), RECURRENT)
#define ATTENTION                                                                               \
    &w.query, &w.key, &w.value, &w.mask, &w.bits, &w.out, &w.sums, &w.dout, &w.dquery, &w.dkey, \
        &w.dvalue, &w.dmask
WORK_ENTRY(bool, attention, (const char *op, const br_attention_tensors *given), (op, &w),
           ATTENTION)
WORK_ENTRY(bool, attention_grad, (const char *op, const br_attention_tensors *given), (op, &w),
           ATTENTION)
WORK_ENTRY(bool, matmul, (const br_matmul_tensors *given), (&w), &w.a, &w.b, &w.bias, &w.c)
WORK_ENTRY(bool, linalg, (const char *op, const br_linalg_work *given), (op, &w), &w.a, &w.b,
           &w.pivots, &w.info, &w.values, &w.u, &w.vt, &w.rank)
WORK_ENTRY(bool, fft, (const char *op, const br_fft_work *given), (op, &w), &w.x, &w.y)
#define CROSS_ENTROPY                                                                           \
    &w.scores, &w.target, &w.class_weight, &w.losses, &w.reduced, &w.sums, &w.dy, &w.dscores
WORK_ENTRY(bool, cross_entropy, (br_class_loss *loss, const br_cross_entropy_tensors *given),
           (loss, &w), CROSS_ENTROPY)
WORK_ENTRY(bool, cross_entropy_grad,
           (const br_class_loss *loss, const br_cross_entropy_tensors *given), (loss, &w),
           CROSS_ENTROPY)
WORK_ENTRY(bool, linear_cross_entropy,
           (const char *op, br_class_loss *loss, const br_linear_cross_entropy_tensors *given),
           (op, loss, &w), &w.input, &w.weight, &w.bias, &w.target, &w.class_weight, &w.losses,
           &w.reduced, &w.dy, &w.dinput, &w.dweight, &w.dbias)
/* clang-format on */

static void resample(const br_tensor *y, const br_tensor *x, const br_resampling *given)
{
    br_resampling w = *given;
    TO_HOST("resample", &y, &x, &w.starts, &w.weights);
    br__cpu_backend.resample(y, x, &w);
}

static void resample_grad(const br_tensor *dx, const br_tensor *dy, const br_resampling *given)
{
    br_resampling w = *given;
    TO_HOST("resample_grad", &dx, &dy, &w.starts, &w.weights);
    br__cpu_backend.resample_grad(dx, dy, &w);
}

static bool reduce(const char *op, const br_tensor *x, unsigned dims, const br_reducer *given)
{
    br_reducer r = *given;
    TO_HOST("reduce", &x, &r.values, &r.indices);
    return br__cpu_backend.reduce(op, x, dims, &r);
}

/* The CPU makes the result in its own memory. */
static br_tensor *nonzero(const char *op, const br_tensor *mask, int ndim, const int64_t *sizes)
{
    const br_backend *self = br__backend_of(mask);
    TO_HOST("nonzero", &mask);
    return br__placed(op, self, br__cpu_backend.nonzero(op, mask, ndim, sizes));
}

static bool pointwise(br_pointwise kernel, int n, const br_tensor *const *given, const void *params)
{
    const br_tensor *t[4] = { NULL };
    memcpy(t, given, (size_t)n * sizeof *t);
    TO_HOST("pointwise", &t[0], &t[1], &t[2], &t[3]);
    return br__cpu_backend.pointwise(kernel, n, t, params);
}

static bool cat(const br_tensor *y, int n, br_tensor *const *tensors, int64_t dim)
{
    const br_tensor **all = all_to_host("cat", n, (const br_tensor *const *)tensors);
    TO_HOST("cat", &y);
    const bool ok = br__cpu_backend.cat(y, n, (br_tensor *const *)all, dim);
    free_all(all, n);
    return ok;
}

static void update(int64_t n, const br_update *updates, br_loop_span *spans)
{
    enum { TENSORS = 2 + BR_UPDATE_STATES };
    const br_tensor **all = calloc((size_t)n * TENSORS, sizeof *all);
    br_update *copies = malloc((size_t)n * sizeof *copies);
    if (!all || !copies)
        abort();
    for (int64_t i = 0; i < n; i++) {
        all[TENSORS * i] = updates[i].param;
        all[TENSORS * i + 1] = updates[i].grad;
        memcpy(&all[TENSORS * i + 2], updates[i].state, sizeof updates[i].state);
    }
    const br_tensor **moved = all_to_host("update", (int)n * TENSORS, all);
    for (int64_t i = 0; i < n; i++) {
        copies[i] = updates[i];
        copies[i].param = moved[TENSORS * i];
        copies[i].grad = moved[TENSORS * i + 1];
        memcpy(copies[i].state, &moved[TENSORS * i + 2], sizeof copies[i].state);
    }
    br__cpu_backend.update(n, copies, spans);
    free_all(moved, (int)n * TENSORS);
    free(all);
    free(copies);
}

static bool norms(const char *op, int64_t n, const br_tensor *const *tensors, br_loop_span *spans,
                  br_vector_norm norm, double *results)
{
    const br_tensor **all = all_to_host("norms", (int)n, tensors);
    const bool ok = br__cpu_backend.norms(op, n, all, spans, norm, results);
    free_all(all, (int)n);
    return ok;
}

static void pointwise_each(br_pointwise kernel, int64_t n, const br_tensor *const *tensors,
                           br_loop_span *spans, const double *scalar, const void *params)
{
    const br_tensor **all = all_to_host("pointwise_each", (int)n, tensors);
    br__cpu_backend.pointwise_each(kernel, n, all, spans, scalar, params);
    free_all(all, (int)n);
}

static bool has_pointwise(br_pointwise kernel, br_dtype dtype)
{
    return br__cpu_backend.has_pointwise(kernel, dtype);
}

/* A program's function cannot read this memory. */
static bool has_update(br_update_rule rule)
{
    return rule != BR_UPDATE_HOST;
}

static bool synchronize(const br_backend *self)
{
    (void)self;
    return true;
}

#define GUARDED(number)                                                                           \
    {                                                                                             \
        .name = "guarded:" #number, .device = { BR_PRIVATE, number }, .allocate = allocate,       \
        .deallocate = deallocate, .upload = upload, .download = download, .fill = fill,           \
        .synchronize = synchronize, .has_pointwise = has_pointwise, .pointwise = pointwise,       \
        .copy = copy, .cat = cat, .triangle = triangle, .dropout_bits = dropout_bits,             \
        .dropout = dropout, .nonzero = nonzero, .gather = gather, .scatter = scatter,             \
        .reduce = reduce, .scan = scan, .search = search, .resample = resample,                   \
        .resample_grad = resample_grad, .sort = sort, .sort_rows = sort_rows, .softmax = softmax, \
        .softmax_grad = softmax_grad, .layer_norm = layer_norm,                                   \
        .layer_norm_grad = layer_norm_grad, .channel_norm = channel_norm,                         \
        .channel_norm_fits = channel_norm_fits, .channel_norm_grad = channel_norm_grad,           \
        .convolution = convolution, .convolution_input = convolution_input,                       \
        .convolution_weight = convolution_weight, .max_pool = max_pool, .avg_pool = avg_pool,     \
        .avg_pool_grad = avg_pool_grad, .recurrent = recurrent, .recurrent_grad = recurrent_grad, \
        .attention = attention, .attention_grad = attention_grad, .rotate = rotate,               \
        .matmul = matmul, .dequantize = dequantize, .linalg = linalg, .fft = fft,                 \
        .cross_entropy = cross_entropy, .cross_entropy_grad = cross_entropy_grad,                 \
        .linear_cross_entropy = linear_cross_entropy, .nonfinite = nonfinite,                     \
        .has_update = has_update, .update = update, .norms = norms,                               \
        .pointwise_each = pointwise_each                                                          \
    }

static const br_backend guarded[] = { GUARDED(0), GUARDED(1) };

/* ---- Registration ---------------------------------------------------------------------------- */

static void register_all(void)
{
    br__register_backend(&guarded[0]);
    br__register_backend(&guarded[1]);
}

br_device guarded_device(int index)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, register_all);
    return guarded[index].device;
}

br_device guarded_copy(br_backend *backend, const char *name)
{
    guarded_device(0);
    *backend = guarded[0];
    backend->name = name;
    backend->device.index = br_device_count(BR_PRIVATE);
    br__register_backend(backend);
    return backend->device;
}

/* Says where an address of a device was used, which the processor reports without the address. */
static void explain(int signal, siginfo_t *info, void *context)
{
    static const char text[] = "guarded: elements of a device were read or written here:\n";
    void *frames[12];
    (void)context;
    if (info->si_code == SI_KERNEL && write(STDERR_FILENO, text, sizeof text - 1) > 0)
        backtrace_symbols_fd(frames, backtrace(frames, 12), STDERR_FILENO);
    raise(signal);
}

/* Returns the device of that name, in which ":0" may be left out. */
static br_device device_named(const char *name)
{
    enum { MOST_TYPES = 16 };
    for (int type = 0; type < MOST_TYPES; type++)
        for (int i = 0; i < br_device_count((br_device_type)type); i++) {
            const br_device device = { (br_device_type)type, i };
            const char *full = br_device_name(device);
            if (strcmp(full, name) == 0 || (i == 0 && strncmp(full, name, strlen(name)) == 0 &&
                                            strcmp(full + strlen(name), ":0") == 0))
                return device;
        }
    fprintf(stderr, "BRASA_TEST_DEVICE is '%s', which is no device\n", name);
    abort();
}

void use_test_device(void)
{
    const char *name = getenv("BRASA_TEST_DEVICE");
    if (!name || !*name)
        return;
    guarded_device(0);
    br_set_default_device(device_named(name));
    sigaction(SIGSEGV,
              &(struct sigaction){ .sa_sigaction = explain, .sa_flags = SA_SIGINFO | SA_RESETHAND },
              NULL);
}
