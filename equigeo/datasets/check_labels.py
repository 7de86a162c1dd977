"""What class labels must be, whatever they label."""

from __future__ import annotations

import torch
from torch import Tensor


def check_labels(labels: Tensor, classes: tuple[str, ...], number: int) -> None:
    """Refuse labels that do not fit their classes or what they label.

    Parameters
    ----------
    labels : Tensor, (number,), int64
        Class index of every item.
    classes : tuple of str
        Class names; a label is a position here.
    number : int
        Number of items, at least one.

    Raises
    ------
    ValueError
        If the shape or the dtype is wrong, a class name occurs twice or a label has no class.

    Examples
    --------
    >>> check_labels(torch.tensor([0, 2]), ("chair", "table"), 2)
    Traceback (most recent call last):
        ...
    ValueError: labels must be positions in 2 classes, got 0 to 2
    """
    if labels.shape != (number,) or labels.dtype != torch.int64:
        raise ValueError(
            f"labels must be {torch.int64} ({number},), got {labels.dtype} {tuple(labels.shape)}"
        )
    if len(set(classes)) != len(classes):
        raise ValueError(f"classes must have different names, got {classes}")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(classes):
        raise ValueError(f"labels must be positions in {len(classes)} classes, got {low} to {high}")
