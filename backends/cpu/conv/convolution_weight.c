/* backends/cpu/conv/convolution_weight.c - a convolution's weight from x and y: the product of y,
 * with a row for each output channel, and the im2col matrix, with a row for each position. That
 * matrix is read from a zero-padded copy of x, as in convolution_sums.c, but with contiguous
 * channels, so that panels are packed by whole vectors. */
#include "backends/cpu/conv/convolution_ways.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/hints.h"
#include "backends/cpu/shape/copy.h"
#include "tensor/min_max.h"

#include <string.h>

typedef struct weight_work {
    const br_convolution *g;
    const br_tensor *x, *y;
    int64_t size[2];       /* of the padded planes */
    int64_t item, items;   /* the batch items that are processed */
    const br_tensor *copy; /* of x: [items, size, channels] */
    const br_tensor *rows; /* of y: [outputs, items, positions]; NULL if y has that layout */
    int64_t *b_rows, *b_columns, *c_columns;
    char *sums; /* [outputs, taps, channels / groups] */
} weight_work;

/* Copies the current items of x into the padded copy, whose zeros remain. */
static void copy_items(const weight_work *w)
{
    const br_convolution *g = w->g;
    br_tensor from = br__window(w->x), to = br__window(w->copy);
    br__window_slice(&from, 0, w->item, w->items, 1);
    br__window_slice(&to, 0, 0, w->items, 1);
    for (int d = 0; d < 2; d++) {
        const int64_t available = w->size[d] - g->before[d];
        if (available <= 0)
            return;
        br__window_slice(&from, 2 + d, 0, br__min(available, g->size[d]), 1);
        br__window_slice(&to, 1 + d, g->before[d], br__min(available, g->size[d]), 1);
    }
    br__window_reshape(&to, 4, from.sizes,
                       (int64_t[]){ to.strides[0], to.strides[3], to.strides[1], to.strides[2] });
    br__cpu_copy(&to, &from);
}

/* Copies the current items of y to [outputs, items, positions]. */
static void copy_rows(const weight_work *w)
{
    const br_convolution *g = w->g;
    br_tensor from = br__window(w->y), to = br__window(w->rows);
    br__window_slice(&from, 0, w->item, w->items, 1);
    br__window_reshape(
        &to, 4, from.sizes,
        (int64_t[]){ br__conv_positions(g), w->items * br__conv_positions(g), g->out[1], 1 });
    br__cpu_copy(&to, &from);
}

static void list_weight(const weight_work *w, int64_t max_items)
{
    const br_convolution *g = w->g;
    const int64_t channels = g->channels / g->groups;
    int64_t *at = w->b_rows;
    for (int64_t item = 0; item < max_items; item++)
        for (int64_t y = 0; y < g->out[0]; y++)
            for (int64_t x = 0; x < g->out[1]; x++)
                *at++ = ((item * w->size[0] + y * g->stride[0]) * w->size[1] + x * g->stride[1]) *
                        g->channels;
    at = w->b_columns;
    for (int64_t i = 0; i < g->kernel[0]; i++)
        for (int64_t j = 0; j < g->kernel[1]; j++)
            for (int64_t c = 0; c < channels; c++)
                *at++ = (i * g->dilation[0] * w->size[1] + j * g->dilation[1]) * g->channels + c;
    for (int64_t i = 0; i < br__conv_fan_in(g); i++)
        w->c_columns[i] = i;
}

static void weight_part(const weight_work *w)
{
    const br_convolution *g = w->g;
    const int64_t size = (int64_t)br__dtype_size(w->x->dtype), outputs = g->outputs / g->groups;
    copy_items(w);
    if (w->rows)
        copy_rows(w);
    br_gemm m = { .dtype = w->x->dtype,
                  .m = outputs,
                  .n = br__conv_fan_in(g),
                  .k = w->items * br__conv_positions(g),
                  .a = w->rows ? w->rows->data
                               : w->y->data + w->item * g->outputs * br__conv_positions(g) * size,
                  .a_row = w->items * br__conv_positions(g),
                  .a_col = 1,
                  .b = w->copy->data,
                  .b_rows = w->b_rows,
                  .b_columns = w->b_columns,
                  .c = w->sums,
                  .c_row = br__conv_fan_in(g),
                  .c_columns = w->c_columns,
                  .accumulate = w->item > 0,
                  .batch_ndim = 1,
                  .batch_sizes = { g->groups },
                  .b_batch = { g->channels / g->groups },
                  .c_batch = { outputs * br__conv_fan_in(g) } };
    m.a_batch[0] = outputs * m.a_row;
    br__gemm(&m);
}

/* Returns true if the im2col matrix is x itself and the weight is computed by one product for each
 * item, without copying. This is faster than one product of all items if the items are long enough
 * to make up for loading C each time. */
static bool is_product(const br_convolution *g)
{
    enum { LONG = 128 };
    return br__conv_is_plain(g) && (g->batch == 1 || br__conv_positions(g) >= LONG);
}

static void multiply_items(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                           const br_tensor *y)
{
    const int64_t channels = g->channels / g->groups, outputs = g->outputs / g->groups;
    const int64_t k = br__conv_positions(g), size = (int64_t)br__dtype_size(x->dtype);
    br_gemm m = { .dtype = x->dtype,
                  .m = outputs,
                  .n = channels,
                  .k = k,
                  .a_row = k,
                  .a_col = 1,
                  .b_row = 1,
                  .b_col = k,
                  .c = weight->data,
                  .c_row = channels,
                  .batch_ndim = 1,
                  .batch_sizes = { g->groups },
                  .a_batch = { outputs * k },
                  .b_batch = { channels * k },
                  .c_batch = { outputs * channels } };
    for (int64_t item = 0; item < g->batch && !br_failed(); item++) {
        m.accumulate = item > 0;
        m.a = y->data + item * g->outputs * k * size;
        m.b = x->data + item * g->channels * k * size;
        br__gemm(&m);
    }
}

static void sum_weight(weight_work *w)
{
    const br_convolution *g = w->g;
    for (int d = 0; d < 2; d++)
        w->size[d] = br__conv_span(g, d);
    const int64_t item = w->size[0] * w->size[1] * g->channels; /* its elements */
    const int64_t max_items = br__conv_items(g->batch, item);
    const int64_t k = max_items * br__conv_positions(g);
    br_tensor *lists = br__new_on_host("convolution", BR_SHAPE(k + 2 * br__conv_fan_in(g)), BR_I64);
    /* More items, because vectors are read beyond the end of the last one (gemm.h). */
    const int64_t excess = BR_GEMM_PADDING / (int64_t)br__dtype_size(w->x->dtype);
    w->copy = br__zeros_on_host("convolution",
                                BR_SHAPE(max_items + (item > 0 ? (excess + item - 1) / item : 0),
                                         w->size[0], w->size[1], g->channels),
                                w->x->dtype);
    w->rows =
        max_items > 1 ? br__new_on_host("convolution", BR_SHAPE(g->outputs, k), w->x->dtype) : NULL;
    if (br_failed())
        return;
    w->b_rows = (int64_t *)lists->data;
    w->b_columns = w->b_rows + k;
    w->c_columns = w->b_columns + br__conv_fan_in(g);
    list_weight(w, max_items);
    for (w->item = 0; w->item < g->batch && !br_failed(); w->item += max_items) {
        w->items = br__min(g->batch - w->item, max_items);
        weight_part(w);
    }
}

typedef struct transposition {
    const br_convolution *g;
    const br_tensor *from, *to;
} transposition;

/* Transposes one output's sums [taps, channels] to its weight [channels, taps], a few channels at a
 * time, so that their taps stay in the L1 cache. */
ALWAYS_INLINE void turn(size_t size, const br_convolution *g, const char *restrict from,
                        char *restrict to)
{
    enum { CHANNEL_BLOCK = 16 };
    const int64_t taps = br__conv_taps(g), channels = g->channels / g->groups, step = (int64_t)size;
    for (int64_t first = 0; first < channels; first += CHANNEL_BLOCK) {
        const int64_t end = br__min(channels, first + CHANNEL_BLOCK);
        for (int64_t t = 0; t < taps; t++)
            for (int64_t c = first; c < end; c++)
                memcpy(to + (c * taps + t) * step, from + (t * channels + c) * step, size);
    }
}

static void transpose_task(void *context, int64_t i)
{
    const transposition *t = context;
    const int64_t size = (int64_t)br__dtype_size(t->to->dtype),
                  at = i * br__conv_fan_in(t->g) * size;
    if (size == 4)
        turn(4, t->g, t->from->data + at, t->to->data + at);
    else
        turn(8, t->g, t->from->data + at, t->to->data + at);
}

void br__sum_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                    const br_tensor *y)
{
    if (is_product(g)) {
        multiply_items(g, x, weight, y);
        return;
    }
    const int64_t channels = g->channels / g->groups;
    const bool in_place = channels == 1 || br__conv_taps(g) == 1;
    br_scope *scope = br_scope_begin();
    br_tensor *dense =
        in_place ? NULL
                 : br__new_on_host("convolution", BR_SHAPE(g->outputs, br__conv_fan_in(g)),
                                   weight->dtype);
    weight_work w = { .g = g, .x = x, .y = y };
    w.sums = dense ? dense->data : weight->data;
    if (!br_failed())
        sum_weight(&w);
    if (dense && !br_failed())
        br__parallel(g->outputs, transpose_task, &(transposition){ g, dense, weight });
    br_scope_end(scope);
}
