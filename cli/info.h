/* cli/info.h - functions shared by the parts of `brasa info`. */
#ifndef BRASA_CLI_INFO_H
#define BRASA_CLI_INFO_H

#include <brasa/io.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Prints the configuration file `path`, or config.json in that folder. Leaves an error pending on
 * failure. */
void info_config(const char *path, bool json);
/* Prints the weights and the tokenizer of a model folder, or adds them to the object if it is not
 * NULL. Leaves an error pending on failure. */
void info_folder(const char *dir, json_t *object);
/* Prints a GGUF file: its architecture, metadata and tensors. Leaves an error pending on failure.
 */
void info_gguf(const char *path, bool json);
/* Prints the version, the kernels for this processor, the settings of the process, and the MPI. */
void info_machine(bool json);

/* ---- Texts (cli/info_text.c) ----------------------------------------------------------------- */

/* Returns the size of a file in bytes, or 0 if it is gone. */
int64_t info_file_size(const char *path);
/* Return the number of elements of the file's tensor i. */
int64_t info_elements(const br_safetensors *file, int64_t i);
int64_t info_gguf_elements(const br_gguf *file, int64_t i);
/* Writes a size such as "1.5 KiB" to `text` and returns it. */
const char *info_size(double bytes, char *text, size_t size);
/* Prints the text padded with spaces to `width` columns. */
void info_padded(const char *text, int width);
/* Returns the column width that also fits `text`; `width` if the text is wider than 48. */
int info_widen(int width, const char *text);
/* Prints a value; a long one is truncated and followed by its size in bytes. */
void info_value(const char *value);
/* Returns a JSON string. A text that is not UTF-8, such as a path or a truncated message, is
 * escaped. */
json_t *info_text_object(const char *text);

#endif
