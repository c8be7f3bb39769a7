/* backends/cpu/optim/spans.h - one parallel loop over many tensors.
 *
 * The tensors are laid out end to end and divided into pieces of BR_GRAIN elements. A piece covers
 * part of a tensor or several tensors. */
#ifndef BR_CPU_SPANS_H
#define BR_CPU_SPANS_H

#include "backends/optim.h"

/* Set the starts of spans, whose `numel` is set. br__layout_separate_spans() begins each span with
 * a new piece, and returns the number of pieces. */
void br__layout_spans(int64_t n, br_loop_span *spans);
int64_t br__layout_separate_spans(int64_t n, br_loop_span *spans);
/* Returns the number of pieces of a span that begins with a new piece. */
int64_t br__pieces_of_span(const br_loop_span *span);
/* Calls run for all items, piece by piece, with elements from .. from + count - 1 of `item`. */
typedef void (*br_piece_fn)(void *context, int64_t piece, int64_t item, int64_t from,
                            int64_t count);
void br__for_each_span(int64_t n, const br_loop_span *spans, br_piece_fn run, void *context);

#endif
