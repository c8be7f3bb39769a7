/* chat/parser.c - what the readers of expressions and of statements share. */
#include "chat/jinja.h"

bool br__jinja_parse_fail(jinja_parser *p, const char *expected)
{
    const jinja_token *t = p->token;
    static const char *const ends[] = {
        [TOKEN_DATA] = "text",       [TOKEN_OUTPUT_BEGIN] = "'{{'",
        [TOKEN_OUTPUT_END] = "'}}'", [TOKEN_BLOCK_BEGIN] = "'{%'",
        [TOKEN_BLOCK_END] = "'%}'",  [TOKEN_END] = "the end of the template",
    };
    p->place.line = t->line;
    if (t->kind < TOKEN_NAME || t->kind == TOKEN_END)
        return br__jinja_fail(&p->place, "expected %s, found %s", expected, ends[t->kind]);
    return br__jinja_fail(&p->place, "expected %s, found '%.*s'", expected,
                          (int)br__jinja_chars(t->text, 0, 40).n, t->text.data);
}

jinja_node *br__jinja_node(jinja_parser *p, jinja_node_kind kind)
{
    jinja_node *node = br__arena_alloc(p->arena, sizeof *node);
    if (node)
        *node = (jinja_node){ .kind = kind, .line = p->token->line };
    return node;
}

bool br__jinja_at_name(const jinja_parser *p, const char *name)
{
    return p->token->kind == TOKEN_NAME && jinja_text_is(p->token->text, name);
}

bool br__jinja_at_op(const jinja_parser *p, int op)
{
    return p->token->kind == TOKEN_OPERATOR && p->token->op == op;
}

bool br__jinja_skip_name(jinja_parser *p, const char *name)
{
    bool found = br__jinja_at_name(p, name);
    p->token += found;
    return found;
}

bool br__jinja_skip_op(jinja_parser *p, int op)
{
    bool found = br__jinja_at_op(p, op);
    p->token += found;
    return found;
}

bool br__jinja_expect_op(jinja_parser *p, int op, const char *what)
{
    return br__jinja_skip_op(p, op) || br__jinja_parse_fail(p, what);
}

bool br__jinja_expect_name(jinja_parser *p, jinja_text *name)
{
    if (p->token->kind != TOKEN_NAME)
        return br__jinja_parse_fail(p, "a name");
    *name = p->token++->text;
    return true;
}
