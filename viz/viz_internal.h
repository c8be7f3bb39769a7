/* viz/viz_internal.h - what the files of viz/ share: writing text files, and the attention that a
 * page is made of. */
#ifndef BR_VIZ_INTERNAL_H
#define BR_VIZ_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/viz.h>

/* ---- Writing --------------------------------------------------------------------------------- */

/* A file that appears under its name when it is complete. While it is open numbers are written in
 * the C locale. What fails is kept, and told by br__writer_close(). */
typedef struct br_writer br_writer;

/* With path NULL what is written is only counted. NULL and an error if the file cannot be made. */
br_writer *br__writer_open(const char *op, const char *path);
void br__write_bytes(br_writer *w, const char *bytes, size_t n);
/* At most 511 bytes. */
void br__write(br_writer *w, const char *format, ...) BR_PRINTF(2, 3);
/* The next character of UTF-8 text; U+FFFD for what is none, or none that XML allows. */
int32_t br__xml_character(const char **text);
/* Text as XML and HTML have it outside of scripts. */
void br__write_xml(br_writer *w, const char *text);
/* The bytes written; -1 and an error if anything failed, the file is then as it was. */
int64_t br__writer_close(br_writer *w);

/* ---- Attention ------------------------------------------------------------------------------- */

/* One layer's weights [heads, rows, columns], queries [heads, rows, size] and keys [heads, columns,
 * size], which may be NULL; f32, held, row-major. */
typedef struct br_map {
    br_attention_part part;
    int64_t layer; /* counted in its part */
    char *name;
    br_tensor *weights, *query, *key;
    int64_t bad;   /* weights that are no finite numbers */
    bool causal;   /* no weight is on a later token */
    bool in_range; /* all that are numbers are 0 .. 1 */
} br_map;

struct br_attention {
    int64_t n_tokens, n_decoder_tokens; /* 0: none */
    char **tokens, **decoder_tokens;
    int64_t sentence_b_start, batch;
    br_map *maps;
    int64_t n_maps, room;
};

/* Whether a list has the value; one that is NULL has all. */
bool br__includes(int64_t n, const int64_t *list, int64_t value);
bool br__shows(const br_attention_view *view, const br_map *map);
/* Else an error is pending. */
bool br__good_page(int n_views, const br_attention_view *views, const br_attention_page *page);

void br__write_base64(br_writer *w, const char *bytes, size_t n);

/* How values are written: 32 or 16 bits of a floating number, or 8 of a logarithm. */
typedef enum br_value_type { BR_VALUES_F32, BR_VALUES_F16, BR_VALUES_U8 } br_value_type;

/* Writes n values as base64. For BR_VALUES_U8 they are weights, of which those below the threshold
 * are left out; returns how many these are. */
int64_t br__write_values(br_writer *w, br_value_type type, double threshold, const float *values,
                         int64_t n);

#endif
