"""Shared implementation of the function and the module of spherical harmonics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from equigeo._integers import checked_integer
from equigeo.ops.runtime.checks import check_tensor
from equigeo.ops.sphere.spherical_harmonics import spherical_harmonics_op
from equigeo.reps import Irreps
from equigeo.tensor_products.sphere.basis import Basis, basis_scale
from equigeo.tensor_products.sphere.legendre import legendre_coefficients


def read_harmonic_degrees(
    l: int | Iterable[Any] | str,  # degrees, or irreps of degrees
    # 1o or 1e; by default 1e if an odd degree is even
    irreps_in: Iterable[Any] | str | None = None,
) -> tuple[Irreps, list[int]]:
    """Return the vector irrep and one degree per copy, by the rules of e3nn."""
    terms: list[Any] = [l] if isinstance(l, (int, Integral, str)) else list(l)
    irreps = Irreps(l) if terms and not isinstance(terms[0], Integral) else None  # type: ignore[arg-type]
    if irreps_in is None:
        odd = irreps is None or all(p < 0 for _, (l, p) in irreps.terms if l % 2)
        irreps_in = "1o" if odd else "1e"
    vector = Irreps(irreps_in)
    if vector.terms not in (((1, (1, -1)),), ((1, (1, 1)),)):
        raise ValueError(f"irreps_in must be a vector, 1o, or a pseudovector, 1e, got {vector}")
    if irreps is None:
        degrees = [checked_integer("degree", degree) for degree in terms]
    else:
        parity = vector.terms[0][1][1]
        for _, (degree, p) in irreps.terms:
            if p != parity**degree:
                raise ValueError(
                    f"irreps_out must have the parity {parity**degree} at degree {degree}, for "
                    f"irreps_in is {vector}, got {irreps}"
                )
        degrees = [degree for mul, (degree, _) in irreps.terms for _ in range(mul)]
    if not degrees or min(degrees) < 0:
        raise ValueError(f"expected at least one degree and none negative, got {l}")
    return vector, degrees


def harmonics_table(lmax: int, normalization: Basis) -> Tensor:  # (6, lmax + 1, lmax + 1), float64
    """Return the coefficients for the op of spherical harmonics, by order and degree."""
    # By order and then degree, as the kernel walks through them.
    up, down, start = legendre_coefficients(lmax).transpose(1, 2)
    l = torch.arange(lmax + 1, dtype=torch.float64, device="cpu")
    m = l[:, None]
    slope = (2 * l + 1) / (2 * l - 1) * (m <= l)
    # Derivatives are harmonics of one degree less: d/dy keeps the order, d/dz +- i d/dx change it
    # by one. The norms of degrees l and l - 1 enter by the ratio of 2 l + 1 and 2 l - 1.
    along = (slope * (l - m) * (l + m)).clamp(min=0).sqrt()
    raised = -(slope * (l - m) * (l - m - 1)).clamp(min=0).sqrt()
    lowered = (slope * (l + m) * (l + m - 1)).clamp(min=0).sqrt()
    # Real harmonics of order zero have half the square of the others' real and imaginary parts.
    raised[:1] *= math.sqrt(0.5)
    lowered[1:2] *= math.sqrt(2)
    # Recursions reach one and two degrees back, derivatives one: ratios of the scales there.
    scales = [basis_scale("normalization", normalization, max(0, k)) for k in range(-2, lmax + 1)]
    scale = torch.tensor(scales, dtype=torch.float64, device="cpu")
    once, twice = scale[2:] / scale[1:-1], scale[2:] / scale[:-2]
    factors = torch.stack([once, twice, scale[2:], once, once, once])
    return torch.stack([up, down, start, along, raised, lowered]) * factors[:, None]


def evaluate_harmonics(
    x: Tensor,  # (..., 3)
    table: Tensor,  # (6, lmax + 1, lmax + 1), in the compute dtype of x
    degrees: Sequence[int],
    normalize: bool,  # whether to divide vectors by their length
) -> Tensor:  # (..., sum of 2 l + 1)
    """Evaluate harmonics of vectors of any shape, for degrees in any order."""
    points = x if x.ndim == 2 else x.reshape(-1, 3)
    ascending = sorted(set(degrees))
    values = spherical_harmonics_op(points, table, ascending, normalize)
    if ascending != list(degrees):
        parts = dict(zip(ascending, values.split([2 * l + 1 for l in ascending], 1), strict=True))
        values = torch.cat([parts[l] for l in degrees], 1)
    return values if x.ndim == 2 else values.view(*x.shape[:-1], values.shape[-1])


def check_points(x: Tensor) -> None:
    """Raise if ``x`` is not a floating tensor (..., 3)."""
    check_tensor("x", x)
    if not x.is_floating_point():
        raise TypeError(f"x must be floating, got {x.dtype}")
    if x.ndim == 0 or x.shape[-1] != 3:
        raise ValueError(f"x must be (..., 3), got {tuple(x.shape)}")
