/* ops/depthwise.c - convolutions whose groups have one channel each: planes by kernels, without the
 * products of convolution.c, of which each would have few rows.
 *
 * A task is what is added to some planes, or to some kernels, in the order of outputs and items; so
 * results do not depend on the number of threads. */
#include "ops/convolution_internal.h"

enum {
    MOST_OUTPUTS = 4, /* of a channel: the product pays for more */
    SHARES = 4,       /* of a thread, so that one that is late costs little */
    BEHIND = 64,      /* bytes that may be read behind a padded plane */
    TAP_BYTES = 64,   /* of a tap's sums: a vector, at most */
    MORE_TAPS = 4,    /* that kernels sum besides, to have whole groups of them */
    ITEMS = 8,        /* that are summed by the lanes of vectors before these are */
};

typedef struct job {
    const br_convolution *g;
    const br_tensor *from, *weight, *to;
    br_padding padding;
    br_depthwise work;
    bool back; /* from y's planes to x's */
    int64_t planes, each;
    int64_t shares;
    char *scratch; /* a share's: a padded plane, then sums of taps */
    int64_t padded_bytes, scratch_bytes;
} job;

bool br__is_depthwise(const br_convolution *g)
{
    return g->groups > 1 && g->channels == g->groups && g->outputs > 0 &&
           g->outputs <= MOST_OUTPUTS * g->groups;
}

static char *plane_of(const br_tensor *t, int64_t i)
{
    return t->data + i * t->sizes[2] * t->sizes[3] * (int64_t)br__dtype_size(t->dtype);
}

/* A plane of `from`, padded, in the share's scratch. */
static char *padded_plane(const job *j, int64_t share, bool clear, int64_t i)
{
    char *to = j->scratch + share * j->scratch_bytes;
    (j->from->dtype == BR_F64 ? br__pad_f64 : br__pad_f32)(&j->padding, clear, plane_of(j->from, i),
                                                           to);
    return to;
}

/* Plane i of the result. A channel has several outputs, an output one channel. */
static void make_plane(const job *j, int64_t share, bool is_first, int64_t i)
{
    const br_convolution *g = j->g;
    const int64_t channels = j->to->sizes[1], item = i / channels, channel = i % channels;
    const int64_t first = j->back ? channel * j->each : channel / j->each;
    br_depthwise work = j->work;
    for (int64_t k = 0; k < (j->back ? j->each : 1); k++) {
        const int64_t source = item * j->from->sizes[1] + first + k;
        const int64_t output = j->back ? first + k : channel;
        const size_t kernel = (size_t)(g->kernel[0] * g->kernel[1]) * br__dtype_size(j->to->dtype);
        br__kernels_of(j->to->dtype)
            ->depthwise(&work, padded_plane(j, share, is_first && k == 0, source),
                        j->weight->data + (size_t)output * kernel,
                        plane_of(j->to, i) +
                            (size_t)j->work.to_first * br__dtype_size(j->to->dtype));
        work.accumulate = true;
    }
}

/* The gradient of an output's kernel. */
static void make_kernel(const job *j, int64_t share, int64_t output)
{
    const br_convolution *g = j->g;
    char *sums = j->scratch + share * j->scratch_bytes + j->padded_bytes;
    char *weight = plane_of(j->weight, output);
    memset(sums, 0, (size_t)(j->scratch_bytes - j->padded_bytes));
    for (int64_t item = 0; item < g->batch; item++) {
        const char *plane =
            padded_plane(j, share, item == 0, item * g->channels + output / j->each);
        const bool last = (item + 1) % ITEMS == 0 || item + 1 == g->batch;
        br__kernels_of(j->from->dtype)
            ->depthwise_weight(&j->work, plane, plane_of(j->to, item * g->outputs + output), sums,
                               last ? weight : NULL);
    }
}

static void planes_task(void *context, int64_t share)
{
    const job *j = context;
    const int64_t first = j->planes * share / j->shares;
    for (int64_t i = first; i < j->planes * (share + 1) / j->shares; i++)
        make_plane(j, share, i == first, i);
}

static void kernels_task(void *context, int64_t share)
{
    const job *j = context;
    for (int64_t i = j->planes * share / j->shares; i < j->planes * (share + 1) / j->shares; i++)
        make_kernel(j, share, i);
}

/* Where the taps of two axes lie, and which of the kernel's they are. */
static void list_taps(const job *j, const br_axis *a, int64_t *at, int64_t *which)
{
    for (int64_t y = 0; y < a[0].taps; y++)
        for (int64_t x = 0; x < a[1].taps; x++) {
            *at++ = br__padded_at(&j->padding, a[0].from + y * a[0].tap_step,
                                  a[1].from + x * a[1].tap_step);
            *which++ = (a[0].first_tap + y * a[0].tap_stride) * j->g->kernel[1] + a[1].first_tap +
                       x * a[1].tap_stride;
        }
}

/* Runs the task over shares of the planes, or kernels, with the positions and taps of two axes. */
static void run(job *j, const br_axis *a, void (*task)(void *context, int64_t share))
{
    const int64_t taps = a[0].taps * a[1].taps;
    const int64_t size = (int64_t)br__dtype_size(j->to->dtype), width = j->to->sizes[3];
    j->work.rows = a[0].positions, j->work.columns = a[1].positions;
    j->work.row_step = br__padded_at(&j->padding, a[0].from_step, 0);
    j->work.taps = taps;
    j->work.to_first = a[0].to * width + a[1].to;
    j->work.to_row = a[0].to_step * width, j->work.to_step = a[1].to_step;
    j->each = j->g->outputs / j->g->groups;
    j->shares = SHARES * br_get_num_threads();
    j->shares = j->shares < j->planes ? j->shares : j->planes;
    j->padded_bytes = (br__padded_size(&j->padding) * size + BEHIND + 63) / 64 * 64;
    j->scratch_bytes = j->padded_bytes + (taps + MORE_TAPS) * TAP_BYTES;
    br_scope *scope = br_scope_begin();
    br_tensor *lists = br__new("convolution", BR_SHAPE(2 * taps), BR_I64);
    br_tensor *scratch = br__new("convolution", BR_SHAPE(j->shares * j->scratch_bytes), BR_BOOL);
    if (lists && scratch && j->work.rows > 0 && j->work.columns > 0) {
        int64_t *at = (int64_t *)lists->data;
        list_taps(j, a, at, at + taps);
        j->work.at = at, j->work.which = at + taps;
        j->scratch = scratch->data;
        br__parallel(j->shares, task, j);
    }
    br_scope_end(scope);
}

static job job_of(const br_convolution *g, const br_tensor *from, const br_tensor *weight,
                  const br_tensor *to, bool back)
{
    return (job){ .g = g,
                  .from = from,
                  .weight = weight,
                  .to = to,
                  .padding = back ? br__padding_of_y(g) : br__padding_of_x(g),
                  .back = back };
}

void br__depthwise(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                   const br_tensor *y, bool keeps)
{
    job j = job_of(g, x, weight, y, false);
    j.planes = g->batch * g->outputs;
    j.work.accumulate = keeps;
    run(&j, (br_axis[]){ br__axis(g, 0), br__axis(g, 1) }, planes_task);
}

void br__depthwise_back(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                        const br_tensor *y)
{
    for (int64_t i = 0; i < g->stride[0]; i++)
        for (int64_t k = 0; k < g->stride[1]; k++) {
            job j = job_of(g, y, weight, x, true);
            j.planes = g->batch * g->channels;
            run(&j, (br_axis[]){ br__phase_axis(g, 0, i), br__phase_axis(g, 1, k) }, planes_task);
        }
}

void br__depthwise_weight(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                          const br_tensor *y)
{
    job j = job_of(g, x, weight, y, false);
    j.planes = g->outputs;
    run(&j, (br_axis[]){ br__axis(g, 0), br__axis(g, 1) }, kernels_task);
}
