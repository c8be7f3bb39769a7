"""compare_chat.py LIBRARY [CONVERSATIONS] [EXPRESSIONS] [SEED] [--templates DIR]: renders chat templates with Brasa and with
transformers, which uses jinja2.

Each template gets random conversations, and random expressions are templates of their own. The templates are those of
tests/chat/templates and of DIR (*.jinja). The texts must be equal; where jinja2 raises an error, Brasa must fail. Where
Brasa alone refuses, its message must say that something is not supported. Prints each difference and the counts."""

import argparse
import ctypes
import datetime
import json
import pathlib
import random
import sys
import warnings

from transformers.utils import chat_template_utils

HERE = pathlib.Path(__file__).parent
NOW = 1753790400  # 29 July 2025, noon in UTC
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


class FixedDate(datetime.datetime):
    @classmethod
    def now(cls):
        return cls.fromtimestamp(NOW)


chat_template_utils.datetime = FixedDate  # what strftime_now() asks
warnings.simplefilter("ignore", SyntaxWarning)


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("add_generation_prompt", ctypes.c_bool),
                ("variables", ctypes.c_char_p), ("time", ctypes.c_int64)]


class Brasa:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.br_chat_template_parse.restype = ctypes.c_void_p
        self.lib.br_chat_template_parse.argtypes = [ctypes.c_char_p, ctypes.c_void_p]
        self.lib.br_chat_template_free.argtypes = [ctypes.c_void_p]
        self.lib.br_chat_template_render.restype = ctypes.c_void_p
        self.lib.br_chat_template_render.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p]
        self.lib.br_free.argtypes = [ctypes.c_void_p]
        self.lib.br_error_message.restype = ctypes.c_char_p
        self.lib.br_set_exit_report.argtypes = [ctypes.c_bool]
        self.lib.br_set_exit_report(False)

    def render(self, template, variables):
        """Returns the text and None, or None and the message of the error."""
        self.lib.br_clear_error()
        handle = self.lib.br_chat_template_parse(template.encode("utf-8", "surrogatepass"), None)
        text = None
        if handle:
            options = Options(ctypes.sizeof(Options), variables.get("add_generation_prompt", False),
                              json.dumps(variables).encode(), NOW)
            pointer = self.lib.br_chat_template_render(handle, 0, None, ctypes.byref(options))
            if pointer:
                text = ctypes.string_at(pointer).decode()
                self.lib.br_free(pointer)
            self.lib.br_chat_template_free(handle)
        return text, None if text is not None else self.lib.br_error_message().decode()


def reference(template, variables):
    """Returns the text and None, or None and the error."""
    given = dict(variables)
    messages, tools = given.pop("messages"), given.pop("tools", None)
    documents, prompt = given.pop("documents", None), given.pop("add_generation_prompt", False)
    try:
        rendered, _ = chat_template_utils.render_jinja_template([messages], tools, documents, template, add_generation_prompt=prompt, **given)
        return rendered[0], None
    except Exception as error:  # jinja2 lets errors of Python through
        return None, f"{type(error).__name__}: {error}"


# ---- Conversations ---------------------------------------------------------------------------------------------------

WORDS = ["hello", "Größe", "日本語", "<think>", "</think>", "a'b", 'say "x"', "{{ x }}", "\n", "\n\n", "  ", "\t", "😀",
         "/no_think", "<tool_response>", "</tool_response>", "1", "{}", "[1, 2]", "&<>", "\\n", "é", "﷽", " "]


def text(r):
    return r.choice(["", " ", "\n"]) * r.randint(0, 1) + "".join(
        r.choice(WORDS) + r.choice(["", " ", " ", "\n"]) for _ in range(r.randint(0, 6)))


def value(r, depth=0):
    kind = r.randint(0, 8 if depth < 2 else 5)
    if kind == 0:
        return r.choice([None, True, False])
    if kind == 1:
        return r.choice([0, 1, -7, 2**40, 3])
    if kind == 2:
        return r.choice([0.5, -1e-7, 1e22, 3.0, 123456.789, 1e16, 0.1])
    if kind <= 5:
        return text(r)
    if kind == 6:
        return [value(r, depth + 1) for _ in range(r.randint(0, 3))]
    return {r.choice(["a", "b c", "ü", "type", "name", "items"]): value(r, depth + 1) for _ in range(r.randint(0, 3))}


def tool(r):
    return {"type": "function", "function": {
        "name": r.choice(["get_weather", "f", "search"]), "description": text(r),
        "parameters": {"type": "object", "required": ["x"],
                       "properties": {r.choice("xyz"): {"type": r.choice(["string", "number"]), "description": text(r)}
                                      for _ in range(r.randint(0, 2))}}}}


def call(r):
    made = {"type": "function", "function": {"name": r.choice(["get_weather", "f"]), "arguments": value(r)}}
    if r.random() < 0.5:
        made["id"] = r.choice(["abcdefghi", "x1", ""])
    if r.random() < 0.8:
        made["function"]["arguments"] = {"x": text(r), "y": value(r)}
    return made


def message(r, role):
    made = {"role": role, "content": text(r)}
    odd = r.random()
    if role == "assistant" and odd < 0.3:
        made["tool_calls"] = [call(r) for _ in range(r.randint(0, 2))]
        made["content"] = r.choice([None, "", text(r)])
    elif role == "assistant" and odd < 0.5:
        made["reasoning_content"] = text(r)
    elif role == "tool":
        made.update(r.choice([{}, {"name": "f"}, {"tool_call_id": "abcdefghi"}, {"tool_call_id": "x"}]))
        made["content"] = r.choice([text(r), value(r)])
    elif odd > 0.93:
        made["content"] = [{"type": r.choice(["text", "image"]), "text": text(r)} for _ in range(r.randint(0, 2))]
    elif odd > 0.9:
        made.pop(r.choice(["role", "content"]))
    return made


def conversation(r):
    roles = ["system"] * (r.random() < 0.4)
    for _ in range(r.randint(0, 3)):
        roles += ["user", "assistant"] if r.random() < 0.8 else [r.choice(["user", "tool", "assistant", "system", "x"])]
        roles += ["tool"] * (r.random() < 0.2)
    variables = {"messages": [message(r, role) for role in roles], **TOKENS}
    if r.random() < 0.4:
        variables["tools"] = [tool(r) for _ in range(r.randint(0, 2))]
    if r.random() < 0.5:
        variables["add_generation_prompt"] = True
    if r.random() < 0.3:
        variables["enable_thinking"] = r.choice([True, False])
    if r.random() < 0.2:
        variables.update(r.choice([{"date_string": "1 Jan 2020"}, {"builtin_tools": ["code_interpreter", "x"]},
                                   {"tools_in_user_message": False}, {"documents": [{"title": "t", "text": text(r)}]},
                                   {"custom_tools": None}, {"tool_choice": "auto"}]))
    return variables


# ---- Expressions -----------------------------------------------------------------------------------------------------

NAMES = ["s", "u", "n", "x", "f", "t", "none_", "list_", "dict_", "deep", "missing", "e", "words"]
VARIABLES = {"s": " Hello World ", "u": "Größe 日本 ß", "n": -3, "x": 7, "f": 2.5, "t": True, "none_": None,
             "list_": [3, 1, 2], "e": [], "words": ["b", "A", "c", "a"],
             "dict_": {"b": 1, "a": [1, {"k": "v"}], "items": 5}, "deep": [{"k": 1, "v": "x"}, {"k": 2}, {"k": 1.0}],
             "messages": []}
FILTERS = ["abs", "capitalize", "count", "default('d')", "d('d', true)", "dictsort", "dictsort(reverse=true)", "first",
           "float", "indent", "indent(2, true)", "int", "int(5)", "items|list", "join", "join('-')", "join(', ', attribute='k')",
           "last", "length", "list", "lower", "map('upper')|list", "map(attribute='k')|list", "max", "min",
           "map(attribute='v', default='-')|join", "reject('none')|list", "rejectattr('v', 'defined')|list",
           "replace('l', 'L')", "replace('', '-')", "replace('o', '', 1)", "reverse|list", "round", "round(1)",
           "select|list", "select('odd')|list", "selectattr('k', 'equalto', 1)|list", "selectattr('v')|list", "sort",
           "sort(reverse=true)", "string", "sum", "sum('k')", "title", "tojson", "tojson(indent=2)", "trim", "trim('H ')",
           "unique|list", "upper", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))",
           "safe", "list|length", "map('length')|list"]
TESTS = ["defined", "undefined", "none", "boolean", "true", "false", "integer", "float", "number", "string", "mapping",
         "iterable", "sequence", "callable", "odd", "even", "divisibleby 3", "divisibleby(2)", "eq 7", "equalto(1)", "ne none",
         "lt 3", "ge 2", "gt(0)", "in [1, 7, 'a']", "lower", "upper", "sameas true", "in words"]
METHODS = [".upper()", ".lower()", ".strip()", ".lstrip('H ')", ".rstrip()", ".split()", ".split('o')", ".split('l', 1)",
           ".rsplit('l', 1)", ".split(none, 1)", ".rsplit(none, 1)", ".splitlines()", ".startswith(' H')", ".endswith('ß')",
           ".replace('l', 'xx')", ".replace('', '.', 2)", ".find('o')", ".rfind('o')", ".count('l')", ".title()",
           ".capitalize()", ".removeprefix(' ')", ".removesuffix(' ')", ".partition('o')", ".rpartition('o')", ".join(words)",
           ".items()|list", ".keys()|list", ".values()|list", ".get('a')", ".get('z', 3)", ".get('z')", ".k", ".a", ".items",
           ".index(1)", ".isdigit()", ".isspace()", ".isalpha()", ".startswith(('x', ' '))", ".z", ".0", ".0.k"]


def expression(r, depth=0):
    kind = r.randint(0, 19)
    if depth > 3 or kind <= 3:
        return r.choice(NAMES)
    inner = lambda: expression(r, depth + 1)
    if kind == 4:
        return r.choice(["1", "0", "2.5", "'a'", '"Größe"', "true", "none", "[]", "'a\\n\\'b\\''", "1e3", "0x1f", "1_000", "''",
                         "'x' 'y'", "-2", "{}", "()", "(1,)"])
    if kind == 5:
        return f"[{inner()}, {inner()}]"
    if kind == 6:
        return f"{{'k': {inner()}, {r.choice(['1', 's', 'true', 'none'])}: {inner()}}}"
    if kind == 7:
        return f"({inner()}, {inner()})"
    if kind == 8:
        return f"({inner()} {r.choice(['+', '-', '*', '/', '//', '%', '~', '~', '+'])} {inner()})"
    if kind == 9:
        return f"({inner()} {r.choice(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {inner()})"
    if kind == 10:
        return f"({inner()} {r.choice(['and', 'or'])} {inner()})"
    if kind == 11:
        return f"({inner()} if {inner()} else {inner()})" if r.random() < 0.8 else f"({inner()} if {inner()})"
    if kind == 12:
        return f"{r.choice(['not ', '-', '+'])}{inner()}"
    if kind <= 14:
        return f"({inner()})|{r.choice(FILTERS)}"
    if kind == 15:
        return f"({inner()} is {r.choice(['', 'not '])}{r.choice(TESTS)})"
    if kind <= 17:
        return f"({inner()}){r.choice(METHODS)}"
    bound = lambda: r.choice(["", "", "0", "1", "-1", "2", "-2", "9"])
    if kind == 18:
        return f"({inner()})[{r.choice(['0', '-1', '1', repr('k'), repr('a'), repr('items')])}]"
    return f"({inner()})[{bound()}:{bound()}{r.choice(['', '', ':', ':-1', ':2', ':-2'])}]"


STATEMENTS = ["{{% for i in {e} %}}{{{{ i }}}}{{% if not loop.last %}},{{% endif %}}{{% else %}}none{{% endfor %}}",
              "{{% for i in {e} if i %}}{{{{ loop.index }}}}{{{{ loop.revindex0 }}}}{{{{ loop.length }}}} {{% endfor %}}",
              "{{% set v = {e} %}}{{{{ v }}}}", "{{% if {e} %}}yes{{% elif {e} %}}else\n{{% else %}}no{{% endif %}}\n",
              "  {{%- if {e} -%}} a {{%- endif %}}  \n  {{% set q = 1 %}}\n b",
              "{{% macro m(a, b={e}) %}}<{{{{ a }}}}|{{{{ b }}}}>{{% endmacro %}}{{{{ m({e}) }}}}{{{{ m(1, b=2) }}}}",
              "{{% set ns = namespace(c=0) %}}{{% for i in {e} %}}{{% set ns.c = ns.c + loop.index0 %}}{{% set s = i %}}"
              "{{% endfor %}}{{{{ ns.c }}}}{{{{ s }}}}",
              "{{% set b %}}[{{{{ {e} }}}}]{{% endset %}}{{{{ b|upper }}}}", "{{% filter trim %}} {{{{ {e} }}}} {{% endfilter %}}",
              "{{% with v = {e}, w = 2 %}}{{{{ v }}}}{{{{ w }}}}{{% endwith %}}{{{{ v is defined }}}}",
              "{{% for i in range(5) %}}{{% if i == 1 %}}{{% continue %}}{{% endif %}}{{% if i == 3 %}}{{% break %}}"
              "{{% endif %}}{{{{ i }}}}{{{{ loop.previtem }}}}{{{{ loop.cycle({e}, 'b') }}}}{{% endfor %}}",
              "{{# a {{{{ comment }}}} #}}\n{{{{ {e} }}}}{{#- x -#}}  end\n", "{{% raw %}}{{{{ {e} }}}}{{% endraw %}}",
              "{{% generation %}}{{% set s = 1 %}}{{{{ {e} }}}}{{% endgeneration %}}{{{{ s }}}}",
              "{{% macro m() %}}({{{{ caller({e}) }}}}){{% endmacro %}}{{% call(z) m() %}}{{{{ z }}}}{{% endcall %}}",
              "{{% for a, b in ({e}).items() %}}{{{{ a }}}}={{{{ b }}}};{{% endfor %}}",
              "{{% for i in deep recursive %}}{{{{ i.k }}}}{{{{ loop.depth }}}}{{% if i.v %}}{{{{ loop([{{'k': {e}}}]) }}}}{{% endif %}}"
              "{{% endfor %}}"]


def random_template(r):
    if r.random() < 0.6:
        return "{{ " + expression(r) + " }}"
    statement = r.choice(STATEMENTS)
    parts = statement.split("{e}")
    made = parts[0]
    for part in parts[1:]:
        made += expression(r, 2).replace("{", "{{").replace("}", "}}") + part
    return made.format()


# ---- Comparison ------------------------------------------------------------------------------------------------------

def is_refusal(message):
    """Returns whether Brasa says that it lacks something. jinja2 computes constants with other rules for slices."""
    return any(part in message for part in ("not supported", "64 bits", "supports ASCII", "'Markup'", "has no slices"))


class Counts:
    def __init__(self):
        self.equal = self.errors = self.refused = self.differ = 0

    def compare(self, brasa, label, template, variables):
        expected, error = reference(template, variables)
        got, message = brasa.render(template, variables)
        if expected is not None and got == expected:
            self.equal += 1
        elif got is None and (expected is None or " at 0x" in expected.lower()):  # the address of an object
            self.errors += 1
        elif got is None and is_refusal(message):
            self.refused += 1
        else:
            self.differ += 1
            if self.differ <= 20:
                print(f"{label}: {template if label == 'expression' else json.dumps(variables, ensure_ascii=False)}\n"
                      f"  jinja2: {expected!r} {error}\n  brasa:  {got!r} {message}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("conversations", nargs="?", type=int, default=200)
    parser.add_argument("expressions", nargs="?", type=int, default=20000)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("--templates")
    arguments = parser.parse_args()
    brasa, r = Brasa(arguments.library), random.Random(arguments.seed)
    paths = sorted((HERE / "templates").glob("*.jinja"))
    if arguments.templates:
        paths += sorted(pathlib.Path(arguments.templates).rglob("*.jinja"))
    total = 0
    for path in paths:
        counts, template = Counts(), path.read_text(encoding="utf-8")
        for _ in range(arguments.conversations):
            counts.compare(brasa, path.stem, template, conversation(r))
        print(f"{path.stem}: {counts.equal} equal, {counts.errors} refused by both, {counts.refused} by Brasa, {counts.differ} differ")
        total += counts.differ
    counts = Counts()
    for _ in range(arguments.expressions):
        counts.compare(brasa, "expression", random_template(r), VARIABLES)
    print(f"expressions: {counts.equal} equal, {counts.errors} refused by both, {counts.refused} by Brasa, {counts.differ} differ")
    sys.exit(total + counts.differ > 0)


if __name__ == "__main__":
    main()
