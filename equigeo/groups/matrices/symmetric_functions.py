"""Functions of symmetric matrices through eigenvalues, with gradients by divided differences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.groups.matrices.check_matrices import values_at_hand
from equigeo.groups.matrices.entire_functions import sinhc_root

# Automatic differentiation of eigenvectors divides by gaps between eigenvalues and gives NaN if two
# are equal. The derivative of the function itself needs only divided differences, which are finite
# everywhere (Daleckii and Krein, "Integration and differentiation of functions of Hermitian
# operators", 1965).

# Of the series of second divided differences. Points lie within 0.2 of their mean for exp and
# within 0.07 of it, relatively, for log: what is left out is below 1e-17.
TERMS = 16


@dataclass(frozen=True)
class ScalarFunction:
    """A function with its first and second divided differences, stable at equal points."""

    name: str  # name in messages
    positive: bool  # whether the domain is the positive numbers
    value: Callable[[Tensor], Tensor]  # f(a)
    first: Callable[[Tensor, Tensor], Tensor]  # f[a, b]
    second: Callable[[Tensor, Tensor, Tensor], Tensor]  # f[a, b, c]


class SpectralFunction(torch.autograd.Function):
    """``f(S) = V f(lambda) V^T`` for exactly symmetric ``S``; twice differentiable."""

    generate_vmap_rule = True

    @staticmethod
    def forward(s: Tensor, f: ScalarFunction) -> tuple[Tensor, Tensor, Tensor]:
        """Return the function with eigenvalues and eigenvectors, which carry no gradient."""
        values, vectors = torch.linalg.eigh(s)
        if f.positive and values_at_hand(s):
            check_positive(f.name, values)
        return (vectors * f.value(values)[..., None, :]) @ vectors.mT, values, vectors

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        """Save the tensors of the derivative."""
        s, ctx.f = inputs
        _, values, vectors = output
        ctx.mark_non_differentiable(values, vectors)
        ctx.save_for_backward(s, values, vectors)

    @staticmethod
    def backward(ctx, grad, *_):  # type: ignore[no-untyped-def]
        """Apply the derivative, which is its own adjoint."""
        return SpectralDerivative.apply(*ctx.saved_tensors, grad, ctx.f), None


class SpectralDerivative(torch.autograd.Function):
    """``Df(S)[G] = V (f[l_i, l_j] o V^T G V) V^T`` for symmetric ``S``; differentiable once."""

    generate_vmap_rule = True

    @staticmethod
    def forward(s: Tensor, values: Tensor, vectors: Tensor, g: Tensor, f: ScalarFunction) -> Tensor:
        """Return the directional derivative; ``s`` is only needed for its gradient."""
        difference = f.first(values[..., :, None], values[..., None, :])
        return vectors @ (difference * (vectors.mT @ g @ vectors)) @ vectors.mT

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        """Save the tensors of the derivative."""
        _, values, vectors, g, ctx.f = inputs
        ctx.save_for_backward(values, vectors, g)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        """Apply the second derivative in ``S``, and the first, which is self-adjoint, in ``G``."""
        values, vectors, g = ctx.saved_tensors
        f, transposed = ctx.f, vectors.mT
        first, second = transposed @ g @ vectors, transposed @ grad @ vectors
        difference = f.first(values[..., :, None], values[..., None, :])
        grad_g = vectors @ (difference * second) @ transposed
        # derivative of f[l_i, l_j] along S: second differences, summed over a third eigenvalue
        triple = f.second(
            values[..., :, None, None], values[..., None, :, None], values[..., None, None, :]
        )
        product = torch.einsum("...ikj,...ik,...kj->...ij", triple, first.mT, second)
        other = torch.einsum("...ikj,...ik,...kj->...ij", triple, second, first.mT)
        grad_s = vectors @ (product + other) @ transposed
        return (grad_s + grad_s.mT) / 2, None, None, grad_g, None


def check_positive(
    name: str,  # name of the function in messages
    values: Tensor,  # (..., n), eigenvalues of each matrix
) -> None:
    """Raise ``ValueError`` if eigenvalues are not positive and finite."""
    values = values.detach()
    low, high = values.amin(-1), values.amax(-1)
    good = (low > 0) & torch.isfinite(high)
    if not bool(good.all()):
        raise ValueError(
            f"{name} needs positive definite matrices: {int((~good).sum())} of {good.numel()} "
            f"are not, the first has eigenvalues {values[~good][0].tolist()}"
        )


def _homogeneous_sum(
    a: Tensor, b: Tensor, c: Tensor, coefficient: Callable[[int], Tensor | float]
) -> Tensor:
    """Return sum_k coefficient(k) h_k(a, b, c), complete homogeneous, for a + b + c = 0."""
    # sum_k h_k t^k = 1 / ((1 - a t)(1 - b t)(1 - c t)), whose denominator has no linear term here
    e2, e3 = a * b + b * c + c * a, a * b * c
    h = [torch.ones_like(e3), torch.zeros_like(e3), -e2]
    total = coefficient(0) * h[0] + coefficient(2) * h[2]
    for k in range(3, TERMS):
        h.append(e3 * h[k - 3] - e2 * h[k - 2])
        total = total + coefficient(k) * h[k]
    return total


def _ordered(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return values in ascending order, and their mean."""
    a, b, c = torch.broadcast_tensors(a, b, c)
    low, middle, high = torch.stack([a, b, c], -1).sort(-1).values.unbind(-1)
    return low, middle, high, (a + b + c) / 3


def _exp_first(a: Tensor, b: Tensor) -> Tensor:
    # (e^a - e^b) / (a - b) = e^m sinh(d) / d with m the mean and d half the difference
    return torch.exp((a + b) / 2) * sinhc_root((a - b).square() / 4)


def _exp_second(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    low, middle, high, mean = _ordered(a, b, c)
    # f[a, b, c] = (f[b, c] - f[a, b]) / (c - a) over the widest gap; where that is small, the
    # Taylor series sum_k h_k(a - m, b - m, c - m) f^(k+2)(m) / (k + 2)! about the mean m
    near = high - low < 0.3
    gap = torch.where(near, 1.0, high - low)
    far = (_exp_first(middle, high) - _exp_first(low, middle)) / gap
    x, y, z = (torch.where(near, value - mean, 0.0) for value in (low, middle, high))
    series = _homogeneous_sum(x, y, z, lambda k: 1 / math.factorial(k + 2))
    return torch.where(near, mean.exp() * series, far)


def _log_first(a: Tensor, b: Tensor) -> Tensor:
    low, high = torch.minimum(a, b), torch.maximum(a, b)
    # log(high / low) / (high - low), from the ratio minus one to keep the digits of small gaps
    x = (high - low) / low
    return torch.where(x > 0, torch.log1p(x) / torch.where(x > 0, x, 1.0), 1.0) / low


def _log_second(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    low, middle, high, mean = _ordered(a, b, c)
    # as for exp, with values relative to the mean: log(s a) differs from log(a) by a constant
    near = high - low < 0.1 * mean
    gap = torch.where(near, 1.0, high - low)
    far = (_log_first(middle, high) - _log_first(low, middle)) / gap
    x, y, z = (torch.where(near, value / mean - 1, 0.0) for value in (low, middle, high))
    series = _homogeneous_sum(x, y, z, lambda k: (-1) ** (k + 1) / (k + 2))
    return torch.where(near, series / mean.square(), far)


def _sqrt_second(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    # sqrt[a, b] = 1 / (sqrt a + sqrt b), and once more the same way: no difference is left
    x, y, z = a.sqrt(), b.sqrt(), c.sqrt()
    return -1 / ((x + y) * (y + z) * (z + x))


EXP = ScalarFunction("spd_exp", False, torch.exp, _exp_first, _exp_second)
LOG = ScalarFunction("spd_log", True, torch.log, _log_first, _log_second)
SQRT = ScalarFunction(
    "spd_sqrt", True, torch.sqrt, lambda a, b: 1 / (a.sqrt() + b.sqrt()), _sqrt_second
)
