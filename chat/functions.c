/* chat/functions.c - the global functions of templates. */
#include "chat/jinja.h"

#include <stdio.h>
#include <time.h>

#define FUNCTION(name)                                                       \
    static bool name(jinja_run *run, jinja_value self, const jinja_value *a, \
                     const jinja_arguments *all, jinja_value *out)

/* ---- Values ---------------------------------------------------------------------------------- */

FUNCTION(make_range)
{
    enum { MOST = 100000 }; /* as in Jinja's sandbox */
    (void)self, (void)all;
    int64_t begin, end, step;
    if (!br__jinja_read_integer(run, "range", a[0], 0, &begin) ||
        !br__jinja_read_integer(run, "range", a[1], 0, &end) ||
        !br__jinja_read_integer(run, "range", a[2], 1, &step))
        return false;
    if (a[1].kind == JINJA_ABSENT) {
        end = begin;
        begin = 0;
    }
    if (step == 0)
        return br__jinja_fail(&run->place, "the step of range is 0");
    if (!br__jinja_new_sequence(run, JINJA_RANGE, out))
        return false;
    for (int64_t i = begin; step > 0 ? i < end : i > end;) {
        if (out->sequence->n == MOST)
            return br__jinja_fail(&run->place, "range has more than %d numbers", MOST);
        if (!br__jinja_append(run, out->sequence, jinja_int(i)))
            return false;
        if (__builtin_add_overflow(i, step, &i))
            break;
    }
    return true;
}

/* Makes a dict of a dict, which may be left out, and named arguments. */
static bool make_from(jinja_run *run, const char *what, const jinja_arguments *all,
                      jinja_value *out)
{
    *out = br__jinja_new_dict(run);
    if (!out->dict)
        return false;
    if (all->n > 1 || (all->n == 1 && all->values[0].kind != JINJA_DICT))
        return br__jinja_fail(&run->place, "%s takes a dict and named arguments", what);
    const jinja_dict *first = all->n == 1 ? all->values[0].dict : &(jinja_dict){ 0 };
    for (size_t i = 0; i < first->n; i++) {
        if (!br__jinja_put(run, out->dict, first->pairs[i].key, first->pairs[i].value))
            return false;
    }
    for (size_t i = 0; i < all->n_named; i++) {
        if (!br__jinja_put(run, out->dict, all->named[i].key, all->named[i].value))
            return false;
    }
    return true;
}

FUNCTION(make_dict)
{
    (void)self, (void)a;
    return make_from(run, "dict", all, out);
}

FUNCTION(make_namespace)
{
    (void)self, (void)a;
    bool ok = make_from(run, "namespace", all, out);
    out->kind = JINJA_NAMESPACE;
    return ok;
}

/* ---- Messages and dates ---------------------------------------------------------------------- */

FUNCTION(raise_exception)
{
    (void)self, (void)all, (void)out;
    jinja_text text;
    return br__jinja_str(run, a[0], &text) &&
           br__jinja_fail(&run->place, "the template says: %.*s", (int)text.n, text.data);
}

/* strftime() of C in English, whatever the locale is. */
static bool format_date(jinja_run *run, char letter, const struct tm *t, char *to, size_t size)
{
    static const char *const days[] = { "Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday" };
    static const char *const months[] = { "January",   "February", "March",    "April",
                                          "May",       "June",     "July",     "August",
                                          "September", "October",  "November", "December" };
    int hour = t->tm_hour % 12 == 0 ? 12 : t->tm_hour % 12;
    switch (letter) {
    case 'a':
        snprintf(to, size, "%.3s", days[t->tm_wday]);
        return true;
    case 'A':
        snprintf(to, size, "%s", days[t->tm_wday]);
        return true;
    case 'b':
        snprintf(to, size, "%.3s", months[t->tm_mon]);
        return true;
    case 'B':
        snprintf(to, size, "%s", months[t->tm_mon]);
        return true;
    case 'd':
        snprintf(to, size, "%02d", t->tm_mday);
        return true;
    case 'H':
        snprintf(to, size, "%02d", t->tm_hour);
        return true;
    case 'I':
        snprintf(to, size, "%02d", hour);
        return true;
    case 'j':
        snprintf(to, size, "%03d", t->tm_yday + 1);
        return true;
    case 'm':
        snprintf(to, size, "%02d", t->tm_mon + 1);
        return true;
    case 'M':
        snprintf(to, size, "%02d", t->tm_min);
        return true;
    case 'p':
        snprintf(to, size, "%s", t->tm_hour < 12 ? "AM" : "PM");
        return true;
    case 'S':
        snprintf(to, size, "%02d", t->tm_sec);
        return true;
    case 'y':
        snprintf(to, size, "%02d", t->tm_year % 100);
        return true;
    case 'Y':
        snprintf(to, size, "%d", t->tm_year + 1900);
        return true;
    case '%':
        snprintf(to, size, "%%");
        return true;
    default:
        return br__jinja_fail(&run->place, "strftime_now does not support '%%%c'", letter);
    }
}

FUNCTION(now)
{
    (void)self, (void)all;
    struct tm date;
    time_t time = (time_t)run->time;
    if (a[0].kind != JINJA_STRING)
        return br__jinja_fail(&run->place, "strftime_now needs a string, not a '%s'",
                              br__jinja_type(a[0]));
    if (!localtime_r(&time, &date))
        return br__jinja_fail(&run->place, "the time %lld is no date", (long long)run->time);
    *out = jinja_string(JINJA_TEXT(""));
    const char *p = a[0].text.data, *end = p + a[0].text.n;
    while (p < end) {
        char part[32];
        jinja_text text = { p, 1 };
        if (*p == '%' && p + 1 < end) {
            if (!format_date(run, p[1], &date, part, sizeof part))
                return false;
            text = (jinja_text){ part, strlen(part) };
            p++;
        }
        p++;
        if (!br__jinja_join(run, out->text, text, out))
            return false;
    }
    return true;
}

/* ---- The table ------------------------------------------------------------------------------- */

static const jinja_callable functions[] = {
    { "range", make_range, 1, "start stop step" },
    { "dict", make_dict, 0, "*" },
    { "namespace", make_namespace, 0, "*" },
    { "raise_exception", raise_exception, 1, "message" },
    { "strftime_now", now, 1, "format" },
};

bool br__jinja_global(jinja_run *run, jinja_text name, jinja_value *out)
{
    static const char *const others[] = { "lipsum", "cycler", "joiner" };
    *out = (jinja_value){ 0 };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (jinja_text_is(name, others[i]))
            return br__jinja_fail(&run->place, "the function '%s' is not supported", others[i]);
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (!jinja_text_is(name, functions[i].name))
            continue;
        jinja_method *method = br__jinja_alloc(run, sizeof *method);
        if (!method)
            return false;
        *method = (jinja_method){ .callable = &functions[i] };
        *out = (jinja_value){ JINJA_METHOD, { .method = method } };
    }
    return true;
}
