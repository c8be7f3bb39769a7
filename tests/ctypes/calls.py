"""Finds calls of public functions that succeed. Chooses arguments by their types and names in the headers: tensors of
several shapes and dtypes, small modules and configurations, the handles of handles.py, and a few numbers and texts."""

import collections
import ctypes
import itertools
import os
import re

import handles

TENSOR = re.compile(r"(?:const )?br_tensor \*(\w+)")
TENSORS = re.compile(r"(?:const )?br_tensor \*const \*(\w+)")
RESULTS = re.compile(r"br_\w+ \*\*(\w+)")
SIZES = re.compile(r"const int64_t \*(\w+)")
STRUCT = re.compile(r"(const )?(br_\w+) \*(\w+)")
COUNT = re.compile(r"(?:int|int64_t) (?:ndim|n|n_\w+)")
SHAPES = ((2, 3), (3,), (3, 3), (2, 2), (), (2,), (3, 2), (2, 3, 4), (1, 1, 3, 3), (2, 3, 3), (1,), (1, 1), (1, 1, 1),
          (2, 1))
INDEX, LEAF = ((2,), "BR_I64"), ((), "leaf")
PROTOTYPES = [(sizes, "BR_F32") for sizes in SHAPES] + [
    INDEX, ((2, 3), "BR_I64"), ((3,), "BR_I64"), ((1,), "BR_I64"), ((1, 1), "BR_I64"), ((2, 3), "BR_BOOL"),
    ((3,), "BR_BOOL"), ((2, 3), "BR_F64"), LEAF, ((1,), "lengths"), None]
ASCENDING, DESCENDING = "0, 1, 2, ...", "..., 2, 1, 0"
NUMBERS = 1, 0, 2, -1, ASCENDING, DESCENDING
# An even dim and the number of a floating dtype; a length, and the last dimension; a window of four samples.
MORE_NUMBERS = {"br_rope": (4,), "br_stft": (4,),
                **{f"br_fft_{name}": ((2, -1, 0),) for name in ("fft", "ifft", "hfft", "irfft")}}
FOR_MODULES = 1, 2, 3, 4, DESCENDING
ARRAYS = (1,), (0,), (2, 3), (0, 1), (), (1, 1)
GGUF_KEYS = {"integer": "int32", "number": "float32", "bool": "bool", "string": "string", "type": "int32", "size": "bool"}
TEXTS = {"nonlinearity": ["relu"], "items": ["?, ?"], "text": ["a"], "word": ["a"], "token": ["a"], "model_type": ["bert"],
         "equation": ["ij,ij->i"], "precision": ["highest"], "overrides": ["{}"], "by": ["num_attention_heads"], "given": ["{}"], "br_chat_template_load.name": ["default"],
         "br_auto_config_has_object.key": ["rope_parameters"], "br_require_activation.name": ["relu"], "br_module_find.path": [""],
         "br_check_open.path": [str(handles.GOLDEN)], "br_gguf_open.path": [str(handles.GGUF)],
         "br_gguf_get.name": ["q4_0"], "br_gguf_has.name": ["q4_0"], "br_gguf_metadata_type.key": ["value.int8"],
         **{f"br_gguf_{kind}.key": [f"value.{value}"] for kind, value in GGUF_KEYS.items()},
         **{f"br_gguf_list_{kind}.key": [f"list.{value}"] for kind, value in GGUF_KEYS.items()},
         "json": ["{}"], "br_auto_model_new.class_name": ["BertModel"],
         "br_tokenizer_from_json_text.text": [(handles.TOKENIZERS / "bpe/tokenizer.json").read_text()],
         "br_tokenizer_from_json.path": [str(handles.TOKENIZERS / "bpe/tokenizer.json")],
         "br_tokenizer_from_sentencepiece.path": [str(handles.TOKENIZERS / "unigram/spiece.model")],
         "vocab": [str(handles.TOKENIZERS / "bpe/vocab.json")], "merges": [str(handles.TOKENIZERS / "bpe/merges.txt")],
         "key": ["hidden_size", "hidden_act", "use_cache", "layer_norm_eps", "architectures", "numbers"]}
REQUIRED = {"kernel_size": 1, "scale_factor": 1, "max_lr": 0.1, "total_steps": 4}  # fields of options that have no default
# Functions that need a call with their handle before.
BEFORE = {"br_loader_(next|seek)": "br_loader_begin", "br_profile_resume": "br_profile_pause",
          "br_profile_(count|event_at|print|rows|write_trace)": "br_profile_end"}
LARGEST = 4  # size in a configuration
HEADS = {"num_attention_heads": 2, "num_key_value_heads": 1}  # so that a head has an even size
MOST = 30000  # calls that are tried

# How the arguments that are no tensors are chosen: the numbers, an array of sizes, the texts, and whether options have
# the fields of REQUIRED or are NULL.
Way = collections.namedtuple("Way", "number array text options")


def returned(t):
    """A callback that returns its first argument, as a hook of a gradient or of a module may."""
    return t


LIBC = ctypes.CDLL(None)
LIBC.fopen.restype = ctypes.c_void_p
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(returned)
FIRST = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_void_p)(
    lambda inputs, n, context: inputs[0])


def shrink(config):
    """Reduces the sizes of a configuration, and sets those that are 0."""
    for name, kind in config._fields_:
        if kind == ctypes.c_int64:
            most = HEADS.get(name, LARGEST - name.endswith(("_id", "_idx")))
            setattr(config, name, min(getattr(config, name) or most, most))
    return config


def filled(kind, number):
    """Returns the number, or a struct or an array with the number in each place."""
    if issubclass(kind, ctypes.Array):
        return kind(*[number] * kind._length_)
    return kind(*[number] * len(kind._fields_)) if issubclass(kind, ctypes.Structure) else number


def choices(n):
    """Yields the prototypes of n tensors as indices. Those with few different tensors, and those without the last ones,
    which are often optional, come first."""
    known, none = range(len(PROTOTYPES) - 1), len(PROTOTYPES) - 1
    for absent in range(n + 1):
        rest = n - absent
        for p in known if rest else (none,):
            yield (p,) * rest + (none,) * absent
        for pair in itertools.permutations(known, 2) if rest > 1 else ():
            for which in itertools.product(pair, repeat=rest - 1):
                if pair[1] in which:
                    yield (pair[0],) + which + (none,) * absent
    yield from itertools.product(range(len(PROTOTYPES)), repeat=n)


class Finder:
    """The calls of one function. A subclass may replace succeeds()."""

    constructors = {}  # for each module struct, the function that creates it and the Way of its arguments

    def __init__(self, br, name):
        self.br, self.name, self.function = br, name, br.functions[name]
        self.texts = br.arguments[name]
        self.places = [i for i, text in enumerate(self.texts) if TENSOR.fullmatch(text)]
        self.leaf = None  # an input that an output depends on
        self.made = []  # (type, handle) of all objects that were created

    def add(self, kind, handle):
        self.made.append((kind, handle))
        return handle

    def tensor(self, prototype):
        if prototype is None:
            return None
        sizes, dtype = prototype
        if dtype == "leaf":
            return self.br.br_set_requires_grad(self.tensor((sizes, "BR_F64")), True)
        new = self.br.br_zeros if dtype == "BR_I64" else self.br.br_ones
        dtype = self.br.constants["BR_I64" if dtype == "lengths" else dtype]
        return self.add("br_tensor", self.br.br_retain(new(*handles.shape(*sizes), dtype)))

    def tensors(self, which):
        return [self.tensor(PROTOTYPES[k]) for k in which]

    def module(self, kind):
        """Returns a module of this type, or NULL."""
        if kind in ("br_module", "void"):
            kind = "br_sequential" if self.name == "br_module_child_at" else "br_linear"
        if kind in self.constructors:
            name, way = self.constructors[kind]
            return self.add("br_module", self.br.functions[name](*self.others(name, way)))
        for name in self.br.functions:
            if self.br.returns[name] != f"{kind} *" or not re.fullmatch(r"br_\w+_new", name):
                continue
            for way in self.ways(name, FOR_MODULES):
                module = self.br.functions[name](*self.others(name, way))
                failed = self.br.br_failed()
                self.br.br_clear_error()
                if module and not failed:
                    self.constructors[kind] = name, way
                    return self.add("br_module", module)
        return None

    def handle(self, text):
        """Returns a live handle for an argument, or NULL."""
        kind = handles.handle_type(self.br, text)
        if kind == "br_module":
            return self.module(re.search(r"\w+(?= \*)", text)[0])
        handle = self.add(kind, handles.HANDLES[kind][0](self.br))
        for pattern, before in BEFORE.items():
            if re.fullmatch(pattern, self.name):
                self.br.functions[before](*[handle, 0][:len(self.br.arguments[before])])
        return handle

    def own_state(self):
        """Returns the state of the object that was created last, for a function that loads it, or NULL."""
        kind, handle = self.made[-1]
        save = self.br.functions.get(f"{kind}_state_dict")
        return self.add("br_named_list", save(handle)) if save and len(save.argtypes) == 1 else None

    def struct(self, is_constant, kind, way):
        """Returns a struct for an argument that is a pointer to one, or NULL."""
        makers = [name for name in self.br.functions if self.br.returns[name] == kind]
        made = self.br.functions[makers[0]](*self.others(makers[0], way)) if makers else self.br.structs[kind]()
        if kind == "br_text":
            made.data, made.length = b"a", 1
            return ctypes.byref(made)
        if kind.endswith("_config"):
            return ctypes.byref(shrink(made))
        if kind.endswith("_options") and way.options:
            for name in REQUIRED.keys() & self.br.fields[kind]:
                setattr(made, name, filled(type(getattr(made, name)), REQUIRED[name]))
            return ctypes.byref(made)
        return None if kind.endswith("_options") or (is_constant and not makers) else ctypes.byref(made)

    def pointer(self, text, way):
        """Returns an argument that is a pointer, except to a tensor."""
        if SIZES.fullmatch(text):
            return (ctypes.c_int64 * max(1, len(way.array)))(*way.array)
        if match := TENSORS.fullmatch(text):
            if match[1] in ("inputs", "outputs", "v"):
                self.leaf = self.leaf or self.tensor(LEAF)  # outputs must depend on the inputs
                return (ctypes.c_void_p * 2)(self.leaf, self.leaf)
            prototype = INDEX if match[1] == "indices" else PROTOTYPES[0]
            return (ctypes.c_void_p * 2)(self.tensor(prototype), self.tensor(prototype))
        if RESULTS.fullmatch(text):
            return (ctypes.c_void_p * 16)()
        if text == "void *const *modules":
            return (ctypes.c_void_p * 2)(self.module("br_activation"), self.module("br_activation"))
        if self.name == "br_bleu" and text == "const char *const *references":  # as many as texts times references
            return ctypes.cast((ctypes.c_char_p * 16)(*[b"a"] * 16), ctypes.c_void_p)
        if text.startswith("const char *const *"):
            return (ctypes.c_char_p * 2)(b"a", b"b")
        if text == "const br_named_list *state" and (state := self.own_state()):
            return state
        if handles.handle_type(self.br, text) and not handles.is_array(text):
            return self.handle(text)
        if (match := STRUCT.fullmatch(text)) and match[2] in self.br.structs:
            return self.struct(match[1], match[2], way)
        if text.startswith("br_function "):
            return ctypes.cast(FIRST, ctypes.c_void_p)
        if text == "FILE *stream":
            return LIBC.fopen(os.devnull.encode(), b"w")
        if text in ("void *out", "const void *argument"):
            return ctypes.create_string_buffer(24)  # the bytes of the first tensor
        if re.fullmatch(r"br_\w+_(fn|lambda|function) \w+|(void|_Bool) \(\*\w+\)\(.*", text):
            return ctypes.cast(CALLBACK, ctypes.c_void_p)
        if re.fullmatch(r"const double \*\w+", text):
            return (ctypes.c_double * 2)(0.5, 0.5)
        if re.fullmatch(r"(int|int64_t|size_t|double|bool|_Bool) \*\w+", text):
            return (ctypes.c_int64 * 16)()
        return None

    def others(self, name, way):
        """Returns the arguments of a function; NULL for tensors."""
        texts, types = self.br.arguments[name], self.br.functions[name].argtypes
        numbers = sum(kind not in (ctypes.c_void_p, ctypes.c_char_p) for kind in types)
        found, at, self.leaf = [], 0, None
        for i, (text, kind) in enumerate(zip(texts, types)):
            if kind == ctypes.c_char_p:
                words = texts_of(name, text)
                value = words[way.text % len(words)].encode()
            elif kind == ctypes.c_void_p:
                value = None if TENSOR.fullmatch(text) else self.pointer(text, way)
            else:
                number = (way.number[at] if isinstance(way.number, tuple) else
                          {ASCENDING: at, DESCENDING: numbers - 1 - at}.get(way.number, way.number))
                value = kind(24 if text == "size_t bytes" else number)
                at += 1
            counted = isinstance(value, ctypes.Array) and not RESULTS.fullmatch(text)
            if counted and i > 0 and COUNT.fullmatch(texts[i - 1]):
                found[-1] = types[i - 1](len(way.array) if SIZES.fullmatch(text) else len(value))
            found.append(value)
        return found

    def ways(self, name, numbers=NUMBERS):
        """Returns all ways in which the other arguments of a function can be chosen."""
        numbers += MORE_NUMBERS.get(name, ())
        texts, types = self.br.arguments[name], self.br.functions[name].argtypes
        has_numbers = set(types) - {ctypes.c_void_p, ctypes.c_char_p}
        has_options = any(re.search(r"_options \*", text) for text in texts)
        words = max([len(texts_of(name, text)) for text, kind in zip(texts, types) if kind == ctypes.c_char_p] or [1])
        has_sizes = any(SIZES.fullmatch(text) for text in texts)
        return [Way(*each) for each in itertools.product(
            numbers if has_numbers else numbers[:1], ARRAYS if has_sizes else ARRAYS[:1], range(words),
            (False, True) if has_options else (False,))]

    def succeeds(self, others, tensors):
        """Calls the function and returns whether it succeeded."""
        self.function(*self.arguments(others, tensors))
        failed = self.br.br_failed()
        self.br.br_clear_error()
        return not failed

    def arguments(self, others, tensors):
        arguments = list(others)
        for i, t in zip(self.places, tensors):
            arguments[i] = t
        return arguments

    def find(self):
        """Returns a Way, its other arguments, and the prototypes and the tensors of a call that succeeds, or None."""
        prototypes = self.tensors(range(len(PROTOTYPES)))
        each = [(way, self.others(self.name, way)) for way in self.ways(self.name)]
        for which in itertools.islice(choices(len(self.places)), MOST // len(each)):
            for way, others in each:
                if self.succeeds(others, [prototypes[k] for k in which]):
                    return way, others, which, [prototypes[k] for k in which]
        return None


def texts_of(function, text):
    """Returns texts for an argument of this function. Functions that write do not receive files that others read."""
    word = re.search(r"\w+$", text)[0]
    if word in ("path", "dir") and re.search("save|write|svg|dot|html", function):
        return [str(handles.FOLDER / f"new{os.getpid()}")]
    if f"{function}.{word}" in TEXTS:
        return TEXTS[f"{function}.{word}"]
    if word == "path":
        return [str(handles.FOLDER / name) for name in ("t.safetensors", "vocab.txt", "config.json")]
    if word == "log_dir":
        return [str(handles.FOLDER / "events")]
    if word == "dir":
        return [str(handles.FOLDER), str(handles.FOLDER / "sentence")]
    return TEXTS.get(word, ["weight", "fresh"])
