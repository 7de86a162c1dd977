"""Polar decomposition, and functions of symmetric matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.groups.algebra import (
    asinhc_root,
    check_proper,
    check_square,
    determinant,
    exp_parts,
    full_precision,
    hat,
    scale_of,
    sinhc_root,
    symmetric_part,
    values_at_hand,
    vee,
)

NEWTON_STEPS = 10  # the scaled iteration needs 8 at condition number 600, 10 at 1e10
# Automatic differentiation of eigenvectors divides by gaps between eigenvalues and gives NaN if two
# are equal. The derivative of the function itself needs only divided differences, which are finite
# everywhere (Daleckii and Krein, "Integration and differentiation of functions of Hermitian
# operators", 1965).

# Of the series of second divided differences. Points lie within 0.2 of their mean for exp and
# within 0.07 of it, relatively, for log: what is left out is below 1e-17.
TERMS = 16


def polar(g: Tensor) -> tuple[Tensor, Tensor]:
    """Return the left polar decomposition :math:`g = P R` of matrices of positive determinant.

    ``P`` is symmetric and positive definite, ``R`` the nearest rotation, both with the shape and
    dtype of ``g``. Differentiable to any order, also where ``P`` has equal eigenvalues. Closed form
    for ``n = 2``, Newton's iteration (Higham, "Functions of Matrices", 2008, chapter 8) otherwise.
    For rotations k: ``polar(k g)`` is ``(k p k^T, k r)`` and ``polar(g k)`` is ``(p, r k)``.

    Parameters
    ----------
    g : Tensor, (..., n, n), float32 or float64
        A determinant that is not positive raises ``ValueError``.

    Examples
    --------
    >>> p, r = polar(torch.tensor([[0.0, -2.0], [3.0, 0.0]]))
    >>> p.diagonal(), r.tolist()
    (tensor([2., 3.]), [[0.0, -1.0], [1.0, 0.0]])
    """
    check_square("g", g)
    check_proper("g", g)
    with full_precision(g):
        # The rotation has no scale, so that its derivatives need none of a constant divisor.
        unit = g / scale_of(g)
        r = _planar_rotation(unit) if g.shape[-1] == 2 else PolarRotation.apply(unit)
        return symmetric_part(g @ r.mT), r


def spd_exp(y: Tensor) -> Tensor:
    """Return the exponential of symmetric matrices, which is positive definite."""
    check_square("y", y)
    with full_precision(y):
        if y.shape[-1] != 2:
            return SpectralFunction.apply(symmetric_part(y), EXP)[0]
        mean, deviation, square = _planar_parts(symmetric_part(y))
        identity = torch.eye(2, dtype=y.dtype, device=y.device)
        # deviation^2 = square * 1 (Cayley and Hamilton), so that the series splits by parity
        even, odd = exp_parts(mean, square)
        return even * identity + odd * deviation


def spd_log(p: Tensor) -> Tensor:
    """Return the logarithm of positive definite matrices, the inverse of :func:`spd_exp`."""
    check_square("p", p)
    with full_precision(p):
        if p.shape[-1] != 2:
            return SpectralFunction.apply(symmetric_part(p), LOG)[0]
        p, size, scale = _planar_scales("spd_log", symmetric_part(p))
        _, deviation, square = _planar_parts(p)
        # eigenvalues are scale * exp(+-t) with sinh t = radius / scale: no small difference
        odd = asinhc_root(square / scale.square()) / scale
        logarithm = scale.log() + size.log()
        return logarithm * torch.eye(2, dtype=p.dtype, device=p.device) + odd * deviation


def spd_sqrt(p: Tensor) -> Tensor:
    """Return the positive definite square root of positive definite matrices (..., n, n).

    Takes the symmetric part of float32 or float64 matrices. Twice differentiable, also where
    eigenvalues are equal. Matrices that are not positive definite raise ``ValueError``.

    Examples
    --------
    >>> spd_sqrt(torch.diag(torch.tensor([4.0, 9.0]))).diagonal()
    tensor([2., 3.])
    """
    check_square("p", p)
    with full_precision(p):
        if p.shape[-1] != 2:
            return SpectralFunction.apply(symmetric_part(p), SQRT)[0]
        p, size, scale = _planar_scales("spd_sqrt", symmetric_part(p))
        trace = p.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        identity = torch.eye(2, dtype=p.dtype, device=p.device)
        # r^2 - tr(r) r + det(r) = 0 for the root r, with det r = scale, tr^2 r = tr p + 2 det r
        return size.sqrt() * (p + scale * identity) / (trace + 2 * scale).sqrt()


def _planar_rotation(g: Tensor) -> Tensor:
    # the rotation R that maximizes tr(R^T g), by the angle of these two numbers
    cosine, sine = g[..., 0, 0] + g[..., 1, 1], g[..., 1, 0] - g[..., 0, 1]
    length = torch.hypot(cosine, sine)
    cosine, sine = cosine / length, sine / length
    return torch.stack([cosine, -sine, sine, cosine], -1).unflatten(-1, (2, 2))


class PolarRotation(torch.autograd.Function):
    """The rotation nearest to a matrix, with a differentiable gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(g: Tensor) -> Tensor:
        """Iterate on the matrix scaled to unit size, which keeps determinants in range."""
        r = g / torch.linalg.matrix_norm(g, keepdim=True)
        for _ in range(NEWTON_STEPS):
            inverse = _inverse(r).mT
            # norms of r and of its inverse are made equal: far from the limit, plain steps halve
            # the singular values one by one (Frobenius scaling in Higham's book)
            scale = torch.linalg.matrix_norm(inverse) / torch.linalg.matrix_norm(r)
            scale = scale.sqrt()[..., None, None]
            r = (scale * r + inverse / scale) / 2
        return r

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        """Save both factors; the output carries its own derivative in a second pass."""
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        """Solve ``Omega P + P Omega = A - A^T`` with ``A = grad R^T``; the gradient is Omega R."""
        g, r = ctx.saved_tensors
        p, a = symmetric_part(g @ r.mT), grad @ r.mT
        return _solve_skew(p, a - a.mT) @ r


def _solve_skew(p: Tensor, a: Tensor) -> Tensor:
    """Return the skew solution of ``X P + P X = A`` for skew ``A`` and positive definite ``P``."""
    n = p.shape[-1]
    identity = torch.eye(n, dtype=p.dtype, device=p.device)
    if n == 3:  # for X = hat(x) the left side is hat((tr P - P) x)
        trace = p.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None]
        return hat((_inverse(trace * identity - p) @ vee(a)[..., None])[..., 0])
    # in general a linear system for the n^2 entries of X
    system = torch.einsum("...ik,jl->...ijkl", p, identity)
    system = system + torch.einsum("ik,...jl->...ijkl", identity, p)
    system = system.flatten(-2).flatten(-3, -2)
    return torch.linalg.solve(system, a.flatten(-2)).unflatten(-1, (n, n))


def _inverse(g: Tensor) -> Tensor:
    """Return inverses, by cofactors for ``n = 3``: faster for small batches."""
    if g.shape[-1] != 3:
        return torch.linalg.inv(g)
    rows = [g[..., k, :] for k in range(3)]
    columns = [torch.linalg.cross(rows[k - 2], rows[k - 1]) for k in range(3)]
    return torch.stack(columns, -1) / determinant(g)[..., None, None]


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


def _planar_parts(s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return half trace, traceless part and its squared eigenvalue of symmetric (..., 2, 2)."""
    mean = s.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    deviation = s - mean * torch.eye(2, dtype=s.dtype, device=s.device)
    square = deviation[..., :1, :1].square() + deviation[..., :1, 1:].square()
    return mean, deviation, square


def _planar_scales(name: str, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return (..., 2, 2) over a power of two, that power, and the root of the determinant."""
    size = scale_of(p)
    p = p / size
    det = determinant(p)
    if values_at_hand(p):
        mean, _, square = (part[..., 0, 0].detach() for part in _planar_parts(p))
        high = mean + square.sqrt()  # the lower one is det / high: no difference of near numbers
        check_positive(name, torch.stack([det.detach() / high, high], -1))
    return p, size, det.sqrt()[..., None, None]
