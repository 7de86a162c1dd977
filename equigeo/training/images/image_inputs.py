"""Bytes to the numbers that image models take."""

from __future__ import annotations

from torch import Tensor


def image_inputs(images: Tensor) -> Tensor:
    """Scale grey values to [0, 1] and give them a channel.

    The background stays 0, so that padding by zeros is background.

    Parameters
    ----------
    images : Tensor, (images, height, width), uint8
        Grey values.

    Returns
    -------
    Tensor, (images, 1, height, width), float32
        Model inputs.

    Examples
    --------
    >>> import torch
    >>> image_inputs(torch.full((2, 3, 3), 255, dtype=torch.uint8)).unique()
    tensor([1.])
    """
    return images.float().div_(255).unsqueeze(1)
