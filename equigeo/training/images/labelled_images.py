"""Images in memory, as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equigeo.training.images.image_inputs import image_inputs
from equigeo.training.labelled_batch import LabelledBatch
from equigeo.training.labelled_source import LabelledSource


@dataclass(frozen=True, eq=False)
class LabelledImages(LabelledSource):
    """One image and one label per sample; images become numbers a batch at a time.

    Parameters
    ----------
    images : Tensor, (images, height, width), uint8
        Grey values, on the CPU.
    labels : Tensor, (images,), int64
        Class index of every image.
    """

    images: Tensor
    labels: Tensor

    def batch(
        self,
        indices: Sequence[int],
        total: int | None = None,
        generator: torch.Generator | None = None,
    ) -> LabelledBatch:
        """Unite some images, in the given order; nothing is added to them."""
        chosen = torch.as_tensor(indices, dtype=torch.long)
        number = len(indices) if total is None else total
        return LabelledBatch(image_inputs(self.images[chosen]), self.labels[chosen], number)
