"""Which classes a model mistakes for which."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from equigeo.training.images.image_logits import image_logits


def confuse_images(
    model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], num_classes: int
) -> Tensor:
    """Count images by true and predicted class.

    Parameters
    ----------
    model : torch.nn.Module
        Takes (images, 1, height, width) in [0, 1].
    batches : iterable of (images, labels)
        uint8 (images, height, width) and int64 (images,); one batch in memory at a time.
    num_classes : int
        Number of logits.

    Returns
    -------
    Tensor, (true classes, predicted classes), int64
        Counts.
    """
    counts = torch.zeros(num_classes * num_classes, dtype=torch.long)
    for images, labels in batches:
        places = labels * num_classes + image_logits(model, images).argmax(dim=1)
        counts += places.bincount(minlength=len(counts))
    return counts.reshape(num_classes, num_classes)
