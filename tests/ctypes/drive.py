#!/usr/bin/env python3
"""drive.py LIBRARY [CC]: uses the shared library from Python's ctypes, with only the standard library.

Checks that structs have C's layout, that nothing requires a macro, and that a model can be built, trained,
saved and loaded without any C code."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from binding import HEADERS, Binding  # noqa: E402

PAIR = None  # a count and a pointer, passed explicitly
# The equivalent of each macro. Add new macros here, with a function that does the same.
MACROS = {
    "BR_SHAPE": PAIR, "BR_DIMS": PAIR, "BR_SCALAR": PAIR, "BR_INPUTS": PAIR, "BR_MODULES": PAIR,
    "BR_PARTS": PAIR, "BR_TOKENS": PAIR, "BR_CHOICES": PAIR, "BR_ATTENTION_VIEWS": PAIR,
    "BR_OPTIONS": PAIR, "BR_PAIR": PAIR, "BR_TRIPLE": PAIR, "BR_NONE": PAIR, "BR_NONE_F64": PAIR,
    "BR_ALL": PAIR, "BR_RNG_STATE_WORDS": PAIR, "br_base": PAIR,  # INT64_MAX, a size, the first member
    "BR_VERSION_MAJOR": "br_version", "BR_VERSION_MINOR": "br_version",
    "BR_VERSION_PATCH": "br_version",
    "br_module_new": "br_module_create", "br_child": "br_module_add_child",
    "br_parameter": "br_module_add_parameter", "br_buffer": "br_module_add_buffer",
    "br_enter": "br_module_enter_from", "br_leave": "br_module_leave", "br_eval": "br_train",
    "br_parametrize": "br_register_parametrization", "br_freeze": "br_module_requires_grad",
    "br_enter_with": "br_module_enter_from",
    "BR_OPTIONS_OF": "br_options_of", "BR_DEFINE_DEFAULTS": None,  # the latter defines a function in C
    "BR_DTYPE_AUTO": PAIR,  # a number that is no dtype
    "BR_OPTIM_OPTION": PAIR,  # a name, an enum, an offset and a size
}
VARIADIC = {"br_raise": "br_raise_text", "br_fail": "br_raise_text", "br_format": "br_strdup"}


def shape(*sizes):
    return len(sizes), (ctypes.c_int64 * len(sizes))(*sizes)


def pointers(*tensors):
    return len(tensors), (ctypes.c_void_p * len(tensors))(*tensors)


# ---- Layouts --------------------------------------------------------------------------------------


def check_layouts(br, cc):
    """Compares the sizes and offsets of every struct with the compiler's."""
    lines = []
    for name, fields in br.fields.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'printf("{name}.{f} %zu\\n", offsetof({name}, {f}));' for f in fields]
    with tempfile.TemporaryDirectory() as folder:
        source, program = os.path.join(folder, "layouts.c"), os.path.join(folder, "layouts")
        with open(source, "w") as f:
            f.write("#include <brasa/brasa.h>\n#include <stdio.h>\nint main(void)\n{\n" +
                    "\n".join(lines) + "\n}\n")
        subprocess.run([cc, "-std=c17", f"-I{HEADERS}", source, "-o", program], check=True)
        table = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    for line in table.splitlines():
        place, said = line.split()
        name, _, field = place.partition(".")
        struct = br.structs[name]
        here = getattr(struct, field).offset if field else ctypes.sizeof(struct)
        assert here == int(said), f"{place}: {here} in Python, {said} in C"
    assert len(br.fields) > 40, "structs were not found"
    return f"{len(br.fields)} structs, {len(table.splitlines())} sizes and offsets"


# ---- Macros ---------------------------------------------------------------------------------------


def check_macros(br):
    seen = set()
    for header in sorted(HEADERS.glob("brasa/**/*.h")):
        text = header.read_text()
        assert not re.search(r"^\s*(static )?inline\b", text, re.M), f"{header.name}: inline function"
        for name, call in re.findall(r"^#\s*define (\w+)(\(?)", text, re.M):
            if name.startswith(("BRASA_", "BR__")) or name in ("BR_API", "BR_PRINTF"):
                continue
            if function := re.fullmatch(r"(br_\w+_default)_fields", name):
                assert function[1] + "s" in br.functions, f"{header.name}: {name} without its function"
                continue
            assert name in MACROS, f"{header.name}: macro {name} has no known equivalent"
            assert MACROS[name] is None or MACROS[name] in br.functions, name
            seen.add(name)
    for name in br.variadic:
        assert VARIADIC.get(name) in br.functions, f"{name} takes arguments that cannot be passed"
    return f"{len(br.functions)} functions, {len(seen)} macros"


# ---- A model --------------------------------------------------------------------------------------


class Model:
    """Linear, tanh, linear: a module whose struct is declared in Python."""

    def __init__(self, br):
        class Struct(ctypes.Structure):
            _fields_ = [("base", br.br_module), ("fc1", ctypes.c_void_p), ("fc2", ctypes.c_void_p)]

        self.br = br
        self.module = br.br_module_create(ctypes.sizeof(Struct), b"Model")
        self.struct = Struct.from_address(self.module)
        self.struct.fc1 = br.br_module_add_child(self.module, b"fc1", br.br_linear_new(2, 8, True))
        self.struct.fc2 = br.br_module_add_child(self.module, b"fc2", br.br_linear_new(8, 1, True))

    def forward(self, x):
        assert self.br.br_module_enter(self.module)
        h = self.br.br_tanh(self.br.br_linear_forward(self.struct.fc1, x))
        return self.br.br_module_leave(self.module, self.br.br_linear_forward(self.struct.fc2, h))


def loss_of(br, model, x, target):
    return br.br_mse_loss(model.forward(x), target, br.BR_REDUCTION_MEAN)


def train(br, model, x, target, steps):
    options = br.br_adam_defaults()
    options.lr = 0.05
    optimizer = br.br_adam(model.module, ctypes.byref(options))
    losses = []
    for _ in range(steps):
        scope = br.br_scope_begin()
        loss = loss_of(br, model, x, target)
        losses.append(br.br_item(loss))
        br.br_optim_zero_grad(optimizer)
        br.br_backward_with(loss, ctypes.byref(br.br_backward_defaults()))
        br.br_optim_step(optimizer)
        br.br_scope_end(scope)
        assert not br.br_failed(), br.br_error_message()
    br.br_optim_free(optimizer)
    return losses


def check_training(br):
    tensors = br.br_live_tensors()
    scope = br.br_scope_begin()
    br.br_manual_seed(1)
    x = br.br_from_f32(*shape(4, 2), (ctypes.c_float * 8)(0, 0, 0, 1, 1, 0, 1, 1))
    target = br.br_from_f32(*shape(4, 1), (ctypes.c_float * 4)(0, 1, 1, 0))  # exclusive or
    model = Model(br)
    losses = train(br, model, x, target, 300)
    assert losses[-1] < 1e-3 < losses[0], losses[-1]

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.safetensors").encode()
        saved = br.br_checkpoint(model=model.module, step=300)
        assert br.br_checkpoint_save(path, ctypes.byref(saved)), br.br_error_message()
        other = Model(br)
        loaded = br.br_checkpoint(model=other.module)
        assert br.br_checkpoint_load(path, ctypes.byref(loaded)), br.br_error_message()
        assert loaded.step == 300
    assert br.br_item(loss_of(br, other, x, target)) == br.br_item(loss_of(br, model, x, target))
    br.br_module_free(model.module)
    br.br_module_free(other.module)
    br.br_scope_end(scope)
    assert br.br_live_tensors() == tensors, "tensors leak"
    return f"loss {losses[0]:.3f} to {losses[-1]:.1e}"


# ---- Callbacks ------------------------------------------------------------------------------------


def check_callbacks(br):
    """Uses Python functions as hooks, and as functions to checkpoint and to differentiate."""
    scope = br.br_scope_begin()
    x = br.br_set_requires_grad(br.br_from_f64(*shape(2), (ctypes.c_double * 2)(1, 2)), True)
    hook = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
        lambda grad, context: br.br_mul_scalar(grad, 10))
    assert br.br_register_hook(x, hook, None)
    function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int,
                                ctypes.c_void_p)(lambda x, n, context: br.br_mul(x[0], x[0]))
    y = br.br_activation_checkpoint(function, None, *pointers(x), None)
    assert br.br_backward(br.br_sum(y)), br.br_error_message()
    assert [br.br_at(br.br_grad_of(x), *shape(i)) for i in range(2)] == [20, 40]
    jacobian = (ctypes.c_void_p * 1)()
    assert br.br_jacobian(function, None, *pointers(x), jacobian, None), br.br_error_message()
    assert br.br_at(jacobian[0], *shape(1, 1)) == 4
    br.br_scope_end(scope)
    return "hooks, checkpoints and Jacobians"


def check_errors(br):
    scope = br.br_scope_begin()
    assert br.br_mm(br.br_ones(*shape(2, 3), br.BR_F32), br.br_ones(*shape(2, 3), br.BR_F32)) is None
    assert br.br_failed() and br.br_error_code() == br.BR_ERROR_SHAPE
    message = br.br_error_message().decode()
    assert "[2, 3]" in message, message
    br.br_clear_error()
    br.br_raise_text(br.BR_ERROR_ARGUMENT, b"100 % of one's own")
    assert br.br_error_message() == b"100 % of one's own"
    br.br_clear_error()
    br.br_scope_end(scope)
    return message


def main():
    library = os.path.abspath(sys.argv[1])
    cc = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("CC", "cc")
    br = Binding(library, cc)
    for name, result in (("layouts", check_layouts(br, cc)), ("macros", check_macros(br)),
                         ("training", check_training(br)), ("callbacks", check_callbacks(br)),
                         ("errors", check_errors(br))):
        print(f"{name}: {result}")


main()
