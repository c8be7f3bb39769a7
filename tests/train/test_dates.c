/* Dates in many formats: the calendar, the words, and that no text can mean two dates. */
#include "train/dates.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- The calendar ---------------------------------------------------------------------------- */

/* Every day agrees with the C library's calendar. */
Test(dates, calendar)
{
    struct tm day = { .tm_year = 50, .tm_mday = 1, .tm_hour = 12 };
    time_t first = timegm(&day);
    for (int64_t i = 0; i < DATES_COUNT; i++) {
        time_t now = first + (time_t)(i * 24 * 3600);
        char iso[DATES_ISO], expected[DATES_ISO];
        date d = dates_at(i);
        gmtime_r(&now, &day);
        strftime(expected, sizeof expected, "%Y-%m-%d", &day);
        dates_iso(d, iso);
        cr_assert_str_eq(iso, expected);
        cr_assert_eq(d.weekday, day.tm_wday, "%s", iso);
    }
    char last[DATES_ISO];
    dates_iso(dates_at(DATES_COUNT - 1), last);
    cr_assert_str_eq(last, "2049-12-31");
}

/* ---- The words ------------------------------------------------------------------------------- */

/* Returns the number of a date, which must be in the range. */
static int64_t find(const char *iso)
{
    char text[DATES_ISO];
    for (int64_t i = 0; i < DATES_COUNT; i++) {
        dates_iso(dates_at(i), text);
        if (strcmp(text, iso) == 0)
            return i;
    }
    cr_assert_fail("%s is not in the range", iso);
    return -1;
}

static bool is_written(const char *iso, const char *expected)
{
    char text[DATES_TEXT];
    date d = dates_at(find(iso));
    for (int form = 0; form < DATES_FORMATS; form++) {
        dates_write(d, form, text);
        if (strcmp(text, expected) == 0)
            return true;
    }
    return false;
}

Test(dates, words)
{
    static const char *const rows[][2] = {
        { "1987-03-21", "21 mar 1987" },
        { "1987-03-21", "the twenty-first of march, 1987" },
        { "1987-03-21", "saturday the twenty-first of march, nineteen eighty-seven" },
        { "1987-03-21", "3/21/87" },
        { "1987-03-21", "21.3.1987" },
        { "1950-01-01", "sunday, jan 1st 1950" },
        { "1950-12-02", "dec 2nd, nineteen fifty" },
        { "2000-02-29", "twenty-ninth of february two thousand" },
        { "2005-05-03", "two thousand and five, may the third" },
        { "2005-05-03", "3-may-05" },
        { "2010-10-30", "thirtieth of october twenty ten" },
        { "2019-09-11", "sep 11th '19" },
        { "2019-09-12", "sep 12th '19" },
        { "2019-09-13", "sep 13th '19" },
        { "2019-09-01", "sep 1st '19" },
        { "2019-09-03", "sep 3rd '19" },
        { "2019-09-10", "sep 10th '19" },
        { "2019-12-31", "dec 31st '19" },
        { "2022-06-22", "the 22nd of june '22" },
        { "2030-08-20", "twenty thirty, august the twentieth" },
        { "2041-04-13", "the 13th of april, 2041" },
        { "2049-11-12", "2049/11/12" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        cr_expect(is_written(rows[i][0], rows[i][1]), "no format writes %s as %s", rows[i][0],
                  rows[i][1]);
}

Test(dates, letters)
{
    size_t longest = 0;
    for (int64_t i = 0; i < DATES_COUNT; i++)
        for (int form = 0; form < DATES_FORMATS; form++) {
            char text[DATES_TEXT];
            dates_write(dates_at(i), form, text);
            size_t n = strlen(text);
            cr_assert_eq(strspn(text, " ',-./0123456789abcdefghijklmnopqrstuvwxyz"), n, "%s", text);
            longest = n > longest ? n : longest;
        }
    /* No text was truncated: the buffer was never full. */
    cr_assert(longest > 60 && longest < DATES_TEXT - 1, "%zu", longest);
}

/* ---- Uniqueness, which held-out dates rely on ------------------------------------------------ */

typedef struct written {
    uint64_t hash; /* of a text */
    int64_t day;
} written;

static uint64_t fnv(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

static int by_hash(const void *a, const void *b)
{
    const written *x = a, *y = b;
    return (x->hash > y->hash) - (x->hash < y->hash);
}

/* With 64-bit hashes, a collision among a million texts is very unlikely. */
Test(dates, no_text_stands_for_two_dates)
{
    static written all[DATES_COUNT * DATES_FORMATS];
    size_t n = 0;
    for (int64_t i = 0; i < DATES_COUNT; i++)
        for (int form = 0; form < DATES_FORMATS; form++) {
            char text[DATES_TEXT];
            dates_write(dates_at(i), form, text);
            all[n++] = (written){ fnv(text), i };
        }
    qsort(all, n, sizeof *all, by_hash);
    for (size_t i = 1; i < n; i++)
        cr_assert(all[i].hash != all[i - 1].hash || all[i].day == all[i - 1].day,
                  "dates %lld and %lld share a text", (long long)all[i - 1].day,
                  (long long)all[i].day);
}
