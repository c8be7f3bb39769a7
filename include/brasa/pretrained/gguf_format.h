/* brasa/pretrained/gguf_format.h - how a GGUF file describes a model: its keys in terms of
 * config.json, and the names of its tensors in terms of a state_dict.
 *
 * A family of models (brasa/pretrained/family.h) whose models exist as GGUF files has one such
 * struct. It is constant data, as the family is. docs/contributing.md shows how to write one. */
#ifndef BRASA_PRETRAINED_GGUF_FORMAT_H
#define BRASA_PRETRAINED_GGUF_FORMAT_H

#include <brasa/io/gguf.h>
#include <brasa/pretrained/auto_config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Names of weights ------------------------------------------------------------------------ */

/* A part of names that differs between files and modules. It consists of whole components:
 * { "attention.q_lin", "attention.self.query" } maps "layer.0.attention.q_lin.bias" to
 * "layer.0.attention.self.query.bias". */
typedef struct br_key_rename {
    const char *file, *module;
    bool is_old; /* only old files have it: it is not used for saving */
} br_key_rename;

/* How the keys of files are mapped to the names of a module's weights, and back. Other lists of a
 * family use the module's names. "LayerNorm.gamma" and "LayerNorm.beta" of old files become
 * "LayerNorm.weight" and "LayerNorm.bias" in every family. */
typedef struct br_key_map {
    /* Begins the names of the base model's weights in a model with a head: "bert.". A file may have
     * it or not, whatever the class is. NULL: there is none. */
    const char *prefix;
    const br_key_rename *renames;  /* applied in this order when loading; the last has no file */
    const char *const *ignored;    /* suffixes of unused keys of files; the last is NULL */
    const char *const *transposed; /* suffixes of names of matrices whose transposes the files have;
                                      the last is NULL */
} br_key_map;

/* ---- Metadata -------------------------------------------------------------------------------- */

/* What the value of a key must be. */
typedef enum br_gguf_type_needed {
    BR_GGUF_NEEDS_INTEGER,
    BR_GGUF_NEEDS_NUMBER,
    BR_GGUF_NEEDS_BOOL,
    BR_GGUF_NEEDS_STRING,
} br_gguf_type_needed;

/* A key of the metadata. Its full name begins with the architecture: "llama.block_count". */
typedef struct br_gguf_key {
    const char *name;   /* "block_count" */
    const char *config; /* the key of config.json that gets the value, which may be a path:
                           "rope_scaling.factor"; NULL: the value has no effect on the model */
    br_gguf_type_needed type;
    bool required;
    /* The only supported value, as JSON, for a key that would change the numbers of the model. A
     * key with such a value is not added to the configuration. NULL: all values are supported. */
    const char *only;
    const char *nothing; /* a string that means the same as a missing key: "none"; NULL: there is
                            none */
} br_gguf_key;

/* A key of config.json that is true if the file has a tensor, and false if it has not. */
typedef struct br_gguf_flag {
    const char *tensor, *config;
} br_gguf_flag;

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Tensors that the converter of llama.cpp changed. `undo` returns the weight of the module for a
 * tensor of the file, f32 with the weight's shape. */
typedef struct br_gguf_change {
    const char *suffix; /* of the tensor's name in the file: "attn_q.weight" */
    br_tensor *(*undo)(const br_auto_config *config, br_tensor *stored);
    /* `undo` only changes the order of the rows, whatever their dtype and size. Then it also works
     * on the bytes of quantized rows, u8 [rows, bytes]. */
    bool moves_rows;
} br_gguf_change;

/* ---- The format ------------------------------------------------------------------------------ */

typedef struct br_gguf_format {
    const char *architecture;  /* the value of general.architecture */
    const br_gguf_key *keys;   /* the last has no name */
    const br_gguf_flag *flags; /* the last has no tensor; NULL: none */
    /* The names of the tensors. Files never have the prefix. */
    br_key_map names;
    const br_gguf_change *changes; /* the last has no suffix; NULL: none */
    /* Returns a JSON object with further keys of config.json, which replace those of `keys`. The
     * caller frees it with br_free(). Returns NULL and an error if the file is not supported. The
     * function is NULL if there are no such keys. */
    char *(*more)(br_gguf *file);
} br_gguf_format;

#ifdef __cplusplus
}
#endif
#endif
