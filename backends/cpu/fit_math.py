#!/usr/bin/env python3
"""Prints the coefficients of the polynomials in math.h, wide_math.h and special_kernels.h, lowest power first. They are minimax fits,
computed with the Remez exchange algorithm on a fine grid in f64. Needs numpy, and torch for special functions."""
import math

import numpy as np
import torch


def minimax(f, weight, low, high, terms):
    """Returns c that minimizes the maximum of weight(x) |f(x) - sum of c[i] x^i| on [low, high], and
    that maximum."""
    count = 200001
    grid = low + (high - low) * (1 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2
    powers = np.vander(grid, terms, increasing=True)
    wanted, w = f(grid), weight(grid)
    nodes = ((np.arange(terms + 1) + 0.5) / (terms + 1) * (count - 1)).astype(int)
    for _ in range(60):
        alternating = (-1.0) ** np.arange(terms + 1) / w[nodes]
        c = np.linalg.solve(np.column_stack([powers[nodes], alternating]), wanted[nodes])[:terms]
        error = w * (wanted - powers @ c)
        runs = np.split(np.arange(count), np.flatnonzero(np.diff(np.sign(error))) + 1)
        peaks = [run[np.argmax(np.abs(error[run]))] for run in runs]
        while len(peaks) > terms + 1:
            peaks.pop(0 if abs(error[peaks[0]]) < abs(error[peaks[-1]]) else -1)
        if len(peaks) < terms + 1 or peaks == list(nodes):
            break
        nodes = np.array(peaks)
    return c, np.abs(error).max()


def show(name, fit):
    c, error = fit
    print(f"{name}: error {error:.1e}\n   ", ", ".join(f"{np.float32(v):.9g}" for v in c))


def of_torch(function):
    return lambda x: function(torch.from_numpy(x)).numpy()


def series_at_0(series, formula, small):
    """Returns the formula as a function that uses the first terms of its series near 0, where the
    formula would suffer cancellation."""
    away = lambda x: np.where(np.abs(x) < small, small, x)
    return lambda x: np.where(np.abs(x) < small, series(x), formula(away(x)))


erf, log_ndtr = of_torch(torch.special.erf), of_torch(torch.special.log_ndtr)

p = series_at_0(lambda r: 0.5 + r / 6 + r * r / 24, lambda r: (np.expm1(r) - r) / (r * r), 1e-4)
half = math.log(2) / 2 * 1.0001
show("exp(r) = 1 + r + r^2 P(r)", minimax(p, lambda r: r * r / np.exp(r), -half, half, 5))

def log_rest(terms, shift):
    """Returns (log(1 + f) - the terms of its series below f^shift) / f^shift as a function of f."""
    series = lambda f: sum((-1.0) ** (k + 1) * f ** (k - shift) / k for k in range(shift, terms))
    known = lambda f: sum((-1.0) ** (k + 1) * f**k / k for k in range(1, shift))
    return series_at_0(series, lambda f: (np.log1p(f) - known(f)) / f**shift, 0.02)


low, high = math.sqrt(0.5) - 1.0001, math.sqrt(2) - 0.9999
weight = lambda f: np.abs(f * f / log_rest(14, 1)(f))
show("log(1 + f) = f - f^2 / 2 + f^3 P(f)", minimax(log_rest(14, 3), weight, low, high, 8))

p = series_at_0(lambda z: 2 / math.sqrt(math.pi) * (1 - z / 3),
                lambda z: erf(np.sqrt(z)) / np.sqrt(z), 1e-12)
c, error = minimax(p, lambda z: 1 / p(z), 0, 1, 7)
c[0] -= 1
show("erf(x) = x + x P(z), z = x^2, x < 1", (c, error))

tail = lambda t: log_ndtr(-t)
show("log(1 - Phi(t)) = P(t)", minimax(tail, lambda t: np.exp(0.75 * tail(t)), 0, 5, 9))


def show_f64(name, function, low, high, terms):
    """Prints the coefficients of a Chebyshev interpolation, whose relative error is close to the minimum."""
    fit = np.polynomial.Chebyshev.interpolate(function, terms - 1, domain=[low, high])
    grid = np.linspace(low, high, 100001)
    error = np.abs(fit(grid) / function(grid) - 1).max()
    c = fit.convert(kind=np.polynomial.Polynomial).coef
    print(f"{name}: error {error:.1e}\n   ", ", ".join(f"{v:.17g}" for v in c))


log2_part = lambda f: log_rest(14, 1)(f) / math.log(2)
show_f64("log2(1 + f) = f P(f)", log2_part, math.sqrt(0.5) - 1, math.sqrt(2) - 1, 13)
show_f64("2^r = P(r)", np.exp2, -0.5, 0.5, 7)

# ---- wide_math.h: f32 functions in f64 ---------------------------------------------------------

def near_0(series, formula, small):
    """Returns the formula as a function of z >= 0 that uses its series near 0."""
    return lambda z: np.where(z < small, series(z), formula(np.maximum(z, small)))


p = series_at_0(lambda r: 1 + r / 2 + r * r / 6, lambda r: np.expm1(r) / r, 1e-6)
show_f64("exp(r) - 1 = r P(r)", p, -half, half, 8)
show_f64("log(1 + f) = f P(f)", log_rest(14, 1), math.sqrt(0.5) - 1, math.sqrt(2) - 1, 13)
quarter = (math.pi / 4) ** 2 * 1.0001
root = np.sqrt
p = near_0(lambda z: -1 / 6 + z / 120, lambda z: (np.sin(root(z)) / root(z) - 1) / z, 1e-4)
show_f64("sin r = r + r z P(z), z = r^2", p, 0, quarter, 5)
p = near_0(lambda z: -0.5 + z / 24, lambda z: (np.cos(root(z)) - 1) / z, 1e-4)
show_f64("cos r = 1 + z P(z)", p, 0, quarter, 5)
p = near_0(lambda z: 1 / 6 + z * 3 / 40, lambda z: (np.arcsin(root(z)) / root(z) - 1) / z, 1e-4)
show_f64("asin s = s + s z P(z), z = s^2", p, 0, 0.25, 10)
p = near_0(lambda z: -1 / 3 + z / 5, lambda z: (np.arctan(root(z)) / root(z) - 1) / z, 1e-4)
show_f64("atan t = t + t z P(z), z = t^2", p, 0, (math.sqrt(2) - 1) ** 2 * 1.0001, 7)
scaled = of_torch(torch.special.erfcx)
show_f64("erfc t = u P(u) exp(-t^2), u = 2 / (2 + t)", lambda u: scaled(2 / u - 2) / u, 2 / 12.2, 1, 13)
p = near_0(lambda z: np.pi * (1 - np.pi**2 * z / 6), lambda z: np.sin(np.pi * root(z)) / root(z), 1e-12)
show_f64("sin(pi r) = r P(r^2)", p, 0, 0.25, 6)


def lgamma_part(d):
    """Returns log gamma(x) / ((x - 1) (x - 2)) for x = d + 1.625, by its Taylor series near the roots."""
    x = np.asarray(d) + 1.625
    lgamma, digamma = of_torch(torch.lgamma), of_torch(torch.digamma)
    trigamma = lambda v: torch.polygamma(1, torch.tensor(v, dtype=torch.float64)).item()
    at = lambda root, other: (digamma(np.array([root])) + (x - root) / 2 * trigamma(root)) / (x - other)
    near_1, near_2 = np.abs(x - 1) < 1e-5, np.abs(x - 2) < 1e-5
    away = np.where(near_1 | near_2, 1.5, x)
    value = lgamma(away) / ((away - 1) * (away - 2))
    return np.where(near_1, at(1.0, 2), np.where(near_2, at(2.0, 1), value))


show_f64("log gamma(x) = (x - 1) (x - 2) P(x - 1.625)", lgamma_part, -0.875, 0.875, 15)
