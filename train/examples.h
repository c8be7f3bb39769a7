/* train/examples.h - the examples that a language model is fine-tuned on: token ids, and the labels
 * that the loss counts.
 *
 * The data is a text, or lines of JSON:
 *
 *     {"text": "a text"}
 *     {"prompt": "what the model gets", "completion": " what it must answer"}
 *     {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}
 *
 * Data whose first line begins with '{' are lines, unless the format says otherwise. A text that is
 * not JSON is divided into examples of `length` tokens. Of the lines, those that are longer are
 * cut. The loss counts all tokens of texts, the completions of prompts, and the answers of the
 * assistant in messages; as in trl, the end-of-text token follows a text and a completion, while
 * the model's chat template decides what follows a message. */
#ifndef BRASA_TRAIN_EXAMPLES_H
#define BRASA_TRAIN_EXAMPLES_H

#include <brasa/brasa.h>

enum { EXAMPLES_IGNORED = -100 }; /* label of a token that the loss does not count */

typedef struct examples {
    int64_t count, capacity, *ends; /* where the ids of each example end */
    int64_t n_ids, id_capacity, *ids, *labels;
    int64_t cut;     /* examples that were longer */
    int64_t dropped; /* examples without a label that counts */
} examples;

typedef enum examples_format { EXAMPLES_AUTO, EXAMPLES_TEXT, EXAMPLES_JSONL } examples_format;

typedef struct examples_source {
    examples_format format;
    const br_tokenizer *tokenizer;
    const char *folder; /* of the model, which has the chat template */
    int64_t length;     /* largest number of tokens of an example */
    bool all_tokens;    /* the loss counts prompts and the messages of others, too */
} examples_source;

/* Reads the examples of a text. On failure, returns false and an error that names the line. Call
 * examples_free() in either case. */
bool examples_read(examples *e, const examples_source *source, const char *data, size_t length);
/* Adds the example of a prompt and a completion. `e` begins as all zero. On failure, returns false
 * and an error. */
bool examples_add_completion(examples *e, const examples_source *source, br_text prompt,
                             br_text completion);
void examples_free(examples *e);

/* Return the number of tokens of an example, its ids, and its labels. */
int64_t examples_length(const examples *e, int64_t i);
const int64_t *examples_ids(const examples *e, int64_t i);
const int64_t *examples_labels(const examples *e, int64_t i);
/* Returns the number of tokens before the first one that the loss counts. */
int64_t examples_prompt(const examples *e, int64_t i);

#endif
