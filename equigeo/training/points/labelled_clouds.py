"""Point clouds in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.training.labelled_batch import LabelledBatch
from equigeo.training.labelled_source import LabelledSource


@dataclass(frozen=True, eq=False)
class LabelledClouds(LabelledSource):
    """One cloud and one label per sample.

    Parameters
    ----------
    points : Tensor, (clouds, points, 3), floating
        On the CPU.
    labels : Tensor, (clouds,), int64
        Class index of every cloud.
    num_points : int
        Points to draw from every cloud, anew every time, where noise is asked for.
    jitter : float
        Deviation of the noise on points, where noise is asked for.
    """

    points: Tensor
    labels: Tensor
    num_points: int
    jitter: float = 0.0

    def batch(
        self,
        indices: Sequence[int],
        total: int | None = None,
        generator: torch.Generator | None = None,
    ) -> LabelledBatch:
        """Unite some clouds, in the given order."""
        chosen = torch.as_tensor(indices, dtype=torch.long)
        points = self.points[chosen]
        if generator is not None and self.num_points < points.shape[1]:
            keys = torch.rand(points.shape[:2], generator=generator)
            kept = keys.topk(self.num_points, dim=1).indices[:, :, None]
            points = points.gather(1, kept.expand(-1, -1, 3))
        if generator is not None and self.jitter > 0:
            noise = torch.randn(points.shape, generator=generator, dtype=points.dtype)
            points = points + self.jitter * noise
        number = len(indices) if total is None else total
        return LabelledBatch(points, self.labels[chosen], number)
