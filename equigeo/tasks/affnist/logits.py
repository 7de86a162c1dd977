"""Logits of image models, confusion counts and deviation from invariance."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor, nn

from equigeo.datasets import AffNIST
from equigeo.datasets.digits.centred import centred
from equigeo.tasks.affnist.data import image_inputs
from equigeo.tasks.measures.classification import classify, confusion_matrix
from equigeo.tasks.measures.relative_change import relative_change

IMAGES_AT_ONCE: Final = 1000  # transformed images in memory
_BATCH_SIZE: Final = 100


def image_logits(
    model: nn.Module,
    images: Tensor,  # (images, height, width) uint8
) -> Tensor:
    """Compute logits in evaluation mode, (images, classes) on the CPU, a hundred at a time."""
    return classify(model, (image_inputs(part) for part in images.split(_BATCH_SIZE)))


def image_confusion(
    model: nn.Module,
    batches: Iterable[tuple[Tensor, Tensor]],  # (images, height, width) uint8, (images,)
    num_classes: int,
) -> Tensor:
    """Count images by true and predicted class, (true classes, predicted classes)."""
    counts = torch.zeros(num_classes, num_classes, dtype=torch.long)
    for images, labels in batches:
        predictions = image_logits(model, images).argmax(dim=1)
        counts += confusion_matrix(labels, predictions, num_classes)
    return counts


def logit_change(model: nn.Module, data: AffNIST, number: int = 1000) -> float:
    """Return the RMS change of logits under affNIST's transformations; 0 for an invariant model.

    Each of ``number`` digits (at least 2) is compared with its centred original. The change is
    relative to the standard deviation of the logits across centred digits.

    Examples
    --------
    >>> digits = torch.zeros(2, 28, 28, dtype=torch.uint8)
    >>> digits[:, 6:22, 13:15] = 255
    >>> data = AffNIST(digits, torch.tensor([1, 1]), "test")
    >>> unaware = nn.Sequential(nn.Flatten(), nn.Linear(40 * 40, 10))
    >>> logit_change(unaware, data) > 0.1
    True
    """
    # one transformed version of each digit, beside its centred original
    indices, variants = data.pairs(data.spread(min(number, len(data.images))))
    if len(indices) < 2:
        raise ValueError(f"the change of logits needs at least 2 digits, got {len(indices)}")
    original = image_logits(model, centred(data.images[indices]))
    return relative_change(original, image_logits(model, data.render(indices, variants)))
