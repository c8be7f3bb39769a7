/* tests/train/test_train_log.c - the log of a training run when memory runs out. */
#include "tests/allocations.h"
#include "tests/io/files.h"
#include "train/train_log.h"

#include <brasa/brasa.h>

TestSuite(train_log, .init = files_begin, .fini = files_end);

/* Each allocation of the first line, which makes the lists of values, fails in turn. Without memory
 * for its buffer, the C library writes the file unbuffered, which is no error. */
Test(train_log, memory_runs_out)
{
    bool failed = allocations_can_fail();
    for (int64_t n = 0; failed; n++) {
        train_log log = { .n_names = 1, .n_losses = 1, .names = { "loss" } };
        log.path = files_path("log");
        cr_assert(train_log_open(&log, 0), "%s", br_error_message());
        allocations_begin(n, false);
        bool ok = train_log_add(&log, 1, &(double){ 2 }, 0);
        allocations_end(&failed);
        cr_assert_eq(br_error_code(), ok ? BR_OK : BR_ERROR_MEMORY, "allocation %d: %s", (int)n,
                     br_error_message());
        cr_assert(ok || failed);
        cr_assert_eq(log.count, ok);
        br_clear_error();
        train_log_close(&log);
    }
}
