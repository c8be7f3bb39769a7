/* cli/dates.h - the dates of a century, each written in many ways.
 *
 * Every way of writing says the whole date, and no text stands for two dates: whoever keeps some
 * dates apart has kept apart every text of theirs. The dates are those from 1950 to 2049, so that a
 * year of two digits is clear. */
#ifndef BRASA_CLI_DATES_H
#define BRASA_CLI_DATES_H

#include <stdint.h>

typedef struct date {
    int year, month, day; /* month 1 .. 12, day 1 .. 31 */
    int weekday;          /* 0: Sunday */
} date;

enum {
    DATES_COUNT = 36525,
    DATES_FORMS = 32,
    DATES_TEXT = 72, /* the longest text, with its NUL */
    DATES_ISO = 11,  /* "1987-03-21" */
};

/* Date number i of 0 .. DATES_COUNT-1; number 0 is the first of January 1950. */
date dates_at(int64_t i);
/* The date in ISO's form. */
void dates_iso(date d, char text[DATES_ISO]);
/* The date in form number `form` of 0 .. DATES_FORMS-1: lower-case ASCII, letters, digits and
 * " ',-./". */
void dates_write(date d, int form, char text[DATES_TEXT]);

#endif
