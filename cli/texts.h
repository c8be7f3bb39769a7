/* cli/texts.h - the texts of a command: its arguments, or the lines of a file. */
#ifndef BRASA_CLI_TEXTS_H
#define BRASA_CLI_TEXTS_H

#include <brasa/tokenizers.h>

typedef struct cli_texts {
    int64_t n;
    br_text *items;
    br_text *pairs; /* the second text of each, or NULL */
    char *memory;   /* contents of the file */
} cli_texts;

/* Reads the lines of `file`, or, if it is NULL, the n arguments. If they are pairs, two arguments
 * are a pair, and a tab is between the two texts of a line. Returns false with an error on failure;
 * call cli_texts_free() in either case. */
bool cli_texts_read(cli_texts *t, const char *file, int n, char **arguments, bool are_pairs);
void cli_texts_free(cli_texts *t);
/* Prints a text as JSON. Returns false with an error if it is not UTF-8; i is its index. */
bool cli_texts_print_json(const br_text *text, int64_t i);

#endif
