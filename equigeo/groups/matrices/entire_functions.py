"""Functions of a squared radius that are smooth through zero, to any order of derivative."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# Coefficients of x^k. The first term that is left out, differentiated twice, is below 1e-16 inside
# the radius (1 for the entire functions, 0.04 for those with a singularity at -1); outside of it
# the closed form has lost few digits to cancellation even after two derivatives.
COSH = [1 / math.factorial(2 * k) for k in range(11)]
SINHC = [1 / math.factorial(2 * k + 1) for k in range(11)]
ASINHC = [(-1) ** k * math.comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(14)]
ATANC = [(-1) ** k / (2 * k + 1) for k in range(14)]


def cosh_root(x: Tensor) -> Tensor:
    """Return ``cosh(sqrt x)``, which is ``cos(sqrt -x)`` for negative ``x``."""

    def closed(x: Tensor) -> Tensor:
        up, down = _roots(x)
        return torch.where(x > 0, up.cosh(), down.cos())

    return _joined(x, COSH, closed, radius=1.0)


def sinhc_root(x: Tensor) -> Tensor:
    """Return ``sinh(sqrt x) / sqrt x``, which is ``sin(sqrt -x) / sqrt -x`` for negative ``x``."""

    def closed(x: Tensor) -> Tensor:
        up, down = _roots(x)
        return torch.where(x > 0, up.sinh() / up, down.sin() / down)

    return _joined(x, SINHC, closed, radius=1.0)


def asinhc_root(x: Tensor) -> Tensor:
    """Return ``asinh(sqrt x) / sqrt x`` for nonnegative ``x``, 1 at zero."""
    return _joined(x, ASINHC, lambda x: x.sqrt().asinh() / x.sqrt(), radius=0.04)


def atanc_root(x: Tensor) -> Tensor:
    """Return ``atan(sqrt x) / sqrt x`` for nonnegative ``x``, 1 at zero."""
    return _joined(x, ATANC, lambda x: x.sqrt().atan() / x.sqrt(), radius=0.04)


def exp_parts(
    mean: Tensor,  # m
    square: Tensor,  # x
) -> tuple[Tensor, Tensor]:
    """Return ``exp(m) cosh(sqrt x)`` and ``exp(m) sinh(sqrt x) / sqrt x`` without overflow."""
    far = square > 1
    root = torch.where(far, square, 1.0).sqrt()
    decay, near = (-2 * root).exp(), torch.where(far, 0.0, square)
    even = torch.where(far, (1 + decay) / 2, cosh_root(near))
    odd = torch.where(far, (1 - decay) / (2 * root), sinhc_root(near))
    factor = (mean + torch.where(far, root, 0.0)).exp()
    return factor * even, factor * odd


def _roots(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return roots of the positive and of the negated negative values, 1 elsewhere."""
    return torch.where(x > 0, x, 1.0).sqrt(), torch.where(x > 0, 1.0, -x).sqrt()


def _joined(
    x: Tensor, series: Sequence[float], closed: Callable[[Tensor], Tensor], *, radius: float
) -> Tensor:
    """Return the series for ``|x|`` below the radius, else the closed form, both differentiable."""
    # both branches are evaluated everywhere, and 0 * NaN would reach the gradient: each gets
    # arguments that are harmless where the other one is taken
    near = x.abs() < radius
    small = torch.where(near, x, 0.0)
    value = torch.full_like(x, series[-1])
    for coefficient in reversed(series[:-1]):
        value = value * small + coefficient
    return torch.where(near, value, closed(torch.where(near, 1.0, x)))
