"""Changes of the signs of axes: which lead to other frames, and what they weigh."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product

import torch
from torch import Tensor

from equigeo.mds.embedding.aligned_clouds import AlignedClouds
from equigeo.ops import SignRule
from equigeo.ops.clouds.axis_flags import coordinate_errors, dependent_axis

# Second moments off the diagonal vanish in principal axes, first ones about the centroid.
LEAST_DEGREE, MOST_DEGREE = 3, 6
MOST_AXES = 10  # 1024 changes of sign


def sign_table(dim: int, like: Tensor) -> Tensor:
    """All changes of sign, none first.

    Parameters
    ----------
    dim : int
        Number of axes.
    like : Tensor
        Whose dtype and device are used.

    Returns
    -------
    Tensor, (2 ** dim, dim)
        1 and -1.

    Raises
    ------
    ValueError
        If they are too many.
    """
    if dim > MOST_AXES:
        raise ValueError(f"sets of frames are for at most {MOST_AXES} dimensions, got {dim}")
    signs = list(product((1.0, -1.0), repeat=dim))
    return torch.tensor(signs, dtype=like.dtype, device=like.device)


def allowed_signs(aligned: AlignedClouds) -> Tensor:
    """Which changes of sign lead to different frames of the group.

    Parameters
    ----------
    aligned : AlignedClouds
        Right-handed where the group is ``SO``.

    Returns
    -------
    Tensor, (2 ** dim, clouds), bool
        A null axis is not turned around, unless that makes the frame right-handed.
    """
    table = sign_table(aligned.dim, aligned.spread)
    fixed = aligned.null
    if aligned.group == "SO":
        fixed = fixed & ~dependent_axis(aligned.margin, aligned.null, SignRule.LAST)
    allowed = ~((table[:, None, :] < 0) & fixed).any(-1)
    return allowed & (table.prod(-1) > 0)[:, None] if aligned.group == "SO" else allowed


def residual_signs(aligned: AlignedClouds) -> tuple[Tensor, Tensor]:
    """Changes of sign that no joint moment decides.

    Each moment that exceeds what rounding may have made of nothing says what the product of some
    signs is; it is skipped where it contradicts those before it, which have more weight.

    Parameters
    ----------
    aligned : AlignedClouds
        Coordinates.

    Returns
    -------
    left : Tensor, (2 ** dim, clouds), bool
        True for at least one.
    settled : Tensor, (clouds,), bool
        Whether rounding cannot change which are left.
    """
    table = sign_table(aligned.dim, aligned.spread)
    left = allowed_signs(aligned)
    settled = left.new_ones(left.shape[1])
    for parity, sign, doubtful in _equations(aligned):
        # A moment of odd powers of some axes changes by the product of their signs.
        character = table[:, parity].prod(-1)[:, None]
        asked = (left & (character > 0)).any(0) & (left & (character < 0)).any(0)
        settled = settled & ~(asked & doubtful)
        agreeing = left & ((character == sign) | (sign == 0))
        left = torch.where(agreeing.any(0), agreeing, left)
    return left, settled


def errors_of_axes(aligned: AlignedClouds) -> Tensor:  # (clouds, dim)
    """Relative errors of coordinates, but for turns of axes that may turn into each other."""
    clouds = aligned.clouds
    gap = torch.where(aligned.degenerate, 1, aligned.gap)
    spread, gap, centroid = (t.detach() for t in (aligned.spread, gap, aligned.centroid))
    return coordinate_errors(spread, gap, centroid, clouds.ptr, clouds.weight, clouds.eps)


def _equations(aligned: AlignedClouds) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Axes, the product of their signs, 0 where nothing says so, and whether rounding decided."""
    clouds, y = aligned.clouds, aligned.y.detach().double()
    size = clouds.largest(y.abs().amax(-1))
    y = y / clouds.spread_out(torch.where(size > 0, size, 1))[:, None]
    tol = clouds.by_precision(1e-9, 1e-5)  # as margins that leave signs ambiguous
    errors = errors_of_axes(aligned).double()
    powers = [torch.ones_like(y)]
    for _ in range(MOST_DEGREE):
        powers.append(powers[-1] * y)
    for parity, monomials in parity_classes(y.shape[-1]):
        sign = y.new_zeros(len(clouds.ptr) - 1)
        doubtful = sign.bool()
        for exponents in monomials:
            terms = torch.stack([powers[e][:, k] for k, e in enumerate(exponents) if e]).prod(0)
            if clouds.weight is not None:
                terms = terms * clouds.weight
            moments = clouds.add_up(torch.stack([terms, terms.abs()], -1))
            bound = (errors @ errors.new_tensor(exponents)).clamp(min=tol) * moments[:, 1]
            size = moments[:, 0].abs()
            # Errors are at most half of the bound.
            near = (size > 0.5 * bound) & (size < 1.5 * bound)
            doubtful = doubtful | ((sign == 0) & near)
            says = size > bound
            sign = torch.where((sign == 0) & says, moments[:, 0].sign(), sign)
        yield [k for k, p in enumerate(parity) if p], sign.to(aligned.y.dtype), doubtful


@lru_cache
def parity_classes(dim: int) -> list[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
    """Monomials by how they change sign, in order of priority.

    Parameters
    ----------
    dim : int
        Number of variables.

    Returns
    -------
    list of (tuple of int, list of tuple of int)
        Parities of the exponents, and the exponents of degrees 3 to 6, by degree and then in
        reverse lexicographic order.
    """
    parities = sorted(
        (p for p in product((1, 0), repeat=dim) if any(p)),
        key=lambda p: (sum(p) % 2 == 0, sum(p), [-bit for bit in p]),
    )
    exponents = sorted(
        (
            e
            for e in product(range(MOST_DEGREE + 1), repeat=dim)
            if LEAST_DEGREE <= sum(e) <= MOST_DEGREE
        ),
        key=lambda e: (sum(e), [-n for n in e]),
    )
    return [(p, [e for e in exponents if tuple(n % 2 for n in e) == p]) for p in parities]


def soft_weights(aligned: AlignedClouds) -> Tensor:
    """Weights of changes of sign that follow the skewness continuously.

    Parameters
    ----------
    aligned : AlignedClouds
        With the skewness from which on there is one sign alone as ``options.softness``. Where the
        group is ``SO``, the sign of the last axis follows.

    Returns
    -------
    Tensor, (2 ** dim, clouds)
        Those of a cloud add up to one; differentiable.
    """
    clouds, table = aligned.clouds, sign_table(aligned.dim, aligned.spread)
    cubes = aligned.y**3
    if clouds.weight is not None:
        cubes = clouds.weight[:, None] * cubes
    total = clouds.add_up(cubes.abs())
    margin = clouds.add_up(cubes) / torch.where(total == 0, 1, total)
    # Linear between the two signs: (1 + s m / softness) / 2, and one sign alone beyond.
    factor = (1 + table[:, None, :] * (margin / aligned.options.softness).clamp(-1, 1)) / 2
    constant = aligned.null
    if aligned.group == "SO":
        constant = constant | dependent_axis(aligned.margin, aligned.null, SignRule.LAST)
    weight = torch.where(constant, 1, factor).prod(-1)
    return weight * allowed_signs(aligned)
