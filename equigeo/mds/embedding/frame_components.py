"""Components of equivariant features along the axes of frames."""

from __future__ import annotations

import torch
from torch import Tensor

from equigeo.graphs.inputs import TensorLike, as_tensor, kind_of
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
    r"""Return features as components along the axes of frames, the inverse of :func:`frame_lift`.

    .. math:: h_F = \sigma^{-p}\, \rho(F)^{-1} x

    Parameters
    ----------
    x : Tensor or ndarray, (..., dim)
        Features of clouds or points, such as velocities, with the batch axes of the frames first.
    frames, rep, power, per_point
        See :func:`frame_lift`.

    Returns
    -------
    Tensor, (frames, ..., dim)
        Components, without the axis of frames for an ``MDSResult``. Components that depend on the
        arbitrary directions of null axes are zero.

    Equivariance
    ------------
    Invariant as a weighted set, where the frames are exact.

    References
    ----------
    Puny et al., "Frame averaging for invariant and equivariant network design", 2022.

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
    if not isinstance(rep, Representation):
        raise TypeError(f"rep must be a Representation, got {kind_of(rep)}")
    found = TypedFrames.of(frames, per_point)
    x = as_tensor(x, "features", like=found.matrix)
    lead, dim = found.weight.shape[1:], found.group.n
    length = dim if isinstance(rep, Points) else rep.dim
    if x.shape[: len(lead)] != lead or x.ndim <= len(lead) or x.shape[-1] != length:
        raise ValueError(
            f"features must be ({', '.join(map(str, (*lead, '...', length)))}), "
            f"got {tuple(x.shape)}"
        )
    extra = (1,) * (x.ndim - len(lead) - 1)
    inverse = found.matrix.mT.view(*found.weight.shape, *extra, dim, dim)
    size, origin = (t.view(*lead, *extra, -1) for t in (found.scale, found.centroid))
    if isinstance(rep, Points):
        seen = (inverse @ ((x - origin) / size)[..., None])[..., 0]
        seen = torch.where(found.null.view(*lead, *extra, dim), 0, seen)
    else:
        rep = rep.restrict(found.group)
        seen = rep.act(inverse, x / size**power if power else x)
        seen = without_arbitrary(seen, found.null, rep, found.group, extra)
    return seen[0] if isinstance(frames, MDSResult) else seen
