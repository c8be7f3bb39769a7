/* tests/distributed/test_watch.c - connections of the watch with programs that are no ranks. */
#include "distributed/watch.h"
#include "tests/distributed/test.h"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

/* What a rank sends first, see distributed/watch_connect.c. */
typedef struct hello {
    uint64_t token;
    int64_t rank;
} hello;

/* Answers one connection. */
typedef struct answerer {
    int listener;
    uint64_t answer;
    size_t bytes; /* of the answer that are sent */
} answerer;

static void *answer_one(void *context)
{
    const answerer *a = context;
    hello h;
    int fd = accept(a->listener, NULL, NULL);
    if (recv(fd, &h, sizeof h, MSG_WAITALL) == (ssize_t)sizeof h)
        send(fd, &a->answer, a->bytes, MSG_NOSIGNAL);
    close(fd);
    return NULL;
}

/* A rank accepts only the program that knows the second word of the token. */
void test_answers_of_strangers(void)
{
    br_dist_invitation invitation = { .limit = 1 };
    char error[BR_COMM_TEXT] = "";
    int listener = br__dist_watch_listen(&invitation, true, error);
    if (!check(listener >= 0))
        return;
    const uint64_t right = invitation.token[1];
    const struct {
        answerer with;
        bool connects;
    } cases[] = {
        { { listener, right, sizeof right }, true },
        { { listener, right + 1, sizeof right }, false },
        { { listener, right ^ (uint64_t)1 << 63, sizeof right }, false },
        { { listener, invitation.token[0], sizeof right }, false },
        { { listener, 0, sizeof right }, false },
        { { listener, right, sizeof right - 1 }, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pthread_t thread;
        if (!check(pthread_create(&thread, NULL, answer_one, (void *)&cases[i].with) == 0))
            break;
        int fd = br__dist_watch_connect(&invitation, 1, error);
        pthread_join(thread, NULL);
        check((fd >= 0) == cases[i].connects);
        check((*error == '\0') == cases[i].connects);
        if (fd >= 0)
            close(fd);
    }
    close(listener);
}

/* Connects to the listener and sends a hello. Returns the socket. */
static int greet(int listener, hello h, size_t bytes)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    check(connect(fd, (struct sockaddr *)&address, length) == 0);
    check(send(fd, &h, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
    shutdown(fd, SHUT_WR);
    return fd;
}

/* Rank 0 accepts only programs that know the first word of the token, and tells the second word to
 * no other. */
void test_greetings_of_strangers(void)
{
    br_dist_invitation invitation = { .limit = 1 };
    char error[BR_COMM_TEXT] = "";
    int listener = br__dist_watch_listen(&invitation, true, error);
    if (!check(listener >= 0))
        return;
    const uint64_t right = invitation.token[0];
    const struct {
        hello with;
        size_t bytes;
        bool enters;
    } cases[] = {
        { { right, 3 }, sizeof(hello), true },
        { { right + 1, 3 }, sizeof(hello), false },
        { { invitation.token[1], 3 }, sizeof(hello), false },
        { { right, 3 }, sizeof(hello) - 1, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int other = greet(listener, cases[i].with, cases[i].bytes), found = -1;
        int fd = br__dist_watch_accept(listener, &invitation, &found);
        uint64_t told;
        ssize_t n = recv(other, &told, sizeof told, MSG_WAITALL);
        check((fd >= 0) == cases[i].enters);
        check(found == (cases[i].enters ? 3 : -1));
        check((n == (ssize_t)sizeof told && told == invitation.token[1]) == cases[i].enters);
        if (fd >= 0)
            close(fd);
        close(other);
    }
    close(listener);
}
