"""Coordinates of linear groups: an element is ``exp(Y) R``, coordinates of ``Y`` come first."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.groups.charts.algebra_bases import vee
from equigeo.groups.charts.rotation_chart import rotation_exp, rotation_log
from equigeo.groups.matrices.check_matrices import determinant, full_precision, scale_of
from equigeo.groups.matrices.entire_functions import exp_parts, sinhc_root
from equigeo.groups.matrices.matrix_exp import matrix_exp
from equigeo.groups.matrices.polar import polar
from equigeo.groups.matrices.spd import spd_exp, spd_log


def chart_coordinates(
    g: Tensor,  # (..., n, n), in the component of the identity
    basis: Tensor,  # (d, n, n), basis of Y
    *,
    rotations: bool,  # whether there are rotations
) -> Tensor:  # (..., dimension)
    """Return coordinates of elements: stretches, then rotations."""
    dimension = len(basis)
    if dimension == 0:
        return rotation_log(g)
    if dimension == 1:  # multiples of one another: the factor is the root of the mean square
        largest = scale_of(g)
        squares = (g / largest).square().sum((-2, -1)) / g.shape[-1]
        scale = squares.sqrt() * largest[..., 0, 0]
        stretch = scale.log()[..., None]
        if not rotations:
            return stretch
        return torch.cat([stretch, rotation_log(g / scale[..., None, None])], dim=-1)
    p, r = polar(g)
    with full_precision(g):
        y = torch.einsum("...ij,dij->...d", spd_log(p), basis.to(g))
    return torch.cat([y, rotation_log(r)], dim=-1)


def chart_element(
    c: Tensor,  # (..., dimension)
    basis: Tensor,  # (d, n, n), basis of Y
    *,
    rotations: bool,  # whether there are rotations
) -> Tensor:  # (..., n, n)
    """Return the elements with given coordinates."""
    return _product(*chart_factors(c, basis, rotations=rotations))


def chart_inverse(
    c: Tensor,  # (..., dimension)
    basis: Tensor,  # (d, n, n), basis of Y
    *,
    rotations: bool,  # whether there are rotations
) -> Tensor:  # (..., n, n)
    """Return the inverses ``R^T exp(-Y)`` of elements with given coordinates, without a solve."""
    stretch, rotation = c.tensor_split([len(basis)], dim=-1)
    negative = torch.cat([-stretch, rotation], dim=-1)
    p, r = chart_factors(negative, basis, rotations=rotations)
    return _product(None if r is None else r.mT, p).clone(memory_format=torch.contiguous_format)


def chart_factors(
    c: Tensor,  # (..., dimension)
    basis: Tensor,  # (d, n, n), basis of Y
    *,
    rotations: bool,  # whether there are rotations
) -> tuple[Tensor | None, Tensor | None]:  # (..., n, n) each
    """Return stretch ``exp(Y)`` and rotation; one of them is None if it does not exist."""
    stretch, rotation = c.tensor_split([len(basis)], dim=-1)
    r = rotation_exp(rotation) if rotations else None
    if len(basis) == 0:
        return None, r
    if len(basis) == 1:
        identity = torch.eye(basis.shape[-1], dtype=c.dtype, device=c.device)
        return stretch.exp()[..., None] * identity, r
    return spd_exp(_logarithm(stretch, basis)), r


def chart_density(
    c: Tensor,  # (..., d) or more; coordinates of Y come first
    basis: Tensor,  # (d, n, n), basis of Y
) -> Tensor:  # (...)
    """Return the density of the Haar measure, at least 1."""
    # product over i < j of sinh(y_i - y_j) / (y_i - y_j), with y the eigenvalues of Y
    dimension, n = len(basis), basis.shape[-1]
    if dimension <= 1:  # rotations and scalings commute: nothing is distorted
        return c.new_ones(c.shape[:-1])
    y = _logarithm(c[..., :dimension], basis)
    if n == 2:
        # (y_1 - y_2)^2 is the discriminant of the characteristic polynomial
        gap = (y[..., 0, 0] - y[..., 1, 1]).square() + 4 * y[..., 0, 1].square()
        return sinhc_root(gap)
    values = torch.linalg.eigvalsh(y)
    i, j = torch.triu_indices(n, n, 1, device=c.device)
    return sinhc_root((values[..., i] - values[..., j]).square()).prod(-1)


def chart_trace(
    c: Tensor,  # (..., d) or more; coordinates of Y come first
    basis: Tensor,  # (d, n, n), basis of Y
) -> Tensor:  # (...)
    """Return the logarithm of the determinant, ``tr Y``."""
    traces = basis.diagonal(dim1=-2, dim2=-1).sum(-1).to(c)
    return (c[..., : len(basis)] * traces).sum(-1)


def linear_exp(
    x: Tensor,  # (..., n, n)
    *,
    skew: bool,  # whether x is skew
) -> Tensor:  # (..., n, n)
    """Return the matrix exponential, in closed form if there is one."""
    if skew and x.shape[-1] == 3:
        return rotation_exp(vee(x))
    if x.shape[-1] != 2:
        return matrix_exp(x)
    mean = x.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    identity = torch.eye(2, dtype=x.dtype, device=x.device)
    deviation = x - mean * identity  # its square is a multiple of the identity
    square = -determinant(deviation)[..., None, None]
    even, odd = exp_parts(mean, square)
    return even * identity + odd * deviation


def log_stretch(g: Tensor) -> Tensor:  # (..., n, n) to (...)
    """Return the largest ``|log s|`` over the singular values of invertible matrices."""
    if g.shape[-1] == 2:
        plus = torch.hypot(g[..., 0, 0] + g[..., 1, 1], g[..., 1, 0] - g[..., 0, 1])
        minus = torch.hypot(g[..., 0, 0] - g[..., 1, 1], g[..., 1, 0] + g[..., 0, 1])
        high = (plus + minus) / 2
        low = determinant(g / high[..., None, None]).abs() * high
        return torch.maximum(high.log().abs(), low.log().abs())
    with full_precision(g):
        return torch.linalg.svdvals(g).log().abs().amax(-1)


def _product(left: Tensor | None, right: Tensor | None) -> Tensor:
    """Return the product of two factors, one of which may be None."""
    if left is None or right is None:
        return torch.as_tensor(right if left is None else left)
    with full_precision(left):
        return left @ right


def _logarithm(stretch: Tensor, basis: Tensor) -> Tensor:
    """Return symmetric matrices (..., n, n) of coordinates (..., d)."""
    with full_precision(stretch):
        return torch.einsum("...d,dij->...ij", stretch, basis.to(stretch))
