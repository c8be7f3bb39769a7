#!/usr/bin/env python3
"""failing_allocations.py LIBRARY SHIM [CC]: finds a call of each public function that succeeds, and repeats it with each
of its allocations failing in turn: alone, and together with all later ones. SHIM is tests/shim/counted.c.

A call must either have the usual result, or fail with BR_ERROR_MEMORY. A call that fails must free all that it
allocated, and must leave its arguments, the scope and the grad mode as they were: the same call must then have the
usual result. VERBOSE=1 lists the functions for which no call succeeds, and the number of allocations of the others.
MOST=1000000 makes every allocation fail; by default, a call with many allocations is repeated a limited number of times.
ONLY='br_optim_.*' checks the functions whose names match."""

import ctypes
import os
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import calls  # noqa: E402
import child  # noqa: E402
import handles  # noqa: E402
import values  # noqa: E402
from binding import Binding  # noqa: E402

MOST = int(os.environ.get("MOST", 25))  # allocations of a call that are made to fail
NEVER = (1 << 63) - 1
# Functions that end an object or a scope, whose callers free what they return, or that are the means of this test; and
# br_grad_scaler_step(), which may fail after it has divided the gradients.
EXEMPT = re.compile(r"br_(\w+_(free|close|clear)|release|free|malloc|calloc|scope_\w+|module_(enter\w*|leave)|"
                    r"set_(allocator|memory_limit|cache_limit|grad_enabled|error_callback)|thread_cleanup|raise\w*|fail|"
                    r"clear_error|report|measure_peak|grad_scaler_step|module_path|shape_string)")
# Functions that own the modules or schedulers that they are given, and free them if they fail.
OWNERS = re.compile(r"br_(sequential_new|sequential_lr|module_add_child|module_list_append|module_dict_add)")
WITHOUT = 102  # most functions for which no call succeeds


def free_functions(br):
    """Returns the function that ends an object for each type."""
    found = {}
    for name, texts in br.arguments.items():
        match = re.fullmatch(r"(\w+) \*\w+", texts[0]) if len(texts) == 1 else None
        if match and br.returns[name] == "void" and re.search("_(free|close|clear|end)$", name):
            found[match[1]] = br.functions[name]
    return found | {"char": br.functions["br_free"]}


class Sweep(calls.Finder):
    """Calls of a function with failing allocations."""

    def __init__(self, br, shim, name):
        super().__init__(br, name)
        self.shim, self.free = shim, free_functions(br)
        self.returns = br.returns[name]

    def end(self, kind, handle):
        """Frees an object of this type. It may be freed already, or belong to another object; both are errors."""
        if handles.is_module(self.br, kind):
            self.br.br_module_free(handle)
        elif kind == "br_tensor":
            self.br.br_release(handle)
        elif kind in self.free:
            self.free[kind](handle)
        self.br.br_clear_error()

    def returned(self):
        """Returns the type of a returned object that the caller owns, or None."""
        match = re.fullmatch(r"(\w+) \*", self.returns)
        return match and match[1] != "br_tensor" and not self.name.endswith(("_at", "_get")) and match[1]

    def value_of(self, result):
        """Returns what can be compared of a result."""
        kind = re.sub(r"const | \*$", "", self.returns)
        if kind == "br_tensor":
            return values.shape_of(self.br, result) if "empty" in self.name else values.tensor_value(self.br, result)
        if kind == "br_named_list" and result:
            return values.list_value(self.br, result)
        if kind != "void" and handles.is_module(self.br, kind):
            return values.module_value(self.br, result)
        if self.returns == "char *":
            return ctypes.string_at(result)
        if isinstance(result, ctypes.Structure):
            return None
        if self.returns == "uint64_t":
            return result != 0  # handles of hooks are counted
        return bool(result) if self.returns.endswith("*") and not isinstance(result, bytes) else result

    def outputs(self, others):
        """Returns the values of tensors that the call has stored."""
        return [[values.tensor_value(self.br, t) if re.search("tensor", text) else bool(t) for t in other]
                for text, other in zip(self.texts, others) if calls.RESULTS.fullmatch(text)]

    def free_outputs(self, others):
        for text, other in zip(self.texts, others):
            if (match := re.fullmatch(r"(\w+) \*\*\w+", text)) and match[1] != "br_tensor":
                for handle in filter(None, other):
                    self.end(match[1], handle)
            elif (match := calls.STRUCT.fullmatch(text)) and match[2] in self.free and not isinstance(other, int) and other:
                self.free[match[2]](other)

    def state(self, others):
        """Returns the state of all arguments."""
        arrays = [bytes(other) for text, other in zip(self.texts, others)
                  if isinstance(other, ctypes.Array) and other._type_ != ctypes.c_char_p and not calls.RESULTS.fullmatch(text)]
        return [values.state(self.br, kind, handle) for kind, handle in self.made], arrays

    def call(self, others, tensors, n, alone):
        """Calls the function in a scope of its own. Returns its value or None, and its error."""
        br = self.br
        br.br_manual_seed(1)
        scope, recorded = br.br_scope_begin(), br.br_grad_enabled()
        failed = ctypes.c_bool()
        self.shim.counted_begin(ctypes.c_int64(n), alone)
        result = self.function(*self.arguments(others, tensors))
        self.used = NEVER - self.shim.counted_end(ctypes.byref(failed))
        self.failed, code, message = failed.value, br.br_error_code(), br.br_error_message().decode(errors="replace")
        br.br_clear_error()
        value = (self.value_of(result), self.outputs(others)) if code == 0 else None
        if self.returned():
            self.end(self.returned(), result)
        self.free_outputs(others)
        if br.br_scope_current() != scope:
            self.report("leaves a scope open", n)
        if br.br_grad_enabled() != recorded:
            self.report("changes the grad mode", n)
        br.br_scope_end(scope)
        br.br_clear_error()
        return value, code, message

    def report(self, what, n, message=""):
        """Notes a fault. Its first case is printed."""
        first = self.faults.setdefault(what, (n, message))
        self.faults[what] = min(first, (n, message))

    def run(self, way, which, n, alone, right):
        """Makes allocation n of a call with new arguments fail. Returns the value of the call."""
        br, self.made = self.br, []
        blocks = self.shim.counted_blocks()
        scope = br.br_scope_begin()
        others, tensors = self.others(self.name, way), self.tensors(which)
        before = self.state(others)
        live = br.br_live_tensors()
        value, code, message = self.call(others, tensors, n, alone)
        if code and self.failed:
            self.after_failure((others, tensors), (before, live), (code, message), n, right)
        elif code or (n != NEVER and value != right):
            self.report("has another result, and no error" if not code else "fails without a failed allocation", n, message)
        for kind, handle in reversed(self.made):
            self.end(kind, handle)
        br.br_scope_end(scope)
        br.br_thread_cleanup()
        br.br_clear_error()
        self.kept = self.shim.counted_blocks() - blocks  # some arguments need objects that stay
        return value

    def after_failure(self, arguments, earlier, error, n, right):
        before, live = earlier
        code, message = error
        if code != self.br.BR_ERROR_MEMORY:
            self.report("has another error than BR_ERROR_MEMORY", n, message)
        if OWNERS.fullmatch(self.name):
            return
        if self.br.br_live_tensors() != live:
            self.report(f"leaks {self.br.br_live_tensors() - live} tensors", n, message)
        if (after := self.state(arguments[0])) != before:
            self.report("changes an argument", n, f"{message}: {before} became {after}" if os.environ.get("VERBOSE") else message)
        value, code, message = self.call(*arguments, NEVER, False)
        if code:
            self.report("fails when memory is available again", n, message)
        elif value != right:
            self.report("has another result when memory is available again", n)

    def sweep(self):
        """Yields the faults."""
        self.faults = {}
        found = self.find()
        if not found:
            yield "> no call succeeds"
            return
        way, _, which, _ = found
        self.run(way, which, NEVER, False, None)  # allocates what the thread keeps
        right = self.run(way, which, NEVER, False, None)
        count, kept = self.used, self.kept
        if self.run(way, which, NEVER, False, None) != right:
            yield f"> no two calls have the same result; {count} allocations"
            return
        self.faults.clear()
        yield f"> {count} allocations"
        for n in range(0, count, max(1, -(-count // MOST))):
            for alone in (False, True):
                self.run(way, which, n, alone, right)
                if self.kept > kept:
                    self.report(f"leaks {self.kept - kept} blocks", n)
        for what, (n, message) in self.faults.items():
            yield f"allocation {n}: {what}" + f": {message}" * bool(message)


def in_child(br, shim, name, pipe):
    signal.alarm(600)
    br.br_set_num_threads(1)
    br.br_set_cache_limit(0)
    assert br.br_set_allocator(shim.counted_allocator()), br.br_error_message()
    for line in Sweep(br, shim, name).sweep():
        os.write(pipe, (line.replace("\n", " ") + "\n").encode())


def make_files(br, pipe):
    """Creates the files that functions read."""
    for name in ("br_safetensors", "br_tokenizer", "br_generation_config", "br_sentence_transformer"):
        handles.HANDLES[name][0](br)


def main():
    br = Binding(os.path.abspath(sys.argv[1]), sys.argv[3] if len(sys.argv) > 3 else os.environ.get("CC", "cc"))
    shim = ctypes.CDLL(os.path.abspath(sys.argv[2]))
    shim.counted_allocator.restype = ctypes.c_void_p
    shim.counted_end.restype = shim.counted_blocks.restype = ctypes.c_int64
    child.run(lambda pipe: make_files(br, pipe))
    only = re.compile(os.environ.get("ONLY", "br_.*"))
    wanted = [name for name in sorted(br.functions) if not EXEMPT.fullmatch(name) and name not in br.variadic and
              only.fullmatch(name)]
    bad = without = 0
    for name in wanted:
        began = time.monotonic()
        text, status = child.run(lambda pipe: in_child(br, shim, name, pipe))
        lines = text.splitlines() + ([f"status {status}"] if status else [])
        faults = [line for line in lines if not line.startswith("> ")]
        without += not any("allocations" in line for line in lines)
        bad += len(faults)
        for line in lines if os.environ.get("VERBOSE") else faults:
            print(f"{name}: {line}" + f" {time.monotonic() - began:.2f} s" * line.startswith("> "), flush=True)
    print(f"{len(wanted)} functions, {without} without a call that succeeds, {bad} faults")
    sys.exit(bad != 0 or (without > WITHOUT and not os.environ.get("ONLY")))


main()
