"""Full precision where PyTorch is told to lower it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def without_autocast(x: Tensor) -> AbstractContextManager[None]:
    """Leave out autocasting, without a price where there is none.

    Parameters
    ----------
    x : Tensor, (...)
        Whose device it is about.

    Returns
    -------
    context manager
        To compute in.
    """
    kind = x.device.type
    if torch.is_autocast_enabled(kind):
        return torch.autocast(kind, enabled=False)
    return nullcontext()
