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

    Parameters
    ----------
    fn : callable
        From coordinates, (..., points, dim) or (rows, dim), to values (..., *) that begin with
        the batch axes; of ragged clouds one row for each cloud or for each point.
    frames : FrameSet
        What :func:`frames` returns.
    *components : Tensor, (frames, ...)
        Given to ``fn`` after the coordinates, for each frame its own: what
        :func:`frame_components` returns.
    reduce : {"mean", "min", "max"}
        The weighted mean; or the least or largest value of frames whose weight is not zero, as
        for the length of a tour.

    Returns
    -------
    Tensor, (..., *)
        Values.

    Raises
    ------
    TypeError
        If these are no frames, or a value is no tensor.
    ValueError
        If the values do not begin with the batch axes or the reduction is unknown.

    Equivariance
    ------------
    Invariant under the group of the frames, for every function, where the frames are exact;
    equivariant under permutations where the function is.

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
