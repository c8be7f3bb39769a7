/* tests/chat/test_chat_template.c - chat templates write what jinja2 writes (chat_cases.json,
 * recorded by record_chat.py), and refuse what they do not know, bad arguments and endless work. */
#include "tests/pretrained/gguf_writer.h"
#include "tests/support.h"
#include "tests/temporary.h"

#include <brasa/chat.h>
#include <jansson.h>

TestSuite(chat, .init = check_begin, .fini = check_end);

#define FOLDER BRASA_TEST_DIR "/chat/"

static char *read_file(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, FOLDER "templates/%s", name);
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    char *text = calloc(1, 1 << 16);
    cr_assert(text && fread(text, 1, (1 << 16) - 1, file) > 0);
    fclose(file);
    return text;
}

/* Returns the text of a template with variables; NULL with an error on failure. */
static char *render(const char *template, const char *variables)
{
    br_chat_template *t = br_chat_template_parse(template, NULL);
    char *text =
        t ? br_chat_template_render(t, 0, NULL,
                                    BR_OPTIONS(br_chat, .variables = variables, .time = 1753790400))
          : NULL;
    br_chat_template_free(t);
    return text;
}

static void check_case(const json_t *each, const json_t *shared)
{
    const char *name = json_string_value(json_object_get(each, "file"));
    const char *template = json_string_value(json_object_get(each, "template"));
    const char *expected = json_string_value(json_object_get(each, "text"));
    char *file = name ? read_file(name) : NULL;
    char *variables = json_dumps(name ? json_object_get(each, "variables") : shared, 0);
    char *text = render(name ? file : template, variables);
    const char *error = text ? "" : br_error_message();
    if (expected)
        cr_assert(text && strcmp(text, expected) == 0, "%s %s\nexpected: %s\nbut:      %s %s",
                  name ? name : template, name ? variables : "", expected, text ? text : "NULL",
                  error);
    else
        cr_assert(!text && br_failed(), "%s %s: expected an error, not %s", name ? name : template,
                  name ? variables : "", text);
    br_clear_error();
    br_free(text);
    free(variables);
    free(file);
}

Test(chat, recorded)
{
    json_error_t error;
    json_t *records = json_load_file(FOLDER "chat_cases.json", 0, &error);
    cr_assert(records, "%s", error.text);
    json_t *cases = json_object_get(records, "cases"), *each;
    size_t i;
    cr_assert_eq(json_array_size(cases), 580);
    json_array_foreach(cases, i, each)
    {
        check_case(each, json_object_get(records, "expressions_with"));
    }
    json_decref(records);
}

/* What the recorded templates do not decide. */
Test(chat, rules_of_python_and_jinja)
{
    static const struct {
        const char *template, *text;
    } cases[] = {
        { "{{ -7 // 2 }} {{ 7 // -2 }} {{ -7 % 3 }} {{ 7 % -3 }}", "-4 -4 2 -2" },
        { "{{ 1 < 3 > 2 }} {{ 1 < 3 < 2 }}", "True False" },
        { "{% for i in range(4) %}{% if i == 1 %}{% continue %}{% endif %}"
          "{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
          "0" },
        { "{% set a = 1 %}{% macro m() %}{{ a }}{% endmacro %}"
          "{% for i in [1] %}{% set a = 2 %}{{ a }}{{ m() }}{% endfor %}",
          "21" },
        { "{{ [1, 1.0]|max }} {{ [1.0, 1]|max }} {{ [1, 1.0]|min }} {{ [1.0, 1]|min }}",
          "1 1.0 1 1.0" },
        { "{{ -3 is odd }} {{ -4 is odd }} {{ -4 is even }} {{ -3 is even }}",
          "True False True False" },
        { "{{ 'a\\n'.splitlines() }} {{ ''.splitlines() }} {{ 'a\\n\\n'.splitlines() }}",
          "['a'] [] ['a', '']" },
        { "{{ [1] < [1, 2] }} {{ [1, 2] < [1] }} {{ [1, 2] > [1] }} {{ [1] > [1, 2] }}",
          "True False True False" },
        { "{{ [1, 2]|sum(start=10) }} {{ [[1, 5]]|sum('0') }} {{ [[1, 5]]|map(attribute='1')|list "
          "}}",
          "13 1 [5]" },
        { "{{ 'aaaa'.count('aa') }} {{ 'x1y 2z'.title() }}", "2 X1Y 2Z" },
        { "{{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.startswith(('x', 'a')) }} "
          "{{ 'abc'.startswith(()) }}",
          "True True False" },
        { "{{ [1]|reverse is sequence }} {{ [1, 2]|reverse|list }}", "False [2, 1]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = render(cases[i].template, NULL);
        cr_assert_str_eq(text, cases[i].text);
        br_free(text);
    }
}

/* ---- Conversations --------------------------------------------------------------------------- */

static const br_chat_message turns[] = { { "user", " What? " },
                                         { "assistant", "This." },
                                         { "user", "Why?" } };

Test(chat, messages)
{
    char *file = read_file("turns.jinja");
    br_chat_template *t = br_chat_template_parse(file, NULL);
    char *text = br_chat_template_render(t, 3, turns, NULL);
    cr_assert_str_eq(text, "<turn>user\nWhat?</turn>\n<turn>model\nThis.</turn>\n"
                           "<turn>user\nWhy?</turn>\n");
    br_free(text);
    text = br_chat_template_render(t, 1, turns, BR_OPTIONS(br_chat, .add_generation_prompt = true));
    cr_assert_str_eq(text, "<turn>user\nWhat?</turn>\n<turn>model\n");
    br_free(text);
    text = br_chat_template_render(t, 0, NULL, NULL);
    cr_assert_str_eq(text, "");
    br_free(text);
    check_fails(br_chat_template_render(t, 2, turns + 1, NULL),
                "template: line 10: the template says: user and assistant must take turns, at "
                "turn 1");
    br_chat_template_free(t);
    free(file);
}

Test(chat, messages_come_before_those_of_the_variables)
{
    br_chat_template *t = br_chat_template_parse("{{ messages|length }}{{ x }}{{ tools }}", NULL);
    const char *variables = "{\"messages\": [], \"x\": 2.50, \"tools\": [{}]}";
    char *text = br_chat_template_render(t, 3, turns, BR_OPTIONS(br_chat, .variables = variables));
    cr_assert_str_eq(text, "32.5[{}]");
    br_free(text);
    text = br_chat_template_render(t, 0, NULL, BR_OPTIONS(br_chat, .variables = variables));
    cr_assert_str_eq(text, "02.5[{}]");
    br_free(text);
    br_chat_template_free(t);
}

/* As in transformers, a message's thoughts have each of the names that templates read. */
Test(chat, names_of_thoughts)
{
    char *text = render("{{ messages[0].thinking }}{{ messages[0].reasoning_content }}"
                        "{{ messages[1].thinking is defined }}",
                        "{\"messages\": [{\"reasoning\": \"a\"}, {\"thinking\": null}]}");
    cr_assert_str_eq(text, "aaTrue");
    br_free(text);
}

Test(chat, special_tokens)
{
    br_tokenizer *tokenizer = br_auto_tokenizer_load(BRASA_TEST_DIR "/tokenizers/bpe", NULL);
    check_ok();
    br_chat_template *t =
        br_chat_template_parse("{{ eos_token }}{{ mask_token is defined }}", tokenizer);
    br_tokenizer_free(tokenizer);
    char *text = br_chat_template_render(t, 0, NULL, NULL);
    cr_assert_str_eq(text, "<|endoftext|>False");
    br_free(text);
    br_chat_template_free(t);
}

Test(chat, time)
{
    setenv("TZ", "UTC", 1);
    char *text = render("{{ strftime_now('%a %A %b %B %d %H %I %j %m %M %p %S %y %Y %%') }}", NULL);
    cr_assert_str_eq(text, "Tue Tuesday Jul July 29 12 12 210 07 00 PM 00 25 2025 %");
    br_free(text);
    br_chat_template *t = br_chat_template_parse("{{ strftime_now('%Y') }}", NULL);
    text = br_chat_template_render(t, 0, NULL, NULL);
    cr_assert(atoi(text) >= 2025, "%s", text);
    br_free(text);
    text = br_chat_template_render(t, 0, NULL, BR_OPTIONS(br_chat, .time = 0));
    cr_assert_str_eq(text, "1970");
    br_free(text);
    br_chat_template_free(t);
}

/* ---- Folders --------------------------------------------------------------------------------- */

static char folder[TEMPORARY_PATH];

static void write_file(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(text, 1, strlen(text), file) == strlen(text));
    fclose(file);
}

/* Returns the first text of the folder's template. */
static void check_folder(const char *name, const char *expected)
{
    br_chat_template *t = br_chat_template_load(folder, name, NULL);
    check_ok();
    char *text = br_chat_template_render(t, 0, NULL, NULL);
    cr_assert_str_eq(text, expected);
    br_free(text);
    br_chat_template_free(t);
}

Test(chat, folders)
{
    cr_assert(temporary_folder("chat", folder));
    check_fails(br_chat_template_load(folder, NULL, NULL),
                "there is neither chat_template.jinja nor tokenizer_config.json");
    write_file("tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656}");
    check_fails(br_chat_template_load(folder, NULL, NULL),
                "tokenizer_config.json: there is no chat template");
    write_file("tokenizer_config.json", "{\"chat_template\": \"one\"}");
    check_folder(NULL, "one");
    check_folder("default", "one");
    check_fails(br_chat_template_load(folder, "rag", NULL), "there is no chat template 'rag'");
    write_file("tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"two\"}]}");
    check_folder(NULL, "two");
    write_file("tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"two\"},"
               "{\"name\": \"default\", \"template\": \"three\"}]}");
    check_folder("rag", "two");
    check_folder(NULL, "three");
    check_fails(br_chat_template_load(folder, "tool_use", NULL),
                "there is no template 'tool_use'; choose one of: rag, default");
    write_file("chat_template.jinja", "four\n");
    check_folder(NULL, "four");
    check_folder("rag", "two");
    check_fails(br_chat_template_load(folder, "a/b", NULL), "name is 'a/b', which contains '/'");
    write_file("tokenizer_config.json", "{\"chat_template\": 1}");
    check_fails(br_chat_template_load(folder, "rag", NULL), "chat_template must be a string, or");
    write_file("chat_template.jinja", "a\n{% if %}");
    check_fails(br_chat_template_load(folder, NULL, NULL),
                "chat_template.jinja: line 2: expected an expression, found '%}'");
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_assert_eq(system(command), 0);
}

/* ---- Bad input ------------------------------------------------------------------------------- */

Test(chat, bad_templates)
{
    static const struct {
        const char *template, *error;
    } cases[] = {
        { "{{ a", "a tag has no end \"}}\"" },
        { "a\n{% if a %}", "line 2: a block has no end '{% endif %}'" },
        { "{% for a in b %}{% else %}", "a block has no end '{% endfor %}'" },
        { "{% set a %}", "a block has no end '{% endset %}'" },
        { "{# a", "a comment has no end \"#}\"" },
        { "{% raw %}", "{% raw %} has no end {% endraw %}" },
        { "{{ 'a }}", "a string has no end '" },
        { "{{ 'a\\x' }}", "an escape in a string needs 2 hexadecimal digits" },
        { "{{ '\\0' }}", "U+0000 in a string" },
        { "{{ '\\N{DASH}' }}", "the escape \\N in a string is not supported" },
        { "{{ 99999999999999999999 }}", "does not fit in 64 bits" },
        { "{{ a b }}", "expected '}}', found 'b'" },
        { "{{ (a }}", "closes nothing" },
        { "{{ [a, }}", "closes nothing" },
        { "{{ a ? b }}", "unexpected character '?'" },
        { "{% include 'x' %}", "the tag 'include' is not supported" },
        { "{% endif %}", "the tag 'endif' is not supported or not expected here" },
        { "{% 1 %}", "expected the name of a tag, found '1'" },
        { "{% break %}", "'break' and 'continue' belong in a loop" },
        { "{% for a in b %}{% macro c() %}{% break %}{% endmacro %}{% endfor %}",
          "belong in a loop" },
        { "{% set true = 1 %}", "expected the name of a variable, found 'true'" },
        { "{{ a(*b) }}", "*arguments and **arguments of a call are not supported" },
        { "{{ a(b=1, 2) }}", "expected NAME=VALUE after an argument with a name" },
        { "{% macro a(b=1, c) %}{% endmacro %}", "expected '=' and a default" },
        { "{{ a is b is c }}", "expected one test, found 'is'" },
        { "{{ a. }}", "expected a name, found '}}'" },
        { "\xff", "the template is not UTF-8 text" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_fails(br_chat_template_parse(cases[i].template, NULL), cases[i].error);
}

Test(chat, refused_when_run)
{
    static const struct {
        const char *template, *error;
    } cases[] = {
        { "\n{{ a.b }}", "line 2: 'a' is undefined" },
        { "{{ d.x.y }}", "'dict object' has no attribute 'x'" },
        { "{{ l[9].y }}", "list has no element 9" },
        { "{{ l | nothing }}", "the filter 'nothing' is not supported" },
        { "{{ l is nothing }}", "the test 'nothing' is not supported" },
        { "{{ ''.zfill(3) }}", "the method zfill() of a 'str' is not supported" },
        { "{{ l.append(3) }}", "the method append() of a 'list' is not supported" },
        { "{{ cycler('a') }}", "the function 'cycler' is not supported" },
        { "{{ ''.__class__.x }}", "access to attribute '__class__' of a 'str' is unsafe" },
        { "{{ strftime_now('%Q') }}", "strftime_now does not support '%Q'" },
        { "{{ 1 + 'a' }}", "the operator +  does not take 'int' and 'str'" },
        { "{{ 'a' % 1 }}", "the operator % of strings is not supported" },
        { "{{ 1 // 0 }}", "division by zero" },
        { "{{ 9223372036854775807 + 1 }}", "an integer does not fit in 64 bits" },
        { "{{ 1 < 'a' }}", "'<' does not compare 'int' and 'str'" },
        { "{{ 1() }}", "a 'int' cannot be called" },
        { "{{ d | replace('a') }}", "filter 'replace' needs 2 arguments (old new count)" },
        { "{{ d | trim('a', 'b') }}", "filter 'trim' takes at most 1 arguments, not 2" },
        { "{{ d | trim(x=1) }}", "filter 'trim' has no argument 'x'" },
        { "{{ l | join('a', d='b') }}", "filter 'join' gets its argument 'd' twice" },
        { "{{ l | select }}", "a 'generator' is not text; use the filter list first" },
        { "{% set a, b = l %}", "3 values cannot be assigned to 2 names" },
        { "{% set d.x = 1 %}", "'d' is no namespace" },
        { "{% macro m() %}{% endmacro %}{{ m(1) }}", "macro 'm' takes at most 0 arguments" },
        { "{% macro m() %}{% endmacro %}{{ m(a=1) }}", "macro 'm' has no parameter 'a'" },
        { "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}", "parameter 'a' was not provided" },
        { "{{ [d, missing] | tojson }}", "'missing' is undefined" },
        { "{{ range(200000) }}", "range has more than 100000 numbers" },
        { "{{ 'Σ' | lower }}", "another case of U+03A3 is not supported" },
        { "{{ {l: 1} }}", "a 'list' cannot be a key" },
        { "{{ {'a': 1, d: 2} }}", "a 'dict' cannot be a key" },
        { "{{ {(1, (2, l)): 3} }}", "a 'list' cannot be a key" },
        { "{{ d.get(l) }}", "a 'list' cannot be a key" },
        { "{{ [l, l] | unique | list }}", "a 'list' cannot be a key" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_fails(render(cases[i].template, "{\"d\": {}, \"l\": [1, 2, 3]}"), cases[i].error);
}

/* A template that comes from others cannot use up the machine. */
Test(chat, limits)
{
    check_fails(render("{{ range(9000) | sort(reverse=true) | length }}", NULL),
                "the template takes too many steps");
    check_fails(
        render("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
               NULL),
        "the template needs too much memory");
    check_fails(render("{% set ns = namespace(a='aaaaaaaa') %}{% for i in range(99) %}"
                       "{% set ns.a = ns.a + ns.a %}{% endfor %}",
                       NULL),
                "the template needs too much memory");
    check_fails(render("{{ 'a' * 999999999 }}", NULL), "too m");
    check_fails(render("{% for i in range(99999) %}{{ messages }}{{ x * 2000 }}{% endfor %}",
                       "{\"x\": \"0123456789\"}"),
                "too m");
    check_fails(render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", NULL),
                "nested more than 500 deep");
    enum { DEEP = 5000 };
    char *text = calloc(1, 2 * DEEP + 64);
    memcpy(text, "{{ ", 3);
    memset(text + 3, '(', DEEP);
    memset(text + 3 + DEEP, ')', DEEP);
    strcat(text, "}}");
    check_fails(br_chat_template_parse(text, NULL), "nested more than 200 deep");
    memset(text + 3, '-', 2 * DEEP);
    check_fails(br_chat_template_parse(text, NULL), "nested more than 200 deep");
    for (int i = 0; i < DEEP; i++)
        strcpy(text + 3 + 2 * i, i == 0 ? "a " : ".a");
    strcat(text, "}}");
    check_fails(render(text, NULL), "nested more than 500 deep");
    free(text);
}

Test(chat, bad_arguments)
{
    br_chat_template *t = br_chat_template_parse("{{ messages }}", NULL);
    check_fails(br_chat_template_parse(NULL, NULL), "text is NULL");
    check_fails(br_chat_template_load(NULL, NULL, NULL), "dir is NULL");
    check_fails(br_chat_template_render(NULL, 0, NULL, NULL), "self is NULL");
    check_fails(br_chat_template_render(t, -1, NULL, NULL), "n is -1, must be 0 or more");
    check_fails(br_chat_template_render(t, 1, NULL, NULL), "messages is NULL, but n is 1");
    check_fails(br_chat_template_render(t, 1, &(br_chat_message){ "user", NULL }, NULL),
                "messages[0].content is NULL");
    check_fails(br_chat_template_render(t, 1, &(br_chat_message){ NULL, "a" }, NULL),
                "messages[0].role is NULL");
    check_fails(br_chat_template_render(t, 1, &(br_chat_message){ "user", "\xff" }, NULL),
                "the content of a message is not UTF-8");
    check_fails(render("", "{"), "variables: line 1");
    check_fails(render("", "[]"), "variables is no JSON object");
    check_fails(render("", "{\"messages\": 1}"), "messages must be a list of JSON objects");
    check_fails(render("", "{\"tools\": [1]}"), "tools must be a list of JSON objects");
    check_fails(render("", "{\"documents\": {}}"), "documents must be a list of JSON objects");
    br_chat_template_free(t);
    br_chat_template_free(NULL);
}

/* ---- GGUF files ------------------------------------------------------------------------------ */

Test(chat, gguf_files)
{
    char path[96];
    gguf_writer w = { 0 };
    cr_assert(temporary_folder("chat", folder));
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    w_string(&w, "tokenizer.chat_template", "one {{ eos_token is defined }}");
    w_string(&w, "tokenizer.chat_template.rag", "two");
    w_u32(&w, "tokenizer.chat_template.bad", 1);
    w_end(&w, path);
    br_chat_template *t = br_chat_template_load(path, NULL, NULL);
    check_ok();
    char *text = br_chat_template_render(t, 0, NULL, NULL);
    cr_assert_str_eq(text, "one False");
    br_free(text);
    br_chat_template_free(t);
    t = br_chat_template_load(path, "rag", NULL);
    text = br_chat_template_render(t, 0, NULL, NULL);
    cr_assert_str_eq(text, "two");
    br_free(text);
    br_chat_template_free(t);
    check_fails(br_chat_template_load(path, "x", NULL),
                "model.gguf: there is no chat template: the metadata lacks "
                "tokenizer.chat_template.x");
    check_fails(br_chat_template_load(path, "bad", NULL), "tokenizer.chat_template.bad");
    cr_assert(unlink(path) == 0 && rmdir(folder) == 0);
}
