/* chat/run.c - errors and the limits of a run. */
#include "chat/jinja.h"

#include <stdarg.h>
#include <stdio.h>

bool br__jinja_fail(const jinja_place *place, const char *format, ...)
{
    char message[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    br_fail(BR_ERROR_ARGUMENT, "chat_template", "%s: line %d: %s", br_printable(place->name),
            place->line, message);
    return false;
}

void *br__jinja_alloc(jinja_run *run, size_t size)
{
    if ((int64_t)size > run->memory) {
        br__jinja_fail(&run->place, "the template needs too much memory");
        return NULL;
    }
    run->memory -= (int64_t)size;
    return br__arena_alloc(&run->arena, size);
}

bool br__jinja_count_step(jinja_run *run)
{
    return run->steps-- > 0 || br__jinja_fail(&run->place, "the template takes too many steps");
}

bool br__jinja_enter(jinja_run *run)
{
    enum { MAX_DEPTH = 500 };
    run->depth++;
    return run->depth <= MAX_DEPTH ||
           br__jinja_fail(&run->place, "expressions, blocks or calls are nested more than %d deep",
                          MAX_DEPTH);
}
