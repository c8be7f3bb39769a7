/* chat/jinja.h - an interpreter for the part of the template language Jinja that chat templates
 * use.
 *
 * lexer.c cuts a template into tokens; expressions.c and statements.c make the tree; evaluate.c
 * computes expressions, and execute.c runs statements. values.c has the rules of Python for values,
 * text.c those for strings, show.c writes values as text. filters.c, predicates.c (Jinja's tests),
 * methods.c and functions.c are tables of what templates can call.
 *
 * Everything that a run makes lives in the run's arena and is freed with it. A function that
 * returns bool returns false with an error. */
#ifndef BR_JINJA_H
#define BR_JINJA_H

#include "io/io_internal.h"
#include "tensor/growing_text.h"

#include <jansson.h>
#include <string.h>

/* ---- Values ---------------------------------------------------------------------------------- */

/* UTF-8 without NUL, not terminated. */
typedef struct jinja_text {
    const char *data;
    size_t n;
} jinja_text;

#define JINJA_TEXT(literal) ((jinja_text){ literal, sizeof(literal) - 1 })

typedef enum jinja_kind {
    JINJA_ABSENT, /* an argument that a call leaves out */
    JINJA_UNDEFINED,
    JINJA_NULL, /* Python's None */
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_MARKUP, /* a string after the filter safe: adding a string to it escapes HTML */
    JINJA_SEQUENCE,
    JINJA_DICT,
    JINJA_NAMESPACE, /* uses `dict` */
    JINJA_LOOP,
    JINJA_MACRO,
    JINJA_METHOD,
} jinja_kind;

typedef struct jinja_value {
    jinja_kind kind;
    union {
        bool truth;
        int64_t integer;
        double real;
        jinja_text text; /* of an undefined value: the message of the error if it is used */
        struct jinja_sequence *sequence;
        struct jinja_dict *dict;
        struct jinja_loop *loop;
        struct jinja_macro *macro;
        struct jinja_method *method;
    };
} jinja_value;

/* Python's types of sequences. They differ in how they are written and compared, and a generator
 * can be read once. */
typedef enum jinja_form {
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_RANGE,
    JINJA_VIEW, /* of a dict: its keys, values or items */
    JINJA_GENERATOR,
} jinja_form;

typedef struct jinja_sequence {
    jinja_form form;
    size_t n, capacity;
    jinja_value *items;
} jinja_sequence;

typedef struct jinja_pair {
    jinja_value key, value;
} jinja_pair;

typedef struct jinja_dict {
    size_t n, capacity;
    jinja_pair *pairs;
} jinja_dict;

typedef struct jinja_arguments {
    size_t n, n_named;
    const jinja_value *values;
    const jinja_pair *named; /* the keys are strings */
} jinja_arguments;

/* ---- Trees ----------------------------------------------------------------------------------- */

typedef enum jinja_node_kind {
    NODE_CONSTANT,
    NODE_NAME,
    NODE_LIST,
    NODE_TUPLE,
    NODE_DICT,      /* list: key, value, key, value ... */
    NODE_ATTRIBUTE, /* a.name */
    NODE_ITEM,      /* a[b] */
    NODE_SLICE,     /* a:b:c, each may be NULL; only as the b of an item */
    NODE_CALL,      /* a(list, other) */
    NODE_FILTER,    /* a | name(list, other) */
    NODE_TEST,      /* a is name(list, other) */
    NODE_KEYWORD,   /* name=a, in a list of arguments */
    NODE_NOT,
    NODE_NEGATIVE,
    NODE_POSITIVE,
    NODE_AND,
    NODE_OR,
    NODE_ARITHMETIC, /* a op b */
    NODE_CONCAT,     /* the elements of list, joined by ~ */
    NODE_COMPARE,    /* a, compared with the operands in list in turn */
    NODE_OPERAND,    /* op a */
    NODE_CONDITION,  /* a if b else c; c may be NULL */
    NODE_MEMBER,     /* the target name.text of an assignment */
    NODE_BLOCK_TEXT, /* the text of the block that a filter follows */

    NODE_DATA,       /* text between the tags */
    NODE_OUTPUT,     /* {{ a }} */
    NODE_IF,         /* if a: list; b is the next branch, `other` that of else */
    NODE_FOR,        /* for a in b if c: list, else: other; op: is it recursive? */
    NODE_SET,        /* set a = b */
    NODE_SET_BLOCK,  /* set a | filters b: list */
    NODE_MACRO,      /* macro name(other): list; op: a set of jinja_extras */
    NODE_CALL_BLOCK, /* the macro b is the caller of the call a */
    NODE_WITH,       /* other: targets and values in turn; list */
    NODE_FILTERED,   /* filter b: list */
    NODE_SCOPE,      /* generation: list */
    NODE_BREAK,
    NODE_CONTINUE,
} jinja_node_kind;

/* The names that a macro has besides its parameters if its body uses them. */
enum jinja_extras { EXTRA_VARARGS = 1, EXTRA_KWARGS = 2, EXTRA_CALLER = 4 };

typedef struct jinja_node {
    jinja_node_kind kind;
    int op; /* JINJA_OP() of an operator; also see above */
    int line;
    jinja_text name;
    jinja_value value;
    struct jinja_node *a, *b, *c;
    struct jinja_node *list, *other; /* the first of nodes linked by `next` */
    struct jinja_node *next;
} jinja_node;

/* Where a template is read or run, for messages. */
typedef struct jinja_place {
    const char *name; /* of the template: a path */
    int line;
} jinja_place;

/* Sets the error "chat_template: NAME: line N: ..." and returns false. */
bool br__jinja_fail(const jinja_place *place, const char *format, ...) BR_PRINTF(2, 3);

/* ---- Reading --------------------------------------------------------------------------------- */

#define JINJA_OP(first, second) ((first) | (second) << 8)
enum { OP_IN = JINJA_OP('i', 'n'), OP_NOT_IN = JINJA_OP('n', 'i') };

typedef enum jinja_token_kind {
    TOKEN_DATA,
    TOKEN_OUTPUT_BEGIN,
    TOKEN_OUTPUT_END,
    TOKEN_BLOCK_BEGIN,
    TOKEN_BLOCK_END,
    TOKEN_NAME,
    TOKEN_LITERAL, /* a string or a number */
    TOKEN_OPERATOR,
    TOKEN_END,
} jinja_token_kind;

typedef struct jinja_token {
    jinja_token_kind kind;
    int op;
    int line;
    jinja_text text;   /* of data and names; of others: as it is in the template */
    jinja_value value; /* of literals */
} jinja_token;

/* Cuts a template into tokens, which end with TOKEN_END and live in the arena. The text must be
 * UTF-8 and live as long. Returns NULL on failure. */
const jinja_token *br__jinja_tokens(br_arena *arena, const char *name, const char *text, size_t n);

typedef struct jinja_parser {
    jinja_place place;
    br_arena *arena;
    const jinja_token *token; /* the next one */
    int depth;
    int blocks, loops; /* that are open */
    int *extras;       /* of the macro whose body is read; NULL outside a macro */
} jinja_parser;

bool br__jinja_parse_fail(jinja_parser *p, const char *expected);
jinja_node *br__jinja_node(jinja_parser *p, jinja_node_kind kind);
/* Return whether the next token is this name or operator; `skip` also moves past it. */
bool br__jinja_at_name(const jinja_parser *p, const char *name);
bool br__jinja_at_op(const jinja_parser *p, int op);
bool br__jinja_skip_name(jinja_parser *p, const char *name);
bool br__jinja_skip_op(jinja_parser *p, int op);
bool br__jinja_expect_op(jinja_parser *p, int op, const char *what);
bool br__jinja_expect_name(jinja_parser *p, jinja_text *name);
/* Read an expression; `conditional` allows "a if b". Return NULL on failure. The second also reads
 * "a, b", which is a tuple. */
jinja_node *br__jinja_expression(jinja_parser *p, bool conditional);
jinja_node *br__jinja_tuple(jinja_parser *p, bool conditional);
/* Reads the target of an assignment: a name, name.member, or a tuple of targets. */
jinja_node *br__jinja_target(jinja_parser *p, bool members);
/* Reads "| name(...) | ..." after `input`, which is returned if there is no filter. */
jinja_node *br__jinja_filters(jinja_parser *p, jinja_node *input);
/* Reads the filters of a block, the first of which has no "|". */
jinja_node *br__jinja_block_filters(jinja_parser *p);
/* Reads a whole template. Returns false on failure; the list of an empty template is NULL. */
bool br__jinja_parse(br_arena *arena, const char *name, const char *text, size_t n,
                     jinja_node **list);

/* ---- Running --------------------------------------------------------------------------------- */

/* The variables of a block. An inner scope sees those of the outer ones and cannot change them. */
typedef struct jinja_scope {
    struct jinja_scope *outer;
    jinja_dict variables;
} jinja_scope;

typedef struct jinja_run {
    jinja_place place;
    br_arena arena;
    jinja_scope *scope;
    const jinja_dict *variables; /* what the caller of the template passed */
    br__text *output;
    jinja_value block_text;
    int64_t time;    /* seconds since 1970 */
    int64_t memory;  /* bytes that the arena may still grow by */
    int64_t steps;   /* nodes that may still be evaluated */
    int depth;       /* of nested evaluations */
    int loop_signal; /* NODE_BREAK or NODE_CONTINUE while a loop is left; else 0 */
} jinja_run;

typedef struct jinja_loop {
    jinja_sequence *items;
    size_t index;
    int depth;
    jinja_value changed; /* the arguments of the last changed(); absent: none */
    const jinja_node *node;
    jinja_scope *scope;
    /* Runs the body for other items, for a recursive loop; the value is its text. */
    bool (*recurse)(jinja_run *run, struct jinja_loop *self, jinja_value items, jinja_value *out);
} jinja_loop;

typedef struct jinja_macro {
    const jinja_node *node;
    jinja_scope *scope; /* where it was defined */
    bool (*call)(jinja_run *run, struct jinja_macro *self, const jinja_arguments *arguments,
                 jinja_value *out);
} jinja_macro;

/* What templates can call. `self` is the input of a filter, or the object of a method. */
typedef struct jinja_callable {
    const char *name;
    /* `a` has a value for each parameter, JINJA_ABSENT where the call has none; if `parameters` is
     * "*", it is NULL, and the function reads `all`. */
    bool (*call)(jinja_run *run, jinja_value self, const jinja_value *a, const jinja_arguments *all,
                 jinja_value *out);
    int required;           /* number of parameters that have no default */
    const char *parameters; /* names with spaces between them */
} jinja_callable;

typedef struct jinja_method {
    jinja_value self;
    const jinja_callable *callable;
} jinja_method;

enum { JINJA_MAX_PARAMETERS = 5 };

/* Binds arguments to parameters and calls. `what` begins messages, such as "filter". */
bool br__jinja_apply(jinja_run *run, const char *what, const jinja_callable *callable,
                     jinja_value self, const jinja_arguments *arguments, jinja_value *out);

/* Returns memory of the run's arena; NULL with an error on failure, or if the template needs too
 * much. */
void *br__jinja_alloc(jinja_run *run, size_t size);
/* Fails if the template takes too many steps. */
bool br__jinja_count_step(jinja_run *run);
/* Fails if calls are nested too deep. The caller subtracts 1 from run->depth at its end. */
bool br__jinja_enter(jinja_run *run);

/* ---- values.c -------------------------------------------------------------------------------- */

static inline jinja_value jinja_bool(bool truth)
{
    return (jinja_value){ JINJA_BOOL, { .truth = truth } };
}

static inline jinja_value jinja_int(int64_t integer)
{
    return (jinja_value){ JINJA_INT, { .integer = integer } };
}

static inline jinja_value jinja_real(double real)
{
    return (jinja_value){ JINJA_FLOAT, { .real = real } };
}

static inline jinja_value jinja_string(jinja_text text)
{
    return (jinja_value){ JINJA_STRING, { .text = text } };
}

static inline jinja_text jinja_text_of(const char *text)
{
    return (jinja_text){ text, strlen(text) };
}

/* Returns whether an argument has a value other than None. */
static inline bool jinja_is_given(jinja_value v)
{
    return v.kind != JINJA_ABSENT && v.kind != JINJA_NULL;
}

static inline bool jinja_text_is(jinja_text text, const char *other)
{
    size_t n = strlen(other);
    return text.n == n && memcmp(text.data, other, n) == 0;
}

static inline bool jinja_text_equal(jinja_text a, jinja_text b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.data, b.data, a.n) == 0);
}

static inline bool jinja_is_text(jinja_value v)
{
    return v.kind == JINJA_STRING || v.kind == JINJA_MARKUP;
}

static inline bool jinja_is_number(jinja_value v)
{
    return v.kind == JINJA_BOOL || v.kind == JINJA_INT || v.kind == JINJA_FLOAT;
}

/* Returns Python's name of the type. */
const char *br__jinja_type(jinja_value v);
/* Returns a bool or an integer as an integer. */
int64_t br__jinja_integer(jinja_value v);
/* Reads an argument that must be an integer; `absent` is the value if the call leaves it out. */
bool br__jinja_read_integer(jinja_run *run, const char *what, jinja_value v, int64_t absent,
                            int64_t *value);
/* Fail if the value is of another type. `what` begins the message. */
bool br__jinja_check_text(jinja_run *run, const char *what, jinja_value v);
bool br__jinja_check_number(jinja_run *run, const char *what, jinja_value v);
/* Returns the truth of an argument; `absent` is the truth if the call leaves it out. */
bool br__jinja_option(jinja_value v, bool absent);
double br__jinja_number(jinja_value v);
bool br__jinja_truth(jinja_value v);
bool br__jinja_equal(jinja_value a, jinja_value b);
/* Compares as Python's < does: *order is negative, 0 or positive, or 2 if a NaN is compared. */
bool br__jinja_order(jinja_run *run, const char *operator, jinja_value a, jinja_value b,
                     int *order);
/* Copies bytes into the run's arena. */
bool br__jinja_copy(jinja_run *run, const char *data, size_t n, jinja_value *out);
bool br__jinja_join(jinja_run *run, jinja_text a, jinja_text b, jinja_value *out);
/* Joins strings with a separator between them. */
bool br__jinja_join_all(jinja_run *run, const jinja_sequence *strings, jinja_text separator,
                        jinja_value *out);
bool br__jinja_new_sequence(jinja_run *run, jinja_form form, jinja_value *out);
bool br__jinja_append(jinja_run *run, jinja_sequence *sequence, jinja_value item);
jinja_value br__jinja_new_dict(jinja_run *run); /* JINJA_ABSENT on failure */
/* Returns the value of a key, or NULL. */
const jinja_value *br__jinja_find(const jinja_dict *dict, jinja_value key);
const jinja_value *br__jinja_find_text(const jinja_dict *dict, const char *key);
bool br__jinja_put(jinja_run *run, jinja_dict *dict, jinja_value key, jinja_value value);
/* Returns a value that is an error only if it is used. */
jinja_value br__jinja_undefined(jinja_run *run, const char *format, ...) BR_PRINTF(2, 3);
/* Fails if the value is undefined. */
bool br__jinja_check_defined(jinja_run *run, jinja_value v);
/* Fails if the value cannot be a key. */
bool br__jinja_check_key(jinja_run *run, jinja_value v);
/* Gives the items that Python's iter() would give: characters, keys, elements. Reads a generator.
 */
bool br__jinja_iterate(jinja_run *run, jinja_value v, jinja_value *out);
/* Gives the same items, and an empty generator for what is made of them. Also None has no items. */
bool br__jinja_begin_generator(jinja_run *run, jinja_value v, jinja_value *items,
                               jinja_value *generator);
/* Gives the tuples (key, value) of a dict. */
bool br__jinja_pairs(jinja_run *run, const jinja_dict *dict, jinja_form form, jinja_value *out);
/* Returns Python's len(). */
bool br__jinja_length(jinja_run *run, jinja_value v, int64_t *length);
/* Returns whether b contains a, as Python's `in`. */
bool br__jinja_contains(jinja_run *run, jinja_value a, jinja_value b, bool *contains);
/* Makes values of JSON. */
bool br__jinja_from_json(jinja_run *run, const json_t *json, jinja_value *out);

/* ---- text.c: strings of code points ---------------------------------------------------------- */

/* Returns the code point at *at and moves past it. */
uint32_t br__jinja_next_char(const char **at);
size_t br__jinja_count_chars(jinja_text text);
/* Returns the text of `n` code points from the one with this index. */
jinja_text br__jinja_chars(jinja_text text, size_t index, size_t n);
bool br__jinja_is_space(uint32_t c); /* Python's str.isspace() */
/* Removes code points at the ends: white space if chars is NULL, else those of `chars`. */
jinja_text br__jinja_strip(jinja_text text, const jinja_text *chars, bool left, bool right);
/* Returns the byte at which `part` first occurs at or after `from`; SIZE_MAX: it does not. */
size_t br__jinja_find_part(jinja_text text, jinja_text part, size_t from);
size_t br__jinja_find_last(jinja_text text, jinja_text part);
/* Replaces at most `count` occurrences; negative: all. */
bool br__jinja_replace(jinja_run *run, jinja_text text, jinja_text old, jinja_text new,
                       int64_t count, jinja_value *out);
typedef enum jinja_case {
    JINJA_LOWER,
    JINJA_UPPER,
    JINJA_CAPITALIZE, /* the first character in title case, the others in lower case */
} jinja_case;
bool br__jinja_change_case(jinja_run *run, jinja_text text, jinja_case to, jinja_value *out);

/* Replaces the characters that HTML gives a meaning. */
bool br__jinja_escape(jinja_run *run, jinja_text text, jinja_value *out);

/* ---- show.c ---------------------------------------------------------------------------------- */

/* Gives Python's str() or repr(). */
bool br__jinja_str(jinja_run *run, jinja_value v, jinja_text *out);
bool br__jinja_repr(jinja_run *run, jinja_value v, jinja_text *out);

typedef struct jinja_json_style {
    bool ascii, sorted;
    bool indented;
    jinja_text indent; /* of a level, if indented */
    jinja_text comma, colon;
} jinja_json_style;
/* Gives Python's json.dumps(). */
bool br__jinja_json(jinja_run *run, jinja_value v, const jinja_json_style *style, jinja_value *out);

/* ---- What templates can call ----------------------------------------------------------------- */

bool br__jinja_test(jinja_run *run, jinja_text name, jinja_value v,
                    const jinja_arguments *arguments, bool *holds);
/* Gives an attribute of an item: "a.b" is the attribute b of a, and digits are an index. `absent`
 * replaces what is undefined. */
bool br__jinja_attribute_of(jinja_run *run, jinja_value item, jinja_value path, jinja_value absent,
                            jinja_value *out);
/* The filters but "map"; the last name is NULL. */
extern const jinja_callable br__jinja_text_filters[], br__jinja_sequence_filters[];
bool br__jinja_filter(jinja_run *run, jinja_text name, jinja_value v,
                      const jinja_arguments *arguments, jinja_value *out);
extern const jinja_callable br__jinja_text_methods[]; /* ends with a name of NULL */
/* Gives v.name as Jinja does: a method before an element; v["name"]: an element before a method. */
bool br__jinja_attribute(jinja_run *run, jinja_value v, jinja_text name, jinja_value *out);
bool br__jinja_item(jinja_run *run, jinja_value v, jinja_value index, jinja_value *out);
bool br__jinja_slice(jinja_run *run, jinja_value v, const jinja_value parts[3], jinja_value *out);
/* Returns the global function of this name, or NULL. Fails for a name that Jinja has and Brasa has
 * not. */
bool br__jinja_global(jinja_run *run, jinja_text name, jinja_value *out);

bool br__jinja_evaluate(jinja_run *run, const jinja_node *node, jinja_value *out);
/* Runs statements, and appends their text to the run's output. */
bool br__jinja_execute(jinja_run *run, const jinja_node *list);

#endif
