/* train/labelled.h - the examples that a classifier is fine-tuned on: texts, or pairs of texts,
 * with labels.
 *
 * The data is lines of JSON, or CSV with a line of column names:
 *
 *     {"text": "a text", "label": "a name or a number"}
 *     {"text": "a text", "text_pair": "a second text", "label": ["several", "names"]}
 *
 *     text,label
 *     "a text, with a comma",positive
 *
 * Columns are divided by tabs if the line of names has a tab, else by commas. A field in quotes may
 * contain them, and line breaks, and "" for a quote (RFC 4180). Other keys and columns are ignored.
 * "labels" is accepted for "label". */
#ifndef BRASA_TRAIN_LABELLED_H
#define BRASA_TRAIN_LABELLED_H

#include <brasa/brasa.h>

/* What a model learns, with transformers' names of problem_type. */
typedef enum labelled_problem {
    LABELLED_AUTO,       /* lists of labels are multi-label, fractions are regression */
    LABELLED_SINGLE,     /* single_label_classification */
    LABELLED_MULTI,      /* multi_label_classification */
    LABELLED_REGRESSION, /* regression */
} labelled_problem;

typedef struct labelled_item {
    char *text, *pair; /* pair is NULL if there is none */
    int64_t length, pair_length;
    int64_t n_labels;
    char **labels;
    int64_t *ids;  /* of the labels, after labelled_number() */
    double number; /* for regression */
} labelled_item;

typedef struct labelled {
    labelled_problem problem; /* not LABELLED_AUTO */
    bool has_pairs;
    int64_t count, capacity;
    labelled_item *items;
} labelled;

/* Reads the examples. On failure, returns false and an error that names the line. Call
 * labelled_free() in either case. */
bool labelled_read(labelled *l, labelled_problem problem, const char *data, size_t length);
void labelled_free(labelled *l);

/* Returns the distinct labels: sorted by their value if all are integers, else by their bytes. The
 * caller frees the vocabulary with br_vocab_free(). Returns NULL with an error on failure. */
br_vocab *labelled_names(const labelled *l);
/* Sets the ids of all labels, which must be in the vocabulary. */
bool labelled_number(labelled *l, const br_vocab *names);

#endif
