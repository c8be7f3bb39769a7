#!/usr/bin/env python3
"""options.py check LIBRARY [CC] | record LIBRARY [CC]

Compares the defaults of every option struct with those of PyTorch, transformers and sentence-transformers. `check`
compares the results of br_*_defaults() with options.tsv. `record` reads the signatures of the installed packages and
prints that table; it requires all three."""

import ctypes
import inspect
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from binding import Binding  # noqa: E402

TABLE = pathlib.Path(__file__).with_name("options.tsv")
INT64_MIN = -2**63

# The functions or classes that each struct mirrors, and the fields whose name or type differs from the parameter's,
# as field: (parameter, conversion of its default to C).
OPTIMIZER = {"beta1": ("betas", lambda b: b[0]), "beta2": ("betas", lambda b: b[1])}
PAIR = lambda n: None if n is None else [n, n]  # noqa: E731
TRIPLE = lambda n: None if n is None else [n, n, n]  # noqa: E731
MIRRORS = {
    "br_backward": (["torch.Tensor.backward"], {"n_inputs": ("inputs", lambda i: 0),
                                                "retain_graph": ("retain_graph", bool)}),
    "br_grad": (["torch.autograd.grad"], {"gradients": ("grad_outputs", None),
                                          "retain_graph": ("retain_graph", bool),
                                          "allow_unused": ("allow_unused", bool)}),
    "br_functional": (["torch.autograd.functional.jacobian", "torch.autograd.functional.vjp"], {}),
    "br_activation_checkpoint": (["torch.utils.checkpoint.checkpoint"], {}),
    "br_gradcheck": (["torch.autograd.gradcheck"], {}),
    "br_conv": (["torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.ConvTranspose1d",
                 "torch.nn.ConvTranspose2d"],
                {"stride": ("stride", PAIR), "dilation": ("dilation", PAIR),
                 "padding": ("padding", PAIR), "output_padding": ("output_padding", PAIR)}),
    "br_pool": (["torch.nn.MaxPool1d", "torch.nn.MaxPool2d", "torch.nn.AvgPool1d",
                 "torch.nn.AvgPool2d"],
                {"stride": ("stride", lambda s: [0, 0]), "dilation": ("dilation", PAIR),
                 "padding": ("padding", PAIR),
                 "divisor_override": ("divisor_override", lambda d: 0)}),
    "br_conv3d": (["torch.nn.Conv3d", "torch.nn.ConvTranspose3d"],
                  {"stride": ("stride", TRIPLE), "dilation": ("dilation", TRIPLE), "padding": ("padding", TRIPLE),
                   "output_padding": ("output_padding", TRIPLE)}),
    "br_pool3d": (["torch.nn.MaxPool3d", "torch.nn.AvgPool3d"],
                  {"stride": ("stride", lambda s: [0, 0, 0]), "dilation": ("dilation", TRIPLE),
                   "padding": ("padding", TRIPLE), "divisor_override": ("divisor_override", lambda d: 0)}),
    "br_fold": (["torch.nn.Fold", "torch.nn.functional.unfold"],
                {"stride": ("stride", PAIR), "dilation": ("dilation", PAIR), "padding": ("padding", PAIR)}),
    "br_interpolate": (["torch.nn.functional.interpolate"],
                       {"mode": ("mode", lambda m: ["nearest"].index(m)),
                        "align_corners": ("align_corners", bool),
                        "recompute_scale_factor": ("recompute_scale_factor", bool)}),
    "br_embedding_bag": (["torch.nn.functional.embedding_bag"],
                         {"mode": ("mode", lambda m: ["sum", "mean"].index(m)), "padding_idx": ("padding_idx", lambda p: -1),
                          "max_norm": ("max_norm", lambda n: 0.0)}),
    "br_stft": (["torch.stft"], {"pad_mode": ("pad_mode", lambda m: ["constant", "reflect"].index(m)),
                                 "align_to_window": ("align_to_window", bool)}),
    "br_cross_entropy": (["torch.nn.CrossEntropyLoss", "torch.nn.functional.cross_entropy"], {}),
    "br_linear_cross_entropy": (["torch.nn.LinearCrossEntropyLoss", "torch.nn.functional.linear_cross_entropy"],
                                {"ignore_index": ("ignore_index", lambda i: -100),  # None means -100
                                 "chunked": ("options", bool),
                                 "batch_chunk_size": ("options", lambda o: 0)}),
    "br_triplet": (["torch.nn.TripletMarginLoss", "torch.nn.functional.triplet_margin_loss"], {}),
    "br_loader": (["torch.utils.data.DataLoader"],
                  {"shuffle": ("shuffle", bool),
                   "prefetch_factor": ("prefetch_factor", lambda p: 2)}),  # with workers, None means 2
    "br_layer_norm": (["torch.nn.LayerNorm"], {}),
    "br_rms_norm": (["torch.nn.RMSNorm"], {}),
    "br_group_norm": (["torch.nn.GroupNorm"], {}),
    "br_batch_norm": (["torch.nn.BatchNorm1d", "torch.nn.BatchNorm2d", "torch.nn.BatchNorm3d"], {}),
    "br_instance_norm": (["torch.nn.InstanceNorm1d", "torch.nn.InstanceNorm2d", "torch.nn.InstanceNorm3d"], {}),
    "br_rnn": (["torch.nn.RNNBase"], {}),
    "br_multihead_attention": (["torch.nn.MultiheadAttention"],
                               {"kdim": ("kdim", lambda d: 0), "vdim": ("vdim", lambda d: 0)}),
    "br_transformer": (["torch.nn.TransformerEncoderLayer", "torch.nn.TransformerDecoderLayer",
                        "torch.nn.Transformer"],
                       {"activation": ("activation", lambda f: None)}),  # NULL means relu
    "br_dist": (["torch.distributed.init_process_group"],
                {"timeout": ("timeout", lambda t: 1800)}),  # None means 30 minutes
    "br_data_parallel": (["torch.nn.parallel.DistributedDataParallel"],
                         {"group": ("process_group", None),
                          "bucket_cap_mb": ("bucket_cap_mb", lambda b: 25),  # None means 25
                          "forward_sync_buffers": ("forward_sync_buffers", lambda b: True)}),  # None means true
    "br_spectral_norm": (["torch.nn.utils.parametrizations.spectral_norm"], {}),
    "br_adam": (["torch.optim.Adam"], OPTIMIZER),
    "br_adamw": (["torch.optim.AdamW"], OPTIMIZER),
    "br_sgd": (["torch.optim.SGD"], {}),
    "br_rmsprop": (["torch.optim.RMSprop"], {}),
    "br_adagrad": (["torch.optim.Adagrad"], {}),
    "br_adadelta": (["torch.optim.Adadelta"], {}),
    "br_adamax": (["torch.optim.Adamax"], OPTIMIZER),
    "br_nadam": (["torch.optim.NAdam"], OPTIMIZER),
    "br_radam": (["torch.optim.RAdam"], OPTIMIZER),
    "br_adafactor": (["torch.optim.Adafactor"], {"eps1": ("eps", lambda e: e[0]), "eps2": ("eps", lambda e: e[1])}),
    "br_rprop": (["torch.optim.Rprop"], {"eta_minus": ("etas", lambda e: e[0]), "eta_plus": ("etas", lambda e: e[1]),
                                         "step_size_min": ("step_sizes", lambda s: s[0]),
                                         "step_size_max": ("step_sizes", lambda s: s[1])}),
    "br_asgd": (["torch.optim.ASGD"], {}),
    "br_sparse_adam": (["torch.optim.SparseAdam"], OPTIMIZER),
    "br_lbfgs": (["torch.optim.LBFGS"], {"line_search_fn": ("line_search_fn", lambda f: 0)}),
    "br_grad_scaler": (["torch.amp.GradScaler"], {}),
    "br_muon": (["torch.optim.Muon"], {"adjust_lr": ("adjust_lr_fn", lambda f: 0),
                                       "ns_coefficients": ("ns_coefficients", list)}),
    "br_one_cycle": (["torch.optim.lr_scheduler.OneCycleLR"],
                     {"linear": ("anneal_strategy", lambda s: s == "linear"),
                      "total_steps": ("total_steps", lambda n: 0)}),
    "br_plateau": (["torch.optim.lr_scheduler.ReduceLROnPlateau"],
                   {"mode": ("mode", lambda m: int(m == "max")),
                    "threshold_mode": ("threshold_mode", lambda m: int(m == "abs"))}),
    "br_tokenizer": (["transformers.BertTokenizer"], {"strip_accents": ("strip_accents", lambda s: 0)}),
    "br_bpe": (["transformers.GPT2Tokenizer"], {}),
    "br_sentencepiece": (["transformers.T5Tokenizer"], {}),
    "br_sentence_encode": (["sentence_transformers.SentenceTransformer.encode"],
                           {"truncate_dim": ("truncate_dim", lambda n: 0)}),
    "br_encode": (["transformers.PreTrainedTokenizerBase.__call__"],
                  {"max_length": ("max_length", lambda n: 0), "truncation": ("truncation", lambda t: 0),
                   "padding": ("padding", int), "pad_to_multiple_of": ("pad_to_multiple_of", lambda n: 0)}),
}
# Functions whose signature cannot be read, and objects: functions that return their defaults by field name.
TABLES = {
    "br_attention": ("torch.nn.functional.scaled_dot_product_attention",
                     lambda: documented("torch.nn.functional.scaled_dot_product_attention")),
    "br_istft": ("torch.istft", lambda: documented("torch.istft")),
    "br_generate": ("transformers.GenerationConfig", lambda: generation()),
}
# Parameters of PyTorch that have no field, by reason.
ABSENT = {
    "arguments of the C function itself": """self params optimizer module func function inputs outputs args kwargs
        dataset input target anchor positive negative in_channels out_channels num_features normalized_shape
        num_groups num_channels d_model nhead num_encoder_layers num_decoder_layers embed_dim num_heads text text_pair text_target
        text_pair_target vocab merges name mode input_size hidden_size kernel_size v return_indices
        is_split_into_words reduction in_features num_classes out_features linear_weight""",
    "arguments of br_f_fold() and br_f_embedding_bag()": "output_size offsets weight",
    "an argument of br_stft(), whose result is always complex": "n_fft return_complex",
    "change weights, or gradients, of a lookup": "max_norm norm_type scale_grad_by_freq sparse",
    "deprecated by PyTorch": "size_average reduce only_inputs broadcast_buffers",
    "affect how something is computed, not the result": """foreach capturable differentiable fused vectorize strategy
        is_grads_batched use_reentrant context_fn determinism_check debug early_stop
        respect_saved_tensors_hooks batched_grad_copy lazy_bucket_allocation strict pin_memory pin_memory_device in_order timeout
        multiprocessing_context device dtype verbose masked nondet_tol""",
    "errors are returned": "errors",
    "br_gradcheck() always or never checks this": """check_undefined_grad check_grad_dtypes
        check_batched_grad check_batched_forward_grad check_forward_ad check_backward_ad""",
    "another function, br_adamw()": "decoupled_weight_decay",
    "use br_pad() before the convolution": "padding_mode",
    "given as total_steps": "epochs steps_per_epoch",
    "a scheduler is restored from its state": "last_epoch",
    "done by a dataset, a subset or the thread's generator": """sampler batch_sampler collate_fn
        worker_init_fn generator""",
    "given by mpirun": "backend init_method world_size rank store group_name _ranks enable_reconfigure",
    "of graphics processors": "dim device_ids output_device device_id pg_options device_mesh mixed_precision",
    "br_data_parallel_new() always does this": """init_sync find_unused_parameters gradient_as_bucket_view
        check_reduction""",
    "the first bucket has its own size, first_bucket_cap_mb": "bucket_cap_mb_list",
    "promises that save time": "static_graph skip_all_reduce_unused_params",
    "for reductions that overlap the backward pass of other libraries": """delay_all_reduce_named_params
        param_to_hook_all_reduce""",
    "compose custom modules instead": "custom_encoder custom_decoder",
    "given as kwargs": "tokenizer_kwargs",
    "choice of results; br_encoding always has all": """return_tensors return_token_type_ids
        return_attention_mask return_overflowing_tokens return_special_tokens_mask
        return_offsets_mapping return_length""",
    "read from the vocabulary's file": "_spm_precompiled_charsmap additional_special_tokens bos_token",
    "pad_left and truncate_left": "padding_side",
    "on_batch": "show_progress_bar",
    "br_sentence_transformer_encode() always returns whole f32 embeddings": """output_value precision convert_to_numpy
        convert_to_tensor""",
    "several processes": "pool chunk_size",
    "one token for all three, end_of_text, or the file's tokens": "unk_token eos_token pad_token",
    "an argument of the convolutions' constructors": "bias",
}


def resolve(path):
    package, *names = path.split(".")
    found = __import__(package)
    for i, name in enumerate(names):
        if not hasattr(found, name):
            __import__(".".join([package, *names[:i + 1]]))
        found = getattr(found, name)
    return found


def documented(path):
    """Returns the defaults in the first line of a built-in function's docstring: `f(a, b=None, c=0.0) -> Tensor`."""
    text = resolve(path).__doc__
    inside = text[text.index("(") + 1:text.index(")")]
    return {k.strip(): eval(v) for k, _, v in (p.partition("=") for p in inside.split(",")) if v}


def generation():
    import transformers
    config = transformers.GenerationConfig()
    defaults = dict(config._get_default_generation_params())
    return {"pad_token_id": config.pad_token_id, **defaults}


def parameters(path):
    return {n: p.default for n, p in inspect.signature(resolve(path)).parameters.items()
            if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def same(ours, theirs):
    if theirs is inspect.Parameter.empty:  # a required parameter
        return not ours or (isinstance(ours, list) and not any(ours))
    if theirs is None:
        return ours is None
    if isinstance(ours, list):
        return list(theirs) == ours
    if isinstance(theirs, str):
        return ours == theirs or (ours == 0 and theirs == "mean")  # BR_REDUCTION_MEAN
    return ours == theirs


def value(v):
    """Converts a value of C to Python: None for NULL, BR_NONE, BR_NONE_F64, and a list of zeros."""
    if isinstance(v, ctypes.Structure):
        return [value(getattr(v, f[0])) for f in v._fields_]
    if isinstance(v, ctypes.Array):
        return list(v) if any(v) else None
    if isinstance(v, bytes):
        return v.decode()
    if v is None or v == INT64_MIN or (isinstance(v, float) and math.isnan(v)):
        return None
    return v


def defaults(br):
    """Yields (struct, field, value) for every field except struct_size, which is checked."""
    structs = sorted(n for n in br.fields if n.endswith("_options"))  # in any order of the headers
    assert len(structs) >= 42, f"{len(structs)} option structs were found"
    for struct in structs:
        options = getattr(br, struct.removesuffix("_options") + "_defaults")()
        assert br.fields[struct][0] == "struct_size", struct
        assert options.struct_size == ctypes.sizeof(options), struct
        for field in br.fields[struct][1:]:
            yield struct.removesuffix("_options"), field, value(getattr(options, field))


def record(br):
    known = {p for names in ABSENT.values() for p in names.split()}
    used = {}
    wrong = []
    for struct, field, ours in defaults(br):
        sources, theirs = [], None
        if struct in TABLES:
            path, read = TABLES[struct]
            if field in read():
                sources, theirs = [path], read()[field]
        paths, renamed = MIRRORS.get(struct, ([], {}))
        for path in paths:
            names = parameters(path)
            name, convert = renamed.get(field, (field, None))
            if name in names:
                used.setdefault(path, set()).add(name)
                sources.append(path)
                theirs = convert(names[name]) if convert else names[name]
                if not same(ours, theirs):
                    wrong.append(f"{struct}.{field} is {ours!r}, {path} has {theirs!r}")
        if sources and not same(ours, theirs):
            wrong.append(f"{struct}.{field} is {ours!r}, {sources[0]} has {theirs!r}")
        print(f"{struct}.{field}\t{ours!r}\t{', '.join(sources) or '-'}")
    for paths, _ in MIRRORS.values():
        for path in paths:
            for name in parameters(path):
                if name not in used.get(path, ()) and name not in known:
                    wrong.append(f"{path}({name}=...) has no field")
    if wrong:
        sys.exit("\n".join(wrong))


def check(br):
    """Compares with the table. A missing or additional struct or field is also a difference."""
    want = [line.split("\t")[:2] for line in TABLE.read_text().splitlines()]
    got = [[f"{struct}.{field}", repr(v)] for struct, field, v in defaults(br)]
    for line in want:
        assert line in got, f"options.tsv has {line}"
    for line in got:
        assert line in want, f"the library has {line}, which is not in options.tsv"
    return f"{len(got)} defaults of options"


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("check", "record"):
        sys.exit(__doc__)
    binding = Binding(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "cc")
    if sys.argv[1] == "record":
        record(binding)
    else:
        print(check(binding))
