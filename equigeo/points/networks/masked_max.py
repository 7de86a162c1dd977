"""Maxima over the points of clouds."""

from __future__ import annotations

import torch
from torch import Tensor


def greatest(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Take the maximum over points, channel by channel.

    Parameters
    ----------
    x : Tensor, (B, P, C), floating
        Features.
    mask : Tensor, (B, P), bool, optional
        Which points there are, one at least.

    Returns
    -------
    Tensor, (B, C), dtype of ``x``
        The maxima.

    Examples
    --------
    >>> x = torch.tensor([[[-1.0], [-2.0], [0.0]]])
    >>> greatest(x, torch.tensor([[True, True, False]]))
    tensor([[-1.]])
    """
    return (x if mask is None else x.masked_fill(~mask[..., None], -torch.inf)).amax(1)
