#!/usr/bin/env python3
"""record_layers.py [NAME...]

Writes recorded/NAME.safetensors for test_recorded_layers.c: each model named, or all of them. The last
digits depend on the CPU, so name the new models only. A file holds a torch.nn model's initial state
("initial/..."), its input and target, the losses of some steps of SGD, the state after them ("after/...")
and the output in eval mode ("eval")."""
import pathlib
import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HERE = pathlib.Path(__file__).parent / "recorded"
STEPS = 4


def record(name, build, *sizes, forward=None):
    if sys.argv[1:] and name not in sys.argv[1:]:
        return
    forward = forward or (lambda model, x: model(x))
    torch.manual_seed(11)
    model = build()
    tensors = {"initial/" + k: v.clone() for k, v in model.state_dict().items()}
    x = torch.randn(*sizes)
    target = torch.randn_like(forward(model.eval(), x))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(forward(model.train(), x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    tensors |= {"input": x, "target": target, "losses": torch.tensor(losses, dtype=torch.float64)}
    tensors |= {"after/" + k: v.clone() for k, v in model.state_dict().items()}
    tensors["eval"] = forward(model.eval(), x).detach()
    save_file({k: v.contiguous() for k, v in tensors.items()}, HERE / f"{name}.safetensors")


record("vision", lambda: nn.Sequential(
    nn.Conv2d(2, 6, (3, 2), padding=(1, 0), bias=False), nn.BatchNorm2d(6), nn.ReLU(),
    nn.MaxPool2d(2, padding=1), nn.Conv2d(6, 4, 3, stride=2, padding=2, dilation=2, groups=2),
    nn.GroupNorm(2, 4), nn.SiLU(), nn.ConvTranspose2d(4, 3, 2, stride=2, output_padding=1),
    nn.LeakyReLU(0.1), nn.AvgPool2d((2, 3), stride=1), nn.AdaptiveAvgPool2d((2, 1)), nn.Flatten(),
    nn.Linear(6, 5), nn.BatchNorm1d(5, eps=1e-3, momentum=0.3), nn.ELU(0.5)), 3, 2, 7, 8)
record("series", lambda: nn.Sequential(
    nn.Conv1d(3, 4, 3, padding="same", padding_mode="zeros"), nn.BatchNorm1d(4, momentum=None),
    nn.GELU("tanh"), nn.MaxPool1d(3, stride=2, ceil_mode=True),
    nn.ConvTranspose1d(4, 4, 3, groups=2), nn.BatchNorm1d(4, track_running_stats=False),
    nn.Softplus(2), nn.AvgPool1d(2, padding=1, count_include_pad=False), nn.Identity(),
    nn.AdaptiveAvgPool1d(6), nn.RMSNorm(6), nn.GroupNorm(1, 4, affine=False), nn.Sigmoid(),
    nn.RMSNorm(6, eps=0.1), nn.Tanh(), nn.LogSoftmax(1), nn.Softmax(-1)), 2, 3, 11)
record("norms", lambda: nn.Sequential(
    nn.LayerNorm((3, 4)), nn.Linear(4, 4), nn.LayerNorm(4, eps=0.1, bias=False), nn.RMSNorm((3, 4)),
    nn.Linear(4, 4), nn.LayerNorm(4, elementwise_affine=False), nn.Linear(4, 4),
    nn.RMSNorm(4, elementwise_affine=False)), 2, 3, 4)
record("activations", lambda: nn.Sequential(
    nn.Linear(4, 8), nn.PReLU(), nn.Softshrink(0.01), nn.Hardswish(), nn.Linear(8, 8), nn.GLU(),
    nn.SELU(), nn.Linear(4, 4), nn.CELU(0.5), nn.Mish(), nn.Linear(4, 4), nn.PReLU(4, init=0.1),
    nn.Softsign(), nn.Hardtanh(-0.5, 0.6), nn.Linear(4, 4), nn.Tanhshrink(), nn.LogSigmoid(),
    nn.Linear(4, 4), nn.Threshold(-2, 0.3), nn.Hardshrink(0.01), nn.ReLU6(), nn.Linear(4, 4),
    nn.Hardsigmoid()), 6, 4)
record("instance_norms", lambda: nn.Sequential(
    nn.InstanceNorm3d(2, affine=True, track_running_stats=True), nn.BatchNorm3d(2, eps=1e-2),
    nn.Flatten(3), nn.InstanceNorm2d(2, momentum=0.3, track_running_stats=True), nn.Flatten(2),
    nn.InstanceNorm1d(2, eps=1e-3, affine=True)), 3, 2, 4, 3, 2)
record("volumes", lambda: nn.Sequential(
    nn.Conv3d(2, 4, (2, 3, 2), padding=(1, 0, 1), groups=2), nn.Tanh(),
    nn.MaxPool3d((2, 1, 2), stride=1), nn.ConvTranspose3d(4, 2, (1, 2, 3), stride=(1, 2, 1), bias=False),
    nn.AvgPool3d(2, stride=1), nn.AdaptiveAvgPool3d((2, 1, 3))), 2, 2, 4, 5, 3)
record("images", lambda: nn.Sequential(
    nn.ReflectionPad2d((1, 2, 0, 1)), nn.Conv2d(2, 8, 2), nn.PixelShuffle(2),
    nn.ReplicationPad2d((0, 1, 2, 1)), nn.ZeroPad2d((0, 0, 1, 1)),
    nn.Upsample(scale_factor=(1.5, 2), mode="bilinear"), nn.Conv2d(2, 2, (4, 3)), nn.PixelUnshuffle(2),
    nn.ConstantPad2d((1, 1, 0, 0), 0.5), nn.CircularPad2d((0, 1, 1, 1)),
    nn.Unfold((3, 2), dilation=(1, 2), padding=(0, 1), stride=(2, 1)), nn.Linear(68, 12),
    nn.Fold((5, 5), (2, 3))), 2, 2, 4, 5)
record("adaptive", lambda: nn.Sequential(
    nn.Conv3d(2, 4, 2), nn.AdaptiveMaxPool3d((2, 3, 2)), nn.Flatten(3), nn.LocalResponseNorm(3, 0.5, 0.6, 2.0),
    nn.Conv2d(4, 4, (1, 2)), nn.AdaptiveMaxPool2d((2, 3)), nn.Flatten(2), nn.Linear(6, 12),
    nn.AdaptiveMaxPool1d(6), nn.Unflatten(2, (2, -1)), nn.Softmin(1)), 2, 2, 4, 5, 3)
record("unpool", lambda: nn.ModuleDict({"conv": nn.Conv2d(2, 3, 2), "last": nn.Linear(4, 2)}), 2, 2, 6, 5,
       forward=lambda model, x: model["last"](nn.MaxUnpool2d((2, 3), (2, 1), (1, 1))(
           *nn.functional.max_pool2d(model["conv"](x), (2, 3), (2, 1), (1, 1), return_indices=True),
           output_size=(5, 4))))
record("bilinear", lambda: nn.Bilinear(3, 4, 5), 6, 7,
       forward=lambda model, x: model(x[:, :3], x[:, 3:]))
record("embedding_bag", lambda: nn.EmbeddingBag(10, 4, mode="sum", padding_idx=2), 5, 3,
       forward=lambda model, x: model(torch.arange(15).view(5, 3) % 10, per_sample_weights=x))
record("embedding_bag_max_norm", lambda: nn.EmbeddingBag(10, 4, max_norm=1.5), 5, 4,
       forward=lambda model, x: x * model(torch.arange(15) % 10, torch.tensor([0, 2, 2, 7, 11])))
record("parameter_list", lambda: nn.ModuleDict({
    "first": nn.Linear(3, 2), "scales": nn.ParameterList([torch.ones(2), torch.full((2,), 0.5)])}),
    4, 3, forward=lambda model, x: model["first"](x) * model["scales"][0] + model["scales"][1])


def parametrized():
    """Weight norm and spectral norm with various options, and both on one weight."""
    conv = spectral_norm(nn.Conv2d(2, 4, (3, 2)))
    up = spectral_norm(nn.ConvTranspose2d(4, 3, 2), n_power_iterations=2, eps=1e-3)
    middle = spectral_norm(weight_norm(nn.Linear(18, 6)))
    last = spectral_norm(weight_norm(nn.Linear(6, 5), dim=None), "bias")
    kernels = weight_norm(nn.Conv2d(3, 3, 2), dim=1)
    return nn.Sequential(conv, nn.ReLU(), up, nn.Tanh(), kernels, nn.Flatten(), middle, last)


record("parametrized", parametrized, 3, 2, 4, 4)


def output_and_states(model, x):
    """Returns the output and the last states, flattened and concatenated."""
    y, states = model(x)
    states = states if isinstance(states, tuple) else (states,)
    return torch.cat([t.flatten() for t in (y, *states)])


def with_lengths(model, x):
    """Returns the same for a padded batch of two sequences; the second is two steps shorter."""
    packed = pack_padded_sequence(x, [len(x), len(x) - 2])
    y, states = model(packed)
    states = states if isinstance(states, tuple) else (states,)
    y = pad_packed_sequence(y, total_length=len(x))[0]
    return torch.cat([t.flatten() for t in (y, *states)])


for name, build in {
    "lstm": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True),
    "lstm_plain": lambda: nn.LSTM(3, 5),
    "lstm_projected": lambda: nn.LSTM(3, 5, num_layers=2, proj_size=2, batch_first=True),
    "gru": lambda: nn.GRU(3, 4, num_layers=2, bidirectional=True),
    "gru_no_bias": lambda: nn.GRU(3, 4, bias=False, batch_first=True),
    "rnn": lambda: nn.RNN(3, 4, num_layers=3),
    "rnn_relu": lambda: nn.RNN(3, 4, nonlinearity="relu", bidirectional=True, bias=False),
}.items():
    record(name, build, 5, 2, 3, forward=output_and_states)
for name, build in {
    "lstm_lengths": lambda: nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2),
    "gru_lengths": lambda: nn.GRU(3, 4, bidirectional=True),
    "rnn_lengths": lambda: nn.RNN(3, 4, num_layers=2, bias=False),
}.items():
    record(name, build, 5, 2, 3, forward=with_lengths)


def steps(model, x):
    """Returns all states of a cell that begins with zeros, and the last state of its cells."""
    state, states = None, []
    for row in x:
        state = model(row, state)
        states.append(state[0] if isinstance(state, tuple) else state)
    return torch.cat([*states, state[1]] if isinstance(state, tuple) else states)


for name, build in {
    "lstm_cell": lambda: nn.LSTMCell(3, 4),
    "gru_cell": lambda: nn.GRUCell(3, 4),
    "rnn_cell": lambda: nn.RNNCell(3, 4, bias=False),
    "rnn_cell_relu": lambda: nn.RNNCell(3, 4, nonlinearity="relu"),
}.items():
    record(name, build, 3, 2, 3, forward=steps)
