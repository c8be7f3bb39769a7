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
    bool accumulate;
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
    for (int64_t c = 0; c < s->met; c++)
        for (int64_t i = 0; i < a[0].taps; i++)
            for (int64_t j = 0; j < a[1].taps; j++)
                *rows++ = c * s->plane + br__padded_at(&s->padding, a[0].from + i * a[0].tap_step,
                                                       a[1].from + j * a[1].tap_step);
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

/* The part's results at the axes' positions; weight is [groups, made, met, taps]. */
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
                             .a_row = k,
                             .a_col = 1,
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
                             .a_batch = { s->made * k },
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

/* Where what the kernel meets is x itself. */
static bool is_plain(const br_convolution *g)
{
    return br__conv_taps(g) == 1 && g->stride[0] == 1 && g->stride[1] == 1 && g->before[0] == 0 &&
           g->before[1] == 0 && g->size[0] == g->out[0] && g->size[1] == g->out[1];
}

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
    if (is_plain(g)) {
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
            weight += s->groups * s->made * s->met * a[0].taps * a[1].taps *
                      (int64_t)br__dtype_size(s->to->dtype);
        }
}

/* The kernels of the phases behind each other, each [groups, channels, outputs, taps]. */
static br_tensor *weights_by_phase(const br_convolution *g, const br_tensor *weight)
{
    const int64_t channels = g->channels / g->groups, outputs = g->outputs / g->groups;
    br_tensor *all = br__new("convolution", BR_SHAPE(weight->numel), weight->dtype);
    char *to = all ? all->data : NULL;
    for (int64_t i = 0; to && i < g->stride[0]; i++)
        for (int64_t j = 0; j < g->stride[1]; j++) {
            const br_axis rows = br__phase_axis(g, 0, i), columns = br__phase_axis(g, 1, j);
            const int64_t n = rows.taps * columns.taps;
            if (n == 0)
                continue;
            br_tensor from = br__window(weight), dense = br__window(all);
            br__window_slice(&from, 2, rows.first_tap, rows.taps, rows.tap_stride);
            br__window_slice(&from, 3, columns.first_tap, columns.taps, columns.tap_stride);
            br__set_shape(&from, 5,
                          (int64_t[]){ g->groups, channels, outputs, rows.taps, columns.taps },
                          (int64_t[]){ outputs * br__conv_met(g), br__conv_taps(g), br__conv_met(g),
                                       from.strides[2], from.strides[3] });
            br__set_shape(&dense, 5, from.sizes,
                          (int64_t[]){ channels * outputs * n, outputs * n, n, columns.taps, 1 });
            dense.data = to;
            br__copy(&dense, &from);
            to += dense.numel * (int64_t)br__dtype_size(weight->dtype);
        }
    return all;
}

void br__sum_x(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
               const br_tensor *y)
{
    const int64_t channels = g->channels / g->groups, outputs = g->outputs / g->groups;
    if (is_plain(g)) {
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
               .padding = br__padding_of_y(g) };
    br_scope *scope = br_scope_begin();
    br_tensor *weights = weights_by_phase(g, weight);
    if (weights) {
        s.weight = weights->data;
        for_each_part(&s, sum_x_part);
    }
    br_scope_end(scope);
}
