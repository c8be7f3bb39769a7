/* brasa/distributed/comm.h - the transport that brasa/distributed.h is built on.
 *
 * A transport moves bytes between the ranks of a program, and does nothing else: groups,
 * agreements, reductions and all collectives are computed by Brasa from point-to-point messages.
 * br_dist_init() loads one over MPI if mpirun started the program. A program may pass a transport
 * of its own as an option of br_dist_init(). */
#ifndef BRASA_DISTRIBUTED_COMM_H
#define BRASA_DISTRIBUTED_COMM_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    /* Between two ranks there is one stream of messages in each direction for each channel, 0 ..
     * BR_COMM_CHANNELS - 1. The channels do not wait for each other. */
    BR_COMM_CHANNELS = 2,
    BR_COMM_TEXT = 256, /* size of the buffers for error messages */
};

typedef enum br_comm_status {
    BR_COMM_PENDING,
    BR_COMM_DONE,
    BR_COMM_FAILED,
} br_comm_status;

/* A transport. Its functions do not wait. After br_dist_init() they are called by one thread at a
 * time, which sleeps between two calls of `test` and never holds a lock of the program.
 *
 * Messages: the first send of a rank on a channel to a peer belongs to the first receive of the
 * peer on that channel from that rank, and so on. Both have the same number of bytes, from 1 to
 * max_bytes: Brasa cuts what is larger into several messages. The memory stays valid until the
 * request has ended. A send may be complete before its receive starts, but need not be.
 *
 * Errors: a function that fails writes a message to `error`, which has BR_COMM_TEXT bytes. Brasa
 * adds the peer's number, and starts no communication after a failure. */
typedef struct br_comm br_comm;
struct br_comm {
    size_t struct_size;  /* sizeof(br_comm), to recognize a transport for another version */
    const char *library; /* name and version, such as "Open MPI v4.1.4" */
    int rank, size;      /* of this process among all; 0 <= rank < size */
    size_t max_bytes;    /* of one message; at least 1024, and the same on all ranks */
    /* The functions may be called by other threads than the one that called br_dist_init(), one at
     * a time. Otherwise the option progress_thread must be false. */
    bool any_thread;
    void *state; /* the transport's own */

    /* Start a message to another rank, and one from another rank. Return a request, which `test` or
     * `abandon` ends; NULL on failure. */
    void *(*start_send)(br_comm *comm, int peer, int channel, const void *data, size_t bytes,
                        char *error);
    void *(*start_recv)(br_comm *comm, int peer, int channel, void *data, size_t bytes,
                        char *error);
    /* Moves data, and returns the state of a request. BR_COMM_DONE and BR_COMM_FAILED end it. */
    br_comm_status (*test)(br_comm *comm, void *request, char *error);
    /* Ends a request whose message did not arrive. Called only after a failure; no function but
     * `abandon` and `finalize` is called afterwards. */
    void (*abandon)(br_comm *comm, void *request);
    /* Ends the transport and frees its state. `orderly` is false after a failure: the other ranks
     * may be anywhere then, so it must not wait for them. */
    void (*finalize)(br_comm *comm, bool orderly);
};

/* The type of the function `br_comm_open` that a plug-in exports. It fills the table, whose
 * struct_size is set, or writes a message to `error` and returns false. */
typedef bool (*br_comm_open_function)(br_comm *comm, char *error);

#ifdef __cplusplus
}
#endif
#endif
