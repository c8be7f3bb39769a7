/* backends/cpu/stored.c - entries of the CPU backend for operands of storage dtypes.
 *
 * An entry that has no kernels for storage dtypes runs in the dtype in which operations compute, on
 * widened copies of its operands; its results are rounded once. The first operand decides: if its
 * dtype is no storage dtype, none is. Products of widened bf16 operands use the processor's unit
 * for bf16, since rounding does not change them. Entries with kernels of their own, such as
 * pointwise work, copies, reductions and matrix products, are not listed here. */
#include "backends/cpu/stored.h"
#include "backends/cpu/attention/attention_internal.h"
#include "backends/cpu/conv/conv_internal.h"
#include "backends/cpu/integer_matmul.h"
#include "backends/cpu/loss/loss_internal.h"
#include "backends/cpu/norm/norm_internal.h"
#include "backends/cpu/recurrent/recurrent_internal.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "backends/cpu/shape/copy.h"
#include "backends/matmul_precision.h"
#include "tensor/tensor_internal.h"

typedef enum role { READ, WRITTEN, READ_AND_WRITTEN } role;

typedef struct operand {
    /* Where the entry finds the operand, which may be NULL. NULL: the CPU's function widens the
     * operand itself. */
    const br_tensor **place;
    role role;
    const br_tensor *own; /* the operand, once *place is its copy */
} operand;

#define IN(x)            \
    {                    \
        &(x), READ, NULL \
    }
#define OUT(x)              \
    {                       \
        &(x), WRITTEN, NULL \
    }
#define IN_OUT(x)                    \
    {                                \
        &(x), READ_AND_WRITTEN, NULL \
    }

/* Returns the copy of an operand that is listed twice, or NULL. */
static const br_tensor *copy_of(const br_tensor *t, int n, const operand *operands)
{
    for (int i = 0; i < n; i++)
        if (operands[i].own == t)
            return *operands[i].place;
    return NULL;
}

/* Replaces operands of storage dtypes by contiguous copies, which belong to the current scope.
 * Returns false with an error if memory runs out. */
static bool widen_all(const char *entry, int n, operand *operands)
{
    for (int i = 0; i < n; i++) {
        const br_tensor *own = operands[i].place ? *operands[i].place : NULL;
        if (!own || !br__is_stored(own->dtype))
            continue;
        const br_tensor *wide = copy_of(own, i, operands);
        if (!wide) {
            wide = br__new_on_host(entry, own->ndim, own->sizes, br__computed(own->dtype));
            if (!wide)
                return false;
            if (operands[i].role != WRITTEN)
                br__cpu_copy(wide, own);
        }
        *operands[i].place = wide;
        operands[i].own = own;
    }
    return true;
}

static void narrow_results(int n, const operand *operands)
{
    for (int i = 0; i < n; i++)
        if (operands[i].own && operands[i].role != READ)
            br__cpu_copy(operands[i].own, *operands[i].place);
}

/* Defines br__stored_name() with its parameters. `first` is the operand that decides, `call` the
 * call of the CPU's function, and the rest lists the operands. */
#define ENTRY_WITH(prepare, name, parameters, first, call, ...)           \
    bool br__stored_##name parameters                                     \
    {                                                                     \
        if (!br__is_stored((first)->dtype))                               \
            return call;                                                  \
        prepare;                                                          \
        br_scope *scope = br_scope_begin();                               \
        operand operands[] = { __VA_ARGS__ };                             \
        const int n = sizeof operands / sizeof *operands;                 \
        const bool before = br__round_to_bf16((first)->dtype == BR_BF16); \
        const bool ok = scope && widen_all(#name, n, operands) && call;   \
        br__round_to_bf16(before);                                        \
        if (ok)                                                           \
            narrow_results(n, operands);                                  \
        br_scope_end(scope);                                              \
        return ok;                                                        \
    }
#define ENTRY(name, parameters, first, call, ...) \
    ENTRY_WITH(, name, parameters, first, call, __VA_ARGS__)
/* The same for operands in a struct of a type, `given`, which is replaced by a copy, `w`. */
#define WORK_ENTRY(name, type, parameters, first, call, ...) \
    ENTRY_WITH(type w = *given; given = &w, name, parameters, first, call, __VA_ARGS__)
/* The same for functions that widen rows themselves if `widens`: those operands are listed as
 * IN_ROWS and OUT_ROWS. */
#define ROWS_ENTRY(widens, name, parameters, first, call, ...) \
    ENTRY_WITH(const bool native = widens, name, parameters, first, call, __VA_ARGS__)
#define ROWS_WORK_ENTRY(widens, name, type, parameters, first, call, ...) \
    ENTRY_WITH(const bool native = widens; type w = *given;               \
               given = &w, name, parameters, first, call, __VA_ARGS__)
#define IN_ROWS(x)                       \
    {                                    \
        native ? NULL : &(x), READ, NULL \
    }
#define OUT_ROWS(x)                         \
    {                                       \
        native ? NULL : &(x), WRITTEN, NULL \
    }
#define DONE(call) (call, true) /* for functions that cannot fail */

/* clang-format off */
ENTRY(dropout, (const br_tensor *y, const br_tensor *x, const br_tensor *bits, double scale), x,
      DONE(br__cpu_dropout(y, x, bits, scale)), OUT(y), IN(x))
WORK_ENTRY(scan, br_scan_work,
           (const br_tensor *y, const br_tensor *x, const br_scan_work *given), x,
           DONE(br__cpu_scan(y, x, given)), OUT(y), IN(x), OUT(w.values))
ROWS_ENTRY(br__cpu_softmax_widens(x, dim), softmax,
           (const br_tensor *y, const br_tensor *x, int64_t dim, bool log_of), x,
           DONE(br__cpu_softmax(y, x, dim, log_of)), OUT_ROWS(y), IN_ROWS(x))
ROWS_ENTRY(br__cpu_softmax_widens(y, dim), softmax_grad,
           (const br_tensor *dx, const br_tensor *y, const br_tensor *dy, int64_t dim, bool log_of),
           y, DONE(br__cpu_softmax_grad(dx, y, dy, dim, log_of)), OUT_ROWS(dx), IN_ROWS(y),
           IN_ROWS(dy))
ROWS_WORK_ENTRY(br__cpu_layer_norm_widens(given), layer_norm, br_layer_norm_tensors,
                (const br_layer_norm_tensors *given), given->x, DONE(br__cpu_layer_norm(given)),
                IN_ROWS(w.x), IN(w.weight), IN(w.bias), OUT_ROWS(w.y), OUT(w.mean), OUT(w.rstd))
ROWS_WORK_ENTRY(br__cpu_layer_norm_widens(given), layer_norm_grad, br_layer_norm_tensors,
                (const char *op, const br_layer_norm_tensors *given), given->x,
                br__cpu_layer_norm_grad(op, given),
                IN_ROWS(w.x), IN(w.weight), IN(w.mean), IN(w.rstd), IN_ROWS(w.dy), OUT_ROWS(w.dx),
                OUT(w.dweight), OUT(w.dbias))
WORK_ENTRY(channel_norm, br_channel_norm_work, (const char *op, const br_channel_norm_work *given),
           given->x, br__cpu_channel_norm(op, given),
           IN(w.x), IN(w.weight), IN(w.bias), IN_OUT(w.running_mean), IN_OUT(w.running_var),
           OUT(w.y), OUT(w.mean), OUT(w.rstd))
WORK_ENTRY(channel_norm_grad, br_channel_norm_work,
           (const char *op, const br_channel_norm_work *given), given->x,
           br__cpu_channel_norm_grad(op, given),
           IN(w.x), IN(w.weight), IN(w.bias), IN(w.running_mean), IN(w.running_var), IN(w.mean),
           IN(w.rstd), IN(w.dy), OUT(w.dx), OUT(w.dweight), OUT(w.dbias))
ENTRY(convolution,
      (const br_convolution *work, const br_tensor *y, const br_tensor *x, const br_tensor *weight,
       const br_tensor *bias), x,
      br__cpu_convolution(work, y, x, weight, bias), OUT(y), IN(x), IN(weight), IN(bias))
ENTRY(convolution_input,
      (const br_convolution *work, const br_tensor *x, const br_tensor *weight,
       const br_tensor *y), weight,
      br__cpu_convolution_input(work, x, weight, y), OUT(x), IN(weight), IN(y))
ENTRY(convolution_weight,
      (const br_convolution *work, const br_tensor *weight, const br_tensor *x,
       const br_tensor *y), x,
      br__cpu_convolution_weight(work, weight, x, y), OUT(weight), IN(x), IN(y))
ENTRY(max_pool,
      (const br_pool_geometry *work, const br_tensor *y, const br_tensor *indices,
       const br_tensor *x), x,
      br__cpu_max_pool(work, y, indices, x), OUT(y), IN(x))
ENTRY(avg_pool, (const br_pool_geometry *work, const br_tensor *y, const br_tensor *x), x,
      br__cpu_avg_pool(work, y, x), OUT(y), IN(x))
ENTRY(avg_pool_grad, (const br_pool_geometry *work, const br_tensor *dx, const br_tensor *dy), dy,
      br__cpu_avg_pool_grad(work, dx, dy), IN_OUT(dx), IN(dy))
WORK_ENTRY(recurrent, br_recurrent_tensors, (const br_recurrent_tensors *given), given->gi,
           br__cpu_recurrent(given),
           IN(w.gi), IN(w.h0), IN(w.c0), IN(w.weight), IN(w.bias), OUT(w.y), OUT(w.cells),
           OUT(w.kept))
WORK_ENTRY(recurrent_grad, br_recurrent_tensors, (const br_recurrent_tensors *given), given->weight,
           br__cpu_recurrent_grad(given),
           IN(w.gi), IN(w.h0), IN(w.c0), IN(w.weight), IN(w.bias), IN(w.y), IN(w.cells), IN(w.kept),
           IN(w.dy), IN_OUT(w.dh), IN_OUT(w.dc), OUT(w.dgi), OUT(w.dgh), IN_OUT(w.dweight))
WORK_ENTRY(attention, br_attention_tensors, (const char *op, const br_attention_tensors *given),
           given->query, br__cpu_attention(op, given), OUT(w.sums))
ROWS_WORK_ENTRY(br__cpu_attention_grad_narrows(given), attention_grad, br_attention_tensors,
                (const char *op, const br_attention_tensors *given), given->query,
                br__cpu_attention_grad(op, given),
                IN(w.sums), OUT_ROWS(w.dquery), OUT_ROWS(w.dkey), OUT_ROWS(w.dvalue), OUT(w.dmask))
ENTRY(rotate,
      (const br_tensor *y, const br_tensor *x, const br_tensor *cos, const br_tensor *sin,
       bool interleaved), x,
      DONE(br__cpu_rotate(y, x, cos, sin, interleaved)), OUT(y), IN(x), IN(cos), IN(sin))
WORK_ENTRY(integer_matmul, br_matmul_tensors, (const br_matmul_tensors *given), given->a,
           br__cpu_integer_matmul(given), IN(w.a), IN(w.b), IN(w.bias), IN_OUT(w.c))
ROWS_WORK_ENTRY(br__cpu_cross_entropy_widens(given), cross_entropy, br_cross_entropy_tensors,
                (br_class_loss *loss, const br_cross_entropy_tensors *given), given->scores,
                DONE(br__cpu_cross_entropy(loss, given)),
                IN_ROWS(w.scores), IN(w.class_weight), OUT(w.losses), OUT(w.reduced), OUT(w.sums))
ROWS_WORK_ENTRY(br__cpu_cross_entropy_widens(given), cross_entropy_grad, br_cross_entropy_tensors,
                (const br_class_loss *loss, const br_cross_entropy_tensors *given), given->scores,
                DONE(br__cpu_cross_entropy_grad(loss, given)),
                IN_ROWS(w.scores), IN(w.class_weight), IN(w.sums), IN(w.dy), OUT_ROWS(w.dscores))
WORK_ENTRY(linear_cross_entropy, br_linear_cross_entropy_tensors,
           (const char *op, br_class_loss *loss, const br_linear_cross_entropy_tensors *given),
           given->input, br__cpu_linear_cross_entropy(op, loss, given),
           IN(w.input),
           /* A frozen weight, which may be larger than all else, is widened a few rows at a time. */
           { w.dweight || !w.weight->contiguous ? &w.weight : NULL, READ, NULL },
           IN(w.bias), IN(w.class_weight), IN(w.dy), OUT(w.losses), OUT(w.reduced),
           OUT(w.dinput), OUT(w.dweight), OUT(w.dbias))
/* clang-format on */
