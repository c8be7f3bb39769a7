/* ops/convolution_sums.c - y from x and weight, and x from y and weight, as matrix products.
 *
 * Of a convolution, y is the product of weight, a row an output, by what the kernel meets at each
 * position, a column a position. That matrix is never made: in a copy of x among zeros
 * (kernels/padding.h) its element lies at a distance that the row tells plus one that the column
 * tells, and from such lists products pack their panels (kernels/gemm.h). Positions of several
 * items are columns of one product. x from y is the same for each remainder by the stride. */
#include "ops/convolution_internal.h"
#include "ops/kernels/gemm.h"

/* ---- Sums over taps -------------------------------------------------------------------------- */

/* Of `from` [batch, groups * met, ...] each item makes one of `to` [batch, groups * made, ...]. */
typedef struct sums {
    const br_convolution *g;
    int64_t groups, met, made; /* channels of a group */
    const br_tensor *from, *to;
    const char *weight; /* as sum_taps() takes it */
    bool by_taps, accumulate;
    br_padding padding;
    int64_t plane;       /* elements of a padded plane */
    int64_t item, items; /* the part that is worked on */
    char *copy;          /* of it, padded */
} sums;

static void pad_task(void *context, int64_t i)
{
    const sums *s = context;
    const int64_t size = (int64_t)br__dtype_size(s->from->dtype);
    const int64_t plane = s->padding.size[0] * s->padding.size[1];
    (s->from->dtype == BR_F64 ? br__pad_f64 : br__pad_f32)(
        &s->padding, true, s->from->data + (s->item * s->groups * s->met + i) * plane * size,
        s->copy + i * s->plane * size);
}

/* Where a group's channels and taps, items and positions, and results lie. */
static void list_rows(const sums *s, const br_axis *a, int64_t *rows)
{
    const int64_t channel_step = s->by_taps ? 1 : a[0].taps * a[1].taps;
    const int64_t tap_step = s->by_taps ? s->met : 1;
    for (int64_t i = 0; i < a[0].taps; i++)
        for (int64_t j = 0; j < a[1].taps; j++, rows += tap_step) {
            const int64_t at = br__padded_at(&s->padding, a[0].from + i * a[0].tap_step,
                                             a[1].from + j * a[1].tap_step);
            for (int64_t c = 0; c < s->met; c++)
                rows[c * channel_step] = c * s->plane + at;
        }
}

static void list_columns(const sums *s, const br_axis *a, int64_t *from, int64_t *to)
{
    const int64_t channels = s->groups * s->met, width = s->to->sizes[3];
    for (int64_t item = 0; item < s->items; item++)
        for (int64_t y = 0; y < a[0].positions; y++) {
            const int64_t row = a[0].to + y * a[0].to_step;
            for (int64_t x = 0; x < a[1].positions; x++) {
                *from++ = item * channels * s->plane +
                          br__padded_at(&s->padding, y * a[0].from_step, x * a[1].from_step);
                *to++ = (item * s->groups * s->made * s->to->sizes[2] + row) * width + a[1].to +
                        x * a[1].to_step;
            }
        }
}

/* The part's results at the axes' positions. A group's weight is [made, met, taps], or by taps
 * [taps, met, made], of which these may be a part. */
static void sum_taps(const sums *s, const br_axis *a, const char *weight)
{
    const int64_t k = s->met * a[0].taps * a[1].taps, to_plane = s->to->sizes[2] * s->to->sizes[3];
    const int64_t n = s->items * a[0].positions * a[1].positions;
    br_scope *scope = br_scope_begin();
    br_tensor *lists = n > 0 ? br__new("convolution", BR_SHAPE(k + 2 * n), BR_I64) : NULL;
    if (lists) {
        int64_t *rows = (int64_t *)lists->data;
        list_rows(s, a, rows);
        list_columns(s, a, rows + k, rows + k + n);
        br__gemm(&(br_gemm){ .is_double = s->to->dtype == BR_F64,
                             .m = s->made,
                             .n = n,
                             .k = k,
                             .a = weight,
                             .a_row = s->by_taps ? 1 : k,
                             .a_col = s->by_taps ? s->made : 1,
                             .b = s->copy,
                             .b_rows = rows,
                             .b_columns = rows + k,
                             .c = s->to->data + s->item * s->groups * s->made * to_plane *
                                                    (int64_t)br__dtype_size(s->to->dtype),
                             .c_row = to_plane,
                             .c_columns = rows + k + n,
                             .accumulate = s->accumulate,
                             .batch_ndim = 1,
                             .batch_sizes = { s->groups },
                             .a_batch = { s->made * s->met * br__conv_taps(s->g) },
                             .b_batch = { s->met * s->plane },
                             .c_batch = { s->made * to_plane } });
    }
    br_scope_end(scope);
}

/* Calls `work` with each part of the batch after it has been copied. */
static void for_each_part(sums *s, void (*work)(const sums *s))
{
    enum { BEHIND = 64 / sizeof(float) }; /* what may be read behind the last element */
    const int64_t batch = s->from->sizes[0], channels = s->groups * s->met;
    s->plane = br__padded_size(&s->padding);
    const int64_t most = br__conv_items(batch, channels * s->plane);
    br_scope *scope = br_scope_begin();
    br_tensor *copy =
        br__new("convolution", BR_SHAPE(most * channels * s->plane + BEHIND), s->from->dtype);
    for (s->item = 0; copy && s->item < batch && !br_failed(); s->item += most) {
        s->items = batch - s->item < most ? batch - s->item : most;
        s->copy = copy->data;
        br__parallel(s->items * channels, pad_task, s);
        work(s);
    }
    br_scope_end(scope);
}

/* ---- y from x -------------------------------------------------------------------------------- */

/* A product for each item and group: C = A B, where B has `k` channels of a group, C has `m`. */
static void plain_product(const br_convolution *g, br_gemm m, const br_tensor *b,
                          const br_tensor *c)
{
    m.is_double = b->dtype == BR_F64;
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
               .met = channels,
               .made = outputs,
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
            weight +=
                s->made * s->met * a[0].taps * a[1].taps * (int64_t)br__dtype_size(s->to->dtype);
        }
}

/* The kernels' taps in the order in which sum_x_part() meets them: order[tap] is its place. */
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

/* One output's weight [channels, taps] goes to the outputs' rows of channels in each tap's matrix:
 * a few channels at a time, whose taps the first-level cache holds meanwhile. */
#define SORT(type, suffix)                                                                     \
    static void sort_##suffix(const tap_order *o, int64_t channels, const type *restrict from, \
                              type *restrict to, int64_t matrix)                               \
    {                                                                                          \
        enum { FEW = 16 };                                                                     \
        const int64_t taps = br__conv_taps(o->g);                                              \
        for (int64_t first = 0; first < channels; first += FEW) {                              \
            const int64_t end = channels - first < FEW ? channels : first + FEW;               \
            for (int64_t t = 0; t < taps; t++)                                                 \
                for (int64_t c = first; c < end; c++)                                          \
                    to[o->order[t] * matrix + c] = from[c * taps + t];                         \
        }                                                                                      \
    }
SORT(float, f32)
SORT(double, f64)

static void sort_task(void *context, int64_t i)
{
    const tap_order *o = context;
    const br_convolution *g = o->g;
    const int64_t channels = g->channels / g->groups, outputs = g->outputs / g->groups;
    const int64_t from = i * br__conv_met(g), matrix = outputs * channels;
    const int64_t to = i / outputs * br__conv_taps(g) * matrix + i % outputs * channels;
    if (o->to->dtype == BR_F64)
        sort_f64(o, channels, (const double *)o->from->data + from, (double *)o->to->data + to,
                 matrix);
    else
        sort_f32(o, channels, (const float *)o->from->data + from, (float *)o->to->data + to,
                 matrix);
}

/* [groups, taps, outputs, channels], with each phase's taps behind each other. */
static br_tensor *weight_by_taps(const br_convolution *g, const br_tensor *weight)
{
    br_tensor *order = br__new("convolution", BR_SHAPE(br__conv_taps(g)), BR_I64);
    br_tensor *sorted = br__new("convolution", BR_SHAPE(weight->numel), weight->dtype);
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
               .met = outputs,
               .made = channels,
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
