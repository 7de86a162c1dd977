"""Relative change of logits under transformations."""

from __future__ import annotations

import torch
from torch import Tensor


def relative_change(
    original: Tensor,  # (samples, classes)
    moved: Tensor,  # (samples, classes)
) -> float:
    """Return the RMS change of logits over their RMS deviation across samples."""
    original, moved = original.double(), moved.double()
    # 0 for an invariant model, about 1.4 if output and input are independent. Both sums are over
    # the same samples and classes, so that their numbers cancel.
    change = (moved - original).square().sum()
    spread = (original - original.mean(dim=0)).square().sum()
    if spread == 0:  # a constant model
        return 0.0 if change == 0 else float("inf")
    return float(torch.sqrt(change / spread))
