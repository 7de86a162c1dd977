"""Flags of principal axes that rounding may flip or mix."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import torch
from torch import Tensor

from equigeo._core.checks import check_device, check_dtype, check_features, check_index
from equigeo._core.tensors import computes_in_float32
from equigeo.ops.geometry.axis_rules import Clouds, SignRule, safe_divisor
from equigeo.ops.runtime.batching import Batched, blocks, in_front
from equigeo.ops.runtime.declare import declare
from equigeo.ops.runtime.tape import Gradients

SCHEMA = (
    "axis_flags(Tensor spread, Tensor margin, Tensor centroid, Tensor ptr, Tensor? weight, "
    "int signs, float eps, float gap_tol, float sign_tol) -> (Tensor, Tensor, Tensor, Tensor)"
)

# Measured, an error of points of one unit of noise turns axes by 10 to 25 units over the gap.
MARGIN_FACTOR = 50
"""Margins within twice the largest error measured may be due to it."""

GAP_FACTOR = 64
"""At a gap of this many units the largest error is 0.4 radians, and axes have no direction left."""

Flags = tuple[Tensor, Tensor, Tensor, Tensor]


@computes_in_float32
def axis_flags(
    spread: Tensor,
    margin: Tensor,
    centroid: Tensor,
    ptr: Tensor,
    weight: Tensor | None,
    signs: int,
    tolerances: tuple[float, float, float],
) -> Flags:
    r"""Flag principal axes that rounding of the points can flip or mix.

    Points of spread :math:`s`, at an offset from the origin, are rounded by
    :math:`\rho = \varepsilon (1 + |c|_\infty / \mathrm{rms})` of their size, which turns two axes
    whose squared spreads differ by a gap :math:`\gamma` by about :math:`\rho / \gamma`.

    Parameters
    ----------
    spread, margin, centroid : Tensor, (clouds, dim)
        Results of :func:`principal_axes`. For ``ptr``, ``weight`` and ``signs`` see there.
    tolerances : tuple of float
        Rounding ε of the points, the least gap, and the least margin that settles a sign.

    Returns
    -------
    gap : Tensor, (clouds, dim - 1)
        Differences of neighboring squared spreads, relative to the first.
    ambiguous : Tensor, (clouds, dim), bool
        Axes whose sign rounding may change.
    degenerate : Tensor, (clouds, dim - 1), bool
        Neighboring axes that rounding may turn into each other.
    counts : Tensor, (2,), int64
        Number of clouds that are not finite, and of those that have a flag.

    Examples
    --------
    >>> spread = torch.tensor([[3.0, 2.0, 2.0]])
    >>> margin = torch.tensor([[0.5, 0.0, 0.5]])
    >>> ptr, tolerances = torch.tensor([0, 9]), (1e-7, 1e-4, 1e-5)
    >>> found = axis_flags(spread, margin, torch.zeros(1, 3), ptr, None, 1, tolerances)
    >>> [flags.tolist() for flags in found[1:]]
    [[[False, True, True]], [[False, True]], [0, 1]]
    """
    check_features("spread", spread, ("clouds", "dim"))
    for name, rows in (("margin", margin), ("centroid", centroid)):
        check_dtype(name, rows, "spread", spread)
        if rows.shape != spread.shape:
            raise ValueError(f"{name} must be {tuple(spread.shape)}, got {tuple(rows.shape)}")
    check_index("ptr", ptr, length=(spread.shape[0] + 1, "spread"))
    check_device(spread=spread, margin=margin, centroid=centroid, ptr=ptr)
    if spread.shape[1] < 1:
        raise ValueError("spread must have at least one component, got none")
    if weight is not None:
        check_features("weight", weight, ("points",))
        check_device(spread=spread, weight=weight)
        check_dtype("weight", weight, "spread", spread)
    if not 0 <= signs <= SignRule.LEAST:
        raise ValueError(f"signs must be from 0 to {SignRule.LEAST:d}, got {signs}")
    return axis_flags_op(spread, margin, centroid, ptr, weight, int(signs), *tolerances)


def axis_flags_reference(  # noqa: PLR0913 - those of the op
    spread: Tensor,
    margin: Tensor,
    centroid: Tensor,
    ptr: Tensor,
    weight: Tensor | None,
    signs: int,
    eps: float,
    gap_tol: float,
    sign_tol: float,
) -> Flags:
    """Reference implementation of :func:`axis_flags`; only the gap is differentiable."""
    unit = spread / safe_divisor(spread[:, :1])
    gap = unit[:, :-1].square() - unit[:, 1:].square()
    with torch.no_grad():
        null = spread == 0
        noise = eps * (1 + _offset(spread, centroid, ptr, weight))
        degenerate = gap <= (GAP_FACTOR * noise).clamp(min=gap_tol)
        degenerate = degenerate & ~null[:, 1:] & ~null[:, :-1]
        bound = _margin_bound(unit, gap, noise, eps).clamp(min=sign_tol).clamp(max=1)
        if signs == SignRule.AS_FOUND:
            ambiguous, degenerate = torch.zeros_like(null), torch.zeros_like(degenerate)
        else:
            ambiguous = _ambiguous(margin, null, bound, signs)
        flagged = ambiguous.any(-1) | degenerate.any(-1)
        counts = torch.stack([spread[:, 0].isnan().sum(), flagged.sum()])
    return gap, ambiguous, degenerate, counts


def _offset(spread: Tensor, centroid: Tensor, ptr: Tensor, weight: Tensor | None) -> Tensor:
    """Distance of each cloud from the origin relative to its size, (clouds, 1)."""
    total = ptr.diff() if weight is None else Clouds.of(ptr, weight, len(weight)).total
    total = total.to(spread.dtype)
    first = safe_divisor(spread[:, 0])
    rms = (spread / first[:, None]).norm(dim=-1) / safe_divisor(total).sqrt()
    return (centroid.abs().amax(-1) / first / safe_divisor(rms))[:, None]


def _margin_bound(unit: Tensor, gap: Tensor, noise: Tensor, eps: float) -> Tensor:  # (clouds, dim)
    """Bound the error of the margins that an error of the axes causes."""
    # An axis error of noise / gap changes a margin by a few times that, and more where it mixes
    # longer coordinates into short ones.
    beyond = gap.new_full((len(gap), 1), inf)
    nearest = torch.minimum(torch.cat([beyond, gap], -1), torch.cat([gap, beyond], -1))
    longer = torch.cat([unit[:, :1], unit[:, :-1]], -1) / safe_divisor(unit)
    return MARGIN_FACTOR * noise * longer / nearest.clamp(min=eps)


def _ambiguous(margin: Tensor, null: Tensor, bound: Tensor, signs: int) -> Tensor:
    unclear = (margin.abs() <= bound) & ~null
    if signs == SignRule.EACH or not len(margin):
        return unclear
    dependent = dependent_axis(margin, null, signs)
    others = unclear & ~dependent
    follows = others.any(-1, keepdim=True)
    if signs == SignRule.LEAST:
        # turned against its own skewness while another was as little skew
        size = torch.where(null, inf, margin.abs())
        tie = (size - size.amin(-1, keepdim=True) <= bound).sum(-1, keepdim=True) > 1
        follows = follows | tie & (margin < 0).any(-1, keepdim=True)
    return others | dependent & follows & ~null


def dependent_axis(
    margin: Tensor,  # (clouds, dim), margins of the signs
    null: Tensor,  # (clouds, dim), bool: axes with zero spread
    signs: int,  # a SignRule
) -> Tensor:  # (clouds, dim), bool
    """Return a mask with one axis per cloud, the one flipped to make its frame right-handed."""
    dim = margin.shape[-1]
    size = margin.abs() if signs == SignRule.LEAST else torch.ones_like(margin)
    if not len(margin):
        return null
    # A null axis is preferred; otherwise the sign rule decides.
    last = torch.where(null, -1, size).flip(-1).argmin(-1)
    return torch.nn.functional.one_hot(dim - 1 - last, dim).bool()


def coordinate_errors(
    spread: Tensor,  # (clouds, dim), as in axis_flags
    # (clouds, dim - 1), relative differences of adjacent squared spreads, 1 for degenerate axes
    gap: Tensor,
    centroid: Tensor,  # (clouds, dim)
    ptr: Tensor,
    weight: Tensor | None,
    eps: float,  # rounding error of the points
) -> Tensor:  # (clouds, dim)
    """Bound the relative error of coordinates along principal axes that rounding causes."""
    noise = eps * (1 + _offset(spread, centroid, ptr, weight))
    bound = _margin_bound(spread / safe_divisor(spread[:, :1]), gap, noise, eps)
    # The margin is a sum of cubes: its relative error is three times that of the coordinates.
    return torch.maximum(bound, MARGIN_FACTOR * noise) / 3


def _fake(spread: Tensor) -> Flags:
    clouds, dim = spread.shape
    return (
        spread.new_empty(clouds, dim - 1),
        spread.new_empty(clouds, dim, dtype=torch.bool),
        spread.new_empty(clouds, dim - 1, dtype=torch.bool),
        spread.new_empty(2, dtype=torch.int64),
    )


def _backward(grad_gap: Tensor, *_: Tensor, spread: Tensor) -> Gradients:
    # gap_k = (s_k / s_0)^2 - (s_{k+1} / s_0)^2
    first = safe_divisor(spread[:, :1])
    unit = spread / first
    none = grad_gap.new_zeros(len(grad_gap), 1)
    slope = torch.cat([grad_gap, none], -1) - torch.cat([none, grad_gap], -1)
    grad = 2 * unit * slope / first
    # All gaps are relative to the first spread.
    whole = torch.where(spread[:, :1] == 0, 0, (grad * unit).sum(-1, keepdim=True))
    return {"spread": torch.cat([grad[:, :1] - whole, grad[:, 1:]], -1)}


_blocks = blocks(("spread", "margin", "centroid", "weight"), offsets=["ptr"])


def _batch(op: Any, size: int, arguments: dict[str, Any], dims: Mapping[str, Any]) -> Batched:
    spread = in_front(arguments["spread"], dims["spread"], size)

    def flags(*given: Any) -> tuple[Tensor, ...]:
        gap, ambiguous, degenerate, _ = op(*given)
        flagged = (ambiguous.any(-1) | degenerate.any(-1)).unflatten(0, spread.shape[:2])
        # counted for each problem of the batch
        counts = torch.stack([spread[..., 0].isnan().sum(1), flagged.sum(1)], 1)
        return gap, ambiguous, degenerate, counts.flatten()

    return _blocks(flags, size, arguments, dims)


axis_flags_op = declare(
    SCHEMA, reference=axis_flags_reference, fake=_fake, backward=_backward, batch=_batch
)
