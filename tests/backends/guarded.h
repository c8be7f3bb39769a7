/* tests/backends/guarded.h - devices for tests, whose memory only their own entries can read.
 *
 * A tensor's address on such a device is not that of its memory, but far outside of the process's,
 * so code that reads or writes elements crashes at that place. Only the entries know the memory:
 * they pass it to the CPU's. There are two devices, guarded:0 and guarded:1. */
#ifndef BR_TESTS_GUARDED_H
#define BR_TESTS_GUARDED_H

#include "backends/backend.h"

/* Returns guarded:0 or guarded:1. */
br_device guarded_device(int index);
/* Makes *backend a guarded device of that name, whose entries the test may replace. */
br_device guarded_copy(br_backend *backend, const char *name);
/* Makes guarded:0 the default device of the thread if the environment variable BRASA_TEST_DEVICE is
 * "guarded". Every test begins with it (check_begin()). */
void use_test_device(void);

#endif
