/* train/dates.c - writes dates in words and digits. */
#include "train/dates.h"

#include <brasa/tensor.h> /* BR_PRINTF */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_YEAR = 1950 };

static const char *const weekdays[] = { "sunday",   "monday", "tuesday", "wednesday",
                                        "thursday", "friday", "saturday" };
static const char *const months[] = { "january",   "february", "march",    "april",
                                      "may",       "june",     "july",     "august",
                                      "september", "october",  "november", "december" };
/* Indexed by 1 .. 19. */
static const char *const cardinals[] = {
    "",         "one",     "two",     "three",     "four",     "five",     "six",
    "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",   "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
};
static const char *const ordinals[] = {
    "",           "first",     "second",    "third",       "fourth",     "fifth",      "sixth",
    "seventh",    "eighth",    "ninth",     "tenth",       "eleventh",   "twelfth",    "thirteenth",
    "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth",
};
static const char *const tens[] = { "",      "",      "twenty",  "thirty", "forty",
                                    "fifty", "sixty", "seventy", "eighty", "ninety" };

/* ---- The calendar ---------------------------------------------------------------------------- */

/* The only century year in the range is 2000, which is a leap year. */
static bool is_leap(int year)
{
    return year % 4 == 0;
}

static int days_of_month(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return days[month - 1] + (month == 2 && is_leap(year));
}

date dates_at(int64_t i)
{
    date d = { .year = FIRST_YEAR, .month = 1, .weekday = (int)(i % 7) };
    int left = (int)i;
    for (; left >= 365 + is_leap(d.year); d.year++)
        left -= 365 + is_leap(d.year);
    for (; left >= days_of_month(d.year, d.month); d.month++)
        left -= days_of_month(d.year, d.month);
    d.day = left + 1;
    return d;
}

/* ---- Words ----------------------------------------------------------------------------------- */

typedef struct writer {
    char *text;
    size_t capacity, length;
} writer;

static void put(writer *w, const char *format, ...) BR_PRINTF(2, 3);
static void put(writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->text + w->length, w->capacity - w->length, format, args);
    va_end(args);
    if (n > 0)
        w->length += (size_t)n;
    if (w->length >= w->capacity) /* truncated */
        w->length = w->capacity - 1;
}

/* Writes "twenty-one" or "twenty-first": cardinals 1 .. 99, ordinals 1 .. 31. */
static void put_number(writer *w, int n, bool ordinal)
{
    const char *const *units = ordinal ? ordinals : cardinals;
    if (n < 20)
        put(w, "%s", units[n]);
    else if (n % 10 != 0)
        put(w, "%s-%s", tens[n / 10], units[n % 10]);
    else if (ordinal)
        put(w, "%s", n == 20 ? "twentieth" : "thirtieth");
    else
        put(w, "%s", tens[n / 10]);
}

/* Writes "nineteen eighty-seven", "two thousand", "two thousand and five" or "twenty twelve". */
static void put_year(writer *w, int year)
{
    if (year < 2000 || year >= 2010)
        put(w, year < 2000 ? "nineteen " : "twenty ");
    else
        put(w, year == 2000 ? "two thousand" : "two thousand and ");
    if (year != 2000)
        put_number(w, year % 100, false);
}

static const char *suffix(int day)
{
    int unit = day / 10 == 1 ? 0 : day % 10;
    return unit == 1 ? "st" : unit == 2 ? "nd" : unit == 3 ? "rd" : "th";
}

/* ---- Formats --------------------------------------------------------------------------------- */

/* Writes one part of the date: d 21, o 21st, w twenty-first; m 3, b mar, B march; y 87, Y 1987,
 * W nineteen eighty-seven; a sat, A saturday. */
static void put_part(writer *w, date d, char part)
{
    switch (part) {
    case 'd':
        put(w, "%d", d.day);
        return;
    case 'o':
        put(w, "%d%s", d.day, suffix(d.day));
        return;
    case 'w':
        put_number(w, d.day, true);
        return;
    case 'm':
        put(w, "%d", d.month);
        return;
    case 'b':
        put(w, "%.3s", months[d.month - 1]);
        return;
    case 'B':
        put(w, "%s", months[d.month - 1]);
        return;
    case 'y':
        put(w, "%02d", d.year % 100);
        return;
    case 'Y':
        put(w, "%d", d.year);
        return;
    case 'W':
        put_year(w, d.year);
        return;
    case 'a':
        put(w, "%.3s", weekdays[d.weekday]);
        return;
    default:
        put(w, "%s", weekdays[d.weekday]);
    }
}

/* Ordered from short to long. If day and month are both numbers, the separator tells their order:
 * with slashes the month comes first, with dots the day. */
static const char *const formats[DATES_FORMATS] = {
    "%d %b %Y",         "%b %d, %Y",        "%d.%m.%Y",      "%m/%d/%Y",
    "%d %B %Y",         "%B %d, %Y",        "%Y/%m/%d",      "%o %b %Y",
    "%d.%m.%y",         "%m/%d/%y",         "%d-%b-%y",      "%b %o '%y",
    "%d %b '%y",        "%d. %B %Y",        "%o of %B %Y",   "%B %o, %Y",
    "%Y, %B %d",        "%a %d.%m.%Y",      "%a, %b %d %Y",  "%a %d %B '%y",
    "the %o of %B '%y", "the %o of %B, %Y", "%w of %B %Y",   "%B the %w, %Y",
    "%A, %d %B %Y",     "%A, %b %o %Y",     "%b %o, %W",     "%A the %o of %B, %Y",
    "the %w of %B, %Y", "%w of %B %W",      "%W, %B the %w", "%A the %w of %B, %W",
};

void dates_write(date d, int index, char text[DATES_TEXT])
{
    writer w = { text, DATES_TEXT, 0 };
    for (const char *p = formats[index]; *p; p++)
        if (*p == '%')
            put_part(&w, d, *++p);
        else
            put(&w, "%c", *p);
}

void dates_iso(date d, char text[DATES_ISO])
{
    put(&(writer){ text, DATES_ISO, 0 }, "%04d-%02d-%02d", d.year, d.month, d.day);
}
