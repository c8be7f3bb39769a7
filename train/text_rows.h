/* train/text_rows.h - rows of named texts, such as pairs of a question and its answer, from lines
 * of JSON objects, or from CSV with a line of column names (train/csv.h). */
#ifndef BRASA_TRAIN_TEXT_ROWS_H
#define BRASA_TRAIN_TEXT_ROWS_H

#include <brasa/brasa.h>

enum { TEXT_ROWS_COLUMNS = 3 };

typedef struct text_rows {
    int n_columns;
    bool has[TEXT_ROWS_COLUMNS]; /* the data has this column */
    int64_t count, capacity;
    struct text_row {
        char *texts[TEXT_ROWS_COLUMNS]; /* NULL where the column is missing */
        int64_t lengths[TEXT_ROWS_COLUMNS];
        int64_t line; /* of the data */
    } * rows;
} text_rows;

/* Reads the columns `names`, which end with NULL. The first n_required must be there, and no text
 * of theirs may be empty; a row has a further column if the first row has it. Other keys and
 * columns are ignored. On failure, returns false and an error that names the line. Call
 * text_rows_free() in either case. */
bool text_rows_read(text_rows *r, const char *const *names, int n_required, const char *data,
                    size_t length);
void text_rows_free(text_rows *r);
/* Returns a text. */
br_text text_rows_get(const text_rows *r, int64_t row, int column);
/* Returns the separator of CSV whose first line begins at `data`: a tab if the line has one, else a
 * comma. */
char text_rows_separator(const char *data, const char *end);
/* Returns whether the data are lines of JSON. */
bool text_rows_has_json(const char *data, const char *end);

#endif
