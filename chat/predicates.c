/* chat/predicates.c - Jinja's tests, as in "x is defined". */
#include "chat/jinja.h"

#include <math.h>

/* Each sets *out to a bool. */
#define PREDICATE(name, value)                                            \
    static bool name(jinja_run *run, jinja_value v, const jinja_value *a, \
                     const jinja_arguments *all, jinja_value *out)        \
    {                                                                     \
        (void)run, (void)a, (void)all;                                    \
        *out = jinja_bool(value);                                         \
        return true;                                                      \
    }

static bool is_sequence(jinja_value v)
{
    return jinja_is_text(v) || v.kind == JINJA_DICT || v.kind == JINJA_UNDEFINED ||
           (v.kind == JINJA_SEQUENCE && v.sequence->form <= JINJA_RANGE);
}

PREDICATE(is_defined, v.kind != JINJA_UNDEFINED)
PREDICATE(is_undefined, v.kind == JINJA_UNDEFINED)
PREDICATE(is_none, v.kind == JINJA_NULL)
PREDICATE(is_boolean, v.kind == JINJA_BOOL)
PREDICATE(is_true, v.kind == JINJA_BOOL && v.truth)
PREDICATE(is_false, v.kind == JINJA_BOOL && !v.truth)
PREDICATE(is_integer, v.kind == JINJA_INT)
PREDICATE(is_float, v.kind == JINJA_FLOAT)
PREDICATE(is_number, jinja_is_number(v))
PREDICATE(is_string, jinja_is_text(v))
PREDICATE(is_mapping, v.kind == JINJA_DICT)
PREDICATE(is_iterable, is_sequence(v) || v.kind == JINJA_SEQUENCE || v.kind == JINJA_LOOP)
PREDICATE(is_a_sequence, is_sequence(v))
PREDICATE(is_callable, v.kind >= JINJA_LOOP || v.kind == JINJA_UNDEFINED)
PREDICATE(is_equal, br__jinja_equal(v, a[0]))
PREDICATE(is_unequal, !br__jinja_equal(v, a[0]))

/* Strings have no identity here: two that are equal count as the same. */
PREDICATE(is_same, v.kind == a[0].kind && (v.kind == JINJA_DICT       ? v.dict == a[0].dict
                                           : v.kind == JINJA_SEQUENCE ? v.sequence == a[0].sequence
                                                                      : br__jinja_equal(v, a[0])))

static bool compare(jinja_run *run, const char *operator, jinja_value v, jinja_value other,
                    bool less, bool equal, bool greater, jinja_value *out)
{
    int order;
    if (!br__jinja_order(run, operator, v, other, &order))
        return false;
    *out = jinja_bool(order == 2 ? false : order < 0 ? less : order > 0 ? greater : equal);
    return true;
}

#define COMPARISON(name, operator, less, equal, greater)                   \
    static bool name(jinja_run *run, jinja_value v, const jinja_value *a,  \
                     const jinja_arguments *all, jinja_value *out)         \
    {                                                                      \
        (void)all;                                                         \
        return compare(run, operator, v, a[0], less, equal, greater, out); \
    }

COMPARISON(is_less, "<", true, false, false)
COMPARISON(is_less_or_equal, "<=", true, true, false)
COMPARISON(is_greater, ">", false, false, true)
COMPARISON(is_greater_or_equal, ">=", false, true, true)

/* Tests whether a division leaves this rest. */
static bool divide(jinja_run *run, jinja_value v, int64_t divisor, int64_t rest, jinja_value *out)
{
    if (!br__jinja_check_number(run, "the test", v))
        return false;
    if (v.kind == JINJA_FLOAT) {
        double left = fmod(v.real, (double)divisor);
        left += left != 0 && (left < 0) != (divisor < 0) ? (double)divisor : 0;
        *out = jinja_bool(left == (double)rest);
        return true;
    }
    int64_t left = divisor == -1 ? 0 : br__jinja_integer(v) % divisor;
    *out = jinja_bool((left < 0 ? -left : left) == rest);
    return true;
}

static bool is_odd(jinja_run *run, jinja_value v, const jinja_value *a, const jinja_arguments *all,
                   jinja_value *out)
{
    (void)a, (void)all;
    return divide(run, v, 2, 1, out);
}

static bool is_even(jinja_run *run, jinja_value v, const jinja_value *a, const jinja_arguments *all,
                    jinja_value *out)
{
    (void)a, (void)all;
    return divide(run, v, 2, 0, out);
}

static bool is_divisible(jinja_run *run, jinja_value v, const jinja_value *a,
                         const jinja_arguments *all, jinja_value *out)
{
    (void)all;
    if (a[0].kind != JINJA_INT || a[0].integer == 0)
        return br__jinja_fail(&run->place, "the test divisibleby needs an int other than 0");
    return divide(run, v, a[0].integer, 0, out);
}

static bool is_in(jinja_run *run, jinja_value v, const jinja_value *a, const jinja_arguments *all,
                  jinja_value *out)
{
    (void)all;
    bool contains = false;
    if (!br__jinja_contains(run, v, a[0], &contains))
        return false;
    *out = jinja_bool(contains);
    return true;
}

/* Returns whether all letters, at least one, keep their form in this case. */
static bool has_case(jinja_run *run, jinja_value v, jinja_case to, jinja_value *out)
{
    jinja_text text;
    jinja_value same, other;
    if (!br__jinja_str(run, v, &text) || !br__jinja_change_case(run, text, to, &same) ||
        !br__jinja_change_case(run, text, to == JINJA_LOWER ? JINJA_UPPER : JINJA_LOWER, &other))
        return false;
    *out = jinja_bool(jinja_text_equal(text, same.text) && !jinja_text_equal(text, other.text));
    return true;
}

static bool is_lower(jinja_run *run, jinja_value v, const jinja_value *a,
                     const jinja_arguments *all, jinja_value *out)
{
    (void)a, (void)all;
    return has_case(run, v, JINJA_LOWER, out);
}

static bool is_upper(jinja_run *run, jinja_value v, const jinja_value *a,
                     const jinja_arguments *all, jinja_value *out)
{
    (void)a, (void)all;
    return has_case(run, v, JINJA_UPPER, out);
}

static const jinja_callable tests[] = {
    { "boolean", is_boolean, 0, "" },
    { "callable", is_callable, 0, "" },
    { "defined", is_defined, 0, "" },
    { "divisibleby", is_divisible, 1, "num" },
    { "eq", is_equal, 1, "other" },
    { "equalto", is_equal, 1, "other" },
    { "even", is_even, 0, "" },
    { "false", is_false, 0, "" },
    { "float", is_float, 0, "" },
    { "ge", is_greater_or_equal, 1, "other" },
    { "greaterthan", is_greater, 1, "other" },
    { "gt", is_greater, 1, "other" },
    { "in", is_in, 1, "seq" },
    { "integer", is_integer, 0, "" },
    { "iterable", is_iterable, 0, "" },
    { "le", is_less_or_equal, 1, "other" },
    { "lessthan", is_less, 1, "other" },
    { "lower", is_lower, 0, "" },
    { "lt", is_less, 1, "other" },
    { "mapping", is_mapping, 0, "" },
    { "ne", is_unequal, 1, "other" },
    { "none", is_none, 0, "" },
    { "number", is_number, 0, "" },
    { "odd", is_odd, 0, "" },
    { "sameas", is_same, 1, "other" },
    { "sequence", is_a_sequence, 0, "" },
    { "string", is_string, 0, "" },
    { "true", is_true, 0, "" },
    { "undefined", is_undefined, 0, "" },
    { "upper", is_upper, 0, "" },
    { "==", is_equal, 1, "other" },
    { "!=", is_unequal, 1, "other" },
    { "<", is_less, 1, "other" },
    { "<=", is_less_or_equal, 1, "other" },
    { ">", is_greater, 1, "other" },
    { ">=", is_greater_or_equal, 1, "other" },
};

bool br__jinja_test(jinja_run *run, jinja_text name, jinja_value v,
                    const jinja_arguments *arguments, bool *holds)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        jinja_value out = { 0 };
        if (!jinja_text_is(name, tests[i].name))
            continue;
        if (!br__jinja_apply(run, "test", &tests[i], v, arguments, &out))
            return false;
        *holds = out.truth;
        return true;
    }
    return br__jinja_fail(&run->place, "the test '%.*s' is not supported", (int)name.n, name.data);
}
