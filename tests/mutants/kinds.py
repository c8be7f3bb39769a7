"""The kinds of errors that `draw` draws. A kind is a function of a source's tokens that returns all places for it."""
import re

from planting import ROOT

TOKEN = re.compile(r"""
    (?P<comment> /\*.*?\*/ | //[^\n]*) | (?P<directive> ^[ \t]*\#(?:\\\n|/\*.*?\*/|[^\n])*)
  | (?P<string> "(?:\\.|[^"\\\n])*") | (?P<char> '(?:\\.|[^'\\\n])+') | (?P<number> \.?\d(?:[eEpP][+-]|[\w.])*)
  | (?P<name> [A-Za-z_]\w*)
  | (?P<op> <<=|>>=|\.\.\.|->|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|[^\s])""", re.X | re.S | re.M)
RELATIONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "&": "|", "|": "&", "<<": ">>", ">>": "<<"}
ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "<<=", ">>="}
# Words in names that have a sibling. A name without this sibling does not compile, and is not drawn.
SIBLINGS = ("min max, fmin fmax, first last, row col, rows cols, begin end, start end, low high, ceil floor, f32 f64, "
            "height width, in out, inputs outputs, left right, old new, source target, before after, next previous, "
            "param grad, beta1 beta2, x y, a b, i j, from to, add mul, sub add, sin cos, key value, name value, "
            "given wanted, count size")
SIBLING = {}
for pair in SIBLINGS.split(", "):
    for one, other in (pair.split(), pair.split()[::-1]):
        SIBLING.setdefault(one, []).append(other)
        SIBLING.setdefault(one.upper(), []).append(other.upper())


class Site:
    """A change of one source: the text between start and end becomes `new`."""

    def __init__(self, path, start, end, new, what):
        self.path, self.start, self.end, self.new, self.what = path, start, end, new, what

    def planted(self, source):
        return source[:self.start] + self.new + source[self.end:]


class Tokens:
    """The tokens of one source inside functions and tables, with the structure that the kinds of errors need."""

    def __init__(self, path):
        self.path, self.source = path, (ROOT / path).read_text()
        found = [m for m in TOKEN.finditer(self.source) if m.lastgroup not in ("comment", "directive")]
        self.kind, self.text = [m.lastgroup for m in found], [m.group() for m in found]
        self.span = [m.span() for m in found]
        self.match, self.inside, self.depth = {}, [], []
        open_tokens, where = [], ""
        for i, text in enumerate(self.text):
            if text in ("(", "[", "{"):
                if text == "{" and not open_tokens:
                    where = {")": "function", "=": "table"}.get(self.text[i - 1], "")
                open_tokens.append(i)
            self.inside.append(where if open_tokens and not self.in_assertion(i) else "")
            self.depth.append([self.text[t] for t in open_tokens])
            if text in (")", "]", "}") and open_tokens:
                at = open_tokens.pop()
                self.match[at], self.match[i] = i, at

    def in_assertion(self, i):
        statement = self.text[max(0, i - 40):i + 1]
        last = max((n for n, text in enumerate(statement) if text in (";", "{", "}")), default=-1)
        return any(word.lower().lstrip("_") == "static_assert" for word in statement[last + 1:])

    def places(self, where="function"):
        return [i for i, inside in enumerate(self.inside) if inside and (inside == where or where == "any")]

    def is_value(self, i):
        is_word = self.kind[i] in ("name", "number", "string", "char") and self.text[i] != "return"
        return is_word or self.text[i] in (")", "]")

    def statements(self):
        """Returns the first and last token of each statement without braces."""
        for i in self.places():
            before = self.text[i - 1]
            header = before == ")" and self.text[self.match.get(i - 1, 0) - 1] in ("if", "for", "while")
            if self.depth[i] and self.depth[i][-1] == "{" and (before in (";", "{", "}", "else") or header):
                end = i
                while self.text[end] not in (";", "{", "}"):
                    end = self.match.get(end, end) + 1 if self.text[end] in ("(", "[") else end + 1
                if self.text[end] == ";":
                    yield i, end

    def arguments(self, i):
        """Returns the first and last tokens of the arguments of the call whose name is token i."""
        begin, close, found = i + 2, self.match.get(i + 1, i + 1), []
        at = begin
        while at <= close:
            if self.text[at] == "," or at == close:
                found.append((begin, at - 1))
                begin = at + 1
            at = self.match[at] + 1 if self.text[at] in ("(", "[", "{") else at + 1
        return found

    def words(self, first, last):
        return self.source[self.span[first][0]:self.span[last][1]]

    def site(self, first, last, new, what):
        return Site(self.path, self.span[first][0], self.span[last][1], new, what)


def replaced(t, others, where):
    """Returns the places of tokens that have another one in `others`."""
    return [t.site(i, i, others[t.text[i]], f"{t.text[i]} is {others[t.text[i]]}")
            for i in t.places(where) if t.text[i] in others]


def relations(t):
    return replaced(t, RELATIONS, "function")


def arithmetic(t):
    """A binary operator follows a value, unlike a sign, an address or a pointer's `*`."""
    return [t.site(i, i, ARITHMETIC[t.text[i]], f"{t.text[i]} is {ARITHMETIC[t.text[i]]}")
            for i in t.places("any") if t.text[i] in ARITHMETIC and t.is_value(i - 1)]


def logic(t):
    return replaced(t, {"&&": "||", "||": "&&"}, "function")


def negations(t):
    return [t.site(i + 1, t.match[i + 1], f"(!{t.words(i + 1, t.match[i + 1])})", "a condition is negated")
            for i in t.places() if t.text[i] in ("if", "while") and t.text[i + 1] == "("]


def numbers(t):
    found = []
    for i in t.places("any"):
        declares = t.text[i - 1] == "[" and t.text[i + 1] == "]" and t.text[i + 2] in (";", "=", ",")
        if t.kind[i] == "number" and not declares:
            whole = re.fullmatch(r"(\d+)([uUlL]*)", t.text[i])
            new = str(int(whole[1]) + 1) + whole[2] if whole else f"(2 * {t.text[i]})"
            found.append(t.site(i, i, new, f"{t.text[i]} is {new}"))
    return found


def booleans(t):
    return replaced(t, {"true": "false", "false": "true"}, "any")


def siblings(t):
    found = []
    for i in t.places("any"):
        words = t.text[i].split("_") if t.kind[i] == "name" else []
        for n, word in enumerate(words):
            for other in SIBLING.get(word, []):
                new = "_".join(words[:n] + [other] + words[n + 1:])
                found.append(t.site(i, i, new, f"{t.text[i]} is {new}"))
    return found


def deleted_calls(t):
    return [t.site(i, end - 1, "", f"{t.text[i]}() is not called") for i, end in t.statements()
            if t.kind[i] == "name" and t.text[i + 1] == "(" and t.match[i + 1] == end - 1]


def deleted_assignments(t):
    found = []
    for i, end in t.statements():
        at = i + 1 if t.text[i] == "*" else i
        while t.kind[at] == "name" and t.text[at + 1] in (".", "->") or t.text[at] == "[":
            at = t.match[at] + 1 if t.text[at] == "[" else at + 2
            at += t.text[at] in (".", "->")
        at += t.kind[at] == "name"
        while t.text[at] == "[":
            at = t.match[at] + 1
        if at > i and t.text[at] in ASSIGNMENTS | {"++", "--"}:
            found.append(t.site(i, end - 1, "", f"{t.words(i, at)} is left out"))
    return found


def assignments(t):
    found = []
    for i in t.places():
        if t.text[i] in ASSIGNMENTS - {"="}:
            found.append(t.site(i, i, "=", f"{t.text[i]} is ="))
            other = ARITHMETIC[t.text[i][:-1]] + "="
            found.append(t.site(i, i, other, f"{t.text[i]} is {other}"))
    return found


def deleted_jumps(t):
    return [t.site(i, end - 1, "", f"{t.words(i, end)[:30]} is left out") for i, end in t.statements()
            if t.text[i] in ("break", "continue") or t.text[i] == "return" and
            (t.text[i - 1] in (")", "else") or len(t.depth[i]) > 1)]


def swapped_arguments(t):
    """Neighbours of a few tokens that end alike, with a name or a number. The compiler refuses other types."""
    found = []
    for i in t.places():
        if t.kind[i] != "name" or t.text[i + 1] != "(" or t.text[i] in ("if", "for", "while", "switch", "sizeof"):
            continue
        arguments = t.arguments(i)
        for (a, b), (c, d) in zip(arguments, arguments[1:]):
            is_short = a <= b < a + 4 and c <= d < c + 4
            if is_short and t.kind[b] == t.kind[d] and t.words(a, b) != t.words(c, d):
                new = t.words(c, d) + t.source[t.span[b][1]:t.span[c][0]] + t.words(a, b)
                found.append(t.site(a, d, new, f"arguments of {t.text[i]}() are swapped"))
    return found


def texts(t):
    """A word of a text, such as a message or an option's name, but no word of a conversion specification."""
    found = []
    for i in t.places("any"):
        if t.kind[i] == "string":
            for m in re.finditer(r"(?<![%\\a-zA-Z])[A-Za-z_]{4,}", t.text[i]):
                new = t.text[i][:m.start()] + "other" + t.text[i][m.end():]
                found.append(t.site(i, i, new, f"{m.group()} in a text is other"))
    return found


KINDS = [relations, arithmetic, logic, negations, numbers, booleans, siblings, deleted_calls, deleted_assignments,
         assignments, deleted_jumps, swapped_arguments, texts]
