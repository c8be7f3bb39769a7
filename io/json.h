/* io/json.h - JSON parsing by jansson that is safe when allocations fail. */
#ifndef BR_JSON_H
#define BR_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Parses n bytes of text as json_loadb() does, with duplicate keys rejected and any value allowed.
 * Returns a value that the caller frees with json_decref(), or NULL. After NULL, either *error
 * describes the mistake in the text, or allocation failed and an error that names `op` and `path`
 * is pending. */
json_t *br__json_parse(const char *op, const char *path, const char *text, size_t n,
                       json_error_t *error);
/* Same, but reads integers as reals, so that they may have any number of digits. */
json_t *br__json_parse_reals(const char *op, const char *path, const char *text, size_t n,
                             json_error_t *error);

/* Reads a file of at most `most` bytes and parses it; `reals` is as above. Returns a value that the
 * caller frees with json_decref(), or NULL with an error that names `op` and `path` and, if the
 * text is not JSON, the place in it. */
json_t *br__json_read_file(const char *op, const char *path, size_t most, bool reals);

/* Returns a value as text, laid out as by Python's json.dumps(value, indent=2): the keys keep their
 * order, and a real number gets the fewest digits that preserve it. The caller frees it with
 * br_free(). Returns NULL and an error that names `op` and `path` if allocation fails. */
char *br__json_text(const char *op, const char *path, const json_t *value);

#endif
