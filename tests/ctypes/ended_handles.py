#!/usr/bin/env python3
"""ended_handles.py LIBRARY [CC]: calls every public function, with and without the debug mode, with a bad handle for
each of its handles in turn: one that was freed or whose scope has ended, and one of another kind. An array of handles
has a live and a bad one. Each call must set an error, and none may crash. VERBOSE=1 prints the errors that are about
something else."""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import child  # noqa: E402
from binding import Binding  # noqa: E402

# br_before_in_place() only looks at its inputs' history; br_optim_counter() does not use its argument; br_named_list_next() is called for each item, so it is not checked;
# the others do nothing without an entered module, a recorder, or a recorded operation.
EXEMPT = re.compile(r"br_(before_in_place|optim_counter|named_list_next|module_leave|module_path|record|record_in_place|"
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


def pair(make, end):
    """Returns functions that create a live handle and a stale one."""
    return make, ended(make, end)


def dataset(br):
    return br.br_tensor_dataset_new(1, (ctypes.c_void_p * 1)(tensor(br)))


def scheduler(br):
    return br.br_step_lr(optim(br), 1, 0.5)


def averaged_model(br):
    return br.br_averaged_model_new(linear(br), 0.5)


def safetensors(br):
    path = str(FOLDER / "t.safetensors").encode()
    if not os.path.exists(path):
        br.br_model_save(path, linear(br), 0, None)
    return br.br_safetensors_open(path, None)


def tokenizer(br):
    path = FOLDER / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    return br.br_tokenizer_from_vocab(str(path).encode(), None)


def auto_config(br):
    path = FOLDER / "config.json"
    path.write_text('{"model_type": "bert"}')
    return br.br_auto_config_load(str(path).encode())


def generation_config(br):
    auto_config(br)  # writes config.json
    return br.br_generation_config_load(str(FOLDER).encode(), None)


def sentence_transformer(br):
    folder = FOLDER / "sentence"
    if not folder.exists():
        shutil.copytree(GOLDEN.parent.parent / "models/hf_bert/pretraining", folder)
        (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    return br.br_sentence_transformer_load(str(folder).encode(), None, None)


def attention(br):
    tokens = (ctypes.c_char_p * 2)(b"a", b"b")
    text = br.br_attention_text(tokens=ctypes.cast(tokens, ctypes.c_void_p), n_tokens=2)
    return br.br_attention_new(ctypes.byref(text))


def data_parallel(br):
    return br.br_data_parallel_new(linear(br), None)


def sharded_optim(br):
    model = linear(br)
    return br.br_sharded_optim_new(br.br_data_parallel_new(model, None), br.br_adam(model, None))


# For each type of handle, functions that create a live handle and a stale one.
HANDLES = {
    "br_tensor": (tensor, ended_tensor),
    "br_scope": pair(lambda br: br.br_scope_begin(), "br_scope_end"),
    "br_module": pair(linear, "br_module_free"),
    "br_optim": pair(optim, "br_optim_free"),
    "br_scheduler": pair(scheduler, "br_scheduler_free"),
    "br_averaged_model": pair(averaged_model, "br_averaged_model_free"),
    "br_named_list": pair(lambda br: br.br_parameters(linear(br)), "br_named_list_free"),
    "br_vocab": pair(lambda br: br.br_vocab_new(), "br_vocab_free"),
    "br_cache": pair(lambda br: br.br_cache_new(), "br_cache_free"),
    "br_python_random": pair(lambda br: br.br_python_random_new(1), "br_python_random_free"),
    "br_dataset": pair(dataset, "br_dataset_free"),
    "br_loader": pair(lambda br: br.br_loader_new(dataset(br), None), "br_loader_free"),
    "br_safetensors": pair(safetensors, "br_safetensors_close"),
    "br_tokenizer": pair(tokenizer, "br_tokenizer_free"),
    "br_decode_stream": pair(lambda br: br.br_decode_stream_new(tokenizer(br), False, 0, None), "br_decode_stream_free"),
    "br_auto_config": pair(auto_config, "br_auto_config_free"),
    "br_generation_config": pair(generation_config, "br_generation_config_free"),
    "br_sentence_transformer": pair(sentence_transformer, "br_sentence_transformer_free"),
    "br_profile": pair(lambda br: br.br_profile_begin(), "br_profile_free"),
    "br_recorder": pair(lambda br: br.br_recorder_begin(), "br_recorder_end"),
    "br_attention": pair(attention, "br_attention_free"),
    "br_dist_group": pair(lambda br: br.br_dist_split(None, 0, 0), "br_dist_group_free"),
    "br_data_parallel": pair(data_parallel, "br_data_parallel_free"),
    "br_sharded_optim": pair(sharded_optim, "br_sharded_optim_free"),
    "br_check": pair(lambda br: br.br_check_open(str(GOLDEN).encode()), "br_check_close"),
}
BAD = "ended", "wrong"
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "bert.gelu.safetensors"
FOLDER = pathlib.Path(tempfile.mkdtemp())


def is_module(br, name):
    """Returns true for br_module and for the struct of a module, which begins with its br_module."""
    return name == "br_module" or br.fields.get(name, [""])[0] == "base"


def handle_type(br, text):
    """Returns the type of handle of an argument such as `const br_tensor *x` or `br_tensor *const *inputs`; None for
    others."""
    if re.fullmatch(r"(?:const )?void \*(module|child|model)", text):
        return "br_module"
    match = re.fullmatch(r"(?:const )?(\w+) \*(?:const \*)?\w*", text)
    name = match and ("br_module" if is_module(br, match[1]) else match[1])
    return name if name in HANDLES else None


def made(br, text):
    """Returns true if HANDLES makes a live object of the argument's own struct: NULL is passed for other modules."""
    return handle_type(br, text) != "br_module" or re.search(r"\b(br_module|br_linear|void) ", text)


def is_array(text):
    return "*const *" in text


def bad_handle(br, handle, how):
    if how == "ended":
        return HANDLES[handle][1](br)
    return optim(br) if handle == "br_tensor" else tensor(br)


def in_child(br, name, bad, how, pipe):
    signal.alarm(60)
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
    os.write(pipe, br.br_error_message())


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
        for i, text in enumerate(br.arguments[name]):
            for how in BAD:
                if not is_checked(br, text, how, debug):
                    continue
                calls += 1
                message, status = child.run(lambda pipe: in_child(br, name, i, how, pipe))
                if status != 0 or not message:
                    print(f"{name}, argument {i} ({text}), {how}: status {status}, error: {message or 'none'}")
                    faults += 1
                elif os.environ.get("VERBOSE") and not re.search("ended|already freed|long ago|but it is an? ", message):
                    print(f"{name}, argument {i} ({text}), {how}: {message}")
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
    shutil.rmtree(FOLDER)
    sys.exit(not passed)


main()
