/* chat/evaluate.c - computes expressions with the rules of Python. */
#include "chat/jinja.h"

#include <math.h>

/* ---- Names and literals ---------------------------------------------------------------------- */

static bool find_name(jinja_run *run, jinja_text name, jinja_value *out)
{
    jinja_value key = jinja_string(name);
    const jinja_value *found = NULL;
    for (const jinja_scope *s = run->scope; s && !found; s = s->outer)
        found = br__jinja_find(&s->variables, key);
    if (!found)
        found = br__jinja_find(run->variables, key);
    if (found) {
        *out = *found;
        return true;
    }
    if (!br__jinja_global(run, name, out))
        return false;
    if (out->kind == JINJA_ABSENT)
        *out = br__jinja_undefined(run, "'%.*s' is undefined", (int)name.n, name.data);
    return out->kind != JINJA_ABSENT;
}

static bool make_sequence(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_form form = node->kind == NODE_LIST ? JINJA_LIST : JINJA_TUPLE;
    if (!br__jinja_new_sequence(run, form, out))
        return false;
    for (const jinja_node *n = node->list; n; n = n->next) {
        jinja_value item;
        if (!br__jinja_evaluate(run, n, &item) || !br__jinja_append(run, out->sequence, item))
            return false;
    }
    return true;
}

static bool make_dict(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    *out = br__jinja_new_dict(run);
    if (!out->dict)
        return false;
    for (const jinja_node *n = node->list; n; n = n->next->next) {
        jinja_value key, value;
        if (!br__jinja_evaluate(run, n, &key) || !br__jinja_evaluate(run, n->next, &value) ||
            !br__jinja_put(run, out->dict, key, value))
            return false;
    }
    return true;
}

/* ---- Arithmetic ------------------------------------------------------------------------------ */

static bool fail_operands(jinja_run *run, int op, jinja_value a, jinja_value b)
{
    return br__jinja_check_defined(run, a) && br__jinja_check_defined(run, b) &&
           br__jinja_fail(&run->place, "the operator %c%c does not take '%s' and '%s'", op & 0xFF,
                          op >> 8 ? op >> 8 : ' ', br__jinja_type(a), br__jinja_type(b));
}

static bool fail_zero(jinja_run *run)
{
    return br__jinja_fail(&run->place, "division by zero");
}

/* Python's // and % round toward negative infinity. */
static bool divide_integers(jinja_run *run, int64_t a, int64_t b, bool rest, jinja_value *out)
{
    if (b == 0)
        return fail_zero(run);
    if (b == -1) {
        int64_t negative = 0;
        if (!rest && __builtin_sub_overflow(0, a, &negative))
            return br__jinja_fail(&run->place, "an integer does not fit in 64 bits");
        *out = jinja_int(negative);
        return true;
    }
    int64_t left = a % b, quotient = a / b;
    bool rounds = left != 0 && (left < 0) != (b < 0);
    *out = jinja_int(rest ? left + (rounds ? b : 0) : quotient - rounds);
    return true;
}

static bool power_of_integers(int64_t base, int64_t exponent, int64_t *result)
{
    *result = 1;
    for (int64_t i = 0; i < exponent; i++) {
        if (base == 0 || base == 1 || base == -1) {
            *result = base == -1 && exponent % 2 == 0 ? 1 : base;
            return true;
        }
        if (__builtin_mul_overflow(*result, base, result))
            return false;
    }
    return true;
}

static bool compute_integers(jinja_run *run, int op, int64_t a, int64_t b, jinja_value *out)
{
    int64_t result = 0;
    bool overflows = false;
    switch (op) {
    case '+':
        overflows = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        overflows = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        overflows = __builtin_mul_overflow(a, b, &result);
        break;
    case '%':
        return divide_integers(run, a, b, true, out);
    case JINJA_OP('/', '/'):
        return divide_integers(run, a, b, false, out);
    case JINJA_OP('*', '*'):
        if (b < 0 && a == 0)
            return fail_zero(run);
        if (b < 0) {
            *out = jinja_real(pow((double)a, (double)b));
            return true;
        }
        overflows = !power_of_integers(a, b, &result);
        break;
    default:
        if (b == 0)
            return fail_zero(run);
        *out = jinja_real((double)a / (double)b);
        return true;
    }
    *out = jinja_int(result);
    return !overflows || br__jinja_fail(&run->place, "an integer does not fit in 64 bits");
}

static bool compute_reals(jinja_run *run, int op, double a, double b, jinja_value *out)
{
    bool divides = op == '/' || op == '%' || op == JINJA_OP('/', '/');
    if (divides && b == 0)
        return fail_zero(run);
    double rest = divides && op != '/' ? fmod(a, b) : 0;
    if (rest != 0 && (rest < 0) != (b < 0))
        rest += b;
    switch (op) {
    case '+':
        *out = jinja_real(a + b);
        return true;
    case '-':
        *out = jinja_real(a - b);
        return true;
    case '*':
        *out = jinja_real(a * b);
        return true;
    case '/':
        *out = jinja_real(a / b);
        return true;
    case '%':
        *out = jinja_real(rest == 0 ? copysign(0, b) : rest);
        return true;
    case JINJA_OP('/', '/'):
        *out = jinja_real(round((a - rest) / b));
        return true;
    default:
        *out = jinja_real(pow(a, b));
        break;
    }
    return isfinite(out->real) || !isfinite(a) || !isfinite(b) ||
           br__jinja_fail(&run->place, "the power of two numbers is not finite");
}

/* Repeats a string, list or tuple. */
static bool repeat(jinja_run *run, jinja_value v, int64_t times, jinja_value *out)
{
    jinja_value parts;
    bool is_text = v.kind == JINJA_STRING;
    if (!br__jinja_new_sequence(run, is_text ? JINJA_LIST : v.sequence->form, &parts))
        return false;
    for (int64_t i = 0; i < times; i++) {
        if (!br__jinja_count_step(run) || (is_text && !br__jinja_append(run, parts.sequence, v)))
            return false;
        for (size_t k = 0; !is_text && k < v.sequence->n; k++) {
            if (!br__jinja_append(run, parts.sequence, v.sequence->items[k]))
                return false;
        }
    }
    *out = parts;
    return !is_text || br__jinja_join_all(run, parts.sequence, JINJA_TEXT(""), out);
}

static bool is_repeatable(jinja_value v)
{
    return v.kind == JINJA_STRING || (v.kind == JINJA_SEQUENCE && v.sequence->form <= JINJA_TUPLE);
}

static bool is_integer(jinja_value v)
{
    return v.kind == JINJA_INT || v.kind == JINJA_BOOL;
}

static bool add_sequences(jinja_run *run, jinja_value a, jinja_value b, jinja_value *out)
{
    if (!br__jinja_new_sequence(run, a.sequence->form, out))
        return false;
    for (size_t i = 0; i < a.sequence->n + b.sequence->n; i++) {
        size_t n = a.sequence->n;
        if (!br__jinja_append(run, out->sequence,
                              i < n ? a.sequence->items[i] : b.sequence->items[i - n]))
            return false;
    }
    return true;
}

/* Adds a string to safe text, which escapes the string. */
static bool add_markup(jinja_run *run, jinja_value a, jinja_value b, jinja_value *out)
{
    if ((a.kind == JINJA_STRING && !br__jinja_escape(run, a.text, &a)) ||
        (b.kind == JINJA_STRING && !br__jinja_escape(run, b.text, &b)) ||
        !br__jinja_join(run, a.text, b.text, out))
        return false;
    out->kind = JINJA_MARKUP;
    return true;
}

static bool compute(jinja_run *run, int op, jinja_value a, jinja_value b, jinja_value *out)
{
    if (is_integer(a) && is_integer(b))
        return compute_integers(run, op, br__jinja_integer(a), br__jinja_integer(b), out);
    if (jinja_is_number(a) && jinja_is_number(b))
        return compute_reals(run, op, br__jinja_number(a), br__jinja_number(b), out);
    if (op == '+' && a.kind == JINJA_STRING && b.kind == JINJA_STRING)
        return br__jinja_join(run, a.text, b.text, out);
    if (op == '+' && jinja_is_text(a) && jinja_is_text(b))
        return add_markup(run, a, b, out);
    if (op == '%' && jinja_is_text(a))
        return br__jinja_fail(&run->place, "the operator %% of strings is not supported");
    if (op == '+' && a.kind == JINJA_SEQUENCE && b.kind == JINJA_SEQUENCE && is_repeatable(a) &&
        a.sequence->form == b.sequence->form)
        return add_sequences(run, a, b, out);
    if (op == '*' && is_repeatable(a) && is_integer(b))
        return repeat(run, a, br__jinja_integer(b), out);
    if (op == '*' && is_integer(a) && is_repeatable(b))
        return repeat(run, b, br__jinja_integer(a), out);
    return fail_operands(run, op, a, b);
}

static bool negate(jinja_run *run, jinja_value v, bool minus, jinja_value *out)
{
    if (!br__jinja_check_number(run, minus ? "-" : "+", v))
        return false;
    if (v.kind == JINJA_FLOAT) {
        *out = jinja_real(minus ? -v.real : v.real);
        return true;
    }
    return compute_integers(run, minus ? '-' : '+', 0, br__jinja_integer(v), out);
}

/* ---- Comparisons ----------------------------------------------------------------------------- */

static bool compare(jinja_run *run, int op, jinja_value a, jinja_value b, bool *holds)
{
    int order = 0;
    bool contains = false;
    switch (op) {
    case JINJA_OP('=', '='):
        *holds = br__jinja_equal(a, b);
        return true;
    case JINJA_OP('!', '='):
        *holds = !br__jinja_equal(a, b);
        return true;
    case OP_IN:
    case OP_NOT_IN:
        if (!br__jinja_contains(run, a, b, &contains))
            return false;
        *holds = contains == (op == OP_IN);
        return true;
    default:
        break;
    }
    char operator[] = { (char)op, (char)(op >> 8), 0 };
    if (!br__jinja_order(run, operator, a, b, &order))
        return false;
    bool is_less = order < 0, is_greater = order == 1, is_equal = order == 0;
    *holds = ((op & 0xFF) == '<' ? is_less : is_greater) || (op >> 8 && is_equal);
    return true;
}

/* "a < b < c" is "a < b and b < c". */
static bool compare_all(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value left, right;
    bool holds = true;
    if (!br__jinja_evaluate(run, node->a, &left))
        return false;
    for (const jinja_node *n = node->list; n && holds; n = n->next) {
        if (!br__jinja_evaluate(run, n->a, &right) || !compare(run, n->op, left, right, &holds))
            return false;
        left = right;
    }
    *out = jinja_bool(holds);
    return true;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static bool read_arguments(jinja_run *run, const jinja_node *node, jinja_arguments *arguments)
{
    jinja_value values;
    jinja_dict named = { 0 };
    if (!br__jinja_new_sequence(run, JINJA_LIST, &values))
        return false;
    for (const jinja_node *n = node->list; n; n = n->next) {
        jinja_value value;
        if (!br__jinja_evaluate(run, n, &value) || !br__jinja_append(run, values.sequence, value))
            return false;
    }
    for (const jinja_node *n = node->other; n; n = n->next) {
        jinja_value value;
        if (!br__jinja_evaluate(run, n->a, &value) ||
            !br__jinja_put(run, &named, jinja_string(n->name), value))
            return false;
    }
    *arguments =
        (jinja_arguments){ values.sequence->n, named.n, values.sequence->items, named.pairs };
    return true;
}

static bool call(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value function;
    jinja_arguments arguments;
    if (!br__jinja_evaluate(run, node->a, &function) || !br__jinja_check_defined(run, function) ||
        !read_arguments(run, node, &arguments))
        return false;
    run->place.line = node->line;
    switch (function.kind) {
    case JINJA_METHOD: {
        jinja_method *m = function.method;
        return br__jinja_apply(run, m->self.kind == JINJA_ABSENT ? "function" : "method",
                               m->callable, m->self, &arguments, out);
    }
    case JINJA_MACRO:
        return function.macro->call(run, function.macro, &arguments, out);
    case JINJA_LOOP:
        if (arguments.n == 1 && function.loop->recurse)
            return function.loop->recurse(run, function.loop, arguments.values[0], out);
        return br__jinja_fail(&run->place, "loop() needs a loop that is recursive, and its items");
    default:
        return br__jinja_fail(&run->place, "a '%s' cannot be called", br__jinja_type(function));
    }
}

static bool filter(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value input;
    jinja_arguments arguments;
    return br__jinja_evaluate(run, node->a, &input) && read_arguments(run, node, &arguments) &&
           br__jinja_filter(run, node->name, input, &arguments, out);
}

static bool test(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value input;
    jinja_arguments arguments;
    bool holds = false;
    if (!br__jinja_evaluate(run, node->a, &input) || !read_arguments(run, node, &arguments) ||
        !br__jinja_test(run, node->name, input, &arguments, &holds))
        return false;
    *out = jinja_bool(holds);
    return true;
}

static bool item(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value object, parts[3] = { { 0 } };
    const jinja_node *b = node->b;
    if (!br__jinja_evaluate(run, node->a, &object))
        return false;
    if (b->kind != NODE_SLICE)
        return br__jinja_evaluate(run, b, &parts[0]) && br__jinja_item(run, object, parts[0], out);
    return (!b->a || br__jinja_evaluate(run, b->a, &parts[0])) &&
           (!b->b || br__jinja_evaluate(run, b->b, &parts[1])) &&
           (!b->c || br__jinja_evaluate(run, b->c, &parts[2])) &&
           br__jinja_slice(run, object, parts, out);
}

/* ---- All ------------------------------------------------------------------------------------- */

/* Joins the operands of ~, which escapes none of them. */
static bool concatenate(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value parts;
    if (!br__jinja_new_sequence(run, JINJA_LIST, &parts))
        return false;
    for (const jinja_node *n = node->list; n; n = n->next) {
        jinja_value part;
        if (!br__jinja_evaluate(run, n, &part) || !br__jinja_append(run, parts.sequence, part))
            return false;
    }
    for (size_t i = 0; i < parts.sequence->n; i++) {
        jinja_text text;
        if (!br__jinja_str(run, parts.sequence->items[i], &text))
            return false;
        parts.sequence->items[i] = jinja_string(text);
    }
    return br__jinja_join_all(run, parts.sequence, JINJA_TEXT(""), out);
}

static bool choose(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value condition;
    if (!br__jinja_evaluate(run, node->b, &condition))
        return false;
    if (br__jinja_truth(condition))
        return br__jinja_evaluate(run, node->a, out);
    if (node->c)
        return br__jinja_evaluate(run, node->c, out);
    *out = br__jinja_undefined(run, "the expression of an 'if' without 'else' is undefined");
    return out->kind != JINJA_ABSENT;
}

static bool evaluate(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    jinja_value a, b;
    switch (node->kind) {
    case NODE_CONSTANT:
        *out = node->value;
        return true;
    case NODE_BLOCK_TEXT:
        *out = run->block_text;
        return true;
    case NODE_NAME:
        return find_name(run, node->name, out);
    case NODE_LIST:
    case NODE_TUPLE:
        return make_sequence(run, node, out);
    case NODE_DICT:
        return make_dict(run, node, out);
    case NODE_ITEM:
        return item(run, node, out);
    case NODE_CALL:
        return call(run, node, out);
    case NODE_FILTER:
        return filter(run, node, out);
    case NODE_TEST:
        return test(run, node, out);
    case NODE_CONCAT:
        return concatenate(run, node, out);
    case NODE_COMPARE:
        return compare_all(run, node, out);
    case NODE_CONDITION:
        return choose(run, node, out);
    default:
        break;
    }
    if (!br__jinja_evaluate(run, node->a, &a))
        return false;
    switch (node->kind) {
    case NODE_ATTRIBUTE:
        return br__jinja_attribute(run, a, node->name, out);
    case NODE_NOT:
        *out = jinja_bool(!br__jinja_truth(a));
        return true;
    case NODE_NEGATIVE:
    case NODE_POSITIVE:
        return negate(run, a, node->kind == NODE_NEGATIVE, out);
    case NODE_AND:
    case NODE_OR:
        *out = a;
        return br__jinja_truth(a) == (node->kind == NODE_OR) ||
               br__jinja_evaluate(run, node->b, out);
    default:
        return br__jinja_evaluate(run, node->b, &b) && compute(run, node->op, a, b, out);
    }
}

bool br__jinja_evaluate(jinja_run *run, const jinja_node *node, jinja_value *out)
{
    run->place.line = node->line;
    if (!br__jinja_count_step(run) || !br__jinja_enter(run) || !evaluate(run, node, out))
        return false;
    run->depth--;
    return true;
}
