"""One frame of several, by chance."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs.inputs import kind_of
from equigeo.mds.embedding.frame_set import FrameSet


def sample_frame(frames: FrameSet, *, generator: torch.Generator | None = None) -> Tensor:
    """Draw a frame for every cloud, by weight.

    A function of the result has the average over the frames as its expectation, at the price of
    one frame: a network that is trained so may be averaged afterwards.

    Parameters
    ----------
    frames : FrameSet
        What :func:`frames` returns.
    generator : torch.Generator, optional
        Source of randomness, on the device of the frames; torch's global one by default.

    Returns
    -------
    Tensor, (..., points, dim) or (rows, dim)
        Coordinates in the frames that were drawn.

    Raises
    ------
    TypeError
        If these are no frames.

    Equivariance
    ------------
    Invariant under the group of the frames in distribution, where they are exact.

    References
    ----------
    Puny et al., "Frame averaging for invariant and equivariant network design", 2022.

    Examples
    --------
    >>> from equigeo.mds import frames
    >>> box = torch.cartesian_prod(*[torch.tensor([-s, s]) for s in (3.0, 2.0, 1.0)])
    >>> y = sample_frame(frames(box))
    >>> torch.allclose(y.abs(), box.abs())
    True
    """
    if not isinstance(frames, FrameSet):
        raise TypeError(f"frames must be a FrameSet, got {kind_of(frames)}")
    weight = frames.weight.reshape(len(frames), -1)
    drawn = torch.multinomial(weight.mT, 1, generator=generator)[:, 0]
    if frames.ptr is not None:
        drawn = drawn.repeat_interleave(frames.ptr.diff())
    shape = frames.y.shape[1:]
    y = frames.y.reshape(
        len(frames), len(drawn), *(shape[-2:] if frames.ptr is None else shape[1:])
    )
    return y[drawn, torch.arange(len(drawn), device=drawn.device)].reshape(shape)
