/* backends/cpu/conv/convolution_sums.c - y from x and weight, and x from y and weight, as matrix
 * products.
 *
 * y is the product of weight, with a row for each output channel, and the im2col matrix, with a
 * column for each position. That matrix is never formed. Its elements are read from a zero-padded
 * copy of x (backends/cpu/shape/padding.h): the offset of an element is the sum of a row offset and
 * a column offset, and the products pack their panels from lists of these offsets
 * (backends/cpu/gemm/gemm.h). The positions of several batch items are columns of one product. x
 * from y is computed in the same way, once for each remainder modulo the stride. */
#include "backends/cpu/conv/convolution_ways.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/hints.h"
#include "tensor/min_max.h"

#include <string.h>

/* ---- Sums over taps -------------------------------------------------------------------------- */

/* The computation of `to` [batch, groups * out_channels, ...] from `from` [batch, groups *
 * in_channels, ...]. */
typedef struct sums {
    const br_convolution *g;
    int64_t groups, in_channels, out_channels; /* channels of a group */
    const br_tensor *from, *to;
    const char *weight; /* in the layout of sum_taps() */
    bool by_taps, accumulate;
    br_padding padding;
    int64_t plane;       /* elements of a padded plane */
    int64_t item, items; /* the batch items that are processed */
    char *copy;          /* padded copy of these items */
} sums;

static void pad_task(void *context, int64_t i)
{
    const sums *s = context;
    const int64_t size = (int64_t)br__dtype_size(s->from->dtype);
    const int64_t plane = s->padding.size[0] * s->padding.size[1];
    br__pad((size_t)size, &s->padding, true,
            s->from->data + (s->item * s->groups * s->in_channels + i) * plane * size,
            s->copy + i * s->plane * size);
}

/* list_rows() lists the offset of each channel and tap of a group in the padded copy.
 * list_columns() lists the offset of each item and position in the padded copy and in the
 * result. */
static void list_rows(const sums *s, const br_axis *a, int64_t *rows)
{
    const int64_t channel_step = s->by_taps ? 1 : a[0].taps * a[1].taps;
    const int64_t tap_step = s->by_taps ? s->in_channels : 1;
    for (int64_t i = 0; i < a[0].taps; i++)
        for (int64_t j = 0; j < a[1].taps; j++, rows += tap_step) {
            const int64_t at = br__padded_at(&s->padding, a[0].from + i * a[0].tap_step,
                                             a[1].from + j * a[1].tap_step);
            for (int64_t c = 0; c < s->in_channels; c++)
                rows[c * channel_step] = c * s->plane + at;
        }
}

static void list_columns(const sums *s, const br_axis *a, int64_t *from, int64_t *to)
{
    const int64_t channels = s->groups * s->in_channels, width = s->to->sizes[3];
    for (int64_t item = 0; item < s->items; item++)
        for (int64_t y = 0; y < a[0].positions; y++) {
            const int64_t row = a[0].to + y * a[0].to_step;
            for (int64_t x = 0; x < a[1].positions; x++) {
                *from++ = item * channels * s->plane +
                          br__padded_at(&s->padding, y * a[0].from_step, x * a[1].from_step);
                *to++ = (item * s->groups * s->out_channels * s->to->sizes[2] + row) * width +
                        a[1].to + x * a[1].to_step;
            }
        }
}

/* Computes the results of the current items at the axes' positions. A group's weight is
 * [out_channels, in_channels, taps] or, with by_taps, [taps, in_channels, out_channels]; the taps
 * may be a subset of the kernel's. */
static void sum_taps(const sums *s, const br_axis *a, const char *weight)
{
    const int64_t k = s->in_channels * a[0].taps * a[1].taps,
                  to_plane = s->to->sizes[2] * s->to->sizes[3];
    const int64_t n = s->items * a[0].positions * a[1].positions;
    br_scope *scope = br_scope_begin();
    br_tensor *lists = n > 0 ? br__new_on_host("convolution", BR_SHAPE(k + 2 * n), BR_I64) : NULL;
    if (lists) {
        int64_t *rows = (int64_t *)lists->data;
        list_rows(s, a, rows);
        list_columns(s, a, rows + k, rows + k + n);
        br__gemm(&(br_gemm){ .dtype = s->to->dtype,
                             .m = s->out_channels,
                             .n = n,
                             .k = k,
                             .a = weight,
                             .a_row = s->by_taps ? 1 : k,
                             .a_col = s->by_taps ? s->out_channels : 1,
                             .b = s->copy,
                             .b_rows = rows,
                             .b_columns = rows + k,
                             .c = s->to->data + s->item * s->groups * s->out_channels * to_plane *
                                                    (int64_t)br__dtype_size(s->to->dtype),
                             .c_row = to_plane,
                             .c_columns = rows + k + n,
                             .accumulate = s->accumulate,
                             .batch_ndim = 1,
                             .batch_sizes = { s->groups },
                             .a_batch = { s->out_channels * s->in_channels * br__conv_taps(s->g) },
                             .b_batch = { s->in_channels * s->plane },
                             .c_batch = { s->out_channels * to_plane } });
    }
    br_scope_end(scope);
}

/* Calls `work` for each part of the batch, after copying it with padding. */
static void for_each_part(sums *s, void (*work)(const sums *s))
{
    const int64_t batch = s->from->sizes[0], channels = s->groups * s->in_channels;
    s->plane = br__padded_size(&s->padding);
    const int64_t max_items = br__conv_items(batch, channels * s->plane);
    br_scope *scope = br_scope_begin();
    br_tensor *copy = br__new_on_host(
        "convolution",
        BR_SHAPE(max_items * channels * s->plane + BR_GEMM_PADDING / (int64_t)sizeof(float)),
        s->from->dtype);
    for (s->item = 0; copy && s->item < batch && !br_failed(); s->item += max_items) {
        s->items = br__min(batch - s->item, max_items);
        s->copy = copy->data;
        br__parallel(s->items * channels, pad_task, s);
        work(s);
    }
    br_scope_end(scope);
}

/* ---- y from x -------------------------------------------------------------------------------- */

/* Computes C = A B for each item and group, where B has `k` channels and C has `m`. */
static void plain_product(const br_convolution *g, br_gemm m, const br_tensor *b,
                          const br_tensor *c)
{
    m.dtype = b->dtype;
    m.n = m.b_row = m.c_row = br__conv_positions(g);
    m.b_col = 1;
    m.batch_ndim = 2;
    m.batch_sizes[0] = g->batch, m.batch_sizes[1] = g->groups;
    m.a_batch[1] = m.m * m.k;
    m.b = b->data;
    m.b_batch[0] = g->groups * m.k * m.n, m.b_batch[1] = m.k * m.n;
    m.c = c->data;
    m.c_batch[0] = g->groups * m.m * m.n, m.c_batch[1] = m.m * m.n;
    br__gemm(&m);
}

static void sum_y_part(const sums *s)
{
    sum_taps(s, (br_axis[]){ br__axis(s->g, 0), br__axis(s->g, 1) }, s->weight);
}

void br__sum_y(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
               const br_tensor *y, bool keeps)
{
    const int64_t channels = g->channels / g->groups, outputs = g->outputs / g->groups;
    if (br__conv_is_plain(g)) {
        br_gemm m = { .m = outputs, .k = channels, .a = weight->data, .accumulate = keeps };
        m.a_row = channels, m.a_col = 1;
        plain_product(g, m, x, y);
        return;
    }
    sums s = { .g = g,
               .groups = g->groups,
               .in_channels = channels,
               .out_channels = outputs,
               .from = x,
               .to = y,
               .padding = br__padding_of_x(g),
               .weight = weight->data,
               .accumulate = keeps };
    for_each_part(&s, sum_y_part);
}

/* ---- x from y -------------------------------------------------------------------------------- */

static void sum_x_part(const sums *s)
{
    const br_convolution *g = s->g;
    const char *weight = s->weight;
    for (int64_t i = 0; i < g->stride[0]; i++)
        for (int64_t j = 0; j < g->stride[1]; j++) {
            const br_axis a[2] = { br__phase_axis(g, 0, i), br__phase_axis(g, 1, j) };
            sum_taps(s, a, weight);
            weight += s->out_channels * s->in_channels * a[0].taps * a[1].taps *
                      (int64_t)br__dtype_size(s->to->dtype);
        }
}

/* Computes the order in which sum_x_part() uses the kernel's taps: order[tap] is the tap's
 * position. */
static void order_taps(const br_convolution *g, int64_t *order)
{
    int64_t place = 0;
    for (int64_t i = 0; i < g->stride[0]; i++)
        for (int64_t j = 0; j < g->stride[1]; j++) {
            const br_axis y = br__phase_axis(g, 0, i), x = br__phase_axis(g, 1, j);
            for (int64_t t = 0; t < y.taps; t++)
                for (int64_t u = 0; u < x.taps; u++)
                    order[(y.first_tap + t * y.tap_stride) * g->kernel[1] + x.first_tap +
                          u * x.tap_stride] = place++;
        }
}

typedef struct tap_order {
    const br_convolution *g;
    const br_tensor *from, *to;
    const int64_t *order;
} tap_order;

/* Copies one output's weight [channels, taps] to its row of channels in each tap's matrix, a few
 * channels at a time, so that their taps stay in the L1 cache. */
ALWAYS_INLINE void sort_channels(size_t size, const tap_order *o, int64_t channels,
                                 const char *restrict from, char *restrict to, int64_t matrix)
{
    enum { CHANNEL_BLOCK = 16 };
    const int64_t taps = br__conv_taps(o->g), step = (int64_t)size;
    for (int64_t first = 0; first < channels; first += CHANNEL_BLOCK) {
        const int64_t end = channels - first < CHANNEL_BLOCK ? channels : first + CHANNEL_BLOCK;
        for (int64_t t = 0; t < taps; t++)
            for (int64_t c = first; c < end; c++)
                memcpy(to + (o->order[t] * matrix + c) * step, from + (c * taps + t) * step, size);
    }
}

static void sort_task(void *context, int64_t i)
{
    const tap_order *o = context;
    const br_convolution *g = o->g;
    const int64_t size = (int64_t)br__dtype_size(o->to->dtype);
    const int64_t channels = g->channels / g->groups, outputs = g->outputs / g->groups;
    const int64_t matrix = outputs * channels;
    const char *from = o->from->data + i * br__conv_fan_in(g) * size;
    char *to =
        o->to->data + (i / outputs * br__conv_taps(g) * matrix + i % outputs * channels) * size;
    if (size == 4)
        sort_channels(4, o, channels, from, to, matrix);
    else
        sort_channels(8, o, channels, from, to, matrix);
}

/* Returns the weight as [groups, taps, outputs, channels], with the taps of each phase
 * contiguous. */
static br_tensor *weight_by_taps(const br_convolution *g, const br_tensor *weight)
{
    br_tensor *order = br__new_on_host("convolution", BR_SHAPE(br__conv_taps(g)), BR_I64);
    br_tensor *sorted = br__new_on_host("convolution", BR_SHAPE(weight->numel), weight->dtype);
    if (br_failed())
        return NULL;
    order_taps(g, (int64_t *)order->data);
    tap_order o = { g, weight, sorted, (const int64_t *)order->data };
    br__parallel(g->outputs, sort_task, &o);
    return sorted;
}

void br__sum_x(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
               const br_tensor *y)
{
    const int64_t channels = g->channels / g->groups, outputs = g->outputs / g->groups;
    if (br__conv_is_plain(g)) {
        br_gemm m = { .m = channels, .k = outputs, .a = weight->data };
        m.a_row = 1, m.a_col = channels;
        plain_product(g, m, y, x);
        return;
    }
    sums s = { .g = g,
               .groups = g->groups,
               .in_channels = outputs,
               .out_channels = channels,
               .from = y,
               .to = x,
               .padding = br__padding_of_y(g),
               .by_taps = true };
    br_scope *scope = br_scope_begin();
    br_tensor *sorted = weight_by_taps(g, weight);
    if (sorted) {
        s.weight = sorted->data;
        for_each_part(&s, sum_x_part);
    }
    br_scope_end(scope);
}
