/* train/dates.h - the dates of a century, each in many formats.
 *
 * Every format contains the whole date, and no text can mean two dates. Holding out a date
 * therefore holds out all of its texts. The dates run from 1950 to 2049, so that two digits
 * determine the year. */
#ifndef BRASA_TRAIN_DATES_H
#define BRASA_TRAIN_DATES_H

#include <stdint.h>

typedef struct date {
    int year, month, day; /* month 1 .. 12, day 1 .. 31 */
    int weekday;          /* 0: Sunday */
} date;

enum {
    DATES_COUNT = 36525,
    DATES_FORMATS = 32,
    DATES_TEXT = 72, /* the longest text, with its NUL */
    DATES_ISO = 11,  /* "1987-03-21" */
};

/* Returns date number i in 0 .. DATES_COUNT-1; number 0 is 1950-01-01. */
date dates_at(int64_t i);
/* Writes the date in ISO 8601 format. */
void dates_iso(date d, char text[DATES_ISO]);
/* Writes the date in format number `format`, in 0 .. DATES_FORMATS-1. The text consists of
 * lower-case ASCII letters, digits and " ',-./". */
void dates_write(date d, int format, char text[DATES_TEXT]);

#endif
