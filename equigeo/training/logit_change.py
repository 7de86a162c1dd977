"""How far the logits of an image model are from invariance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equigeo.datasets import AffNIST, centred
from equigeo.training.image_logits import image_logits


def logit_change(model: nn.Module, data: AffNIST, number: int = 1000) -> float:
    r"""Measure by how much affNIST's transformations change the logits of a model.

    .. math:: \sqrt{\frac{\langle |f(g_i x_i) - f(x_i)|^2 \rangle_i}
                         {\langle |f(x_i) - \langle f \rangle|^2 \rangle_i}}

    over centred digits :math:`x_i` with one transformation each: the root mean square change in
    units of the deviation across images. 0 for an invariant model, about 1.4 for one whose output
    has nothing to do with its digit.

    Parameters
    ----------
    model : torch.nn.Module
        Takes (images, 1, 40, 40) in [0, 1].
    data : AffNIST
        Digits and transformations; the change is infinite where all centred digits look alike.
    number : int
        How many digits, spread over the data; at least 2 are needed.

    Returns
    -------
    float
        The relative change.

    Raises
    ------
    ValueError
        If there are fewer than two digits.
    """
    indices, variants = data.pairs(data.spread(min(number, len(data.images))))
    if len(indices) < 2:
        raise ValueError(f"the change of logits needs at least 2 digits, got {len(indices)}")
    original = image_logits(model, centred(data.images[indices])).double()
    moved = image_logits(model, data.render(indices, variants)).double()
    spread = (original - original.mean(dim=0)).square().sum()
    return _ratio((moved - original).square().sum(), spread)


def _ratio(change: Tensor, spread: Tensor) -> float:
    if spread == 0:
        return 0.0 if change == 0 else float("inf")
    return float(torch.sqrt(change / spread))
