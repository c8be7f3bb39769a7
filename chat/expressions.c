/* chat/expressions.c - reads the expressions of a template. Each function reads what binds more
 * tightly than the one before it, in the order of Jinja's grammar. */
#include "chat/jinja.h"

/* ---- Literals, names and brackets ------------------------------------------------------------ */

static jinja_node *constant(jinja_parser *p, jinja_value value)
{
    jinja_node *node = br__jinja_node(p, NODE_CONSTANT);
    if (node)
        node->value = value;
    return node;
}

/* Reads a literal. Strings that follow one another are joined. */
static jinja_node *read_literal(jinja_parser *p)
{
    jinja_node *node = constant(p, p->token++->value);
    while (node && node->value.kind == JINJA_STRING && p->token->kind == TOKEN_LITERAL &&
           p->token->value.kind == JINJA_STRING) {
        jinja_text a = node->value.text, b = p->token++->value.text;
        char *joined = br__arena_alloc(p->arena, a.n + b.n + 1);
        if (!joined)
            return NULL;
        memcpy(joined, a.data, a.n);
        memcpy(joined + a.n, b.data, b.n);
        node->value.text = (jinja_text){ joined, a.n + b.n };
    }
    return node;
}

/* Notes a name that a macro has only if its body uses it. */
static void note_extra(const jinja_parser *p, jinja_text name)
{
    if (!p->extras)
        return;
    *p->extras |= jinja_text_is(name, "varargs") ? EXTRA_VARARGS : 0;
    *p->extras |= jinja_text_is(name, "kwargs") ? EXTRA_KWARGS : 0;
    *p->extras |= jinja_text_is(name, "caller") ? EXTRA_CALLER : 0;
}

static jinja_node *read_name(jinja_parser *p)
{
    static const char *const names[] = { "true", "True", "false", "False", "none", "None" };
    for (int i = 0; i < 6; i++) {
        if (br__jinja_at_name(p, names[i])) {
            p->token++;
            return constant(p, i < 4 ? jinja_bool(i < 2) : (jinja_value){ JINJA_NULL, { 0 } });
        }
    }
    jinja_node *node = br__jinja_node(p, NODE_NAME);
    if (node)
        node->name = p->token++->text;
    if (node)
        note_extra(p, node->name);
    return node;
}

static jinja_node *read_list(jinja_parser *p)
{
    jinja_node *node = br__jinja_node(p, NODE_LIST);
    p->token++;
    for (jinja_node **last = node ? &node->list : NULL; node && !br__jinja_at_op(p, ']');
         last = &(*last)->next) {
        *last = br__jinja_expression(p, true);
        if (!*last ||
            (!br__jinja_at_op(p, ']') && !br__jinja_expect_op(p, ',', "',' or ']' in a list")))
            return NULL;
    }
    p->token++;
    return node;
}

static jinja_node *read_dict(jinja_parser *p)
{
    jinja_node *node = br__jinja_node(p, NODE_DICT);
    p->token++;
    for (jinja_node **last = node ? &node->list : NULL; node && !br__jinja_at_op(p, '}');
         last = &(*last)->next->next) {
        *last = br__jinja_expression(p, true);
        if (!*last || !br__jinja_expect_op(p, ':', "':' after a key"))
            return NULL;
        (*last)->next = br__jinja_expression(p, true);
        if (!(*last)->next ||
            (!br__jinja_at_op(p, '}') && !br__jinja_expect_op(p, ',', "',' or '}' in a dict")))
            return NULL;
    }
    p->token++;
    return node;
}

static jinja_node *read_parentheses(jinja_parser *p)
{
    p->token++;
    if (br__jinja_at_op(p, ')')) {
        jinja_node *empty = br__jinja_node(p, NODE_TUPLE);
        p->token++;
        return empty;
    }
    jinja_node *node = br__jinja_tuple(p, true);
    return node && br__jinja_expect_op(p, ')', "')'") ? node : NULL;
}

static jinja_node *read_primary(jinja_parser *p)
{
    if (p->token->kind == TOKEN_LITERAL)
        return read_literal(p);
    if (p->token->kind == TOKEN_NAME)
        return read_name(p);
    if (br__jinja_at_op(p, '('))
        return read_parentheses(p);
    if (br__jinja_at_op(p, '['))
        return read_list(p);
    if (br__jinja_at_op(p, '{'))
        return read_dict(p);
    br__jinja_parse_fail(p, "an expression");
    return NULL;
}

/* ---- Calls, elements, filters and tests ------------------------------------------------------ */

static bool is_keyword(const jinja_parser *p)
{
    return p->token->kind == TOKEN_NAME && p->token[1].kind == TOKEN_OPERATOR &&
           p->token[1].op == '=';
}

static jinja_node *read_keyword(jinja_parser *p)
{
    jinja_node *node = br__jinja_node(p, NODE_KEYWORD);
    if (!node)
        return NULL;
    node->name = p->token->text;
    p->token += 2;
    node->a = br__jinja_expression(p, true);
    return node->a ? node : NULL;
}

/* Reads "(a, b, name=c)" into the node. */
static bool read_arguments(jinja_parser *p, jinja_node *node)
{
    jinja_node **last = &node->list, **last_named = &node->other;
    p->token++;
    while (!br__jinja_at_op(p, ')')) {
        if (br__jinja_at_op(p, '*') || br__jinja_at_op(p, JINJA_OP('*', '*')))
            return br__jinja_fail(&p->place,
                                  "line %d: *arguments and **arguments of a call are "
                                  "not supported",
                                  p->token->line);
        bool named = is_keyword(p);
        if (!named && node->other)
            return br__jinja_parse_fail(p, "NAME=VALUE after an argument with a name");
        jinja_node *argument = named ? read_keyword(p) : br__jinja_expression(p, true);
        if (!argument)
            return false;
        if (named) {
            *last_named = argument;
            last_named = &argument->next;
        } else {
            *last = argument;
            last = &argument->next;
        }
        if (!br__jinja_at_op(p, ')') && !br__jinja_expect_op(p, ',', "',' or ')' in a call"))
            return false;
    }
    p->token++;
    return true;
}

static jinja_node *read_call(jinja_parser *p, jinja_node *function)
{
    jinja_node *node = br__jinja_node(p, NODE_CALL);
    if (!node)
        return NULL;
    node->a = function;
    return read_arguments(p, node) ? node : NULL;
}

/* Reads the part of a slice that ends at ":" or "]"; *part is NULL if it is empty. */
static bool read_bound(jinja_parser *p, jinja_node **part)
{
    if (br__jinja_at_op(p, ':') || br__jinja_at_op(p, ']'))
        return true;
    *part = br__jinja_expression(p, true);
    return *part != NULL;
}

/* Reads "index]" or "begin:end:step]". */
static jinja_node *read_index(jinja_parser *p)
{
    jinja_node *slice = br__jinja_node(p, NODE_SLICE);
    if (!slice || !read_bound(p, &slice->a))
        return NULL;
    bool is_slice = br__jinja_skip_op(p, ':');
    if (is_slice &&
        (!read_bound(p, &slice->b) || (br__jinja_skip_op(p, ':') && !read_bound(p, &slice->c))))
        return NULL;
    if (!is_slice && !slice->a) {
        br__jinja_parse_fail(p, "an index");
        return NULL;
    }
    return br__jinja_expect_op(p, ']', "']'") ? is_slice ? slice : slice->a : NULL;
}

static jinja_node *read_subscript(jinja_parser *p, jinja_node *object)
{
    jinja_node *node = br__jinja_node(p, NODE_ITEM);
    if (!node)
        return NULL;
    node->a = object;
    if (br__jinja_skip_op(p, '[')) {
        node->b = read_index(p);
        return node->b ? node : NULL;
    }
    p->token++;
    if (p->token->kind == TOKEN_LITERAL && p->token->value.kind == JINJA_INT) {
        node->b = constant(p, p->token++->value);
        return node->b ? node : NULL;
    }
    node->kind = NODE_ATTRIBUTE;
    return br__jinja_expect_name(p, &node->name) ? node : NULL;
}

static jinja_node *read_postfix(jinja_parser *p, jinja_node *node)
{
    while (node) {
        if (br__jinja_at_op(p, '.') || br__jinja_at_op(p, '['))
            node = read_subscript(p, node);
        else if (br__jinja_at_op(p, '('))
            node = read_call(p, node);
        else
            break;
    }
    return node;
}

static jinja_node *read_filter(jinja_parser *p, jinja_node *input)
{
    jinja_node *node = br__jinja_node(p, NODE_FILTER);
    if (!node || !br__jinja_expect_name(p, &node->name))
        return NULL;
    node->a = input;
    return !br__jinja_at_op(p, '(') || read_arguments(p, node) ? node : NULL;
}

jinja_node *br__jinja_filters(jinja_parser *p, jinja_node *node)
{
    while (node && br__jinja_skip_op(p, '|'))
        node = read_filter(p, node);
    return node;
}

jinja_node *br__jinja_block_filters(jinja_parser *p)
{
    jinja_node *text = br__jinja_node(p, NODE_BLOCK_TEXT);
    return text ? br__jinja_filters(p, read_filter(p, text)) : NULL;
}

/* Returns whether a test's argument without parentheses follows, as in "x is divisibleby 3". */
static bool begins_argument(const jinja_parser *p)
{
    if (p->token->kind == TOKEN_NAME)
        return !br__jinja_at_name(p, "else") && !br__jinja_at_name(p, "or") &&
               !br__jinja_at_name(p, "and");
    return p->token->kind == TOKEN_LITERAL || br__jinja_at_op(p, '[') || br__jinja_at_op(p, '{');
}

static jinja_node *read_test(jinja_parser *p, jinja_node *value)
{
    p->token++;
    bool negated = br__jinja_skip_name(p, "not");
    jinja_node *node = br__jinja_node(p, NODE_TEST);
    if (!node || !br__jinja_expect_name(p, &node->name))
        return NULL;
    node->a = value;
    if (br__jinja_at_op(p, '(')) {
        if (!read_arguments(p, node))
            return NULL;
    } else if (begins_argument(p)) {
        if (br__jinja_at_name(p, "is")) {
            br__jinja_parse_fail(p, "one test");
            return NULL;
        }
        node->list = read_postfix(p, read_primary(p));
        if (!node->list)
            return NULL;
    }
    if (!negated)
        return node;
    jinja_node *not = br__jinja_node(p, NODE_NOT);
    if (not )
        not ->a = node;
    return not ;
}

static jinja_node *read_filters_and_tests(jinja_parser *p, jinja_node *node)
{
    while (node) {
        if (br__jinja_at_op(p, '|'))
            node = br__jinja_filters(p, node);
        else if (br__jinja_at_name(p, "is"))
            node = read_test(p, node);
        else if (br__jinja_at_op(p, '('))
            node = read_call(p, node);
        else
            break;
    }
    return node;
}

/* ---- Operators ------------------------------------------------------------------------------- */

static bool enter(jinja_parser *p)
{
    enum { MAX_DEPTH = 200 };
    p->place.line = p->token->line;
    return ++p->depth <= MAX_DEPTH ||
           br__jinja_fail(&p->place, "expressions or blocks are nested more than %d deep",
                          MAX_DEPTH);
}

static jinja_node *read_unary(jinja_parser *p, bool filters)
{
    jinja_node *node = NULL;
    if (!enter(p))
        return NULL;
    if (br__jinja_at_op(p, '-') || br__jinja_at_op(p, '+')) {
        bool minus = br__jinja_at_op(p, '-');
        node = br__jinja_node(p, minus ? NODE_NEGATIVE : NODE_POSITIVE);
        p->token++;
        if (node && !(node->a = read_unary(p, false)))
            return NULL;
    } else {
        node = read_primary(p);
    }
    node = read_postfix(p, node);
    p->depth--;
    return filters ? read_filters_and_tests(p, node) : node;
}

/* Operators that group from left to right. */
typedef jinja_node *reader(jinja_parser *p);

static jinja_node *read_binary(jinja_parser *p, reader *operand, const int *ops)
{
    jinja_node *left = operand(p);
    while (left && p->token->kind == TOKEN_OPERATOR) {
        const int *op = ops;
        while (*op && *op != p->token->op)
            op++;
        if (!*op)
            break;
        jinja_node *node = br__jinja_node(p, NODE_ARITHMETIC);
        p->token++;
        if (!node)
            return NULL;
        *node = (jinja_node){ .kind = NODE_ARITHMETIC, .op = *op, .line = node->line, .a = left };
        node->b = operand(p);
        left = node->b ? node : NULL;
    }
    return left;
}

static jinja_node *read_operand(jinja_parser *p)
{
    return read_unary(p, true);
}

static jinja_node *read_power(jinja_parser *p)
{
    return read_binary(p, read_operand, (const int[]){ JINJA_OP('*', '*'), 0 });
}

static jinja_node *read_product(jinja_parser *p)
{
    return read_binary(p, read_power, (const int[]){ '*', '/', JINJA_OP('/', '/'), '%', 0 });
}

static jinja_node *read_concat(jinja_parser *p)
{
    jinja_node *first = read_product(p);
    if (!first || !br__jinja_at_op(p, '~'))
        return first;
    jinja_node *node = br__jinja_node(p, NODE_CONCAT), *last = first;
    if (!node)
        return NULL;
    node->list = first;
    while (br__jinja_skip_op(p, '~')) {
        last->next = read_product(p);
        last = last->next;
        if (!last)
            return NULL;
    }
    return node;
}

static jinja_node *read_sum(jinja_parser *p)
{
    return read_binary(p, read_concat, (const int[]){ '+', '-', 0 });
}

/* Skips a comparison and returns it, or returns 0. */
static int skip_comparison(jinja_parser *p)
{
    static const int ops[] = {
        JINJA_OP('=', '='), JINJA_OP('!', '='), JINJA_OP('<', '='), JINJA_OP('>', '='), '<', '>'
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (br__jinja_skip_op(p, ops[i]))
            return ops[i];
    }
    if (br__jinja_skip_name(p, "in"))
        return OP_IN;
    if (br__jinja_at_name(p, "not") && p->token[1].kind == TOKEN_NAME &&
        jinja_text_is(p->token[1].text, "in")) {
        p->token += 2;
        return OP_NOT_IN;
    }
    return 0;
}

static jinja_node *read_comparison(jinja_parser *p)
{
    jinja_node *first = read_sum(p), *node = NULL, **last = NULL;
    for (int op = first ? skip_comparison(p) : 0; op; op = skip_comparison(p)) {
        if (!node) {
            node = br__jinja_node(p, NODE_COMPARE);
            if (!node)
                return NULL;
            node->a = first;
            last = &node->list;
        }
        *last = br__jinja_node(p, NODE_OPERAND);
        if (!*last || !((*last)->a = read_sum(p)))
            return NULL;
        (*last)->op = op;
        last = &(*last)->next;
    }
    return node ? node : first;
}

static jinja_node *read_not(jinja_parser *p)
{
    if (!br__jinja_at_name(p, "not"))
        return read_comparison(p);
    jinja_node *node = br__jinja_node(p, NODE_NOT);
    p->token++;
    if (!node || !enter(p) || !(node->a = read_not(p)))
        return NULL;
    p->depth--;
    return node;
}

static jinja_node *read_logic(jinja_parser *p, reader *operand, const char *name,
                              jinja_node_kind kind)
{
    jinja_node *left = operand(p);
    while (left && br__jinja_skip_name(p, name)) {
        jinja_node *node = br__jinja_node(p, kind);
        if (!node)
            return NULL;
        node->a = left;
        node->b = operand(p);
        left = node->b ? node : NULL;
    }
    return left;
}

static jinja_node *read_and(jinja_parser *p)
{
    return read_logic(p, read_not, "and", NODE_AND);
}

static jinja_node *read_or(jinja_parser *p)
{
    return read_logic(p, read_and, "or", NODE_OR);
}

/* Reads "a if b else c", where c may be such an expression. */
static jinja_node *read_condition(jinja_parser *p)
{
    jinja_node *node = read_or(p);
    while (node && br__jinja_at_name(p, "if")) {
        jinja_node *condition = br__jinja_node(p, NODE_CONDITION);
        p->token++;
        if (!condition || !(condition->b = read_or(p)))
            return NULL;
        condition->a = node;
        if (br__jinja_skip_name(p, "else") && !(condition->c = br__jinja_expression(p, true)))
            return NULL;
        node = condition;
    }
    return node;
}

jinja_node *br__jinja_expression(jinja_parser *p, bool conditional)
{
    if (!enter(p))
        return NULL;
    jinja_node *node = conditional ? read_condition(p) : read_or(p);
    p->depth--;
    return node;
}

/* ---- Tuples and targets ---------------------------------------------------------------------- */

static bool ends_tuple(const jinja_parser *p)
{
    return p->token->kind == TOKEN_OUTPUT_END || p->token->kind == TOKEN_BLOCK_END ||
           br__jinja_at_op(p, ')') || br__jinja_at_op(p, '=') || br__jinja_at_name(p, "in") ||
           br__jinja_at_name(p, "recursive");
}

/* Reads "first, ..." after its first element. */
static jinja_node *read_rest(jinja_parser *p, jinja_node *first,
                             jinja_node *(*next)(jinja_parser *, bool), bool flag)
{
    if (!first || !br__jinja_at_op(p, ','))
        return first;
    jinja_node *node = br__jinja_node(p, NODE_TUPLE), *last = first;
    if (!node)
        return NULL;
    node->list = first;
    while (br__jinja_skip_op(p, ',') && !ends_tuple(p)) {
        last->next = next(p, flag);
        last = last->next;
        if (!last)
            return NULL;
    }
    return node;
}

jinja_node *br__jinja_tuple(jinja_parser *p, bool conditional)
{
    return read_rest(p, br__jinja_expression(p, conditional), br__jinja_expression, conditional);
}

static bool is_reserved(jinja_text name)
{
    static const char *const reserved[] = { "true", "false", "none", "True", "False", "None" };
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (jinja_text_is(name, reserved[i]))
            return true;
    }
    return false;
}

static jinja_node *read_one_target(jinja_parser *p, bool members)
{
    jinja_node *node = NULL;
    if (!enter(p))
        return NULL;
    if (br__jinja_skip_op(p, '(')) {
        node = br__jinja_target(p, members);
        node = node && br__jinja_expect_op(p, ')', "')'") ? node : NULL;
    } else {
        node = br__jinja_node(p, NODE_NAME);
        if (!node || !br__jinja_expect_name(p, &node->name))
            return NULL;
        if (is_reserved(node->name)) {
            p->token--;
            br__jinja_parse_fail(p, "the name of a variable");
            return NULL;
        }
        if (members && br__jinja_skip_op(p, '.')) {
            jinja_text member;
            if (!br__jinja_expect_name(p, &member))
                return NULL;
            node->kind = NODE_MEMBER;
            node->value = jinja_string(member);
        }
    }
    p->depth--;
    return node;
}

jinja_node *br__jinja_target(jinja_parser *p, bool members)
{
    return read_rest(p, read_one_target(p, members), read_one_target, members);
}
