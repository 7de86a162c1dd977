"""Several frames of the same clouds."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class FrameSet:
    """Frames to average over, equivariant as a weighted set.

    Clouds of a batch have as many frames as the one that needs most; the others of a cloud have
    weight zero.

    Parameters
    ----------
    y : Tensor, (frames, ..., points, dim)
        Coordinates in each frame.
    frame : Tensor, (frames, ..., dim, dim)
        Axes as columns.
    weight : Tensor, (frames, ...)
        Not negative; those of a cloud add up to one.
    centroid : Tensor, (..., dim)
        As of the embedding.
    scale : Tensor, (...)
        As of the embedding.
    null : Tensor, (..., dim), bool
        As of the embedding; all False where frames do not have its axes.
    exact : Tensor, (...), bool
        Whether an average over the frames is invariant up to rounding for this cloud.
    group : {"O", "SO"}
        Whether frames may be left-handed.
    ptr : Tensor, (clouds + 1,), int64, optional
        Offsets of ragged clouds.

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
