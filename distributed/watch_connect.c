/* distributed/watch_connect.c - how the ranks connect with the watch of rank 0. */
#include "distributed/watch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* Seconds. A stranger who connects and says nothing must not keep rank 0's thread for long. */
enum { ACCEPT_TIME = 1, CONNECT_TIME = 5 };
enum { MAX_ADDRESSES = sizeof((br_dist_invitation *)0)->addresses / sizeof(struct in_addr) };

/* The first bytes of a connection. Rank 0 answers with token[1]. */
typedef struct hello {
    uint64_t token;
    int64_t rank;
} hello;

/* Writes "WHAT: REASON", closes the socket, and returns -1. */
static int fail(int fd, char *error, const char *what)
{
    snprintf(error, BR_COMM_TEXT, "%s: %s", what, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Limits the time that a call may take, and sends small messages at once. */
static void set_options(int fd, int seconds)
{
    struct timeval time = { .tv_sec = seconds };
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static bool send_all(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool recv_all(int fd, void *data, size_t bytes)
{
    ssize_t n = recv(fd, data, bytes, MSG_WAITALL);
    if (n >= 0 && n < (ssize_t)bytes)
        errno = ECONNRESET;
    return n == (ssize_t)bytes;
}

/* ---- Rank 0 ---------------------------------------------------------------------------------- */

/* Stores the addresses of this machine's network interfaces. */
static void find_addresses(br_dist_invitation *invitation)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i && invitation->n_addresses < MAX_ADDRESSES;
         i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) ||
            i->ifa_flags & IFF_LOOPBACK)
            continue;
        struct sockaddr_in address;
        memcpy(&address, i->ifa_addr, sizeof address);
        invitation->addresses[invitation->n_addresses++] = address.sin_addr;
    }
    freeifaddrs(all);
}

int br__dist_watch_listen(br_dist_invitation *invitation, bool one_machine, char *error)
{
    struct in_addr loopback = { htonl(INADDR_LOOPBACK) };
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
    socklen_t length = sizeof address;
    if (one_machine) {
        address.sin_addr = loopback;
        invitation->addresses[invitation->n_addresses++] = loopback;
    } else {
        find_addresses(invitation);
    }
    if (getrandom(invitation->token, sizeof invitation->token, 0) !=
        (ssize_t)sizeof invitation->token)
        return fail(-1, error, "getrandom");
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, SOMAXCONN) != 0 || getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        return fail(fd, error, "cannot listen for connections");
    invitation->port = address.sin_port;
    return fd;
}

int br__dist_watch_accept(int listener, const br_dist_invitation *invitation, int *rank)
{
    hello h;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return -1;
    set_options(fd, ACCEPT_TIME);
    if (recv_all(fd, &h, sizeof h) && h.token == invitation->token[0] &&
        send_all(fd, &invitation->token[1], sizeof invitation->token[1])) {
        *rank = (int)h.rank;
        return fd;
    }
    close(fd);
    return -1;
}

/* ---- The other ranks ------------------------------------------------------------------------- */

static int connect_to(struct in_addr to, const br_dist_invitation *invitation, int rank,
                      char *error)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = invitation->port,
                                   .sin_addr = to };
    hello h = { invitation->token[0], rank };
    uint64_t answer = 0;
    char name[INET_ADDRSTRLEN] = "", text[64];
    inet_ntop(AF_INET, &to, name, sizeof name);
    snprintf(text, sizeof text, "%s port %d", name, ntohs(invitation->port));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail(fd, error, text);
    set_options(fd, CONNECT_TIME);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        !send_all(fd, &h, sizeof h) || !recv_all(fd, &answer, sizeof answer))
        return fail(fd, error, text);
    if (answer == invitation->token[1])
        return fd;
    errno = EPROTO; /* another program answered */
    return fail(fd, error, text);
}

int br__dist_watch_connect(const br_dist_invitation *invitation, int rank, char *error)
{
    snprintf(error, BR_COMM_TEXT, "rank 0 has no address");
    for (int i = 0; i < invitation->n_addresses; i++) {
        int fd = connect_to(invitation->addresses[i], invitation, rank, error);
        if (fd >= 0) {
            *error = '\0';
            return fd;
        }
    }
    return -1;
}
