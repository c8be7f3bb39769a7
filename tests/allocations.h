/* tests/allocations.h - makes any allocation of the test program fail, including those of
 * libraries.
 *
 * tests/memory.h only fails requests that Brasa makes to its allocator. Here every malloc(),
 * calloc(), realloc() and aligned allocation of the process can fail, which also tests how jansson
 * and the C library handle failures. */
#ifndef BR_TESTS_ALLOCATIONS_H
#define BR_TESTS_ALLOCATIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Returns false if the C library's allocator cannot be replaced, e.g. under AddressSanitizer. */
bool allocations_can_fail(void);

/* Makes allocation number n (counted from 0, starting now) fail; with `all`, also every later one.
 */
void allocations_begin(int64_t n, bool all);
/* Stops failing allocations. Returns how many more blocks are in use than at
 * allocations_begin(), and sets *failed if any allocation failed. */
int64_t allocations_end(bool *failed);

/* A task under test, which hashes everything that it reads into *digest. Returns false with an
 * error pending on failure. */
typedef bool (*allocations_task)(uint64_t *digest);

/* Runs the task with allocation 0, 1, ... failing, first alone and then with all later ones, until
 * no allocation fails. Each run must either report an error or produce the usual digest, and must
 * not leak. */
void allocations_fail_in_turn(allocations_task task, const char *name);

#endif
