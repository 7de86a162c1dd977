"""The chart of linear groups: symmetric logarithm of the stretch, coordinates of the rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from equigeo.groups.charts.algebra_bases import vee
from equigeo.groups.charts.rotation_chart import rotation_exp, rotation_log
from equigeo.groups.matrices.check_matrices import (
    check_precision,
    determinant,
    full_precision,
    values_at_hand,
)
from equigeo.groups.matrices.entire_functions import cosh_root, sinhc_root
from equigeo.groups.matrices.matrix_exp import matrix_exp
from equigeo.groups.matrices.polar import polar
from equigeo.groups.matrices.spd import spd_exp, spd_log

if TYPE_CHECKING:
    from equigeo.groups.group import Group
    from equigeo.groups.linear_group import LinearGroup


def chart_coordinates(group: LinearGroup, g: Tensor) -> Tensor:
    """Coordinates of elements; see :meth:`LinearGroup.coordinates`.

    Parameters
    ----------
    group : LinearGroup
        The group.
    g : Tensor, (..., n, n), float32 or float64
        Elements.

    Returns
    -------
    Tensor, (..., dimension), dtype of ``g``
        Stretches, then rotations.

    Raises
    ------
    ValueError
        If a matrix is no proper element.
    """
    check_members(group, g)
    dimension = group.symmetric_dimension
    if dimension == 0:
        return rotation_log(g)
    if dimension == 1:  # multiples of one another: the factor is the root of the mean square
        scale = (g.square().sum((-2, -1)) / group.n).sqrt()
        stretch = scale.log()[..., None]
        if group.compact is None:
            return stretch
        return torch.cat([stretch, rotation_log(g / scale[..., None, None])], dim=-1)
    p, r = polar(g)
    with full_precision(g):
        y = torch.einsum("...ij,dij->...d", spd_log(p), group._positive_basis().to(g))
    return torch.cat([y, rotation_log(r)], dim=-1)


def chart_element(group: LinearGroup, c: Tensor) -> Tensor:
    """Elements with given coordinates; see :meth:`LinearGroup.from_coordinates`.

    Parameters
    ----------
    group : LinearGroup
        The group.
    c : Tensor, (..., dimension), float32 or float64
        Coordinates.

    Returns
    -------
    Tensor, (..., n, n), dtype of ``c``
        Elements.

    Raises
    ------
    ValueError
        If the last axis has another length or the type is too coarse.
    """
    return _product(*chart_factors(group, c))


def chart_inverse(group: LinearGroup, c: Tensor) -> Tensor:
    """Inverses ``R^T exp(-Y)`` of the elements with given coordinates.

    Parameters
    ----------
    group : LinearGroup
        The group.
    c : Tensor, (..., dimension), float32 or float64
        Coordinates.

    Returns
    -------
    Tensor, (..., n, n), dtype of ``c``
        In storage of their own, as precise as the elements; no system is solved.
    """
    stretch, rotation = c.tensor_split([group.symmetric_dimension], dim=-1)
    p, r = chart_factors(group, torch.cat([-stretch, rotation], dim=-1))
    return _product(None if r is None else r.mT, p).clone(memory_format=torch.contiguous_format)


def chart_factors(group: LinearGroup, c: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Stretch ``exp(Y)`` and rotation; None for a factor that the group lacks, never for both.

    Parameters
    ----------
    group : LinearGroup
        The group.
    c : Tensor, (..., dimension), float32 or float64
        Coordinates.

    Returns
    -------
    p, r : Tensor, (..., n, n), or None
        The factors of the elements.
    """
    check_coordinates(group, c)
    stretch, rotation = c.tensor_split([group.symmetric_dimension], dim=-1)
    r = None if group.compact is None else rotation_exp(rotation)
    if group.symmetric_dimension == 0:
        return None, r
    if group.symmetric_dimension == 1:
        identity = torch.eye(group.n, dtype=c.dtype, device=c.device)
        return stretch.exp()[..., None] * identity, r
    return spd_exp(_logarithm(group, stretch)), r


def chart_density(group: LinearGroup, c: Tensor) -> Tensor:
    """Density of the Haar measure; see :meth:`LinearGroup.haar_density`.

    Parameters
    ----------
    group : LinearGroup
        The group.
    c : Tensor, (..., dimension) or (..., symmetric_dimension), float32 or float64
        Coordinates.

    Returns
    -------
    Tensor, (...), dtype of ``c``
        At least 1.

    Raises
    ------
    ValueError
        If the last axis has another length or the type is too coarse.
    """
    dimension = group.symmetric_dimension
    if c.shape[-1:] != (dimension,):
        check_coordinates(group, c)
    check_precision("c", c)
    if dimension <= 1:
        return c.new_ones(c.shape[:-1])
    y = _logarithm(group, c[..., :dimension])
    if group.n == 2:
        gap = (y[..., 0, 0] - y[..., 1, 1]).square() + 4 * y[..., 0, 1].square()
        return sinhc_root(gap)
    values = torch.linalg.eigvalsh(y)
    i, j = torch.triu_indices(group.n, group.n, 1, device=c.device)
    return sinhc_root((values[..., i] - values[..., j]).square()).prod(-1)


def chart_trace(group: LinearGroup, c: Tensor) -> Tensor:
    """Logarithm of the determinant, ``tr Y``.

    Parameters
    ----------
    group : LinearGroup
        The group.
    c : Tensor, (..., dimension), floating
        Coordinates.

    Returns
    -------
    Tensor, (...), dtype of ``c``
        Linear in the coordinates.
    """
    traces = group._positive_basis().diagonal(dim1=-2, dim2=-1).sum(-1).to(c)
    return (c[..., : group.symmetric_dimension] * traces).sum(-1)


def linear_exp(x: Tensor, *, skew: bool) -> Tensor:
    """Exponential of matrices, in closed form where there is one.

    Parameters
    ----------
    x : Tensor, (..., n, n), floating
        Matrices.
    skew : bool
        Whether they are skew.

    Returns
    -------
    Tensor, (..., n, n), dtype of ``x``
        The exponentials.
    """
    if skew and x.shape[-1] == 3:
        return rotation_exp(vee(x))
    if x.shape[-1] != 2:
        return matrix_exp(x)
    mean = x.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    identity = torch.eye(2, dtype=x.dtype, device=x.device)
    deviation = x - mean * identity  # its square is a multiple of the identity
    square = -determinant(deviation)[..., None, None]
    return mean.exp() * (cosh_root(square) * identity + sinhc_root(square) * deviation)


def log_stretch(g: Tensor) -> Tensor:
    """Largest ``|log s|`` over the singular values.

    Parameters
    ----------
    g : Tensor, (..., n, n), floating
        Invertible matrices.

    Returns
    -------
    Tensor, (...), dtype of ``g``
        Spectral radius of the logarithm of the stretch.
    """
    if g.shape[-1] == 2:
        plus = torch.hypot(g[..., 0, 0] + g[..., 1, 1], g[..., 1, 0] - g[..., 0, 1])
        minus = torch.hypot(g[..., 0, 0] - g[..., 1, 1], g[..., 1, 0] + g[..., 0, 1])
        high = (plus + minus) / 2
        low = determinant(g).abs() / high
        return torch.maximum(high.log().abs(), low.log().abs())
    with full_precision(g):
        return torch.linalg.svdvals(g).log().abs().amax(-1)


def check_coordinates(group: Group, c: Tensor) -> None:
    """Refuse tensors that cannot be coordinates.

    Parameters
    ----------
    group : Group
        The group.
    c : Tensor, (..., dimension)
        Candidates.

    Raises
    ------
    ValueError
        If the last axis has another length or the type is too coarse.
    """
    if c.shape[-1:] != (group.dimension,):
        raise ValueError(
            f"coordinates of {group} are (..., {group.dimension}), got {tuple(c.shape)}"
        )
    check_precision("coordinates", c)


def check_members(group: LinearGroup, g: Tensor) -> None:
    """Refuse matrices that are no proper elements of a group.

    Rounding of a product grows with its entries, so the bound does too. Not evaluated
    where there are no values to look at.

    Parameters
    ----------
    group : LinearGroup
        The group.
    g : Tensor, (..., n, n)
        Candidates.

    Raises
    ------
    ValueError
        If the shape or type does not fit, or a matrix is improper or no element.
    """
    group.check_shape(g)
    check_precision("elements", g)
    if not values_at_hand() or g.numel() == 0:
        return
    g = g.detach()
    size = float(g.abs().amax().clamp(min=1))
    inside = group.contains(g, tol=torch.finfo(g.dtype).eps ** 0.5 * size**group.n)
    if not bool(inside.all()):
        raise ValueError(
            f"{int((~inside).sum())} of {inside.numel()} matrices are no elements of {group}, "
            f"the first is {g[~inside][0].tolist()}"
        )
    improper = determinant(g) < 0
    if bool(improper.any()):
        raise ValueError(
            f"coordinates describe the component of the identity of {group}, "
            f"got {int(improper.sum())} improper elements: which component is not in them"
        )


def _product(left: Tensor | None, right: Tensor | None) -> Tensor:
    """Product of two factors, of which one may be missing."""
    if left is None or right is None:
        return torch.as_tensor(right if left is None else left)
    with full_precision(left):
        return left @ right


def _logarithm(group: LinearGroup, stretch: Tensor) -> Tensor:
    """Symmetric matrices (..., n, n) of coordinates (..., symmetric_dimension)."""
    with full_precision(stretch):
        return torch.einsum("...d,dij->...ij", stretch, group._positive_basis().to(stretch))
