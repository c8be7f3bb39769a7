/* models/rope_config.c - rotary positions in config.json, in today's form and in that of older
 * files. */
#include "models/models_internal.h"

#include <inttypes.h>

/* ---- config.json ----------------------------------------------------------------------------- */

/* Names of br_rope_type, in its order. */
static const char *const types[] = { "default", "linear", "dynamic", "yarn", "llama3", "longrope" };
enum { N_TYPES = sizeof types / sizeof *types };
/* The types of Phi-3, of which all but the first are longrope. */
static const char *const phi_types[] = { "default", "longrope", "su", "yarn" };
enum { N_PHI_TYPES = sizeof phi_types / sizeof *phi_types };

/* The object in config.json that describes the positions. */
typedef struct object {
    const br_auto_config *config;
    char path[64];
    const char *over;      /* another object, whose keys take precedence; NULL: none */
    bool ignores_truncate; /* as transformers does in an object for a kind of layer */
    bool is_phi;
} object;

/* Returns the path of a key of the object. */
enum { PATH = 128 };
static const char *path_of(const object *o, const char *key, char path[PATH])
{
    snprintf(path, PATH, "%s.%s", o->over ? o->over : o->path, key);
    if (o->over && !br_auto_config_has(o->config, path))
        snprintf(path, PATH, "%s.%s", o->path, key);
    return path;
}

static bool has(const object *o, const char *key)
{
    char path[PATH];
    return br_auto_config_has(o->config, path_of(o, key, path));
}

/* Returns a number, or the default if the object lacks it or it is null. */
static double number(const object *o, const char *key, double otherwise)
{
    char path[PATH];
    return has(o, key) ? br_auto_config_number(o->config, path_of(o, key, path)) : otherwise;
}

static double required(const object *o, const char *key)
{
    char path[PATH];
    return br_auto_config_number(o->config, path_of(o, key, path));
}

static br_rope_type read_type(const object *o)
{
    char path[PATH];
    const char *key = has(o, "rope_type") ? "rope_type" : "type";
    if (!has(o, key))
        return BR_ROPE_DEFAULT;
    if (o->is_phi)
        return br_auto_config_choice(o->config, path_of(o, key, path), N_PHI_TYPES, phi_types) > 0
                   ? BR_ROPE_LONGROPE
                   : BR_ROPE_DEFAULT;
    return (br_rope_type)br_auto_config_choice(o->config, path_of(o, key, path), N_TYPES, types);
}

/* Returns the length of the texts of the training. */
static int64_t read_trained_length(const object *o, br_rope_type type)
{
    static const char own[] = "original_max_position_embeddings";
    char path[PATH];
    bool has_own = type != BR_ROPE_DYNAMIC && type != BR_ROPE_LINEAR;
    if (has_own && br_auto_config_has(o->config, own))
        return br_auto_config_size(o->config, own);
    if (has_own && has(o, own))
        return br_auto_config_size(o->config, path_of(o, own, path));
    return br_auto_config_size(o->config, "max_position_embeddings");
}

static void read_yarn(const object *o, br_rope_options *r)
{
    char path[PATH];
    int64_t longest = br_auto_config_size(o->config, "max_position_embeddings");
    if (!has(o, "factor") && r->original_max_position_embeddings > 0)
        r->factor = (double)longest / (double)r->original_max_position_embeddings;
    r->attention_factor = number(o, "attention_factor", BR_NONE_F64);
    r->mscale = number(o, "mscale", 0);
    r->mscale_all_dim = number(o, "mscale_all_dim", 0);
    double fast = number(o, "beta_fast", 0), slow = number(o, "beta_slow", 0);
    r->beta_fast = fast == 0 ? 32 : fast;
    r->beta_slow = slow == 0 ? 1 : slow;
    r->no_truncate = !o->ignores_truncate && has(o, "truncate") &&
                     !br_auto_config_bool(o->config, path_of(o, "truncate", path));
}

/* Reads a list of factors. */
static void read_list(const object *o, const char *key, double list[BR_ROPE_MAX_FACTORS],
                      int64_t *n)
{
    char path[PATH];
    *n = br_auto_config_list_size(o->config, path_of(o, key, path));
    if (*n > BR_ROPE_MAX_FACTORS && !br_error_pending())
        br_raise(BR_ERROR_FORMAT, "rope: %s: %s has %" PRId64 " numbers, must have at most %d",
                 br_auto_config_path(o->config), path, *n, BR_ROPE_MAX_FACTORS);
    for (int64_t i = 0; i < *n && !br_error_pending(); i++)
        list[i] = br_auto_config_list_number(o->config, path, i);
}

/* Sets the factor of the attention to that of the file, or by the ratio of the two lengths. */
static void read_longrope(const object *o, br_rope_options *r)
{
    int64_t n_long = 0;
    double longest = (double)br_auto_config_size(o->config, "max_position_embeddings");
    if (br_error_pending())
        return;
    r->factor = number(o, "factor", longest / (double)r->original_max_position_embeddings);
    r->attention_factor = number(o, "attention_factor", BR_NONE_F64);
    read_list(o, "short_factor", r->short_factor, &r->n_factors);
    read_list(o, "long_factor", r->long_factor, &n_long);
    if (n_long != r->n_factors && !br_error_pending())
        br_raise(BR_ERROR_FORMAT,
                 "rope: %s: %s.short_factor has %" PRId64 " numbers and long_factor has %" PRId64
                 ": they must have one for each pair of a head's turned numbers",
                 br_auto_config_path(o->config), o->path, r->n_factors, n_long);
}

/* Refuses an object for all kinds of layers whose type has the old name, which transformers 5 does
 * not read there. */
static bool good_name(const object *o)
{
    char old[PATH], now[PATH];
    snprintf(old, PATH, "%s.type", o->over ? o->over : "");
    snprintf(now, PATH, "%s.rope_type", o->over ? o->over : "");
    if (!o->over || !br_auto_config_has(o->config, old) || br_auto_config_has(o->config, now))
        return !br_error_pending();
    br_raise(BR_ERROR_FORMAT,
             "rope: %s: %s is not read by transformers beside layers of two kinds: rename the key "
             "to rope_type, or remove %s if the positions are not scaled",
             br_auto_config_path(o->config), old, o->over);
    return false;
}

/* Finds the object. */
static object find_object(const br_auto_config *config, const zoo_rope_keys *keys)
{
    object o = { .config = config, .path = "rope_parameters", .ignores_truncate = keys->inner };
    o.is_phi = keys->is_phi;
    const bool is_old = keys->scaling && br_auto_config_has_object(config, keys->scaling);
    if (!keys->inner) {
        snprintf(o.path, sizeof o.path, "%s", is_old ? keys->scaling : "rope_parameters");
        return o;
    }
    o.over = is_old ? keys->scaling : NULL;
    const bool has_both = br_auto_config_has_object(config, o.path);
    snprintf(o.path, sizeof o.path, "rope_parameters.%s", keys->inner);
    if (has_both)
        br_auto_config_has_object(config, o.path);
    return o;
}

/* Reads what only scaled positions have. */
static void read_scaling(const object *o, br_rope_options *r)
{
    r->original_max_position_embeddings = read_trained_length(o, r->type);
    if (r->type == BR_ROPE_LONGROPE) {
        read_longrope(o, r);
        return;
    }
    r->factor = r->type == BR_ROPE_YARN ? number(o, "factor", 1) : required(o, "factor");
    if (r->type == BR_ROPE_YARN)
        read_yarn(o, r);
    if (r->type == BR_ROPE_LLAMA3) {
        r->low_freq_factor = required(o, "low_freq_factor");
        r->high_freq_factor = required(o, "high_freq_factor");
    }
}

br_rope_options zoo_read_rope(const br_auto_config *config, const zoo_rope_keys *keys)
{
    br_rope_options r = br_rope_defaults();
    const object o = find_object(config, keys);
    if (good_name(&o))
        r.type = read_type(&o);
    if (br_error_pending())
        return r;
    r.theta = keys->default_theta;
    if (has(&o, "rope_theta"))
        r.theta = required(&o, "rope_theta");
    else if (br_auto_config_has(config, keys->theta))
        r.theta = br_auto_config_number(config, keys->theta);
    if (r.type != BR_ROPE_DEFAULT)
        read_scaling(&o, &r);
    return r;
}

int64_t zoo_read_rotary_dim(const br_auto_config *config, const zoo_rope_keys *keys, int64_t size)
{
    static const char key[] = "partial_rotary_factor";
    if (!keys->partial)
        return size;
    const object o = find_object(config, keys);
    double part = keys->default_partial;
    if (has(&o, key))
        part = required(&o, key);
    else if (br_auto_config_has(config, keys->partial))
        part = br_auto_config_number(config, keys->partial);
    if (br_error_pending())
        return 0;
    int64_t dim = part > 0 && part <= 1 ? (int64_t)((double)size * part) : 0;
    if (dim >= 2 && dim % 2 == 0)
        return dim;
    br_raise(BR_ERROR_FORMAT,
             "rope: %s: %s (%s) is %g: it must be a part of a head of %" PRId64
             " numbers that is an even number and at least 2",
             br_auto_config_path(config), key, keys->partial, part, size);
    return 0;
}

/* ---- Turning heads --------------------------------------------------------------------------- */

br_tensor *zoo_turn(br_tensor *x, br_tensor *cos, br_tensor *sin)
{
    if (br_error_pending())
        return NULL;
    int64_t d = br_size(x, -1), dim = 2 * br_size(cos, -1);
    if (d == dim)
        return br_f_rotary_embedding(x, cos, sin, false);
    br_tensor *turned = br_f_rotary_embedding(br_narrow(x, -1, 0, dim), cos, sin, false);
    return br_cat(BR_INPUTS(turned, br_narrow(x, -1, dim, d - dim)), -1);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Computes the positions of no token, which checks the options. */
bool zoo_good_rope(int64_t size, const br_rope_options *rope)
{
    br_tensor *cos, *sin;
    br_scope *scope = br_scope_begin();
    br_tensor *none = br_empty(BR_SHAPE(0), BR_I64);
    const bool ok = br_rope(none, size, BR_F64, rope, &cos, &sin);
    br_scope_end(scope);
    return ok;
}

static bool same_factors(const br_rope_options *a, const br_rope_options *b)
{
    bool same = a->n_factors == b->n_factors;
    for (int64_t i = 0; same && i < a->n_factors; i++)
        same = a->short_factor[i] == b->short_factor[i] && a->long_factor[i] == b->long_factor[i];
    return same;
}

bool zoo_same_rope(const br_rope_options *a, const br_rope_options *b)
{
    return same_factors(a, b) && a->type == b->type && a->theta == b->theta &&
           a->factor == b->factor &&
           a->original_max_position_embeddings == b->original_max_position_embeddings &&
           a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor &&
           a->beta_fast == b->beta_fast && a->beta_slow == b->beta_slow && a->mscale == b->mscale &&
           a->mscale_all_dim == b->mscale_all_dim && a->no_truncate == b->no_truncate &&
           (a->attention_factor == b->attention_factor ||
            (a->attention_factor != a->attention_factor &&
             b->attention_factor != b->attention_factor)); /* both are NaN */
}
