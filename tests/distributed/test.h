/* tests/distributed/test.h - tests that every rank runs together.
 *
 * Each rank is a process of this program; Criterion, which runs each test in a process of its own,
 * cannot be used. A test is a function of the table in main.c. A failed check is reported and
 * counted, and the test goes on, so that the other ranks do not wait for this one. */
#ifndef BR_TESTS_DISTRIBUTED_TEST_H
#define BR_TESTS_DISTRIBUTED_TEST_H

#include <brasa/distributed.h>
#include <stdbool.h>
#include <string.h>

#include <brasa/brasa.h>

extern int rank, size; /* of this process among all */

/* Reports a failed check. Returns the condition. */
bool check_that(bool condition, const char *text, const char *file, int line);
#define check(condition) check_that((condition), #condition, __FILE__, __LINE__)

/* Checks that the expression is false or NULL and that the pending error contains `part`, and
 * clears the error. */
#define check_fails(expression, part) \
    check_error((expression) ? true : false, part, __FILE__, __LINE__)
void check_error(bool succeeded, const char *part, const char *file, int line);

void test_groups(void);
void test_broadcast(void);
void test_reductions(void);
void test_reduction_order(void);
void test_gather_and_scatter(void);
void test_all_to_all(void);
void test_send_and_receive(void);
void test_messages_by_tag(void);
void test_disagreements(void);
void test_disagreements_of_every_function(void);
void test_errors_of_other_ranks(void);
void test_signals(void);
void test_arguments(void);

void test_versions(void);

void test_answers_of_strangers(void);
void test_greetings_of_strangers(void);

void test_passes_equal_one_process(void);
void test_mean(void);
void test_sync_can_be_turned_off(void);
void test_unused_parameters(void);
void test_dtypes_in_buckets(void);
void test_gradients_are_views_of_buckets(void);
void test_buffers(void);
void test_join(void);
void test_different_modules(void);
void test_training_reaches_the_same_parameters(void);

void test_every_move_of_a_parameter(void);
void test_every_move_of_a_bucket(void);

void test_buckets_are_sent_during_backward(void);
void test_profile_shows_the_wait(void);

void test_tied_weights_are_sent_early(void);
void test_early_gradients_and_accumulation(void);
void test_early_gradients_that_hooks_change(void);
void test_early_gradients_of_some_ranks(void);
/* The last rank fails after the first bucket was sent. Returns the exit status. */
int fail_after_sending(void);

void test_sharded_equals_one_process(void);
void test_scattered_equals_one_process(void);
void test_groups_and_schedulers(void);
void test_checkpoints_and_other_numbers_of_ranks(void);
void test_memory_is_shared_out(void);
void test_whole_parameters_are_shared_out(void);

void test_sharded_arguments(void);
void test_parameters_of_sharded_optimizers(void);
void test_states_that_do_not_match(void);
void test_kinds_that_are_not_elementwise(void);
void test_ranks_that_differ_in_a_step(void);
void test_ranks_of_a_group_in_messages(void);
void test_order_of_freeing(void);
void test_scattered_gradients(void);

#endif
