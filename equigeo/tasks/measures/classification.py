"""Logits of a model on many inputs, and what they are worth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from equigeo.nn.evaluating import evaluating


@torch.no_grad()
def embed(model: Any, batches: Iterable[Any]) -> Tensor:
    """Describe inputs by the vectors that the head of a model reads, as :func:`classify` does.

    Parameters
    ----------
    model : torch.nn.Module
        With a method ``embed``.
    batches : iterable of PrimalDualGraph
        At least one.

    Returns
    -------
    Tensor, (samples, width)
        On the CPU.

    Examples
    --------
    >>> from equigeo.mesh import PrimalDualClassifier, TriangleMesh
    >>> model = PrimalDualClassifier.preset("default", num_classes=3)
    >>> graph = model.graph(TriangleMesh(torch.eye(3), torch.tensor([[0, 1, 2]])))
    >>> embed(model, [graph, graph]).shape
    torch.Size([2, 512])
    """
    device = next(model.parameters()).device
    with evaluating(model):
        return torch.cat([model.embed(batch.to(device)).cpu() for batch in batches])


@torch.no_grad()
def classify(model: nn.Module, batches: Iterable[Any]) -> Tensor:
    """Run a model in evaluation mode, a batch at a time; its mode is put back.

    Parameters
    ----------
    model : torch.nn.Module
        On any device.
    batches : iterable of Tensor or PrimalDualGraph
        At least one; moved to the model's device one after the other.

    Returns
    -------
    Tensor, (samples, classes)
        Logits, on the CPU.

    Examples
    --------
    >>> classify(nn.Linear(3, 2), [torch.zeros(4, 3), torch.zeros(1, 3)]).shape
    torch.Size([5, 2])
    """
    device = next(model.parameters()).device
    with evaluating(model):
        return torch.cat([model(batch.to(device)).cpu() for batch in batches])


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Give the share of samples whose class has the largest score.

    Parameters
    ----------
    scores : Tensor, (samples, classes)
        Logits or probabilities.
    labels : Tensor, (samples,), int64
        True classes.

    Examples
    --------
    >>> accuracy(torch.eye(2), torch.tensor([0, 0]))
    0.5
    """
    return (scores.argmax(dim=1) == labels).double().mean().item()


def confusion_matrix(labels: Tensor, predictions: Tensor, num_classes: int) -> Tensor:
    """Count samples by true class (row) and predicted class (column).

    Parameters
    ----------
    labels, predictions : Tensor, (samples,), int64
        True and predicted classes.
    num_classes : int
        How many there are.

    Returns
    -------
    Tensor, (num_classes, num_classes), int64
        Counts.

    Examples
    --------
    >>> confusion_matrix(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1]), 2).tolist()
    [[1, 1], [0, 1]]
    """
    # one number for each pair of true and predicted class
    pairs = labels * num_classes + predictions
    counts = torch.bincount(pairs, minlength=num_classes * num_classes)
    return counts.reshape(num_classes, num_classes)
