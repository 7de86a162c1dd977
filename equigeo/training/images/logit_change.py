"""How far the logits of an image model are from invariance."""

from __future__ import annotations

from torch import nn

from equigeo.datasets import AffNIST, centred
from equigeo.training.images.image_logits import image_logits
from equigeo.training.relative_change import relative_change


def logit_change(model: nn.Module, data: AffNIST, number: int = 1000) -> float:
    """Measure by how much affNIST's transformations change the logits of a model.

    Every digit is compared with its centred original; see ``relative_change``.

    Parameters
    ----------
    model : torch.nn.Module
        Takes (images, 1, 40, 40) in [0, 1].
    data : AffNIST
        Digits and transformations.
    number : int
        How many digits, spread over the data; at least 2 are needed.

    Returns
    -------
    float
        The relative change: 0 for an invariant model.

    Raises
    ------
    ValueError
        If there are fewer than two digits.
    """
    indices, variants = data.pairs(data.spread(min(number, len(data.images))))
    if len(indices) < 2:
        raise ValueError(f"the change of logits needs at least 2 digits, got {len(indices)}")
    original = image_logits(model, centred(data.images[indices]))
    return relative_change(original, image_logits(model, data.render(indices, variants)))
