/* chat/call.c - gives the arguments of a call to what is called. */
#include "chat/jinja.h"

/* Returns the index of a parameter, or -1. */
static int find_parameter(const char *parameters, jinja_text name)
{
    for (int i = 0; *parameters; i++) {
        size_t n = strcspn(parameters, " ");
        if (name.n == n && memcmp(name.data, parameters, n) == 0)
            return i;
        parameters += n + (parameters[n] == ' ');
    }
    return -1;
}

static int count_parameters(const char *parameters)
{
    int n = *parameters != 0;
    for (; *parameters; parameters++)
        n += *parameters == ' ';
    return n;
}

static bool bind_named(jinja_run *run, const char *what, const jinja_callable *c,
                       const jinja_arguments *arguments, jinja_value *a)
{
    for (size_t i = 0; i < arguments->n_named; i++) {
        jinja_text name = arguments->named[i].key.text;
        int index = find_parameter(c->parameters, name);
        if (index < 0)
            return br__jinja_fail(&run->place, "%s '%s' has no argument '%.*s'", what, c->name,
                                  (int)name.n, name.data);
        if (a[index].kind != JINJA_ABSENT)
            return br__jinja_fail(&run->place, "%s '%s' gets its argument '%.*s' twice", what,
                                  c->name, (int)name.n, name.data);
        a[index] = arguments->named[i].value;
    }
    return true;
}

bool br__jinja_apply(jinja_run *run, const char *what, const jinja_callable *c, jinja_value self,
                     const jinja_arguments *arguments, jinja_value *out)
{
    jinja_value a[JINJA_MAX_PARAMETERS] = { { 0 } };
    if (strcmp(c->parameters, "*") == 0)
        return c->call(run, self, NULL, arguments, out);
    int most = count_parameters(c->parameters);
    if (arguments->n > (size_t)most)
        return br__jinja_fail(&run->place, "%s '%s' takes at most %d arguments, not %zu", what,
                              c->name, most, arguments->n);
    for (size_t i = 0; i < arguments->n; i++)
        a[i] = arguments->values[i];
    if (!bind_named(run, what, c, arguments, a))
        return false;
    for (int i = 0; i < c->required; i++) {
        if (a[i].kind == JINJA_ABSENT)
            return br__jinja_fail(&run->place, "%s '%s' needs %d arguments (%s)", what, c->name,
                                  c->required, c->parameters);
    }
    return c->call(run, self, a, arguments, out);
}
