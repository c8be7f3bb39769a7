/* chat/statements.c - reads the statements of a template. */
#include "chat/jinja.h"

static bool read_body(jinja_parser *p, const char *const *ends, jinja_node **list);

/* The words that end a block or, as "else" does, begin the block's next part. */
static const char *const if_ends[] = { "elif", "else", "endif", NULL };
static const char *const for_ends[] = { "else", "endfor", NULL };

static bool at_any(const jinja_parser *p, const char *const *names)
{
    for (; names && *names; names++) {
        if (br__jinja_at_name(p, *names))
            return true;
    }
    return false;
}

static bool expect_end(jinja_parser *p)
{
    if (p->token->kind != TOKEN_BLOCK_END)
        return br__jinja_parse_fail(p, "'%}'");
    p->token++;
    return true;
}

/* Reads the statements up to a tag that begins with one of the words, and moves to that word. */
static bool read_block(jinja_parser *p, const char *const *ends, jinja_node **list)
{
    br__jinja_skip_op(p, ':'); /* allowed for those who are used to Python */
    if (!expect_end(p))
        return false;
    int line = p->place.line;
    if (!read_body(p, ends, list))
        return false;
    if (p->token->kind != TOKEN_END)
        return true;
    p->place.line = line;
    return br__jinja_fail(&p->place, "a block has no end '{%% %s %%}'",
                          ends == if_ends    ? "endif"
                          : ends == for_ends ? "endfor"
                                             : *ends);
}

/* The same for a block that ends with one word, which is skipped. */
static bool read_simple_block(jinja_parser *p, const char *end, jinja_node **list)
{
    if (!read_block(p, (const char *const[]){ end, NULL }, list))
        return false;
    p->token++;
    return true;
}

/* ---- Statements: each begins after its first word -------------------------------------------- */

static bool read_if(jinja_parser *p, jinja_node *node)
{
    for (;;) {
        node->a = br__jinja_tuple(p, false);
        if (!node->a || !read_block(p, if_ends, &node->list))
            return false;
        if (br__jinja_skip_name(p, "endif"))
            return true;
        if (br__jinja_skip_name(p, "else"))
            return read_simple_block(p, "endif", &node->other);
        p->token++;
        node->b = br__jinja_node(p, NODE_IF);
        if (!node->b)
            return false;
        node = node->b;
    }
}

static bool read_for(jinja_parser *p, jinja_node *node)
{
    node->a = br__jinja_target(p, false);
    if (!node->a)
        return false;
    if (!br__jinja_skip_name(p, "in"))
        return br__jinja_parse_fail(p, "'in'");
    node->b = br__jinja_tuple(p, false);
    if (!node->b)
        return false;
    if (br__jinja_skip_name(p, "if") && !(node->c = br__jinja_expression(p, true)))
        return false;
    node->op = br__jinja_skip_name(p, "recursive");
    p->loops++;
    if (!read_block(p, for_ends, &node->list))
        return false;
    p->loops--;
    if (br__jinja_skip_name(p, "endfor"))
        return true;
    p->token++;
    return read_simple_block(p, "endfor", &node->other);
}

static bool read_set(jinja_parser *p, jinja_node *node)
{
    node->a = br__jinja_target(p, true);
    if (!node->a)
        return false;
    if (br__jinja_skip_op(p, '='))
        return (node->b = br__jinja_tuple(p, true)) != NULL;
    node->kind = NODE_SET_BLOCK;
    node->b = br__jinja_node(p, NODE_BLOCK_TEXT);
    node->b = node->b ? br__jinja_filters(p, node->b) : NULL;
    return node->b && read_simple_block(p, "endset", &node->list);
}

/* Reads "(a, b=1)". */
static bool read_parameters(jinja_parser *p, jinja_node *node)
{
    bool optional = false;
    if (!br__jinja_expect_op(p, '(', "'('"))
        return false;
    for (jinja_node **last = &node->other; !br__jinja_skip_op(p, ')'); last = &(*last)->next) {
        if (node->other && !br__jinja_expect_op(p, ',', "',' or ')' in a list of parameters"))
            return false;
        *last = br__jinja_node(p, NODE_NAME);
        if (!*last || !br__jinja_expect_name(p, &(*last)->name))
            return false;
        if (br__jinja_skip_op(p, '=')) {
            optional = true;
            if (!((*last)->a = br__jinja_expression(p, true)))
                return false;
        } else if (optional) {
            return br__jinja_parse_fail(p, "'=' and a default, as the parameter before has");
        }
    }
    return true;
}

static bool read_macro_body(jinja_parser *p, jinja_node *node, const char *end)
{
    int *outer = p->extras, loops = p->loops;
    p->extras = &node->op;
    p->loops = 0;
    bool ok = read_simple_block(p, end, &node->list);
    p->extras = outer;
    p->loops = loops;
    return ok;
}

static bool read_macro(jinja_parser *p, jinja_node *node)
{
    return br__jinja_expect_name(p, &node->name) && read_parameters(p, node) &&
           read_macro_body(p, node, "endmacro");
}

static bool read_call_block(jinja_parser *p, jinja_node *node)
{
    node->b = br__jinja_node(p, NODE_MACRO);
    if (!node->b)
        return false;
    node->b->name = JINJA_TEXT("caller");
    if (br__jinja_at_op(p, '(') && !read_parameters(p, node->b))
        return false;
    node->a = br__jinja_expression(p, true);
    if (!node->a)
        return false;
    if (node->a->kind != NODE_CALL)
        return br__jinja_parse_fail(p, "a call before");
    return read_macro_body(p, node->b, "endcall");
}

static bool read_with(jinja_parser *p, jinja_node *node)
{
    for (jinja_node **last = &node->other; p->token->kind != TOKEN_BLOCK_END;
         last = &(*last)->next->next) {
        if (node->other && !br__jinja_expect_op(p, ',', "',' or '%}'"))
            return false;
        *last = br__jinja_target(p, false);
        if (!*last || !br__jinja_expect_op(p, '=', "'='"))
            return false;
        (*last)->next = br__jinja_expression(p, true);
        if (!(*last)->next)
            return false;
    }
    return read_simple_block(p, "endwith", &node->list);
}

static bool read_filtered(jinja_parser *p, jinja_node *node)
{
    node->b = br__jinja_block_filters(p);
    return node->b && read_simple_block(p, "endfilter", &node->list);
}

static bool read_scope(jinja_parser *p, jinja_node *node)
{
    return read_simple_block(p, "endgeneration", &node->list);
}

static bool read_jump(jinja_parser *p, jinja_node *node)
{
    (void)node;
    return p->loops > 0 || br__jinja_fail(&p->place, "'break' and 'continue' belong in a loop");
}

static const struct {
    const char *name;
    jinja_node_kind kind;
    bool (*read)(jinja_parser *p, jinja_node *node);
} statements[] = {
    { "if", NODE_IF, read_if },
    { "for", NODE_FOR, read_for },
    { "set", NODE_SET, read_set },
    { "macro", NODE_MACRO, read_macro },
    { "call", NODE_CALL_BLOCK, read_call_block },
    { "with", NODE_WITH, read_with },
    { "filter", NODE_FILTERED, read_filtered },
    { "generation", NODE_SCOPE, read_scope },
    { "break", NODE_BREAK, read_jump },
    { "continue", NODE_CONTINUE, read_jump },
};

static jinja_node *read_statement(jinja_parser *p)
{
    p->place.line = p->token->line;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        if (!br__jinja_at_name(p, statements[i].name))
            continue;
        jinja_node *node = br__jinja_node(p, statements[i].kind);
        p->token++;
        return node && statements[i].read(p, node) && expect_end(p) ? node : NULL;
    }
    if (p->token->kind == TOKEN_NAME)
        br__jinja_fail(&p->place, "the tag '%.*s' is not supported or not expected here",
                       (int)p->token->text.n, p->token->text.data);
    else
        br__jinja_parse_fail(p, "the name of a tag");
    return NULL;
}

static jinja_node *read_data(jinja_parser *p)
{
    jinja_node *node = br__jinja_node(p, NODE_DATA);
    if (node)
        node->name = p->token->text;
    p->token++;
    return node;
}

static jinja_node *read_output(jinja_parser *p)
{
    jinja_node *node = br__jinja_node(p, NODE_OUTPUT);
    p->token++;
    if (!node || !(node->a = br__jinja_tuple(p, true)))
        return NULL;
    if (p->token->kind != TOKEN_OUTPUT_END) {
        br__jinja_parse_fail(p, "'}}'");
        return NULL;
    }
    p->token++;
    return node;
}

/* Reads the nodes up to a tag that begins with one of the words, or the template's end. */
static bool read_body(jinja_parser *p, const char *const *ends, jinja_node **list)
{
    enum { MAX_DEPTH = 100 };
    jinja_node **last = list;
    if (p->blocks++ > MAX_DEPTH)
        return br__jinja_fail(&p->place, "blocks are nested more than %d deep", MAX_DEPTH);
    while (p->token->kind != TOKEN_END) {
        if (p->token->kind == TOKEN_BLOCK_BEGIN) {
            p->token++;
            if (at_any(p, ends))
                break;
            *last = read_statement(p);
        } else {
            *last = p->token->kind == TOKEN_DATA ? read_data(p) : read_output(p);
        }
        if (!*last)
            return false;
        last = &(*last)->next;
    }
    p->blocks--;
    return true;
}

bool br__jinja_parse(br_arena *arena, const char *name, const char *text, size_t n,
                     jinja_node **list)
{
    jinja_parser p = { .place = { name, 1 }, .arena = arena };
    *list = NULL;
    p.token = br__jinja_tokens(arena, name, text, n);
    return p.token && read_body(&p, NULL, list);
}
