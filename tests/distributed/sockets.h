/* tests/distributed/sockets.h - a transport for tests: the ranks are processes that this program
 * forks, connected by pairs of sockets. */
#ifndef BR_TESTS_DISTRIBUTED_SOCKETS_H
#define BR_TESTS_DISTRIBUTED_SOCKETS_H

#include <brasa/distributed.h>

enum { MAX_FORKED = 8 };

/* Forks `size` ranks, at most MAX_FORKED. Returns in each of them, with a transport that the rank
 * passes to br_dist_init(). The calling process waits for the ranks and exits: with 0 if all of
 * them did, with 128 plus its number if a signal ended one. Messages have at most max_bytes. */
br_comm fork_ranks(int size, size_t max_bytes);

#endif
