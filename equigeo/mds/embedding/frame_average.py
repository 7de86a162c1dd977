"""Averages of a function over frames."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from equigeo.graphs.inputs import kind_of
from equigeo.mds.embedding.frame_set import FrameSet

REDUCTIONS = ("mean", "min", "max")


def frame_average(
    fn: Callable[..., Tensor], frames: FrameSet, *components: Tensor, reduce: str = "mean"
) -> Tensor:
    """Evaluate a function in every frame and average the results.

    Invariant under the group of the frames where they are exact; equivariant under permutations if
    the function is.

    Parameters
    ----------
    fn : callable
        Maps coordinates (..., points, dim) or (rows, dim) to values (..., *) with the batch axes
        first; for ragged clouds one row per cloud or per point.
    frames : FrameSet
        Result of :func:`frames`.
    *components : Tensor, (frames, ...)
        Further arguments of ``fn``, one entry per frame, from :func:`frame_components`.
    reduce : {"mean", "min", "max"}
        Weighted mean, or minimum or maximum over the frames with nonzero weight.

    Examples
    --------
    >>> from equigeo.mds import frames
    >>> box = torch.cartesian_prod(*[torch.tensor([-s, s]) for s in (3.0, 2.0, 1.0)])
    >>> first = frame_average(lambda y: y[0], frames(box))
    >>> bool((first.abs() < 1e-6).all())
    True
    """
    if reduce not in REDUCTIONS:
        raise ValueError(f"reduce must be one of {REDUCTIONS}, got {reduce!r}")
    if not isinstance(frames, FrameSet):
        raise TypeError(f"frames must be a FrameSet, got {kind_of(frames)}")
    total: Tensor | None = None
    for y, weight, *seen in zip(frames.y, frames.weight, *components, strict=True):
        value = fn(y, *seen)
        if not isinstance(value, Tensor):
            raise TypeError(f"fn must return a Tensor, got {kind_of(value)}")
        weight = _fitted(weight, value, frames.ptr)
        if reduce == "mean":
            # A frame that is there for another cloud must not even pass on its NaN.
            term = torch.where(weight > 0, weight.to(value.dtype) * value, 0)
            total = term if total is None else total + term
        else:
            limit = torch.inf if reduce == "min" else -torch.inf
            term = torch.where(weight > 0, value, limit)
            pick = torch.minimum if reduce == "min" else torch.maximum
            total = term if total is None else pick(total, term)
    if total is None:
        raise ValueError("there must be at least one frame, got none")
    return total


def _fitted(weight: Tensor, value: Tensor, ptr: Tensor | None) -> Tensor:
    """Reshape weights to broadcast against values."""
    if ptr is not None and len(value) != len(weight):
        weight = weight.repeat_interleave(ptr.diff(), 0)
    if value.shape[: weight.ndim] != weight.shape:
        raise ValueError(
            f"values must begin with the batch axes {tuple(weight.shape)}, "
            f"got shape {tuple(value.shape)}"
        )
    return weight.view((*weight.shape, *(1,) * (value.ndim - weight.ndim)))
