"""Validation of class labels."""

from __future__ import annotations

import torch
from torch import Tensor


def check_labels(labels: Tensor, classes: tuple[str, ...], number: int) -> None:
    """Raise unless labels are int64 class indices, one per item, and class names are distinct."""
    if labels.shape != (number,) or labels.dtype != torch.int64:
        raise ValueError(
            f"labels must be {torch.int64} ({number},), got {labels.dtype} {tuple(labels.shape)}"
        )
    if len(set(classes)) != len(classes):
        raise ValueError(f"classes must have different names, got {classes}")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(classes):
        raise ValueError(f"labels must be positions in {len(classes)} classes, got {low} to {high}")
