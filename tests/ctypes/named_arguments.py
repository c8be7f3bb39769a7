#!/usr/bin/env python3
"""named_arguments.py LIBRARY [CC]: finds a call of each public function with tensors that succeeds, and repeats it with
one tensor replaced: by NULL, a freed tensor, and tensors of other shapes and dtypes. If the call fails, the message must
contain the parameter's name as in the header, no tensor may have a new version, and results that are returned by pointer
must be NULL. Whether the call succeeds or fails, the scope and the grad mode must stay. VERBOSE=1 lists the functions for
which no call succeeds."""

import ctypes
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import calls  # noqa: E402
import child  # noqa: E402
from binding import Binding  # noqa: E402

# Functions that free, that open a scope or turn grad mode off, that do nothing, or that raise the caller's error.
EXEMPT = re.compile(r"br_(release|retain|\w*_free|scope_\w+|module_(enter\w*|leave)|raise\w*|fail|require\w*|record\w*|save|"
                    r"tap\w*|print|set_grad_enabled|optim_counter|bump_version)")
# Functions whose shapes are checked by the operations that they call, as in the notebooks, and whose forward functions
# leave all checks to the modules that they call: the message begins with the path of that module.
COMPOSED = re.compile(r"br_(anatomy|architecture|bert|scratch|vanilla)_\w+")
WITHOUT = 18  # most functions for which no call succeeds
STALE = 1  # in the place of a result before the call
INNER = re.compile(r"[\w.]+: \w+: ")


class Case(calls.Finder):
    """Calls of a function with wrong tensors."""

    def __init__(self, br, name):
        super().__init__(br, name)
        self.prototypes = self.tensors(range(len(calls.PROTOTYPES)))
        self.freed = None

    def end(self):
        """Returns a tensor whose scope has ended. Its memory is not reused at once."""
        scope = self.br.br_scope_begin()
        t = self.br.br_ones(0, None, self.br.BR_F32)
        self.br.br_scope_end(scope)
        return t

    def word(self, i):
        return calls.TENSOR.fullmatch(self.texts[i])[1]

    def call(self, others, tensors):
        """Returns the error message, or an empty text."""
        versions = [t and t != self.freed and self.br.br_tensor_version(t) for t in tensors]
        scope, recorded = self.br.br_scope_current(), self.br.br_grad_enabled()
        results = self.results(others)
        for result in results:
            result[0] = STALE
        self.function(*self.arguments(others, tensors))
        message = self.br.br_error_message().decode(errors="replace")
        self.br.br_clear_error()
        if self.br.br_scope_current() != scope:
            yield "leaves its scope open"
        if self.br.br_grad_enabled() != recorded:
            yield "changes the grad mode"
        if message and versions != [t and t != self.freed and self.br.br_tensor_version(t) for t in tensors]:
            yield f"gives a tensor a new version, but fails: {message}"
        if message and any(result[0] == STALE for result in results):
            yield f"leaves a result as it was, but fails: {message}"
        yield message

    def results(self, others):
        """Returns the arrays for results among the arguments, except lists of parts, which may have room for none."""
        return [other for other, text in zip(others, self.texts) if calls.RESULTS.fullmatch(text) and
                isinstance(other, ctypes.Array) and text != "br_tensor **parts"]

    def succeeds(self, others, tensors):
        *faults, message = self.call(others, tensors)
        return faults or not message

    def names(self, place, t, message):
        """Returns whether the message names the parameter or, if only its shape is wrong, another parameter and the
        shape."""
        if re.search(rf"\b{self.word(place)}\b", message):
            return True
        is_inner = INNER.match(message) and calls.STRUCT.fullmatch(self.texts[0])
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
        way, _, _, tensors = found
        for i, place in enumerate(self.places):
            for prototype, t in [("NULL", None), ("freed", None)] + list(zip(calls.PROTOTYPES, self.prototypes)):
                others = self.others(self.name, way)  # new modules: a call may have changed the last ones
                if prototype == "freed":  # now, because making modules ends so many tensors that its memory is reused
                    t = self.freed = self.end()
                *faults, message = self.call(others, tensors[:i] + [t] + tensors[i + 1:])
                yield from faults
                if message and not self.names(place, t, message):
                    yield f"{self.word(place)} is {prototype}: {message}"


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
              any(calls.TENSOR.fullmatch(text) for text in br.arguments[name])]
    bad = without = 0
    for name in wanted:
        for line in try_function(br, name):
            without += line.startswith("> ")
            bad += not line.startswith("> ")
            if not line.startswith("> ") or os.environ.get("VERBOSE"):
                print(f"{name}: {line}")
    print(f"{len(wanted)} functions, {without} without a call that succeeds, {bad} faults")
    sys.exit(bad != 0 or without > WITHOUT)


main()
