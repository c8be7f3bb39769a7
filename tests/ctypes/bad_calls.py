#!/usr/bin/env python3
"""bad_calls.py LIBRARY [CC]: calls every public function with NULL and with empty tensors of many rows. No call
may crash or hang. An error must name the function, and the argument that is NULL; then the function must return false
or NULL.

Each function runs in a separate process: with NULL for all pointers and 0, 1 and -1 for all numbers; with valid
tensors, modules and strings and NULL for one of them at a time; and with empty tensors."""

import ctypes
import itertools
import os
import pathlib
import re
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import child  # noqa: E402
from binding import Binding  # noqa: E402
from names import COMPOSED, is_named, parameter  # noqa: E402

TENSOR = r"(const )?br_tensor \*\w*"
EMPTY = [(1 << 40, 0), (0, 1 << 40), (1 << 40, 0, 3)]


def tensor(br, *sizes):
    shape = (ctypes.c_int64 * len(sizes))(*sizes)
    return br.br_retain(br.br_ones(len(sizes), shape, br.BR_F32))


VALID = [
    (TENSOR, lambda br: tensor(br, 2, 3)),
    (r"(const )?br_module \*\w*", lambda br: br.br_linear_new(3, 2, True)),
    (r"(const )?br_linear \*\w*", lambda br: br.br_linear_new(3, 2, True)),
    (r"(const )?br_optim \*\w*", lambda br: br.br_adam(br.br_linear_new(3, 2, True), None)),
    (r"const char \*\w*", lambda br: b"1"),
]
def valid(br, text):
    for pattern, make in VALID:
        if re.fullmatch(pattern, text):
            return make
    return None


def calls(br, name):
    """Yields lists of arguments, each with a description."""
    texts, types = br.arguments[name], br.functions[name].argtypes
    pointers = [i for i, t in enumerate(types) if t in (ctypes.c_void_p, ctypes.c_char_p)]
    for number in (0, 1, -1):
        yield f"all NULL, {number}", [None if i in pointers else number for i in range(len(types))]
    makers = {i: make for i in pointers if (make := valid(br, texts[i]))}
    for absent in itertools.chain([None], makers):
        for number in (0, 1):
            yield (f"{texts[absent] if absent is not None else 'nothing'} NULL, {number}",
                   [makers[i](br) if i in makers and i != absent else
                    None if i in pointers else number for i in range(len(types))])
    for sizes, number in itertools.product(EMPTY if any(re.fullmatch(TENSOR, t) for t in texts) else (), (0, 1)):
        yield (f"tensors {sizes}, {number}",
               [tensor(br, *sizes) if re.fullmatch(TENSOR, texts[i]) else
                None if i in pointers else number for i in range(len(types))])


def names_a_parameter(name, texts, arguments, message):
    """Returns false if the message calls something NULL that is no parameter, or that was not NULL in the call. Modules
    have parameters such as `self` and `model`, but all of them are "module" in messages."""
    said = re.search(r"(\w+) is NULL, but it is required", message)
    absent = [text for text, a in zip(texts, arguments) if a is None]
    names = {word for text in absent for word in parameter(text)}
    if any(re.match(r"(const )?(br_\w+|void) \*", text) and not re.match(TENSOR, text) for text in absent):
        names.add("module")
    return not said or said[1] in names or bool(COMPOSED.fullmatch(name))


def may_return(name, function):
    """Returns whether the function may return something in spite of an error: a number, or an unusable module."""
    return function.restype not in (ctypes.c_bool, ctypes.c_void_p, ctypes.c_char_p) or \
        re.fullmatch(r"br_(\w+_new|module_create)", name)


def in_child(br, name, pipe):
    """Writes a line before each call, one for each error message that does not name the function or the argument, and
    one for each result that hides an error."""
    signal.alarm(100)
    sys.stdout = None
    function = br.functions[name]
    for what, arguments in calls(br, name):
        os.write(pipe, f"> {what}\n".encode())
        result = function(*[a if a is None or isinstance(a, bytes) else kind(a)
                            for kind, a in zip(function.argtypes, arguments)])
        message = br.br_error_message().decode()
        if message and not (is_named(name, message) and names_a_parameter(name, br.arguments[name], arguments, message)):
            os.write(pipe, f"{what}: {message}\n".encode())
        if message and result and not may_return(name, function):
            os.write(pipe, f"{what}: returns {result} with the error: {message}\n".encode())
        br.br_clear_error()


def try_function(br, name, folder):
    """Returns the faults as lines."""
    def work(pipe):
        os.chdir(folder)  # functions may write a file named "1"
        in_child(br, name, pipe)

    text, status = child.run(work)
    lines = text.splitlines()
    found = [line for line in lines if not line.startswith("> ")]
    if status != 0:
        called = [line[2:] for line in lines if line.startswith("> ")]
        found.append(f"status {status} with {called[-1] if called else 'no call'}")
    return found


def main():
    br = Binding(os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else os.environ.get("CC", "cc"))
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(br.functions):
            for line in try_function(br, name, folder):
                print(f"{name}: {line}")
                bad += 1
    print(f"{len(br.functions)} functions, {bad} faults")
    sys.exit(bad != 0)


main()
