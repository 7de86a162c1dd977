"""Random selection of one frame."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from equigeo.graphs.inputs import kind_of
from equigeo.mds.embedding.frame_set import FrameSet


def sample_frame(frames: FrameSet, *, generator: torch.Generator | None = None) -> Tensor:
    """Sample a frame of a :class:`FrameSet` per cloud, by weight, and return the coordinates in it.

    The expectation of a function of the result is its average over the frames. Invariant in
    distribution where the frames are exact.

    Examples
    --------
    >>> from equigeo.mds import frames
    >>> box = torch.cartesian_prod(*[torch.tensor([-s, s]) for s in (3.0, 2.0, 1.0)])
    >>> torch.allclose(sample_frame(frames(box)).abs(), box.abs())
    True
    """
    return draw_frames(frames, generator=generator).y[0]


def draw_frames(frames: FrameSet, *, generator: torch.Generator | None = None) -> FrameSet:
    """Sample a frame per cloud by weight and return all its fields."""
    if not isinstance(frames, FrameSet):
        raise TypeError(f"frames must be a FrameSet, got {kind_of(frames)}")
    weight = frames.weight.reshape(len(frames), -1)
    drawn = torch.multinomial(weight.mT, 1, generator=generator)[:, 0]
    of_rows = drawn if frames.ptr is None else drawn.repeat_interleave(frames.ptr.diff())
    ragged = frames.ptr is not None
    return replace(
        frames,
        y=_taken(frames.y, of_rows, axes=1 if ragged else 2),
        frame=_taken(frames.frame, drawn, axes=2),
        weight=torch.ones_like(frames.weight[:1]),
    )


def _taken(x: Tensor, drawn: Tensor, axes: int) -> Tensor:
    """Select one frame of (frames, ..., *axes) for each entry of the axes before the last."""
    shape = x.shape[1:]
    x = x.reshape(len(x), len(drawn), *shape[len(shape) - axes :])
    return x[drawn, torch.arange(len(drawn), device=drawn.device)].reshape(1, *shape)
