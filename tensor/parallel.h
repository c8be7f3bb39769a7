/* tensor/parallel.h - loops on several threads. */
#ifndef BR_TENSOR_PARALLEL_H
#define BR_TENSOR_PARALLEL_H

#include <stdint.h>

/* Calls task(context, i) for i in 0 .. n-1 on up to br_get_num_threads() threads. The effect of a
 * task must not depend on the thread that runs it. Runs serially inside another parallel loop. */
void br__parallel(int64_t n, void (*task)(void *context, int64_t i), void *context);
/* Limits the default number of threads, because other processes use the same processors. A number
 * that the program has set stays. */
void br__limit_threads(int limit);
/* Makes all further loops of the calling thread run serially. Background threads of the library
 * call it, so that their loops never keep loops of the program's threads from running in
 * parallel. */
void br__run_loops_serially(void);
/* Pauses in iteration i of a spin loop; after many iterations, yields to other threads. */
void br__spin_pause(int i);
/* Elements per task for a loop with cheap elements. */
enum { BR_GRAIN = 32768 };
/* Operands of at least this size are too large to stay in the caches until a later operation. */
enum { BR_STREAMING_BYTES = 8 << 20 };
/* Pieces of rows are multiples of this many elements: whole vectors and cache lines. */
enum { BR_PIECE_UNIT = 64 };
/* Returns how many of n items one task should process: at most `max_size`, then rounded up to a
 * multiple of `unit`, a power of 2. Yields an even number of equal tasks, so that two threads, or a
 * few more, finish at the same time. */
int64_t br__piece_size(int64_t n, int64_t max_size, int64_t unit);
/* Returns p advanced by `bytes`, to the part of an array that one task processes; NULL stays
 * NULL. */
static inline void *br__offset_pointer(const void *p, int64_t bytes)
{
    return p ? (char *)(uintptr_t)p + bytes : NULL;
}

#endif
