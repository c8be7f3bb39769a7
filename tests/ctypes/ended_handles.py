#!/usr/bin/env python3
"""ended_handles.py LIBRARY [CC]: calls every public function, with and without the debug mode, with a bad handle for
each of its handles in turn: one that was freed or whose scope has ended, and one of another kind. An array of handles
has a live and a bad one. Each call must set an error that names the function, and none may crash. VERBOSE=1 prints the
errors that are about something else."""

import ctypes
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import child  # noqa: E402
from binding import Binding  # noqa: E402
from handles import HANDLES, handle_type, is_array, optim, tensor  # noqa: E402
from names import is_named  # noqa: E402

# br_before_in_place() only looks at its inputs' history; br_optim_counter() does not use its argument;
# br_named_list_next() is called for each item, so it is not checked; the others do nothing without an entered module, a
# recorder, or a recorded operation.
EXEMPT = re.compile(r"br_(before_in_place|optim_counter|named_list_next|module_leave|module_path|record|record_in_place|"
                    r"record_output|save|shape_string|tap|tap_attention)")
# Functions whose errors about handles name the function that checks them: br_optim_new() for all optimizers.
INNER = re.compile(r"br_((ada\w+|asgd|lbfgs|lion|muon|nadam|radam|rmsprop|rprop|sgd|sparse_adam)_new|attention_add_recorded|"
                   r"chat_template_parse|data_parallel_new|forward|llama_config_from|lora_adapter_at|module_list_\w+|"
                   r"recorder_(name|tensor)|scope_replace|sharded_optim_new)")
BAD = "ended", "wrong"


def made(br, text):
    """Returns true if HANDLES makes a live object of the argument's own struct: NULL is passed for other modules."""
    return handle_type(br, text) != "br_module" or re.search(r"\b(br_module|br_linear|void) ", text)


def bad_handle(br, handle, how):
    if how == "ended":
        return HANDLES[handle][1](br)
    return optim(br) if handle == "br_tensor" else tensor(br)


def call(br, name, bad, how):
    """Calls the function, whose argument number `bad` is bad, and returns the error."""
    function, texts = br.functions[name], br.arguments[name]
    arguments = []
    for i, (kind, text) in enumerate(zip(function.argtypes, texts)):
        pointer = kind in (ctypes.c_void_p, ctypes.c_char_p)
        if handle := handle_type(br, text):
            given = bad_handle(br, handle, how) if i == bad else None
            live = HANDLES[handle][0](br) if (i != bad or is_array(text)) and made(br, text) else None
            if i != bad:
                given = live
            if is_array(text):
                given = (ctypes.c_void_p * 2)(live, given)
                if texts[i - 1].split()[0].startswith("int"):
                    arguments[-1] = function.argtypes[i - 1](2)
            arguments.append(given)
        else:
            arguments.append(b"weight" if kind == ctypes.c_char_p else None if pointer else kind(1))
    assert not br.br_failed(), br.br_error_message()
    function(*arguments)
    message = br.br_error_message().decode(errors="replace")
    br.br_clear_error()
    return message.replace("\n", " ")


def errors_of(br, name, cases):
    """Returns the errors of the calls, which are made in one child process, and its status."""
    def in_child(pipe):
        signal.alarm(60)
        for bad, how in cases:
            os.write(pipe, (call(br, name, bad, how) + "\n").encode())
    text, status = child.run(in_child)
    return text.splitlines(), status


def is_checked(br, text, how, debug):
    """Returns false for a list of another kind without the debug mode: a program may make a list itself, so any memory
    can be one."""
    handle = handle_type(br, text)
    return handle and (debug or how == "ended" or handle != "br_named_list")


def check(debug):
    """Returns the number of faults. The library reads the variable when it is loaded, once in a process."""
    os.environ["BRASA_DEBUG"] = str(int(debug))
    br = Binding(os.path.abspath(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else os.environ.get("CC", "cc"))
    calls = faults = 0
    for name in sorted(br.functions):
        if EXEMPT.fullmatch(name):
            continue
        texts = br.arguments[name]
        cases = [(i, how) for i, text in enumerate(texts) for how in BAD if is_checked(br, text, how, debug)]
        calls += len(cases)
        messages, status = errors_of(br, name, cases) if cases else ([], 0)
        alone = status != 0 or len(messages) != len(cases) or not all(messages)
        for k, (i, how) in enumerate(cases):
            lines, status = errors_of(br, name, [(i, how)]) if alone else ([messages[k]], 0)
            message = "".join(lines)
            named = is_named(name, message) or INNER.fullmatch(name)
            if status != 0 or not message or not named:
                print(f"{name}, argument {i} ({texts[i]}), {how}: status {status}, error: {message or 'none'}")
                faults += 1
            elif os.environ.get("VERBOSE") and not re.search("ended|already freed|long ago|but it is an? ", message):
                print(f"{name}, argument {i} ({texts[i]}), {how}: {message}")
    mode = "with" if debug else "without"
    print(f"{calls} calls with an ended handle or one of another kind {mode} the debug mode, {faults} faults")
    return faults


def main():
    process = os.fork()
    if process == 0:
        faults = check(debug=True)
        sys.stdout.flush()
        os._exit(faults != 0)
    passed = os.waitpid(process, 0)[1] == 0
    passed &= check(debug=False) == 0
    sys.exit(not passed)


main()
