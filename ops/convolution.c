/* ops/convolution.c - convolutions, and their transposes.
 *
 * A convolution of x [batch, channels, ...] with weight [outputs, channels / groups, kernel ...] is
 * a product: weight, a row an output, by what the kernel meets at each position, a column a
 * position (kernels/unfold.h). The columns of a few items at a time, or of a few rows of one, stand
 * in a buffer that the caches hold.
 *
 * The three bilinear forms between x, weight and y are each other's gradients: y from x and weight,
 * x from y and weight (the transpose), weight from x and y. So each keeps its two arguments and can
 * be differentiated any number of times. One-dimensional ones are those of one row. */
#include "ops/convolution_internal.h"
#include "ops/kernels/gemm.h"
#include "ops/kernels/unfold.h"

typedef br_convolution geometry;

static int64_t taps(const geometry *g)
{
    return g->kernel[0] * g->kernel[1];
}

static int64_t positions(const geometry *g)
{
    return g->out[0] * g->out[1];
}

/* Rows of the columns' matrix of one item: what all groups' weights meet. */
static int64_t unfolded_rows(const geometry *g)
{
    return g->channels * taps(g);
}

/* Where the columns would be x itself. */
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
    br__event_work(2 * y->numel * (unfolded_rows(g) / g->groups), 0);
    br__event_traffic(3, (const br_tensor *[]){ x, weight, y });
}

/* ---- Parts that are worked on at a time ------------------------------------------------------ */

/* Items of the batch, or rows of one item. */
typedef struct part {
    const geometry *g;
    int64_t item, items, row, rows;
    int64_t positions;           /* of an item */
    int64_t item_step, row_step; /* elements between items and between rows of the columns */
    const br_tensor *x;
    char *columns;
} part;

typedef void (*part_fn)(part *p, const void *context);

/* Elements of the columns that stand in the buffer; one row of the result is the least. */
enum { BUFFER = 1 << 19 };

static void layout(part *p, const geometry *g, int64_t items, int64_t rows, bool side_by_side)
{
    p->items = items;
    p->rows = rows;
    p->positions = rows * g->out[1];
    p->item_step = side_by_side ? p->positions : unfolded_rows(g) * p->positions;
    p->row_step = side_by_side ? items * p->positions : p->positions;
}

/* Calls `work` for every part in turn; with side_by_side a row of the columns goes on from item to
 * item, else items lie behind each other. Without columns the whole is one part. */
static void for_each_part(const geometry *g, const br_tensor *x, bool side_by_side, bool columns,
                          part_fn work, const void *context)
{
    part p = { .g = g, .x = x };
    if (!columns) {
        layout(&p, g, g->batch, g->out[0], false);
        work(&p, context);
        return;
    }
    int64_t row = unfolded_rows(g) * g->out[1], item = row * g->out[0];
    int64_t items = item < BUFFER ? BUFFER / (item > 0 ? item : 1) : 1, rows = g->out[0];
    if (item > BUFFER)
        rows = row < BUFFER ? BUFFER / row : 1;
    if (items > g->batch)
        items = g->batch;
    br_scope *scope = br_scope_begin();
    br_tensor *buffer =
        br__new("convolution", BR_SHAPE(items * unfolded_rows(g), rows * g->out[1]), x->dtype);
    for (p.item = 0; buffer && p.item < g->batch && !br_failed(); p.item += items)
        for (p.row = 0; p.row < g->out[0]; p.row += rows) {
            int64_t items_left = g->batch - p.item, rows_left = g->out[0] - p.row;
            layout(&p, g, items_left < items ? items_left : items,
                   rows_left < rows ? rows_left : rows, side_by_side);
            p.columns = buffer->data;
            work(&p, context);
        }
    br_scope_end(scope);
}

br_columns br__columns_of(const geometry *g)
{
    br_columns u = { .rows = g->out[0], .columns = g->out[1] };
    for (int d = 0; d < 2; d++) {
        u.size[d] = g->size[d], u.kernel[d] = g->kernel[d], u.stride[d] = g->stride[d];
        u.dilation[d] = g->dilation[d], u.before[d] = g->before[d];
    }
    return u;
}

/* One channel of one item. */
static void unfold_plane(void *context, int64_t i, bool back)
{
    const part *p = context;
    const geometry *g = p->g;
    int64_t size = (int64_t)br_dtype_size(p->x->dtype), channel = i % g->channels;
    char *plane = p->x->data + (p->item * g->channels + i) * g->size[0] * g->size[1] * size;
    char *columns =
        p->columns + (i / g->channels * p->item_step + channel * taps(g) * p->row_step) * size;
    br_columns u = br__columns_of(g);
    u.first_row = p->row;
    u.rows = p->rows;
    u.tap = p->row_step;
    bool is_double = p->x->dtype == BR_F64;
    if (back)
        (is_double ? br__fold_f64 : br__fold_f32)(&u, columns, plane);
    else
        (is_double ? br__unfold_f64 : br__unfold_f32)(&u, plane, columns);
}

static void unfold_task(void *context, int64_t i)
{
    unfold_plane(context, i, false);
}

static void fold_task(void *context, int64_t i)
{
    unfold_plane(context, i, true);
}

/* ---- The three forms ------------------------------------------------------------------------- */

/* The first element of y that the part has, in bytes from y's. */
static int64_t at_output(const part *p)
{
    const geometry *g = p->g;
    return (p->item * g->outputs * positions(g) + p->row * g->out[1]) *
           (int64_t)br_dtype_size(p->x->dtype);
}

/* A product for each item and group, with A = weight; what is not the same for both uses of it is
 * left to set. */
static br_gemm for_items_and_groups(const part *p, const br_tensor *weight)
{
    const geometry *g = p->g;
    int64_t met = unfolded_rows(g) / g->groups, outputs = g->outputs / g->groups;
    return (br_gemm){ .is_double = weight->dtype == BR_F64,
                      .n = p->positions,
                      .a = weight->data,
                      .batch_ndim = 2,
                      .batch_sizes = { p->items, g->groups },
                      .a_batch = { 0, outputs * met } };
}

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

/* y = weight columns (+ what y holds, if there is a bias) */
static void forward_part(part *p, const void *context)
{
    const operands *o = context;
    const geometry *g = p->g;
    int64_t met = unfolded_rows(g) / g->groups, outputs = g->outputs / g->groups;
    if (p->columns)
        br__parallel(p->items * g->channels, unfold_task, p);
    br_gemm m = for_items_and_groups(p, o->weight);
    m.m = outputs, m.k = met;
    m.a_row = met, m.a_col = 1;
    m.b = p->columns ? p->columns : p->x->data;
    m.b_row = p->row_step, m.b_col = 1;
    m.b_batch[0] = p->item_step, m.b_batch[1] = met * p->row_step;
    m.c = o->y->data + at_output(p);
    m.c_row = positions(g);
    m.c_batch[0] = g->outputs * positions(g), m.c_batch[1] = outputs * positions(g);
    m.accumulate = o->bias != NULL;
    br__gemm(&m);
}

static void run_forward(const geometry *g, const br_tensor *x, const operands *o)
{
    count_work(g, x, o->weight, o->y);
    if (o->bias)
        fill_with_bias(o);
    if (br__is_depthwise(g))
        br__depthwise(g, x, o->weight, o->y, o->bias != NULL);
    else
        for_each_part(g, x, false, !is_plain(g), forward_part, o);
}

/* columns = weight^T y, which are added to x where they are met */
static void transposed_part(part *p, const void *context)
{
    const operands *o = context;
    const geometry *g = p->g;
    int64_t met = unfolded_rows(g) / g->groups, outputs = g->outputs / g->groups;
    br_gemm m = for_items_and_groups(p, o->weight);
    m.m = met, m.k = outputs;
    m.a_row = 1, m.a_col = met;
    m.b = o->y->data + at_output(p);
    m.b_row = positions(g), m.b_col = 1;
    m.b_batch[0] = g->outputs * positions(g), m.b_batch[1] = outputs * positions(g);
    m.c = p->columns ? p->columns : p->x->data;
    m.c_row = p->row_step;
    m.c_batch[0] = p->item_step, m.c_batch[1] = met * p->row_step;
    if (br__gemm(&m) && p->columns)
        br__parallel(p->items * g->channels, fold_task, p);
}

static void run_transposed(const geometry *g, const br_tensor *x, const operands *o)
{
    count_work(g, x, o->weight, o->y);
    if (br__is_depthwise(g))
        br__depthwise_back(g, x, o->weight, o->y);
    else
        for_each_part(g, x, false, !is_plain(g), transposed_part, o);
}

/* weight += y columns^T. Several items' rows of y are put side by side as their columns are, so
 * that one product sums over all. */
static void weight_part(part *p, const void *context)
{
    const operands *o = context;
    const geometry *g = p->g;
    int64_t met = unfolded_rows(g) / g->groups, outputs = g->outputs / g->groups;
    br_scope *scope = br_scope_begin();
    br_tensor *rows = NULL;
    br__parallel(p->items * g->channels, unfold_task, p);
    if (p->items > 1) {
        br_tensor from = br__window(o->y);
        br__window_slice(&from, 0, p->item, p->items, 1);
        rows = br__new("convolution", BR_SHAPE(g->outputs, p->items, g->out[0], g->out[1]),
                       from.dtype);
        br_tensor *to = rows ? br_transpose(rows, 0, 1) : NULL;
        if (to)
            br__copy(to, &from);
    }
    br_gemm m = { .is_double = p->x->dtype == BR_F64,
                  .m = outputs,
                  .n = met,
                  .k = p->items * p->positions,
                  .a = rows ? rows->data : o->y->data + at_output(p),
                  .a_row = rows ? p->row_step : positions(g),
                  .a_col = 1,
                  .b = p->columns,
                  .b_row = 1,
                  .b_col = p->row_step,
                  .c = o->weight->data,
                  .c_row = met,
                  .accumulate = true,
                  .batch_ndim = 1,
                  .batch_sizes = { g->groups },
                  .b_batch = { met * p->row_step },
                  .c_batch = { outputs * met } };
    m.a_batch[0] = outputs * m.a_row;
    if (!br_failed())
        br__gemm(&m);
    br_scope_end(scope);
}

static void run_weight(const geometry *g, const br_tensor *x, const operands *o)
{
    count_work(g, x, o->weight, o->y);
    if (br__sums_depthwise(g))
        br__depthwise_weight(g, x, o->weight, o->y);
    else
        for_each_part(g, x, true, true, weight_part, o);
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
