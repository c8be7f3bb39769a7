/* ops/convolution.c - convolutions, and their transposes.
 *
 * A convolution of x [batch, channels, ...] with weight [outputs, channels / groups, kernel ...] is
 * a product: weight, a row an output, by what the kernel meets at each position, a column a
 * position. That matrix is never made: in a copy of x among zeros (kernels/padding.h) its element
 * lies at a distance that the row tells plus one that the column tells, and from such lists
 * products pack their panels (kernels/gemm.h). Positions of several items are columns of one
 * product.
 *
 * The three bilinear forms between x, weight and y are each other's gradients: y from x and weight,
 * x from y and weight (the transpose), weight from x and y. So each keeps its two arguments and can
 * be differentiated any number of times. One-dimensional ones are those of one row. */
#include "ops/convolution_internal.h"
#include "ops/kernels/gemm.h"

typedef br_convolution geometry;

static int64_t taps(const geometry *g)
{
    return g->kernel[0] * g->kernel[1];
}

static int64_t positions(const geometry *g)
{
    return g->out[0] * g->out[1];
}

/* What a position of an output is summed over. */
static int64_t met(const geometry *g)
{
    return g->channels / g->groups * taps(g);
}

/* Where what the kernel meets is x itself. */
static bool is_plain(const geometry *g)
{
    return taps(g) == 1 && g->stride[0] == 1 && g->stride[1] == 1 && g->before[0] == 0 &&
           g->before[1] == 0 && g->size[0] == g->out[0] && g->size[1] == g->out[1];
}

/* For profiles: a product of each output with what it meets. */
static void count_work(const geometry *g, const br_tensor *x, const br_tensor *weight,
                       const br_tensor *y)
{
    if (!BR_PROFILING)
        return;
    br__event_work(2 * y->numel * met(g), 0);
    br__event_traffic(3, (const br_tensor *[]){ x, weight, y });
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Gives a window a shape. */
static void set_shape(br_tensor *window, int ndim, const int64_t *sizes, const int64_t *strides)
{
    window->ndim = ndim;
    window->numel = 1;
    for (int d = 0; d < ndim; d++) {
        window->sizes[d] = sizes[d];
        window->strides[d] = strides[d];
        window->numel *= sizes[d];
    }
}

/* Items that are worked on at a time: their copy stays in the caches. */
static int64_t items_at_a_time(int64_t batch, int64_t elements)
{
    enum { BUFFER = 1 << 19 };
    return elements > BUFFER ? 1 : min64(batch, BUFFER / (elements > 0 ? elements : 1));
}

/* ---- Sums over taps -------------------------------------------------------------------------- */

/* Along one dimension, result `to + p to_step` is a sum over taps t of what lies at
 * `from + p from_step + t tap_step` of the padded operand. */
typedef struct axis {
    int64_t positions, taps;
    int64_t from, from_step, tap_step;
    int64_t to, to_step;
} axis;

/* Of `from` [batch, groups * met, ...] each item makes one of `to` [batch, groups * made, ...]. */
typedef struct sums {
    int64_t groups, met, made; /* channels of a group */
    const br_tensor *from, *to;
    const geometry *g;
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
    const int64_t size = (int64_t)br_dtype_size(s->from->dtype);
    const int64_t plane = s->padding.size[0] * s->padding.size[1];
    (s->from->dtype == BR_F64 ? br__pad_f64 : br__pad_f32)(
        &s->padding, s->from->data + (s->item * s->groups * s->met + i) * plane * size,
        s->copy + i * s->plane * size);
}

/* Where a group's channels and taps, items and positions, and results lie. */
static void list_rows(const sums *s, const axis *a, int64_t *rows)
{
    for (int64_t c = 0; c < s->met; c++)
        for (int64_t i = 0; i < a[0].taps; i++)
            for (int64_t j = 0; j < a[1].taps; j++)
                *rows++ = c * s->plane + br__padded_at(&s->padding, a[0].from + i * a[0].tap_step,
                                                       a[1].from + j * a[1].tap_step);
}

static void list_columns(const sums *s, const axis *a, int64_t *from, int64_t *to)
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
static void sum_taps(const sums *s, const axis *a, const char *weight)
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
                                                    (int64_t)br_dtype_size(s->to->dtype),
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
    const int64_t most = items_at_a_time(batch, channels * s->plane);
    br_scope *scope = br_scope_begin();
    br_tensor *copy =
        br__new("convolution", BR_SHAPE(most * channels * s->plane + BEHIND), s->from->dtype);
    for (s->item = 0; copy && s->item < batch && !br_failed(); s->item += most) {
        s->items = min64(batch - s->item, most);
        s->copy = copy->data;
        br__parallel(s->items * channels, pad_task, s);
        work(s);
    }
    br_scope_end(scope);
}

/* ---- y from x -------------------------------------------------------------------------------- */

typedef struct operands {
    const br_tensor *weight, *y, *bias;
} operands;

/* Rows of y set to the bias, to which products are then added. */
static void fill_with_bias(const operands *o)
{
    int64_t sizes[] = { o->bias->numel, 1, 1 }, strides[] = { o->bias->strides[0], 0, 0 };
    br_tensor seen = br__window(o->bias);
    seen.ndim = 3;
    for (int d = 0; d < 3; d++) {
        seen.sizes[d] = sizes[d];
        seen.strides[d] = strides[d];
    }
    br__copy(o->y, &seen);
}

/* A product for each item and group, of x as it lies: C = weight x, or x = weight^T C. */
static br_gemm plain_product(const geometry *g, const operands *o)
{
    const int64_t channels = g->channels / g->groups, outputs = g->outputs / g->groups;
    return (br_gemm){ .is_double = o->y->dtype == BR_F64,
                      .n = positions(g),
                      .a = o->weight->data,
                      .b_row = positions(g),
                      .b_col = 1,
                      .c_row = positions(g),
                      .batch_ndim = 2,
                      .batch_sizes = { g->batch, g->groups },
                      .a_batch = { 0, outputs * channels } };
}

static void plain_forward(const geometry *g, const br_tensor *x, const operands *o)
{
    br_gemm m = plain_product(g, o);
    m.m = g->outputs / g->groups, m.k = g->channels / g->groups;
    m.a_row = m.k, m.a_col = 1;
    m.b = x->data;
    m.b_batch[0] = g->channels * m.n, m.b_batch[1] = m.k * m.n;
    m.c = o->y->data;
    m.c_batch[0] = g->outputs * m.n, m.c_batch[1] = m.m * m.n;
    m.accumulate = o->bias != NULL;
    br__gemm(&m);
}

static void forward_part(const sums *s)
{
    axis a[2];
    for (int d = 0; d < 2; d++)
        a[d] = (axis){ .positions = s->g->out[d],
                       .taps = s->g->kernel[d],
                       .from_step = s->g->stride[d],
                       .tap_step = s->g->dilation[d],
                       .to_step = 1 };
    sum_taps(s, a, s->weight);
}

static void unfolded_forward(const geometry *g, const br_tensor *x, const operands *o)
{
    const int64_t width = (g->out[1] - 1) * g->stride[1] + (g->kernel[1] - 1) * g->dilation[1] + 1;
    sums s = { .groups = g->groups,
               .met = g->channels / g->groups,
               .made = g->outputs / g->groups,
               .from = x,
               .to = o->y,
               .g = g,
               .weight = o->weight->data,
               .accumulate = o->bias != NULL };
    memcpy(s.padding.size, g->size, sizeof g->size);
    memcpy(s.padding.before, g->before, sizeof g->before);
    s.padding.rows = (g->out[0] - 1) * g->stride[0] + (g->kernel[0] - 1) * g->dilation[0] + 1;
    s.padding.fold = g->stride[1];
    s.padding.columns = (width + g->stride[1] - 1) / g->stride[1];
    for_each_part(&s, forward_part);
}

static void run_forward(const geometry *g, const br_tensor *x, const operands *o)
{
    count_work(g, x, o->weight, o->y);
    if (o->bias)
        fill_with_bias(o);
    if (br__is_depthwise(g))
        br__depthwise(g, x, o->weight, o->y, o->bias != NULL);
    else
        (is_plain(g) ? plain_forward : unfolded_forward)(g, x, o);
}

/* ---- x from y -------------------------------------------------------------------------------- */

static void plain_transposed(const geometry *g, const br_tensor *x, const operands *o)
{
    br_gemm m = plain_product(g, o);
    m.m = g->channels / g->groups, m.k = g->outputs / g->groups;
    m.a_row = 1, m.a_col = m.m;
    m.b = o->y->data;
    m.b_batch[0] = g->outputs * m.n, m.b_batch[1] = m.k * m.n;
    m.c = x->data;
    m.c_batch[0] = g->channels * m.n, m.c_batch[1] = m.m * m.n;
    br__gemm(&m);
}

/* Elements of x that leave the same remainder by the stride meet the same taps: those that are
 * `step` apart, from the first on, which is `taps` if there are none. */
typedef struct phase {
    int64_t first, step, taps;
} phase;

static phase phase_of(const geometry *g, int d, int64_t remainder)
{
    phase p = { .first = g->kernel[d], .step = 1 };
    for (int64_t i = g->kernel[d] - 1; i >= 0; i--)
        if (i * g->dilation[d] % g->stride[d] == remainder) {
            p.step = p.taps > 0 ? p.first - i : 1;
            p.first = i;
            p.taps++;
        }
    return p;
}

/* Padded element q stride + remainder of x gets what tap i = first + t step meets at position
 * q - (i dilation - remainder) / stride of y, which has `reach` zeros in front. */
static int64_t reach(const geometry *g, int d)
{
    return (g->kernel[d] - 1) * g->dilation[d] / g->stride[d];
}

static axis phase_axis(const geometry *g, int d, int64_t remainder)
{
    const phase p = phase_of(g, d, remainder);
    const int64_t stride = g->stride[d], before = g->before[d];
    const int64_t end = g->size[d] + before - remainder;
    const int64_t q = before > remainder ? (before - remainder + stride - 1) / stride : 0;
    const int64_t q_end = end > 0 ? (end + stride - 1) / stride : 0;
    return (axis){ .positions = q_end > q ? q_end - q : 0,
                   .taps = p.taps,
                   .from = q + reach(g, d) - (p.first * g->dilation[d] - remainder) / stride,
                   .from_step = 1,
                   .tap_step = -p.step * g->dilation[d] / stride,
                   .to = q * stride + remainder - before,
                   .to_step = stride };
}

static void transposed_part(const sums *s)
{
    const geometry *g = s->g;
    const char *weight = s->weight;
    for (int64_t i = 0; i < g->stride[0]; i++)
        for (int64_t j = 0; j < g->stride[1]; j++) {
            const axis a[2] = { phase_axis(g, 0, i), phase_axis(g, 1, j) };
            sum_taps(s, a, weight);
            weight += s->groups * s->made * s->met * a[0].taps * a[1].taps *
                      (int64_t)br_dtype_size(s->to->dtype);
        }
}

/* The kernels of the phases behind each other, each [groups, channels, outputs, taps]. */
static br_tensor *weights_by_phase(const geometry *g, const br_tensor *weight)
{
    const int64_t channels = g->channels / g->groups, outputs = g->outputs / g->groups;
    br_tensor *all = br__new("convolution", BR_SHAPE(weight->numel), weight->dtype);
    char *to = all ? all->data : NULL;
    for (int64_t i = 0; to && i < g->stride[0]; i++)
        for (int64_t j = 0; j < g->stride[1]; j++) {
            const phase rows = phase_of(g, 0, i), columns = phase_of(g, 1, j);
            const int64_t n = rows.taps * columns.taps;
            if (n == 0)
                continue;
            br_tensor from = br__window(weight), dense = br__window(all);
            br__window_slice(&from, 2, rows.first, rows.taps, rows.step);
            br__window_slice(&from, 3, columns.first, columns.taps, columns.step);
            set_shape(
                &from, 5, (int64_t[]){ g->groups, channels, outputs, rows.taps, columns.taps },
                (int64_t[]){ outputs * met(g), taps(g), met(g), from.strides[2], from.strides[3] });
            set_shape(&dense, 5, from.sizes,
                      (int64_t[]){ channels * outputs * n, outputs * n, n, columns.taps, 1 });
            dense.data = to;
            br__copy(&dense, &from);
            to += dense.numel * (int64_t)br_dtype_size(weight->dtype);
        }
    return all;
}

static void folded_transposed(const geometry *g, const br_tensor *x, const operands *o)
{
    sums s = { .groups = g->groups,
               .met = g->outputs / g->groups,
               .made = g->channels / g->groups,
               .from = o->y,
               .to = x,
               .g = g };
    memcpy(s.padding.size, g->out, sizeof g->out);
    for (int d = 0; d < 2; d++)
        s.padding.before[d] = reach(g, d);
    s.padding.rows = (g->size[0] - 1 + g->before[0]) / g->stride[0] + reach(g, 0) + 1;
    s.padding.columns = (g->size[1] - 1 + g->before[1]) / g->stride[1] + reach(g, 1) + 1;
    s.padding.fold = 1;
    br_scope *scope = br_scope_begin();
    br_tensor *weights = weights_by_phase(g, o->weight);
    if (weights) {
        s.weight = weights->data;
        for_each_part(&s, transposed_part);
    }
    br_scope_end(scope);
}

static void run_transposed(const geometry *g, const br_tensor *x, const operands *o)
{
    count_work(g, x, o->weight, o->y);
    if (br__is_depthwise(g))
        br__depthwise_back(g, x, o->weight, o->y);
    else
        (is_plain(g) ? plain_transposed : folded_transposed)(g, x, o);
}

/* ---- The weight from x and y ----------------------------------------------------------------- */

/* A product of y, a row an output, by what the kernel meets at each position, a row a position:
 * channels of x lie side by side in its copy, so that panels are packed by whole vectors. */
typedef struct weight_work {
    const geometry *g;
    const br_tensor *x, *y;
    int64_t size[2];       /* of padded planes */
    int64_t item, items;   /* the part that is worked on */
    const br_tensor *copy; /* of x: [items, size, channels] */
    const br_tensor *rows; /* of y: [outputs, items, positions]; NULL where y is just that */
    int64_t *b_rows, *b_columns, *c_columns;
    char *sums; /* [outputs, taps, channels / groups] */
} weight_work;

/* The part's items of x into the copy, whose zeros stay. */
static void copy_items(const weight_work *w)
{
    const geometry *g = w->g;
    br_tensor from = br__window(w->x), to = br__window(w->copy);
    br__window_slice(&from, 0, w->item, w->items, 1);
    br__window_slice(&to, 0, 0, w->items, 1);
    for (int d = 0; d < 2; d++) {
        const int64_t room = w->size[d] - g->before[d];
        if (room <= 0)
            return;
        br__window_slice(&from, 2 + d, 0, min64(room, g->size[d]), 1);
        br__window_slice(&to, 1 + d, g->before[d], min64(room, g->size[d]), 1);
    }
    set_shape(&to, 4, from.sizes,
              (int64_t[]){ to.strides[0], to.strides[3], to.strides[1], to.strides[2] });
    br__copy(&to, &from);
}

/* The part's items of y side by side. */
static void copy_rows(const weight_work *w)
{
    const geometry *g = w->g;
    br_tensor from = br__window(w->y), to = br__window(w->rows);
    br__window_slice(&from, 0, w->item, w->items, 1);
    set_shape(&to, 4, from.sizes,
              (int64_t[]){ positions(g), w->items * positions(g), g->out[1], 1 });
    br__copy(&to, &from);
}

static void list_weight(const weight_work *w, int64_t most)
{
    const geometry *g = w->g;
    const int64_t channels = g->channels / g->groups;
    int64_t *at = w->b_rows;
    for (int64_t item = 0; item < most; item++)
        for (int64_t y = 0; y < g->out[0]; y++)
            for (int64_t x = 0; x < g->out[1]; x++)
                *at++ = ((item * w->size[0] + y * g->stride[0]) * w->size[1] + x * g->stride[1]) *
                        g->channels;
    at = w->b_columns;
    for (int64_t i = 0; i < g->kernel[0]; i++)
        for (int64_t j = 0; j < g->kernel[1]; j++)
            for (int64_t c = 0; c < channels; c++)
                *at++ = (i * g->dilation[0] * w->size[1] + j * g->dilation[1]) * g->channels + c;
    for (int64_t i = 0; i < met(g); i++)
        w->c_columns[i] = i;
}

static void weight_part(const weight_work *w)
{
    const geometry *g = w->g;
    const int64_t size = (int64_t)br_dtype_size(w->x->dtype), outputs = g->outputs / g->groups;
    copy_items(w);
    if (w->rows)
        copy_rows(w);
    br_gemm m = { .is_double = w->x->dtype == BR_F64,
                  .m = outputs,
                  .n = met(g),
                  .k = w->items * positions(g),
                  .a = w->rows ? w->rows->data
                               : w->y->data + w->item * g->outputs * positions(g) * size,
                  .a_row = w->items * positions(g),
                  .a_col = 1,
                  .b = w->copy->data,
                  .b_rows = w->b_rows,
                  .b_columns = w->b_columns,
                  .c = w->sums,
                  .c_row = met(g),
                  .c_columns = w->c_columns,
                  .accumulate = true,
                  .batch_ndim = 1,
                  .batch_sizes = { g->groups },
                  .b_batch = { g->channels / g->groups },
                  .c_batch = { outputs * met(g) } };
    m.a_batch[0] = outputs * m.a_row;
    br__gemm(&m);
}

static void sum_weight(weight_work *w)
{
    const geometry *g = w->g;
    for (int d = 0; d < 2; d++)
        w->size[d] = (g->out[d] - 1) * g->stride[d] + (g->kernel[d] - 1) * g->dilation[d] + 1;
    const int64_t most = items_at_a_time(g->batch, w->size[0] * w->size[1] * g->channels);
    const int64_t k = most * positions(g);
    br_tensor *lists = br__new("convolution", BR_SHAPE(k + 2 * met(g)), BR_I64);
    /* One item more: vectors are read beyond the last one's end. */
    w->copy = br_zeros(BR_SHAPE(most + 1, w->size[0], w->size[1], g->channels), w->x->dtype);
    w->rows = most > 1 ? br__new("convolution", BR_SHAPE(g->outputs, k), w->x->dtype) : NULL;
    if (br_failed())
        return;
    w->b_rows = (int64_t *)lists->data;
    w->b_columns = w->b_rows + k;
    w->c_columns = w->b_columns + met(g);
    list_weight(w, most);
    for (w->item = 0; w->item < g->batch && !br_failed(); w->item += most) {
        w->items = min64(g->batch - w->item, most);
        weight_part(w);
    }
}

/* weight holds zeros */
static void run_weight(const geometry *g, const br_tensor *x, const operands *o)
{
    count_work(g, x, o->weight, o->y);
    if (br__sums_depthwise(g)) {
        br__depthwise_weight(g, x, o->weight, o->y);
        return;
    }
    const int64_t channels = g->channels / g->groups;
    const bool in_place = channels == 1 || taps(g) == 1;
    br_scope *scope = br_scope_begin();
    br_tensor *dense =
        in_place ? NULL : br_zeros(BR_SHAPE(g->outputs, taps(g), channels), o->weight->dtype);
    weight_work w = { .g = g, .x = x, .y = o->y };
    w.sums = dense ? dense->data : o->weight->data;
    if (!br_failed())
        sum_weight(&w);
    if (dense && !br_failed()) {
        br_tensor from = br__window(dense);
        set_shape(&from, 3, (int64_t[]){ g->outputs, channels, taps(g) },
                  (int64_t[]){ met(g), 1, channels });
        br_tensor to = br__window(o->weight);
        set_shape(&to, 3, from.sizes, (int64_t[]){ met(g), taps(g), 1 });
        br__copy(&to, &from);
    }
    br_scope_end(scope);
}

/* ---- On the tape ----------------------------------------------------------------------------- */

static br_tensor *weight_of(const geometry *g, br_tensor *x, br_tensor *y);

static void convolve_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const geometry *g = br_params(node);
    if (br_wants(node, 0))
        dx[0] = br__convolve_back(g, dy, br_saved(node, 1));
    if (br_wants(node, 1))
        dx[1] = weight_of(g, br_saved(node, 0), dy);
    if (br_wants(node, 2))
        dx[2] = br_sum_dim(dy, BR_DIMS(0, 2, 3), false);
}

static void transposed_backward(br_node *node, br_tensor *dx, br_tensor **d)
{
    const geometry *g = br_params(node);
    if (br_wants(node, 0))
        d[0] = br__convolve(g, dx, br_saved(node, 1), NULL);
    if (br_wants(node, 1))
        d[1] = weight_of(g, dx, br_saved(node, 0));
}

static void weight_backward(br_node *node, br_tensor *dw, br_tensor **d)
{
    const geometry *g = br_params(node);
    if (br_wants(node, 0))
        d[0] = br__convolve_back(g, br_saved(node, 1), dw);
    if (br_wants(node, 1))
        d[1] = br__convolve(g, br_saved(node, 0), dw, NULL);
}

static const br_op convolve_op = { .name = "convolution", .backward = convolve_backward };
static const br_op transposed_op = { .name = "conv_transpose", .backward = transposed_backward };
static const br_op weight_op = { .name = "convolution_weight", .backward = weight_backward };

/* Two arguments, of which each is kept for the other's gradient. */
static br_tensor *recorded(const br_op *op, const geometry *g, br_tensor *result, br_tensor *a,
                           br_tensor *b, br_tensor *bias)
{
    br_node *node = br_record(op, result, BR_INPUTS(a, b, bias), g, sizeof *g);
    if (br_wants(node, 1))
        br_save(node, 0, a);
    if (br_wants(node, 0))
        br_save(node, 1, b);
    return br_failed() ? NULL : result;
}

/* The arguments without gaps, and the result; NULL and an error if memory fails. */
static br_tensor *prepare(int ndim, const int64_t *sizes, bool zeros, br_tensor **a, br_tensor **b)
{
    br_scope *unrecorded = br_no_grad_begin();
    *a = br_scope_return(unrecorded, br_contiguous(*a));
    *b = br_scope_return(unrecorded, br_contiguous(*b));
    br_scope_end(unrecorded);
    if (br_failed())
        return NULL;
    return zeros ? br_zeros(ndim, sizes, (*a)->dtype)
                 : br__new("convolution", ndim, sizes, (*a)->dtype);
}

br_tensor *br__convolve(const geometry *g, br_tensor *x, br_tensor *weight, br_tensor *bias)
{
    BR_OP(convolve_op.name);
    br_tensor *dense_x = x, *dense_w = weight;
    br_tensor *y = prepare(4, (int64_t[]){ g->batch, g->outputs, g->out[0], g->out[1] }, false,
                           &dense_x, &dense_w);
    if (y && y->numel > 0)
        run_forward(g, dense_x, &(operands){ dense_w, y, bias });
    return recorded(&convolve_op, g, y, x, weight, bias);
}

br_tensor *br__convolve_back(const geometry *g, br_tensor *y, br_tensor *weight)
{
    BR_OP(transposed_op.name);
    br_tensor *dense_y = y, *dense_w = weight;
    br_tensor *x = prepare(4, (int64_t[]){ g->batch, g->channels, g->size[0], g->size[1] },
                           !is_plain(g) || br__is_depthwise(g), &dense_y, &dense_w);
    if (x && x->numel > 0)
        run_transposed(g, x, &(operands){ dense_w, dense_y, NULL });
    return recorded(&transposed_op, g, x, y, weight, NULL);
}

static br_tensor *weight_of(const geometry *g, br_tensor *x, br_tensor *y)
{
    BR_OP(weight_op.name);
    br_tensor *dense_x = x, *dense_y = y;
    br_tensor *weight =
        prepare(4, (int64_t[]){ g->outputs, g->channels / g->groups, g->kernel[0], g->kernel[1] },
                true, &dense_x, &dense_y);
    if (weight && weight->numel > 0 && dense_y->numel > 0)
        run_weight(g, dense_x, &(operands){ weight, dense_y, NULL });
    return recorded(&weight_op, g, weight, x, y, NULL);
}
