#!/usr/bin/env python3
"""named_arguments.py LIBRARY [CC]: finds a call of each public function with tensors that succeeds, and repeats it with
one tensor replaced: by NULL, a freed tensor, and tensors of other shapes and dtypes. If the call fails, the message must
contain the parameter's name as in the header, no tensor may have a new version, and whether it succeeds or fails, the
scope and the grad mode must stay. VERBOSE=1 lists the functions for which no call succeeds."""

import ctypes
import itertools
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import child  # noqa: E402
from binding import Binding  # noqa: E402

TENSOR = re.compile(r"(?:const )?br_tensor \*(\w+)")
TENSORS = re.compile(r"(?:const )?br_tensor \*const \*(\w+)")
RESULTS = re.compile(r"br_tensor \*\*(\w+)")
SIZES = re.compile(r"const int64_t \*(\w+)")
MODULE = re.compile(r"(?:const )?(br_\w+) \*(\w+)")
SHAPES = ((2, 3), (3,), (3, 3), (), (2,), (3, 2), (2, 3, 4), (1, 1, 3, 3), (2, 3, 3), (1,), (1, 1), (1, 1, 1))
PROTOTYPES = [(sizes, "BR_F32") for sizes in SHAPES] + [
    ((2,), "BR_I64"), ((2, 3), "BR_I64"), ((3,), "BR_I64"), ((1,), "BR_I64"), ((1, 1), "BR_I64"), ((2, 3), "BR_BOOL"),
    ((3,), "BR_BOOL"), ((2, 3), "BR_F64"), ((), "leaf")]
NUMBERS = 1, 0, 2, -1
ARRAYS = (1,), (0,), (2, 3), (0, 1), ()
MOST = 30000  # calls that are tried
# Functions that free, that open a scope or turn grad mode off, that do nothing, or that raise the caller's error.
EXEMPT = re.compile(r"br_(release|retain|\w*_free|scope_\w+|module_(enter\w*|leave)|raise\w*|fail|require\w*|record\w*|save|"
                    r"tap\w*|print|set_grad_enabled|before_in_place|optim_counter|bump_version)")
# Functions whose shapes are checked by the operations that they call, as in the notebooks, and whose forward functions
# leave all checks to the modules that they call: the message begins with the path of that module.
COMPOSED = re.compile(r"br_(anatomy|architecture|bert|scratch|vanilla)_\w+")
INNER = re.compile(r"[\w.]+: \w+: ")


class Case:
    """The tensors, and the other arguments, of calls of a function."""

    def __init__(self, br, name):
        self.br, self.name, self.function = br, name, br.functions[name]
        self.texts = br.arguments[name]
        self.places = [i for i, text in enumerate(self.texts) if TENSOR.fullmatch(text)]
        self.keep = []
        self.tensors = [self.make(sizes, dtype) for sizes, dtype in PROTOTYPES]
        self.freed = None

    def make(self, sizes, dtype):
        shape = (ctypes.c_int64 * len(sizes))(*sizes)
        if dtype == "leaf":
            return self.br.br_set_requires_grad(self.make(sizes, "BR_F32"), True)
        filled = self.br.br_zeros if dtype == "BR_I64" else self.br.br_ones
        return self.br.br_retain(filled(len(sizes), shape, getattr(self.br, dtype)))

    def end(self):
        """Returns a tensor whose scope has ended. Its memory is not reused at once."""
        scope = self.br.br_scope_begin()
        t = self.br.br_ones(0, None, self.br.BR_F32)
        self.br.br_scope_end(scope)
        return t

    def word(self, i):
        return TENSOR.fullmatch(self.texts[i])[1]

    def module(self, kind):
        """Returns a module of this type, or NULL."""
        base = [name for name in self.br.functions if re.fullmatch(rf"{kind}(\dd)?_new", name)]
        for name, number in itertools.product(["br_linear_new"] if kind == "br_module" else base, (1, 2, 3, 4)):
            types = self.br.functions[name].argtypes
            made = self.br.functions[name](*[None if t in (ctypes.c_void_p, ctypes.c_char_p) else t(number) for t in types])
            failed = self.br.br_error_code() != 0
            self.br.br_clear_error()
            if made and not failed:
                return made
        return None

    def others(self, number, array):
        """Returns the arguments that are no tensors."""
        found = []
        for text, kind in zip(self.texts, self.function.argtypes):
            value = None if kind in (ctypes.c_void_p, ctypes.c_char_p) else kind(number)
            if SIZES.fullmatch(text):
                value = (ctypes.c_int64 * max(1, len(array)))(*array)
            elif TENSORS.fullmatch(text):
                value = (ctypes.c_void_p * 2)(self.tensors[0], self.tensors[0])
            elif RESULTS.fullmatch(text):
                value = (ctypes.c_void_p * 16)()
            elif (match := MODULE.fullmatch(text)) and not TENSOR.fullmatch(text) and \
                    (match[1] == "br_module" or self.br.fields.get(match[1], [""])[0] == "base"):
                value = self.module(match[1])
            if found and isinstance(value, ctypes.Array) and not RESULTS.fullmatch(text) and isinstance(found[-1], ctypes.c_int):
                found[-1] = ctypes.c_int(len(array) if SIZES.fullmatch(text) else 2)
            found.append(value)
        self.keep.append(found)
        return found

    def call(self, others, tensors):
        """Returns the error message, or an empty text."""
        arguments = list(others)
        for i, t in zip(self.places, tensors):
            arguments[i] = t
        versions = [t and t != self.freed and self.br.br_tensor_version(t) for t in tensors]
        scope, recorded = self.br.br_scope_current(), self.br.br_grad_enabled()
        self.function(*arguments)
        message = self.br.br_error_message().decode(errors="replace")
        self.br.br_clear_error()
        if self.br.br_scope_current() != scope:
            yield "leaves its scope open"
        if self.br.br_grad_enabled() != recorded:
            yield "changes the grad mode"
        if message and versions != [t and t != self.freed and self.br.br_tensor_version(t) for t in tensors]:
            yield f"gives a tensor a new version, but fails: {message}"
        yield message

    def find(self):
        """Returns the other arguments and the tensors of a call that succeeds, or None."""
        arrays = ARRAYS if any(SIZES.fullmatch(text) for text in self.texts) else ARRAYS[:1]
        numbers = NUMBERS if set(self.function.argtypes) - {ctypes.c_void_p, ctypes.c_char_p} else NUMBERS[:1]
        each = [self.others(number, array) for number in numbers for array in arrays]
        tried = itertools.islice(itertools.product(range(len(PROTOTYPES)), repeat=len(self.places)), MOST // len(each))
        for which in tried:
            for others in each:
                *faults, message = self.call(others, [self.tensors[k] for k in which])
                if faults or not message:
                    return others, [self.tensors[k] for k in which]
        return None

    def names(self, place, t, message):
        """Returns whether the message names the parameter or, if only its shape is wrong, another parameter and the
        shape."""
        if re.search(rf"\b{self.word(place)}\b", message):
            return True
        is_inner = INNER.match(message) and MODULE.fullmatch(self.texts[0])
        if t is None or t == self.freed:
            return is_inner and COMPOSED.fullmatch(self.name) and self.name.endswith("_forward")
        if is_inner or COMPOSED.fullmatch(self.name):
            return True
        shape = self.br.br_shape_text(t).decode()
        names = [match[1] for text in self.texts if (match := re.search(r"(\w+)$", text))]
        return shape in message and re.search(rf"\b({'|'.join(names)})\b", message)

    def faults(self):
        found = self.find()
        if not found:
            yield "> no call succeeds"
            return
        others, tensors = found
        for i, place in enumerate(self.places):
            self.freed = self.end()
            for t in [None, self.freed] + self.tensors:
                *faults, message = self.call(others, tensors[:i] + [t] + tensors[i + 1:])
                yield from faults
                what = "NULL" if t is None else "freed" if t == self.freed else PROTOTYPES[self.tensors.index(t)]
                if message and not self.names(place, t, message):
                    yield f"{self.word(place)} is {what}: {message}"


def in_child(br, name, pipe):
    signal.alarm(60)
    for line in dict.fromkeys(Case(br, name).faults()):
        os.write(pipe, (line.replace("\n", " ") + "\n").encode())


def try_function(br, name):
    """Returns the faults as lines."""
    text, status = child.run(lambda pipe: in_child(br, name, pipe))
    return text.splitlines() + ([f"status {status}"] if status else [])


def main():
    br = Binding(os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else os.environ.get("CC", "cc"))
    wanted = [name for name in sorted(br.functions) if not EXEMPT.fullmatch(name) and
              any(TENSOR.fullmatch(text) for text in br.arguments[name])]
    bad = without = 0
    for name in wanted:
        for line in try_function(br, name):
            without += line.startswith("> ")
            bad += not line.startswith("> ")
            if not line.startswith("> ") or os.environ.get("VERBOSE"):
                print(f"{name}: {line}")
    print(f"{len(wanted)} functions, {without} without a call that succeeds, {bad} faults")
    sys.exit(bad != 0)


main()
