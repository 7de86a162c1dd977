"""Logits, embeddings and classification measures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.nn.module import evaluating


@torch.no_grad()
def embed(model: Any, batches: Iterable[Any]) -> Tensor:
    """Embed inputs in evaluation mode, (samples, width) on the CPU."""
    device = next(model.parameters()).device
    with evaluating(model):
        return torch.cat([model.embed(batch.to(device)).cpu() for batch in batches])


@torch.no_grad()
def classify(model: nn.Module, batches: Iterable[Any]) -> Tensor:
    """Compute logits in evaluation mode, (samples, classes) on the CPU."""
    device = next(model.parameters()).device
    with evaluating(model):
        return torch.cat([model(batch.to(device)).cpu() for batch in batches])


def accuracy(
    scores: Tensor,  # (samples, classes)
    labels: Tensor,  # (samples,)
) -> float:
    """Return the share of samples with the largest score in the true class."""
    return (scores.argmax(dim=1) == labels).double().mean().item()


def ranking(
    classes: Sequence[str],
    logits: Tensor,  # (classes,) of one sample
    top: int,
) -> list[tuple[str, float]]:
    """Return the ``top`` most probable classes with their probabilities."""
    best = logits.double().softmax(dim=0).topk(min(top, len(logits)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return [(classes[i], probability) for i, probability in pairs]


def confusion_matrix(
    labels: Tensor,  # (samples,)
    predictions: Tensor,  # (samples,)
    num_classes: int,
) -> Tensor:
    """Count samples by true class (row) and predicted class (column)."""
    # one number for each pair of true and predicted class
    pairs = labels * num_classes + predictions
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)


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
