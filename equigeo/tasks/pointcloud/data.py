"""Training and evaluation clouds of a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from equigeo._brief import brief_fields, shown
from equigeo.datasets import PointClouds, load_cloud_folder, load_modelnet_points
from equigeo.tasks.hold_out import hold_out
from equigeo.tasks.pointcloud.config import PointConfig
from equigeo.training.labelled_source import LabelledSource, digest
from equigeo.training.random_state import derived_generator


@dataclass(frozen=True, eq=False)
class LabelledClouds(LabelledSource):
    """Source of labelled point clouds."""

    points: Tensor  # (clouds, points, 3), on the CPU
    labels: Tensor  # (clouds,)
    num_points: int  # points drawn per cloud for every training batch
    jitter: float = 0.0  # deviation of noise on points

    __repr__ = brief_fields

    def inputs(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        """Join some clouds; with noise, draw points and add jitter."""
        points = self.points[chosen]
        if generator is not None and self.num_points < points.shape[1]:
            # the largest of independent keys: a uniform draw without replacement
            keys = torch.rand(points.shape[:2], generator=generator)
            points = _take(points, keys.topk(self.num_points, dim=1).indices)
        if generator is not None and self.jitter > 0:
            noise = torch.randn(points.shape, generator=generator, dtype=points.dtype)
            points = points + self.jitter * noise
        return points

    def digests(self) -> Tensor:
        """Return digests of the clouds and of their labels."""
        return torch.stack([cloud_digests(self.points), self.labels], dim=1)


def cloud_digests(
    points: Tensor,  # (clouds, points, 3)
) -> Tensor:
    """Return a digest of every cloud, (clouds,)."""
    return torch.tensor([digest(cloud) for cloud in points], dtype=torch.long)


def load_clouds(config: PointConfig) -> tuple[PointClouds, PointClouds]:
    """Load training clouds with all points, and evaluation clouds with a fixed draw of points."""
    train, evaluated = whole_clouds(config)
    return train, replace(evaluated, points=fewer_points(evaluated.points, config.points))


def whole_clouds(config: PointConfig) -> tuple[PointClouds, PointClouds]:
    """Load training and evaluation clouds with all their points."""
    train, evaluated = _parts(config)
    if config.points > train.points.shape[1]:
        raise ValueError(
            f"{config.data}: clouds have {train.points.shape[1]} points, not {config.points}; "
            "choose fewer with --points"
        )
    if not config.holdout and evaluated is not None:
        if evaluated.classes != train.classes:
            raise ValueError(f"{config.data}: training and test clouds have different classes")
        for part, clouds in (("training", train), ("test", evaluated)):
            _require_all(clouds, f"{config.data}: has no {part} cloud")
        return train, evaluated
    return _hold_out(train, config.holdout)


def _parts(config: PointConfig) -> tuple[PointClouds, PointClouds | None]:
    """Read class folders or ModelNet10; its test file is not opened for held-out evaluation."""
    folder = Path(config.data)
    if not any(folder.glob("modelnet10_*.npz")):
        return load_cloud_folder(folder, config.points)
    train = load_modelnet_points(folder, "train")
    return train, None if config.holdout else load_modelnet_points(folder, "test")


def _require_all(clouds: PointClouds, problem: str) -> None:
    """Raise if a class has no cloud, so that its accuracy is undefined."""
    counts = clouds.labels.bincount(minlength=clouds.num_classes)
    for name, count in zip(clouds.classes, counts.tolist(), strict=True):
        if count == 0:
            raise ValueError(f"{problem} of the class {shown(name)}")


def _hold_out(clouds: PointClouds, number: int) -> tuple[PointClouds, PointClouds]:
    counts = clouds.labels.bincount(minlength=clouds.num_classes)
    for name, count in zip(clouds.classes, counts.tolist(), strict=True):
        if count <= number:
            raise ValueError(
                f"class {shown(name)} has {count} training clouds, "
                f"too few to hold out {number} of them; choose fewer with --holdout"
            )
    parts = hold_out(clouds.labels, torch.arange(len(clouds)), number)
    rest, held = (
        replace(clouds, points=clouds.points[part], labels=clouds.labels[part]) for part in parts
    )
    return rest, held


def fewer_points(
    points: Tensor,  # (clouds, points, 3)
    number: int,
) -> Tensor:
    """Draw a fixed random subset of each cloud's points, (clouds, number, 3)."""
    total = points.shape[1]
    if number == total:
        return points
    # a stream for each cloud, independent of the seed of the run: runs are comparable
    kept = [
        torch.randperm(total, generator=derived_generator(0, "points", i))[:number]
        for i in range(len(points))
    ]
    return _take(points, torch.stack(kept))


def _take(points: Tensor, kept: Tensor) -> Tensor:
    """Return the points of every cloud at positions (clouds, kept)."""
    return points.gather(1, kept[:, :, None].expand(-1, -1, 3))
