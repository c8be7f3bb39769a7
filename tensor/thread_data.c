/* tensor/thread_data.c - a thread's rarely used data: buffers for messages, and the random
 * generator.
 *
 * The thread-local variables themselves take only a few hundred bytes. The library accesses them at
 * a fixed offset in each thread (-ftls-model=initial-exec), since a function call for each access
 * would take longer than a small operation. Little space for such variables is left if a program
 * loads the library at run time, so all rarely used data is allocated instead. */
#include "tensor/tensor_internal.h"

#include <stdlib.h>

/* Uses the C library's allocator: an allocation failure here must not raise an error, whose message
 * needs this memory. */
br_thread_cold *br__thread_cold(void)
{
    static br_thread_cold shared;
    br_thread *th = &br__thread;
    if (!th->cold_data && br__list_thread())
        th->cold_data = calloc(1, sizeof *th->cold_data);
    return th->cold_data ? th->cold_data : &shared;
}

void br__thread_cold_free(void)
{
    br__keep_error_at_thread_exit();
    free(br__thread.cold_data);
    free(br__thread.generator);
    br__thread.cold_data = NULL;
    br__thread.generator = NULL;
}
