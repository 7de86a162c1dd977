"""Matrix exponential, entire functions and checks of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode

# Coefficients of x^k. The first term that is left out, differentiated twice, is below 1e-16 inside
# the radius (1 for the entire functions, 0.04 for those with a singularity at -1); outside of it
# the closed form has lost few digits to cancellation even after two derivatives.
COSH = [1 / math.factorial(2 * k) for k in range(11)]
SINHC = [1 / math.factorial(2 * k + 1) for k in range(11)]
ASINHC = [(-1) ** k * math.comb(2 * k, k) / (4**k * (2 * k + 1)) for k in range(14)]
ATANC = [(-1) ** k / (2 * k + 1) for k in range(14)]
PRECISE = (torch.float32, torch.float64)
# Rounding to bfloat16 changes a rotation by 0.008 at most.
_MOST_DEFECT = 0.02


def matrix_exp(x: Tensor) -> Tensor:
    """Return the exponential of square matrices (..., n, n), in their dtype.

    Unlike :func:`torch.linalg.matrix_exp`, precise for a single matrix.

    Examples
    --------
    >>> import math
    >>> import torch
    >>> turn = matrix_exp(torch.tensor([[0.0, -0.04], [0.04, 0.0]], dtype=torch.float64))
    >>> abs(turn[0, 0].item() - math.cos(0.04)) < 1e-15
    True
    """
    if x.shape[:-2].numel() != 1:
        return torch.linalg.matrix_exp(x)
    # The polynomial of degree 8 for a single small matrix has a wrong coefficient (PyTorch issue
    # 196592; errors of 1e-10 in float64, 2e-5 in float32). Batches are computed otherwise.
    return torch.linalg.matrix_exp(torch.stack([x, x]))[0]


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


def check_precision(
    name: str,  # name of the tensor in messages
    x: Tensor,
) -> None:
    """Raise ``ValueError`` if a dtype is too coarse for decompositions: not float32 or float64."""
    if x.dtype not in PRECISE:
        raise ValueError(f"{name} must be float32 or float64, got {x.dtype}: convert it first")


def values_at_hand(x: Tensor) -> bool:
    """Return whether tensor values can be read: not while tracing, transforming or on meta."""
    recorded = torch.compiler.is_compiling() or get_proxy_mode() is not None
    return not (recorded or x.is_meta or torch._C._are_functorch_transforms_active())


def check_square(
    name: str,  # name of the tensor in messages
    x: Tensor,
) -> None:
    """Raise ``ValueError`` if a tensor is not (..., n, n) in float32 or float64."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] == 0:
        raise ValueError(f"{name} must be (..., n, n), got {tuple(x.shape)}")
    check_precision(name, x)


def check_proper(
    name: str,  # name of the matrices in messages
    g: Tensor,  # (..., n, n)
) -> None:
    """Raise ``ValueError`` for determinants that are not positive; skipped without values."""
    if not values_at_hand(g):
        return
    g = g.detach()
    # Relative to the product of row lengths (Hadamard), so that thin but regular matrices pass.
    rows = unit_rows(g)
    lengths = torch.linalg.vector_norm(rows, dim=-1)
    unit = rows / lengths[..., None]
    # rounding of a determinant of unit rows is about n eps; twice that is taken for zero
    bound = 2 * g.shape[-1] * torch.finfo(g.dtype).eps
    good = torch.isfinite(lengths).all(-1) & (determinant(unit) > bound)
    if not bool(good.all()):
        bad = g[~good][0]
        raise ValueError(
            f"{name} must have positive determinant: {int((~good).sum())} of {good.numel()} "
            f"are singular, improper or not finite, the first is {bad.tolist()}"
        )


def check_orthogonal(
    name: str,  # name of the matrices in messages
    g: Tensor,  # (..., n, n)
) -> None:
    """Raise ``ValueError`` if matrices are not orthogonal up to 0.02; skipped without values."""
    if not values_at_hand(g):
        return
    good = orthogonality_defect(g.detach()) <= _MOST_DEFECT
    if not bool(good.all()):
        raise ValueError(
            f"{name} must be orthogonal: {int((~good).sum())} of {good.numel()} are not, "
            f"the first is {g.detach()[~good][0].tolist()}"
        )


def unit_rows(
    g: Tensor,  # (..., n, n)
) -> Tensor:
    """Divide rows by powers of two near their largest entries, so that products stay in range."""
    largest = g.detach().abs().amax(-1, keepdim=True)
    usable = torch.isfinite(largest) & (largest > 0)
    exponent = torch.where(usable, largest, 1).log2().floor()
    # In two steps, as the inverse of the smallest number is infinite.
    half = (exponent / 2).floor()
    return torch.where(usable, g / half.exp2() / (exponent - half).exp2(), g)


def scale_of(g: Tensor) -> Tensor:
    """Return powers of two near the largest magnitudes (..., 1, 1) of matrices, as constants."""
    normal = torch.finfo(g.dtype).tiny, torch.finfo(g.dtype).max / 2
    largest = g.detach().abs().amax((-2, -1), keepdim=True)
    return torch.where(largest > 0, largest.clamp(*normal).log2().floor().exp2(), 1)


def determinant(g: Tensor) -> Tensor:  # (..., n, n) to (...)
    """Return determinants, in closed form for ``n = 2`` and ``n = 3``."""
    if g.shape[-1] == 2:
        return g[..., 0, 0] * g[..., 1, 1] - g[..., 0, 1] * g[..., 1, 0]
    if g.shape[-1] == 3:
        return (g[..., 0, :] * torch.linalg.cross(g[..., 1, :], g[..., 2, :])).sum(-1)
    return torch.linalg.det(g)


def orthogonality_defect(
    g: Tensor,  # (..., n, n)
) -> Tensor:  # (...)
    """Return the largest entry of ``g^T g - 1``."""
    identity = torch.eye(g.shape[-1], dtype=g.dtype, device=g.device)
    return (g.mT @ g - identity).abs().amax((-2, -1))


def symmetric_part(
    x: Tensor,  # (..., n, n)
) -> Tensor:
    """Return the mean of a matrix and its transpose, exactly symmetric."""
    return (x + x.mT) / 2


def full_precision(x: Tensor) -> AbstractContextManager[object]:
    """Return a context that disables autocast on the device of ``x``."""
    # PyTorch 2.11 cannot trace torch.amp.is_autocast_available.
    if x.device.type == "meta":
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)
