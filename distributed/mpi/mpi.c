/* distributed/mpi/mpi.c - the transport over MPI: a plug-in that is built for each MPI.
 *
 * It uses nothing of Brasa but the table of functions. A message is one MPI message of bytes, whose
 * tag is the channel. MPI's own collectives are not used: they leave the order of sums open, and
 * waiting in them takes a core. */
#include <brasa/distributed/comm.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The communicator of a process. MPI can be initialized only once, so there is only one. */
static MPI_Comm world = MPI_COMM_NULL;
static bool owns_mpi; /* this file has initialized MPI, and finalizes it */

typedef struct request {
    MPI_Request request;
    size_t bytes; /* that are expected; 0 for a send */
} request;

/* Returns true if the MPI call succeeded; otherwise writes a message. */
static bool ok(const char *call, int status, char *error)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (status == MPI_SUCCESS)
        return true;
    if (MPI_Error_string(status, text, &length) != MPI_SUCCESS)
        length = 0;
    snprintf(error, BR_COMM_TEXT, "%s failed: %.*s", call, length, text);
    return false;
}

static request *new_request(size_t bytes, char *error)
{
    request *r = malloc(sizeof *r);
    if (r)
        *r = (request){ MPI_REQUEST_NULL, bytes };
    else
        snprintf(error, BR_COMM_TEXT, "cannot allocate a request");
    return r;
}

static void *start_send(br_comm *comm, int peer, int channel, const void *data, size_t bytes,
                        char *error)
{
    request *r = new_request(0, error);
    (void)comm;
    if (r && ok("MPI_Isend",
                MPI_Isend(data, (int)bytes, MPI_BYTE, peer, channel, world, &r->request), error))
        return r;
    free(r);
    return NULL;
}

static void *start_recv(br_comm *comm, int peer, int channel, void *data, size_t bytes, char *error)
{
    request *r = new_request(bytes, error);
    (void)comm;
    if (r && ok("MPI_Irecv",
                MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, channel, world, &r->request), error))
        return r;
    free(r);
    return NULL;
}

/* Checks that a received message has the expected size. */
static bool whole(const request *r, const MPI_Status *status, char *error)
{
    int count = 0;
    if (r->bytes == 0)
        return true;
    if (!ok("MPI_Get_count", MPI_Get_count(status, MPI_BYTE, &count), error))
        return false;
    if ((size_t)count != r->bytes)
        snprintf(error, BR_COMM_TEXT, "received %d bytes, expected %zu", count, r->bytes);
    return (size_t)count == r->bytes;
}

static br_comm_status test(br_comm *comm, void *handle, char *error)
{
    request *r = handle;
    int complete = 0;
    MPI_Status status;
    (void)comm;
    bool good = ok("MPI_Test", MPI_Test(&r->request, &complete, &status), error);
    if (good && !complete)
        return BR_COMM_PENDING;
    good = good && whole(r, &status, error);
    free(r);
    return good ? BR_COMM_DONE : BR_COMM_FAILED;
}

/* MPI moves data only in calls of its functions, and none is called after a failure. So the
 * request needs no cancellation, which could wait for the other rank. */
static void abandon(br_comm *comm, void *handle)
{
    (void)comm;
    free(handle);
}

static void finalize(br_comm *comm, bool orderly)
{
    (void)comm;
    if (orderly)
        MPI_Comm_free(&world);
    if (orderly && owns_mpi)
        MPI_Finalize();
    owns_mpi = false;
}

/* ---- Start ----------------------------------------------------------------------------------- */

/* Initializes MPI, unless the program has done so. Stores the level of threads. */
static bool begin(int *level, char *error)
{
    int initialized = 0, finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (finalized) {
        snprintf(error, BR_COMM_TEXT, "MPI was finalized, and cannot be initialized again");
        return false;
    }
    if (initialized)
        return ok("MPI_Query_thread", MPI_Query_thread(level), error);
    owns_mpi =
        ok("MPI_Init_thread", MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, level), error);
    return owns_mpi;
}

/* Returns the name and version, such as "Open MPI v4.1.4". */
static const char *library(void)
{
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (MPI_Get_library_version(text, &length) != MPI_SUCCESS)
        return "MPI";
    text[strcspn(text, "\n,")] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '\t')
            *c = ' ';
    return text;
}

BR_API bool br_comm_open(br_comm *comm, char *error);

bool br_comm_open(br_comm *comm, char *error)
{
    int level = MPI_THREAD_SINGLE;
    if (comm->struct_size != sizeof *comm) {
        snprintf(error, BR_COMM_TEXT, "the plug-in was built for another version of brasa");
        return false;
    }
    if (!begin(&level, error) || !ok("MPI_Comm_dup", MPI_Comm_dup(MPI_COMM_WORLD, &world), error) ||
        !ok("MPI_Comm_set_errhandler", MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN), error) ||
        !ok("MPI_Comm_rank", MPI_Comm_rank(world, &comm->rank), error) ||
        !ok("MPI_Comm_size", MPI_Comm_size(world, &comm->size), error))
        return false;
    comm->library = library();
    comm->max_bytes = 1 << 30; /* MPI counts with int */
    comm->any_thread = level >= MPI_THREAD_SERIALIZED;
    comm->start_send = start_send;
    comm->start_recv = start_recv;
    comm->test = test;
    comm->abandon = abandon;
    comm->finalize = finalize;
    return true;
}
