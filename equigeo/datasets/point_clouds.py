"""Labelled point clouds in memory."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from equigeo.datasets.check_labels import check_labels


@dataclass(frozen=True, eq=False)
class PointClouds:
    """Labelled point clouds of equal size.

    Parameters
    ----------
    points : Tensor, (clouds, points, 3), floating
    labels : Tensor, (clouds,), int64
        Positions in ``classes``.
    classes : tuple of str
        Class names. They come from files, so whatever displays them must escape them.

    Examples
    --------
    >>> import torch
    >>> clouds = PointClouds(torch.zeros(2, 5, 3), torch.tensor([0, 1]), ("chair", "table"))
    >>> len(clouds), clouds.num_classes
    (2, 2)
    """

    points: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        """Validate the fields."""
        shape = tuple(self.points.shape)
        if len(shape) != 3 or shape[2] != 3 or 0 in shape or not self.points.is_floating_point():
            raise ValueError(
                f"points must be floating (clouds, points, 3), got {self.points.dtype} {shape}"
            )
        if not bool(self.points.isfinite().all()):
            raise ValueError("points must be finite")
        check_labels(self.labels, self.classes, shape[0])

    def __repr__(self) -> str:
        """Return counts without points."""
        points = self.points.shape[1]
        return f"PointClouds({len(self)} of {points} points, {self.num_classes} classes)"

    def __len__(self) -> int:
        """Return the number of clouds."""
        return len(self.points)

    @property
    def num_classes(self) -> int:
        """Number of classes, including classes without clouds."""
        return len(self.classes)
