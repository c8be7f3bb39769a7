"""Creates ctypes bindings from the library's public headers. Python can then call everything that they declare, and
declarations that only C can use are detected."""

import ctypes
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HEADERS = ROOT / "include"

SCALARS = {
    "void": None, "bool": ctypes.c_bool, "_Bool": ctypes.c_bool,
    "char": ctypes.c_char, "int": ctypes.c_int, "float": ctypes.c_float, "double": ctypes.c_double, "size_t": ctypes.c_size_t,
    "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "uint32_t": ctypes.c_uint32,
    "int32_t": ctypes.c_int32, "uint8_t": ctypes.c_uint8, "unsigned": ctypes.c_uint,
}


def declarations(cc):
    """Yields the statements of the library's headers without attributes, one string each."""
    lines = subprocess.run([cc, "-E", f"-I{HEADERS}", "-"], input="#include <brasa/brasa.h>\n", check=True,
                           capture_output=True, text=True).stdout.splitlines()
    text, ours = "", False
    for line in lines:
        if marker := re.match(r'# \d+ "(.*?)"', line):
            ours = marker[1].startswith(str(HEADERS))  # not a system header
        elif ours:
            text += line + "\n"
    while "__attribute__" in text:
        text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", text, count=1)
    depth, statement = 0, ""
    for c in text:
        depth += (c == "{") - (c == "}")
        if c == ";" and depth == 0:
            yield " ".join(statement.split())
            statement = ""
        else:
            statement += c


class Binding:
    """Enumerators, structs and functions as attributes; `functions` have their types set in `lib`."""

    def __init__(self, library, cc):
        self.lib = ctypes.CDLL(library)
        self.constants, self.structs, self.fields, self.functions = {}, {}, {}, {}
        self.types = dict(SCALARS)
        self.arguments, self.returns = {}, {}  # of each function, as written in the header
        self.variadic = set()
        for statement in declarations(cc):
            self.declare(statement)

    def declare(self, s):
        if match := re.fullmatch(r"(?:typedef )?enum(?: \w+)? ?\{(.*)\} ?(\w+)?", s):
            self.declare_enum(match[1])
            if match[2]:
                self.types[match[2]] = ctypes.c_int
        elif match := re.fullmatch(r"(?:typedef )?struct (\w+) ?\{(.*)\}(?: ?(\w+))?", s):
            self.declare_struct(match[3] or match[1], match[2])
        elif match := re.fullmatch(r"typedef struct (\w+) \1", s):
            self.types[match[1]] = ctypes.c_char  # opaque: used only by pointer
        elif match := re.fullmatch(r"typedef (\w+) (\w+)", s):
            self.types[match[2]] = self.types[match[1]]
            if match[1] in self.structs:
                self.structs[match[2]], self.fields[match[2]] = self.structs[match[1]], self.fields[match[1]]
        elif match := re.fullmatch(r"typedef .*\(\*(\w+)\) ?\(.*\)", s):
            self.types[match[1]] = ctypes.c_void_p
        elif match := re.fullmatch(r"((?:const )?\w+[ *]+)(\w+) ?\((.*)\)", s):
            self.declare_function(match[2], match[1], match[3])
        elif s.startswith("extern "):
            pass  # a table of the library's own, such as br_model_families
        elif s and s != "}":
            raise SyntaxError("cannot parse: " + s)

    def declare_enum(self, body):
        value = -1
        for entry in filter(None, (e.strip() for e in body.split(","))):
            name, _, given = entry.partition("=")
            value = eval(given, {}, self.constants) if given else value + 1
            self.constants[name.strip()] = value

    def field(self, text):
        """Returns the fields of a declaration such as `double x, y[3]`."""
        if match := re.search(r"\(\*(\w+)\)", text):
            return [(match[1], ctypes.c_void_p)]
        text = re.sub(r"\b(const|struct)\b", " ", text).strip()
        base, rest = re.fullmatch(r"(\w+)([ *].*)", text).groups()
        found = []
        for declarator in rest.split(","):
            stars, name, count = re.fullmatch(r"([\s*]*)(\w+)(?:\[(.*)\])?",
                                              declarator.strip()).groups()
            kind = ctypes.c_void_p if "*" in stars else self.types[base]
            if base == "char" and stars.count("*") == 1:
                kind = ctypes.c_char_p
            if count:
                kind *= eval(count, {}, self.constants)
            found.append((name, kind))
        return found

    def declare_struct(self, name, body):
        fields = [f for part in body.split(";") if part.strip() for f in self.field(part.strip())]
        self.structs[name] = self.types[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
        self.fields[name] = [f[0] for f in fields]

    def argument(self, text):
        if re.fullmatch(r"const char \*\w*", text.strip()):
            return ctypes.c_char_p
        if "*" in text or "[" in text:
            return ctypes.c_void_p
        return self.types[re.sub(r"\bconst\b", "", text).split()[0]]

    def declare_function(self, name, returned, arguments):
        function = getattr(self.lib, name)
        self.returns[name] = returned.strip()
        parts = re.split(r",(?![^()]*\))", arguments)
        if parts[-1].strip() == "...":
            self.variadic.add(name)
            parts.pop()
        self.arguments[name] = [p.strip() for p in parts if p.strip() != "void"]
        function.argtypes = [self.argument(p) for p in parts if p.strip() != "void"]
        if re.fullmatch(r"const char \*", returned.strip()):
            function.restype = ctypes.c_char_p
        else:
            function.restype = ctypes.c_void_p if "*" in returned else self.types[returned.strip()]
        self.functions[name] = function

    def __getattr__(self, name):
        found = self.functions.get(name) or self.structs.get(name)
        if found is None and name in self.constants:
            found = self.constants[name]
        if found is None:
            raise AttributeError(name)
        return found
