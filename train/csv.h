/* train/csv.h - reads CSV (RFC 4180) or values that tabs divide. */
#ifndef BRASA_TRAIN_CSV_H
#define BRASA_TRAIN_CSV_H

#include <brasa/brasa.h>

typedef struct csv {
    const char *at, *end;
    char separator;
    int64_t line;      /* where the last record begins, counted from 1 */
    int64_t next_line; /* where the next one begins */
    char *memory;      /* the fields' text */
    int64_t n, capacity;
    br_text *fields; /* of the last record, in `memory` */
} csv;

/* Begins to read a text, which must stay unchanged. csv_end() follows in either case. */
bool csv_begin(csv *c, char separator, const char *text, size_t length);
/* Reads the next record that is not an empty line. Returns false at the end, and with an error on
 * failure. The fields are valid until the next call. */
bool csv_next(csv *c);
/* Returns the index of the field with that text in the last record, or -1. */
int64_t csv_find(const csv *c, const char *text);
void csv_end(csv *c);

#endif
