#!/usr/bin/env python3
"""option_values.py check LIBRARY [CC] | record

Compares which values of the numeric options are accepted with PyTorch. `record` gives every value to PyTorch's class or
function, runs it once, and prints a table of what PyTorch accepts, to be kept as option_values.tsv; it requires PyTorch.
`check` gives the same values to the library. What PyTorch refuses must be refused with a message that contains the
option's name and the value, and what PyTorch accepts must be accepted. DIFFERENT lists the exceptions with their reasons."""

import ctypes
import math
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from binding import Binding  # noqa: E402

TABLE = pathlib.Path(__file__).with_name("option_values.tsv")
REALS = [-math.inf, -1.0, -1e-3, 0.0, 0.25, 1.0, 1.5, math.inf, math.nan]
COUNTS = [-3, -1, 0, 1, 2, 3, 5]
SIZES = [-3, -1, 1, 2, 3, 5]  # 0 stands for PyTorch's None

# The numeric fields of each struct. A pair of sizes gets the same value twice.
FIELDS = {
    "br_adam": {"lr": REALS, "beta1": REALS, "beta2": REALS, "eps": REALS, "weight_decay": REALS},
    "br_adamw": {"lr": REALS, "beta1": REALS, "beta2": REALS, "eps": REALS, "weight_decay": REALS},
    "br_sgd": {"lr": REALS, "momentum": REALS, "dampening": REALS, "weight_decay": REALS},
    "br_rmsprop": {"lr": REALS, "alpha": REALS, "eps": REALS, "weight_decay": REALS, "momentum": REALS},
    "br_adagrad": {"lr": REALS, "lr_decay": REALS, "weight_decay": REALS, "initial_accumulator_value": REALS,
                   "eps": REALS},
    "br_adadelta": {"lr": REALS, "rho": REALS, "eps": REALS, "weight_decay": REALS},
    "br_adamax": {"lr": REALS, "beta1": REALS, "beta2": REALS, "eps": REALS, "weight_decay": REALS},
    "br_nadam": {"lr": REALS, "beta1": REALS, "beta2": REALS, "eps": REALS, "weight_decay": REALS, "momentum_decay": REALS},
    "br_radam": {"lr": REALS, "beta1": REALS, "beta2": REALS, "eps": REALS, "weight_decay": REALS},
    "br_adafactor": {"lr": REALS, "beta2_decay": REALS, "d": REALS, "weight_decay": REALS},
    "br_rprop": {"lr": REALS, "eta_minus": REALS, "eta_plus": REALS},
    "br_asgd": {"lr": REALS, "lambd": REALS, "alpha": REALS, "t0": REALS, "weight_decay": REALS},
    "br_sparse_adam": {"lr": REALS, "beta1": REALS, "beta2": REALS, "eps": REALS},
    "br_muon": {"lr": REALS, "weight_decay": REALS, "momentum": REALS, "eps": REALS, "ns_steps": COUNTS + [100]},
    "br_one_cycle": {"total_steps": COUNTS, "pct_start": REALS, "max_lr": REALS, "base_momentum": REALS,
                     "max_momentum": REALS, "div_factor": REALS, "final_div_factor": REALS},
    "br_plateau": {"factor": REALS, "patience": COUNTS, "threshold": REALS, "cooldown": COUNTS, "min_lr": REALS,
                   "eps": REALS},
    "br_layer_norm": {"eps": REALS},
    "br_rms_norm": {"eps": REALS},
    "br_group_norm": {"eps": REALS},
    "br_batch_norm": {"eps": REALS, "momentum": REALS},
    "br_instance_norm": {"eps": REALS, "momentum": REALS},
    "br_conv": {"stride": COUNTS, "padding": COUNTS, "dilation": COUNTS, "groups": COUNTS},
    "br_conv_transpose": {"stride": COUNTS, "padding": COUNTS, "dilation": COUNTS, "groups": COUNTS,
                          "output_padding": COUNTS},
    "br_max_pool": {"kernel_size": COUNTS, "stride": COUNTS, "padding": COUNTS, "dilation": COUNTS},
    "br_avg_pool": {"kernel_size": COUNTS, "stride": COUNTS, "padding": COUNTS, "divisor_override": COUNTS},
    "br_cross_entropy": {"ignore_index": COUNTS, "label_smoothing": REALS},
    "br_linear_cross_entropy": {"label_smoothing": REALS},
    "br_triplet": {"margin": REALS, "p": REALS, "eps": REALS},
    "br_loader": {"batch_size": COUNTS, "num_workers": [-3, -1, 0], "prefetch_factor": COUNTS},
    "br_rnn": {"num_layers": COUNTS, "dropout": REALS, "proj_size": COUNTS},
    "br_spectral_norm": {"n_power_iterations": COUNTS, "eps": REALS, "dim": COUNTS},
    "br_multihead_attention": {"dropout": REALS, "kdim": SIZES, "vdim": SIZES},
    "br_transformer": {"dim_feedforward": COUNTS, "dropout": REALS, "layer_norm_eps": REALS},
    "br_attention": {"dropout_p": REALS, "scale": REALS},
    "br_dropout": {"p": REALS},
}
# The structs for the keys above that name a function. br_dropout_new() has no struct: it takes its only option as an
# argument.
STRUCTS = {"br_conv_transpose": "br_conv", "br_max_pool": "br_pool", "br_avg_pool": "br_pool", "br_dropout": None}
# Values that only one of the two accepts, as a pattern of `struct.field value`: the reason.
DIFFERENT = {
    r".* nan": "PyTorch does not compare with NaN, so it trains with it",
    r".*\.(layer_norm_)?eps -.*": "the root of a negative number is NaN; as a bound it has no effect",
    r"br_one_cycle\.\w+ (-.*|inf)": "the rates or momenta would be negative, infinite or NaN",
    r"br_one_cycle\.(base|max)_momentum 1.*": "Adam's first beta must be less than 1",
    r"br_plateau\.factor -.*": "the rate would be negative",
    r"br_plateau\.(patience|cooldown|min_lr) -.*": "has the effect of 0, or of no scheduler",
    r"br_muon\.ns_steps -.*": "has the effect of 0",
    r"br_(max|avg)_pool\.stride 0": "the kernel's size, which is what PyTorch's None means",
    r"br_avg_pool\.divisor_override 0": "no divisor, which is what PyTorch's None means",
    r"br_multihead_attention\.dropout -.*": "has the effect of 0, though nn.Dropout refuses it",
    r"br_(linear_)?cross_entropy\.label_smoothing -.*": "has the effect of 0",
}


def different(case):
    return [pattern for pattern in DIFFERENT if re.fullmatch(pattern, case)]


# ---- PyTorch --------------------------------------------------------------------------------------


def theirs(struct, field, value):
    """Makes and uses PyTorch's object with one option given."""
    import torch
    from torch import nn
    x = torch.linspace(-1, 1, 2 * 4 * 6).reshape(2, 4, 6).requires_grad_()
    image = torch.linspace(-1, 1, 2 * 4 * 7 * 7).reshape(2, 4, 7, 7).requires_grad_()
    layer = nn.Linear(3, 2)
    o = {field: value}

    def run(module, *inputs):
        out = module(*inputs)
        (out[0] if isinstance(out, tuple) else out).sum().backward()

    def step(make):
        if field in ("beta1", "beta2"):
            o.pop(field)
            o["betas"] = (value, 0.999) if field == "beta1" else (0.9, value)
        if field.startswith("eta_"):
            o.pop(field)
            o["etas"] = (value, 1.2) if field == "eta_minus" else (0.5, value)
        optim = make([layer.weight], **o)
        layer(torch.ones(1, 3)).sum().backward()
        if make is torch.optim.SparseAdam:
            layer.weight.grad = layer.weight.grad.to_sparse()
        optim.step()
        optim.step()

    def schedule(make, *metric, **more):
        scheduler = make(torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9), **{**more, **o})
        for _ in range(2):
            scheduler.step(*metric)

    def norm(make, *arguments):
        run(make(*arguments, **o), x)

    def pool(make):
        run(make(**{"kernel_size": 2, **o}), image)

    def load():
        data = torch.utils.data.TensorDataset(torch.arange(10.))
        if field == "prefetch_factor":
            o["num_workers"] = 1
        for _ in torch.utils.data.DataLoader(data, **o):
            pass

    {
        "br_adam": lambda: step(torch.optim.Adam),
        "br_adamw": lambda: step(torch.optim.AdamW),
        "br_sgd": lambda: step(torch.optim.SGD),
        "br_rmsprop": lambda: step(torch.optim.RMSprop),
        "br_adagrad": lambda: step(torch.optim.Adagrad),
        "br_adadelta": lambda: step(torch.optim.Adadelta),
        "br_adamax": lambda: step(torch.optim.Adamax),
        "br_nadam": lambda: step(torch.optim.NAdam),
        "br_radam": lambda: step(torch.optim.RAdam),
        "br_rprop": lambda: step(torch.optim.Rprop),
        "br_adafactor": lambda: step(torch.optim.Adafactor),
        "br_asgd": lambda: step(torch.optim.ASGD),
        "br_sparse_adam": lambda: step(torch.optim.SparseAdam),
        "br_muon": lambda: step(torch.optim.Muon),
        "br_one_cycle": lambda: schedule(torch.optim.lr_scheduler.OneCycleLR, max_lr=0.1, total_steps=10),
        "br_plateau": lambda: schedule(torch.optim.lr_scheduler.ReduceLROnPlateau, 1.0),
        "br_layer_norm": lambda: norm(nn.LayerNorm, 6),
        "br_rms_norm": lambda: norm(nn.RMSNorm, 6),
        "br_group_norm": lambda: norm(nn.GroupNorm, 2, 4),
        "br_batch_norm": lambda: norm(nn.BatchNorm1d, 4),
        "br_instance_norm": lambda: norm(nn.InstanceNorm1d, 4),
        "br_conv": lambda: run(nn.Conv2d(4, 6, 3, **o), image),
        "br_conv_transpose": lambda: run(nn.ConvTranspose2d(4, 6, 3, **o), image),
        "br_max_pool": lambda: pool(nn.MaxPool2d),
        "br_avg_pool": lambda: pool(nn.AvgPool2d),
        "br_cross_entropy": lambda: run(nn.CrossEntropyLoss(**o), x[0], torch.tensor([1, 0, 5, 2])),
        "br_linear_cross_entropy": lambda: run(nn.LinearCrossEntropyLoss(6, 6, **o), x[0], torch.tensor([1, 0, 5, 2])),
        "br_triplet": lambda: run(nn.TripletMarginLoss(**o), x[0], x[1], 2 * x[1]),
        "br_loader": load,
        "br_rnn": lambda: run(nn.LSTM(6, 4, **o), x),
        "br_spectral_norm": lambda: run(nn.utils.parametrizations.spectral_norm(layer, **o), torch.ones(1, 3)),
        "br_multihead_attention": lambda: run(nn.MultiheadAttention(6, 2, **o), x, *(
            x if name not in o else torch.ones(2, 4, max(value, 0)) for name in ("kdim", "vdim"))),
        "br_transformer": lambda: run(nn.TransformerEncoderLayer(6, 2, **o), x),
        "br_attention": lambda: run(lambda: nn.functional.scaled_dot_product_attention(x, x, x, **o)),
        "br_dropout": lambda: run(nn.Dropout(value), x),
    }[struct]()


def record():
    import warnings
    warnings.simplefilter("ignore")
    for struct, fields in FIELDS.items():
        for field, values in fields.items():
            for value in values:
                try:
                    theirs(struct, field, value)
                    verdict = "accepted"
                except (ValueError, RuntimeError, IndexError, AssertionError, ArithmeticError):
                    verdict = "refused"
                print(f"{struct}.{field} {value}\t{verdict}")


# ---- Brasa ----------------------------------------------------------------------------------------


class Library:
    def __init__(self, br):
        self.br = br

    def sizes(self, *sizes):
        return len(sizes), (ctypes.c_int64 * len(sizes))(*sizes)

    def linspace(self, *sizes):
        x = self.br.br_linspace(-1, 1, math.prod(sizes), self.br.BR_F32)
        return self.br.br_set_requires_grad(self.br.br_reshape(x, *self.sizes(*sizes)), True)

    def options(self, struct, field, value):
        made = getattr(self.br, STRUCTS.get(struct, struct) + "_defaults")()
        if struct == "br_one_cycle":
            made.max_lr, made.total_steps = 0.1, 10
        if struct in ("br_max_pool", "br_avg_pool"):
            made.kernel_size = self.br.br_pair(2, 2)
        is_pair = isinstance(getattr(made, field), self.br.br_pair)
        setattr(made, field, self.br.br_pair(value, value) if is_pair else value)
        return made

    def use(self, struct, field, value):
        """Makes and uses the object with one option given. Returns the error's message, or None."""
        br = self.br
        scope = br.br_scope_begin()
        layer = br.br_linear_new(3, 2, struct != "br_muon")  # Muon optimizes matrices only
        made = [layer]  # to be freed
        x, image = self.linspace(2, 4, 6), self.linspace(2, 4, 7, 7)
        options = self.options(struct, field, value) if STRUCTS.get(struct, struct) else None
        o = ctypes.byref(options) if options else None

        def keep(module):
            made.append(module)
            return module

        def run(out):
            br.br_backward(br.br_sum(out))

        def step(make):
            optim = make(layer, o)
            run(br.br_linear_forward(layer, br.br_ones(*self.sizes(1, 3), br.BR_F32)))
            br.br_optim_step(optim)
            br.br_optim_step(optim)
            br.br_optim_free(optim)

        def scheduler(make, advance, *metric):
            sgd = br.br_sgd_defaults()
            sgd.lr, sgd.momentum = 0.1, 0.9
            optim = br.br_sgd(layer, ctypes.byref(sgd))
            s = make(optim, o)
            for _ in range(2):
                advance(s, *metric)
            br.br_scheduler_free(s)
            br.br_optim_free(optim)

        def load():
            fields = (ctypes.c_void_p * 1)(br.br_arange(0, 10, 1, br.BR_F32))
            data = br.br_tensor_dataset_new(1, fields)
            if field == "prefetch_factor":
                options.num_workers = 1
            loader = br.br_loader_new(data, o)
            br.br_loader_begin(loader)
            while not br.br_failed() and br.br_loader_next(loader, fields):
                pass
            br.br_loader_free(loader)
            br.br_dataset_free(data)

        def spectral():
            weight = ctypes.c_void_p.from_address(layer + br.br_linear.weight.offset)
            if br.br_spectral_norm(layer, b"weight", ctypes.byref(weight), o):
                run(br.br_linear_forward(layer, br.br_ones(*self.sizes(1, 3), br.BR_F32)))

        def attend():
            width = [br.br_ones(*self.sizes(2, 4, max(value, 0)), br.BR_F32) if field == name else x
                     for name in ("kdim", "vdim")]
            run(br.br_multihead_attention_forward(
                keep(br.br_multihead_attention_new(6, 2, o)), x, width[0], width[1], None))

        def target():
            return br.br_from_data(*self.sizes(4), br.BR_I64, (ctypes.c_int64 * 4)(1, 0, 5, 2))

        def half(i):
            return br.br_select(x, 0, i)

        {
            "br_adam": lambda: step(br.br_adam),
            "br_adamw": lambda: step(br.br_adamw),
            "br_sgd": lambda: step(br.br_sgd),
            "br_rmsprop": lambda: step(br.br_rmsprop),
            "br_adagrad": lambda: step(br.br_adagrad),
            "br_adadelta": lambda: step(br.br_adadelta),
            "br_adamax": lambda: step(br.br_adamax),
            "br_nadam": lambda: step(br.br_nadam),
            "br_radam": lambda: step(br.br_radam),
            "br_rprop": lambda: step(br.br_rprop),
            "br_adafactor": lambda: step(br.br_adafactor),
            "br_asgd": lambda: step(br.br_asgd),
            "br_sparse_adam": lambda: step(br.br_sparse_adam),
            "br_muon": lambda: step(br.br_muon),
            "br_one_cycle": lambda: scheduler(br.br_one_cycle_lr, br.br_scheduler_step),
            "br_plateau": lambda: scheduler(br.br_reduce_lr_on_plateau, br.br_scheduler_step_metric, 1.0),
            "br_layer_norm": lambda: run(br.br_layer_norm_forward(keep(br.br_layer_norm_new(6, o)), x)),
            "br_rms_norm": lambda: run(br.br_rms_norm_forward(keep(br.br_rms_norm_new(6, o)), x)),
            "br_group_norm": lambda: run(br.br_group_norm_forward(keep(br.br_group_norm_new(2, 4, o)), x)),
            "br_batch_norm": lambda: run(br.br_batch_norm_forward(keep(br.br_batch_norm1d_new(4, o)), x)),
            "br_instance_norm": lambda: run(br.br_instance_norm_forward(keep(br.br_instance_norm1d_new(4, o)), x)),
            "br_conv": lambda: run(br.br_conv_forward(keep(br.br_conv2d_new(4, 6, 3, 3, True, o)), image)),
            "br_conv_transpose": lambda: run(
                br.br_conv_forward(keep(br.br_conv_transpose2d_new(4, 6, 3, 3, True, o)), image)),
            "br_max_pool": lambda: run(br.br_f_max_pool2d(image, o, None)),
            "br_avg_pool": lambda: run(br.br_f_avg_pool2d(image, o)),
            "br_cross_entropy": lambda: run(br.br_cross_entropy(half(0), target(), o)),
            "br_linear_cross_entropy": lambda: run(
                br.br_linear_cross_entropy(half(0), br.br_ones(*self.sizes(6, 6), br.BR_F32), target(), o)),
            "br_triplet": lambda: run(br.br_triplet_margin_loss(half(0), half(1), br.br_mul_scalar(half(1), 2), o,
                                                                br.BR_REDUCTION_MEAN)),
            "br_loader": load,
            "br_rnn": lambda: run(br.br_rnn_forward(keep(br.br_lstm_new(6, 4, o)), x, None, None, None, None)),
            "br_spectral_norm": spectral,
            "br_multihead_attention": attend,
            "br_transformer": lambda: run(br.br_transformer_encoder_layer_forward(
                keep(br.br_transformer_encoder_layer_new(6, 2, o)), x, None, None, False)),
            "br_attention": lambda: run(br.br_scaled_dot_product_attention(x, x, x, None, o)),
            "br_dropout": lambda: run(br.br_dropout_forward(keep(br.br_dropout_new(value)), x)),
        }[struct]()
        message = br.br_error_message().decode() if br.br_failed() else None
        br.br_clear_error()
        for module in reversed(made):
            br.br_module_free(module)
        br.br_scope_end(scope)
        br.br_clear_error()
        return message


def number_is_named(message, value):
    shown = {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan" if math.isnan(value) else f"{value:g}")
    return re.search(rf"(?<![\w.]){re.escape(shown)}(?![\w.]*\w)", message) is not None


def check(br):
    library, wrong, unused, lines = Library(br), [], set(DIFFERENT), TABLE.read_text().splitlines()
    given = [f"{s}.{f} {v}" for s, fields in FIELDS.items() for f, values in fields.items() for v in values]
    assert [line.split("\t")[0] for line in lines] == given, "option_values.tsv has other values than FIELDS: record it again"
    for line in lines:
        case, verdict = line.split("\t")
        place, text = case.split(" ")
        struct, field = place.split(".")
        value = float(text) if FIELDS[struct][field][0] == -math.inf else int(text)
        message = library.use(struct, field, value)
        differs = (message is None) != (verdict == "accepted")
        if differs:
            unused.difference_update(different(case))
        if differs and not different(case):
            wrong.append(f"{case}: PyTorch {verdict} it; Brasa: {message or 'accepted'}")
        elif message and not (field in message and number_is_named(message, value)):
            wrong.append(f"{case}: the message does not name the option and its value: {message}")
    wrong += [f"DIFFERENT has '{pattern}', but no such value differs" for pattern in unused]
    if wrong:
        sys.exit("\n".join(wrong))
    return f"{len(lines)} values of options"


if __name__ == "__main__":
    if sys.argv[1:] == ["record"]:
        record()
    elif len(sys.argv) >= 3 and sys.argv[1] == "check":
        print(check(Binding(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "cc")))
    else:
        sys.exit(__doc__)
