"""Optimiser and schedule of a recipe."""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, OneCycleLR

from equigeo.training.recipe import Recipe


def build_optimizer(
    parameters: Iterable[nn.Parameter], recipe: Recipe, steps_per_epoch: int
) -> tuple[optim.Optimizer, LRScheduler | None]:
    """Give the optimiser and, unless the rate is constant, the schedule to step after every batch.

    Examples
    --------
    >>> from equigeo.training.meshes.recipes import RECIPES
    >>> optimizer, schedule = build_optimizer([nn.Parameter()], RECIPES["paper"], 30)
    >>> type(optimizer).__name__, schedule
    ('Adam', None)
    """
    rate, decay = recipe.learning_rate, recipe.weight_decay
    optimizer: optim.Optimizer
    if recipe.optimizer == "adamw":
        optimizer = optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True)
    else:
        optimizer = optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)
    if recipe.schedule == "constant":
        return optimizer, None
    steps = recipe.epochs * steps_per_epoch
    if recipe.schedule == "cosine":
        return optimizer, CosineAnnealingLR(optimizer, steps)
    return optimizer, OneCycleLR(optimizer, rate, steps)
