#!/usr/bin/env python3
"""Checks that Brasa reads files of the Python package `safetensors`, and the reverse.

    cross_check.py LIBBRASA_SO [--record]

Exit status: 0 if all agree, 1 if something differs, 77 if numpy or safetensors is missing. With --record, only
prints the bytes that test_safetensors_write.c expects."""
import ctypes
import os
import sys
import tempfile

try:
    import numpy as np
    from safetensors import safe_open
    from safetensors.numpy import save_file
except ImportError as missing:
    print(missing)
    sys.exit(77)

DTYPES = {"float32": 0, "float64": 1, "int64": 2, "bool": 3}
NAMES = {code: name for name, code in DTYPES.items()}


class NamedTensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tensor", ctypes.c_void_p)]


class NamedList(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int64), ("items", ctypes.POINTER(NamedTensor))]


class Metadata(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Brasa:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path, mode=os.RTLD_LAZY)
        for name in ("open", "get", "name", "metadata", "metadata_key"):
            getattr(self.lib, "br_safetensors_" + name).restype = ctypes.c_void_p
        self.lib.br_safetensors_count.restype = ctypes.c_int64
        self.lib.br_safetensors_metadata_count.restype = ctypes.c_int64
        self.lib.br_from_data.restype = ctypes.c_void_p
        self.lib.br_sizes.restype = ctypes.POINTER(ctypes.c_int64)
        self.lib.br_error_message.restype = ctypes.c_char_p

    def call(self, name, *args):
        value = getattr(self.lib, "br_" + name)(*args)
        if self.lib.br_failed() & 1:
            raise RuntimeError(self.lib.br_error_message().decode())
        return value

    def text(self, name, *args):
        return ctypes.string_at(self.call(name, *args)).decode()

    def load(self, path):
        file = ctypes.c_void_p(self.call("safetensors_open", path.encode(), None))
        tensors, metadata = {}, {}
        for i in range(self.call("safetensors_count", file)):
            name = self.text("safetensors_name", file, ctypes.c_int64(i))
            t = ctypes.c_void_p(self.call("safetensors_get", file, name.encode()))
            shape = [self.call("sizes", t)[d] for d in range(self.call("ndim", t))]
            array = np.empty(shape, NAMES[self.call("dtype_of", t)])
            self.call("copy_out", t, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))
            tensors[name] = array
        for i in range(self.call("safetensors_metadata_count", file)):
            key = self.text("safetensors_metadata_key", file, ctypes.c_int64(i))
            metadata[key] = self.text("safetensors_metadata", file, key.encode())
        self.lib.br_safetensors_close(file)
        return tensors, metadata

    def save(self, tensors, path, metadata):
        items = (NamedTensor * max(len(tensors), 1))()
        for i, (name, array) in enumerate(tensors.items()):
            shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
            data = np.ascontiguousarray(array)
            t = self.call("from_data", array.ndim, shape, DTYPES[array.dtype.name],
                          ctypes.c_void_p(data.ctypes.data))
            items[i] = NamedTensor(name.encode(), t)
        pairs = (Metadata * max(len(metadata), 1))(
            *[(k.encode(), v.encode()) for k, v in metadata.items()])
        self.call("safetensors_save", path.encode(), ctypes.byref(NamedList(len(tensors), items)),
                  ctypes.c_int64(len(metadata)), pairs)
        self.lib.br_thread_cleanup()


def cases():
    """Yields tensors and metadata. The first case is the one whose bytes test_safetensors_write.c contains."""
    yield ({"weight": np.arange(6, dtype="float32").reshape(2, 3), "step": np.array(7, "int64"),
            "mean": np.array([0.5, -2.0]), "mask": np.array([True, False, True]),
            "bias": np.array([np.nan, np.inf, -0.0], "float32"),
            "empty": np.zeros((3, 0), "float64"), "a\"\\\n\u00e9": np.zeros(1, "int64")},
           {"format": "a\tb\x1b\"\u00e9"})
    yield {}, {}
    yield {}, {"every control": "".join(map(chr, range(1, 0xa0))) + "\u2028\U0001f525"}
    yield {"scalar": np.array(1.5)}, {}
    rng = np.random.default_rng(0)
    for case in range(20):
        tensors = {}
        for i in range(case):
            shape = rng.integers(0, 5, rng.integers(0, 9))
            values = rng.standard_normal(shape) * 100
            tensors["t%d.%s" % (i, "x" * int(rng.integers(20)))] = np.asarray(
                values, str(rng.choice(list(DTYPES))))
        yield tensors, {"case": str(case)} if case % 2 else {}


def same(a, b):
    return a.keys() == b.keys() and all(
        a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and a[k].tobytes() == b[k].tobytes()
        for k in a)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def check(brasa, tensors, metadata, theirs, ours):
    save_file(tensors, theirs, metadata or None)
    loaded, loaded_metadata = brasa.load(theirs)
    if not same(loaded, tensors) or loaded_metadata != metadata:
        return "Brasa reads different tensors or metadata than were saved"
    brasa.save(tensors, ours, metadata)
    with safe_open(ours, "np") as file:
        if not same({k: file.get_tensor(k) for k in file.keys()}, tensors):
            return "Python reads different tensors than Brasa saved"
        if (file.metadata() or {}) != metadata:
            return "Python reads different metadata than Brasa saved"
    if read(theirs) != read(ours):
        return "the files differ"
    return None


def record(path):
    """Prints the header as a C string, one member per line, and the data as numbers."""
    tensors, metadata = next(cases())
    save_file(tensors, path, metadata)
    data = read(path)
    end = 8 + int.from_bytes(data[:8], "little")
    print("header of %d bytes:" % (end - 8))
    for line in data[8:end].decode().replace("},", "},\n").split("\n"):
        print('    "%s"' % line.replace("\\", "\\\\").replace('"', '\\"'))
    print("data:")
    for i in range(end, len(data), 12):
        print("    " + " ".join("0x%02x," % byte for byte in data[i:min(i + 12, len(data))]))


def main():
    with tempfile.TemporaryDirectory() as directory:
        theirs, ours = (os.path.join(directory, name) for name in ("theirs", "ours"))
        if "--record" in sys.argv:
            record(theirs)
            return 0
        brasa, failures = Brasa(sys.argv[1]), 0
        for i, (tensors, metadata) in enumerate(cases()):
            problem = check(brasa, tensors, metadata, theirs, ours)
            if problem:
                failures += 1
                print("case %d: %s" % (i, problem))
        print("%d cases differ" % failures if failures else "all cases agree")
        return 1 if failures else 0


sys.exit(main())
