/* tokenizers/normal_forms.h - Unicode's normalization forms, lower case and the removal of accents,
 * with the offsets and the Unicode version of Hugging Face's fast tokenizer. */
#ifndef BR_NORMAL_FORMS_H
#define BR_NORMAL_FORMS_H

#include "tokenizers/tokenizer_internal.h"

typedef enum br_form {
    BR_FORM_NONE,
    BR_FORM_NFC,
    BR_FORM_NFD,
    BR_FORM_NFKC,
    BR_FORM_NFKD,
} br_form;

/* Properties of a code point that br__bert_chars lacks. */
enum {
    BR_NORMAL_COMPATIBLE = 1, /* NFKD replaces it by other code points than NFD */
    BR_NORMAL_ACCENT = 2,     /* StripAccents removes it */
    BR_NORMAL_JOINS = 4,      /* may be composed with a code point before it */
    BR_NORMAL_UNSTABLE = 8,   /* NFC may change a text that has it */
};

extern const br_char_table br__normal_chars;

/* Returns the form that a normalizer of tokenizer.json is named after; BR_FORM_NONE: it is another
 * one. */
br_form br__form_of_name(const char *name);
/* Returns whether the form keeps a code point, and any text of such code points. */
bool br__form_keeps(br_form form, uint32_t c);
/* Append the normalized text to `to`, which is empty. */
bool br__apply_form(br_form form, const br_char_list *text, br_char_list *to);
bool br__strip_accents(const br_char_list *text, br_char_list *to);
bool br__lower_chars(const br_char_list *text, br_char_list *to);

/* Appends a code point of the new text. `more` is 1 minus the number of old code points that it
 * replaces, so an insertion has 1. It is stored in bytes.begin until br__place_chars() sets the
 * offsets. */
bool br__change_char(br_char_list *to, uint32_t c, int64_t more);
/* Sets the offsets of all code points of the new text. Each has those of the first code point that
 * it replaces. An inserted code point has those of the code point before it. */
void br__place_chars(const br_char_list *text, br_char_list *to);

#endif
