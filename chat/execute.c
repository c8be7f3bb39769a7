/* chat/execute.c - runs the statements of a template. */
#include "chat/jinja.h"

static bool execute(jinja_run *run, const jinja_node *node);

static bool write_text(jinja_run *run, jinja_text text)
{
    run->memory -= (int64_t)text.n;
    if (run->memory < 0)
        return br__jinja_fail(&run->place, "the template needs too much memory");
    return br__text_add(run->output, "%.*s", (int)text.n, text.data);
}

/* ---- Scopes and captured text ---------------------------------------------------------------- */

static bool set_variable(jinja_run *run, jinja_text name, jinja_value value)
{
    return br__jinja_put(run, &run->scope->variables, jinja_string(name), value);
}

static jinja_scope *new_scope(jinja_run *run, jinja_scope *outer)
{
    jinja_scope *scope = br__jinja_alloc(run, sizeof *scope);
    if (scope)
        *scope = (jinja_scope){ .outer = outer };
    return scope;
}

/* Runs statements in a scope of their own. */
static bool execute_inside(jinja_run *run, jinja_scope *scope, const jinja_node *list)
{
    jinja_scope *before = run->scope;
    run->scope = scope;
    bool ok = scope && br__jinja_execute(run, list);
    run->scope = before;
    return ok;
}

/* Goes back to the output before. If `ok`, *out is the text that was written since. */
static bool end_capture(jinja_run *run, br__text *before, bool ok, jinja_value *out)
{
    br__text *text = run->output;
    run->output = before;
    ok = ok && br__jinja_copy(run, text->data, text->length, out);
    br_free(text->data);
    return ok;
}

/* Runs statements in a scope of their own; *out is their text. */
static bool capture(jinja_run *run, jinja_scope *scope, const jinja_node *list, jinja_value *out)
{
    br__text text = { 0 }, *before = run->output;
    run->output = &text;
    return end_capture(run, before, execute_inside(run, scope, list), out);
}

/* ---- Assignments ----------------------------------------------------------------------------- */

static bool set_member(jinja_run *run, const jinja_node *target, jinja_value value)
{
    jinja_value object;
    jinja_node name = { .kind = NODE_NAME, .line = target->line, .name = target->name };
    jinja_text member = target->value.text;
    if (!br__jinja_evaluate(run, &name, &object))
        return false;
    if (object.kind != JINJA_NAMESPACE)
        return br__jinja_fail(&run->place, "'%.*s' is no namespace, so its member cannot be set",
                              (int)target->name.n, target->name.data);
    if (member.n > 0 && *member.data == '_')
        return br__jinja_fail(&run->place, "a member of a namespace cannot begin with '_'");
    return br__jinja_put(run, object.dict, target->value, value);
}

static bool assign(jinja_run *run, const jinja_node *target, jinja_value value)
{
    jinja_value items;
    size_t n = 0, i = 0;
    run->place.line = target->line;
    if (target->kind == NODE_NAME)
        return set_variable(run, target->name, value);
    if (target->kind == NODE_MEMBER)
        return set_member(run, target, value);
    for (const jinja_node *t = target->list; t; t = t->next)
        n++;
    if (!br__jinja_check_defined(run, value) || !br__jinja_iterate(run, value, &items))
        return false;
    if (items.sequence->n != n)
        return br__jinja_fail(&run->place, "%zu values cannot be assigned to %zu names",
                              items.sequence->n, n);
    for (const jinja_node *t = target->list; t; t = t->next) {
        if (!assign(run, t, items.sequence->items[i++]))
            return false;
    }
    return true;
}

static bool execute_set(jinja_run *run, const jinja_node *node)
{
    jinja_value value;
    return br__jinja_evaluate(run, node->b, &value) && assign(run, node->a, value);
}

/* Gives the text of a block after its filters. */
static bool filter_block(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value before = run->block_text, text;
    if (!capture(run, new_scope(run, run->scope), node->list, &text))
        return false;
    run->block_text = text;
    bool ok = br__jinja_evaluate(run, node->b, out);
    run->block_text = before;
    return ok;
}

static bool execute_set_block(jinja_run *run, const jinja_node *node)
{
    jinja_value value;
    return filter_block(run, node, &value) && assign(run, node->a, value);
}

static bool execute_filtered(jinja_run *run, const jinja_node *node)
{
    jinja_value value;
    jinja_text text;
    return filter_block(run, node, &value) && br__jinja_str(run, value, &text) &&
           write_text(run, text);
}

/* The values are computed before any name is set. */
static bool execute_with(jinja_run *run, const jinja_node *node)
{
    jinja_scope *scope = new_scope(run, run->scope), *before = run->scope;
    for (const jinja_node *n = node->other; scope && n; n = n->next->next) {
        jinja_value value;
        if (!br__jinja_evaluate(run, n->next, &value))
            return false;
        run->scope = scope;
        bool ok = assign(run, n, value);
        run->scope = before;
        if (!ok)
            return false;
    }
    return execute_inside(run, scope, node->list);
}

/* ---- Loops ----------------------------------------------------------------------------------- */

/* Keeps the items for which the loop's condition holds. */
static bool choose_items(jinja_run *run, const jinja_node *node, jinja_value all, jinja_value *kept)
{
    jinja_scope *outer = run->scope;
    if (!br__jinja_new_sequence(run, JINJA_LIST, kept))
        return false;
    for (size_t i = 0; i < all.sequence->n; i++) {
        jinja_value condition;
        run->scope = new_scope(run, outer);
        bool ok = run->scope && assign(run, node->a, all.sequence->items[i]) &&
                  br__jinja_evaluate(run, node->c, &condition);
        run->scope = outer;
        if (!ok || (br__jinja_truth(condition) &&
                    !br__jinja_append(run, kept->sequence, all.sequence->items[i])))
            return false;
    }
    return true;
}

/* Runs the body for each item, in a scope of its own. */
static bool repeat_body(jinja_run *run, jinja_loop *loop)
{
    const jinja_node *node = loop->node;
    jinja_scope *outer = run->scope;
    jinja_value self = { JINJA_LOOP, { .loop = loop } };
    for (; loop->index < loop->items->n; loop->index++) {
        run->scope = new_scope(run, loop->scope);
        bool ok = run->scope && assign(run, node->a, loop->items->items[loop->index]) &&
                  set_variable(run, JINJA_TEXT("loop"), self) && br__jinja_execute(run, node->list);
        run->scope = outer;
        if (!ok)
            return false;
        int signal = run->loop_signal;
        run->loop_signal = 0;
        if (signal == NODE_BREAK)
            return true;
    }
    return true;
}

static bool recurse(jinja_run *run, jinja_loop *self, jinja_value items, jinja_value *out);

static bool run_loop(jinja_run *run, const jinja_node *node, jinja_value iterable, int depth)
{
    jinja_value items, all;
    jinja_loop *loop = br__jinja_alloc(run, sizeof *loop);
    if (!loop || !br__jinja_iterate(run, iterable, &items))
        return false;
    if (node->c) {
        all = items;
        if (!choose_items(run, node, all, &items))
            return false;
    }
    if (items.sequence->n == 0)
        return execute_inside(run, new_scope(run, run->scope), node->other);
    *loop = (jinja_loop){ .items = items.sequence,
                          .depth = depth,
                          .node = node,
                          .scope = run->scope,
                          .recurse = node->op ? recurse : NULL };
    return repeat_body(run, loop);
}

/* Runs the loop's body for other items in the scope of the loop. */
static bool recurse(jinja_run *run, jinja_loop *self, jinja_value items, jinja_value *out)
{
    jinja_scope *before = run->scope;
    br__text text = { 0 }, *output = run->output;
    run->scope = self->scope;
    run->output = &text;
    bool ok = br__jinja_enter(run) && run_loop(run, self->node, items, self->depth + 1);
    run->depth -= ok;
    run->scope = before;
    return end_capture(run, output, ok, out);
}

static bool execute_for(jinja_run *run, const jinja_node *node)
{
    jinja_value iterable;
    return br__jinja_evaluate(run, node->b, &iterable) && run_loop(run, node, iterable, 0);
}

/* ---- Macros ---------------------------------------------------------------------------------- */

/* Moves the named argument of this name out of the list; *value stays absent if there is none. */
static void take_named(jinja_dict *named, jinja_text name, jinja_value *value)
{
    for (size_t i = 0; i < named->n; i++) {
        if (!jinja_text_equal(named->pairs[i].key.text, name))
            continue;
        *value = named->pairs[i].value;
        memmove(&named->pairs[i], &named->pairs[i + 1], (--named->n - i) * sizeof *named->pairs);
        return;
    }
}

/* Gives a parameter that the call leaves out its default, which may use the parameters before. */
static bool set_default(jinja_run *run, const jinja_node *parameter)
{
    jinja_value value;
    if (parameter->a) {
        if (!br__jinja_evaluate(run, parameter->a, &value))
            return false;
    } else {
        value = br__jinja_undefined(run, "parameter '%.*s' was not provided",
                                    (int)parameter->name.n, parameter->name.data);
    }
    return value.kind != JINJA_ABSENT && set_variable(run, parameter->name, value);
}

/* Sets `caller`, `kwargs` and `varargs`, which a macro has if its body uses them. */
static bool set_extras(jinja_run *run, const jinja_macro *macro, jinja_dict *named,
                       const jinja_arguments *arguments, size_t used)
{
    int extras = macro->node->op;
    jinja_text name = macro->node->name;
    jinja_value caller = { 0 }, rest;
    if (extras & EXTRA_CALLER) {
        take_named(named, JINJA_TEXT("caller"), &caller);
        if (caller.kind == JINJA_ABSENT)
            caller = br__jinja_undefined(run, "No caller defined");
        if (caller.kind == JINJA_ABSENT || !set_variable(run, JINJA_TEXT("caller"), caller))
            return false;
    }
    if (extras & EXTRA_KWARGS) {
        jinja_value kwargs = { JINJA_DICT, { .dict = named } };
        if (!set_variable(run, JINJA_TEXT("kwargs"), kwargs))
            return false;
    } else if (named->n > 0) {
        jinja_text other = named->pairs[0].key.text;
        return br__jinja_fail(&run->place, "macro '%.*s' has no parameter '%.*s'", (int)name.n,
                              name.data, (int)other.n, other.data);
    }
    if (!(extras & EXTRA_VARARGS))
        return used == arguments->n ||
               br__jinja_fail(&run->place, "macro '%.*s' takes at most %zu arguments, not %zu",
                              (int)name.n, name.data, used, arguments->n);
    if (!br__jinja_new_sequence(run, JINJA_TUPLE, &rest))
        return false;
    for (size_t i = used; i < arguments->n; i++) {
        if (!br__jinja_append(run, rest.sequence, arguments->values[i]))
            return false;
    }
    return set_variable(run, JINJA_TEXT("varargs"), rest);
}

/* Sets the parameters in the current scope. */
static bool bind(jinja_run *run, const jinja_macro *macro, const jinja_arguments *arguments)
{
    size_t used = 0;
    jinja_value copy = br__jinja_new_dict(run);
    if (!copy.dict)
        return false;
    for (size_t i = 0; i < arguments->n_named; i++) {
        if (!br__jinja_put(run, copy.dict, arguments->named[i].key, arguments->named[i].value))
            return false;
    }
    for (const jinja_node *p = macro->node->other; p; p = p->next) {
        jinja_value value = { 0 };
        if (used < arguments->n)
            value = arguments->values[used++];
        else
            take_named(copy.dict, p->name, &value);
        if (value.kind == JINJA_ABSENT ? !set_default(run, p) : !set_variable(run, p->name, value))
            return false;
    }
    return set_extras(run, macro, copy.dict, arguments, used);
}

static bool call_macro(jinja_run *run, jinja_macro *self, const jinja_arguments *arguments,
                       jinja_value *out)
{
    jinja_scope *before = run->scope, *scope = new_scope(run, self->scope);
    if (!scope || !br__jinja_enter(run))
        return false;
    run->scope = scope;
    bool ok = bind(run, self, arguments);
    run->scope = before;
    if (!ok || !capture(run, scope, self->node->list, out))
        return false;
    run->depth--;
    return true;
}

static bool make_macro(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_macro *macro = br__jinja_alloc(run, sizeof *macro);
    if (!macro)
        return false;
    *macro = (jinja_macro){ node, run->scope, call_macro };
    *out = (jinja_value){ JINJA_MACRO, { .macro = macro } };
    return true;
}

static bool execute_macro(jinja_run *run, const jinja_node *node)
{
    jinja_value macro;
    return make_macro(run, node, &macro) && set_variable(run, node->name, macro);
}

/* Calls a macro with the block as its `caller`. */
static bool execute_call_block(jinja_run *run, const jinja_node *node)
{
    jinja_value caller, text;
    jinja_text written;
    if (!make_macro(run, node->b, &caller))
        return false;
    jinja_node constant = { .kind = NODE_CONSTANT, .line = node->line, .value = caller };
    jinja_node keyword = {
        .kind = NODE_KEYWORD, .name = JINJA_TEXT("caller"), .a = &constant, .next = node->a->other
    };
    jinja_node call = *node->a;
    call.other = &keyword;
    return br__jinja_evaluate(run, &call, &text) && br__jinja_str(run, text, &written) &&
           write_text(run, written);
}

/* ---- All ------------------------------------------------------------------------------------- */

static bool execute_if(jinja_run *run, const jinja_node *node)
{
    for (;; node = node->b) {
        jinja_value condition;
        if (!br__jinja_evaluate(run, node->a, &condition))
            return false;
        if (br__jinja_truth(condition))
            return br__jinja_execute(run, node->list);
        if (!node->b)
            return br__jinja_execute(run, node->other);
    }
}

static bool execute_output(jinja_run *run, const jinja_node *node)
{
    jinja_value value;
    jinja_text text;
    return br__jinja_evaluate(run, node->a, &value) && br__jinja_str(run, value, &text) &&
           write_text(run, text);
}

static bool execute(jinja_run *run, const jinja_node *node)
{
    run->place.line = node->line;
    switch (node->kind) {
    case NODE_DATA:
        return write_text(run, node->name);
    case NODE_OUTPUT:
        return execute_output(run, node);
    case NODE_IF:
        return execute_if(run, node);
    case NODE_FOR:
        return execute_for(run, node);
    case NODE_SET:
        return execute_set(run, node);
    case NODE_SET_BLOCK:
        return execute_set_block(run, node);
    case NODE_MACRO:
        return execute_macro(run, node);
    case NODE_CALL_BLOCK:
        return execute_call_block(run, node);
    case NODE_WITH:
        return execute_with(run, node);
    case NODE_FILTERED:
        return execute_filtered(run, node);
    case NODE_SCOPE:
        return execute_inside(run, new_scope(run, run->scope), node->list);
    default:
        run->loop_signal = (int)node->kind;
        return true;
    }
}

bool br__jinja_execute(jinja_run *run, const jinja_node *list)
{
    for (const jinja_node *node = list; node && !run->loop_signal; node = node->next) {
        if (!br__jinja_count_step(run) || !br__jinja_enter(run) || !execute(run, node))
            return false;
        run->depth--;
    }
    return true;
}
