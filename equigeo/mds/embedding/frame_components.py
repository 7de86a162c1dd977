"""Components of equivariant features along the axes of frames."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike, as_tensor
from equigeo.mds.embedding.frame_lift import TypedFrames, without_arbitrary
from equigeo.mds.embedding.frame_set import FrameSet
from equigeo.mds.embedding.mds_result import MDSResult
from equigeo.reps import Points, Representation


def frame_components(
    x: TensorLike,
    frames: FrameSet | MDSResult,
    rep: Representation,
    *,
    power: float = 0.0,
    per_point: bool = False,
) -> Tensor:
    r"""Return components (frames, ..., dim) of features along the axes of frames.

    .. math:: h_F = \sigma^{-p}\, \rho(F)^{-1} x

    The inverse of :func:`frame_lift`, with the same arguments except features ``x`` (..., dim) of
    clouds or points, such as velocities. Invariant as a weighted set where the frames are exact.
    Components that depend on the arbitrary directions of null axes are zero.

    Examples
    --------
    >>> from equigeo.mds import embed, frame_lift
    >>> from equigeo.reps import Irreps
    >>> x = torch.tensor([[0.0, 0, 0], [1, 0, 0], [1, 2, 0], [1, 2, 3]], dtype=torch.float64)
    >>> velocity, result = x.flip(0).sin(), embed(x)
    >>> seen = frame_components(velocity, result, Irreps("1o"))
    >>> torch.allclose(frame_lift(seen, result, Irreps("1o")), velocity)
    True
    """
    found = TypedFrames.of(frames, per_point)
    x = as_tensor(x, "features", like=found.matrix)
    found = found.fit(x, rep, found.weight.shape[1:])
    inverse = found.matrix.mT
    if isinstance(rep, Points):
        seen = (inverse @ ((x - found.centroid) / found.scale)[..., None])[..., 0]
        seen = torch.where(found.null, 0, seen)
    else:
        rep = rep.restrict(found.group)
        seen = rep.act(inverse, x / found.scale**power if power else x)
        seen = without_arbitrary(seen, found.null, rep, found.group)
    return seen[0] if isinstance(frames, MDSResult) else seen
