/* ops/convolution_weight.c - a convolution's weight from x and y: the product of y, a row an
 * output, by what the kernel meets at each position, a row a position. It is read from a copy of x
 * among zeros, as in convolution_sums.c, where channels lie side by side, so that panels are packed
 * by whole vectors. */
#include "ops/convolution_internal.h"
#include "ops/kernels/gemm.h"

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

typedef struct weight_work {
    const br_convolution *g;
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
    const br_convolution *g = w->g;
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
    br__window_reshape(&to, 4, from.sizes,
                       (int64_t[]){ to.strides[0], to.strides[3], to.strides[1], to.strides[2] });
    br__copy(&to, &from);
}

/* The part's items of y side by side. */
static void copy_rows(const weight_work *w)
{
    const br_convolution *g = w->g;
    br_tensor from = br__window(w->y), to = br__window(w->rows);
    br__window_slice(&from, 0, w->item, w->items, 1);
    br__window_reshape(
        &to, 4, from.sizes,
        (int64_t[]){ br__conv_positions(g), w->items * br__conv_positions(g), g->out[1], 1 });
    br__copy(&to, &from);
}

static void list_weight(const weight_work *w, int64_t most)
{
    const br_convolution *g = w->g;
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
    for (int64_t i = 0; i < br__conv_met(g); i++)
        w->c_columns[i] = i;
}

static void weight_part(const weight_work *w)
{
    const br_convolution *g = w->g;
    const int64_t size = (int64_t)br__dtype_size(w->x->dtype), outputs = g->outputs / g->groups;
    copy_items(w);
    if (w->rows)
        copy_rows(w);
    br_gemm m = { .is_double = w->x->dtype == BR_F64,
                  .m = outputs,
                  .n = br__conv_met(g),
                  .k = w->items * br__conv_positions(g),
                  .a = w->rows ? w->rows->data
                               : w->y->data + w->item * g->outputs * br__conv_positions(g) * size,
                  .a_row = w->items * br__conv_positions(g),
                  .a_col = 1,
                  .b = w->copy->data,
                  .b_rows = w->b_rows,
                  .b_columns = w->b_columns,
                  .c = w->sums,
                  .c_row = br__conv_met(g),
                  .c_columns = w->c_columns,
                  .accumulate = w->item > 0,
                  .batch_ndim = 1,
                  .batch_sizes = { g->groups },
                  .b_batch = { g->channels / g->groups },
                  .c_batch = { outputs * br__conv_met(g) } };
    m.a_batch[0] = outputs * m.a_row;
    br__gemm(&m);
}

/* Where the kernel meets x itself: a product for each item, of operands as they lie. They are worth
 * more than one of all items if they are long enough for C not to be fetched in vain. */
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
    br_gemm m = { .is_double = x->dtype == BR_F64,
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
    const int64_t most = br__conv_items(g->batch, w->size[0] * w->size[1] * g->channels);
    const int64_t k = most * br__conv_positions(g);
    br_tensor *lists = br__new("convolution", BR_SHAPE(k + 2 * br__conv_met(g)), BR_I64);
    /* One item more: vectors are read beyond the last one's end. */
    w->copy = br_zeros(BR_SHAPE(most + 1, w->size[0], w->size[1], g->channels), w->x->dtype);
    w->rows = most > 1 ? br__new("convolution", BR_SHAPE(g->outputs, k), w->x->dtype) : NULL;
    if (br_failed())
        return;
    w->b_rows = (int64_t *)lists->data;
    w->b_columns = w->b_rows + k;
    w->c_columns = w->b_columns + br__conv_met(g);
    list_weight(w, most);
    for (w->item = 0; w->item < g->batch && !br_failed(); w->item += most) {
        w->items = g->batch - w->item < most ? g->batch - w->item : most;
        weight_part(w);
    }
}

typedef struct turn {
    const br_convolution *g;
    const br_tensor *from, *to;
} turn;

/* One output's sums [taps, channels] become its weight [channels, taps]: a few channels at a time,
 * whose taps the first-level cache holds meanwhile. */
#define TURN(type, suffix)                                                             \
    static void turn_##suffix(const br_convolution *g, const void *sums, void *weight) \
    {                                                                                  \
        enum { FEW = 16 };                                                             \
        const int64_t taps = br__conv_taps(g), channels = g->channels / g->groups;     \
        const type *from = sums;                                                       \
        type *restrict to = weight;                                                    \
        for (int64_t first = 0; first < channels; first += FEW) {                      \
            const int64_t end = min64(channels, first + FEW);                          \
            for (int64_t t = 0; t < taps; t++)                                         \
                for (int64_t c = first; c < end; c++)                                  \
                    to[c * taps + t] = from[t * channels + c];                         \
        }                                                                              \
    }
TURN(float, f32)
TURN(double, f64)

static void turn_task(void *context, int64_t i)
{
    const turn *t = context;
    const int64_t at = i * br__conv_met(t->g) * (int64_t)br__dtype_size(t->to->dtype);
    (t->to->dtype == BR_F64 ? turn_f64 : turn_f32)(t->g, t->from->data + at, t->to->data + at);
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
                 : br__new("convolution", BR_SHAPE(g->outputs, br__conv_met(g)), weight->dtype);
    weight_work w = { .g = g, .x = x, .y = y };
    w.sums = dense ? dense->data : weight->data;
    if (!br_failed())
        sum_weight(&w);
    if (dense && !br_failed())
        br__parallel(g->outputs, turn_task, &(turn){ g, dense, weight });
    br_scope_end(scope);
}
