"""Which clouds an embedding cannot be trusted on, judged by what rounding can do."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.mds.embedding.cloud_rows import PointClouds
from equigeo.mds.embedding.embed_options import EmbedOptions
from equigeo.mds.embedding.signed_axes import AS_FOUND, EACH, Axes, right_handed, sign_tolerance
from equigeo.ops import axis_flags

_warned: set[str] = set()


@dataclass(frozen=True, eq=False)
class Flags:
    """What rounding may change in principal axes.

    Parameters
    ----------
    gap : Tensor, (clouds, dim - 1)
        Differences of neighbouring eigenvalues, relative to the first; constant.
    ambiguous : Tensor, (clouds, dim), bool
        Axes whose sign it may change.
    degenerate : Tensor, (clouds, dim - 1), bool
        Neighbouring axes that it may turn into each other.
    broken, flagged : int
        How many clouds are not finite, and how many have a flag; zero where nobody asks.
    """

    gap: Tensor
    ambiguous: Tensor
    degenerate: Tensor
    broken: int
    flagged: int


def find_flags(axes: Axes, clouds: PointClouds, group: str | None, options: EmbedOptions) -> Flags:
    """Tell which signs and which order of axes rounding may change.

    Parameters
    ----------
    axes : Axes
        As found.
    clouds : PointClouds
        The points.
    group : {"O", "SO", None}
        Which rotations are divided out; there are no flags where none is.
    options : EmbedOptions
        Tolerances, and which axis depends on the others.

    Returns
    -------
    Flags
        Of all clouds.
    """
    gap_tol = options.gap_tol
    if gap_tol is None:
        gap_tol = 1e-8 if clouds.eps == torch.finfo(torch.float64).eps else 1e-4
    gap, ambiguous, degenerate, counts = axis_flags(
        axes.spread.detach(),
        axes.margin,
        axes.centroid.detach(),
        clouds.ptr,
        clouds.weight,
        AS_FOUND if group is None else EACH if group == "O" else right_handed(options),
        (clouds.eps, gap_tol, sign_tolerance(clouds, options)),
    )
    ignored = options.nan_policy == "propagate" and options.fallback not in ("warn", "error")
    # Reading a value waits for the device.
    broken, flagged = (0, 0) if ignored or torch.compiler.is_compiling() else counts.tolist()
    return Flags(gap, ambiguous, degenerate, broken, flagged)


def report(
    ambiguous: Tensor, degenerate: Tensor, clouds: PointClouds, options: EmbedOptions
) -> None:
    """Warn about flagged clouds, once per process, or refuse them.

    Parameters
    ----------
    ambiguous, degenerate : Tensor, (clouds, ...), bool
        Flags.
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
    flagged = ambiguous.any(-1) | degenerate.any(-1)
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


def check_finite(axes: Axes, clouds: PointClouds, flags: Flags, options: EmbedOptions) -> None:
    """Refuse clouds with NaN or infinite coordinates.

    Parameters
    ----------
    axes : Axes
        NaN where the cloud was not finite.
    clouds : PointClouds
        Where they are.
    flags : Flags
        Which count them.
    options : EmbedOptions
        Whether to.

    Raises
    ------
    ValueError
        Naming the first.
    """
    if flags.broken and options.nan_policy == "raise":
        raise ValueError(
            f"the cloud at {_first(axes.scale.isnan(), clouds)} is not finite, as are "
            f'{flags.broken - 1} others; nan_policy="propagate" makes their embeddings NaN'
        )


def _first(which: Tensor, clouds: PointClouds) -> str:
    position = int(which.int().argmax())
    if clouds.ragged or len(clouds.batch) == 1:
        return f"batch index {position}"
    index = torch.unravel_index(torch.tensor(position), clouds.batch) if clouds.batch else ()
    return f"batch index {tuple(int(i) for i in index)}"
