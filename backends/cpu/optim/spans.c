/* backends/cpu/optim/spans.c - one parallel loop over many tensors. */
#include "backends/cpu/optim/spans.h"
#include "tensor/min_max.h"
#include "tensor/parallel.h"

/* Tensors start at multiples of this many elements, so that pieces begin at cache-line boundaries.
 */
enum { ALIGN = 16 };

void br__layout_spans(int64_t n, br_loop_span *spans)
{
    int64_t end = 0;
    for (int64_t i = 0; i < n; i++) {
        spans[i].start = end;
        end += (spans[i].numel + ALIGN - 1) / ALIGN * ALIGN;
    }
}

int64_t br__layout_separate_spans(int64_t n, br_loop_span *spans)
{
    int64_t n_pieces = 0;
    for (int64_t i = 0; i < n; i++) {
        spans[i].start = n_pieces * BR_GRAIN;
        n_pieces += br__pieces_of_span(&spans[i]);
    }
    return n_pieces;
}

int64_t br__pieces_of_span(const br_loop_span *span)
{
    return (span->numel + BR_GRAIN - 1) / BR_GRAIN;
}

typedef struct row {
    int64_t n;
    const br_loop_span *spans;
    br_piece_fn run;
    void *context;
} row;

/* Returns the last span that starts at or before `position`. */
static int64_t span_at(const row *r, int64_t position)
{
    int64_t lo = 0, hi = r->n - 1;
    while (lo < hi) {
        int64_t mid = (lo + hi + 1) / 2;
        if (r->spans[mid].start <= position)
            lo = mid;
        else
            hi = mid - 1;
    }
    return lo;
}

static void run_piece(void *context, int64_t piece)
{
    const row *r = context;
    int64_t first = piece * BR_GRAIN, last = first + BR_GRAIN;
    for (int64_t i = span_at(r, first); i < r->n && r->spans[i].start < last; i++) {
        const br_loop_span *s = &r->spans[i];
        int64_t from = first > s->start ? first - s->start : 0;
        int64_t to = br__min(last - s->start, s->numel);
        if (from < to)
            r->run(r->context, piece, i, from, to - from);
    }
}

void br__for_each_span(int64_t n, const br_loop_span *spans, br_piece_fn run, void *context)
{
    if (n == 0)
        return;
    int64_t end = spans[n - 1].start + spans[n - 1].numel;
    row r = { n, spans, run, context };
    br__parallel((end + BR_GRAIN - 1) / BR_GRAIN, run_piece, &r);
}
