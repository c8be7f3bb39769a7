#!/usr/bin/env python3
"""ended_handles.py LIBRARY [CC]: calls every public function with a stale handle for each of its handles in turn: one
that was freed, or whose scope has ended. In debug mode each call must set an error, and none may crash."""

import ctypes
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from binding import Binding  # noqa: E402

# br_optim_counter() does not use its argument; br_named_list_next() is called for each item, so it is not checked;
# the others do nothing without an entered module, a recorder, or a recorded operation.
EXEMPT = re.compile(r"br_(optim_counter|named_list_next|module_leave|module_path|record|record_in_place|"
                    r"record_output|save|shape_string|tap|tap_attention)")


def shape(*sizes):
    return len(sizes), (ctypes.c_int64 * len(sizes))(*sizes)


def tensor(br):
    return br.br_ones(*shape(2, 3), br.BR_F32)


def linear(br):
    return br.br_linear_new(3, 2, True)


def optim(br):
    return br.br_adam(linear(br), None)


def ended_tensor(br):
    scope = br.br_scope_begin()
    t = tensor(br)
    br.br_scope_end(scope)
    return t


def ended(make, end):
    def made(br):
        handle = make(br)
        getattr(br, end)(handle)
        return handle
    return made


def list_of(br):
    return br.br_parameters(linear(br))


# For each type of handle, functions that create a live handle and a stale one.
HANDLES = {
    "br_tensor": (tensor, ended_tensor),
    "br_scope": (lambda br: br.br_scope_begin(), ended(lambda br: br.br_scope_begin(), "br_scope_end")),
    "br_module": (linear, ended(linear, "br_module_free")),
    "br_linear": (linear, ended(linear, "br_module_free")),
    "br_optim": (optim, ended(optim, "br_optim_free")),
    "br_scheduler": (lambda br: br.br_step_lr(optim(br), 1, 0.5),
                     ended(lambda br: br.br_step_lr(optim(br), 1, 0.5), "br_scheduler_free")),
    "br_averaged_model": (lambda br: br.br_averaged_model_new(linear(br), 0.5),
                          ended(lambda br: br.br_averaged_model_new(linear(br), 0.5), "br_averaged_model_free")),
    "br_named_list": (list_of, ended(list_of, "br_named_list_free")),
    "br_vocab": (lambda br: br.br_vocab_new(), ended(lambda br: br.br_vocab_new(), "br_vocab_free")),
    "br_cache": (lambda br: br.br_cache_new(), ended(lambda br: br.br_cache_new(), "br_cache_free")),
    "br_python_random": (lambda br: br.br_python_random_new(1),
                         ended(lambda br: br.br_python_random_new(1), "br_python_random_free")),
}


def handle_type(text):
    match = re.fullmatch(r"(?:const )?(\w+) \*\w*", text)
    return match[1] if match and match[1] in HANDLES else None


def in_child(br, name, stale, pipe):
    signal.alarm(60)
    function, texts = br.functions[name], br.arguments[name]
    arguments = []
    for i, (kind, text) in enumerate(zip(function.argtypes, texts)):
        pointer = kind in (ctypes.c_void_p, ctypes.c_char_p)
        if handle := handle_type(text):
            arguments.append(kind(HANDLES[handle][i == stale](br)))
        else:
            arguments.append(b"weight" if kind == ctypes.c_char_p else None if pointer else kind(1))
    assert not br.br_failed(), br.br_error_message()
    function(*arguments)
    os.write(pipe, br.br_error_message())


def outcome(br, name, stale):
    """Returns the error message, empty if there is none, and the status of the child process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        try:
            in_child(br, name, stale, writing)
        except BaseException as error:
            os.write(writing, repr(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, errors="replace") as pipe:
        message = pipe.read()
    return message, os.waitpid(child, 0)[1]


def main():
    os.environ["BRASA_DEBUG"] = "1"
    br = Binding(os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else os.environ.get("CC", "cc"))
    calls = bad = 0
    for name in sorted(br.functions):
        for i, text in enumerate(br.arguments[name]):
            if EXEMPT.fullmatch(name) or not handle_type(text):
                continue
            calls += 1
            message, status = outcome(br, name, i)
            if status != 0 or not message:
                print(f"{name}, argument {i} ({text}): status {status}, error: {message or 'none'}")
                bad += 1
            elif os.environ.get("VERBOSE") and not re.search("ended|already freed", message):
                print(f"{name}, argument {i} ({text}): {message}")
    print(f"{calls} calls with an ended handle, {bad} faults")
    sys.exit(bad != 0)


main()
