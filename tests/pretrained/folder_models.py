"""Runs the models of random folders for compare_folders.py: those of Brasa through its shared library, and those of
transformers in the dtype of the folder and exactly."""
import contextlib
import ctypes
import os
import pathlib
import sys

import torch
import transformers

from random_models import ENCODERS

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "ctypes"))
from binding import Binding  # noqa: E402

NO_CHUNKS = {"chunk_size_feed_forward": 0}  # other sizes must divide the length, and do not change results
NO_CACHE = {"use_cache": False}  # transformers' cache is too small for a T5 whose decoder has more layers than its encoder
SEVERAL = {"BertForPreTraining": ["prediction_logits", "seq_relationship_logits"],
           "AlbertForPreTraining": ["prediction_logits", "sop_logits"]}
EXACT_TYPES = {"float": torch.float64, "float32": torch.float64}


class Refusal(Exception):
    """An error message of Brasa."""


# ---- Brasa's models -------------------------------------------------------------------------------


class Library:
    """Runs models of the shared library."""

    def __init__(self, path):
        self.br = Binding(os.path.abspath(path), os.environ.get("CC", "cc"))
        self.dtypes = {self.br.BR_F32: torch.float32, self.br.BR_F64: torch.float64, self.br.BR_F16: torch.float16,
                       self.br.BR_BF16: torch.bfloat16}

    def tensor(self, t):
        sizes = (ctypes.c_int64 * 2)(*t.shape)
        return self.br.br_from_data(2, sizes, self.br.BR_I64, t.contiguous().data_ptr())

    def result(self, t):
        """Returns the values in f64."""
        if not t or self.br.br_failed():
            self.refuse()
        t = self.br.br_to(t, self.br.BR_F64)
        sizes = [self.br.br_size(t, i) for i in range(self.br.br_ndim(t))]
        out = torch.empty(sizes, dtype=torch.float64)
        self.br.br_copy_out(t, out.data_ptr(), 8 * out.numel())
        return out

    def refuse(self):
        message = self.br.br_error_message().decode()
        self.br.br_clear_error()
        raise Refusal(message)

    def options(self, name, **fields):
        options = getattr(self.br, name + "_defaults")()
        for key, value in fields.items():
            setattr(options, key, value)
        return ctypes.byref(options)

    def several(self, name, model, ids, types, mask):
        first, second = (ctypes.c_void_p * 1)(), (ctypes.c_void_p * 1)()
        options = self.options("br_hf_bert", attention_mask=mask, token_type_ids=types)
        self.br.br_hf_bert_pretraining_forward(model, ids, options, first, second)
        return dict(zip(SEVERAL[name], (first[0], second[0])))

    def pooled(self, name, model, ids, types, mask):
        pooled = (ctypes.c_void_p * 1)()
        options = self.options("br_hf_bert", attention_mask=mask, token_type_ids=types, pooler_output=ctypes.addressof(pooled))
        states = self.br.br_hf_bert_forward(model, ids, options)
        return {"last_hidden_state": states, "pooler_output": pooled[0]}

    def t5(self, name, model, ids, types, mask):
        br = self.br
        memory = br.br_t5_encode(model, ids, mask)
        hidden = br.br_t5_decode(model, ids, memory, self.options("br_t5", attention_mask=mask))
        out = {"last_hidden_state": hidden} if name == "T5Model" else {"logits": br.br_t5_logits(model, hidden)}
        return {"encoder_last_hidden_state": memory, **out}

    def forward(self, kind, name, model, ids, types, mask):
        """Runs the function `forward` of a class of the family."""
        family = ctypes.cast(self.br.br_model_family_find(kind.encode()), ctypes.POINTER(self.br.br_model_family))[0]
        found = next(c for c in ctypes.cast(family.classes, ctypes.POINTER(self.br.br_model_class)) if c.name == name.encode())
        given = self.br.br_model_input()
        given.batch.ids, given.batch.type_ids, given.batch.attention_mask = ids, types, mask
        call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(found.forward)
        return {name_of_result(name): call(model, ctypes.addressof(given))}

    def run(self, kind, name, model, batch):
        inputs = [self.tensor(t) for t in batch]
        if name in SEVERAL:
            return self.several(name, model, *inputs)
        if kind == "t5":
            return self.t5(name, model, *inputs)
        if name.endswith("Model") and kind in ENCODERS and kind != "modernbert":
            return self.pooled(name, model, *inputs)
        return self.forward(kind, name, model, *inputs)

    def save(self, folder, name, target):
        """Loads the folder's model as a class and saves it."""
        br, path = self.br, str(folder.model).encode()
        model = br.br_auto_model_load(path, self.options("br_auto_model", class_name=name.encode()), None)
        try:
            if not model or not br.br_auto_model_save(str(target).encode(), model, self.options("br_auto_model_save", **{"from": path})):
                self.refuse()
        finally:
            br.br_module_free(model)

    def results(self, folder, batch, dtype=None):
        """Returns the results of the folder's model by their names in transformers, in f64, and the dtype of the model.
        `dtype` replaces the dtype of the folder."""
        br, name = self.br, folder.model_class.__name__
        scope = br.br_no_grad_begin()
        chosen = {} if dtype is None else {"dtype": next(k for k, d in self.dtypes.items() if d == dtype)}
        model = br.br_auto_model_load(str(folder.model).encode(), self.options("br_auto_model", **chosen), None)
        try:
            if not model:
                self.refuse()
            if br.br_module_class(model).decode() != name:
                raise Refusal(f"the class is {br.br_module_class(model).decode()} instead of {name}")
            out = {key: t for key, t in self.run(folder.kind, name, model, batch).items() if t or key != "pooler_output"}
            found = [self.dtypes[br.br_dtype_of(t)] for t in out.values() if t and not br.br_failed()]
            return {key: self.result(t) for key, t in out.items()}, found[-1]
        finally:
            br.br_module_free(model)
            br.br_scope_end(scope)


def name_of_result(name):
    return "last_hidden_state" if name.endswith("Model") and "LMHead" not in name else "logits"


# ---- transformers' models -------------------------------------------------------------------------


def load(model_class, folder, dtype="auto"):
    """Loads a model in the dtype of its folder, or in another."""
    more = {"experts_implementation": "eager"} if "Moe" in model_class.__name__ else {}  # the default has no f64
    return model_class.from_pretrained(folder, dtype=dtype, attn_implementation="eager", return_dict=True, **more,
                                       **NO_CHUNKS).eval()


class Exact:
    """torch, whose single precision is double precision."""

    def __getattr__(self, name):
        return EXACT_TYPES.get(name) or getattr(torch, name)


@contextlib.contextmanager
def in_double_precision(model_class):
    """Makes the parts of a model that transformers computes in single precision compute in double precision."""
    changed = [(module, module.torch) for module in (sys.modules[model_class.__module__], transformers.modeling_rope_utils)]
    single, default = torch.Tensor.float, torch.get_default_dtype()
    for module, _ in changed:
        module.torch = Exact()
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.Tensor.float = single
        torch.set_default_dtype(default)
        for module, own in changed:
            module.torch = own


def exact_results(model, folder, batch, seed=None):
    """Returns the exact results of a model of the folder. With a seed, each weight is changed by half a rounding of the
    model's dtype, up or down."""
    generator = torch.Generator().manual_seed(seed or 0)
    with in_double_precision(folder.model_class), torch.no_grad():
        exact = load(folder.model_class, folder.model, torch.float64)
        for weight, own in zip(exact.parameters(), model.parameters(), strict=True):
            weight.copy_(own.double())
            if seed is not None:
                signs = 2 * torch.randint(0, 2, weight.shape, generator=generator) - 1
                weight *= 1 + torch.finfo(own.dtype).eps / 2 * signs
        return reference(exact, folder.kind, batch)


def reference(model, kind, batch):
    """Returns the results of a model in f64."""
    ids, types, mask = batch
    takes_types = kind in ENCODERS and kind not in ("distilbert", "mpnet", "modernbert")
    more = {"token_type_ids": types} if takes_types else {"decoder_input_ids": ids, **NO_CACHE} if kind == "t5" else {}
    with torch.no_grad():
        out = model(input_ids=ids, attention_mask=mask, return_dict=True, **more)
    out = {key: t.double() for key, t in out.items() if isinstance(t, torch.Tensor)}
    if "start_logits" in out:
        out["logits"] = torch.stack([out["start_logits"], out["end_logits"]], -1)
    return out


def make_batch(encodings, vocab, type_vocab, padding):
    """Returns ids, type ids and mask of the encodings, padded on the right with the token `padding`."""
    length = max(len(ids) for ids, _ in encodings)

    def padded(rows, fill):
        return torch.tensor([list(row) + [fill] * (length - len(row)) for row in rows])
    return (padded([ids for ids, _ in encodings], padding).clamp(max=vocab - 1), padded([types for _, types in encodings], 0).clamp(max=type_vocab - 1),
            padded([[1] * len(ids) for ids, _ in encodings], 0))
