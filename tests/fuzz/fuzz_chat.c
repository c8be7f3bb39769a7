/* tests/fuzz/fuzz_chat.c - any bytes as a chat template, with a conversation and tools. */
#include "tests/fuzz/fuzz.h"

#include <brasa/chat.h>

static const fuzz_seed seeds[] = {
    SEED("{% for m in messages %}{{ m.role | upper + ': ' }}{{- m['content'] | trim }}\n{% endfor "
         "%}"),
    SEED("{%- set ns = namespace(i=0) -%}{% for m in messages[::-1] if m.role != 'x' %}"
         "{% set ns.i = ns.i + loop.index0 * 2 - 1 %}{{ loop.last ~ loop.previtem }}{% else %}"
         "none{% endfor %}{{ ns.i }}"),
    SEED("{% macro f(a, b=[1, 2.5e3, 'x\\n\\u00e9'], c={'k': (1,)}) %}{{ a }}{{ b[0:-1] }}{{ "
         "c.k[0] }}"
         "{{ caller() if caller }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, c=2) }}"
         "{% call f(3) %}x{% endcall %}"),
    SEED("{{ tools | tojson(indent=2) }}{{ tools | map(attribute='function.name') | join(', ') }}"
         "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"),
    SEED("{% if a is defined and a is not none or not b %}{% elif 1 < 2 <= 3 %}yes{% endif %}"
         "{{ 'a' if x else 'b' }}{{ 'abcabc'.split('b')[-1].replace('c', '') * 3 }}"),
    SEED("{# c #}{% raw %}{{ {% endraw %}{% set t %}<b>{% endset %}{{ t|title|replace('b', 'c') }}"
         "{% filter upper %}x{% endfilter %}{% with a = 1, b = 2 %}{{ a // b ** 2 % 3 }}{% endwith "
         "%}"),
    SEED("{% for i in range(9) recursive %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{% endfor %}"
         "{% generation %}{{ strftime_now('%d %b %Y') }}{% endgeneration %}{{ '%s'|safe + '<' }}"),
    SEED("{{ [3, 1, 2] | sort(reverse=true) | first }}{{ {'b': 1, 'a': 2} | dictsort }}"
         "{{ ' a\\tb ' | indent(2, true) | int(3) }}{{ 7 | round(1) }}{{ raise_exception('x') }}"),
};

static const char conversation[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", "
    "\"content\": \" Gr\xc3\xb6\xc3\x9f"
    "e? \"}, {\"role\": \"assistant\", \"content\": null, "
    "\"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": [1, 2.5, "
    "true]}}}]}], "
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}], \"bos_token\": "
    "\"<s>\"}";

static void try_bytes(const uint8_t *bytes, size_t n)
{
    br_set_memory_limit(64 << 20);
    char *text = calloc(1, n + 1);
    require(text != NULL);
    memcpy(text, bytes, n);
    br_chat_template *chat = br_chat_template_parse(text, NULL);
    require_answer(chat);
    if (chat) {
        char *rendered = br_chat_template_render(
            chat, 0, NULL, BR_OPTIONS(br_chat, .variables = conversation, .time = 0));
        require_answer(rendered);
        br_free(rendered);
    }
    br_chat_template_free(chat);
    free(text);
}

FUZZ_TARGET(chat)
