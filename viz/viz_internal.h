/* viz/viz_internal.h - shared by the files of viz/: a writer of text files, and the attention of a
 * page. */
#ifndef BR_VIZ_INTERNAL_H
#define BR_VIZ_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/viz.h>

/* ---- Writing --------------------------------------------------------------------------------- */

/* A file that appears under its name only when it is complete. While it is open, numbers are
 * formatted in the C locale. Write errors are remembered and reported by br__writer_close(). */
typedef struct br_writer br_writer;

/* Opens a file; if path is NULL, bytes are only counted. Returns NULL and an error if the file
 * cannot be created. */
br_writer *br__writer_open(const char *op, const char *path);
void br__write_bytes(br_writer *w, const char *bytes, size_t n);
/* Writes formatted text of at most 511 bytes. */
void br__write(br_writer *w, const char *format, ...) BR_PRINTF(2, 3);
/* Returns the next character of UTF-8 text, or U+FFFD if it is invalid or not allowed in XML. */
int32_t br__xml_character(const char **text);
/* Writes text escaped for XML, and for HTML outside scripts. */
void br__write_xml(br_writer *w, const char *text);
/* Returns the number of bytes written, or -1 and an error if anything failed; the file is then
 * unchanged. */
int64_t br__writer_close(br_writer *w);

/* ---- Attention ------------------------------------------------------------------------------- */

/* One layer's weights, or another map of it, [heads, rows, columns], queries [heads, rows, size]
 * and keys [heads, columns, size]. Queries and keys may be NULL. All are f32, row-major, and owned.
 */
typedef struct br_map {
    br_attention_map kind;
    br_attention_part part;
    int64_t layer; /* index in its part */
    char *name;
    br_tensor *weights, *query, *key;
    int64_t bad;   /* number of weights that are not finite */
    bool causal;   /* no token attends to a later one */
    bool in_range; /* all weights are 0 .. 1 or NaN */
} br_map;

struct br_attention {
    int64_t n_tokens, n_decoder_tokens; /* 0: none */
    char **tokens, **decoder_tokens;
    int64_t sentence_b_start, batch;
    br_map *maps;
    int64_t n_maps, capacity;
};

/* Returns the number of tokens of a part's rows, and of its columns. */
int64_t br__rows_of(const br_attention *self, br_attention_part part);
int64_t br__columns_of(const br_attention *self, br_attention_part part);
/* Returns the number of maps of a kind, of all parts. */
int64_t br__count_maps(const br_attention *self, br_attention_map kind);
/* Removes all maps but the first n. */
void br__drop_maps(br_attention *self, int64_t n);
/* Adds a map [1, rows, columns] of a kind other than weights, beside the layer's weights. */
bool br__add_map(br_attention *self, br_attention_map kind, const br_map *layer, br_tensor *values);
/* Returns whether a list contains the value; a NULL list contains all. */
bool br__includes(int64_t n, const int64_t *list, int64_t value);
/* Returns whether the reader of a view can select the map. Neuron and model views have weights
 * only. */
bool br__shows(const br_attention_view *view, const br_map *map);
/* Returns the layer that a view begins with: its layer, or the lowest included one. */
int64_t br__layer_of(const br_attention_view *view);
/* Checks views; returns false and records an error of `op` if they are not valid. */
bool br__good_views(const char *op, int n_views, const br_attention_view *views);

void br__write_base64(br_writer *w, const char *bytes, size_t n);

/* How values are written: 32 or 16 bits of a floating-point number, or 8 bits of a logarithm. */
typedef enum br_value_type { BR_VALUES_F32, BR_VALUES_F16, BR_VALUES_U8 } br_value_type;

/* Writes n values as base64. BR_VALUES_U8 is for weights and omits those below the threshold.
 * Returns the number of omitted values other than 0. */
int64_t br__write_values(br_writer *w, br_value_type type, double threshold, const float *values,
                         int64_t n);

#endif
