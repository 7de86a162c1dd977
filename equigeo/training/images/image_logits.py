"""Logits of a model on many images."""

from __future__ import annotations

from torch import Tensor, nn

from equigeo.training.classify import classify
from equigeo.training.images.image_inputs import image_inputs

_AT_ONCE = 100


def image_logits(model: nn.Module, images: Tensor) -> Tensor:
    """Run a model on images in evaluation mode, a hundred at a time.

    Parameters
    ----------
    model : torch.nn.Module
        Takes (images, 1, height, width) in [0, 1].
    images : Tensor, (images, height, width), uint8
        At least one; grey values, background 0.

    Returns
    -------
    Tensor, (images, classes)
        Logits, on the CPU.
    """
    return classify(model, (image_inputs(part) for part in images.split(_AT_ONCE)))
