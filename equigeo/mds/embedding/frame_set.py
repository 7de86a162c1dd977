"""Several frames of the same clouds."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class FrameSet:
    """Frames to average over, equivariant as a weighted set.

    All clouds of a batch have equally many frames; unused ones have weight zero.

    Parameters
    ----------
    y : Tensor, (frames, ..., points, dim)
        Coordinates in each frame.
    frame : Tensor, (frames, ..., dim, dim)
        Axes as columns.
    weight : Tensor, (frames, ...)
        Nonnegative, with sum one per cloud.
    centroid, scale, null, ptr
        See :class:`MDSResult`; ``null`` is False for frames without principal axes.
    exact : Tensor, (...), bool
        Whether averages over the frames are invariant up to rounding.
    group : {"O", "SO"}
        Whether frames may be left-handed.

    Examples
    --------
    >>> import torch
    >>> from equigeo.mds import frames
    >>> box = torch.cartesian_prod(*[torch.tensor([-s, s]) for s in (3.0, 2.0, 1.0)])
    >>> len(frames(box, group="O")), len(frames(box, group="SO"))
    (8, 4)
    """

    y: Tensor
    frame: Tensor
    weight: Tensor
    centroid: Tensor
    scale: Tensor
    null: Tensor
    exact: Tensor
    group: str
    ptr: Tensor | None = None

    def __repr__(self) -> str:
        """Return shapes and the number of exact clouds."""
        exact = "" if self.y.is_meta else f", exact={int(self.exact.sum())}"
        return (
            f"FrameSet(frames={len(self)}, y={tuple(self.y.shape)} {self.y.dtype}, "
            f"clouds={self.scale.numel()}{exact}, group={self.group!r})"
        )

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.weight)
