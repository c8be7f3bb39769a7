/* tensor/report.c - reports errors and warnings: to the program's callback, on stderr if
 * BRASA_ERRORS requests it, and on stderr when a process ends with an unhandled error. */
#include "tensor/tensor_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

typedef enum show { SHOW_AT_EXIT, SHOW_PRINT, SHOW_ABORT, SHOW_SILENT } show;
static const char *const shows[] = {
    [SHOW_AT_EXIT] = "", [SHOW_PRINT] = "print", [SHOW_ABORT] = "abort", [SHOW_SILENT] = "silent"
};

static struct {
    pthread_mutex_t lock;
    show show;
    bool no_exit_report;
    br_error_callback callback;
    void *context;
    uint64_t raised;
    br_unhandled_error *first;
    br_unhandled_error left; /* the first unhandled error of ended threads; message NULL: none */
    char left_message[BR_MESSAGE_SIZE];
} all = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- The report at exit ---------------------------------------------------------------------- */

static void report_at_exit(void)
{
    pthread_mutex_lock(&all.lock);
    const br_unhandled_error *first = NULL;
    all.left.next = all.first;
    for (const br_unhandled_error *u = &all.left; u; u = u->next)
        if (u->message && u->process == getpid() && (!first || u->number < first->number))
            first = u;
    if (first && !all.no_exit_report)
        fprintf(stderr, "brasa: unhandled error (print and clear it with br_report()): %s\n",
                first->message);
    pthread_mutex_unlock(&all.lock);
}

/* Hold the lock across a fork, so that the child does not inherit it locked by another thread. */
static void close_lock(void)
{
    pthread_mutex_lock(&all.lock);
}

static void open_lock(void)
{
    pthread_mutex_unlock(&all.lock);
}

static void begin(void)
{
    const char *value = getenv("BRASA_ERRORS");
    int n = sizeof shows / sizeof *shows, i = 0;
    while (value && i < n && strcmp(value, shows[i]) != 0)
        i++;
    if (i < n)
        all.show = (show)i;
    else
        fprintf(stderr, "brasa: BRASA_ERRORS is '%s', must be print, abort or silent\n",
                br_printable(value));
    if (all.show == SHOW_AT_EXIT)
        atexit(report_at_exit);
    pthread_atfork(close_lock, open_lock, open_lock);
}

static void begin_once(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, begin);
}

static void unlink_unhandled(br_unhandled_error *u)
{
    *u->link = u->next;
    if (u->next)
        u->next->link = u->link;
    u->link = NULL;
}

void br__mark_error_unhandled(void)
{
    br_unhandled_error *u = &br__thread_cold()->unhandled;
    begin_once();
    pthread_mutex_lock(&all.lock);
    if (!u->link) {
        *u = (br_unhandled_error){ .next = all.first,
                                   .link = &all.first,
                                   .message = br__thread_cold()->message,
                                   .number = ++all.raised,
                                   .process = (int)getpid() };
        if (u->next)
            u->next->link = &u->next;
        all.first = u;
    }
    pthread_mutex_unlock(&all.lock);
}

void br__mark_error_handled(void)
{
    if (!br__failed())
        return;
    br_unhandled_error *u = &br__thread_cold()->unhandled;
    pthread_mutex_lock(&all.lock);
    if (u->link)
        unlink_unhandled(u);
    pthread_mutex_unlock(&all.lock);
}

void br__keep_error_at_thread_exit(void)
{
    if (!br__failed())
        return;
    br_unhandled_error *u = &br__thread_cold()->unhandled;
    pthread_mutex_lock(&all.lock);
    if (u->link) {
        unlink_unhandled(u);
        if (!all.left.message || u->number < all.left.number) {
            all.left = *u;
            all.left.message = all.left_message;
            memcpy(all.left_message, u->message, sizeof all.left_message);
        }
    }
    pthread_mutex_unlock(&all.lock);
    br__thread.error = BR_OK;
}

void br_set_exit_report(bool report)
{
    pthread_mutex_lock(&all.lock);
    all.no_exit_report = !report;
    pthread_mutex_unlock(&all.lock);
}

/* ---- While the program runs ------------------------------------------------------------------ */

void br_set_error_callback(br_error_callback callback, void *context)
{
    pthread_mutex_lock(&all.lock);
    all.callback = callback;
    all.context = context;
    pthread_mutex_unlock(&all.lock);
}

/* Returns true if the program's callback was called. */
static bool call_back(br_error code, const char *message)
{
    br_thread *th = &br__thread;
    pthread_mutex_lock(&all.lock);
    br_error_callback callback = all.callback;
    void *context = all.context;
    pthread_mutex_unlock(&all.lock);
    if (!callback || th->in_callback)
        return false;
    th->in_callback = true;
    callback(code, message, context);
    th->in_callback = false;
    return true;
}

static bool prints(void)
{
    return all.show == SHOW_PRINT || all.show == SHOW_ABORT;
}

void br__notify_error(void)
{
    const char *message = br__thread_cold()->message;
    if (prints()) /* before the callback, which may clear the error */
        fprintf(stderr, "brasa: %s\n", message);
    if (call_back(br__thread.error, message) || prints())
        br__mark_error_handled();
    if (all.show == SHOW_ABORT)
        abort();
}

void br__notify_warning(const char *message)
{
    begin_once();
    if (prints())
        fprintf(stderr, "brasa: warning: %s\n", message);
    call_back(BR_WARNING, message);
}
