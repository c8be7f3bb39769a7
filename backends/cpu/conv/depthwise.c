/* backends/cpu/conv/depthwise.c - depthwise convolutions: each group has one channel. They are
 * computed plane by plane, because the matrix products of convolution_sums.c would have few rows.
 *
 * Each plane, or kernel, is computed by one task, which adds the contributions of outputs or items
 * in order. The results therefore do not depend on the number of threads. */
#include "backends/cpu/conv/convolution_ways.h"
#include "backends/cpu/kernels.h"
#include "tensor/min_max.h"

#include <string.h>

enum {
    MAX_OUTPUTS = 4,   /* per channel; with more, the matrix product is faster */
    SHARES = 4,        /* per thread, so that a slow share delays the others little */
    READ_PADDING = 64, /* bytes after a padded plane that may be read */
    TAP_BYTES = 64,    /* for the sums of a tap: at most one vector */
    EXTRA_TAPS = 4, /* room for more sums: the kernels process taps in groups, the last of which may
                      be partial */
    ITEMS = 8,      /* items that are summed in vector lanes before the lanes are summed */
};

typedef struct job {
    const br_convolution *g;
    const br_tensor *from, *weight, *to;
    br_padding padding;
    br_depthwise work;
    bool back; /* from planes of y to planes of x */
    int64_t planes, each;
    int64_t shares;
    char *scratch; /* of a share: a padded plane, then sums of taps */
    int64_t padded_bytes, scratch_bytes;
} job;

bool br__is_depthwise(const br_convolution *g)
{
    return g->groups > 1 && g->channels == g->groups && g->outputs > 0 &&
           g->outputs <= MAX_OUTPUTS * g->groups;
}

static char *plane_of(const br_tensor *t, int64_t i)
{
    return t->data + i * t->sizes[2] * t->sizes[3] * (int64_t)br__dtype_size(t->dtype);
}

/* Returns a padded copy of plane i of `from`, in the share's scratch memory. */
static char *padded_plane(const job *j, int64_t share, bool clear, int64_t i)
{
    char *to = j->scratch + share * j->scratch_bytes;
    br__pad(br__dtype_size(j->from->dtype), &j->padding, clear, plane_of(j->from, i), to);
    return to;
}

/* Computes plane i of the result. A channel has several outputs; an output has one channel. */
static void make_plane(const job *j, int64_t share, bool is_first, int64_t i)
{
    const br_convolution *g = j->g;
    const int64_t channels = j->to->sizes[1], item = i / channels, channel = i % channels;
    const int64_t first = j->back ? channel * j->each : channel / j->each;
    br_depthwise work = j->work;
    for (int64_t k = 0; k < (j->back ? j->each : 1); k++) {
        const int64_t source = item * j->from->sizes[1] + first + k;
        const int64_t output = j->back ? first + k : channel;
        const size_t kernel = (size_t)br__conv_taps(g) * br__dtype_size(j->to->dtype);
        br__kernels_of(j->to->dtype)
            ->depthwise(&work, padded_plane(j, share, is_first && k == 0, source),
                        j->weight->data + (size_t)output * kernel,
                        plane_of(j->to, i) +
                            (size_t)j->work.to_first * br__dtype_size(j->to->dtype));
        work.accumulate = true;
    }
}

/* Computes the gradient of an output's kernel. */
static void make_kernel(const job *j, int64_t share, int64_t output)
{
    const br_convolution *g = j->g;
    char *sums = j->scratch + share * j->scratch_bytes + j->padded_bytes;
    char *weight = plane_of(j->weight, output);
    memset(sums, 0, (size_t)(j->scratch_bytes - j->padded_bytes));
    memset(weight, 0, (size_t)br__conv_taps(g) * br__dtype_size(j->weight->dtype));
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

/* Lists the offsets of two axes' taps in a padded plane, and the indices of these taps in the
 * kernel. */
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

/* Splits the planes, or kernels, into shares and runs the task for each, with the positions and
 * taps of two axes. */
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
    j->shares = br__min(j->shares, j->planes);
    j->padded_bytes = (br__padded_size(&j->padding) * size + READ_PADDING + 63) / 64 * 64;
    j->scratch_bytes = j->padded_bytes + (taps + EXTRA_TAPS) * TAP_BYTES;
    br_scope *scope = br_scope_begin();
    br_tensor *lists = br__new_on_host("convolution", BR_SHAPE(2 * taps), BR_I64);
    br_tensor *scratch =
        br__new_on_host("convolution", BR_SHAPE(j->shares * j->scratch_bytes), BR_BOOL);
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
