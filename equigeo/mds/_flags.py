"""Which clouds an embedding cannot be trusted on, judged by what rounding can do."""

from __future__ import annotations

import warnings
from math import inf

import torch
from torch import Tensor

from equigeo.mds._axes import LAST, LEAST, Axes, dependent_axis, sign_tolerance
from equigeo.mds._point_clouds import PointClouds
from equigeo.mds.embed_options import EmbedOptions

_warned: set[str] = set()


def gaps(spread: Tensor) -> Tensor:
    """Differences of neighbouring eigenvalues.

    Parameters
    ----------
    spread : Tensor, (clouds, dim)
        Roots of the eigenvalues.

    Returns
    -------
    Tensor, (clouds, dim - 1)
        Relative to the first; constant.
    """
    first = spread[:, :1].detach()
    square = (spread.detach() / torch.where(first == 0, 1, first)).square()
    return square[:, :-1] - square[:, 1:]


def find_flags(
    axes: Axes, gap: Tensor, clouds: PointClouds, group: str, options: EmbedOptions
) -> tuple[Tensor, Tensor]:
    """Tell which signs and which order of axes rounding may change.

    Parameters
    ----------
    axes : Axes
        As found.
    gap : Tensor, (clouds, dim - 1)
        Between eigenvalues.
    clouds : PointClouds
        The points.
    group : {"O", "SO"}
        Which rotations are divided out.
    options : EmbedOptions
        Tolerances, and which axis depends on the others.

    Returns
    -------
    ambiguous : Tensor, (clouds, dim), bool
        By axis.
    degenerate : Tensor, (clouds, dim - 1), bool
        By pair of neighbours.
    """
    null, margin = axes.null, axes.margin.abs()
    noise = _noise(axes, clouds)[:, None]
    double = clouds.eps == torch.finfo(torch.float64).eps
    gap_tol = options.gap_tol if options.gap_tol is not None else 1e-8 if double else 1e-4
    close = gap <= (64 * noise).clamp(min=gap_tol)
    degenerate = close & ~null[:, 1:] & ~null[:, :-1]

    beyond = gap.new_full((len(gap), 1), inf)
    nearest = torch.minimum(torch.cat([beyond, gap], -1), torch.cat([gap, beyond], -1))
    # An error of the axes of noise / gap changes a margin by a few times that, and more where it
    # mixes longer coordinates into short ones.
    spread = axes.spread.detach()
    before = torch.cat([spread[:, :1], spread[:, :-1]], -1)
    longer = before / torch.where(axes.null, 1, spread)
    bound = (50 * noise * longer / nearest.clamp(min=clouds.eps)).clamp(
        min=sign_tolerance(clouds, options), max=1
    )
    unclear = margin <= bound
    if group == "O":
        return unclear & ~null, degenerate
    rule = LAST if options.dependent == "last" else LEAST
    dependent = dependent_axis(axes.margin, null, rule)
    others = unclear & ~dependent & ~null
    follows = dependent & ~null & others.any(-1, keepdim=True)
    if rule == LEAST:
        follows = follows | _tied(axes, bound, dependent)
    return others | follows, degenerate


def _noise(axes: Axes, clouds: PointClouds) -> Tensor:
    """Rounding of the coordinates that were given, relative to the size of the cloud."""
    total = clouds.total.to(axes.spread.dtype)
    rms = axes.spread.detach().norm(dim=-1) / torch.where(total == 0, 1, total).sqrt()
    offset = axes.centroid.detach().abs().amax(-1) / torch.where(rms == 0, 1, rms)
    return clouds.eps * (1 + offset)


def _tied(axes: Axes, bound: Tensor, dependent: Tensor) -> Tensor:
    """Axes that were turned against their own skewness while another was as little skew."""
    size = torch.where(axes.null, inf, axes.margin.abs())
    tie = (size - size.amin(-1, keepdim=True) <= bound).sum(-1, keepdim=True) > 1
    forced = (axes.margin < 0).any(-1, keepdim=True)
    return (dependent & tie & forced) & ~axes.null


def report(flagged: Tensor, clouds: PointClouds, options: EmbedOptions) -> None:
    """Warn about flagged clouds, once per process, or refuse them.

    Parameters
    ----------
    flagged : Tensor, (clouds,), bool
        Which ones.
    clouds : PointClouds
        Where they are.
    options : EmbedOptions
        What to do.

    Raises
    ------
    ValueError
        If the options say so.
    """
    if options.fallback not in ("warn", "error") or torch.compiler.is_compiling():
        return
    if options.fallback == "warn" and "flagged" in _warned:
        return
    count = int(flagged.sum())
    if not count:
        return
    text = (
        f"{count} of {len(flagged)} clouds, the first at {_first(flagged, clouds)}, have "
        "symmetries that leave their axes open: see `ambiguous` and `degenerate`; "
        'fallback="frames" or "anchor" gives frames to average over'
    )
    if options.fallback == "error":
        raise ValueError(text)
    _warned.add("flagged")
    warnings.warn(text, UserWarning, stacklevel=4)


def check_finite(axes: Axes, clouds: PointClouds, options: EmbedOptions) -> None:
    """Refuse clouds with NaN or infinite coordinates.

    Parameters
    ----------
    axes : Axes
        NaN where the cloud was not finite.
    clouds : PointClouds
        Where they are.
    options : EmbedOptions
        Whether to.

    Raises
    ------
    ValueError
        Naming the first.
    """
    if options.nan_policy == "propagate" or torch.compiler.is_compiling():
        return
    bad = axes.scale.isnan()
    if bool(bad.any()):
        raise ValueError(
            f"the cloud at {_first(bad, clouds)} is not finite, as are {int(bad.sum()) - 1} "
            'others; nan_policy="propagate" makes their embeddings NaN'
        )


def _first(which: Tensor, clouds: PointClouds) -> str:
    position = int(which.int().argmax())
    if clouds.ragged or len(clouds.batch) == 1:
        return f"batch index {position}"
    index = torch.unravel_index(torch.tensor(position), clouds.batch) if clouds.batch else ()
    return f"batch index {tuple(int(i) for i in index)}"
