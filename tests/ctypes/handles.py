"""Creates a live and a stale handle of each type of the public headers."""

import atexit
import ctypes
import os
import pathlib
import re
import shutil
import tempfile

GGUF = pathlib.Path(__file__).resolve().parent.parent / "io/recorded.gguf"
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "bert.gelu.safetensors"
TOKENIZERS = GOLDEN.parent.parent / "tokenizers"
# For files that functions read and write. Brasa waits until a disk has them, so they are in memory if possible.
FOLDER = pathlib.Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)
VOCAB = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"

CONFIG = '''{"model_type": "bert", "hidden_size": 4, "num_attention_heads": 2, "hidden_act": "gelu", "use_cache": true, "layer_norm_eps": 0.5,
             "architectures": ["BertModel"], "numbers": [1]}'''


def file(name, text):
    """Returns the path of a file in FOLDER with this text."""
    path = FOLDER / name
    if not path.exists():
        path.write_text(text)
    return str(path).encode()


file("chat_template.jinja", "{{ messages }}")


def is_module(br, name):
    """Returns true for br_module and for the struct of a module, which begins with its br_module."""
    return name == "br_module" or br.fields.get(name, [""])[0] == "base"


def shape(*sizes):
    return len(sizes), (ctypes.c_int64 * len(sizes))(*sizes)


def tensor(br):
    return br.br_ones(*shape(2, 3), br.BR_F32)


def linear(br):
    """Returns a module whose weight has a gradient, so that an optimizer changes it."""
    module = br.br_linear_new(3, 2, True)
    br.br_set_grad(br.br_module_get(module, b"weight"), tensor(br))
    return module


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


def gguf(br):
    return br.br_gguf_open(str(GGUF).encode(), None)


def tokenizer(br):
    return br.br_tokenizer_from_vocab(file("vocab.txt", VOCAB), None)


def vocab(br):
    words = br.br_vocab_new()
    br.br_vocab_add(words, b"first", 5)
    return words


def auto_config(br):
    return br.br_auto_config_load(file("config.json", CONFIG))


def generation_config(br):
    auto_config(br)  # writes config.json
    return br.br_generation_config_load(str(FOLDER).encode(), None)


def sentence_transformer(br):
    folder = FOLDER / "sentence"
    if not folder.exists():
        shutil.copytree(GOLDEN.parent.parent / "models/hf_bert/pretraining", folder)
        (folder / "vocab.txt").write_text(VOCAB)
    return br.br_sentence_transformer_load(str(folder).encode(), None, None)


def pipeline(br):
    folder = FOLDER / "classifier"
    if not folder.exists():
        shutil.copytree(GOLDEN.parent.parent / "models/hf_bert/classifier", folder)
        (folder / "vocab.txt").write_text(VOCAB)
    return br.br_pipeline_load(str(folder).encode(), 6, None, None)


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
    "br_grad_scaler": pair(lambda br: br.br_grad_scaler_new(None), "br_grad_scaler_free"),
    "br_named_list": pair(lambda br: br.br_parameters(linear(br)), "br_named_list_free"),
    "br_vocab": pair(vocab, "br_vocab_free"),
    "br_cache": pair(lambda br: br.br_cache_new(), "br_cache_free"),
    "br_python_random": pair(lambda br: br.br_python_random_new(1), "br_python_random_free"),
    "br_dataset": pair(dataset, "br_dataset_free"),
    "br_loader": pair(lambda br: br.br_loader_new(dataset(br), None), "br_loader_free"),
    "br_safetensors": pair(safetensors, "br_safetensors_close"),
    "br_gguf": pair(gguf, "br_gguf_close"),
    "br_tokenizer": pair(tokenizer, "br_tokenizer_free"),
    "br_decode_stream": pair(lambda br: br.br_decode_stream_new(tokenizer(br), False, 0, None), "br_decode_stream_free"),
    "br_auto_config": pair(auto_config, "br_auto_config_free"),
    "br_generation_config": pair(generation_config, "br_generation_config_free"),
    "br_sentence_transformer": pair(sentence_transformer, "br_sentence_transformer_free"),
    "br_chat_template": pair(lambda br: br.br_chat_template_parse(b"{{ messages }}", None), "br_chat_template_free"),
    "br_pipeline": pair(pipeline, "br_pipeline_free"),
    "br_profile": pair(lambda br: br.br_profile_begin(), "br_profile_free"),
    "br_recorder": pair(lambda br: br.br_recorder_begin(), "br_recorder_end"),
    "br_attention": pair(attention, "br_attention_free"),
    "br_summary_writer": pair(lambda br: br.br_summary_writer_new(str(FOLDER).encode(), None), "br_summary_writer_free"),
    "br_dist_group": pair(lambda br: br.br_dist_split(None, 0, 0), "br_dist_group_free"),
    "br_data_parallel": pair(data_parallel, "br_data_parallel_free"),
    "br_sharded_optim": pair(sharded_optim, "br_sharded_optim_free"),
    "br_check": pair(lambda br: br.br_check_open(str(GOLDEN).encode()), "br_check_close"),
}


def handle_type(br, text):
    """Returns the type of handle of an argument such as `const br_tensor *x` or `br_tensor *const *inputs`; None for
    others."""
    if re.fullmatch(r"(?:const )?void \*(module|child|model)", text):
        return "br_module"
    match = re.fullmatch(r"(?:const )?(\w+) \*(?:const \*)?\w*", text)
    name = match and ("br_module" if is_module(br, match[1]) else match[1])
    return name if name in HANDLES else None


def is_array(text):
    return "*const *" in text
