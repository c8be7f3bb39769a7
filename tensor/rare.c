/* tensor/rare.c - what a thread wants only at times: texts for messages, random bits.
 *
 * The thread-local variables themselves are a few hundred bytes. The library reads them at a fixed
 * place of each thread (-ftls-model=initial-exec), where a program that loads it while it runs has
 * little room; a call for each access would take more time than a small operation does. */
#include "tensor/tensor_internal.h"

#include <stdlib.h>

/* From the C library's allocator: it must not fail by an error, which would want a message. */
br_rare *br__rare(void)
{
    static br_rare shared;
    br_thread *th = &br__thread;
    if (!th->rare && br__list_thread())
        th->rare = calloc(1, sizeof *th->rare);
    return th->rare ? th->rare : &shared;
}

void br__rare_free(void)
{
    free(br__thread.rare);
    free(br__thread.generator);
    br__thread.rare = NULL;
    br__thread.generator = NULL;
}
